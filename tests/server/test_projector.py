"""Projector: every run is derived, in steps or at once alike, and one that cannot be does not stop the others."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from rerail.server.core.fold import RunFold
from rerail.server.core.view import RunState
from rerail.server.projector import Projector, _Pace, next_due_at
from rerail.server.store import Receipt, Store

T = 1_760_000_000_000_000_000
S = 10**9
EVERYTHING = (0, 2**62)
State = Callable[..., Receipt]
LongRun = Callable[..., list[dict[str, object]]]


class StandingClock:
    """A clock that is set by hand."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def derived(store: Store, run: str = "a") -> tuple[object, ...]:
    """All that is derived of a run."""
    saved = store.view(run)
    assert saved is not None
    marks = store.incident_marks(run, 0, 10_000)
    documents = tuple(store.incident(mark.incident_id) for mark in marks[0])
    blocks = tuple(read(run, *EVERYTHING) for read in (store.spans, store.step_points, store.checkpoints))
    return saved[0], *blocks, marks, documents


def test_facts_in_many_batches_give_what_they_give_in_one(store: Store, state: State, long_run: LongRun) -> None:
    lines = long_run(12)
    clock = StandingClock(T + 100_000 * S)
    projector = Projector(store, clock)
    for start in range(0, len(lines), 7):
        state(*lines[start : start + 7])
        while projector.derive_due():
            pass
    in_steps = derived(store)
    store.make_all_due()
    Projector(store, clock).derive_due()
    assert derived(store) == in_steps


def test_facts_in_any_order_and_twice_give_the_same_figures(store: Store, state: State, long_run: LongRun) -> None:
    lines, again = long_run(6), long_run(6, run="b")
    clock = StandingClock(T + 100_000 * S)
    projector = Projector(store, clock)
    state(*lines)
    projector.derive_due()
    random.Random(3).shuffle(again)
    for start in range(0, len(again), 5):
        state(*again[max(0, start - 3) : start + 5])
        projector.derive_due()
    first, second = store.view("a"), store.view("b")
    assert first is not None
    assert second is not None
    assert first[0].account == second[0].account
    assert second[0].data_quality.duplicates > 0
    assert [incident.parts for incident in first[0].incidents] == [incident.parts for incident in second[0].incidents]
    assert store.spans("a", *EVERYTHING) == store.spans("b", *EVERYTHING)


def test_replay_changes_nothing(store: Store, state: State, long_run: LongRun) -> None:
    clock = StandingClock(T + 100_000 * S)
    projector = Projector(store, clock)
    state(*long_run(40))
    projector.derive_due()
    before = derived(store)
    assert store.make_all_due() == 1
    Projector(store, clock, held_folds=1).derive_due()
    assert derived(store) == before


def test_a_long_run_keeps_its_settled_blocks(store: Store, state: State, long_run: LongRun) -> None:
    """1,300 spans in three blocks: a new fact at the end gives what a rebuild would."""
    lines = long_run(130)
    clock = StandingClock(T + 1_000_000 * S)
    projector = Projector(store, clock)
    state(*lines[:-40])
    projector.derive_due()
    for line in lines[-40:]:
        state(line)
        projector.derive_due()
    incremental = derived(store)
    assert len(incremental[1]) > 1024  # type: ignore[arg-type]
    store.make_all_due()
    Projector(store, clock).derive_due()
    assert derived(store) == incremental


def test_an_open_run_falls_silent_without_a_new_fact(store: Store, state: State, long_run: LongRun) -> None:
    lines = long_run(1, is_over=False)
    last = max(int(str(line["at"])) for line in lines)
    clock = StandingClock(last + S)
    projector = Projector(store, clock)
    state(*lines, received_at=last)
    assert projector.derive_due() == 1
    assert projector.derive_due() == 0
    row = store.run_row("a")
    assert row is not None
    assert row.state is RunState.ALIVE
    clock.now = last + 3600 * S
    assert projector.derive_due() == 1
    row = store.run_row("a")
    assert row is not None
    assert row.state is RunState.SILENT


def test_a_live_run_is_due_every_second_and_a_silent_one_ever_more_rarely(
    store: Store, state: State, long_run: LongRun
) -> None:
    lines = long_run(1, is_over=False)
    last = max(int(str(line["at"])) for line in lines)
    projector = Projector(store, StandingClock(last))
    state(*lines, received_at=last)
    projector.derive_due()
    saved = store.view("a")
    assert saved is not None
    assert next_due_at(saved[0], last + 5 * S) == last + 6 * S
    assert next_due_at(saved[0], last + 100_000 * S) == last + 101_000 * S
    assert next_due_at(saved[0], last + 5 * S, 8 * S) == last + 13 * S, "where many live, ageing alone waits"


def test_what_only_ages_takes_its_share_of_the_time_where_many_runs_live(store: Store) -> None:
    pace = _Pace(SimpleNamespace(run_states=lambda: {"alive": 1000, "ended": 5000}))
    for _ in range(2000):
        pace.took(0.002)
    pace.took(60.0)
    assert 8 * S <= pace.least_ns() < 12 * S
    assert _Pace(store).least_ns() == S


def test_a_run_that_is_over_is_left_in_peace(store: Store, state: State, long_run: LongRun) -> None:
    clock = StandingClock(T + 100_000 * S)
    projector = Projector(store, clock)
    state(*long_run(2))
    projector.derive_due()
    clock.now += 10**7 * S
    assert projector.derive_due() == 0


def test_one_run_that_cannot_be_derived_does_not_stop_the_others(
    store: Store, state: State, long_run: LongRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RunFold.view

    def failing(self: RunFold, *arguments: object, **named: object) -> object:
        if self.run_id == "b":
            raise KeyError("a bug")
        return real(self, *arguments, **named)

    monkeypatch.setattr("rerail.server.core.fold.RunFold.view", failing)
    clock = StandingClock(T + 100_000 * S)
    projector = Projector(store, clock)
    for run in ("a", "b", "c"):
        state(*long_run(1, run=run))
    assert projector.derive_due() == 3
    assert store.view("a") is not None
    assert store.view("c") is not None
    row = store.run_row("b")
    assert row is not None
    assert row.error == "KeyError: 'a bug'"
    assert projector.derive_due() == 0, "tried again a minute later, not at once"
    monkeypatch.undo()
    clock.now += 61 * S
    assert projector.derive_due() == 1
    row = store.run_row("b")
    assert row is not None
    assert row.error is None


@pytest.mark.parametrize("bound", ["held_folds", "held_steps", "HELD_ENDED"])
def test_folds_that_are_not_held_any_more_are_made_again(
    store: Store, state: State, long_run: LongRun, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StandingClock(T + 100_000 * S)
    if bound.isupper():
        monkeypatch.setattr(f"rerail.server.projector.{bound}", 1)
    small, large = Projector(store, clock, **({} if bound.isupper() else {bound: 1})), Projector(store, clock)
    runs = {run: long_run(4, run=run) for run in ("a", "b", "c")}
    for start in range(0, len(runs["a"]), 9):
        for lines in runs.values():
            state(*lines[start : start + 9])
        small.derive_due()
    found = {run: derived(store, run) for run in runs}
    store.make_all_due()
    large.derive_due()
    assert {run: derived(store, run) for run in runs} == found


def test_the_thread_derives_what_comes_and_ends_when_told(store: Store, state: State, long_run: LongRun) -> None:
    projector = Projector(store)
    projector.start()
    try:
        cursor = store.newest_revision()
        state(*long_run(2))
        while store.changes_since(cursor, 1)[1] == ():
            assert projector.is_running
    finally:
        projector.close()
    assert not projector.is_running
