"""Decoding: the fast path takes what the codec takes, as the codec takes it, and refuses in the codec's words."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rerail.server.core import codec, facts
from rerail.server.decoding import Decoded, decode_body, decode_facts
from rerail.server.store.lines import QUICK_KINDS, facts_of

T = 1_760_000_000_000_000_000
NOW = T + 10**12

HOT_KINDS = QUICK_KINDS

instants = st.sampled_from([T, T + 1, T + 5_000, T - 10**9, NOW, NOW + 2 * 86_400 * 10**9, 0, 1_760_000_000, 2**63])
counts = st.sampled_from([0, 1, 7, 2**63 - 1, 2**63, -1, 10**30])
names = st.sampled_from(["a", "run/1", "ü", "x" * 200, "x" * 201, "", "a\0b", "tab\there", "\ud800", "\u200b", "런"])
texts = st.one_of(names, st.sampled_from(["x" * 16_384, "x" * 16_385, "line\nline", "\udfff half"]))
odd = st.sampled_from(
    [None, True, False, 1.0, 1.5, "5", [], {}, [1], "training", float("nan"), float("inf"), -0.0, 1e400]
)

LIKELY: dict[str, st.SearchStrategy] = {
    "first_step": counts,
    "durations_us": st.lists(st.one_of(st.integers(0, 10**7), counts), max_size=4),
    "count": counts,
    "loss": st.lists(st.floats(allow_nan=True), max_size=3),
    "stage": st.sampled_from([*codec.CheckpointStage, *codec.MarkStage, "nothing"]),
    "phase": st.sampled_from([*facts.Phase, "overhead:x", "overhead:", "loading:x", "nonsense"]),
    "outcome": st.sampled_from([*facts.Outcome, "nothing"]),
    "value": st.one_of(st.floats(), st.integers(-10, 10), st.sampled_from([2**70, 10**400])),
    "ranks_missing": st.lists(st.integers(-1, 5), max_size=3),
    "attributes": st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=3), st.integers()), max_size=2),
    "core_dumped": st.booleans(),
    "oom_killed": st.booleans(),
    "exit_code": st.integers(-1_000_001, 1_000_001),
    "exit_codes": st.dictionaries(st.sampled_from(["0", "1", "x", "-1"]), st.integers(-9, 9), max_size=2),
    "v": st.sampled_from([1, 2, 0, "1"]),
    "seq": st.one_of(st.integers(0, 50), counts),
    "run": st.one_of(st.sampled_from(["a", "b"]), names),
    "emitter": st.one_of(st.sampled_from(["e", "f"]), names),
    "text": texts, "location": texts, "reason": texts, "sketch": texts, "artefact": texts,
}  # fmt: skip
INSTANTS = {"at", "start", "end", "until", "since"}
COUNTS = {"step", "requeue", "restart", "iteration", "rank", "local_rank", "bytes", "blocked_us", "max_gap_us", "gpus",
          "armed_timeout_us", "signal"}  # fmt: skip


def values(field: str) -> st.SearchStrategy:
    if field in INSTANTS:
        return st.one_of(st.just(T), instants)
    if field in COUNTS:
        return st.one_of(st.integers(0, 9), counts)
    return LIKELY.get(field, names)


@st.composite
def stated(draw: st.DrawFn) -> dict[str, object]:
    """A line that is nearly a fact: good fields mostly, one odd one now and then, one missing now and then."""
    kind = draw(st.sampled_from(HOT_KINDS))
    own, common = codec.wire_fields(kind), codec.common_fields()
    line: dict[str, object] = {"kind": kind}
    for field, required in {**common, **own}.items():
        if draw(st.integers(0, 9)) < (9 if required else 2):
            line[field] = draw(values(field))
    spoil = draw(st.integers(0, 9))
    if spoil == 0:
        line[draw(st.sampled_from(sorted(line)))] = draw(odd)
    elif spoil == 1:
        line["later"] = draw(odd)
    return line


@st.composite
def good(draw: st.DrawFn) -> dict[str, object]:
    """A line that is a fact most of the time."""
    kind = draw(st.sampled_from(HOT_KINDS))
    sure = {
        "durations_us": st.lists(st.integers(0, 10**7), min_size=1, max_size=3),
        "phase": st.sampled_from(["loading", "saving"]),
        "stage": st.just("durable" if kind == "checkpoint" else "noticed"), "exit_code": st.integers(-9, 9),
        "value": st.floats(allow_nan=False, allow_infinity=False), "outcome": st.just("failed"), "v": st.just(1),
        "run": st.sampled_from(["a", "b"]), "emitter": st.sampled_from(["e", "f"]), "first_step": st.integers(0, 9),
        "count": st.integers(1, 9), "core_dumped": st.booleans(), "oom_killed": st.booleans(),
        "ranks_missing": st.just([1]), "attributes": st.just({"a": "b"}), "exit_codes": st.just({"0": 1}),
        "loss": st.just([0.5]),
    }  # fmt: skip
    line: dict[str, object] = {"kind": kind}
    for field, required in {**codec.common_fields(), **codec.wire_fields(kind)}.items():
        if required or draw(st.integers(0, 3)) == 0:
            simple = (
                st.just(T) if field in INSTANTS else st.integers(0, 9) if field in COUNTS | {"seq"} else st.just("x")
            )
            line[field] = draw(sure.get(field, simple))
    return line


def body_of(lines: list[object]) -> bytes:
    return b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)


def told(decoded: Decoded) -> dict[tuple[str, str], list[facts.Fact]]:
    return {
        (entry.run, entry.emitter): [fact for logged in entry.facts for fact in facts_of(logged.line)]
        for entry in decoded.batch.stated
    }


def same(body: bytes) -> None:
    """Both paths refuse and take the same, and what is read back from a line is what the codec made of it."""
    fast, slow = decode_body(body, NOW), decode_facts(body, NOW)
    assert fast.batch.refused == slow.batch.refused
    assert told(fast) == told(slow)
    for entry in fast.batch.stated:
        for logged in entry.facts:
            fact = codec.decode_line(logged.line)
            assert [fact] == facts_of(logged.line)
            assert (fact.run, fact.emitter, fact.seq, fact.at) == (entry.run, entry.emitter, logged.seq, logged.at)
    assert [entry.clock_offset_ns for entry in fast.batch.stated] == [e.clock_offset_ns for e in slow.batch.stated]


@given(st.lists(stated(), max_size=3))
def test_nearly_facts_fare_the_same_on_both_paths(lines: list[dict[str, object]]) -> None:
    same(body_of(lines))


@given(st.lists(good(), max_size=6))
def test_facts_fare_the_same_on_both_paths(lines: list[dict[str, object]]) -> None:
    same(body_of(lines))


@given(st.lists(st.one_of(good(), stated().map(lambda line: {**line, "kind": "context"}), stated()), max_size=6))
def test_contexts_fare_the_same_on_both_paths(lines: list[dict[str, object]]) -> None:
    same(body_of(lines))


@given(
    st.lists(
        st.one_of(st.binary(max_size=20), st.sampled_from([b"\n", b" \n", b"{}\n", b"[1]\n", b"{", b"null\n"])),
        max_size=6,
    )
)
@example([b'{"kind":"capacity","gpus":1,"run":"a","emitter":"e","seq":1,"at":%d}\r\n' % T])
@example([b'{"kind":"capacity","gpus":1,"run":"a","emitter":"e","seq":1,"at":%d}' % T])
@example([b'{"kind":"capacity","gpus":1,"gpus":2,"run":"a","emitter":"e","seq":1,"at":%d}' % T])
@example([b"[" * 100_000])
@example([b'{"kind":"metric","name":"x","value":' + b"9" * 5000 + b',"run":"a","emitter":"e","seq":1,"at":%d}' % T])
def test_rubbish_fares_the_same_on_both_paths(parts: list[bytes]) -> None:
    same(body_of(parts))


def test_a_batch_names_each_bad_line_and_keeps_the_rest() -> None:
    lines = [
        {"kind": "capacity", "run": "a", "emitter": "e", "seq": 0, "at": T, "gpus": 8},
        {"kind": "steps", "run": "a", "emitter": "e", "seq": 1, "at": T, "first_step": 1, "start": T,
         "durations_us": [5, float("nan")]},
        b"\n",
        {"kind": "capacity", "run": "a", "emitter": "e", "seq": 2, "at": 1_000, "gpus": 8},
        b"not json\n",
        {"kind": "capacity", "run": "a", "emitter": "e", "seq": 3, "at": NOW + 3 * 86_400 * 10**9, "gpus": 8},
        {"kind": "steps", "run": "a", "emitter": "e", "seq": 4, "at": T, "first_step": 1, "start": T,
         "durations_us": [2**62]},
        {"kind": "capacity", "run": "a", "emitter": "e", "seq": 5, "at": T, "gpus": 9},
    ]  # fmt: skip
    decoded = decode_body(body_of(lines), NOW)
    assert [logged.seq for logged in decoded.batch.stated[0].facts] == [0, 5]
    assert [(line.line, line.field) for line in decoded.batch.refused] == [
        (2, "durations_us[1]"),
        (4, "at"),
        (5, ""),
        (6, "at"),
        (7, "durations_us"),
    ]
    assert [line.run for line in decoded.batch.refused] == ["a", "a", None, "a", "a"]


@pytest.mark.parametrize("kind", HOT_KINDS)
def test_the_fast_path_really_takes_the_hot_kinds(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this a slip in a struct would send everything to the codec, correctly and ten times slower."""
    sure = {
        "durations_us": [5],
        "phase": "loading",
        "stage": "durable" if kind == "checkpoint" else "noticed",
        "value": 0.5,
    }
    line = {"kind": kind, "run": "a", "emitter": "e", "seq": 0, "at": T, "rank": 0, "job": "j"}
    for field, required in codec.wire_fields(kind).items():
        if required or (kind, field) == ("phase", "start"):
            line[field] = sure.get(
                field, T if field in INSTANTS else "x" if field in ("state", "name", "source", "text") else 1
            )

    def refuse(*_: object) -> None:
        raise AssertionError("the codec was asked")

    monkeypatch.setattr(codec, "decode", refuse)
    assert len(decode_body(body_of([line]), NOW).batch.stated[0].facts) == 1


@pytest.mark.parametrize("decode", [decode_body, decode_facts])
def test_no_secret_of_a_sender_lies_in_the_log_or_among_the_refused(decode):
    said = {"run": "a", "emitter": "e", "seq": 0, "at": T, "kind": "evidence", "source": "stderr"}
    text = "GET /x?sig=abc failed: Authorization: Bearer 0a1b2c3d4e5f"
    lines = [{**said, "text": text, "own": 1}, {**said, "seq": 1, "text": text}, {**said, "at": 5, "text": text}]
    done = decode("".join(json.dumps(line) + "\n" for line in lines).encode(), NOW)
    kept = [json.loads(fact.line) for stated in done.batch.stated for fact in stated.facts]
    assert [fact["text"] for fact in kept] == ["GET /x?sig=*** failed: Authorization: ***"] * 2
    assert kept[0]["own"] == 1
    assert b"0a1b2c3d" not in done.batch.refused[0].raw and b"***" in done.batch.refused[0].raw
