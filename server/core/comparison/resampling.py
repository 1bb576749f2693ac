"""Resampling: intervals by the bootstrap, seeded, so that the same facts give the same interval.

Sources
- B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979); percentile intervals.
- A quantile of a resample needs no resample: the r-th smallest of n draws is at most the k-th of the sample with the
  chance that a binomial of n and k/n is at least r. So its limits are exact. For a difference of two of them draws are
  made, and each costs one number: r-th smallest of n uniform draws is Beta(r, n − r + 1) distributed.
- A mean of more than `MOST_RESAMPLED` values has the limits that the bootstrap tends to: those of the normal.

Below `FEWEST` values an interval would be a guess about a guess: there is none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.statistics import binomial_tail

SEED = 20_251
REPLICATES = 1000
MOST_RESAMPLED = 60
FEWEST = 3
CONFIDENCE = 0.95
NORMAL = 1.959964
"""The 97.5th percentile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % limits; None where there are too few values for any."""

    n: int
    figure: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool:
        """Both limits lie on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def quantile(ordered: Sequence[int], share: float) -> int:
    """The nearest-rank quantile of ascending values."""
    return ordered[_rank(len(ordered), share) - 1]


def _rank(count: int, share: float) -> int:
    return min(count, max(1, -(-count * round(share * 1000) // 1000)))


def quantile_interval(ordered: Sequence[int], share: float) -> Interval:
    """A quantile of ascending values."""
    figure = float(quantile(ordered, share))
    if len(ordered) < FEWEST:
        return Interval(len(ordered), figure, None, None)
    tail = (1 - CONFIDENCE) / 2
    return Interval(len(ordered), figure, *(float(_at_chance(ordered, share, each)) for each in (tail, 1 - tail)))


def quantile_difference(first: Sequence[int], second: Sequence[int], share: float) -> Interval | None:
    """How much larger a quantile of `second` is than of `first`; n is the smaller one's. None where one is empty."""
    if not first or not second:
        return None
    fewest = min(len(first), len(second))
    figure = float(quantile(second, share) - quantile(first, share))
    if fewest < FEWEST:
        return Interval(fewest, figure, None, None)
    chance = random.Random(SEED)
    left = _resampled_quantiles(first, share, chance)
    right = _resampled_quantiles(second, share, chance)
    return Interval(fewest, figure, *_limits([new - old for old, new in zip(left, right, strict=True)]))


def mean_interval(values: Sequence[int]) -> Interval | None:
    """A mean; None where there are no values."""
    if not values:
        return None
    count = len(values)
    figure = math.fsum(values) / count
    if count < FEWEST:
        return Interval(count, figure, None, None)
    if count > MOST_RESAMPLED:
        spread = math.sqrt(math.fsum((each - figure) ** 2 for each in values) / count / count)
        return Interval(count, figure, figure - NORMAL * spread, figure + NORMAL * spread)
    chance = random.Random(SEED)
    means = [math.fsum(chance.choices(values, k=count)) / count for _ in range(REPLICATES)]
    return Interval(count, figure, *_limits(means))


def _at_chance(ordered: Sequence[int], share: float, wanted: float) -> int:
    """The smallest value that the quantile of a resample does not exceed with at least this chance."""
    count = len(ordered)
    rank, low, high = _rank(count, share), 1, count
    while low < high:
        middle = (low + high) // 2
        if binomial_tail(rank, count, middle / count) >= wanted:
            high = middle
        else:
            low = middle + 1
    return ordered[low - 1]


def _resampled_quantiles(ordered: Sequence[int], share: float, chance: random.Random) -> list[float]:
    count = len(ordered)
    rank = _rank(count, share)
    return [
        float(ordered[min(count - 1, int(chance.betavariate(rank, count - rank + 1) * count))])
        for _ in range(REPLICATES)
    ]


def _limits(draws: list[float]) -> tuple[float, float]:
    ordered = sorted(draws)
    tail = (1 - CONFIDENCE) / 2
    low = ordered[int(tail * len(ordered))]
    high = ordered[min(len(ordered) - 1, int((1 - tail) * len(ordered)))]
    return low, high
