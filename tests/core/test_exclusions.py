"""Windows that people declare out of account: undone, undone again, overlapping, and over every edge of a life."""

from __future__ import annotations

from itertools import permutations

import pytest

from rerail.server.core.codec import FactError, decode, decode_line, encode_line
from rerail.server.core.facts import Excluded, ExclusionState, Fact, Initiator, WindowState
from rerail.server.core.fold import RunFold
from tests.story import BEGINNING, SECOND, Story, seconds_by_phase


def declared(seq: int, start: float, end: float) -> Excluded:
    at = BEGINNING + (1000 + seq) * SECOND
    edges = (BEGINNING + round(edge * SECOND) for edge in (start, end))
    return Excluded(run="story", emitter="people", seq=seq, at=at, start=next(edges), end=next(edges), reason="power")


def changed(seq: int, window: str, state: WindowState) -> ExclusionState:
    at = BEGINNING + (1000 + seq) * SECOND
    return ExclusionState(run="story", emitter="people", seq=seq, at=at, window=window, state=state, author="Ada")


def outage() -> Story:
    """10 s of training, 100 s of outage, 10 s of training."""
    story = Story().start().steps(1, 10).die(after=0).stop(0).queue(100)
    return story.start(Initiator.FAULT).steps(11, 20).finish()


def excluded_seconds(*said: Fact) -> tuple[float, float]:
    """Seconds out of account, and elapsed."""
    story = outage()
    story.facts += said
    view = story.view()
    return seconds_by_phase(view).get("excluded", 0), view.account.elapsed_ns / SECOND


def test_a_window_may_lie_anywhere_and_only_what_it_covers_of_the_life_is_out_of_account():
    assert excluded_seconds(declared(0, 20, 60)) == (40, 80)
    assert excluded_seconds(declared(0, -50, 5)) == (5, 115)
    assert excluded_seconds(declared(0, 115, 900)) == (5, 115)
    assert excluded_seconds(declared(0, 500, 900)) == (0, 120)
    assert excluded_seconds(declared(0, -50, 900)) == (120, 0)
    assert excluded_seconds(declared(0, 20, 60), declared(1, 50, 70), declared(2, 30, 40)) == (50, 70)


def test_a_run_that_is_out_of_account_altogether_has_no_goodput():
    story = outage()
    story.facts.append(declared(0, -1, 900))
    assert story.view().account.training_goodput is None


def test_the_latest_word_about_a_window_counts_in_whatever_order_it_comes():
    said = [
        declared(0, 20, 60),
        changed(1, "people~0", WindowState.WITHDRAWN),
        changed(2, "people~0", WindowState.RESTORED),
        changed(3, "people~0", WindowState.WITHDRAWN),
    ]
    assert [excluded_seconds(*said[:count])[0] for count in range(1, 5)] == [40, 0, 40, 0]
    views = []
    for order in permutations(said):
        fold = RunFold("story")
        story = outage()
        for fact in (*story.facts, *order, *order[:2]):
            fold.add([fact])
            fold.view(story.at)
        views.append(fold.view(story.at))
    assert {view.exclusions for view in views} == {views[0].exclusions}
    assert {view.account for view in views} == {outage().view().account}
    (window,) = views[0].exclusions
    assert window.is_withdrawn
    assert [(each.state, each.author) for each in window.changes] == [
        ("withdrawn", "Ada"), ("restored", "Ada"), ("withdrawn", "Ada"),
    ]  # fmt: skip


def test_undoing_a_window_gives_back_exactly_the_figures_before_it():
    before = outage().view()
    story = outage()
    story.facts += [declared(0, 3, 77), changed(1, "people~0", WindowState.WITHDRAWN)]
    after = story.view()
    assert (after.account, after.incidents) == (before.account, before.incidents)


def test_a_word_about_a_window_that_was_never_declared_is_counted():
    story = outage()
    story.facts.append(changed(1, "people~7", WindowState.WITHDRAWN))
    (found,) = story.view().data_quality.contradictions
    assert (found.reason, found.count) == ("a window that was never declared was undone", 1)
    assert "people~7" in found.example


def test_a_persons_word_is_no_sign_of_life():
    story = Story().start().steps(1, 10)
    story.facts += [declared(0, 2, 3), changed(1, "people~0", WindowState.WITHDRAWN)]
    assert story.view(later=2000).last_heard_at == BEGINNING + 10 * SECOND


@pytest.mark.parametrize(
    "window", ["people", "people~", "~3", "people~03", "people~-1", "people~x", "people~" + "9" * 20]
)
def test_a_window_is_named_by_an_emitter_and_a_number(window: str):
    stated = {"kind": "exclusion_state", "run": "r", "emitter": "p", "seq": 1, "at": BEGINNING, "state": "withdrawn"}
    with pytest.raises(FactError) as refused:
        decode({**stated, "window": window})
    assert refused.value.field in ("window", "emitter")
    with pytest.raises(FactError, match="not one of withdrawn, restored"):
        decode({**stated, "window": "p~1", "state": "gone"})


def test_what_people_say_survives_a_round_trip():
    for fact in (declared(0, 1, 2), changed(1, "a/b~c~12", WindowState.RESTORED)):
        assert decode_line(encode_line(fact)) == fact
