"""What an analysis of flight recorders answers: the conclusion, who, where, and what is not known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_CULPRITS = 64


class Conclusion(StrEnum):
    """What an analysis found."""

    MISMATCH = "mismatch"
    MISSING = "missing"
    LAGGING = "lagging"
    LATE = "late"
    ALL_JOINED = "all_joined"
    NOT_SEEN = "not_seen"
    DEADLOCK = "deadlock"
    NOTHING_PENDING = "nothing_pending"
    NOT_RECORDED = "not_recorded"


@dataclass(frozen=True, slots=True)
class Ranks:
    """Many ranks in short."""

    count: int = 0
    text: str = ""
    """`0-511,513`, cut with `…` where it would be long."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank was last, as far as its dump tells."""

    rank: int
    text: str
    frame: str
    """`function (file:line)` of the user's own code; empty where no stacks were recorded."""
    at: int | None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One process group in which somebody waits, is missing, or differs."""

    name: str
    title: str
    member_count: int
    is_inferred: bool
    """Its members were not told, only who mentions it."""
    operation: str
    """Of the operation in question; empty where no rank tells it."""
    sequence: int
    detail: str
    """Sizes, types, or in what the ranks differ."""
    waiting: Ranks
    missing: Ranks
    not_seen: Ranks
    """Members that left no dump, or whose recording was disabled."""
    last_places: tuple[Place, ...]
    """Where the missing ones were last."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the dumps of one interruption say together."""

    conclusion: Conclusion
    sentence: str
    confidence: float
    culprits: tuple[int, ...]
    """At most 64 of them; `culprit_count` says how many there are."""
    culprit_count: int
    culprit_node: str | None
    """Of the only culprit, where its evidence names it."""
    operation: str | None
    """Of the operation that decides, without its number."""
    frame: str | None
    """Where the culprit was last, in the user's own code; without the line number."""
    groups: tuple[GroupRow, ...]
    ranks_seen: int
    world_size: int
    not_seen: Ranks
    not_recorded: Ranks
    """Ranks whose recording was disabled."""
    unknown: tuple[str, ...]
    """What is not known, in sentences."""
