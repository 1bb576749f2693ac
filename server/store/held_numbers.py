"""Held numbers: which sequence numbers of one emitter are in the log, as ranges.

Rules
- A number is taken once. Taking it again is a duplicate and changes nothing, so a batch may be sent any
  number of times.
- Kept as touching-free, ordered, closed ranges: an emitter that loses nothing is one range for its whole life.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise


class HeldNumbers:
    """The set of sequence numbers of one emitter that are held."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Sequence[tuple[int, int]] = ()) -> None:
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    @classmethod
    def from_bytes(cls, packed: bytes) -> HeldNumbers:
        """Out of `to_bytes`."""
        if not packed:
            return cls()
        edges = [part.split(b"-") for part in packed.split(b",")]
        return cls([(int(edge[0]), int(edge[-1])) for edge in edges])

    def to_bytes(self) -> bytes:
        """Ranges as readable text: `0-199,201,205-300`."""
        return ",".join(
            f"{start}-{end}" if start != end else str(start)
            for start, end in zip(self._starts, self._ends, strict=True)
        ).encode()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Closed ranges in order."""
        return tuple(zip(self._starts, self._ends, strict=True))

    @property
    def highest(self) -> int | None:
        """The highest number held; None while there is none."""
        return self._ends[-1] if self._ends else None

    @property
    def missing(self) -> int:
        """How many numbers below the highest are not held."""
        if not self._ends:
            return 0
        return self._ends[-1] + 1 - sum(end - start + 1 for start, end in self.ranges)

    def __contains__(self, number: int) -> bool:
        index = bisect_left(self._ends, number)
        return index < len(self._ends) and self._starts[index] <= number

    def take(self, numbers: Sequence[int]) -> list[int] | None:
        """Hold these. The indexes of those that were new, first of each only; None when every one was."""
        ordered = sorted(set(numbers))
        if not ordered:
            return None
        runs = _runs(ordered)
        if len(ordered) == len(numbers) and not any(self._overlaps(start, end) for start, end in runs):
            new = None
        else:
            new, seen = [], set()
            for index, number in enumerate(numbers):
                if number not in seen and number not in self:
                    seen.add(number)
                    new.append(index)
        for start, end in runs:
            self._add(start, end)
        return new

    def _overlaps(self, start: int, end: int) -> bool:
        index = bisect_left(self._ends, start)
        return index < len(self._ends) and self._starts[index] <= end

    def _add(self, start: int, end: int) -> None:
        first = bisect_left(self._ends, start - 1)
        last = first
        while last < len(self._starts) and self._starts[last] <= end + 1:
            start, end = min(start, self._starts[last]), max(end, self._ends[last])
            last += 1
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]


def _runs(ordered: list[int]) -> list[tuple[int, int]]:
    """Consecutive stretches of distinct ordered numbers."""
    if ordered[-1] - ordered[0] == len(ordered) - 1:
        return [(ordered[0], ordered[-1])]
    cuts = [index for index, (left, right) in enumerate(pairwise(ordered), 1) if right != left + 1]
    return [(ordered[low], ordered[high - 1]) for low, high in zip([0, *cuts], [*cuts, len(ordered)], strict=True)]
