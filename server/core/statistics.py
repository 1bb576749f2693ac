"""Statistics: percentiles that say what they rest on, and exact intervals of a failure rate.

Sources
- Percentile: nearest rank. Below 20 values everything above the 90th percentile is the maximum, and is shown as such.
- Poisson interval: F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936): the limits are
  half the χ² quantiles with 2n and 2n + 2 degrees of freedom. With n = 0 only the upper limit is one, and it is
  −ln(1 − confidence): 3.0 at 95 %, the "rule of three".
- χ² by way of the regularised incomplete gamma function: series below a + 1, continued fraction (Lentz) above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

CONFIDENCE = 0.95

_TINY = 1e-300
_EXACT = 1e-15


def percentile(ordered: Sequence[int], share: float) -> int:
    """The nearest-rank percentile of ascending values; below 20 of them, above the 90th it is the maximum."""
    if len(ordered) < 20 and share > 0.9:
        return ordered[-1]
    rank = -(-len(ordered) * round(share * 1000) // 1000)
    return ordered[max(0, rank - 1)]


@lru_cache(maxsize=4096)
def poisson_interval(count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Exact limits of the mean of a Poisson variable that was seen to be `count`.

    Two-sided; for `count` 0 one-sided, (0, −ln(1 − confidence)). Raises ValueError for a negative count or a confidence
    outside (0, 1).
    """
    if count < 0:
        raise ValueError(f"count: {count} is negative")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1")
    if count == 0:
        return 0.0, -math.log(1 - confidence)
    tail = (1 - confidence) / 2
    return _gamma_quantile(count, tail), _gamma_quantile(count + 1, 1 - tail)


def _gamma_quantile(shape: int, probability: float) -> float:
    """Where the gamma distribution of this shape and scale 1 reaches a probability: half a χ² quantile."""
    low, high = 0.0, shape + 10 * math.sqrt(shape) + 10
    while _gamma_p(shape, high) < probability:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _gamma_p(shape, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _gamma_p(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(shape, x)."""
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        denominator = shape
        while term > total * _EXACT:
            denominator += 1
            term *= x / denominator
            total += term
        return front * total
    b = x + 1 - shape
    c = 1 / _TINY
    d = 1 / b
    fraction = d
    index = 0
    while True:
        index += 1
        numerator = -index * (index - shape)
        b += 2
        d = 1 / _away_from_zero(numerator * d + b)
        c = _away_from_zero(b + numerator / c)
        change = c * d
        fraction *= change
        if abs(change - 1) < _EXACT or index > 100_000:
            return 1 - front * fraction


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """How likely at least so many successes are among independent trials, exactly (to rounding).

    Of two Poisson counts with one rate, the first is binomial given their sum: J. Przyborowski and H. Wilenski,
    "Homogeneity of results in testing samples from Poisson series", Biometrika 31 (1940).
    """
    if successes <= 0:
        return 1.0
    if successes > trials or probability <= 0:
        return 0.0
    if probability >= 1:
        return 1.0
    log_odds = math.log(probability) - math.log1p(-probability)
    term = math.exp(
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
        + successes * math.log(probability) + (trials - successes) * math.log1p(-probability)
    )  # fmt: skip
    if successes <= trials * probability:
        # Below the mean the terms grow first: add up the other side instead.
        return max(0.0, 1.0 - sum(_binomial_terms(successes - 1, trials, probability)))
    total, count, odds = term, successes, math.exp(log_odds)
    while count < trials and term > total * _EXACT:
        term *= (trials - count) / (count + 1) * odds
        count += 1
        total += term
    return min(1.0, total)


def _binomial_terms(most: int, trials: int, probability: float) -> Iterator[float]:
    for count in range(most + 1):
        yield math.exp(
            math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
            + count * math.log(probability) + (trials - count) * math.log1p(-probability)
        )  # fmt: skip
