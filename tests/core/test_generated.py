"""What must hold for runs as many emitters tell them, with lost facts, late ones, and clocks that are off."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.server.core.facts import Steps
from rerail.server.core.fold import RunFold
from tests.generated import Generated, runs, thousands
from tests.invariants import assert_consistent, assert_order_is_nothing, folded, without_arrival

few = settings(max_examples=settings.default.max_examples * 6 // 10)


@few
@given(runs())
def test_spans_tile_the_life_and_every_figure_adds_up(made: Generated):
    assert_consistent(*folded(made.facts, made.as_of))


@few
@given(runs(), st.randoms(use_true_random=False))
def test_any_order_any_duplicates_and_any_batches_give_the_same_view(made: Generated, chance):
    assert_order_is_nothing(made.facts, made.as_of, chance)


def launchers_only(made: Generated) -> Generated:
    """What of a run is told where nobody speaks for its ranks."""
    facts = tuple(fact for fact in made.facts if fact.rank is None and not isinstance(fact, Steps))
    return Generated(facts, made.as_of)


@settings(max_examples=settings.default.max_examples * 3 // 10)
@given(runs().map(launchers_only).filter(lambda made: made.facts), st.randoms(use_true_random=False))
def test_where_nobody_tells_of_steps_the_order_of_facts_is_nothing_too(made: Generated, chance):
    assert_order_is_nothing(made.facts, made.as_of, chance)
    run, view = folded(made.facts, made.as_of)
    assert_consistent(run, view)
    assert not any(incident.rollback or incident.lost_steps for incident in view.incidents)


@few
@given(runs(with_trouble=False), st.integers(0, 100))
def test_a_look_back_is_as_consistent_as_the_last_look(made: Generated, percent: int):
    start = min(fact.at for fact in made.facts)
    as_of = start + (made.as_of - start) * percent // 100
    assert_consistent(*folded(made.facts, as_of))


def test_thousands_of_attempts_fold_whole_and_bit_by_bit_to_the_same():
    made = thousands(3000)
    run, view = folded(made.facts, made.as_of)
    assert_consistent(run, view)
    assert (len(view.attempts), view.interruptions, view.high_water_step) == (3000, 3000, 30_010)
    assert view.data_quality.contradictions == ()
    piecewise = RunFold("made")
    size = len(made.facts) // 12
    for index in range(0, len(made.facts), size):
        piecewise.add(made.facts[index : index + size])
        piecewise.view(made.as_of)
    assert without_arrival(piecewise.view(made.as_of)) == without_arrival(view)
    assert list(piecewise.spans) == list(run.spans)
