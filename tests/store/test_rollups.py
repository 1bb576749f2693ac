"""Rollups in the store: what is saved step by step is what is saved at once, and runs add up to the fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from rerail.server.core import facts
from rerail.server.core.facts import Phase
from rerail.server.core.goodput import Capacities
from rerail.server.core.rollup import Resolution, Rollups, rolled_up, summed
from rerail.server.core.view import RunView, Span, SpanKind
from rerail.server.store import Batch, DerivedRun, Store, open_store
from tests.story import Story

T = 1_760_000_000_000_000_000
S = 10**9
MakeBatch = Callable[..., Batch]
GPUS = Capacities([(T, 8), (T + 40_000 * S, 16)])
KINDS = (
    (Phase.TRAINING, SpanKind.PRODUCTIVE),
    (Phase.SAVING, SpanKind.CHECKPOINT),
    (Phase.DETECTING, SpanKind.FAULT),
    (Phase.RENDEZVOUS, SpanKind.STARTUP),
)


def spans(count: int, seed: int = 1) -> tuple[Span, ...]:
    random, at, made = Random(seed), T, []
    for index in range(count):
        until = at + random.randrange(1, 4000 * S)
        made.append(Span(at, until, *KINDS[index % 4]))
        at = until
    return tuple(made)


def view(run: str) -> RunView:
    return Story(run).start().bring_up(1).steps(1, 2).view()


def known(store: Store, batch: MakeBatch, run: str) -> None:
    store.append([batch(facts.Capacity(run=run, emitter="e", seq=0, at=T, gpus=1))])


def all_of(store: Store, run: str) -> list[object]:
    return [store.rollup(run, resolution, 0, 2**62) for resolution in Resolution]


def expected(of: tuple[Span, ...]) -> list[object]:
    return [rolled_up(of, resolution, GPUS) for resolution in Resolution]


def derived(of: tuple[Span, ...], rollups: Rollups, settled: int, base: int | None, run: str = "a") -> DerivedRun:
    """What a projector saves when it has seen these spans."""
    rollups.renew(of, settled, GPUS)
    by_name = {f"{each.resolution.name.lower()}s": each for each in rollups.by_resolution.values()}
    return DerivedRun(
        view(run),
        1,
        of,
        (),
        settled_spans=settled,
        base_revision=base,
        **{name: tuple(each.bins) for name, each in by_name.items()},  # type: ignore[arg-type]
        **{f"settled_{name}": each.settled for name, each in by_name.items()},  # type: ignore[arg-type]
    )


def test_saved_step_by_step_they_are_what_the_spans_come_to(store: Store, batch: MakeBatch) -> None:
    known(store, batch, "a")
    random, whole, rollups = Random(5), spans(700), Rollups()
    revision, length, settled = None, 0, 0
    while length < len(whole):
        length = min(len(whole), length + random.randrange(1, 60))
        last = whole[length - 1]
        cut = (*whole[: length - 1], replace(last, end=last.start + (last.end - last.start + 1) // 2))
        revision = store.save(derived(cut, rollups, settled, revision), None)
        assert all_of(store, "a") == expected(cut)
        settled = length - 1
    shorter = whole[:40]
    revision = store.save(derived(shorter, rollups, 40, revision), None)
    assert all_of(store, "a") == expected(shorter)
    store.save(derived((), rollups, 0, revision), None)
    assert all_of(store, "a") == [(), (), ()]


def test_a_writer_that_remembers_nothing_writes_the_same(store: Store, database: str, batch: MakeBatch) -> None:
    known(store, batch, "a")
    whole, rollups = spans(300), Rollups()
    revision = store.save(derived(whole[:200], rollups, 0, None), None)
    other = open_store(database)
    other.save(derived(whole, rollups, 199, revision), None)
    other.close()
    assert all_of(store, "a") == expected(whole)


def test_the_fleet_is_the_sum_of_its_runs(store: Store, batch: MakeBatch) -> None:
    lives = {name: spans(200, seed) for seed, name in enumerate(("a", "b", "c"))}
    for name, of in lives.items():
        known(store, batch, name)
        store.save(derived(of, Rollups(), 0, None, name), None)
    for resolution in Resolution:
        bins = [each for of in lives.values() for each in rolled_up(of, resolution, GPUS)]
        assert store.fleet_rollup(resolution, 0, 2**62) == (summed(bins, resolution), 3)
    start, end = T + 50_000 * S, T + 90_000 * S
    inside, runs = store.fleet_rollup(Resolution.HOUR, start, end)
    assert runs == 3
    assert inside[0].start <= start < inside[0].start + Resolution.HOUR
    assert inside[-1].start < end
    assert store.fleet_rollup(Resolution.HOUR, 0, T - Resolution.DAY) == ((), 0)
