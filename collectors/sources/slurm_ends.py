"""Slurm ends: how a job ended, out of a record that says it in several places, or not in so many words.

Rules
- Slurm says `REQUEUED` of every end after which it starts a job again. Where the script left with a code (of
  `RequeueExit`) it failed; where a node could not start it, it could not be started; else it was asked for.
- A job that was cancelled before it had a node is no attempt, though the queue gives it a start.
- 125 and 53 stand where a signal does, and are none: a step that ran out of memory, a script that was not started.
- Accounting tells why a job waited long after it ended: only some reasons are those of an end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rerail.collectors.masking import masked
from rerail.collectors.sources.slurm_records import Job

OUT_OF_MEMORY, NOT_LAUNCHED = 125, 53
"""No signals, though they stand where one does: a step that ran out of memory, a script that could not be started."""

ENDING_REASONS = frozenset(
    {"BadConstraints", "BootFailure", "DeadLine", "DependencyNeverSatisfied", "InactiveLimit", "InvalidAccount",
     "InvalidQOS", "JobLaunchFailure", "NodeDown", "NonZeroExitCode", "OutOfMemory", "RaisedSignal", "SystemFailure",
     "TimeLimit"}
)  # fmt: skip
_LAUNCH_FAILED = re.compile(r"launch[_ ]failed[_ ]requeued[_ ]held")


def as_they_ended(jobs: Sequence[Job]) -> Iterator[Job]:
    """The records, in order, each with the state that it ended in: see the rules."""
    held = {job.job for job in jobs if job.described is not None and _LAUNCH_FAILED.search(job.described)}
    last_of_held = {job.job: job for job in jobs if job.job in held and job.state == "REQUEUED"}
    for job in jobs:
        if job.state == "REQUEUED" and (job.exit_code or job.exit_text):
            yield replace(job, state="FAILED")
        elif job.state == "REQUEUED" and (_was_never_run(job) or last_of_held.get(job.job) is job):
            yield replace(job, state="LAUNCH_FAILED")
        elif job.state in ("CANCELLED", "DEADLINE", "REVOKED") and not job.nodes and job.start == job.end:
            yield replace(job, start=None)
        else:
            yield job


def _was_never_run(job: Job) -> bool:
    """Its script left no trace: one that runs is ended by a signal, and its step says so."""
    batch = next((step for step in job.steps if step.name == "batch"), None)
    return batch is not None and batch.state == "CANCELLED" and batch.exit_code is None and batch.signal is None


def _reason(job: Job) -> str | None:
    return None if job.reason is None else masked(job.reason)


def why_it_waited(job: Job) -> str | None:
    """Why a job waited; of one that is over the queue tells why it ended instead."""
    return None if _is_of_the_end(job) else _reason(job)


def why_it_ended(job: Job) -> str | None:
    """Why a job ended; accounting tells why it waited instead, long after it did."""
    return _reason(job) if _is_of_the_end(job) else None


def _is_of_the_end(job: Job) -> bool:
    return (job.reason or "").partition(":")[0] in ENDING_REASONS


def is_out_of_memory(job: Job) -> bool:
    is_told = "OUT_OF_MEMORY" in (job.state, *(step.state for step in job.steps))
    return is_told or OUT_OF_MEMORY in (job.signal, job.step_signal)


def end_words(job: Job) -> str:
    state = f"CANCELLED by {job.by}" if job.by else job.state
    parts = [f"JobId={job.job}", f"State={state}"]
    if job.exit_code is not None or job.signal is not None:
        parts.append(f"ExitCode={job.exit_code or 0}:{job.signal or 0}")
    elif job.exit_text:
        parts.append(f"ExitCode={job.exit_text}")
    if job.step_signal == OUT_OF_MEMORY and job.state != "OUT_OF_MEMORY":
        parts.append("DerivedExitCode=0:125 (OUT_OF_MEMORY in a step)")
    if job.failed_node:
        parts.append(f"FailedNode={job.failed_node}")
    if reason := why_it_ended(job):
        parts.append(f"Reason={reason}")
    return " ".join(parts)[:4000]


def exit_code(job: Job, is_oom: bool) -> int | None:
    """A job's exit code, a signal as a negative one; None where nothing that is known says one."""
    if is_oom:
        return -9
    if job.signal == NOT_LAUNCHED and (job.reason in (None, "JobLaunchFailure")):
        return None
    if job.signal is not None and 0 < job.signal < 65:
        return -job.signal
    return job.exit_code or None


def telling_steps(job: Job) -> list[Any]:
    """The steps that say more than the job does."""
    return [step for step in job.steps if step.state in ("OUT_OF_MEMORY", "NODE_FAIL") and step.state != job.state][:8]
