"""Generated histories through a real database: derived bit by bit, they stand there as folding all at once has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.server.core.fold import RunFold
from rerail.server.projector import Projector
from rerail.server.store import Batch, Store
from tests.generated import Generated, runs
from tests.invariants import SETTLED, assert_consistent, without_arrival
from tests.soup import soup

EVERYTHING = (0, 2**62)
NOW = 1_760_000_000_000_000_000 + 40 * 86_400 * 10**9

numbers = count()
few = settings(
    max_examples=max(6, settings.default.max_examples // 12),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""The store is shared by the examples of one test; each is a run of its own."""


def assert_stands(store: Store, batch: Callable[..., Batch], facts: list, chance) -> None:
    """Tell facts in any order, some twice, and derive now and then; what stands is what all at once come to."""
    run = facts[0].run
    told = [*facts, *chance.choices(facts, k=3)]
    chance.shuffle(told)
    projector = Projector(store, lambda: NOW)
    while told:
        size = chance.randint(1, 25)
        store.append([batch(*told[:size], received_at=NOW)])
        del told[:size]
        while projector.derive_due():
            pass
    log = store.log(run)
    assert {(fact.emitter, fact.seq) for fact in log.facts} == {(fact.emitter, fact.seq) for fact in facts}
    whole = RunFold(run)
    whole.add(log.facts)
    view = whole.view(NOW, duplicates=log.duplicates, rejected=log.rejected)
    saved = store.view(run)
    assert saved is not None
    assert without_arrival(saved[0]) == without_arrival(view)
    for name in SETTLED:
        # A checkpoint of which only a deletion was told has no instant to be found by.
        wanted = [each for each in getattr(whole, name) if name != "checkpoints" or each.moments]
        assert list(getattr(store, name)(run, *EVERYTHING)) == wanted
    assert_consistent(whole, view)


@few
@given(st.data(), st.randoms(use_true_random=False))
def test_what_many_emitters_tell_stands_in_the_database_as_it_folds(store: Store, batch, data: st.DataObject, chance):
    made: Generated = data.draw(runs(run=f"made-{next(numbers)}"))
    assert_stands(store, batch, list(made.facts), chance)


@few
@given(soup(most=15), st.randoms(use_true_random=False))
def test_what_contradicts_stands_in_the_database_as_it_folds(store: Store, batch, facts: list, chance):
    run = f"soup-{next(numbers)}"
    assert_stands(store, batch, [replace(fact, run=run) for fact in facts], chance)
