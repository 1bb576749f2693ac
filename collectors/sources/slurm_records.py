"""Slurm records: jobs, nodes and node events, whatever command printed them.

Instants are nanoseconds since 1970; None is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

AMBIGUOUS_CODES = frozenset({4, 6, 7, 8, 9, 11, 15})
"""`sacct` prints an exit code above 128 less 128: 11 is 11, or 139 of a shell whose child died of signal 11."""


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
    exit_text: str = ""
    """What was printed, where that does not tell the code: see `AMBIGUOUS_CODES`."""
    step_signal: int | None = None
    """The signal of the step that ended worst (`DerivedExitCode`)."""
    nodes: tuple[str, ...] = ()
    failed_node: str | None = None
    gpus: int | None = None
    reason: str | None = None
    described: str | None = None
    """What Slurm says beside the reason, in words."""
    restarts: int | None = None
    limit: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a run may be named after: comment, account, partition, user, wckey."""
    steps: tuple[Step, ...] = ()
    part_of: str | None = None
    """The array or heterogeneous job that this one is a part of."""
    task: str | None = None
    """Its place in the array."""
    switched: int | None = None
    """When it was suspended, or resumed, last."""


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
    is_shown: bool = False
    """Told by the controller, of now; else by accounting, which also tells when it was over."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that is no record: its line or place from 1, the field, the value, and why."""

    line: int
    field: str
    value: str
    reason: str


Record = Job | NodeEvent | Refused


def joined(jobs: Iterable[Job]) -> list[Job]:
    """One record for each incarnation, where several commands told of it.

    What the first told holds, except that an end holds against what was told before it; what it left out is taken from
    the others: the queue knows the wait status and the count of requeues, accounting the steps and who cancelled.
    """
    found: dict[tuple[str, int | None], Job] = {}
    for job in jobs:
        key = (job.job, job.submit or job.start)
        before = found.get(key)
        if before is None:
            found[key] = job
        else:
            is_news = job.end is not None and before.end is None
            found[key] = _filled(job, before) if is_news else _filled(before, job)
    return list(found.values())


def _filled(job: Job, other: Job) -> Job:
    """A record with what another of the same incarnation knows besides."""
    told = {each.name: getattr(other, each.name) for each in fields(job) if not _is_known(getattr(job, each.name))}
    if _is_known(job.exit_code) or _is_known(job.signal):  # both are of one status
        told.pop("exit_code", None)
        told.pop("signal", None)
    return replace(job, **told)


def _is_known(value: object) -> bool:
    return value is not None and value != () and value != {}


def printable(record: Record) -> Record:
    """The record with a space for every character that no name may hold: an answer may be broken on its way."""
    found: dict[str, object] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, str) and not value.isprintable():
            found[each.name] = _printable(value)
        elif isinstance(value, tuple) and any(isinstance(one, str) and not one.isprintable() for one in value):
            found[each.name] = tuple(_printable(one) if isinstance(one, str) else one for one in value)
    if isinstance(record, Job) and not all(value.isprintable() for value in record.labels.values()):
        found["labels"] = {name: _printable(value) for name, value in record.labels.items()}
    return replace(record, **found) if found else record  # type: ignore[arg-type]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
