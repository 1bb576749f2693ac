"""Slurm text: the tables of `sacct` and `sacctmgr`, and what `scontrol show` prints.

A table has bars between its columns (`-P`, `-p`) or columns of fixed width under a ruler of dashes. Of `scontrol`, one
record begins with each `JobId=` or `NodeName=`, on one line (`-o`) or on several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rerail.collectors.sources.cycle_info import node_names
from rerail.collectors.sources.slurm_records import AMBIGUOUS_CODES, Job, NodeEvent, Record, Refused, Step
from rerail.collectors.sources.slurm_words import (
    ENDED,
    WAITING,
    digits_of,
    exit_of,
    gpus_of,
    instant,
    labels_of,
    limit_told,
    state_of,
    words_of,
)

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_:./%-]{0,60})=")
_REASON_BY = re.compile(r"\[([^\]@\s]{1,100})@([^\]\s]{1,40})\]\s*$")


def read_columns(text: str, zone: int | None) -> Iterator[Record]:
    header: list[str] | None = None
    jobs: list[Job | Refused | NodeEvent] = []
    for number, line in enumerate(_lines(text), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if header is None:
            header = [cell.lower() for cell in cells]
            if not ({"jobid", "state"} <= set(header) or {"nodename", "timestart"} <= set(header)):
                yield Refused(
                    number, "header", line[:200], "JobID and State, or NodeName and TimeStart, are not among it"
                )
                return
            continue
        if [cell.lower() for cell in cells] == header:
            continue  # files put together
        if len(cells) != len(header):
            jobs.append(Refused(number, "row", line[:200], f"{len(cells)} columns where the header has {len(header)}"))
            continue
        row = dict(zip(header, cells, strict=True))
        if "timestart" in row:
            jobs.append(_event_row(row, number, zone))
        else:
            _job_row(row, number, zone, jobs)
    yield from jobs


def _lines(text: str) -> Iterator[str]:
    """The lines of a text one by one: a list of them may take many times what the text takes."""
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end].rstrip("\r")
        at = end + 1


def separated(text: str) -> str:
    """A table in columns of fixed width, under a ruler of dashes, with bars between the columns."""
    header, ruler, *rows = text.splitlines()
    edges = [(found.start(), found.end()) for found in re.finditer(r"-+", ruler)]
    return "\n".join("|".join(row[start:end].strip() for start, end in edges) for row in (header, *rows) if row.strip())


def _event_row(row: Mapping[str, str], number: int, zone: int | None) -> Record:
    start = instant(row["timestart"], zone)
    if start is None:
        return Refused(number, "TimeStart", row["timestart"], "not an instant")
    return NodeEvent(
        node=row["nodename"][:200], state=row.get("state", "").upper(), start=start,
        end=instant(row.get("timeend", ""), zone), reason=words_of(row.get("reason")), by=words_of(row.get("user")),
        cluster=words_of(row.get("cluster")),
    )  # fmt: skip


def _job_row(row: Mapping[str, str], number: int, zone: int | None, jobs: list[Record]) -> None:
    name, _, step = row["jobid"].partition(".")
    state, by, flags = state_of(row["state"])
    if not re.match(r"\d{1,12}(?:[_+]\S{1,100})?$", name):
        jobs.append(Refused(number, "JobID", row["jobid"], "not a job id"))
        return
    if state is None:
        jobs.append(Refused(number, "State", row["state"], "not a state of a job"))
        return
    code, signal = exit_of(row.get("exitcode", ""))
    if step:
        last = jobs[-1] if jobs else None
        if isinstance(last, Job) and last.job == (row.get("jobidraw") or name).partition(".")[0]:
            told = Step(
                step, state, code, signal, node_names(words_of(row.get("nodelist"))), instant(row.get("end", ""), zone)
            )
            jobs[-1] = _with_step(last, told)
        return
    is_ambiguous = code in AMBIGUOUS_CODES and signal is None
    jobs.append(
        Job(
            job=(row.get("jobidraw") or name)[:200],
            name=words_of(row.get("jobname")),
            state=state,
            state_flags=flags,
            by=by,
            cluster=words_of(row.get("cluster")),
            submit=instant(row.get("submit", ""), zone),
            eligible=instant(row.get("eligible", ""), zone),
            start=None if state in WAITING else instant(row.get("start", ""), zone),
            end=instant(row.get("end", ""), zone) if state in ENDED else None,
            exit_code=None if is_ambiguous else code,
            signal=signal,
            exit_text=row.get("exitcode", "") if is_ambiguous else "",
            step_signal=exit_of(row.get("derivedexitcode", ""))[1],
            nodes=node_names(words_of(row.get("nodelist"))),
            failed_node=words_of(row.get("failednode")),
            gpus=gpus_of(row.get("alloctres") or row.get("reqtres") or ""),
            reason=words_of(row.get("reason")),
            restarts=digits_of(row.get("restarts", "")),
            limit=limit_told(row.get("timelimit") or ""),
            labels=labels_of(row),
        )
    )


def _with_step(job: Job, step: Step) -> Job:
    return replace(job, steps=(*job.steps, step)) if len(job.steps) < 200 else job


def read_scontrol(text: str, zone: int | None) -> Iterator[Record]:
    record: dict[str, str] = {}
    begun = 0
    for number, line in enumerate(_lines(text), 1):
        stripped = line.strip()
        if stripped.startswith(("JobId=", "NodeName=")):
            if record:
                yield _shown(record, begun, zone)
            record, begun = {}, number
        keys = list(_KEY.finditer(stripped))
        for index, key in enumerate(keys):
            is_last_word = key[1] in ("Reason", "Comment", "OS") and stripped.startswith(key[1])
            until = keys[index + 1].start() if index + 1 < len(keys) and not is_last_word else len(stripped)
            record.setdefault(key[1], stripped[key.end() : until].strip())
            if is_last_word:
                break
    if record:
        yield _shown(record, begun, zone)


def _shown(record: Mapping[str, str], line: int, zone: int | None) -> Record:
    if "NodeName" in record:
        return _shown_node(record, line, zone)
    state, by, flags = state_of(record.get("JobState", ""))
    if state is None or not record.get("JobId", "").isdigit():
        wrong = "JobState" if record.get("JobId", "").isdigit() else "JobId"
        return Refused(line, wrong, record.get(wrong, ""), "not a job")
    code, signal = exit_of(record.get("ExitCode", ""))
    return Job(
        job=record["JobId"],
        name=words_of(record.get("JobName")),
        state=state,
        state_flags=flags,
        by=by,
        submit=instant(record.get("SubmitTime", ""), zone),
        eligible=instant(record.get("EligibleTime", ""), zone),
        start=None if state in WAITING else instant(record.get("StartTime", ""), zone),
        end=instant(record.get("EndTime", ""), zone) if state in ENDED else None,
        exit_code=code,
        signal=signal,
        step_signal=exit_of(record.get("DerivedExitCode", ""))[1],
        nodes=node_names(words_of(record.get("NodeList"))),
        failed_node=words_of(record.get("FailedNode")),
        gpus=gpus_of(record.get("AllocTRES") or record.get("TRES") or ""),
        reason=words_of(record.get("Reason")),
        described=words_of(record.get("Reason")),
        restarts=digits_of(record.get("Restarts", "")),
        limit=limit_told(record.get("TimeLimit", "")),
        labels=labels_of(
            {
                "user": record.get("UserId", "").partition("(")[0],
                "partition": record.get("Partition", ""),
                "account": record.get("Account", ""),
                "comment": record.get("Comment", ""),
                "wckey": record.get("WCKey", ""),
            }
        ),
        task=words_of(record.get("ArrayTaskId")),
        part_of=words_of(record.get("ArrayJobId")) or words_of(record.get("HetJobId")),
        switched=instant(record.get("SuspendTime", ""), zone),
    )


def _shown_node(record: Mapping[str, str], line: int, zone: int | None) -> Record:
    state = record.get("State", "")
    if not state:
        return Refused(line, "State", "", f"node {record['NodeName']} has none")
    reason = record.get("Reason", "")
    by = _REASON_BY.search(reason)
    return NodeEvent(
        node=record["NodeName"][:200], state=state.upper(), start=None if by is None else instant(by[2], zone),
        reason=words_of(_REASON_BY.sub("", reason)), by=None if by is None else by[1], is_shown=True,
    )  # fmt: skip
