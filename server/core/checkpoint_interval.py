"""How often to save: the interval at which saving and losing cost the least together.

Sources
- J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974): √(2δM).
- J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22 (2006):
  √(2δM)·[1 + ⅓√(δ/2M) + ⅑(δ/2M)] − δ where δ < 2M, else M.
- Asynchronous saves (ours): capture d blocks, one write W is in flight, steps take κ times as long under it. Below W/κ
  saves queue behind each other; above it the optimum is √(2(d + (1 − 1/κ)W)M).

Intervals are of training between two saves. δ is what a save blocks, M the mean up-time between faults.

An advice names its inputs and its limits, and refuses where an input is not known: see `advised_interval`.
"""

from __future__ import annotations

import math

from rerail.server.core.view import CheckpointFreshness, FailureRates, IntervalAdvice


def young(blocked: float, mttf: float) -> float:
    """Young's interval, in the unit of its arguments."""
    return math.sqrt(2 * blocked * mttf)


def daly(blocked: float, mttf: float) -> float:
    """Daly's interval, in the unit of its arguments."""
    if blocked >= 2 * mttf:
        return mttf
    ratio = blocked / (2 * mttf)
    return young(blocked, mttf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - blocked


def asynchronous(captured: float, write: float, slowdown: float, mttf: float) -> float:
    """The interval of saves whose write overlaps training, in the unit of its arguments; `slowdown` κ ≥ 1."""
    slowdown = max(slowdown, 1.0)
    hidden = (1 - 1 / slowdown) * write
    return max(write / slowdown, math.sqrt(2 * (captured + hidden) * mttf))


def advised_interval(freshness: CheckpointFreshness, rates: FailureRates, slowdown: float | None) -> IntervalAdvice:
    """The interval this run's own figures speak for, over the limits of its MTTF; refused where one is not known."""
    blocked, mttf = freshness.blocked_ns, rates.mttf_ns
    if blocked is None:
        return IntervalAdvice(refusal="how long a save blocks training is not known")
    if blocked <= 0:
        return IntervalAdvice(
            refusal="saves block training for less than anybody can tell: stamps are too coarse for it"
        )
    if mttf is None or rates.mttf_low_ns is None or rates.mttf_high_ns is None:
        return IntervalAdvice(refusal="there was no fault yet, so how often they come is not known")
    write = freshness.commit_lag_p50_ns
    if freshness.is_asynchronous and write is not None:
        kappa = 1.0 if slowdown is None else slowdown
        low, advised, high = (
            round(asynchronous(blocked, write, kappa, each)) for each in (rates.mttf_low_ns, mttf, rates.mttf_high_ns)
        )
        return IntervalAdvice("asynchronous", low, advised, high, round(write / max(kappa, 1.0)))
    low, advised, high = (round(daly(blocked, each)) for each in (rates.mttf_low_ns, mttf, rates.mttf_high_ns))
    return IntervalAdvice("daly", low, advised, high)
