"""What is derived: saved whole, found again, due when it should be, and never older than what stands already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rerail.server.core import facts
from rerail.server.core.facts import Phase, Scope
from rerail.server.core.view import (
    Account,
    CausalRole,
    Checkpoint,
    Domain,
    EvidenceLine,
    Incident,
    Part,
    RunState,
    RunView,
    Span,
    SpanKind,
    StepPoint,
    Verdict,
)
from rerail.server.store import Batch, DerivedRun, Store

T = 1_760_000_000_000_000_000
S = 10**9
MakeBatch = Callable[..., Batch]


def account(productive: int = 30 * S) -> Account:
    by_phase = ((Phase.DETECTING, 70 * S), (Phase.TRAINING, productive))
    return Account(T, T + 100 * S, 70 * S + productive, by_phase, productive, 0, 70 * S, 0, 0, 70 * S, ())


def incident(number: int, run: str = "a") -> Incident:
    return Incident(
        incident_id=f"{run}~{number}",
        run_id=run,
        attempts=(number,),
        started_at=T + number * S,
        noticed_at=None,
        restarted_at=T + number * S + 5,
        ended_at=T + number * S + 9,
        is_planned=False,
        is_open=False,
        scope=Scope.IN_JOB,
        verdict=Verdict("sigkill", Domain.UNKNOWN, 0.5, "Killed\0."),
        parts=(Part("detecting", 9),),
        time_to_restart_ns=5,
        time_to_recover_ns=9,
        lost_steps=3,
        lost_ns=4,
        lost_gpu_ns=2**70,
        evidence=(EvidenceLine(T, "stderr", "boom\n\0", CausalRole.INITIATING, rank=3),),
    )


def view(run: str = "a", **changes: object) -> RunView:
    plain = RunView(
        run_id=run,
        as_of=T + 100 * S,
        state=RunState.ALIVE,
        started_at=T,
        ended_at=None,
        last_heard_at=T + 99 * S,
        silent_since=None,
        account=account(),
        gpu_account=None,
        labels=(("team", "Räder 55%_"),),
        incidents=(incident(1, run), incident(2, run)),
        high_water_step=2**40,
    )
    return replace(plain, **changes)


def spans(count: int) -> tuple[Span, ...]:
    phases = (Phase.TRAINING, Phase.SAVING)
    kinds = (SpanKind.PRODUCTIVE, SpanKind.CHECKPOINT)
    return tuple(
        Span(T + index * S, T + (index + 1) * S, phases[index % 2], kinds[index % 2], 0) for index in range(count)
    )


def points(count: int) -> tuple[StepPoint, ...]:
    return tuple(StepPoint(T + index * S, index, None, 0) for index in range(count))


def checkpoints(count: int) -> tuple[Checkpoint, ...]:
    return tuple(
        Checkpoint(f"c{index}", index, 0, started_at=T + index * S, durable_at=T + (index + 3) * S)
        for index in range(count)
    )


def known(store: Store, batch: MakeBatch, run: str = "a", seq: int = 0) -> None:
    store.append([batch(facts.Capacity(run=run, emitter="e", seq=seq, at=T + seq * S, gpus=1))])


def test_a_view_comes_back_as_it_was_saved(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    saved = view()
    revision = store.save(DerivedRun(saved, 1, spans(3), points(2)), None)
    assert store.view("a") == (saved, revision)
    assert store.spans("a", T, T + 10 * S) == spans(3)
    assert store.incident("a~2") == incident(2)
    assert store.incident("nothing") is None
    row = store.run_row("a")
    assert row is not None
    assert (row.training_goodput, row.incidents, row.recover_p50_ns) == (0.3, 2, 9)
    assert store.view("b") is None
    assert store.run_row("b") is None


@pytest.mark.parametrize(
    ("before", "settled", "after"), [(1000, 999, 1001), (1024, 1024, 1030), (1500, 3, 700), (5, 0, 0)]
)
def test_rewriting_the_tail_gives_what_rewriting_all_would(
    store: Store, batch: MakeBatch, before: int, settled: int, after: int
) -> None:
    known(store, batch)
    base = store.save(DerivedRun(view(), 1, spans(before), points(before), checkpoints(before)), None)
    changed = tuple(span if index < settled else replace(span, attempt=7) for index, span in enumerate(spans(after)))
    saves = tuple(
        each if index < settled else replace(each, deleted_at=T) for index, each in enumerate(checkpoints(after))
    )
    renewed = DerivedRun(
        view(), 1, changed, points(after), saves,
        settled_spans=settled, settled_step_points=min(before, after), settled_checkpoints=settled, base_revision=base,
    )  # fmt: skip
    store.save(renewed, None)
    assert store.spans("a", 0, 2**62) == changed
    assert store.step_points("a", 0, 2**62) == points(after)
    assert store.checkpoints("a", 0, 2**62) == saves


def test_settled_counts_of_another_revision_are_not_believed(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    first = DerivedRun(view(), 1, spans(600), points(600), checkpoints(600))
    old = store.save(first, None)
    other = tuple(replace(span, attempt=3) for span in spans(600))
    store.save(DerivedRun(view(), 1, other, points(10), ()), None)
    settled = {"settled_spans": 600, "settled_step_points": 600, "settled_checkpoints": 600}
    store.save(replace(first, **settled, base_revision=old), None)
    assert store.spans("a", 0, 2**62) == spans(600)
    assert store.step_points("a", 0, 2**62) == points(600)
    assert store.checkpoints("a", 0, 2**62) == checkpoints(600)


def test_a_worker_that_was_overtaken_changes_nothing(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    known(store, batch, seq=1)
    store.save(DerivedRun(view(name="new"), 2, spans(2), ()), None)
    assert store.save(DerivedRun(view(name="old"), 1, spans(1), ()), None) is None
    saved = store.view("a")
    assert saved is not None
    assert saved[0].name == "new"
    assert len(store.spans("a", 0, 2**62)) == 2


def test_incidents_that_are_gone_are_gone_and_changed_ones_changed(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    base = store.save(DerivedRun(view(), 1, (), ()), None)
    changed = replace(incident(2), lost_steps=99)
    store.save(DerivedRun(view(incidents=(changed, incident(3))), 1, (), (), base_revision=base), None)
    marks, total = store.incident_marks("a", 0, 10)
    assert total == 2
    assert [(mark.incident_id, mark.lost_steps) for mark in marks] == [("a~3", 3), ("a~2", 99)]
    assert store.incident("a~1") is None


def test_spans_of_a_range_are_those_that_touch_it(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    store.save(DerivedRun(view(), 1, spans(1300), points(1300)), None)
    assert store.spans("a", T + 511 * S, T + 513 * S) == spans(1300)[511:513]
    assert store.spans("a", T + 5, T + 6) == spans(1300)[:1]
    assert store.spans("a", T + 1300 * S, T + 1400 * S) == ()
    around = store.step_points("a", T + 512 * S, T + 514 * S)
    assert [point.step for point in around] == [511, 512, 513, 514]
    assert [point.step for point in store.step_points("a", 0, T + S)] == [0, 1]
    assert [point.step for point in store.step_points("a", T + 1299 * S + 1, 2**62)] == [1299]


def test_checkpoints_of_a_range_are_those_whose_saving_touches_it(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    deleted = Checkpoint("gone", 9, deleted_at=T)
    store.save(DerivedRun(view(), 1, (), (), (deleted, *checkpoints(1300))), None)
    found = store.checkpoints("a", T + 700 * S, T + 702 * S)
    assert [each.step for each in found] == [697, 698, 699, 700, 701, 702]
    assert deleted not in store.checkpoints("a", 0, 2**62)
    assert store.newest_checkpoints("a", 600) == checkpoints(1300)[-600:]
    assert store.newest_checkpoints("a", 5000) == (deleted, *checkpoints(1300))
    assert store.newest_checkpoints("b", 5) == ()


def test_lists_are_searched_sorted_and_cut(store: Store, batch: MakeBatch) -> None:
    for index in range(6):
        run = f"run-{index}"
        known(store, batch, run)
        store.save(
            DerivedRun(
                view(
                    run,
                    incidents=(),
                    project="100%" if index % 2 else "plain",
                    high_water_step=None if index == 4 else index,
                    state=RunState.ENDED if index == 5 else RunState.ALIVE,
                ),
                1,
                (),
                (),
            ),
            None,
        )

    def ids(search: str = "", state: str | None = None, sort: str = "run_id", descending: bool = False, **cut: int):
        page = store.run_rows(search, state, sort, descending, cut.get("offset", 0), cut.get("limit", 10))
        return [row.run_id[-1] for row in page.rows], page.total

    assert ids() == (list("012345"), 6)
    assert ids(search="100% RUN-") == (list("135"), 3)
    assert ids(search="00%") == (list("135"), 3)
    assert ids(search="team=räder 55%_") == (list("012345"), 6)
    assert ids(search="l_in") == ([], 0)
    assert ids(state="ended") == (["5"], 1)
    assert ids(sort="high_water_step") == (list("012354"), 6)
    assert ids(sort="high_water_step", descending=True) == (list("532104"), 6)
    assert ids(offset=4, limit=1) == (["4"], 6)
    with pytest.raises(ValueError, match="cannot be sorted by"):
        ids(sort="document")


def test_new_facts_make_a_run_due_and_saving_takes_it_off(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    (due,) = store.claim_due(T, 10, 60 * S)
    assert (due.run, due.last_ingest) == ("a", 1)
    assert store.claim_due(T, 10, 60 * S) == (), "a claimed run is nobody else's"
    store.save(DerivedRun(view(), 1, (), ()), None)
    assert store.claim_due(T + 1000 * S, 10, 60 * S) == ()
    known(store, batch, seq=1)
    assert [due.run for due in store.claim_due(T, 10, 60 * S)] == ["a"]


def test_a_claim_whose_worker_died_comes_back_when_its_lease_is_over(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    store.claim_due(T, 10, 60 * S)
    assert store.claim_due(T + 59 * S, 10, 60 * S) == ()
    assert len(store.claim_due(T + 60 * S, 10, 60 * S)) == 1


def test_an_open_run_is_due_again_at_its_time(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    store.claim_due(T, 10, 60 * S)
    store.save(DerivedRun(view(), 1, (), ()), T + 5 * S)
    assert store.claim_due(T + 4 * S, 10, 60 * S) == ()
    assert len(store.claim_due(T + 5 * S, 10, 60 * S)) == 1


def test_facts_that_came_while_a_view_was_made_make_it_due_at_once(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    store.claim_due(T, 10, 60 * S)
    known(store, batch, seq=1)
    store.save(DerivedRun(view(), 1, (), ()), T + 500 * S)
    assert len(store.claim_due(T, 10, 60 * S)) == 1


def test_an_error_is_shown_beside_the_last_good_view_until_one_is_made_again(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    store.save_error("a", "KeyError: \0\ud800", T + 60 * S)
    row = store.run_row("a")
    assert row is not None
    assert row.error is not None
    assert row.error.startswith("KeyError")
    assert store.view("a") is None
    store.save(DerivedRun(view(), 1, (), ()), None)
    row = store.run_row("a")
    assert row is not None
    assert row.error is None
    store.save_error("a", "ValueError", T + 60 * S)
    saved = store.view("a")
    assert saved is not None
    assert saved[0] == view()
    assert store.storage().failed_runs == (("a", "ValueError"),)


def test_changes_since_a_cursor_are_all_and_only_those(store: Store, batch: MakeBatch) -> None:
    assert store.newest_revision() == 0
    for run in "abc":
        known(store, batch, run)
        store.save(DerivedRun(view(run), 1, (), ()), None)
    cursor, runs = store.changes_since(0, 2)
    assert runs == ("a", "b")
    cursor, runs = store.changes_since(cursor, 10)
    assert runs == ("c",)
    assert store.changes_since(cursor, 10) == (cursor, ())
    store.save(DerivedRun(view("a"), 1, (), ()), None)
    assert store.changes_since(cursor, 10)[1] == ("a",)
    assert store.newest_revision() == cursor + 1


def test_everything_can_be_made_due(store: Store, batch: MakeBatch) -> None:
    for run in "abc":
        known(store, batch, run)
        store.save(DerivedRun(view(run), 1, (), ()), None)
    assert store.claim_due(T, 10, S) == ()
    assert store.make_all_due() == 3
    assert sorted(due.run for due in store.claim_due(T, 10, S)) == list("abc")


def test_the_store_knows_what_it_holds(store: Store, batch: MakeBatch) -> None:
    known(store, batch)
    figures = store.storage()
    assert (figures.runs, figures.facts, figures.waiting_runs) == (1, 1, 1)
    assert figures.size_bytes is not None
    assert figures.schema is not None
    store.save(DerivedRun(view(), 1, (), ()), None)
    assert store.storage().waiting_runs == 0
