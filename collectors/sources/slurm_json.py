"""Slurm JSON: `sacct`, `squeue`, `scontrol` and `sinfo` with `--json`, from 22.05 on.

A number is plain or `{"set", "infinite", "number"}`, a state one word or a list of words, an exit code a wait status,
an object of words, or one of lists. All of them give one record. An answer without
any, that tells an error, is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rerail.collectors.sources.cycle_info import node_names
from rerail.collectors.sources.slurm_records import Job, NodeEvent, Record, Refused, Step
from rerail.collectors.sources.slurm_words import (
    ENDED,
    WAITING,
    digits_of,
    gpus_of,
    labels_of,
    limit_of,
    mapping,
    number_of,
    seconds_of,
    sequence,
    state_of,
    words_of,
)

_MOST_DIGITS = 100


def read_json(text: str) -> Iterator[Record]:
    try:
        told = _loaded(text)
    except (ValueError, RecursionError) as error:
        yield Refused(1, "file", text[:60], f"not JSON: {error}")
        return
    if isinstance(told, list):
        told = {"jobs": told}
    if not isinstance(told, dict):
        yield Refused(1, "file", text[:60], "not an object")
        return
    if not any(isinstance(told.get(name), list) for name in ("jobs", "nodes", "sinfo")):
        yield Refused(1, "file", ", ".join(map(str, list(told)[:8])), "holds no list of jobs, nodes or sinfo")
        return
    if not any(told.get(name) for name in ("jobs", "nodes", "sinfo")) and (said := _error(told)):
        yield Refused(1, "errors", said[:100], "it tells an error, and nothing else")
    is_old = _version(told) is not None and _version(told) < (22, 6)  # type: ignore[operator]
    for number, job in enumerate(sequence(told.get("jobs")), 1):
        yield (
            _json_job(job, number, is_old)
            if isinstance(job, dict)
            else Refused(number, "jobs", str(job)[:100], "no job")
        )
    for number, node in enumerate([*sequence(told.get("nodes")), *sequence(told.get("sinfo"))], 1):
        if isinstance(node, dict):
            yield from _json_nodes(node, number)


def _error(told: Mapping[str, Any]) -> str:
    """The first error that an answer tells of itself; empty where it tells none. 22.05 ends with 0 all the same."""
    first = next((each for each in sequence(told.get("errors")) if isinstance(each, dict)), {})
    return ": ".join(str(first[name]) for name in ("source", "description", "error") if first.get(name))


def _loaded(text: str) -> Any:
    """The value of a JSON text. One number with thousands of digits costs itself, not the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < _MOST_DIGITS else math.inf)


def _version(told: Mapping[str, Any]) -> tuple[int, int] | None:
    meta = mapping(told.get("meta"))
    version = mapping(mapping(meta.get("Slurm") or meta.get("slurm")).get("version"))
    major, minor = digits_of(str(version.get("major", ""))), digits_of(str(version.get("minor", "")))
    return None if major is None else (major, minor or 0)


def _json_job(told: Mapping[str, Any], number: int, is_old: bool) -> Record:
    words = mapping(told.get("state"))
    state, by, flags = state_of(told.get("job_state") or words.get("current") or told.get("state") or "")
    job = number_of(told.get("job_id"))
    if job is None or job <= 0:
        return Refused(number, "job_id", str(told.get("job_id"))[:100], "not a job id")
    if state is None:
        return Refused(number, "state", str(told.get("job_state") or told.get("state"))[:100], "not a state of a job")
    for name in ("exit_code", "derived_exit_code"):
        status = told.get(name)
        if isinstance(status, float) and not math.isfinite(status):
            return Refused(number, name, str(status), "no number")
    times = mapping(told.get("time"))
    code, signal = _json_exit(told.get("exit_code"))
    if code == 0 and signal is None and state == "FAILED" and (is_old or "time" in told):
        code = None
    comment = told.get("comment")
    association = mapping(told.get("association"))
    return Job(
        job=str(job),
        name=words_of(told.get("name")),
        state=state,
        state_flags=flags,
        by=by or (words_of(told.get("kill_request_user")) if state == "CANCELLED" else None),
        cluster=words_of(told.get("cluster")),
        submit=seconds_of(times.get("submission") or told.get("submit_time")),
        eligible=seconds_of(times.get("eligible") or told.get("eligible_time")),
        start=None if state in WAITING else seconds_of(times.get("start") or told.get("start_time")),
        end=seconds_of(times.get("end") or told.get("end_time")) if state in ENDED else None,
        exit_code=code,
        signal=signal,
        step_signal=_json_exit(told.get("derived_exit_code"))[1],
        nodes=_json_names(told.get("nodes") or mapping(told.get("job_resources")).get("nodes")),
        failed_node=words_of(told.get("failed_node")),
        gpus=_json_gpus(told),
        reason=words_of(words.get("reason") or told.get("state_reason")),
        described=words_of(told.get("state_description")),
        restarts=number_of(told.get("restart_cnt")),
        limit=limit_of(number_of(times.get("limit") if times else told.get("time_limit"))),
        labels=labels_of(
            {
                "user": association.get("user") or told.get("user_name") or told.get("user"),
                "account": told.get("account"),
                "partition": told.get("partition"),
                "comment": mapping(comment).get("job") if isinstance(comment, dict) else comment,
                "wckey": mapping(told.get("wckey")).get("wckey")
                if isinstance(told.get("wckey"), dict)
                else told.get("wckey"),
            }
        ),
        steps=tuple(
            step for each in sequence(told.get("steps"))[:200] if (step := _json_step(mapping(each))) is not None
        ),
        part_of=_json_whole(told),
        task=None if (task := number_of(told.get("array_task_id"))) is None else str(task),
        switched=seconds_of(told.get("suspend_time")),
    )


def _json_whole(told: Mapping[str, Any]) -> str | None:
    """The array, or the heterogeneous job, of which this is a part."""
    array, het = mapping(told.get("array")), mapping(told.get("het"))
    told_by = (told.get("array_job_id"), told.get("het_job_id"), array.get("job_id"), het.get("job_id"))
    return next((str(number) for each in told_by if (number := number_of(each))), None)


def _json_step(told: Mapping[str, Any]) -> Step | None:
    state, _, _ = state_of(told.get("state") or "")
    if state is None:
        return None
    code, signal = _json_exit(told.get("exit_code"))
    about = mapping(told.get("step"))
    name = about.get("id") if isinstance(about.get("id"), str) else about.get("name")
    if code == 0 and signal is None and state != "COMPLETED":
        code = None
    return Step(
        str(name or "step"), state, code, signal, _json_names(told.get("nodes")),
        seconds_of(mapping(told.get("time")).get("end")),
    )  # fmt: skip


def _json_exit(told: object) -> tuple[int | None, int | None]:
    """Exit code and signal: of a wait status, or of an object of words."""
    if isinstance(told, (int, float)) and not isinstance(told, bool):
        status = int(told)
        return (status >> 8 & 0xFF, status & 0x7F or None) if 0 <= status <= 0xFFFF else (None, None)
    if not isinstance(told, dict):
        return None, None
    if "number" in told:
        return _json_exit(number_of(told))
    signal = mapping(told.get("signal"))
    number = number_of(signal.get("signal_id") if "signal_id" in signal else signal.get("id"))
    return number_of(told.get("return_code")), number or None


def _json_nodes(told: Mapping[str, Any], number: int) -> Iterator[Record]:
    about = mapping(told.get("node"))
    states = told.get("state") or about.get("state") or ""
    words = [str(word).upper() for word in (states if isinstance(states, list) else [states]) if word]
    words += [str(word).upper() for word in sequence(told.get("state_flags"))]
    reason = told.get("reason")
    described = words_of(mapping(reason).get("description") if isinstance(reason, dict) else reason)
    names = node_names(words_of(told.get("name"))) or _json_names(told.get("nodes"))
    if not names or not words:
        yield Refused(number, "nodes", str(told.get("name"))[:100], "a node without a name or a state")
        return
    by = told.get("reason_set_by_user") or mapping(reason).get("user")
    since = told.get("reason_changed_at") or mapping(reason).get("time")
    for name in names:
        yield NodeEvent(
            name,
            "+".join(words),
            seconds_of(since),
            reason=described,
            by=words_of(by),
            cluster=words_of(told.get("cluster_name")),
        )


def _json_names(told: object) -> tuple[str, ...]:
    if isinstance(told, dict):
        listed = told.get("list") or told.get("nodes") or told.get("range")
        return _json_names(listed)
    if isinstance(told, list):
        return tuple(str(name)[:200] for name in told[:100_000] if isinstance(name, str) and name)
    return node_names(words_of(told))


def _json_gpus(told: Mapping[str, Any]) -> int | None:
    if isinstance(text := told.get("tres_alloc_str"), str) and (found := gpus_of(text)) is not None:
        return found
    for entry in sequence(mapping(told.get("tres")).get("allocated")):
        entry = mapping(entry)
        if entry.get("type") == "gres" and str(entry.get("name", "")).partition(":")[0] == "gpu":
            return number_of(entry.get("count"))
    return None
