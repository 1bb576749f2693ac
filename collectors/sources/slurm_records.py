"""Slurm records: jobs, nodes and node events as Slurm's commands print them, whatever the version.

Understood are `sacct` and `sacctmgr show event` with `-P` or `-p`, `scontrol show job` and `show node` (also `-o`),
and the JSON of `sacct`, `squeue`, `scontrol` and `sinfo` from 22.05 on.

Rules
- JSON differs by version: a number is plain or `{"set", "infinite", "number"}`, a state one word or a list of words,
  an exit code a wait status, an object of words, or one of lists. All of them give one record.
- What contradicts itself is unknown: 22.05 says `SUCCESS` and 0 of a job that failed with 3 (its text says 3:0).
- Instants of text are local to the cluster and carry no zone; seconds since 1970 are taken as such.
- A job that is running tells the end it is allowed, and one that waits the start it is promised: neither happened.
- A row that makes no sense is told (`Refused`) and the others are taken.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rerail.collectors.sources.cycle_info import node_names

SECOND = 1_000_000_000
EARLIEST, LATEST = 946_684_800, 4_102_444_800
RUNNING = frozenset(
    {"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "RESIZING", "SIGNALING", "STOPPED"}
)
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
     "PREEMPTED", "REQUEUED", "REVOKED", "TIMEOUT"}
)  # fmt: skip
WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
STATES = tuple(sorted(RUNNING | ENDED | WAITING))
NOTHING = frozenset(
    {"", "none", "unknown", "n/a", "(null)", "none assigned", "invalid", "null", "unlimited", "partition_limit"}
)
_SLURM_JSON = re.compile(
    r'"(?:Slurm|slurm)"\s*:\s*\{|"jobs"\s*:\s*\[[\s\S]*"(?:job_state|allocation_nodes|accrue_time|derived_exit_code)"\s*:'
    r'|"(?:sinfo|nodes)"\s*:\s*\[[\s\S]*"(?:reason_changed_at|slurmd_version|slurmd_start_time)"\s*:'
)
_RULER = re.compile(r"-{2,}(?: +-{2,})+[ ]*(?:\r?\n|$)")
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_:./%-]{0,60})=")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_REASON_BY = re.compile(r"\[([^\]@\s]{1,100})@([^\]\s]{1,40})\]\s*$")
_GPUS = re.compile(r"gres/gpu(?::[\w.-]+)?[=:](\d{1,7})")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job, as far as it tells how the job ended."""

    name: str
    state: str
    exit_code: int | None
    signal: int | None
    nodes: tuple[str, ...]
    end: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """One incarnation of a job: from its submission, or requeue, to its end. Instants in ns; None is not known."""

    job: str
    name: str | None
    state: str
    cluster: str | None = None
    state_flags: tuple[str, ...] = ()
    by: str | None = None
    """Who cancelled it: a user id or name."""
    submit: int | None = None
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    failed_node: str | None = None
    gpus: int | None = None
    reason: str | None = None
    restarts: int | None = None
    limit: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a run may be named after: comment, account, partition, user, wckey."""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node was in a state from `start` on; `end` None: still, or not known."""

    node: str
    state: str
    start: int | None
    end: int | None = None
    reason: str | None = None
    by: str | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that is no record: its line or place from 1, the field, the value, and why."""

    line: int
    field: str
    value: str
    reason: str


Record = Job | NodeEvent | Refused


def is_slurm(head: bytes) -> bool:
    """Whether a file that begins so is the output of one of Slurm's commands."""
    text = head.lstrip().decode("utf-8", "replace")
    first = text.split("\n", 1)[0].strip().lower()
    if first.startswith(("jobid=", "nodename=")):
        return True
    if _RULER.match(text.partition("\n")[2]) and {"jobid", "state"} <= set(first.split()):
        return True
    columns = first.split("|")
    if len(columns) > 2 and ({"jobid", "state"} <= set(columns) or {"nodename", "timestart"} <= set(columns)):
        return True
    return text[:1] == "{" and _SLURM_JSON.search(text) is not None


def read(content: bytes, *, zone_seconds: int | None = None) -> Iterator[Record]:
    """The records of one output, in order. `zone_seconds`: the cluster's zone, east of UTC; None: this machine's."""
    text = content.decode("utf-8", "replace")
    stripped = text.lstrip()
    if stripped[:1] in ("{", "["):
        yield from _read_json(stripped)
    elif stripped.lower().startswith(("jobid=", "nodename=")):
        yield from _read_scontrol(text, zone_seconds)
    elif _RULER.match(stripped.partition("\n")[2]):
        yield from _read_columns(_separated(stripped), zone_seconds)
    elif "|" in stripped.split("\n", 1)[0]:
        yield from _read_columns(text, zone_seconds)
    elif stripped:
        first = stripped.split("\n", 1)[0][:200]
        yield Refused(1, "header", first, "not the output of sacct -P, sacctmgr -P, scontrol show, or --json")


# --- text with columns ---


def _read_columns(text: str, zone: int | None) -> Iterator[Record]:
    header: list[str] | None = None
    jobs: list[Job | Refused | NodeEvent] = []
    for number, line in enumerate(text.splitlines(), 1):
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


def _separated(text: str) -> str:
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
        end=instant(row.get("timeend", ""), zone), reason=_text(row.get("reason")), by=_text(row.get("user")),
        cluster=_text(row.get("cluster")),
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
                step, state, code, signal, node_names(_text(row.get("nodelist"))), instant(row.get("end", ""), zone)
            )
            jobs[-1] = _with_step(last, told)
        return
    jobs.append(
        Job(
            job=(row.get("jobidraw") or name)[:200],
            name=_text(row.get("jobname")),
            state=state,
            state_flags=flags,
            by=by,
            cluster=_text(row.get("cluster")),
            submit=instant(row.get("submit", ""), zone),
            eligible=instant(row.get("eligible", ""), zone),
            start=None if state in WAITING else instant(row.get("start", ""), zone),
            end=instant(row.get("end", ""), zone) if state in ENDED else None,
            exit_code=code,
            signal=signal,
            nodes=node_names(_text(row.get("nodelist"))),
            failed_node=_text(row.get("failednode")),
            gpus=_gpus(row.get("alloctres") or row.get("reqtres") or ""),
            reason=_text(row.get("reason")),
            restarts=_digits(row.get("restarts", "")),
            limit=_text(row.get("timelimit")),
            labels=_labels(row),
        )
    )


def _with_step(job: Job, step: Step) -> Job:
    return replace(job, steps=(*job.steps, step)) if len(job.steps) < 200 else job


# --- scontrol show ---


def _read_scontrol(text: str, zone: int | None) -> Iterator[Record]:
    record: dict[str, str] = {}
    begun = 0
    for number, line in enumerate(text.splitlines(), 1):
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
        name=_text(record.get("JobName")),
        state=state,
        state_flags=flags,
        by=by,
        submit=instant(record.get("SubmitTime", ""), zone),
        eligible=instant(record.get("EligibleTime", ""), zone),
        start=None if state in WAITING else instant(record.get("StartTime", ""), zone),
        end=instant(record.get("EndTime", ""), zone) if state in ENDED else None,
        exit_code=code,
        signal=signal,
        nodes=node_names(_text(record.get("NodeList"))),
        failed_node=_text(record.get("FailedNode")),
        gpus=_gpus(record.get("AllocTRES") or record.get("TRES") or ""),
        reason=_text(record.get("Reason")),
        restarts=_digits(record.get("Restarts", "")),
        limit=_text(record.get("TimeLimit")),
        labels=_labels(
            {
                "user": record.get("UserId", "").partition("(")[0],
                "partition": record.get("Partition", ""),
                "account": record.get("Account", ""),
                "comment": record.get("Comment", ""),
                "wckey": record.get("WCKey", ""),
            }
        ),
    )


def _shown_node(record: Mapping[str, str], line: int, zone: int | None) -> Record:
    state = record.get("State", "")
    if not state:
        return Refused(line, "State", "", f"node {record['NodeName']} has none")
    reason = record.get("Reason", "")
    by = _REASON_BY.search(reason)
    return NodeEvent(
        node=record["NodeName"][:200], state=state.upper(), start=None if by is None else instant(by[2], zone),
        reason=_text(_REASON_BY.sub("", reason)), by=None if by is None else by[1],
    )  # fmt: skip


# --- JSON ---


def _read_json(text: str) -> Iterator[Record]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield Refused(1, "file", text[:60], f"not JSON: {error}")
        return
    if isinstance(told, list):
        told = {"jobs": told}
    if not isinstance(told, dict):
        yield Refused(1, "file", text[:60], "not an object")
        return
    is_old = _version(told) is not None and _version(told) < (22, 6)  # type: ignore[operator]
    for number, job in enumerate(_list(told.get("jobs")), 1):
        yield (
            _json_job(job, number, is_old)
            if isinstance(job, dict)
            else Refused(number, "jobs", str(job)[:100], "no job")
        )
    for number, node in enumerate([*_list(told.get("nodes")), *_list(told.get("sinfo"))], 1):
        if isinstance(node, dict):
            yield from _json_nodes(node, number)


def _version(told: Mapping[str, Any]) -> tuple[int, int] | None:
    meta = _dict(told.get("meta"))
    version = _dict(_dict(meta.get("Slurm") or meta.get("slurm")).get("version"))
    major, minor = _digits(str(version.get("major", ""))), _digits(str(version.get("minor", "")))
    return None if major is None else (major, minor or 0)


def _json_job(told: Mapping[str, Any], number: int, is_old: bool) -> Record:
    words = _dict(told.get("state"))
    state, by, flags = state_of(told.get("job_state") or words.get("current") or told.get("state") or "")
    job = _number(told.get("job_id"))
    if job is None or job <= 0:
        return Refused(number, "job_id", str(told.get("job_id"))[:100], "not a job id")
    if state is None:
        return Refused(number, "state", str(told.get("job_state") or told.get("state"))[:100], "not a state of a job")
    times = _dict(told.get("time"))
    code, signal = _json_exit(told.get("exit_code"))
    if code == 0 and signal is None and state == "FAILED" and (is_old or "time" in told):
        code = None
    comment = told.get("comment")
    association = _dict(told.get("association"))
    return Job(
        job=str(job),
        name=_text(told.get("name")),
        state=state,
        state_flags=flags,
        by=by or (_text(told.get("kill_request_user")) if state == "CANCELLED" else None),
        cluster=_text(told.get("cluster")),
        submit=_seconds(times.get("submission") or told.get("submit_time")),
        eligible=_seconds(times.get("eligible") or told.get("eligible_time")),
        start=None if state in WAITING else _seconds(times.get("start") or told.get("start_time")),
        end=_seconds(times.get("end") or told.get("end_time")) if state in ENDED else None,
        exit_code=code,
        signal=signal,
        nodes=_json_names(told.get("nodes") or _dict(told.get("job_resources")).get("nodes")),
        failed_node=_text(told.get("failed_node")),
        gpus=_json_gpus(told),
        reason=_text(words.get("reason") or told.get("state_reason")),
        restarts=_number(told.get("restart_cnt")),
        limit=_limit(times.get("limit") if times else told.get("time_limit")),
        labels=_labels(
            {
                "user": association.get("user") or told.get("user_name") or told.get("user"),
                "account": told.get("account"),
                "partition": told.get("partition"),
                "comment": _dict(comment).get("job") if isinstance(comment, dict) else comment,
                "wckey": _dict(told.get("wckey")).get("wckey")
                if isinstance(told.get("wckey"), dict)
                else told.get("wckey"),
            }
        ),
        steps=tuple(step for each in _list(told.get("steps"))[:200] if (step := _json_step(_dict(each))) is not None),
    )


def _json_step(told: Mapping[str, Any]) -> Step | None:
    state, _, _ = state_of(told.get("state") or "")
    if state is None:
        return None
    code, signal = _json_exit(told.get("exit_code"))
    about = _dict(told.get("step"))
    name = about.get("id") if isinstance(about.get("id"), str) else about.get("name")
    if code == 0 and signal is None and state != "COMPLETED":
        code = None
    return Step(
        str(name or "step"), state, code, signal, _json_names(told.get("nodes")),
        _seconds(_dict(told.get("time")).get("end")),
    )  # fmt: skip


def _json_exit(told: object) -> tuple[int | None, int | None]:
    """Exit code and signal: of a wait status, or of an object of words."""
    if isinstance(told, (int, float)) and not isinstance(told, bool):
        status = int(told)
        return (status >> 8 & 0xFF, status & 0x7F or None) if 0 <= status <= 0xFFFF else (None, None)
    if not isinstance(told, dict):
        return None, None
    if "number" in told:
        return _json_exit(_number(told))
    signal = _dict(told.get("signal"))
    number = _number(signal.get("signal_id") if "signal_id" in signal else signal.get("id"))
    return _number(told.get("return_code")), number or None


def _json_nodes(told: Mapping[str, Any], number: int) -> Iterator[Record]:
    about = _dict(told.get("node"))
    states = told.get("state") or about.get("state") or ""
    words = [str(word).upper() for word in (states if isinstance(states, list) else [states]) if word]
    words += [str(word).upper() for word in _list(told.get("state_flags"))]
    reason = told.get("reason")
    described = _text(_dict(reason).get("description") if isinstance(reason, dict) else reason)
    names = node_names(_text(told.get("name"))) or _json_names(told.get("nodes"))
    if not names or not words:
        yield Refused(number, "nodes", str(told.get("name"))[:100], "a node without a name or a state")
        return
    by = told.get("reason_set_by_user") or _dict(reason).get("user")
    since = told.get("reason_changed_at") or _dict(reason).get("time")
    for name in names:
        yield NodeEvent(
            name,
            "+".join(words),
            _seconds(since),
            reason=described,
            by=_text(by),
            cluster=_text(told.get("cluster_name")),
        )


def _json_names(told: object) -> tuple[str, ...]:
    if isinstance(told, dict):
        listed = told.get("list") or told.get("nodes") or told.get("range")
        return _json_names(listed)
    if isinstance(told, list):
        return tuple(str(name)[:200] for name in told[:100_000] if isinstance(name, str) and name)
    return node_names(_text(told))


def _json_gpus(told: Mapping[str, Any]) -> int | None:
    if isinstance(text := told.get("tres_alloc_str"), str) and (found := _gpus(text)) is not None:
        return found
    for entry in _list(_dict(told.get("tres")).get("allocated")):
        entry = _dict(entry)
        if entry.get("type") == "gres" and str(entry.get("name", "")).partition(":")[0] == "gpu":
            return _number(entry.get("count"))
    return None


def _limit(told: object) -> str | None:
    """Minutes, as Slurm's own text; None where there is no limit or it is not known."""
    minutes = _number(told)
    return None if minutes is None or minutes <= 0 else str(minutes)


# --- words ---


def state_of(told: object) -> tuple[str | None, str | None, tuple[str, ...]]:
    """`(state, who cancelled, flags)` out of one word or several; the state is None where none of them is one."""
    words = [str(word) for word in told if word] if isinstance(told, list) else [str(told)]
    by, known, flags = None, None, []
    for word in words:
        text = word.strip().upper()
        found = re.match(r"CANCELLED BY (\S{1,100})", text)
        if found is not None:
            by, text = word.strip()[13:].strip(), "CANCELLED"
        if text.endswith("+"):  # cut off to the width of its column, or two states at once
            text = next((state for state in STATES if len(text) > 4 and state.startswith(text[:-1])), text[:-1])
        for part in text.split("+"):
            if known is None and part in STATES:
                known = part
            elif part:
                flags.append(part)
    return known, by, tuple(flags)


def exit_of(text: str) -> tuple[int | None, int | None]:
    """`code:signal`; each None where it is not known, the signal also where there was none."""
    found = re.fullmatch(r"(\d{1,5}):(\d{1,3})", text.strip())
    return (None, None) if found is None else (int(found[1]), int(found[2]) or None)


def instant(text: str, zone_seconds: int | None) -> int | None:
    """Nanoseconds since 1970 of a local stamp, or of seconds since 1970; None for anything else."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 12:
        return _seconds(int(text))
    if not _STAMP.fullmatch(text):
        return None
    try:
        parts = time.strptime(text, "%Y-%m-%dT%H:%M:%S")
        if zone_seconds is None:
            return _seconds(int(time.mktime(parts)))
        return _seconds(calendar.timegm(parts) - zone_seconds)
    except (ValueError, OverflowError):
        return None


def _seconds(told: object) -> int | None:
    seconds = _number(told)
    return seconds * SECOND if seconds is not None and EARLIEST <= seconds < LATEST else None


def _number(told: object) -> int | None:
    """A number, plain or wrapped; None where it is not set or without end."""
    if isinstance(told, dict):
        if told.get("set") is False or told.get("infinite") is True:
            return None
        told = told.get("number")
    if isinstance(told, bool) or told is None:
        return None
    if isinstance(told, str):
        return _digits(told.strip())
    if isinstance(told, int):
        return told if abs(told) < 2**62 else None
    return int(told) if isinstance(told, float) and abs(told) < 2**62 else None


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def _text(told: object) -> str | None:
    """Words, without what Slurm prints where there are none."""
    if not isinstance(told, str):
        return None
    words = "".join(letter if letter.isprintable() else " " for letter in told).strip()
    return None if words.lower() in NOTHING else words[:2000]


def _labels(row: Mapping[str, object]) -> dict[str, str]:
    found = {name: _text(row.get(name)) for name in ("comment", "account", "partition", "user", "wckey")}
    return {name: value[:200] for name, value in found.items() if value}


def _gpus(text: str) -> int | None:
    counts = [int(count) for count in _GPUS.findall(text)]
    plain = re.search(r"gres/gpu=(\d{1,7})", text)
    return int(plain[1]) if plain else sum(counts) if counts else None


def _dict(told: object) -> dict[str, Any]:
    return told if isinstance(told, dict) else {}


def _list(told: object) -> list[Any]:
    return told if isinstance(told, list) else []
