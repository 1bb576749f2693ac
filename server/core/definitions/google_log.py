"""Google's log: what its library would have been told of a run, made from our facts.

Rules
- An attempt's start is a job start; a completed run's end is the job end. A run that failed logs none.
- `data_wait` is the loading of data, `saving` a blocking save, `loading` a restore; what an importer knew the length
  of and not the place is counted with them.
- A window holds what lies in `(start, end]`. Time declared out of account is taken out of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerail.server.core.definitions import DefinitionInput
from rerail.server.core.definitions.history import History, PhaseTold, ToldFigure
from rerail.server.core.definitions.step_stamps import StampRun, StoppedClock, inside, mapped, stamp_runs
from rerail.server.core.facts import Outcome, Phase

SPOKEN_ONCE = (Phase.SAVING, Phase.LOADING)
"""Phases that are one entry, stamped with their beginning."""

MEASURED = (Phase.RENDEZVOUS, Phase.INITIALIZING, Phase.DATA_WAIT)
"""Phases whose records have a beginning and an end."""

TOOL = "google-goodput/"
"""What the importer of that library's log puts before the names of its metrics."""


@dataclass(frozen=True, slots=True)
class GoogleLog:
    """What the library would have been told, on a clock that stood still in excluded windows."""

    starts: tuple[int, ...]
    """Job starts."""
    runs: tuple[tuple[int, StampRun], ...]
    """`(index of the job start before it, stamps)`."""
    end: int | None
    """Job end; None while it was not logged."""
    phases: tuple[PhaseTold, ...]
    loads: tuple[tuple[int, int], ...]
    """Loads of data as `(end, length)`, in order."""
    saves: int
    save_spans: tuple[tuple[int, int], ...]
    """When saves blocked, as far as that was told."""
    restores: int
    edges: tuple[int, int] | None
    """The first and the last stamp of all; None where there is none."""
    left_in: int
    """Excluded time that lies in nothing that was recorded: the library does not find it, and leaves it in. What lies
    in two records it takes out twice."""
    excludes: bool
    """Something was declared out of account."""


def google_log(given: DefinitionInput, history: History, clock: StoppedClock) -> GoogleLog:
    view = given.view
    told = history.told_by(TOOL)
    counted = clock.counted
    end = None
    if view.ended_at is not None and view.outcome is Outcome.COMPLETED:
        end = view.ended_at
    low, high = given.window if given.window is not None else (-1, 1 << 62)
    starts: list[int] = []
    recorded: list[tuple[int, int]] = []
    before: StampRun | None = None
    edges: list[int] = []
    runs: list[tuple[int, StampRun]] = []
    phases: list[PhaseTold] = []
    for attempt in history.attempts:
        if low < attempt.began_at <= high:
            starts.append(counted(attempt.began_at))
        stamps: Sequence[StampRun] = tuple(inside(stamp_runs(attempt), low, high))
        if not clock.never_stops:
            recorded += [(each.start, each.end) for each in attempt.phases if each.phase in MEASURED]
            for run in stamps:
                if before is not None:
                    bridges = run.first_step > before.last_step
                    until = run.starts[0] if bridges else max(before.starts[-1], attempt.began_at)
                    recorded.append((before.starts[-1], until))
                recorded.append((run.starts[0], run.starts[-1]))
                before = run
            stamps = tuple(mapped(stamps, counted))
        runs += [(len(starts) - 1, run) for run in stamps]
        edges += [run.starts[index] for run in stamps for index in (0, -1)]
        for phase in attempt.phases:
            told_at = (phase.start,) if phase.phase in SPOKEN_ONCE else (phase.start, phase.end)
            edges += [counted(at) for at in told_at if low < at <= high]
        phases += [
            PhaseTold(each.phase, each.name, counted(each.start), counted(each.end))
            for each in attempt.phases
            if low < each.start and each.end <= high
        ]
    if before is not None and end is not None:
        recorded.append((before.starts[-1], end))
    loads = [(each.end, each.end - each.start) for each in phases if each.phase is Phase.DATA_WAIT]
    loads += [
        (counted(each.at), round(each.value * 1e9))
        for each in told
        if each.name == "data_loading_seconds" and low < each.at <= high
    ]
    for each in told:
        if each.name == "data_loading_seconds":
            begun = each.at - round(each.value * 1e9)
            edges += [counted(at) for at in (begun, each.at) if low < at <= high]
    edges += [counted(load.start) for each in history.attempts for load in each.loads if low < load.start <= high]
    edges += starts
    if end is not None and low < end <= high:
        edges.append(counted(end))
    saves, restores = (
        [
            (each.step, counted(each.end) - counted(each.start))
            for transfers in of_all
            for each in transfers
            if low < each.start and each.end <= high
        ]
        for of_all in ([each.saves for each in history.attempts], [each.loads for each in history.attempts])
    )
    return GoogleLog(
        starts=tuple(starts),
        runs=tuple(runs),
        end=counted(end) if end is not None and low < end <= high else None,
        phases=tuple(phases),
        loads=tuple(sorted(loads)),
        edges=(min(edges), max(edges)) if edges else None,
        save_spans=tuple(
            (counted(save.start), counted(save.end))
            for each in history.attempts
            for save in each.saves
            if low < save.start and save.end <= high
        ),
        left_in=_outside(clock.windows, recorded),
        excludes=not clock.never_stops,
        saves=0 if not clock.never_stops else _mean_by_step([*saves, *_told_lengths(told, "save", low, high)]),
        restores=0 if not clock.never_stops else _mean_by_step([*restores, *_told_lengths(told, "restore", low, high)]),
    )


def _outside(windows: Sequence[tuple[int, int]], stretches: Sequence[tuple[int, int]]) -> int:
    """How much of some windows lies in none of the stretches; what lies in two of them counts against it twice."""
    return sum(
        until - since - sum(max(0, min(end, until) - max(start, since)) for start, end in stretches)
        for since, until in windows
    )


def _told_lengths(told: Sequence[ToldFigure], what: str, low: int, high: int) -> Iterable[tuple[object, int]]:
    """Saves and restores whose length was told without a place in time."""
    for each in told:
        if each.name in (f"{what}_seconds", f"local_{what}_seconds") and low < each.at <= high:
            yield (each.step, each.name), round(each.value * 1e9)


def _mean_by_step(lengths: Iterable[tuple[object, int]]) -> int:
    """For each step the mean of its lengths, added up."""
    by_step: dict[object, list[int]] = {}
    for step, length in lengths:
        by_step.setdefault(step, []).append(length)
    return sum(sum(group) // len(group) for group in by_step.values())
