"""Problems: every incident in exactly one, whatever people do; an undo is as if it never was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.problems import ActionKind, Ledger, Placed, ProblemAction, Status, refusal_of, shares

FINGERPRINTS = ("1:a", "1:b", "1:c")
NODES = ("n0", "n1")
INCIDENTS = tuple(
    Placed(f"run~{number}", FINGERPRINTS[number % 3], (("node", NODES[number % 2]), ("run", "run")))
    for number in range(12)
)


def act(number: int, kind: ActionKind, problem: str, **said: object) -> ProblemAction:
    return ProblemAction(number, number * 10, kind, problem, **said)  # type: ignore[arg-type]


def places(*actions: ProblemAction) -> dict[str, str]:
    ledger = Ledger(actions)
    return {each.incident_id: ledger.place(each) for each in INCIDENTS}


def test_an_incident_belongs_to_the_problem_of_its_fingerprint_until_somebody_acts():
    assert places() == {each.incident_id: each.fingerprint for each in INCIDENTS}


def test_a_merge_takes_what_is_there_and_what_comes():
    merged = act(1, ActionKind.MERGE, "1:a", into="1:b")
    assert set(places(merged).values()) == {"1:b", "1:c"}
    ledger = Ledger([merged])
    assert ledger.place(Placed("later~7", "1:a")) == "1:b"
    assert ledger.becomes("1:a") == "1:b"
    assert ledger.merged_into("1:b") == ("1:a",)


def test_a_split_takes_those_with_the_facet_or_those_named():
    ledger = Ledger([act(4, ActionKind.SPLIT, "1:a", facet="node", value="n1", title="only n1")])
    assert ledger.place(Placed("later~1", "1:a", (("node", "n1"),))) == "split-4"
    assert ledger.place(Placed("later~2", "1:a", (("node", "n0"),))) == "1:a"
    assert ledger.place(Placed("later~3", "1:b", (("node", "n1"),))) == "1:b"
    assert ledger.standing("split-4").title == "only n1"
    by_hand = Ledger([act(4, ActionKind.SPLIT, "1:a", incidents=("run~0",))])
    assert by_hand.place(INCIDENTS[0]) == "split-4"
    assert by_hand.place(INCIDENTS[3]) == "1:a"


def test_what_was_moved_goes_along_with_a_later_merge():
    moved = act(1, ActionKind.MOVE, "1:a", into="1:b", incidents=("run~0",))
    merged = act(2, ActionKind.MERGE, "1:b", into="1:c")
    assert places(moved, merged)["run~0"] == "1:c"


def test_an_action_on_a_split_that_was_undone_has_no_effect_while_that_is_so():
    split = act(1, ActionKind.SPLIT, "1:a", facet="node", value="n0")
    moved = act(2, ActionKind.MOVE, "1:b", into="split-1", incidents=("run~1",))
    undone = act(3, ActionKind.UNDO, "1:a", undoes=1)
    assert places(split, moved)["run~1"] == "split-1"
    assert places(split, moved, undone) == places()
    again = act(4, ActionKind.UNDO, "1:a", undoes=3)
    assert places(split, moved, undone, again) == places(split, moved)


def test_a_problem_is_new_known_resolved_and_regressed():
    def status(*actions: ProblemAction, last: int | None = 5) -> Status:
        return Ledger(actions).standing("1:a").status(last)

    resolved = act(2, ActionKind.RESOLVE, "1:a", reason="new cable")
    assert status() is Status.NEW
    assert status(act(1, ActionKind.KNOWN, "1:a")) is Status.KNOWN
    assert status(resolved) is Status.RESOLVED
    assert status(resolved, last=20) is Status.RESOLVED, "it began before it was marked, at the same instant at most"
    assert status(resolved, last=21) is Status.REGRESSED
    assert status(resolved, act(3, ActionKind.REOPEN, "1:a"), last=21) is Status.KNOWN
    assert status(resolved, act(3, ActionKind.UNDO, "1:a", undoes=2), last=21) is Status.NEW
    assert status(act(1, ActionKind.IGNORE, "1:a"), last=99) is Status.IGNORED
    again = act(9, ActionKind.RESOLVE, "1:a", reason="another cable")
    assert status(resolved, again, last=21) is Status.RESOLVED


def test_a_resolution_is_remembered_after_it_was_reopened():
    ledger = Ledger([act(2, ActionKind.RESOLVE, "1:a", reason="new cable"), act(3, ActionKind.REOPEN, "1:a")])
    resolution = ledger.standing("1:a").resolution
    assert resolution is not None and resolution.reason == "new cable"


def test_the_revision_of_a_problem_is_the_latest_action_that_touched_it():
    ledger = Ledger([act(3, ActionKind.MERGE, "1:a", into="1:b"), act(8, ActionKind.UNDO, "1:a", undoes=3)])
    assert (ledger.revision("1:a"), ledger.revision("1:b"), ledger.revision("1:c")) == (8, 8, 0)
    assert [action.action_id for action in ledger.history("1:b")] == [3, 8]


@pytest.mark.parametrize(
    ("action", "field"),
    [
        (act(9, ActionKind.MERGE, "1:a"), "into"),
        (act(9, ActionKind.MERGE, "1:a", into="1:a"), "into"),
        (act(9, ActionKind.RESOLVE, "1:a"), "reason"),
        (act(9, ActionKind.RENAME, "1:a"), "title"),
        (act(9, ActionKind.SPLIT, "1:a"), "facet"),
        (act(9, ActionKind.SPLIT, "1:a", facet="colour", value="x"), "facet"),
        (act(9, ActionKind.SPLIT, "1:a", facet="node"), "value"),
        (act(9, ActionKind.MOVE, "1:a", into="1:b"), "incidents"),
        (act(9, ActionKind.MOVE, "1:a", incidents=("x",)), "into"),
        (act(9, ActionKind.UNDO, "1:a", undoes=7), "undoes"),
        (act(9, ActionKind.KNOWN, "1:c"), "problem"),
        (act(9, ActionKind.MERGE, "1:a", into="1:c"), "into"),
    ],
)
def test_what_makes_no_sense_is_refused_by_field(action: ProblemAction, field: str):
    refused = refusal_of(action, Ledger([act(1, ActionKind.MERGE, "1:c", into="1:b")]))
    assert refused is not None and refused[0] == field


def test_what_was_undone_is_not_undone_again():
    actions = [act(1, ActionKind.KNOWN, "1:a"), act(2, ActionKind.UNDO, "1:a", undoes=1)]
    assert refusal_of(act(3, ActionKind.UNDO, "1:a", undoes=1), Ledger(actions)) is not None
    assert refusal_of(act(3, ActionKind.UNDO, "1:a", undoes=2), Ledger(actions)) is None


def test_values_are_counted_the_most_frequent_first():
    assert shares(["b", None, "a", "b", "a", "c"]) == (("a", 2), ("b", 2), ("c", 1))


# --- whatever people do -----------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[ProblemAction, ...]:
    """Any sequence of actions, sensible or not, with undos of undos."""
    actions: list[ProblemAction] = []
    for number in range(1, draw(st.integers(0, 10)) + 1):
        known = [*FINGERPRINTS, *(each.made for each in actions if each.made is not None), "split-99"]
        kind = draw(st.sampled_from([ActionKind.MERGE, ActionKind.SPLIT, ActionKind.MOVE, ActionKind.UNDO]))
        problem, into = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        named = tuple(draw(st.sets(st.sampled_from([each.incident_id for each in INCIDENTS]), max_size=3)))
        if kind is ActionKind.UNDO:
            if actions:
                actions.append(act(number, kind, problem, undoes=draw(st.integers(1, number - 1))))
        elif kind is ActionKind.SPLIT and draw(st.booleans()):
            actions.append(act(number, kind, problem, facet="node", value=draw(st.sampled_from(NODES))))
        elif kind is ActionKind.SPLIT:
            actions.append(act(number, kind, problem, incidents=named))
        elif kind is ActionKind.MOVE:
            actions.append(act(number, kind, problem, into=into, incidents=named))
        else:
            actions.append(act(number, kind, problem, into=into))
    return tuple(actions)


@given(histories())
def test_every_incident_is_in_exactly_one_problem_that_is_there(actions: tuple[ProblemAction, ...]):
    ledger = Ledger(actions)
    for each in INCIDENTS:
        place = ledger.place(each)
        assert place in FINGERPRINTS or ledger.exists_as_split(place)


@given(histories())
def test_an_undo_is_as_if_it_never_was_and_undoing_that_brings_it_back(actions: tuple[ProblemAction, ...]):
    ledger = Ledger(actions)
    number = max((each.action_id for each in actions), default=0) + 1
    for action in actions:
        if not ledger.is_in_force(action) or action.kind is ActionKind.UNDO:
            continue
        undo = act(number, ActionKind.UNDO, action.problem, undoes=action.action_id)
        without = [each for each in actions if each != action and each.undoes != action.action_id]
        undos_of_those = {each.action_id for each in actions if each.undoes == action.action_id}
        without = [each for each in without if each.undoes not in undos_of_those]
        assert places(*actions, undo) == places(*without)
        assert places(*actions, undo, act(number + 1, ActionKind.UNDO, "1:a", undoes=number)) == places(*actions)


@given(histories(), st.permutations(INCIDENTS))
def test_places_depend_on_no_order_of_incidents_or_of_reading(actions: tuple[ProblemAction, ...], order: list[Placed]):
    ledger = Ledger(reversed(actions))
    assert {each.incident_id: ledger.place(each) for each in order} == places(*actions)


@given(histories())
def test_incidents_that_no_action_touched_are_where_their_fingerprint_says(actions: tuple[ProblemAction, ...]):
    ledger = Ledger(actions)
    touched = {*ledger.touched_fingerprints(), *ledger.touched_incidents()}
    for each in INCIDENTS:
        if each.fingerprint not in touched and each.incident_id not in touched:
            assert ledger.place(each) == each.fingerprint


def test_an_action_is_what_it_is():
    action = act(1, ActionKind.SPLIT, "1:a", facet="node", value="n")
    assert action.touches == ("1:a", "split-1")
    assert replace(action, kind=ActionKind.KNOWN).made is None
