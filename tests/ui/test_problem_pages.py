"""Pages of problems and nodes: the sentence first, and every state of them drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rerail.server.core.lemons import Fleet, NodeCase, lemon_of
from rerail.server.core.problems import ActionKind, ProblemAction, Status
from rerail.server.core.rates import DAY_NS
from rerail.server.query_problem_results import (
    ActionEntry,
    Away,
    DayCount,
    FacetShare,
    MergedProblem,
    NodeEvent,
    NodePage,
    NodeRow,
    NodeStay,
    NodeView,
    Occurrence,
    ProblemOfIncident,
    ProblemRow,
    ProblemView,
    Resolution,
    SimilarIncident,
    SimilarIncidents,
)
from rerail.ui import address
from rerail.ui.lists import spark
from rerail.ui.markup import Markup, encoded
from rerail.ui.pages import incident_history, node, nodes, problem, problems
from rerail.ui.pages.problem_actions import action_buttons, form, trail

T = 20_000 * DAY_NS
HOSTILE = '<img src=x onerror="window.fired=1">'

ROW = ProblemRow(
    problem_id="1:abc", title="hang: ALLREDUCE", cause="hang", status=Status.NEW, incidents=3, still_open=1, runs=2,
    nodes=1, first_at=T, last_at=T + 3 * DAY_NS, restart_ns=10**9, recover_ns=90 * 10**9, lost_ns=0, lost_gpu_ns=10**16,
    cost_unknown=0, revision=7, occurrences=(1, 0, 2),
)  # fmt: skip
OCCURRENCE = Occurrence(
    "a~1", "a", T, T + 10**9, False, True, "hang", "n1", 3, 100, (("node", "n1"),), 10**9, 10**9, 5, None
)
ACTIONS = (
    ProblemAction(1, T, ActionKind.MERGE, "1:old", "Ada", into="1:abc"),
    ProblemAction(2, T, ActionKind.SPLIT, "1:abc", facet="node", value=HOSTILE),
    ProblemAction(3, T, ActionKind.MOVE, "1:old", into="1:abc", incidents=("a~1",)),
    ProblemAction(4, T, ActionKind.RENAME, "1:abc", title=HOSTILE),
    ProblemAction(5, T, ActionKind.RESOLVE, "1:abc", "Ben", HOSTILE, fixed_by="c0ffee"),
    ProblemAction(6, T, ActionKind.KNOWN, "1:old"),
    ProblemAction(7, T, ActionKind.UNDO, "1:abc", undoes=5),
)


def view(**changes: object) -> ProblemView:
    plain = ProblemView(
        problem=ROW, fingerprint="1:abc", parts=(("cause", "hang"), ("operation", "ALLREDUCE")),
        merged=(MergedProblem("1:old", "old"),), moved=(OCCURRENCE.incident_id,), split_from=None,
        occurrence_count=900, offset=0,
        occurrences=(OCCURRENCE, replace(OCCURRENCE, is_open=True, counts=False)),
        facet_shares=(FacetShare("node", 3, 3, (("n1", 2), ("n2", 1)), 2, "2 of 3 on node n1."),),
        history=tuple(ActionEntry(each, each.action_id != 5, 7 if each.action_id == 5 else None) for each in ACTIONS),
        days=(DayCount(T, 1), DayCount(T + 400 * DAY_NS, 2)),
    )  # fmt: skip
    return replace(plain, **changes)


def words(content: object) -> str:
    parts = content if isinstance(content, list | tuple) else [content]
    return " ".join(each.words() if isinstance(each, Markup) else str(each or "") for each in parts)


def test_a_problem_says_how_often_where_and_what_it_cost():
    said = problem.sentence(view())
    assert (
        said.startswith("3 incidents in 2 runs: ") and "GPU-h and" in said and "of recovery. 2 of 3 on node n1." in said
    )
    assert "It came back after it was resolved." in problem.sentence(
        view(problem=replace(ROW, status=Status.REGRESSED))
    )
    assert problem.sentence(view(problem=replace(ROW, incidents=0))) == "No incident belongs to it now."


def test_a_page_of_a_problem_draws_everything_and_runs_nothing_that_people_wrote():
    found = view(problem=replace(ROW, resolution=Resolution(T, HOSTILE, "Ben", "c0ffee"), status=Status.REGRESSED))
    shown = words([*problem.head(found), *problem.body(found)])
    assert HOSTILE in shown
    assert "Ada merged 1:old into 1:abc" in shown
    assert "undone by action 7" in shown
    assert "People merged these into it" in shown
    assert "out of account" in shown
    assert encoded([*problem.head(found), *problem.body(found)])
    bare = view(parts=(), merged=(), facet_shares=(), history=(), days=(), occurrences=(), occurrence_count=0)
    assert "split off another problem" in words(problem.body(bare))
    assert trail((), "1:abc") is None


@pytest.mark.parametrize("status", list(Status))
def test_only_what_makes_sense_can_be_done(status: Status):
    buttons = [each.words() for each in action_buttons(replace(ROW, status=status)).find("button")]
    assert {"Rename", "Merge into another", "Split"} <= set(buttons)
    assert ("Resolve" in buttons) == (status is not Status.RESOLVED)
    assert ("Reopen" in buttons) == (status in (Status.RESOLVED, Status.IGNORED, Status.REGRESSED))
    assert form([ROW], "test").id == "problem-form"


def test_bars_say_what_they_are_and_never_vanish():
    drawn = spark((0, 1, 100), "3 incidents")
    heights = [dict(each.attributes)["style"] for each in drawn.find("i")]
    assert heights == ["height:8%", "height:8%", "height:100%"]
    assert spark((), "none").words() == ""


def test_an_incident_tells_its_place_among_those_like_it():
    mine = ProblemOfIncident(replace(ROW, resolution=Resolution(T, "new cable", "Ada", None)), 2)
    assert incident_history.problem_sentence(mine).startswith("The 2nd of 3 times in 2 runs")
    once = ProblemOfIncident(replace(ROW, incidents=1), 1)
    assert incident_history.problem_sentence(once) == "The first time that this happened, in any run."
    done = Resolution(T, HOSTILE, "Ada")
    like = SimilarIncident(OCCURRENCE, 9, ("The same node: n1.",), "1:abc", "hang", Status.RESOLVED, done, "Different.")
    shown = words(incident_history.history(SimilarIncidents("a~2", mine, (like,))))
    assert "Last resolved by Ada: new cable." in shown and HOSTILE in shown and "The same node: n1." in shown
    assert "1\u202fs to recover" in shown
    lost = replace(like, occurrence=replace(OCCURRENCE, ended_at=None))
    assert "never regained" in words(incident_history.history(SimilarIncidents("a~2", mine, (lost,))))
    assert problem.occurrence_row(replace(OCCURRENCE, ended_at=None))[2] == "1\u202fs, never"
    assert "No other incident" in words(incident_history.history(SimilarIncidents("a~2", mine, ())))
    assert incident_history.history(SimilarIncidents("a~2", None, ())) == []


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (122, "122nd")]
)
def test_ordinals(number: int, said: str):
    assert incident_history.ordinal(number) == said


def test_a_page_of_a_node_draws_lanes_events_and_reasons():
    lemon = lemon_of(
        NodeCase("n1", 9 * DAY_NS, (T, T + DAY_NS), xids=((79, 1),), runs_blamed=2), Fleet(9, 90 * DAY_NS, 5)
    )
    row = NodeRow("n1", 2, lemon, 2, 2, 1, T)
    found = NodeView(
        node=row, stays=(NodeStay("a", T, None, DAY_NS, 2), NodeStay("b", None, None, None, 0)), blamed=(OCCURRENCE,),
        blamed_count=1, programs=(replace(OCCURRENCE, cause="user_exception"),), present=(OCCURRENCE,),
        events=(NodeEvent(T, "xid", "XID 79", "fell", "a", None, True),),
        away=(Away("drained", T + DAY_NS, None),),
    )  # fmt: skip
    shown = words(node.content(found))
    assert "drained since" in shown and "It failed again within 1 day." in shown and "XID 79" in shown
    assert "Programs that failed on it" in shown and "not counted against it" in shown
    assert encoded(node.content(found))
    bare = NodeView(replace(row, lemon=lemon_of(NodeCase("n1", None), Fleet(0, 0, 0))), (), (), 0, (), (), (), ())
    assert "unknown" in words(node.content(bare))
    assert nodes.level_badge(lemon).words() in ("lemon", "suspect")


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((("suspect", 2), ("unknown", 3)), "5 nodes: 2 suspects; of the other 3 too little is known to say."),
        ((("suspect", 1), ("unremarkable", 3)), "4 nodes: 1 suspect; the others fail no more often than"),
        ((("lemon", 1), ("unremarkable", 3), ("unknown", 2)), "6 nodes: 1 lemon; of 2 too little is known to say; the"),
        ((("unknown", 3),), "3 nodes; too little is known to say whether"),
        ((("unremarkable", 3),), "3 nodes; none of them fails more often"),
        ((("unremarkable", 8), ("unknown", 1)), "9 nodes: of 1 too little is known to say; the others fail no more"),
    ],
)
def test_nodes_of_which_too_little_is_known_are_not_said_to_be_well(levels: tuple[tuple[str, int], ...], said: str):
    assert nodes.sentence(NodePage((), sum(times for _, times in levels), levels)).startswith(said)


@pytest.mark.parametrize("name", ["n/1", "a b", "ü", "%2F", "1:abc"])
def test_addresses_bring_back_what_they_name(name: str):
    assert address.parse(address.node_path(name)) == address.Address("node", name)
    assert address.parse(address.problem_path(name)) == address.Address("problem", name)


def test_nonsense_in_the_address_is_left_out():
    wanted = problems.KIND.wanted("?q=x&status=great&sort=colour&offset=-3&node=n1&cause=&colour=red")
    assert (wanted.search, wanted.choice, wanted.sort, wanted.offset, wanted.fixed) == (
        "x", "", "last_at", 0, (("node", "n1"),),
    )  # fmt: skip
