"""The queue of runs whose views are due: who is next."""

from __future__ import annotations

from collections.abc import Callable

from rerail.server.core.facts import AttemptEnded, Fact, Outcome, Steps
from rerail.server.store import Batch, Store

S = 10**9
WHERE = {"job": "1", "requeue": 0, "restart": 0, "iteration": 0}


def progress(run: str, seq: int) -> Fact:
    """A step."""
    return Steps(
        run=run, emitter="r", seq=seq, at=(seq + 2) * S, first_step=seq + 1, start=(seq + 1) * S, rank=0,
        durations_us=(1_000_000,), **WHERE,
    )  # fmt: skip


def ended(run: str) -> Fact:
    """A failure."""
    return AttemptEnded(run=run, emitter="l", seq=0, at=S, outcome=Outcome.FAILED, **WHERE)


def names(store: Store, now: int, limit: int = 10) -> list[str]:
    """Who is claimed."""
    return [each.run for each in store.claim_due(now, limit, 120 * S)]


def test_who_told_of_more_than_progress_goes_before_everybody_who_waited_longer(
    store: Store, batch: Callable[..., Batch]
) -> None:
    for number in range(5):
        store.append([batch(progress(f"busy-{number}", 0), received_at=(10 + number) * S)])
    store.append([batch(progress("dead", 0), ended("dead"), received_at=50 * S)])
    store.append([batch(ended("dead-too"), received_at=51 * S)])
    claimed = store.claim_due(60 * S, 3, 120 * S)
    assert [(each.run, each.is_urgent) for each in claimed] == [("dead", True), ("dead-too", True), ("busy-0", False)]
    assert names(store, 60 * S) == ["busy-1", "busy-2", "busy-3", "busy-4"]


def test_a_run_that_is_always_heard_takes_its_turn(store: Store, batch: Callable[..., Batch]) -> None:
    store.append([batch(progress("loud", 0), received_at=10 * S)])
    assert names(store, 11 * S) == ["loud"]
    store.append([batch(progress("quiet", 0), received_at=12 * S)])
    store.append([batch(progress("loud", 1), received_at=13 * S)])
    assert names(store, 20 * S) == ["quiet"], "loud is being derived: nobody else gets it"
    assert names(store, 131 * S + 1) == ["loud"], "when its lease is over it comes back, since its second fact"


def test_more_facts_do_not_push_a_waiting_run_back(store: Store, batch: Callable[..., Batch]) -> None:
    store.append([batch(progress("first", 0), received_at=10 * S)])
    store.append([batch(progress("second", 0), received_at=11 * S)])
    store.append([batch(progress("first", 1), received_at=12 * S)])
    assert names(store, 20 * S, 1) == ["first"]
