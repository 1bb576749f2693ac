"""Held numbers: which sequence numbers of one emitter are in the log, as ranges.

Rules
- A number is taken once. Taking it again is a duplicate and changes nothing, so a batch may be sent any
  number of times.
- Kept as touching-free, ordered, closed ranges: an emitter that counts densely is one range.
- An emitter may count sparsely (a byte offset, a place in a ring), so ranges are kept in chunks of neighbouring
  numbers: a batch reads and writes the chunks it touches, however long the emitter has lived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

CHUNK_BITS = 13
"""A chunk holds 8,192 neighbouring numbers: one row of a few bytes to a few kilobytes."""


def chunk_of(number: int) -> int:
    """The chunk a sequence number lies in."""
    return number >> CHUNK_BITS


def chunks_of(numbers: Sequence[int]) -> dict[int, list[int]]:
    """Places in a batch, by the chunk their number lies in."""
    if numbers and chunk_of(min(numbers)) == chunk_of(max(numbers)):
        return {chunk_of(numbers[0]): list(range(len(numbers)))}
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places.setdefault(chunk_of(number), []).append(place)
    return places


class HeldNumbers:
    """The set of sequence numbers of one emitter, or of one chunk of them, that are held."""

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
