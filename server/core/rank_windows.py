"""Rank windows: signs of life of many ranks, told by one fact for a range of them, kept without a row per rank.

Rules
- A window tells of the ranks `first_rank … first_rank + n − 1`, one count and one longest gap each; that of one rank
  is the same with one entry. A rank with a count of 0 was not heard in it.
- Kept are the ranks with the longest gaps, how many ranks were heard, and until when each was: what a page, a rule or
  advice asks for. The answer depends only on the set of windows.
- *Quiet* is a rank that was heard in this attempt and is heard no longer while others are. Windows end when their
  emitters fold them, so a rank counts as quiet only when several windows of its own length are missing.
- A rank is an identity only together with its attempt: quiet ranks are those of one attempt.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from rerail.server.core.facts import Heartbeats
from rerail.server.core.view import QuietRanks, RankGap

SLOWEST = 8
"""So many ranks are named by their longest gap."""

NAMED_QUIET = 64
"""So many quiet ranks are named; the others are counted."""

QUIET_FLOOR_NS = 60_000_000_000
MISSING_WINDOWS = 3


class RankSet:
    """Ranks as ranges: a fleet's are a few, however many ranks there are."""

    __slots__ = ("_ends", "_firsts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.count = 0

    def add(self, first: int, length: int) -> None:
        """Add `length` ranks from `first` on."""
        end = first + length
        low = bisect_left(self._ends, first)
        if low < len(self._firsts) and self._firsts[low] <= first and end <= self._ends[low]:
            return
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self.count -= sum(self._ends[low:high]) - sum(self._firsts[low:high])
        self._firsts[low:high], self._ends[low:high] = [first], [end]
        self.count += end - first

    def ranges(self) -> Sequence[tuple[int, int]]:
        """`(first, end)` of each range, in order; none touches another."""
        return list(zip(self._firsts, self._ends, strict=True))


@dataclass(slots=True)
class RankGaps:
    """Heartbeats of one phase, by rank."""

    heard: RankSet = field(default_factory=RankSet)
    _longest: dict[int, int] = field(default_factory=dict)
    """Longest gap in µs of the slowest ranks."""

    def add(self, beats: Heartbeats) -> None:
        """Take one window."""
        if not beats.rank_counts:
            if beats.rank is not None and beats.count:
                self.heard.add(beats.rank, 1)
                self._take(beats.rank, beats.max_gap_us)
            return
        first = beats.first_rank or 0
        if all(beats.rank_counts):
            self.heard.add(first, len(beats.rank_counts))
        else:
            for rank, count in enumerate(beats.rank_counts, first):
                if count:
                    self.heard.add(rank, 1)
        least = min(self._longest.values()) if len(self._longest) >= SLOWEST else -1
        if max(beats.rank_max_gaps_us) < least:
            return
        for rank, gap in enumerate(beats.rank_max_gaps_us, first):
            if gap >= least and beats.rank_counts[rank - first]:
                self._take(rank, gap)

    def _take(self, rank: int, gap_us: int) -> None:
        longest = self._longest
        known = longest.get(rank)
        if known is not None:
            longest[rank] = max(known, gap_us)
            return
        longest[rank] = gap_us
        if len(longest) > SLOWEST:
            # A gap only ever grows: a rank that falls out comes back with the window that makes it long enough.
            del longest[min(longest, key=lambda each: (longest[each], -each))]

    def slowest(self) -> tuple[RankGap, ...]:
        """The ranks with the longest gaps, the longest first."""
        ordered = sorted(self._longest.items(), key=lambda entry: (-entry[1], entry[0]))
        return tuple(RankGap(rank, gap * 1000) for rank, gap in ordered)


@dataclass(slots=True)
class _Heard:
    """Until when a range of ranks was heard as one."""

    until: int
    longest_window: int


class LastHeard:
    """Until when each rank of one attempt was heard."""

    __slots__ = ("_latest", "_ranges")

    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], _Heard] = {}
        """By `(first rank, number of ranks)`."""
        self._latest: int | None = None

    def add(self, beats: Heartbeats, start: int, end: int) -> None:
        """Take one window, its edges on the server's clock."""
        if not beats.rank_counts:
            if beats.rank is not None and beats.count:
                self._heard(beats.rank, 1, start, end)
            return
        first = beats.first_rank or 0
        if all(beats.rank_counts):
            self._heard(first, len(beats.rank_counts), start, end)
            return
        for rank, count in enumerate(beats.rank_counts, first):
            if count:
                self._heard(rank, 1, start, end)

    def _heard(self, first: int, length: int, start: int, end: int) -> None:
        known = self._ranges.get((first, length))
        if known is None:
            self._ranges[first, length] = _Heard(end, end - start)
        else:
            known.until = max(known.until, end)
            known.longest_window = max(known.longest_window, end - start)
        self._latest = end if self._latest is None else max(self._latest, end)

    def quiet(self) -> QuietRanks | None:
        """The ranks that are heard no longer while others are; None where there is none."""
        if self._latest is None:
            return None
        lagging, going = RankSet(), RankSet()
        for (first, length), heard in self._ranges.items():
            if self._latest - heard.until > max(QUIET_FLOOR_NS, MISSING_WINDOWS * heard.longest_window):
                lagging.add(first, length)
            else:
                going.add(first, length)
        quiet = _without(lagging, going)
        count = sum(end - first for first, end in quiet)
        if not count:
            return None
        named = tuple(rank for first, end in quiet for rank in range(first, min(end, first + NAMED_QUIET)))
        last = [
            heard.until
            for (first, length), heard in self._ranges.items()
            if any(first < end and begin < first + length for begin, end in quiet)
        ]
        return QuietRanks(count=count, ranks=named[:NAMED_QUIET], since=max(last))


def _without(ranks: RankSet, others: RankSet) -> Sequence[tuple[int, int]]:
    """`(first, end)` of the ranges in `ranks` that are not in `others`."""
    left: list[tuple[int, int]] = []
    for first, end in ranks.ranges():
        at = first
        for begin, stop in others.ranges():
            if stop <= at or begin >= end:
                continue
            if begin > at:
                left.append((at, begin))
            at = max(at, stop)
        if at < end:
            left.append((at, end))
    return left
