"""Rollups: every bin is the spans clipped to it, coarser bins are sums of finer ones, and lines over both agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.facts import Phase
from rerail.server.core.goodput import Capacities, clipped, gpu_tally, sliding, tally
from rerail.server.core.rollup import (
    Resolution,
    RollupBin,
    Rollups,
    RunningSums,
    between,
    cells_of,
    point_between,
    rolled_up,
    summed,
)
from rerail.server.core.timeline import DOWN_PHASES, KIND_OF_PHASE
from rerail.server.core.view import Span, SpanKind

T = 1_760_000_000_123_456_789
S = 10**9


@st.composite
def lives(draw: st.DrawFn) -> tuple[Span, ...]:
    """Touching spans from milliseconds to days long."""
    at, spans = T, []
    for _ in range(draw(st.integers(1, 25))):
        length = draw(st.one_of(st.integers(1, S), st.integers(S, 7000 * S), st.integers(S, 3 * 86_400 * S)))
        phase = draw(st.sampled_from(list(Phase)))
        kinds = [SpanKind.FAULT, SpanKind.STARTUP, SpanKind.PLANNED] if phase in DOWN_PHASES else [KIND_OF_PHASE[phase]]
        spans.append(Span(at, at + length, phase, draw(st.sampled_from(kinds))))
        at += length
    return tuple(spans)


@st.composite
def told_gpus(draw: st.DrawFn) -> Capacities:
    return Capacities(
        (T + draw(st.integers(-(10**14), 10**15)), draw(st.integers(0, 20_000))) for _ in range(draw(st.integers(0, 5)))
    )


def singly(bins: Sequence[RollupBin], resolution: Resolution) -> list[RollupBin]:
    """One by one."""
    return [RollupBin(each.start + place * resolution, each.cells) for each in bins for place in range(each.count)]


def coarser(bins: Sequence[RollupBin], resolution: Resolution, wanted: Resolution) -> list[RollupBin]:
    """Bins added up to longer ones."""
    moved = (RollupBin(wanted.floor(each.start), each.cells) for each in singly(bins, resolution))
    return list(summed(moved, wanted))


@given(lives(), told_gpus(), st.sampled_from(Resolution))
def test_every_bin_is_the_exact_sum_of_the_spans_clipped_to_it(
    spans: tuple[Span, ...], capacities: Capacities, resolution: Resolution
) -> None:
    alike = rolled_up(spans, resolution, capacities)
    for before, after in pairwise(alike):
        end = before.start + before.count * resolution
        assert end < after.start or (end == after.start and before.cells != after.cells)
    bins = singly(alike, resolution)
    assert [each.start for each in bins] == sorted({each.start for each in bins})
    assert sum(cell.ns for each in bins for cell in each.cells) == spans[-1].end - spans[0].start
    for each in bins[:200]:
        assert each.start % resolution == 0
        inside = clipped(spans, each.start, each.start + resolution)
        assert {cell[:2]: cell.ns for cell in each.cells} == tally(inside).ns
        if capacities.is_known:
            assert {cell[:2]: cell.gpu_ns for cell in each.cells} == gpu_tally(inside, capacities).ns
        else:
            assert all(cell.gpu_ns is None for cell in each.cells)


@given(lives(), told_gpus())
def test_hours_are_sums_of_minutes_and_days_of_hours(spans: tuple[Span, ...], capacities: Capacities) -> None:
    hours = rolled_up(spans, Resolution.HOUR, capacities)
    days = rolled_up(spans, Resolution.DAY, capacities)
    assert coarser(hours, Resolution.HOUR, Resolution.DAY) == singly(days, Resolution.DAY)
    if spans[-1].end - spans[0].start < 5 * Resolution.DAY:
        minutes = rolled_up(spans, Resolution.MINUTE, capacities)
        assert coarser(minutes, Resolution.MINUTE, Resolution.HOUR) == singly(hours, Resolution.HOUR)


@given(lives(), told_gpus(), told_gpus(), st.data())
def test_kept_up_from_view_to_view_they_are_those_made_at_once(
    spans: tuple[Span, ...], before: Capacities, after: Capacities, data: st.DataObject
) -> None:
    kept = Rollups()
    settled = length = 0
    known: dict[Resolution, list[RollupBin]] = {}
    while length < len(spans):
        length = data.draw(st.integers(length + 1, len(spans)))
        last = spans[length - 1]
        # The last span still grows, and its phase may yet turn out to be another.
        phase = data.draw(st.sampled_from((Phase.SILENT, last.phase)))
        cut = (*spans[: length - 1], replace(last, end=(last.start + last.end + 1) // 2, phase=phase))
        told = data.draw(st.sampled_from((before, after)))
        kept.renew(cut, settled, told)
        for resolution, rollup in kept.by_resolution.items():
            assert tuple(rollup.bins) == rolled_up(cut, resolution, told)
            assert rollup.bins[: rollup.settled] == known.get(resolution, [])[: rollup.settled]
            known[resolution] = list(rollup.bins)
        settled = length - 1
    kept.renew(spans[:1], 1 if len(spans) > 1 else 0, after)
    for resolution, rollup in kept.by_resolution.items():
        assert tuple(rollup.bins) == rolled_up(spans[:1], resolution, after)
    kept.renew((), 0, after)
    assert not any(rollup.bins for rollup in kept.by_resolution.values())


@given(lives(), st.integers(1, 60))
def test_lines_of_goodput_over_bins_are_those_over_spans(spans: tuple[Span, ...], hours: int) -> None:
    bins = rolled_up(spans, Resolution.HOUR, Capacities())
    sums, window = RunningSums(bins, Resolution.HOUR), hours * Resolution.HOUR
    edges = [each.start for each in singly(bins, Resolution.HOUR)][1:50]
    over_bins = tuple(point_between(at, sums.until(at - window), sums.until(at)) for at in edges)
    assert over_bins == sliding(spans, window, edges)


def test_a_sum_with_a_part_without_gpus_has_none() -> None:
    spans = (Span(0, 10, Phase.TRAINING, SpanKind.PRODUCTIVE),)
    known = rolled_up(spans, Resolution.DAY, Capacities([(0, 8)]))
    unknown = rolled_up(spans, Resolution.DAY, Capacities())
    assert known[0].cells[0].gpu_ns == 80
    assert summed([*known, *known], Resolution.DAY)[0].cells[0][2:] == (20, 160)
    assert summed([*known, *unknown], Resolution.DAY)[0].cells[0][2:] == (20, None)
    assert cells_of(spans)[0][2:] == (10, None)


@given(lives(), st.sampled_from((Resolution.HOUR, Resolution.DAY)), st.data())
def test_a_range_holds_the_bins_that_touch_it(
    spans: tuple[Span, ...], resolution: Resolution, data: st.DataObject
) -> None:
    bins = rolled_up(spans, resolution, Capacities())
    start = data.draw(st.integers(spans[0].start - Resolution.DAY, spans[-1].end))
    end = data.draw(st.integers(start, spans[-1].end + Resolution.DAY))
    touching = [each for each in singly(bins, resolution) if each.start < end and each.start + resolution > start]
    found = singly(list(between(bins, resolution, start, end)), resolution)
    assert found == (touching if start < end else [])


def test_a_year_of_silence_is_one_bin_with_a_count() -> None:
    year = 365 * Resolution.DAY
    (silence,) = rolled_up((Span(0, year, Phase.SILENT, SpanKind.UNKNOWN),), Resolution.MINUTE, Capacities())
    assert silence.count == 365 * 24 * 60
