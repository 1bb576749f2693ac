"""Google's figures beside goodput: how far steps are from an ideal one, and how much of an elastic job was there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rerail.server.core.definitions.google_log import GoogleLog
from rerail.server.core.definitions.history import ToldFigure
from rerail.server.core.definitions.step_stamps import StampRun, StoppedClock
from rerail.server.core.statistics import percentile

SHORTEST_STEP_NS = 1_000_000_000
"""Steps below this do not go into the ideal step time."""

MOST_STEPS = 100_000
"""The ideal step time and the deviations are of the newest steps, up to so many."""

Number = tuple[str, int | float | None]


def step_lengths(log: GoogleLog) -> list[int]:
    """How long the newest steps took, up to `MOST_STEPS`; of one that was done again, the last time."""
    lengths: dict[int, int] = {}
    following: StampRun | None = None
    for _, run in reversed(log.runs):
        if following is not None and following.first_step == run.last_step + 1:
            lengths.setdefault(run.last_step, following.starts[0] - run.starts[-1])
        room = MOST_STEPS - len(lengths)
        if room <= 0:
            break
        first = max(run.first_step, run.last_step - room)
        starts = run.starts[first - run.first_step :]
        for step, (earlier, later) in enumerate(pairwise(starts), first):
            lengths.setdefault(step, later - earlier)
        following = run
    return list(lengths.values())


def deviation(lengths: Sequence[int]) -> list[Number]:
    """The ideal step time (mean of steps from 1 s to median + 3 × median absolute deviation), and how far steps are."""
    long_enough = sorted(length for length in lengths if length >= SHORTEST_STEP_NS)
    if not long_enough:
        return [
            ("ideal_step_seconds", None),
            ("step_deviation_mean_seconds", None),
            ("step_deviation_p90_seconds", None),
        ]
    median = _median(long_enough)
    spread = _median(sorted(abs(length - median) for length in long_enough))
    usual = [length for length in long_enough if length <= median + 3 * spread]
    ideal = sum(usual) / len(usual)
    away = sorted(abs(round(length - ideal)) for length in lengths)
    return [
        ("ideal_step_seconds", ideal / 1e9),
        ("step_deviation_mean_seconds", sum(away) / len(away) / 1e9),
        ("step_deviation_p90_seconds", percentile(away, 0.9) / 1e9),
    ]


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def slices(told: Sequence[ToldFigure], start: int, end: int, clock: StoppedClock) -> list[Number]:
    """Of an elastic job: the share of its slices that stepped, and that were there, over time."""
    by_instant: dict[int, dict[str, float]] = {}
    for each in told:
        if each.name in ("active_slices", "available_slices", "total_slices"):
            by_instant.setdefault(clock.counted(each.at), {})[each.name] = each.value
    if not by_instant or end <= start:
        return []
    edges = sorted(by_instant)
    found: list[Number] = []
    for name, what in (("active_slices", "stepping_slice_share"), ("available_slices", "available_slice_share")):
        weighted = 0.0
        for since, until in pairwise([*edges, max(end, edges[-1])]):
            length = max(0, min(until, end) - max(since, start))
            weighted += by_instant[since].get(name, 0) / max(by_instant[since].get("total_slices", 1), 1) * length
        found.append((what, weighted / (end - start)))
    return found
