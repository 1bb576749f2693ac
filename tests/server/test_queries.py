"""Queries: what pages read; exact where it can be, thinned where it must be, and never too much."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.api.timeline_shape import timeline_shape
from rerail.server.core.facts import Phase
from rerail.server.core.goodput import clipped
from rerail.server.core.view import Checkpoint, Span, SpanKind, StepPoint
from rerail.server.errors import NotFoundError
from rerail.server.projector import Projector
from rerail.server.queries import MOST_SPANS, Queries
from rerail.server.store import Receipt, Store
from rerail.server.thinning import binned, thinned_checkpoints, thinned_points

T = 1_760_000_000_000_000_000
S = 10**9
NOW = T + 1_000_000 * S
State = Callable[..., Receipt]
LongRun = Callable[..., list[dict[str, object]]]


@pytest.fixture
def queries(store: Store) -> Queries:
    return Queries(store, lambda: NOW)


def known(store: Store, state: State, lines: list[dict[str, object]]) -> None:
    state(*lines)
    Projector(store, lambda: NOW).derive_due()


def test_a_run_whose_view_is_not_made_yet_is_shown_all_the_same(
    queries: Queries, state: State, long_run: LongRun
) -> None:
    state(*long_run(2))
    assert queries.run("a").restarts == 1


def test_what_is_not_known_is_said(queries: Queries) -> None:
    for ask in (queries.run, queries.timeline, queries.spans, queries.incidents, queries.emitters, queries.incident):
        with pytest.raises(NotFoundError):
            ask("nothing")  # type: ignore[operator]


def test_the_past_knows_nothing_of_what_came_after(
    queries: Queries, store: Store, state: State, long_run: LongRun
) -> None:
    known(store, state, long_run(3))
    assert queries.run("a", T + 20 * S).restarts == 0
    assert queries.run("a", T + 20 * S).high_water_step == 10
    assert queries.run("a", NOW) == queries.run("a")


def test_the_past_goes_by_corrected_clocks(queries: Queries, store: Store, state: State, long_run: LongRun) -> None:
    """A rank whose clock runs an hour ahead is not cut off for stating the future."""
    ahead = 3600 * S
    lines = long_run(1)
    for line in lines:
        if line["emitter"] == "r":
            for name in ("at", "start", "end"):
                if name in line:
                    line[name] = int(str(line[name])) + ahead
    clock = {"kind": "clock", "run": "a", "emitter": "r", "seq": 999, "at": T + ahead, "offset_us": ahead // 1000}
    known(store, state, [*lines, clock])
    assert queries.run("a", T + 20 * S).high_water_step == 10


def test_a_window_is_an_account_of_its_own(queries: Queries, store: Store, state: State, long_run: LongRun) -> None:
    known(store, state, long_run(2))
    assert queries.window("a", T + 5 * S, T + 15 * S).training_goodput == 1
    assert queries.window("a", T + 5 * S, T + 16 * S, as_of=NOW).training_goodput == pytest.approx(10 / 11)
    assert queries.window("a", T - 10 * S, T - 5 * S).training_goodput is None


def test_many_spans_become_bins_that_sum_to_the_same(
    queries: Queries, store: Store, state: State, long_run: LongRun
) -> None:
    known(store, state, long_run(20))
    exact, some = queries.spans("a"), queries.spans("a", max_spans=50)
    assert exact.is_exact
    assert not some.is_exact
    assert len(some.bins) == 50
    assert some.span_count == len(exact.spans)
    for phase in Phase:
        in_spans = sum(span.end - span.start for span in exact.spans if span.phase is phase)
        assert sum(dict(entry.ns_by_phase).get(phase, 0) for entry in some.bins) == in_spans


def test_a_timeline_of_any_history_stays_small(queries: Queries, store: Store, state: State, long_run: LongRun) -> None:
    known(store, state, long_run(400))
    last_exact = store.spans("a", T, NOW)[MOST_SPANS - 1].end
    for width in (300, 1200, 4000):
        shape = timeline_shape(queries.timeline("a", width_px=width))
        assert not shape["is_exact"]
        assert len(json.dumps(shape, separators=(",", ":"))) < 200_000
        assert shape["left_out"]["attempts"] == 200  # type: ignore[index]
        near = timeline_shape(queries.timeline("a", T, last_exact, width_px=width))
        assert near["is_exact"]
        assert near["span_count"] == MOST_SPANS
        assert len(json.dumps(near, separators=(",", ":"))) < 200_000


def test_a_timeline_knows_the_sliding_goodput_through_an_outage(
    queries: Queries, store: Store, state: State, long_run: LongRun
) -> None:
    known(store, state, long_run(3))
    timeline = queries.timeline("a", window_ns=2 * S)
    values = [point.training for point in timeline.sliding]
    assert 0 in values
    assert 1 in values
    assert None not in values
    assert [attempt.number for attempt in timeline.attempts] == [0, 1, 2]
    assert timeline.left_out == ()


def test_a_run_whose_steps_nobody_tells_has_no_curve_of_training_goodput(
    queries: Queries, store: Store, state: State, long_run: LongRun
) -> None:
    lines = [line for line in long_run(3) if line["emitter"] == "l"]  # only the launcher speaks
    known(store, state, lines)
    points = queries.timeline("a", window_ns=2 * S).sliding
    assert {point.training for point in points} == {None}
    assert any(point.infrastructure for point in points), "what the launcher tells still limits it"


def test_an_incident_knows_its_neighbours(queries: Queries, store: Store, state: State, long_run: LongRun) -> None:
    known(store, state, long_run(4))
    page = queries.incidents("a")
    assert page.total == len(page.rows) == len(queries.run("a").incidents)
    middle = queries.incident(page.rows[1].incident_id)
    assert middle.next is not None
    assert middle.next.incident_id == page.rows[0].incident_id
    assert middle.previous is not None
    assert middle.run.run_id == "a"
    assert queries.incidents(limit=1).total == page.total


def test_changes_are_followed_by_a_cursor(queries: Queries, store: Store, state: State, long_run: LongRun) -> None:
    start = queries.changes_since()
    assert start.run_ids == ()
    known(store, state, long_run(1))
    changes = queries.changes_since(start.cursor)
    assert changes.run_ids == ("a",)
    assert queries.changes_since(changes.cursor).run_ids == ()


phases = st.sampled_from([Phase.TRAINING, Phase.SAVING, Phase.STALLED, Phase.QUEUED])


@given(st.lists(st.tuples(st.integers(1, 1000), phases), min_size=1, max_size=40), st.integers(1, 60), st.data())
def test_bins_hold_every_nanosecond_once(lengths: list[tuple[int, Phase]], count: int, data: st.DataObject) -> None:
    spans, at = [], T
    for length, phase in lengths:
        spans.append(Span(at, at + length, phase, SpanKind.PRODUCTIVE))
        at += length
    start = data.draw(st.integers(T - 50, at))
    end = data.draw(st.integers(start + count, at + 100 + count))
    inside = clipped(spans, start, end)
    bins = binned(inside, start, end, count)
    assert bins[0].start == start
    assert bins[-1].end == end
    assert all(left.end == right.start for left, right in pairwise(bins))
    for phase in Phase:
        whole = sum(span.end - span.start for span in inside if span.phase is phase)
        assert sum(dict(entry.ns_by_phase).get(phase, 0) for entry in bins) == whole
    for entry in bins:
        assert sum(length for _, length in entry.ns_by_phase) <= entry.end - entry.start


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=300), st.integers(10, 60))
def test_thinning_keeps_the_ends_and_the_largest_fall(steps: list[tuple[int, int]], most: int) -> None:
    points = [StepPoint(T + index, step, None, attempt) for index, (step, attempt) in enumerate(steps)]
    kept = thinned_points(points, most)
    assert len(kept) <= max(most, 0) or len(points) <= most
    assert list(kept) == sorted(kept, key=lambda point: point.at)
    assert set(kept) <= set(points)
    if len(points) <= most:
        assert kept == tuple(points)
        return
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    largest = max(left.step - right.step for left, right in pairwise(points))
    if largest > 0:
        assert any(left.step - right.step >= largest for left, right in pairwise(kept))


@given(st.lists(st.booleans(), max_size=300), st.integers(2, 60))
def test_thinned_checkpoints_keep_the_newest_and_the_failed(failures: list[bool], most: int) -> None:
    told = [
        Checkpoint(f"c{index}", index, started_at=T + index, failed_at=T + index if has_failed else None)
        for index, has_failed in enumerate(failures)
    ]
    kept = thinned_checkpoints(told, most)
    assert list(kept) == [each for each in told if each in kept]
    if len(told) <= most:
        assert kept == tuple(told)
        return
    assert len(kept) <= most
    assert kept[-1] == told[-1]
    failed = [each for each in told if each.failed_at is not None]
    assert set(failed[-(most // 2) :]) <= set(kept)
