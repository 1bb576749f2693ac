"""Rollups: a run's time by phase in bins of a minute, an hour or a day, so that a month need not be read span by span.

Rules
- Bins lie on multiples of their length since the Unix epoch, in UTC, so that bins of different runs can be added.
- A bin is the exact sum of the spans clipped to it; time outside the run's life is in no bin's sum.
- Bins in a row that are alike are kept as one with a count: a year of silence, or of undisturbed training, is one.
- A cell is a phase and the account it goes on, since the same down phase may be a fault's or a start-up's.
- GPU·ns are summed beside ns; None where no GPU number was told, and in a sum where any part of it has none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from rerail.server.core.facts import Phase
from rerail.server.core.goodput import Capacities, clipped
from rerail.server.core.view import SlidingPoint, Span, SpanKind


class Resolution(IntEnum):
    """Length of a bin in ns."""

    MINUTE = 60_000_000_000
    HOUR = 3_600_000_000_000
    DAY = 86_400_000_000_000

    def floor(self, instant: int) -> int:
        """The beginning of the bin an instant lies in."""
        return instant // self.value * self.value


class Cell(NamedTuple):
    """Time of one phase, on one account."""

    phase: Phase
    kind: SpanKind
    ns: int
    gpu_ns: int | None


@dataclass(frozen=True, slots=True)
class RollupBin:
    """`count` bins in a row, the first from `start` on, of which each consisted of the same."""

    start: int
    cells: tuple[Cell, ...]
    """Of each one; in the order of phases, then accounts; none is empty."""
    count: int = 1


class _Sums:
    """Sums of one bin while it is filled."""

    __slots__ = ("_gpu_ns", "_ns")

    def __init__(self) -> None:
        self._ns: dict[tuple[Phase, SpanKind], int] = {}
        self._gpu_ns: dict[tuple[Phase, SpanKind], int | None] = {}

    def count(self, phase: Phase, kind: SpanKind, ns: int, gpu_ns: int | None) -> None:
        key = (phase, kind)
        self._ns[key] = self._ns.get(key, 0) + ns
        known = self._gpu_ns.get(key, 0)
        self._gpu_ns[key] = None if known is None or gpu_ns is None else known + gpu_ns

    def take(self, cells: Iterable[Cell], times: int) -> None:
        """Cells, so many times over."""
        for phase, kind, ns, gpu_ns in cells:
            self.count(phase, kind, ns * times, None if gpu_ns is None else gpu_ns * times)

    @property
    def is_begun(self) -> bool:
        """Whether anything was counted."""
        return bool(self._ns)

    def cells(self) -> tuple[Cell, ...]:
        keys = sorted(self._ns, key=_order)
        return tuple(Cell(*key, self._ns[key], self._gpu_ns[key]) for key in keys)


_PHASES = {phase: place for place, phase in enumerate(Phase)}
_KINDS = {kind: place for place, kind in enumerate(SpanKind)}


def _order(key: tuple[Phase, SpanKind]) -> tuple[int, int]:
    return _PHASES[key[0]], _KINDS[key[1]]


class Rollup:
    """The bins of one run at one resolution, kept up as its spans go on."""

    def __init__(self, resolution: Resolution) -> None:
        self.resolution = resolution
        self.bins: list[RollupBin] = []
        """In order."""
        self.settled = 0
        """How many leading ones the last `renew` left as they were."""

    def renew(self, spans: Sequence[Span], capacities: Capacities, since: int | None) -> None:
        """Make the bins from the one that holds `since` on anew; None makes all anew."""
        edge = None if since is None or not spans else self.resolution.floor(since)
        self._keep_until(edge)
        if edge is not None:
            spans = clipped(spans, edge, spans[-1].end)
        for start, cells, count in _rolled(spans, self.resolution, capacities):
            self._append(start, cells, count)

    def renew_from(self, finer: Rollup, since: int | None) -> None:
        """The same, out of the bins of a resolution that divides this one: a day is made of 24 hours, not of spans."""
        edge = None if since is None or not finer.bins else self.resolution.floor(since)
        self._keep_until(edge)
        for start, cells, count in _coarser(finer, self.resolution, edge):
            self._append(start, cells, count)

    def _keep_until(self, edge: int | None) -> None:
        """Keep what lies before an edge; None keeps nothing."""
        if edge is None:
            self.bins.clear()
        else:
            self._cut(edge)
        # The last one may be counted on.
        self.settled = max(0, len(self.bins) - 1)

    def _cut(self, edge: int) -> None:
        """Take out everything from an edge between two bins on."""
        bins, length = self.bins, self.resolution.value
        while bins and bins[-1].start + bins[-1].count * length > edge:
            last = bins.pop()
            if last.start < edge:
                bins.append(RollupBin(last.start, last.cells, (edge - last.start) // length))

    def _append(self, start: int, cells: tuple[Cell, ...], count: int) -> None:
        bins = self.bins
        if bins and bins[-1].cells == cells and bins[-1].start + bins[-1].count * self.resolution == start:
            last = bins.pop()
            start, count = last.start, last.count + count
        bins.append(RollupBin(start, cells, count))


class Rollups:
    """The bins of one run at every resolution, kept up from view to view."""

    def __init__(self) -> None:
        self.by_resolution = {resolution: Rollup(resolution) for resolution in Resolution}
        self._gpus: tuple[tuple[int, int], ...] = ()

    def renew(self, spans: Sequence[Span], settled_spans: int, capacities: Capacities) -> None:
        """Take the spans of a new view, of which so many leading ones are as they were in the view before."""
        since = spans[settled_spans - 1].end if settled_spans and spans else None
        if since is not None and capacities.told != self._gpus:
            since = _first_change(self._gpus, capacities.told, since)
        self._gpus = capacities.told
        finer, *coarser = self.by_resolution.values()
        finer.renew(spans, capacities, since)
        for rollup in coarser:
            rollup.renew_from(finer, since)
            finer = rollup


def _first_change(before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]], since: int) -> int | None:
    """The earliest instant, up to `since`, for which another number of GPUs is told; None where it may be any."""
    if not before or not now or before[0] != now[0]:
        return None  # The first number holds for all the time before it.
    shared = min(len(before), len(now))
    place = next((index for index in range(shared) if before[index] != now[index]), shared)
    return min(since, *(change[0] for change in (*before[place : place + 1], *now[place : place + 1])))


def rolled_up(spans: Sequence[Span], resolution: Resolution, capacities: Capacities) -> tuple[RollupBin, ...]:
    """The bins of a run's ordered spans."""
    rollup = Rollup(resolution)
    rollup.renew(spans, capacities, None)
    return tuple(rollup.bins)


def _rolled(
    spans: Iterable[Span], resolution: Resolution, capacities: Capacities
) -> Iterator[tuple[int, tuple[Cell, ...], int]]:
    """`(start, cells, count)` of bins in order; neighbours may be alike."""
    length, only = resolution.value, capacities.only
    begin, sums = 0, None
    for span in spans:
        at = span.start
        while at < span.end:
            here = resolution.floor(at)
            if sums is not None and here != begin:
                yield begin, sums.cells(), 1
                sums = None
            whole = 0
            if at == here and sums is None:
                stop = span.end if only is not None or not capacities.is_known else capacities.holds_until(at, span.end)
                whole = (stop - at) // length
            if whole:
                gpus = capacities.at(at)
                yield here, (Cell(span.phase, span.kind, length, None if gpus is None else gpus * length),), whole
                at += whole * length
                continue
            until = min(span.end, here + length)
            if sums is None:
                begin, sums = here, _Sums()
            gpu_ns = capacities.gpu_ns(at, until) if capacities.is_known else None
            sums.count(span.phase, span.kind, until - at, gpu_ns)
            at = until
    if sums is not None:
        yield begin, sums.cells(), 1


def _coarser(finer: Rollup, resolution: Resolution, since: int | None) -> Iterator[tuple[int, tuple[Cell, ...], int]]:
    """`(start, cells, count)` of bins made of finer ones, from an edge between two on; neighbours may be alike."""
    bins, part, length = finer.bins, finer.resolution.value, resolution.value
    first = 0 if since is None else max(0, bisect_right(bins, since, key=_start_of) - 1)
    begin, sums = 0, _Sums()
    for each in bins[first:]:
        at, end = each.start if since is None else max(each.start, since), each.start + each.count * part
        while at < end:
            here = resolution.floor(at)
            if here != begin:
                if sums.is_begun:
                    yield begin, sums.cells(), 1
                begin, sums = here, _Sums()
            whole = (end - at) // length if at == here else 0
            if whole:
                sums.take(each.cells, length // part)
                yield begin, sums.cells(), whole
                sums = _Sums()
                at += whole * length
                continue
            until = min(end, here + length)
            sums.take(each.cells, (until - at) // part)
            at = until
    if sums.is_begun:
        yield begin, sums.cells(), 1


def _start_of(each: RollupBin) -> int:
    return each.start


def between(bins: Iterable[RollupBin], resolution: Resolution, start: int, end: int) -> Iterator[RollupBin]:
    """Those that touch `[start, end)`; of bins in a row only so many as do."""
    length = resolution.value
    for each in bins if start < end else ():
        first = max(each.start, start // length * length)
        last = min(each.start + each.count * length, -(-end // length) * length)
        if first < last:
            yield RollupBin(first, each.cells, (last - first) // length)


def summed(bins: Iterable[RollupBin], resolution: Resolution) -> tuple[RollupBin, ...]:
    """Bins of any runs added up, in order and one by one; a bin of nothing is not there."""
    by_start: dict[int, _Sums] = {}
    for each in bins:
        for start in range(each.start, each.start + each.count * resolution, resolution):
            sums = by_start.get(start)
            if sums is None:
                sums = by_start[start] = _Sums()
            for phase, kind, ns, gpu_ns in each.cells:
                sums.count(phase, kind, ns, gpu_ns)
    return tuple(RollupBin(start, by_start[start].cells()) for start in sorted(by_start))


class Lived(NamedTuple):
    """Until when a run has bins, and until when bins with time of no known number of GPUs; None where it has none."""

    until: int
    untold_until: int | None


@dataclass(frozen=True, slots=True)
class FleetBins:
    """Bins of all runs added up, apart by whether the number of GPUs is known."""

    told: tuple[RollupBin, ...]
    untold: tuple[RollupBin, ...]
    lives: tuple[Lived, ...]
    """One of each run that has any."""


def cells_of(spans: Iterable[Span]) -> tuple[Cell, ...]:
    """The cells of spans as they are, without GPUs."""
    return tuple(Cell(span.phase, span.kind, span.end - span.start, None) for span in spans)


class Elapsed(NamedTuple):
    """Sums from the beginning of a run's life until an instant, in ns."""

    elapsed: int = 0
    """Without `excluded`."""
    training: int = 0
    faults: int = 0

    def plus(self, cells: Iterable[Cell], times: int = 1) -> Elapsed:
        """These sums, and that time after it, so many times."""
        elapsed = training = faults = 0
        for phase, kind, ns, _ in cells:
            if phase is not Phase.EXCLUDED:
                elapsed += ns
            if phase is Phase.TRAINING:
                training += ns
            elif kind is SpanKind.FAULT:
                faults += ns
        return Elapsed(self.elapsed + elapsed * times, self.training + training * times, self.faults + faults * times)


class RunningSums:
    """Sums up to each edge of a run's bins: what a sliding window over a wide range is made of."""

    def __init__(self, bins: Sequence[RollupBin], resolution: Resolution) -> None:
        self._bins, self._length = bins, resolution.value
        self._starts = [each.start for each in bins]
        self._sums = [Elapsed()]
        for each in bins:
            self._sums.append(self._sums[-1].plus(each.cells, each.count))

    def until(self, edge: int) -> Elapsed:
        """The sums of everything before an edge between two bins."""
        index = bisect_right(self._starts, edge) - 1
        if index < 0:
            return Elapsed()
        here = self._bins[index]
        inside = min(here.count, (edge - here.start) // self._length)
        return self._sums[index].plus(here.cells, inside)


def point_between(at: int, since: Elapsed, until: Elapsed) -> SlidingPoint:
    """Both goodputs of what lies between two sums, told at an instant; None where nothing does."""
    elapsed = until.elapsed - since.elapsed
    if elapsed <= 0:
        return SlidingPoint(at, None, None)
    return SlidingPoint(at, (until.training - since.training) / elapsed, 1 - (until.faults - since.faults) / elapsed)
