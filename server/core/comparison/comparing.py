"""Comparing: two to six arms side by side, each against the first.

Rules
- Both goodputs always stand together, and their difference is split by the rows of the waterfall: the parts sum to the
  difference of training goodput exactly, so that a gain in checkpoint time is not credited to recovery.
- A time to recover is compared fault by fault where faults are paired, and by medians where they are not.
- Where a difference is refused, there is none: no intervals and no sentence about who is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.comparison.arms import LOSSES, Arm
from rerail.server.core.comparison.likeness import Caveat, CaveatLevel, caveats
from rerail.server.core.comparison.pairing import PairedBy, Pairing, pairing
from rerail.server.core.comparison.resampling import (
    Interval,
    mean_interval,
    quantile_difference,
    quantile_interval,
)
from rerail.server.core.recovery_configs.changes import KnobChange, difference
from rerail.server.core.words import count, duration, points, share

FEWEST_ARMS, MOST_ARMS = 2, 6
MOST_CURVE_POINTS = 200
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
ROW_WORDS = {
    "faults": "down-time after faults",
    "startup": "start-up",
    "planned": "planned down-time",
    "checkpoint": "checkpoint stalls",
    "rework": "rework",
    "stalls": "stalls",
    "overhead": "overhead",
    "unknown": "silence",
}


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One arm and how sure its figures are. Lengths in ns."""

    arm: Arm
    recovered: int
    """Faults of which the ground was regained."""
    quantiles: tuple[tuple[str, Interval], ...]
    """Of the time to recover; empty where none recovered."""
    max_ns: int | None
    restart_p50: Interval | None
    detecting_p50: Interval | None
    failed_relaunches: int
    infrastructure_low: float | None
    """Limits of infrastructure goodput if the faults' costs were drawn again; None below three faults."""
    infrastructure_high: float | None
    curve: tuple[tuple[int, float], ...]
    """`(time to recover, share of faults recovered by then)`."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One row of the waterfall on both sides, as shares of elapsed time."""

    name: str
    first: float
    second: float
    gain: float
    """Share of elapsed time that the second loses less; the rows sum to the difference of training goodput."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One arm against the first."""

    first: str
    second: str
    pairing: Pairing
    caveats: tuple[Caveat, ...]
    is_refused: bool
    training: float | None
    """Second minus first; None where refused or unknown."""
    infrastructure: float | None
    rows: tuple[RowDifference, ...]
    paired: Interval | None
    """Mean of the differences of the time to recover, pair by pair (second − first)."""
    median: Interval | None
    """Difference of the medians of the time to recover (second − first)."""
    knobs: tuple[KnobChange, ...] | None
    """How the configs differ; None where one is not known, or is not one."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything of a comparison."""

    arms: tuple[ArmFigures, ...]
    differences: tuple[Difference, ...]
    sentence: str


def compared(arms: Sequence[Arm]) -> Comparison:
    """Two to six arms, each against the first. Raises ValueError for fewer or more."""
    if not FEWEST_ARMS <= len(arms) <= MOST_ARMS:
        raise ValueError(f"two to six sides can be compared (got {len(arms)})")
    differences = tuple(_difference(arms[0], other) for other in arms[1:])
    return Comparison(tuple(arm_figures(each) for each in arms), differences, _sentence(arms, differences))


def arm_figures(arm: Arm) -> ArmFigures:
    """The figures of one arm."""
    recoveries = sorted(each.recover_ns for each in arm.faults if each.recover_ns is not None)
    restarts = sorted(each.restart_ns for each in arm.faults if each.restart_ns is not None)
    detected = sorted(each.detecting_ns for each in arm.faults) if not arm.is_reference else []
    costs = mean_interval([each.cost_ns for each in arm.faults]) if not arm.is_reference else None
    low = high = None
    if costs is not None and costs.low is not None and costs.high is not None and arm.elapsed_ns:
        up_ns = arm.elapsed_ns - arm.faults_ns
        high, low = (up_ns / (up_ns + costs.n * each) for each in (costs.low, costs.high))
    return ArmFigures(
        arm=arm,
        recovered=len(recoveries),
        quantiles=tuple((name, quantile_interval(recoveries, part)) for name, part in QUANTILES if recoveries),
        max_ns=recoveries[-1] if recoveries else None,
        restart_p50=quantile_interval(restarts, 0.5) if restarts else None,
        detecting_p50=quantile_interval(detected, 0.5) if detected else None,
        failed_relaunches=sum(each.failed_relaunches for each in arm.faults),
        infrastructure_low=low,
        infrastructure_high=high,
        curve=_curve(recoveries, len(arm.faults)),
    )


def _curve(recoveries: Sequence[int], faults: int) -> tuple[tuple[int, float], ...]:
    """The empirical distribution; faults that did not recover keep it below 1."""
    count_of = len(recoveries)
    if not count_of:
        return ()
    stride = max(1, -(-count_of // MOST_CURVE_POINTS))
    places = [*range(stride - 1, count_of, stride)]
    if places[-1:] != [count_of - 1]:
        places.append(count_of - 1)
    return tuple((recoveries[place], (place + 1) / faults) for place in places)


def _difference(first: Arm, second: Arm) -> Difference:
    pairs = pairing(first, second)
    against = caveats(first, second, pairs)
    is_refused = any(each.level is CaveatLevel.REFUSED for each in against)
    here, there = first.training_goodput, second.training_goodput
    training = None if is_refused or here is None or there is None else there - here
    infra = (first.infrastructure_goodput, second.infrastructure_goodput)
    infrastructure = None if is_refused or infra[0] is None or infra[1] is None else infra[1] - infra[0]
    paired = median = None
    if not is_refused:
        gaps = [
            new.recover_ns - old.recover_ns
            for old, new in pairs.pairs
            if old.recover_ns is not None and new.recover_ns is not None
        ]
        paired = mean_interval(gaps)
        median = quantile_difference(_recoveries(first), _recoveries(second), 0.5)
    rows = () if training is None else _rows(first, second)
    knobs = None if first.config is None or second.config is None else difference(first.config, second.config)
    made = Difference(
        first.key, second.key, pairs, against, is_refused, training, infrastructure, rows, paired, median, knobs, ""
    )
    return Difference(
        first.key, second.key, pairs, against, is_refused, training, infrastructure, rows, paired, median, knobs,
        _said(first, second, made),
    )  # fmt: skip


def _recoveries(arm: Arm) -> list[int]:
    return sorted(each.recover_ns for each in arm.faults if each.recover_ns is not None)


def _rows(first: Arm, second: Arm) -> tuple[RowDifference, ...]:
    here, there = dict(first.losses), dict(second.losses)
    names = [*LOSSES, *(name for name in here | there if name not in LOSSES)]
    rows = []
    for name in names:
        old, new = here.get(name, 0) / first.elapsed_ns, there.get(name, 0) / second.elapsed_ns
        if old or new:
            rows.append(RowDifference(name, old, new, old - new))
    return tuple(rows)


def _said(first: Arm, second: Arm, made: Difference) -> str:
    if made.is_refused:
        reasons = [each.sentence for each in made.caveats if each.level is CaveatLevel.REFUSED]
        return f"{second.title} is not compared with {first.title}: {reasons[0]}"
    if made.training is None:
        return f"{second.title} against {first.title}: the training goodput of one is unknown."
    if abs(made.training) < 0.0005:
        said = f"{second.title} and {first.title} have the same training goodput"
    else:
        word = "more" if made.training > 0 else "less"
        said = f"{second.title} has {points(abs(made.training))} {word} training goodput than {first.title}"
        largest = max(made.rows, key=lambda row: row.gain if made.training and made.training > 0 else -row.gain)
        if largest.gain * made.training > 0:
            side = "gained" if largest.gain > 0 else "lost"
            said += (
                f", the most of it {side} in {ROW_WORDS.get(largest.name, largest.name)} ({points(abs(largest.gain))})"
            )
    sure = made.paired if made.pairing.paired_by is not PairedBy.NOTHING else made.median
    if sure is None:
        return said + "."
    faster = "faster" if sure.figure < 0 else "slower"
    how = f"{count(sure.n, 'pair')}" if sure is made.paired else f"medians, n at least {sure.n}"
    apart = duration(abs(round(sure.figure)))
    pace = "as fast" if apart == duration(0) else f"{apart} {faster}"
    said += f". It recovers {pace} per fault ({how}"
    if sure.low is not None and sure.high is not None:
        said += f"; 95 % of {duration(round(sure.low))} to {duration(round(sure.high))}"
        said += ")" if sure.excludes_zero else ", so it may be chance)"
    else:
        said += "; too few for an interval)"
    return said + "."


CLOSE = 0.01
"""Training goodputs nearer than this are not told apart by a few faults."""


def _sentence(arms: Sequence[Arm], differences: Sequence[Difference]) -> str:
    """What the whole page says first."""
    if all(each.is_refused for each in differences):
        return "These are not like for like: " + differences[0].sentence
    known = [each for each in arms if each.training_goodput is not None]
    may = {each.second for each in differences if not each.is_refused} | {arms[0].key}
    ranked = sorted((each for each in known if each.key in may), key=lambda each: -(each.training_goodput or 0))
    if len(ranked) < 2:
        return differences[0].sentence
    best, worst = ranked[0], ranked[-1]
    of_which = "Of those that can be compared, " if any(each.is_refused for each in differences) else ""
    if _pair(best) == _pair(worst):
        said = f"{of_which}{'both' if len(ranked) == 2 else 'all'} have the same training goodput, {_pair(best)}."
        return said[0].upper() + said[1:]
    least = f"{worst.title} the least, {_pair(worst)}"
    close = [each for each in ranked[1:] if (best.training_goodput or 0) - (each.training_goodput or 0) < CLOSE]
    if close and worst not in close:
        others = f"{close[0].title} is" if len(close) == 1 else f"{len(close)} others are"
        return (
            f"{of_which}{best.title} has the most training goodput, {_pair(best)}; {others} within a point of it, "
            f"which may be chance; {least}."
        )
    return f"{of_which}{best.title} has the most training goodput, {_pair(best)}; {least}."


def _pair(arm: Arm) -> str:
    return f"{share(arm.training_goodput)} (infrastructure {share(arm.infrastructure_goodput)})"
