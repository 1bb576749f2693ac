"""The contract of every cause rule: its corpus is read as it says, by it alone, and fast whatever the bytes are."""

from __future__ import annotations

import re
import string
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.collectors.sources.telling import LITERALS, is_telling
from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.cause_rules import Case
from rerail.server.core.causes import judge, reading_of, rules
from rerail.server.core.facts import Evidence
from rerail.server.core.naming import exception_in, node_in, own_frame, rank_in, without_numbers

CORPUS = Path(__file__).parent.parent / "corpus"


def piece(text: str, source: str = "stderr", at: int = 0, seq: int = 0, **fields: object) -> Evidence:
    return Evidence(run="r", emitter="e", seq=seq, at=at, source=source, text=text, **fields)


def samples() -> list[tuple[str, str, str, str]]:
    rows = []
    for path in sorted((CORPUS / "causes").glob("*.tsv")):
        for row in path.read_text().splitlines()[1:]:
            role, source, text = row.split("\t", 2)
            rows.append((path.stem, role, source, text))
    return rows


def case(*evidence: Evidence, **fields: object) -> Case:
    timed = sorted((TimedEvidence(each.at, each) for each in evidence), key=TimedEvidence.order)
    told = {
        "exits": (), "exit_codes": (), "reason": None, "outcome": None, "noticed_by": (), "lost_nodes": (),
        "scheduler_told": (), "next_initiator": None, "is_planned": False, "last_step": None, **fields,
    }  # fmt: skip
    return Case(evidence=timed, **told)


def test_every_rule_has_a_corpus_and_every_corpus_a_rule():
    assert {name for name, *_ in samples()} == set(rules())


@pytest.mark.parametrize(("name", "role", "source", "text"), samples())
def test_a_line_is_read_by_its_own_rule_and_in_its_role(name, role, source, text):
    reading = reading_of(piece(text, source))
    assert (reading.cause, reading.role.value) == (name, role)


@pytest.mark.parametrize(("name", "role", "source", "text"), samples())
def test_what_a_rule_reads_a_log_reader_does_not_miss(name, role, source, text):
    if source in ("kubernetes", "slurm", "torchrun", "nvrx") or role in ("informational", "teardown"):
        return  # told by sources of their own, or part of a launcher's grammar
    bare = re.sub(r"\d", "", text).encode()
    assert any(literal in bare for literal in LITERALS), "the first sieve"
    assert is_telling(text) or exception_in(text) is not None, "the second"


@pytest.mark.parametrize("name", sorted(rules()))
def test_a_rule_explains_itself(name):
    rule = rules()[name]
    assert rule.advice.endswith(".")
    for row in rule.lines:
        assert 0 <= row.confidence <= 1


def test_the_words_that_are_searched_first_lose_no_match():
    known = [text for *_, text in samples()]
    known += [row.split("\t")[1] for row in (CORPUS / "log_lines.tsv").read_text().splitlines()[1:]]
    for rule in rules().values():
        for row in rule.lines:
            for text in known:
                if row.pattern.search(text):
                    assert row.may_match(text.lower()), (row.pattern.pattern, text)


@pytest.mark.parametrize("name", sorted(rules()))
def test_no_pattern_repeats_without_a_bound(name):
    for row in rules()[name].lines:
        for pattern in filter(None, (row.pattern, row.unless)):
            plain = re.sub(r"\\.|\[[^\]]*\]", "x", pattern.pattern)
            assert not re.search(r"[*+](?![^(]*\?:)|\{\d+,\}", plain), pattern.pattern


HOSTILE = [
    "a" * 1_000_000,
    "Error " * 170_000,
    "loss " * 200_000,
    "NaN grad " * 110_000,
    "[rank1]: " * 110_000,
    "a.b." * 250_000,
    "Xid (PCI:0000:05:00): " * 45_000,
    "checkpoint " * 90_000,
    "node: " * 160_000,
    'File "x", line 1, in ' * 47_000,
    "Interruption." * 77_000,
    "((((" * 250_000,
    "rank=" * 200_000,
    "\x1b[31m\x00" * 160_000,
    "CANCELLED AT " * 77_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_a_megabyte_in_one_line_is_judged_in_seconds(text):
    start = time.perf_counter()
    judge(case(piece(text)))
    assert time.perf_counter() - start < 5


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=200),
            st.text(string.printable, max_size=300),
            st.sampled_from([text for *_, text in samples()]),
        ),
        max_size=6,
    ),
    st.sampled_from(["stderr", "kernel", "nvrx", "torchrun", "slurm"]),
)
def test_whatever_the_evidence_is_there_is_a_verdict_with_a_sentence(texts, source):
    verdict, trace = judge(case(*(piece(text, source, at=index, seq=index) for index, text in enumerate(texts))))
    assert verdict.sentence
    assert 0 <= verdict.confidence <= 1
    assert verdict.cause == "unknown" or verdict.cause in rules()
    assert len(trace) == len(texts)
    assert verdict.traits == tuple(sorted(verdict.traits))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=500))
def test_names_in_hostile_text_are_found_or_not_and_nothing_is_raised(text):
    rank = rank_in(text)
    assert rank is None or rank >= 0
    node_in(text)
    exception_in(text)
    own_frame(text)
    without_numbers(text)


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("[rank3]: ValueError: x", 3),
        ("[rank12]:[E817 17:40:34.227 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 12] Process group", 12),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 368]  failure detected", 368),
        ("AssertionError: Rank 11: found NaN in local grad norm", 11),
        ("RuntimeError: Rank 2, node host-a, device 2, iteration -1: Unexpected result nan", 2),
        ("[Rank 1] Watchdog caught collective operation timeout", 1),
        ("7: Traceback (most recent call last):", 7),
        ("rank=4 fn_ex: RuntimeError('x')", 4),
        ("RuntimeError: expected a tensor of rank 3 but got rank 4", None),
        ("world size 8, low rank 16 adapters", None),
        ("step 12: loss 3", None),
    ],
)
def test_a_rank_is_who_speaks_or_whom_the_line_is_about(text, rank):
    assert rank_in(text) == rank
