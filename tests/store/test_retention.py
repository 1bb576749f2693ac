"""Retention: logs of runs that are over go, what was derived stays, and nothing is ever lost of an open run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rerail.server.core import facts
from rerail.server.core.rollup import Resolution
from rerail.server.errors import LogGoneError
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import Batch, Store
from tests.story import BEGINNING, SECOND, Story

MakeBatch = Callable[..., Batch]
LATER = BEGINNING + 1_000_000 * SECOND


def life(run: str, is_over: bool = True) -> Story:
    story = Story(run).start().bring_up(10).steps(1, 50).save(50, blocked=2).steps(51, 60).die(after=5)
    story.stop(1).start().bring_up(10).load(50, took=3).steps(51, 90)
    return story.finish() if is_over else story


def kept(store: Store, batch: MakeBatch, *stories: Story) -> Projector:
    projector = Projector(store, lambda: LATER)
    for story in stories:
        store.append([batch(*story.facts)])
    while projector.derive_due():
        pass
    return projector


def derived(store: Store, run: str) -> list[object]:
    reads = (store.spans, store.step_points, store.checkpoints)
    rollups = [store.rollup(run, resolution, 0, 2**62) for resolution in Resolution]
    return [*(read(run, 0, 2**62) for read in reads), *rollups, store.incident_marks(run, 0, 99), store.run_row(run)]


def test_the_log_goes_and_everything_derived_stays(store: Store, batch: MakeBatch) -> None:
    kept(store, batch, life("a"), life("open", is_over=False))
    before, view = derived(store, "a"), store.view("a")
    assert view is not None
    (expired,) = store.expired_logs(LATER)
    assert (expired.run_id, expired.ended_at) == ("a", view[0].ended_at)
    assert expired.facts == len(life("a").facts)
    assert expired.bytes > 0
    assert store.let_log_go("a", LATER)
    assert store.log("a").facts == ()
    assert store.log("a").gone_before == max(fact.at for fact in life("a").facts)
    assert derived(store, "a") == before
    after = store.view("a")
    assert after is not None
    assert "cannot be derived anew" in after[0].data_quality.notes[-1]
    assert after[0].account == view[0].account
    assert store.expired_logs(LATER) == ()


def test_an_open_run_and_one_that_ended_lately_keep_theirs(store: Store, batch: MakeBatch) -> None:
    kept(store, batch, life("open", is_over=False), life("ended"))
    view = store.view("ended")
    assert view is not None
    assert view[0].ended_at is not None
    for run, limit in (("open", LATER), ("ended", view[0].ended_at), ("ended", view[0].ended_at + 1), ("none", LATER)):
        # A second later the run was still heard: its last batch came after its end.
        assert not store.let_log_go(run, limit)
    assert len(store.log("open").facts) == len(life("open", is_over=False).facts)
    assert len(store.log("ended").facts) == len(life("ended").facts)


def test_a_run_with_facts_that_no_view_has_seen_keeps_its_log(store: Store, batch: MakeBatch) -> None:
    projector = kept(store, batch, life("a"))
    late = facts.Note(run="a", emitter="person", seq=0, at=BEGINNING + SECOND, text="looked at it")
    store.append([batch(late)])
    assert not store.let_log_go("a", LATER)
    projector.derive_due()
    assert store.let_log_go("a", LATER)


def test_replay_leaves_a_run_without_its_log_alone(store: Store, batch: MakeBatch) -> None:
    kept(store, batch, life("a"), life("b"))
    before = derived(store, "a")
    assert store.let_log_go("a", LATER)
    assert store.make_all_due() == 1
    kept(store, batch)
    assert derived(store, "a") == before


def test_facts_sent_again_are_duplicates_and_new_ones_change_no_figure(store: Store, batch: MakeBatch) -> None:
    kept(store, batch, life("a"))
    before = derived(store, "a")
    assert store.let_log_go("a", LATER)
    (receipt,) = store.append([batch(*life("a").facts)])
    assert (receipt.accepted, receipt.duplicate) == (0, len(life("a").facts))
    store.append([batch(facts.Capacity(run="a", emitter="late", seq=0, at=BEGINNING, gpus=4))])
    kept(store, batch)
    assert derived(store, "a") == before
    assert store.storage().waiting_runs == 0


def test_the_past_of_a_run_without_its_log_is_refused_and_not_guessed(store: Store, batch: MakeBatch) -> None:
    kept(store, batch, life("a"))
    queries = Queries(store, lambda: LATER)
    assert queries.run("a", BEGINNING + 40 * SECOND).as_of == BEGINNING + 40 * SECOND
    assert store.let_log_go("a", LATER)
    with pytest.raises(LogGoneError, match="deleted"):
        queries.run("a", BEGINNING + 40 * SECOND)
