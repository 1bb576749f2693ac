"""Thinning: long histories cut to what a picture has pixels for, without hiding what matters.

Rules
- A bin tells every phase that occurred in it, exactly: a short stall inside a long calm does not vanish.
- Checkpoints are thinned evenly; the newest and those that failed stay.
- A wide range is made of rollups: whole bins of them, so that its first and last column may reach beyond the range.
- Step points are thinned between the edges; the two ends of every fall (a rollback) stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.rollup import Resolution, RollupBin, RunningSums, between, cells_of, point_between
from rerail.server.core.view import Checkpoint, SlidingPoint, Span, StepPoint
from rerail.server.query_results import Bin


def binned(spans: Sequence[Span], start: int, end: int, count: int) -> tuple[Bin, ...]:
    """`count` equal bins over `[start, end)`; bins nothing touches are empty."""
    edges = [start + (end - start) * index // count for index in range(count + 1)]
    sums: list[dict[Phase, int]] = [{} for _ in range(count)]
    index = 0
    for span in spans:
        while edges[index + 1] <= span.start:
            index += 1
        at, phase, here = span.start, span.phase, index
        while at < span.end:
            until = min(span.end, edges[here + 1])
            cell = sums[here]
            cell[phase] = cell.get(phase, 0) + until - at
            at = until
            here += 1
    return tuple(Bin(edges[place], edges[place + 1], _in_order(cell)) for place, cell in enumerate(sums))


_ORDER = {phase: place for place, phase in enumerate(Phase)}


def _in_order(ns_by_phase: dict[Phase, int]) -> tuple[tuple[Phase, int], ...]:
    if len(ns_by_phase) < 2:
        return tuple(ns_by_phase.items())
    return tuple(sorted(ns_by_phase.items(), key=lambda entry: _ORDER[entry[0]]))


@dataclass(frozen=True, slots=True)
class RollupStep:
    """Columns of a wide picture: so many bins of a resolution each."""

    resolution: Resolution
    factor: int

    @property
    def length_ns(self) -> int:
        """Of a column."""
        return self.resolution * self.factor

    def floor(self, instant: int) -> int:
        """The beginning of the column an instant lies in."""
        return instant // self.length_ns * self.length_ns


def rollup_step(range_ns: int, most_columns: int) -> RollupStep | None:
    """The coarsest rollup that fills at least half of the columns; None where a minute is too coarse."""
    for resolution in sorted(Resolution, reverse=True):
        count = -(-range_ns // resolution)
        if 2 * count >= most_columns:
            return RollupStep(resolution, -(-count // most_columns))
    return None


class WideWindow:
    """A wide range of a run, made of its rollup; `bins` reach back by one sliding window."""

    def __init__(self, bins: Sequence[RollupBin], step: RollupStep, window_ns: int) -> None:
        self._rollup, self._step, self._window_ns = bins, step, window_ns

    def bins(self, start: int, end: int) -> tuple[Bin, ...]:
        """Columns that touch `[start, end)`, also those in which nothing happened."""
        length, first = self._step.length_ns, self._step.floor(start)
        sums: dict[int, dict[Phase, int]] = {begin: {} for begin in range(first, end, length)}
        for each in between(self._rollup, self._step.resolution, first, first + len(sums) * length):
            at, until = each.start, each.start + each.count * self._step.resolution
            while at < until:
                begin = at // length * length
                stop = min(until, begin + length)
                ns, times = sums[begin], (stop - at) // self._step.resolution
                for phase, _, length_ns, _ in each.cells:
                    ns[phase] = ns.get(phase, 0) + length_ns * times
                at = stop
        if self._step.factor == 1:  # cells come in the order of phases
            return tuple(Bin(begin, begin + length, tuple(ns.items())) for begin, ns in sums.items())
        return tuple(Bin(begin, begin + length, _in_order(ns)) for begin, ns in sums.items())

    def points(
        self,
        first: int,
        last: int,
        count: int,
        spans_between: Callable[[int, int], Sequence[Span]],
    ) -> tuple[SlidingPoint, ...]:
        """Both goodputs at up to `count` edges between bins and at `last`, whose window needs the spans of two bins."""
        length = self._step.resolution
        stride = max(1, -(-(last - first) // (max(1, count - 1) * length))) * length
        sums = RunningSums(self._rollup, self._step.resolution)
        edges = range(-(-(first + 1) // length) * length, last, stride)
        points = [point_between(at, sums.until(at - self._window_ns), sums.until(at)) for at in edges]
        if last > first:
            ends = []
            for at in (last - self._window_ns, last):
                edge = at // length * length
                ends.append(sums.until(edge).plus(cells_of(spans_between(edge, at))))
            points.append(point_between(last, *ends))
        return tuple(points)


def thinned_points(points: Sequence[StepPoint], most: int) -> tuple[StepPoint, ...]:
    """At most `most` points: both ends, both sides of the largest falls, and an even choice of the rest."""
    if len(points) <= most:
        return tuple(points)
    falls = [
        (points[index - 1].step - points[index].step, index)
        for index in range(1, len(points))
        if points[index].step < points[index - 1].step or points[index].attempt != points[index - 1].attempt
    ]
    falls.sort(reverse=True)
    kept = {0, len(points) - 1}
    for _, index in falls[: max(0, most // 2 - 2)]:
        kept.update((index - 1, index))
    left = most - len(kept)
    if left > 0:
        kept.update(len(points) * place // left for place in range(left))
    return tuple(points[index] for index in sorted(kept))


def thinned_checkpoints(checkpoints: Sequence[Checkpoint], most: int) -> tuple[Checkpoint, ...]:
    """At most `most` checkpoints: the newest, up to half of them failed ones, and an even choice of the rest."""
    if len(checkpoints) <= most:
        return tuple(checkpoints)
    failed = [place for place, each in enumerate(checkpoints) if each.failed_at is not None]
    kept = {len(checkpoints) - 1, *failed[-(most // 2) :]}
    left = most - len(kept)
    kept.update(len(checkpoints) * place // left for place in range(left))
    return tuple(checkpoints[place] for place in sorted(kept))
