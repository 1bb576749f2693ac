"""The wire format: strict, exact about what is wrong, and lossless for what it does not know."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.codec import (
    Context,
    FactError,
    decode,
    decode_line,
    encode,
    encode_line,
    pack_durations,
    unpack_durations,
)
from rerail.server.core.facts import FACT_TYPES, Steps, UnknownFact
from tests.histories import histories

STEPS = {
    "kind": "steps", "run": "r", "emitter": "rank/n/0/x", "seq": 3, "at": 1_760_000_000_000_000_000,
    "first_step": 1, "start": 1_760_000_000_000_000_000, "durations_us": [5, 6, 7],
}  # fmt: skip


def test_every_recorded_fact_survives_a_round_trip():
    kinds = set()
    for history in histories():
        for fact in history.facts():
            assert decode_line(encode_line(fact)) == fact
            kinds.add(type(fact))
    assert len(kinds) > 15


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"durations_us": [5, 6, 7, -5]}, "durations_us[3]", "negative"),
        ({"durations_us": [5, float("nan")]}, "durations_us[1]", "not an integer"),
        ({"durations_us": []}, "durations_us", "empty"),
        ({"durations_us": None}, "durations_us", "missing"),
        ({"at": 1_000_000}, "at", "before the year 2000"),
        ({"at": 1_760_000_000}, "at", "before the year 2000"),
        ({"at": "now"}, "at", "not an integer"),
        ({"run": ""}, "run", "empty"),
        ({"run": ".."}, "run", "cannot stand in an address"),
        ({"run": "  "}, "run", "cannot stand in an address"),
        ({"first_step": 2**62}, "first_step", "above"),
        ({"run": "r" * 201}, "run", "longer than 200"),
        ({"run": "a\x1b[31m"}, "run", "control characters"),
        ({"seq": -1}, "seq", "negative"),
        ({"seq": True}, "seq", "not an integer"),
        ({"count": 10}, "durations_us", "exactly one duration"),
        ({"loss": [1.0]}, "loss", "not one per step"),
        ({"blob": "!!"}, "blob", ""),
        ({"kind": "phase", "phase": "daydreaming"}, "phase", "not a phase"),
        ({"kind": "phase", "phase": "training"}, "phase", "not a phase that can be stated"),
        ({"kind": "phase", "phase": "saving", "end": 1_759_999_999_000_000_000}, "end", "before start"),
        ({"kind": "run_ended", "outcome": "exploded"}, "outcome", "not one of"),
        ({"kind": 5}, "kind", "not text"),
        ({"kind": None}, "kind", "missing"),
        ({"kind": "metric", "name": "loss", "value": float("inf")}, "value", "not a finite number"),
        ({"kind": "metric", "name": "loss", "value": 10**400}, "value", "larger than any float"),
        ({"durations_us": [2**62]}, "durations_us", "after the year 2100"),
        ({"kind": "evidence", "source": "stderr", "text": "\ud800"}, "text", "not valid Unicode"),
    ],
)
def test_a_malformed_fact_is_refused_by_field_value_and_reason(change, field, reason):
    with pytest.raises(FactError) as refused:
        decode({**STEPS, **change})
    assert refused.value.field == field
    assert reason in refused.value.reason


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_broken_line_is_refused_and_nothing_worse(line: bytes):
    with pytest.raises(FactError, match="not a JSON object"):
        decode_line(line)


def test_a_context_line_fills_in_what_later_lines_leave_out():
    context = decode_line(b'{"kind":"context","run":"r","emitter":"e","job":"j1"}')
    assert isinstance(context, Context)
    fact = decode({"kind": "capacity", "seq": 1, "at": 1_760_000_000_000_000_000, "gpus": 8}, context.defaults)
    assert (fact.run, fact.emitter, fact.job) == ("r", "e", "j1")


def test_unknown_kinds_and_fields_are_kept():
    weather = {"kind": "weather_report", "run": "r", "emitter": "e", "seq": 0, "at": STEPS["at"], "mood": ["new"]}
    fact = decode(weather)
    assert isinstance(fact, UnknownFact)
    assert encode(fact) == weather
    assert encode(decode({**STEPS, "colour": "blue"}))["colour"] == "blue"


def test_null_is_the_same_as_left_out():
    assert decode({**STEPS, "rank": None}) == decode(STEPS)


@given(st.lists(st.integers(0, 2**40), max_size=200))
def test_packed_durations_come_out_as_they_went_in(durations):
    assert unpack_durations(pack_durations(durations)) == tuple(durations)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_packed_durations_are_refused_and_nothing_worse(junk):
    try:
        durations = unpack_durations(junk)
    except ValueError:
        return
    if min(durations, default=0) >= 0:
        assert unpack_durations(pack_durations(durations)) == durations
    else:
        with pytest.raises(ValueError, match="negative"):
            pack_durations(durations)


def test_packed_durations_take_about_three_bytes_a_step():
    durations = [370_000 + (index * 7919) % 8000 for index in range(180)]
    assert len(pack_durations(durations)) / len(durations) < 3


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(FACT_TYPES)), st.dictionaries(st.sampled_from(
    ["run", "emitter", "seq", "at", "rank", "phase", "start", "end", "step", "stage", "durations_us", "count", "text",
     "source", "outcome", "gpus", "exit_codes", "labels", "config", "span"]), values))  # fmt: skip
def test_no_object_of_any_shape_does_worse_than_a_refusal(kind, fields):
    try:
        fact = decode({"kind": kind, **fields})
    except FactError as refused:
        assert refused.reason
        return
    if not isinstance(fact, Context):
        assert decode(json.loads(encode_line(fact))) == fact


def test_count_stands_for_steps_that_share_one_duration():
    fact = decode({**STEPS, "durations_us": [1000], "count": 10})
    assert isinstance(fact, Steps)
    assert fact.step_count == 10
