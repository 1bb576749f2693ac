"""Strips: a run's whole life in a few columns, for a picture in a row of a list.

Rules
- A column says how much of it was productive and which phase took most of the rest, so that a short stall in a long
  life is seen as a notch. Where nothing was told of a column there is none.
- They are made of the saved rollups of the rows that are shown, at the finest resolution that is not too much to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.rollup import Resolution, RollupBin
from rerail.server.core.view import SpanKind
from rerail.server.query_results import RunRow
from rerail.server.store import Store

COLUMNS = 40
MOST_BINS = 480
"""Bins of one run that are read for its strip."""


@dataclass(frozen=True, slots=True)
class StripColumn:
    """A stretch of a run's life."""

    start: int
    end: int
    productive: float
    """Share of the time told of, without what is out of account."""
    lost_to: Phase | None
    """The phase that took most of the rest; None where all of it was productive."""


def strips(store: Store, rows: Sequence[RunRow]) -> dict[str, tuple[StripColumn | None, ...]]:
    """Run → its columns, oldest first; a run that has not begun has none."""
    lives = {row.run_id: _life(row) for row in rows if row.started_at is not None}
    by_resolution: dict[Resolution, list[str]] = {}
    for run, (start, end) in lives.items():
        by_resolution.setdefault(_resolution(end - start), []).append(run)
    found: dict[str, tuple[StripColumn | None, ...]] = {}
    for resolution, runs in by_resolution.items():
        bins = store.rollups(runs, resolution)
        for run in runs:
            found[run] = columns(bins.get(run, ()), resolution, *lives[run])
    return found


def columns(bins: Sequence[RollupBin], resolution: Resolution, start: int, end: int) -> tuple[StripColumn | None, ...]:
    """At most `COLUMNS` columns of whole bins over `[start, end)`; None where no bin tells of one."""
    first, last = resolution.floor(start), -resolution.floor(-end)
    count = max(1, (last - first) // resolution)
    length = -(-count // COLUMNS) * resolution
    sums: dict[int, dict[tuple[Phase, bool], int]] = {}
    for each in bins:
        for at in range(each.start, each.start + each.count * resolution, resolution):
            of_column = sums.setdefault((at - first) // length, {})
            for cell in each.cells:
                if cell.phase is not Phase.EXCLUDED:
                    key = cell.phase, cell.kind is SpanKind.PRODUCTIVE
                    of_column[key] = of_column.get(key, 0) + cell.ns
    return tuple(
        _column(sums.get(place), first + place * length, min(last, first + (place + 1) * length))
        for place in range(-(-(last - first) // length))
    )


def _column(sums: dict[tuple[Phase, bool], int] | None, start: int, end: int) -> StripColumn | None:
    whole = sum(sums.values()) if sums else 0
    if not sums or not whole:
        return None
    productive = sum(length for (_, is_productive), length in sums.items() if is_productive)
    lost = {phase: length for (phase, is_productive), length in sums.items() if not is_productive and length}
    worst = max(lost, key=lambda phase: (lost[phase], phase.value)) if lost else None
    return StripColumn(start, end, productive / whole, worst)


def _life(row: RunRow) -> tuple[int, int]:
    start = row.started_at or 0
    return start, max(start + 1, row.as_of if row.ended_at is None else row.ended_at)


def _resolution(length: int) -> Resolution:
    return next((each for each in Resolution if length // each <= MOST_BINS), Resolution.DAY)
