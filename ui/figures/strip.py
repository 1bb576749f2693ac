"""Strip: every recovery as one dot on a logarithmic scale, so that a distribution is never only its mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NANOSECONDS = 1_000_000_000
DECADES = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
"""Lengths in seconds that a scale may name."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One recovery: where it stands (0…1), and in which row, so that equal ones do not hide each other."""

    key: str
    position: float
    row: int


@dataclass(frozen=True, slots=True)
class Strip:
    """Dots and the marks of their scale as `(length_ns, position)`."""

    dots: tuple[Dot, ...]
    marks: tuple[tuple[int, float], ...]
    rows: int


def recovery_strip(lengths: Sequence[tuple[str, int]], spacing: float = 0.016) -> Strip:
    """Dots for `(key, length_ns)`, on a scale from the named length below the shortest to the one above the longest."""
    seconds = [(key, max(length, 1) / NANOSECONDS) for key, length in lengths]
    if not seconds:
        return Strip((), (), 0)
    shortest = min(length for _, length in seconds)
    longest = max(length for _, length in seconds)
    low = max((mark for mark in DECADES if mark <= shortest), default=min(DECADES[0], shortest))
    high = min((mark for mark in DECADES if mark > longest), default=longest * 1.1)

    def place(value: float) -> float:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))

    dots: list[Dot] = []
    ends: list[float] = []
    for key, length in sorted(seconds, key=lambda pair: pair[1]):
        position = place(length)
        row = next((index for index, end in enumerate(ends) if position - end >= spacing), len(ends))
        if row == len(ends):
            ends.append(position)
        ends[row] = position
        dots.append(Dot(key, position, row))
    marks = tuple((mark * NANOSECONDS, place(mark)) for mark in DECADES if low <= mark <= high)
    return Strip(tuple(dots), marks, len(ends))
