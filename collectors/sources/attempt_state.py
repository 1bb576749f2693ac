"""Attempt state: what is known, at one place of a launcher's log, of the launcher and of its current attempt.

It holds plain JSON values only: a cursor keeps it, and who reads on takes it up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

FACTS_PER_BYTE = 16
"""So many numbers a fact of a line may have, for each byte of it: the first byte × this, and what follows."""


@dataclass(slots=True)
class AttemptState:
    """What is known of the launcher and of its current attempt. Only plain JSON values."""

    attempt: int = 0
    is_started: bool = False
    launcher: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    run: str | None = None
    ranks_per_node: int | None = None
    node_count: int | None = None
    group_rank: int | None = None
    group_ranks: dict[str, int] = field(default_factory=dict)
    """Process id of a launcher → the place of its node; several where the log of several nodes is one."""
    rank_offsets: list[int] = field(default_factory=list)
    """Rank minus local rank, as tables of launchers told; several where the log of several nodes is one."""
    last_at: int | None = None
    ended_at: int | None = None
    ended_as: str | None = None
    """The outcome with which the last attempt that ended did."""
    last_exit_at: int | None = None
    erred_at: int | None = None
    """When the last piece of evidence was told that has a stamp of its own."""
    waited_at: int | None = None
    """When the last rank said that it had waited in vain: until then its attempt was there."""
    last_mark_at: int | None = None
    """The latest moment of the current attempt that its launcher told."""
    told: list[str] = field(default_factory=list)
    """Moments of the current attempt that were stated."""
    exits: dict[str, list[int | None]] = field(default_factory=dict)
    """Process id → local rank, rank, exit code; of the current attempt."""
    past_processes: list[str] = field(default_factory=list)
    local_ranks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Machine → process id → local rank, where a launcher told that before any exit; of the current attempt."""
    held: list[dict[str, object]] = field(default_factory=list)
    evidence_count: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    """Shape of a line without its numbers → how often it was told in this attempt."""
    least_enqueued: int | None = None
    """The lowest collective that a rank of this attempt had issued, as its watchdog told."""
    timed_out: list[int] = field(default_factory=list)
    """Ranks of this attempt of which a watchdog's first word was kept."""
    unreadable_count: int = 0
    """Lines of this log that are no text."""
    unreadable_told: int = 0
    is_over: bool = False
    is_job_over: bool = False
    """A scheduler reported the end of the job of the current attempt: what follows in the log is of another job."""
    cancelled_as: str | None = None
    """The outcome that Slurm's own word for the end of the current attempt's step means; None where it said none."""
    is_signalled: bool = False
    """A signal ended the launcher of the current attempt, and nobody said whose."""
    cancelled_by: str = ""
    """What Slurm said of a cancellation of the current attempt's step without any reason: somebody asked for it."""
    rank_nodes: dict[str, str] = field(default_factory=dict)
    """`attempt/rank` → the machine that a launcher or a scheduler names for it; empty where it named two."""
    has_other_hosts: bool = False
    """The log names a machine that is not the one it is read on."""
    told_over: list[Any] = field(default_factory=list)
    """`[outcome, words, first byte, whether it is a notice]` of a line that says that the job of the current attempt is
    ended (`last_words.py`)."""
    tells_starts: bool = False
    """The launcher prints when attempts start, not only how they end: nobody else needs to tell them."""
    restarts_left: int | None = None
    """After the last restart that the launcher announced with their number."""
    most_restarts: int | None = None
    last_words: str = ""
    """Why the launcher will not restart, where it says so."""
    iterations: dict[str, int] = field(default_factory=dict)
    """Rank → in-process iteration it is in; empty while no in-process line was seen in this attempt."""
    last_iteration: int = 0
    noticed_at: dict[str, int] = field(default_factory=dict)
    """Attempt → when its end was noticed."""

    used: set[int] = field(default_factory=set)
    """Numbers that were given to facts, from the line on that is being taken, or `open_from`."""
    open_from: int | None = None
    """The first byte of the earliest line that may still be gone back to; None where there is none."""
    line_at: int = 0
    """The first byte of the line that was taken last."""
    last_late: int = -1
    """The highest number of a fact that was stated later than its line."""

    def to_plain(self) -> dict[str, object]:
        """For a cursor."""
        return {**asdict(self), "used": sorted(self.used)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> AttemptState:
        """Out of a cursor; fields of other versions are left out."""
        known = {one.name for one in fields(cls)}
        state = cls(**{name: value for name, value in plain.items() if name in known})  # type: ignore[arg-type]
        state.used = set(state.used)
        return state
