"""Prometheus samples: what an answer to a range query holds, whatever it holds.

Rules
- A series that is no series, and a sample that is no sample, costs nothing but itself: they are counted.
- NaN, the infinities and DCGM's sentinels for "no value" are no values. A stale marker never shows: from it on the
  series has no samples.
- Samples outside the instants that were asked for, and the same instant twice, are dropped: ranges that touch give no
  sample twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rerail.server.core.facts import Pairs

MOST_SERIES = 20_000
"""Of one answer; what is over is counted."""
LARGEST_BLANK = 9_223_372_036_854_775_807.0
BLANKS = (
    (0x7FFFFFF0, 0x7FFFFFF3),  # 32 bits
    (140_737_488_355_328.0, 140_737_488_355_331.0),  # as a float
    (9_223_372_036_854_775_792.0, LARGEST_BLANK),  # 64 bits
)
"""DCGM's "blank", "not found", "not supported", "not permitted" (dcgm_structs.h)."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series. `samples`: (second since 1970, value), ascending."""

    labels: Pairs
    samples: tuple[tuple[int, float], ...]

    def label(self, name: str) -> str:
        """A label's value; empty where it has none."""
        return next((value for key, value in self.labels if key == name), "")


@dataclass(slots=True)
class Answer:
    """What was read, and how many pieces of it made no sense."""

    series: list[Series] = field(default_factory=list)
    unread: int = 0
    left_off: int = 0
    """Series beyond `MOST_SERIES`."""


def read_answer(result: object, start: int, end: int) -> Answer:
    """The series of the `result` of a range query for instants from `start` to `end`, seconds, both included."""
    answer = Answer()
    if not isinstance(result, list):
        answer.unread += 1
        return answer
    answer.left_off = max(0, len(result) - MOST_SERIES)
    for each in result[:MOST_SERIES]:
        labels = each.get("metric") if isinstance(each, dict) else None
        values = each.get("values") if isinstance(each, dict) else None
        if not isinstance(labels, dict) or not isinstance(values, list):
            answer.unread += 1
            continue
        samples: dict[int, float] = {}
        for pair in values:
            sample = _sample(pair)
            if sample is None:
                answer.unread += 1
            elif start <= sample[0] <= end and is_value(sample[1]):
                samples.setdefault(*sample)
        told = tuple(
            (str(name)[:200], str(value)[:1000])
            for name, value in sorted(labels.items(), key=lambda pair: str(pair[0])) if str(name)
        )  # fmt: skip
        if samples:
            answer.series.append(Series(told, tuple(sorted(samples.items()))))
    return answer


def is_value(number: float) -> bool:
    """Neither NaN, nor infinite, nor one of DCGM's sentinels."""
    return math.isfinite(number) and not any(low <= number <= high for low, high in BLANKS)


def _sample(pair: object) -> tuple[int, float] | None:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or isinstance(pair[0], bool):
        return None
    try:
        return round(float(pair[0])), float(pair[1])
    except (TypeError, ValueError, OverflowError):
        return None
