"""Search: what is typed becomes a question, or is told which word is wrong; and what matches is marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.causes import rules
from rerail.server.core.search.query import QueryError, parse_query
from rerail.server.core.search.snippets import LENGTH, marked, pattern_of, snippet
from rerail.server.core.search.words import looked_for, words
from rerail.ui import text

NOW = 1_796_000_000 * 10**9
DAY = 86_400 * 10**9


def holds(text: str, wanted: str) -> bool:
    """Whether an index finds `wanted` in `text`, as both databases do it: words side by side, the last may go on."""
    indexed = words(text)
    term, goes_on = looked_for(wanted, may_go_on=True)
    for start in range(len(indexed) - len(term) + 1):
        there = indexed[start : start + len(term)]
        if there[:-1] == list(term[:-1]) and (there[-1] == term[-1] or (goes_on and there[-1].startswith(term[-1]))):
            return bool(term)
    return False


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("체크포인트를 저장하는 동안", "체크포인트"),
        ("체크포인트를 저장하는 동안", "포인트"),
        ("체크포인트를 저장하는 동안", "저장"),
        ("학습이 멈췄다", "학습"),
        ("학습이 멈췄다", "습"),
        ("GPU가 사라졌다", "gpu"),
        ("GPU가 사라졌다", "GPU가"),
        ("학습 중에 복구", "학습 중"),
        ("チェックポイントを保存", "ポイント"),
        ("ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("café au lait", "cafe"),
        ("gpu_oom on gpu-17", "gpu-17"),
        ("the checkpoints were late", "checkpoint"),
        ("NCCL WARN 10.0.3.7", "10.0.3.7"),
    ],
)
def test_it_is_found_where_it_stands(text, wanted):
    assert holds(text, wanted)


@pytest.mark.parametrize(
    ("text", "wanted"), [("체크 아웃 포인트", "체크포인트"), ("rank 13", "rank 1"), ("gpu 1 7", "gpu-17")]
)
def test_it_is_not_found_where_it_does_not(text, wanted):
    assert not holds(text, wanted)


@given(st.text(alphabet="가나다라마바사 ab", min_size=1, max_size=20), st.data())
def test_every_piece_of_korean_is_found(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    piece = text[start:end].strip()
    if piece and all("가" <= letter <= "힣" for letter in piece):
        assert holds(text, piece)


def test_a_question_has_words_phrases_fields_and_times():
    query = parse_query('nccl "watchdog caught" -preemption cause:hang cause:sigkill -node:gpu-3 after:2d', NOW)
    assert [term.words for term in query.terms] == [("nccl",), ("watchdog", "caught")]
    assert [term.goes_on for term in query.terms] == [True, False]
    assert [term.words for term in query.without] == [("preemption",)]
    assert [(each.field, each.values) for each in query.filters] == [("cause", ("hang", "sigkill"))]
    assert [(each.field, each.values) for each in query.without_filters] == [("node", ("gpu-3",))]
    assert query.after == NOW - 2 * DAY


@pytest.mark.parametrize(
    ("typed", "forms"),
    [
        ("crashes", {"crash"}),
        ("processes", {"process"}),
        ("gpus", {"gpu"}),
        ("retry", {"retries"}),
        ("time-outs", {"time out", "timeout", "timeouts"}),
        ("체크포인트를", {"체크포인트", "체크 포인트"}),
        ("loss status 10.0.3.7 gpu-17 rank3 습", set()),
        ('"checkpoints"', set()),
        ("timeouts", {"타임아웃", "시간 초과"}),
        ("타임아웃이", {"timeout", "time out"}),
        ("시간 초과", {"timeout", "타임아웃"}),
        ("nccl out of memory", {"메모리 부족", "oom"}),
        ("메모리 부족", {"out of memory"}),
        ("체크포인트를", {"checkpoint"}),
    ],
)
def test_a_word_is_asked_in_its_other_forms_unless_quoted(typed, forms):
    found = {form.typed for term in parse_query(typed, NOW).terms for form in term.forms}
    assert forms <= found
    assert forms or all(" " in each for each in found)


@pytest.mark.parametrize("name", [*rules(), "unknown"])
def test_a_cause_is_found_by_its_class_and_by_the_words_of_its_page(name):
    for written in (name, name.replace("_", "-"), f'"{name.replace("_", " ")}"', f'"{text.cause(name)}"', name.upper()):
        assert parse_query(f"cause:{written}", NOW).filters[0].values == (name,)


def test_a_word_of_several_causes_means_each_of_them():
    assert parse_query("cause:oom -cause:timeout", NOW).filters[0].values == ("gpu_oom", "host_oom")
    assert parse_query("cause:memory", NOW).filters[0].values == ("gpu_oom", "host_oom")
    assert parse_query('cause:"메모리 부족"', NOW).filters[0].values == ("gpu_oom", "host_oom")
    assert parse_query("cause:타임아웃", NOW).filters == parse_query("cause:timeout", NOW).filters


def test_a_name_of_several_words_is_one_term_and_others_stay_apart():
    (one, other) = parse_query("gpu out of memory", NOW).terms
    assert (one.words, other.words) == (("gpu",), ("out", "of", "memory"))
    assert [term.words for term in parse_query("out memory of", NOW).terms] == [("out",), ("memory",), ("of",)]
    (without,) = parse_query("gpu -out of memory", NOW).without
    assert without.words == ("out",)


def test_a_line_of_a_log_can_be_pasted():
    query = parse_query("RuntimeError: cuda:0 https://x/y a.py:32 - [rank3]", NOW)
    assert len(query.terms) == 5
    assert query.filters == ()


@pytest.mark.parametrize(
    ("typed", "word", "reason"),
    [
        ("loss nodes:gpu-17", "nodes:gpu-17", "did you mean node:gpu-17"),
        ("stauts:open", "stauts:open", "did you mean status:open"),
        ("cause:", "cause:", "nothing stands behind it"),
        ('the "end', '"end', "not closed"),
        ("cause:oomm", "cause:oomm", "the nearest: cause:gpu_oom"),
        ("cause:--", "cause:--", "no cause is named so"),
        ("rank:three", "rank:three", "a number"),
        ("kind:memo", "kind:memo", "one of incident"),
        ("after:yesterday", "after:yesterday", "no day or instant"),
        ("after:1d before:2d", "before:", "nothing can lie between"),
        ("-hang", "-hang", "say also what to find"),
        ('"…"', '"…"', "no letter or digit"),
        ("a " * 40, "a", "more than 32"),
        ("x" * 2000, "x", "the most is 1000"),
    ],
)
def test_what_cannot_be_asked_names_the_word(typed, word, reason):
    with pytest.raises(QueryError) as raised:
        parse_query(typed, NOW)
    assert raised.value.word.startswith(word)
    assert reason in str(raised.value)


@given(st.text(max_size=200))
def test_whatever_is_typed_is_a_question_or_told_why_not(typed):
    try:
        parse_query(typed, NOW)
    except QueryError as error:
        assert error.reason


def test_the_matching_words_are_marked_in_the_stretch_around_them():
    text = "nothing here " * 60 + "then the watchdog caught 체크포인트를 저장하다가" + " and more" * 60
    pieces = snippet(text, pattern_of(parse_query("watchd 체크포인트", NOW).terms))
    assert [piece.text for piece in pieces if piece.is_match] == ["watchdog", "체크포인트"]
    assert pieces[0].text == "… " and pieces[-1].text == " …"
    assert sum(len(piece.text) for piece in pieces) < LENGTH + 40


@pytest.mark.parametrize(
    ("typed", "marks"),
    [("timeouts", ["timeout", "time-out"]), ("time-out", ["timeout", "time-out"]), ("timeout", ["timeout", "time-out"]),
     ("체크포인트는", ["체크포인트", "체크 포인트"])],
)  # fmt: skip
def test_other_forms_are_marked_too(typed, marks):
    text = "a timeout after another time-out; 체크포인트를 체크 포인트"
    pieces = marked(text, pattern_of(parse_query(typed, NOW).terms))
    assert [piece.text for piece in pieces if piece.is_match] == marks


@given(st.text(max_size=200), st.text(max_size=12))
def test_marking_changes_no_letter(text, typed):
    try:
        terms = parse_query(typed, NOW).terms
    except QueryError:
        return
    assert "".join(piece.text for piece in marked(text, pattern_of(terms))) == text
