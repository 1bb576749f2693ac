"""Lemons: nodes that fail more often than their time in use explains, and how sure that is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.lemons import Fleet, LemonLevel, NodeCase, asks_for_hand, lemon_of, odds
from rerail.server.core.rates import DAY_NS
from rerail.server.core.statistics import binomial_tail


def faults(count: int, apart_days: int = 30) -> tuple[int, ...]:
    return tuple(number * apart_days * DAY_NS for number in range(count))


def test_a_node_that_fails_as_all_do_is_unremarkable():
    lemon = lemon_of(NodeCase("n", 100 * DAY_NS, faults(2), runs_blamed=1), Fleet(100, 10_000 * DAY_NS, 200))
    assert lemon.level is LemonLevel.UNREMARKABLE
    assert lemon.expected == pytest.approx(2.0)
    assert lemon.chance is not None and 0.5 < lemon.chance < 0.7


def test_many_faults_in_little_time_make_a_lemon_and_the_sentence_says_how_sure():
    lemon = lemon_of(NodeCase("n", 100 * DAY_NS, faults(12), runs_blamed=3), Fleet(100, 10_000 * DAY_NS, 212))
    assert lemon.level is LemonLevel.LEMON
    assert lemon.chance_of_any is not None and lemon.chance is not None
    assert lemon.chance_of_any == pytest.approx(lemon.chance * 100)
    assert lemon.score == pytest.approx(-math.log10(lemon.chance), abs=0.01)
    assert "12 faults in 100 node-days" in lemon.sentence and "let one expect 2" in lemon.sentence
    assert lemon.reasons[0] == "Blamed in 3 runs: it is not one program's fault."


def test_ten_minutes_make_no_rate_and_the_only_machine_clears_no_program():
    young = lemon_of(NodeCase("n", DAY_NS // 144, faults(1), runs_blamed=1), Fleet(2, DAY_NS // 72, 1))
    assert (young.is_thin, young.per_1000_node_days, young.per_1000_node_days_high) == (True, None, None)
    assert young.sentence.startswith(
        "1 fault in 10\u202fmin: too little data yet for a rate, or to compare it with 1 other node"
    )
    struck = lemon_of(NodeCase("n", DAY_NS // 144, faults(4), runs_blamed=2), Fleet(100, 100 * DAY_NS // 144, 4))
    assert (struck.level, struck.is_thin, struck.per_1000_node_days) == (LemonLevel.LEMON, True, None)
    assert "let one expect" in struck.sentence
    alone = lemon_of(NodeCase("n", 9 * DAY_NS, faults(3), runs_blamed=2), Fleet(1, 9 * DAY_NS, 3))
    assert (alone.level, alone.is_thin) == (LemonLevel.UNKNOWN, False)
    assert alone.reasons[0] == "Blamed in 2 runs: no other node is known on which they would run."


def test_who_looks_at_a_thousand_nodes_accuses_none_by_chance():
    case = NodeCase("n", 10 * DAY_NS, faults(2), runs_blamed=2)
    assert lemon_of(case, Fleet(1000, 10_000 * DAY_NS, 100)).level is LemonLevel.SUSPECT
    assert lemon_of(case, Fleet(2, 10_000 * DAY_NS, 100)).level is LemonLevel.LEMON


def test_one_fault_never_makes_a_lemon():
    lemon = lemon_of(NodeCase("n", DAY_NS // 1000, faults(1), runs_blamed=1), Fleet(3, 10_000 * DAY_NS, 2))
    assert lemon.level is LemonLevel.UNREMARKABLE


def test_without_its_time_or_without_others_nothing_can_be_told():
    unknown = lemon_of(NodeCase("n", None, blamed_elsewhere=3), Fleet(10, 100 * DAY_NS, 5))
    assert (unknown.level, unknown.score, unknown.expected) == (LemonLevel.UNKNOWN, None, None)
    assert unknown.sentence.startswith("3 faults blamed on it; how long it was held is not known")
    alone = lemon_of(NodeCase("n", 100 * DAY_NS, faults(5)), Fleet(1, 100 * DAY_NS, 5))
    assert alone.level is LemonLevel.UNKNOWN
    assert "no other node to compare it with" in alone.sentence


def test_an_xid_that_wants_a_hand_makes_a_suspect_and_one_that_does_not_makes_none():
    fleet = Fleet(10, 100 * DAY_NS, 5)
    fell_off = lemon_of(NodeCase("n", 10 * DAY_NS, xids=((79, 2),)), fleet)
    assert fell_off.level is LemonLevel.SUSPECT
    assert fell_off.reasons[0].startswith("XID 79 2 times")
    assert lemon_of(NodeCase("n", 10 * DAY_NS, xids=((31, 9), (45, 1))), fleet).level is LemonLevel.UNREMARKABLE
    assert asks_for_hand(79) and not asks_for_hand(63) and not asks_for_hand(45) and not asks_for_hand(9999)


def test_how_soon_it_failed_again_is_told():
    lemon = lemon_of(NodeCase("n", 10 * DAY_NS, faults(2, apart_days=3)), Fleet(10, 100 * DAY_NS, 9))
    assert "It failed again within 3 days." in lemon.reasons
    apart = lemon_of(NodeCase("n", 10 * DAY_NS, faults(2, apart_days=8)), Fleet(10, 100 * DAY_NS, 9))
    assert not any("again" in reason for reason in apart.reasons)


@pytest.mark.parametrize(
    ("chance", "said"),
    [(0.5, "50\u202f%"), (0.011, "1 in 91"), (1 / 1600, "1 in 1\u202f600"), (1e-12, "less than 1 in a billion")],
)
def test_chances_are_said_as_people_say_them(chance: float, said: str):
    assert odds(chance) == said


def test_the_tail_is_the_sum_of_its_terms():
    def term(count: int) -> float:
        return math.comb(40, count) * 0.1**count * 0.9 ** (40 - count)

    for least in range(41):
        exact = sum(term(count) for count in range(least, 41))
        assert binomial_tail(least, 40, 0.1) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@given(st.integers(0, 50), st.integers(0, 50), st.floats(0.001, 0.999))
def test_the_tail_is_a_probability_and_falls(successes: int, more: int, probability: float):
    trials = successes + more
    first, then = binomial_tail(successes, trials, probability), binomial_tail(successes + 1, trials, probability)
    assert 0 <= then <= first + 1e-12 <= 1 + 1e-9
