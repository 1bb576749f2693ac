"""Pictures of wide ranges: made of rollups they show what the spans come to, with less to read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rerail.server.core.facts import Phase
from rerail.server.core.goodput import clipped, sliding, tally
from rerail.server.core.rollup import Resolution
from rerail.server.projector import Projector
from rerail.server.queries import MOST_SPANS, Queries
from rerail.server.store import Receipt, Store
from rerail.server.thinning import rollup_step

T = 1_760_000_000_000_000_000
S = 10**9
DAY = 86_400 * S
State = Callable[..., Receipt]


@pytest.fixture
def long_life(store: Store, state: State) -> Queries:
    """A run of 80 days that waits for data every hour, and is open."""
    lines: list[dict[str, object]] = [
        {"kind": "attempt_started", "run": "a", "emitter": "l", "seq": 0, "at": T, "job": "1", "restart": 0, "gpus": 8}
    ]
    at, place = T, {"run": "a", "emitter": "r", "job": "1", "restart": 0, "rank": 0}
    for hour in range(80 * 24):
        length = 3000 + hour * 7919 % 500
        lines.append(
            {"kind": "steps", **place, "seq": 2 * hour, "at": at + length * S, "first_step": 1 + 100 * hour,
             "start": at, "durations_us": [length * 1_000_000], "count": 100}
        )  # fmt: skip
        at += length * S
        lines.append(
            {"kind": "phase", **place, "seq": 2 * hour + 1, "at": at + 200 * S, "phase": "data_wait", "start": at,
             "end": at + 200 * S}
        )  # fmt: skip
        at += 200 * S
    now = at + 5 * S
    state(*lines, received_at=now)
    Projector(store, lambda: now).derive_due()
    return Queries(store, lambda: now)


@pytest.mark.parametrize(("start", "length"), [(0, 81), (3.3, 60), (10.7, 64.21), (0, 73)])
def test_columns_and_lines_over_bins_are_those_over_spans(
    long_life: Queries, store: Store, start: float, length: float
) -> None:
    first = T + round(start * DAY)
    last = first + round(length * DAY)
    found = long_life.timeline("a", first, last)
    spans = store.spans("a", 0, 2**62)
    assert found.spans.span_count > MOST_SPANS
    assert {each.end - each.start for each in found.spans.bins} == {2 * Resolution.HOUR}, "whole bins of the rollup"
    assert found.spans.bins[0].start <= first < found.spans.bins[0].end
    assert found.spans.bins[-1].start < last <= found.spans.bins[-1].end
    for each in found.spans.bins:
        expected: dict[Phase, int] = {}
        for (phase, _), length_ns in tally(clipped(spans, each.start, each.end)).ns.items():
            expected[phase] = expected.get(phase, 0) + length_ns
        assert dict(each.ns_by_phase) == expected
    instants = [point.at for point in found.sliding]
    assert 100 < len(instants) <= 401
    assert instants[-1] == min(last, found.as_of)
    assert found.sliding == sliding(spans, found.window_ns, instants)


def test_a_window_that_cuts_bins_is_read_from_the_spans(long_life: Queries, store: Store) -> None:
    found = long_life.timeline("a", window_ns=300 * S)
    instants = [point.at for point in found.sliding]
    assert found.sliding == sliding(store.spans("a", 0, 2**62), 300 * S, instants)


def test_a_narrow_range_is_exact(long_life: Queries) -> None:
    assert long_life.timeline("a", T + 3 * DAY, T + 9 * DAY).spans.is_exact


@pytest.mark.parametrize(
    ("days", "expected"),
    [(0.1, None), (0.5, (Resolution.MINUTE, 1)), (10, (Resolution.MINUTE, 12)), (30, (Resolution.HOUR, 1)),
     (365, (Resolution.HOUR, 8)), (3650, (Resolution.DAY, 4))],
)  # fmt: skip
def test_the_coarsest_rollup_that_fills_the_picture_is_taken(
    days: float, expected: tuple[Resolution, int] | None
) -> None:
    step = rollup_step(round(days * DAY), 1200)
    assert (step and (step.resolution, step.factor)) == expected
