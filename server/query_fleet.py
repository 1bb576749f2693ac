"""Queries about the fleet: how good all runs were together, what it cost, and which of them needs a person first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rerail.server.core.facts import Phase
from rerail.server.core.rollup import Resolution, RollupBin
from rerail.server.core.statistics import percentile
from rerail.server.core.view import RunState, SpanKind
from rerail.server.query_problem_results import NodeRow
from rerail.server.store import Store
from rerail.server.store.alert_rows import FaultSums, WantingRow

if TYPE_CHECKING:
    from rerail.server.queries import Queries

WEEK = 7 * Resolution.DAY
COLUMN = 3 * Resolution.HOUR
GPU_MS = 1_000_000
MOST_WANTING = 20


@dataclass(frozen=True, slots=True)
class FleetSum:
    """Time of all runs together, in one stretch."""

    start: int
    end: int
    elapsed_ns: int
    productive_ns: int
    faults_ns: int
    lost_gpu_ns: tuple[tuple[Phase, int], ...]
    """Not productive, by phase, the largest first; only of what has a GPU number."""
    uncounted_ns: int = 0
    """Not productive, and of no known number of GPUs: what was lost is unknown, or more than `lost_gpu_ns` says."""
    elapsed_gpu_ns: int | None = None
    """Weighted by GPUs, as the next two, of the time whose GPUs are known; None where there is no such time."""
    productive_gpu_ns: int | None = None
    faults_gpu_ns: int | None = None

    @property
    def training_goodput(self) -> float | None:
        """Productive ÷ elapsed; None where nothing elapsed."""
        return self.productive_ns / self.elapsed_ns if self.elapsed_ns else None

    @property
    def infrastructure_goodput(self) -> float | None:
        """1 − faults ÷ elapsed."""
        return 1 - self.faults_ns / self.elapsed_ns if self.elapsed_ns else None

    @property
    def training_goodput_by_gpus(self) -> float | None:
        """Productive ÷ elapsed GPU-hours; None where they are not known."""
        return (self.productive_gpu_ns or 0) / self.elapsed_gpu_ns if self.elapsed_gpu_ns else None

    @property
    def infrastructure_goodput_by_gpus(self) -> float | None:
        """1 − faults ÷ elapsed GPU-hours."""
        return 1 - (self.faults_gpu_ns or 0) / self.elapsed_gpu_ns if self.elapsed_gpu_ns else None


@dataclass(frozen=True, slots=True)
class CauseCost:
    """What one cause cost in the period, and in the one before."""

    cause: str
    incidents: int
    incidents_before: int
    lost_gpu_ns: int | None
    lost_gpu_before_ns: int | None


@dataclass(frozen=True, slots=True)
class ScopeRecovery:
    """Times to recover of one scope; p50 of the period before beside it."""

    scope: str
    n: int
    p50_ns: int | None
    p90_ns: int | None
    max_ns: int | None
    n_before: int
    p50_before_ns: int | None


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet page."""

    start: int
    end: int
    now: FleetSum
    before: FleetSum
    columns: tuple[FleetSum, ...]
    """The period in stretches of three hours."""
    runs: int
    states: tuple[tuple[RunState, int], ...]
    causes: tuple[CauseCost, ...]
    recoveries: tuple[ScopeRecovery, ...]
    runs_lived: int
    """Of the period itself, without the one before."""
    runs_without_gpus: int
    """Of these, those of which some time is of no known number of GPUs: that time is not in what GPUs weigh."""
    wanting: tuple[WantingRow, ...]
    wanting_count: int
    open_alerts: int
    lemons: tuple[NodeRow, ...]


class FleetQueries:
    """Reads about all runs of one store."""

    def __init__(self, queries: Queries, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._queries = queries
        self._store = store
        self._clock = clock

    def view(self, length_ns: int = WEEK) -> FleetView:
        """The period until now, with the one before it."""
        at = self._clock()
        end = -(-at // Resolution.HOUR) * Resolution.HOUR
        start = end - length_ns
        bins = self._store.fleet_rollup_by_gpus(Resolution.HOUR, start - length_ns, end)
        runs = len(bins.lives)
        states = tuple(self._queries.run_states().items())
        wanting, wanting_count = self._store.alerts.wanting(at, MOST_WANTING)
        lemons = self._queries.nodes.nodes(level="lemon", limit=5).rows if runs else ()
        alerts = self._store.alerts
        faults = (alerts.faults_between(start, end), alerts.faults_between(start - length_ns, start))
        columns = []
        hours = (_by_hour(bins.told), _by_hour(bins.untold))
        for first in range(start, end, COLUMN):
            columns.append(_sum(hours, first, min(end, first + COLUMN)))
        return FleetView(
            start, end, _sum(hours, start, end), _sum(hours, start - length_ns, start), tuple(columns), runs, states,
            _causes(*faults), _recoveries(*faults),
            sum(each.until > start for each in bins.lives),
            sum((each.untold_until or 0) > start for each in bins.lives), wanting, wanting_count,
            self._queries.alerts.open_count(), tuple(lemons),
        )  # fmt: skip


def _causes(period: tuple[FaultSums, ...], earlier: tuple[FaultSums, ...]) -> tuple[CauseCost, ...]:
    now = _by(period, lambda each: each.cause)
    before = _by(earlier, lambda each: each.cause)
    costs = [
        CauseCost(
            cause,
            _count(now.get(cause)),
            _count(before.get(cause)),
            _cost(now.get(cause)),
            _cost(before.get(cause)),
        )
        for cause in {*now, *before}
    ]
    return tuple(sorted(costs, key=lambda each: (-(each.lost_gpu_ns or 0), -each.incidents, each.cause)))


def _recoveries(period: tuple[FaultSums, ...], earlier: tuple[FaultSums, ...]) -> tuple[ScopeRecovery, ...]:
    now = _by(period, lambda each: each.scope or "unknown")
    before = _by(earlier, lambda each: each.scope or "unknown")
    rows = []
    for scope in sorted({*now, *before}):
        mine, old = _lengths(now.get(scope)), _lengths(before.get(scope))
        rows.append(
            ScopeRecovery(
                scope,
                len(mine),
                _at(mine, 0.5),
                _at(mine, 0.9),
                mine[-1] if mine else None,
                len(old),
                _at(old, 0.5),
            )
        )
    return tuple(rows)


def _by_hour(bins: tuple[RollupBin, ...]) -> dict[int, RollupBin]:
    return {each.start + place * Resolution.HOUR: each for each in bins for place in range(each.count)}


def _sum(hours: Sequence[Mapping[int, RollupBin]], start: int, end: int) -> FleetSum:
    elapsed = productive = faults = uncounted = 0
    elapsed_gpu = productive_gpu = faults_gpu = 0
    lost: dict[Phase, int] = {}
    for at in range(start, end, Resolution.HOUR):
        found = [each.cells for each in (one.get(at) for one in hours) if each is not None]
        for cell in chain.from_iterable(found):
            if cell.phase is Phase.EXCLUDED:
                continue
            elapsed += cell.ns
            elapsed_gpu += cell.gpu_ns or 0
            productive_gpu += (cell.gpu_ns or 0) if cell.kind is SpanKind.PRODUCTIVE else 0
            faults_gpu += (cell.gpu_ns or 0) if cell.kind is SpanKind.FAULT else 0
            if cell.kind is SpanKind.PRODUCTIVE:
                productive += cell.ns
                continue
            faults += cell.ns if cell.kind is SpanKind.FAULT else 0
            if cell.gpu_ns is None:
                uncounted += cell.ns
            else:
                lost[cell.phase] = lost.get(cell.phase, 0) + cell.gpu_ns
    ordered = tuple(sorted(((phase, cost) for phase, cost in lost.items() if cost), key=lambda each: -each[1]))
    by_gpus = (elapsed_gpu, productive_gpu, faults_gpu) if elapsed_gpu else (None, None, None)
    return FleetSum(start, end, elapsed, productive, faults, ordered, uncounted, *by_gpus)


def _by(sums: tuple[FaultSums, ...], name: Callable[[FaultSums], str]) -> dict[str, list[FaultSums]]:
    found: dict[str, list[FaultSums]] = {}
    for each in sums:
        found.setdefault(name(each), []).append(each)
    return found


def _count(sums: list[FaultSums] | None) -> int:
    return sum(each.incidents for each in sums or ())


def _cost(sums: list[FaultSums] | None) -> int | None:
    known = [each.lost_gpu_ms for each in sums or () if each.lost_gpu_ms is not None]
    return sum(known) * GPU_MS if known else None


def _lengths(sums: list[FaultSums] | None) -> list[int]:
    return sorted(length for each in sums or () for length in each.recover_ns)


def _at(lengths: list[int], share: float) -> int | None:
    return percentile(lengths, share) if lengths else None
