"""Strips of a list's rows: few columns, which say of every stretch what its rollup says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.facts import Phase
from rerail.server.core.goodput import Capacities
from rerail.server.core.rollup import Cell, Resolution, RollupBin, rolled_up
from rerail.server.core.view import Span, SpanKind
from rerail.server.query_strips import COLUMNS, columns

S = 10**9
MINUTE = Resolution.MINUTE


def spans(lengths: list[tuple[int, int]]) -> list[Span]:
    kinds = (
        (Phase.TRAINING, SpanKind.PRODUCTIVE), (Phase.SAVING, SpanKind.CHECKPOINT), (Phase.DETECTING, SpanKind.FAULT),
        (Phase.EXCLUDED, SpanKind.EXCLUDED),
    )  # fmt: skip
    told, at = [], 7 * S
    for which, seconds in lengths:
        phase, kind = kinds[which]
        told.append(Span(at, at + seconds * S, phase, kind))
        at += seconds * S
    return told


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4000)), min_size=1, max_size=40))
def test_columns_say_together_what_the_spans_do(lengths):
    told = spans(lengths)
    start, end = told[0].start, told[-1].end
    found = columns(rolled_up(told, MINUTE, Capacities([])), MINUTE, start, end)
    assert 1 <= len(found) <= COLUMNS
    counted = [span for span in told if span.phase is not Phase.EXCLUDED]
    assert any(found) == bool(counted)
    edges = [each for each in found if each is not None]
    assert all(each.start < each.end for each in edges)
    for each in edges:
        inside = [(max(0, min(span.end, each.end) - max(span.start, each.start)), span) for span in counted]
        whole = sum(length for length, _ in inside)
        productive = sum(length for length, span in inside if span.kind is SpanKind.PRODUCTIVE)
        assert each.productive == pytest.approx(productive / whole)
        lost = {span.phase for length, span in inside if length and span.kind is not SpanKind.PRODUCTIVE}
        assert (each.lost_to is None) == (not lost)
        assert each.lost_to is None or each.lost_to in lost


def test_where_nothing_was_told_there_is_no_column():
    one = Cell(Phase.TRAINING, SpanKind.PRODUCTIVE, MINUTE.value, None)
    found = columns([RollupBin(0, (one,)), RollupBin(3 * MINUTE, (one,))], MINUTE, 0, 5 * MINUTE)
    assert [None if each is None else each.productive for each in found] == [1, None, None, 1, None]
