"""Liveness: signs of life, the gaps between them, and when a run counts as silent.

Rules
- Silence is not a stall. *Silent*: nothing at all is heard for max(10 × the emitter's own beat, 60 s). *Stalled*:
  heartbeats go on, steps do not.
- A gap that ended in a kill is not a healthy gap: only gaps between two beats that were heard are counted.
- Headroom is the armed time-out ÷ the longest healthy gap of the phase it guards.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rerail.server.core.facts import Heartbeats
from rerail.server.core.rank_windows import RankGaps
from rerail.server.core.view import HeartbeatFigures

SILENCE_FLOOR_NS = 60_000_000_000
SILENCE_FACTOR = 10


@dataclass(slots=True)
class Hearing:
    """When one emitter was heard."""

    first_at: int
    last_at: int
    count: int = 1

    def heard(self, at: int) -> None:
        """Take one fact's instant."""
        self.first_at = min(self.first_at, at)
        self.last_at = max(self.last_at, at)
        self.count += 1

    @property
    def beat_ns(self) -> int:
        """Mean time between two facts."""
        return (self.last_at - self.first_at) // (self.count - 1) if self.count > 1 else 0

    @property
    def silent_after(self) -> int:
        """From this instant on nothing heard means silence."""
        return self.last_at + max(SILENCE_FACTOR * self.beat_ns, SILENCE_FLOOR_NS)


@dataclass(slots=True)
class PhaseBeats:
    """Heartbeats of one phase, over all ranks."""

    count: int = 0
    longest_gap_us: int = 0
    longest_gap_rank: int | None = None
    armed_timeout: tuple[int, int] | None = None
    """`(at, µs)` of the latest statement."""
    by_rank: RankGaps = field(default_factory=RankGaps)

    def add(self, beats: Heartbeats) -> None:
        """Take one folded window."""
        self.count += beats.count
        self.by_rank.add(beats)
        rank = beats.rank
        if beats.rank_counts:
            rank = (beats.first_rank or 0) + beats.rank_max_gaps_us.index(beats.max_gap_us)
        gap = (beats.max_gap_us, -(rank if rank is not None else 1 << 40))
        known = (self.longest_gap_us, -(self.longest_gap_rank if self.longest_gap_rank is not None else 1 << 40))
        if gap > known:
            self.longest_gap_us, self.longest_gap_rank = beats.max_gap_us, rank
        if beats.armed_timeout_us is not None:
            stated = (beats.at, beats.armed_timeout_us)
            self.armed_timeout = max(self.armed_timeout, stated) if self.armed_timeout else stated

    def figures(self, phase: str) -> HeartbeatFigures:
        """What pages show."""
        return HeartbeatFigures(
            phase=phase,
            n=self.count,
            max_gap_ns=self.longest_gap_us * 1000,
            max_gap_rank=self.longest_gap_rank,
            armed_timeout_ns=None if self.armed_timeout is None else self.armed_timeout[1] * 1000,
            ranks=self.by_rank.heard.count or None,
            slowest=self.by_rank.slowest(),
        )
