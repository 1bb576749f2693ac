"""The life of an alert: whatever rules see and people do in whatever order, what is said of it makes sense."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.alert_life import (
    BY_RULES,
    HOLD,
    AlertEvent,
    Change,
    Standing,
    episodes,
    life,
    look,
    refusal_of,
    undone,
)
from rerail.server.core.alert_rules import Finding, Severity
from rerail.server.core.threshold_changes import ThresholdChange, in_force
from rerail.server.core.threshold_changes import refusal_of as threshold_refusal

S = 10**9
KEY = "silence::a"


def finding(mark: str = "") -> Finding:
    return Finding("silence", "a", "Nothing is heard.", Severity.URGENT, mark=mark)


class Watched:
    """One alert, looked at and acted on as the clock goes."""

    def __init__(self) -> None:
        self.events: list[AlertEvent] = []
        self.at = 0
        self.absent: int | None = None

    def see(self, seen: Finding | None, after: int = 1) -> Change | None:
        self.at += after * S
        result = look(life(self.events), seen, self.absent, self.at)
        self.absent = result.absent_since
        if result.change is not None:
            self._add(AlertEvent(0, self.at, result.change, KEY, mark=None if seen is None else seen.mark))
        return result.change

    def do(self, change: Change, **said: object) -> bool:
        event = AlertEvent(0, self.at, change, KEY, "Ada", **said)
        if refusal_of(event, self.events) is not None:
            return False
        self._add(event)
        return True

    def _add(self, event: AlertEvent) -> None:
        self.events.append(replace(event, event_id=len(self.events) + 1))

    @property
    def standing(self) -> Standing:
        return life(self.events).standing(self.at)


def test_it_opens_once_and_is_cleared_after_it_was_gone_for_long_enough():
    alert = Watched()
    assert alert.see(finding()) is Change.FIRED
    assert alert.see(finding()) is None
    assert alert.see(None) is None
    assert alert.standing is Standing.OPEN
    assert alert.see(None, HOLD // S) is Change.CLEARED
    assert alert.standing is Standing.RESOLVED


def test_one_that_comes_and_goes_is_one_episode_and_the_hold_grows():
    alert = Watched()
    for _ in range(20):
        alert.see(finding(), 10)
        alert.see(None, 10)
    assert [each.change for each in alert.events] == [Change.FIRED]
    holds = []
    for _ in range(6):
        alert.see(finding())
        holds.append(life(alert.events).hold_ns(alert.at))
        alert.see(None)
        alert.see(None, 3700)
    assert holds == sorted(holds)
    assert holds[-1] > holds[0]
    assert life(alert.events).is_flapping(alert.at)


def test_an_acknowledgement_belongs_to_its_episode():
    alert = Watched()
    alert.see(finding())
    assert alert.do(Change.ACKNOWLEDGE)
    assert alert.standing is Standing.ACKNOWLEDGED
    alert.see(None)
    alert.see(None, 100)
    assert alert.see(finding()) is Change.FIRED
    assert alert.standing is Standing.OPEN


def test_resolved_by_a_person_it_stays_so_until_the_condition_rests_on_something_new():
    alert = Watched()
    alert.see(finding("incident 1"))
    alert.do(Change.RESOLVE, reason="restarted the agent")
    assert alert.see(finding("incident 1")) is None
    assert alert.standing is Standing.RESOLVED
    assert life(alert.events).resolution == "restarted the agent"
    assert alert.see(finding("incident 2")) is Change.FIRED
    assert alert.standing is Standing.OPEN


def test_a_silence_ends_by_itself_and_can_be_ended_before():
    alert = Watched()
    alert.see(finding())
    assert not alert.do(Change.SILENCE, until=0)
    assert alert.do(Change.SILENCE, until=alert.at + 100 * S)
    assert alert.standing is Standing.SILENCED
    alert.at += 101 * S
    assert alert.standing is Standing.OPEN


def test_what_was_undone_never_was_and_an_undo_can_be_undone():
    alert = Watched()
    alert.see(finding())
    alert.do(Change.ACKNOWLEDGE)
    assert alert.do(Change.UNDO, undoes=2)
    assert alert.standing is Standing.OPEN
    assert not alert.do(Change.UNDO, undoes=2)
    assert alert.do(Change.UNDO, undoes=3)
    assert alert.standing is Standing.ACKNOWLEDGED
    assert not alert.do(Change.UNDO, undoes=1), "what a rule saw is not undone"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.sampled_from(["", "a", "b"]), st.integers(0, 5000)),
        st.tuples(st.just("gone"), st.just(""), st.integers(0, 5000)),
        st.tuples(st.just("do"), st.sampled_from([each.value for each in Change]), st.integers(1, 30)),
    ),
    max_size=40,
)


def lived(steps) -> Watched:
    alert = Watched()
    for kind, what, number in steps:
        if kind == "see":
            alert.see(finding(what), number)
        elif kind == "gone":
            alert.see(None, number)
        else:
            change = Change(what)
            until = alert.at + number * 60 * S if change is Change.SILENCE else None
            alert.do(change, until=until, undoes=number if change is Change.UNDO else None)
    return alert


@given(STEPS)
def test_any_life_makes_sense(steps):
    alert = lived(steps)
    stands = life(alert.events)
    assert life(list(reversed(alert.events))) == stands, "the order of reading does not matter"
    assert list(stands.fired) == sorted(stands.fired)
    gone = undone(alert.events)
    rules_say = [each.change for each in alert.events if each.change in BY_RULES]
    assert not any(each.event_id in gone and each.change in BY_RULES for each in alert.events)
    if not rules_say:
        assert stands.standing(alert.at) is Standing.RESOLVED
    if stands.standing(alert.at) is Standing.RESOLVED:
        assert stands.is_resolved
    before = len(alert.events)
    alert.see(finding("same"), 0)
    alert.see(finding("same"), 0)
    assert len(alert.events) <= before + 1, "looking twice at the same comes to nothing more"


@given(STEPS)
def test_undoing_everything_that_people_did_leaves_what_the_rules_said(steps):
    alert = lived(steps)
    for event in [each for each in alert.events if each.change not in BY_RULES and each.change is not Change.UNDO]:
        alert.do(Change.UNDO, undoes=event.event_id)
    said = [each for each in alert.events if each.change in BY_RULES]
    kept = life(
        [each for each in alert.events if each.event_id not in undone(alert.events) and each.change is not Change.UNDO]
    )
    bare = life(said)
    assert (kept.is_firing, kept.fired) == (bare.is_firing, bare.fired)


def test_thresholds_follow_the_changes_that_hold():
    one = ThresholdChange(1, 0, "silence", "", (("seconds", 60.0),))
    two = ThresholdChange(2, 0, "silence", "", (("seconds", None),))
    assert in_force([one]) == {("silence", ""): {"seconds": 60.0}}
    assert in_force([one, two]) == {}
    assert in_force([two, one, ThresholdChange(3, 0, "silence", "", (), undoes=2)]) == {
        ("silence", ""): {"seconds": 60.0}
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (ThresholdChange(0, 0, "nothing", "", (("seconds", 1.0),)), "rule"),
        (ThresholdChange(0, 0, "silence", "", ()), "values"),
        (ThresholdChange(0, 0, "silence", "", (("colour", 1.0),)), "values"),
        (ThresholdChange(0, 0, "silence", "", (("seconds", -1.0),)), "values.seconds"),
        (ThresholdChange(0, 0, "silence", "", (("on", 2.0),)), "values.on"),
        (ThresholdChange(0, 0, "silence", "", (), undoes=9), "undoes"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused_with_their_field(change, field):
    refused = threshold_refusal(change, ())
    assert refused is not None
    assert refused[0] == field


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*Change, None]), st.integers(0, 400), st.sampled_from(["", "more"]), st.integers(1, 30)
        ),
        max_size=30,
    )
)
def test_an_alert_is_open_during_its_episodes_and_at_no_other_time(steps):
    watched = Watched()
    open_at: dict[int, bool] = {}
    for change, after, mark, undoes in steps:
        watched.at += after * S
        if change is None or change in BY_RULES:
            watched.see(None if change is Change.CLEARED else finding(mark), after=1)
        elif change is not Change.UNDO:  # an undo says that what came before never was
            watched.do(change, **({"until": watched.at + undoes * S} if change is Change.SILENCE else {}))
        open_at[watched.at] = not life(watched.events).is_resolved
    found = episodes(watched.events)
    for at, is_open in open_at.items():
        assert is_open == any(each.start <= at and (each.end is None or at < each.end) for each in found)
    assert all(one.end is not None and one.end <= two.start for one, two in pairwise(found))


def test_an_episode_that_was_reopened_by_undoing_never_ended():
    watched = Watched()
    watched.see(finding())
    assert watched.do(Change.RESOLVE)
    resolved = watched.events[-1].event_id
    assert episodes(watched.events)[0].ended_by == "Ada"
    assert watched.do(Change.UNDO, undoes=resolved)
    (episode,) = episodes(watched.events)
    assert (episode.end, episode.ended_by) == (None, None)
