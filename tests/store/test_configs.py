"""Configs in the store: stretches follow the view, and what people said outlives every replay."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rerail.server.config_changes import ChangeDesk
from rerail.server.core.causes import rules
from rerail.server.core.facts import Evidence
from rerail.server.core.recovery_configs.changes import changes
from rerail.server.core.recovery_configs.knobs import KNOB
from rerail.server.core.recovery_configs.suspects import POINTS
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import Batch, Store
from tests.story import Story

S = 10**9


def told(store: Store, batch: Callable[..., Batch], heartbeats: tuple[int, ...], run: str = "a") -> Queries:
    story = Story(run)
    for index, heartbeat in enumerate(heartbeats):
        story.start(config=json.dumps({"rank_heartbeat_timeout": heartbeat})).bring_up(10)
        story.steps(1 + 50 * index, 50 + 50 * index)
        if index < len(heartbeats) - 1:
            story.die(after=20).stop(1)
    store.append([batch(*story.finish().facts)])
    Projector(store, clock=lambda: story.at + 10**12).derive_due()
    return Queries(store, lambda: story.at + 10**12)


def test_configs_are_listed_with_the_faults_that_began_under_them(store: Store, batch: Callable[..., Batch]) -> None:
    queries = told(store, batch, (300, 300, 600))
    page = queries.configs.configs(sort="incidents")
    assert [(row.incidents, row.attempts, row.runs) for row in page.rows] == [(2, 2, 1), (0, 1, 1)]
    assert page.rows[0].recover is not None and page.rows[0].recover.n == 2
    found = queries.configs.config(page.rows[0].fingerprint)
    assert [use.run_id for use in found.uses] == ["a"]
    assert [each.change.change_id for each in found.changes] == ["a@2"]
    with pytest.raises(NotFoundError):
        queries.configs.config("ffffffff")
    with pytest.raises(ValueError, match="sort"):
        queries.configs.configs(sort="beauty")


def test_what_people_said_of_a_change_outlives_a_replay_and_is_undone_by_another_action(
    store: Store, batch: Callable[..., Batch]
) -> None:
    queries = told(store, batch, (300, 600))
    desk = ChangeDesk(store, lambda: 5)
    desk.say("a@1", {"action": "explain", "changed_by": "Ada", "reason": "false kills", "author": "Ben"})
    desk.say("a@1", {"action": "link", "target_kind": "incident", "target": "a~0"})
    store.make_all_due()
    Projector(store, clock=lambda: 2 * 10**18).derive_due()
    row = queries.configs.change("a@1")
    assert (row.said.changed_by, row.said.reason, row.before.faults, row.after.faults) == ("Ada", "false kills", 1, 0)
    assert [each.row.change.change_id for each in queries.configs.changes_about("a~0", ())] == ["a@1"]
    assert queries.configs.changes(unexplained=True).total == 0
    desk.say("a@1", {"action": "undo", "undoes": row.said.actions[0].action_id})
    assert queries.configs.change("a@1").said.reason is None
    assert queries.configs.changes(unexplained=True).total == 1


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"action": "dance"}, "action: one of explain, link, undo"),
        ({"action": "explain"}, "reason"),
        ({"action": "explain", "reason": "x" * 4001}, "longer than 4000"),
        ({"action": "explain", "reason": "x", "colour": "red"}, "colour: not a field"),
        ({"action": "undo", "undoes": 77}, "undoes: no action of this change"),
    ],
)
def test_what_does_not_fit_is_refused_with_field_and_value(
    store: Store, batch: Callable[..., Batch], stated: dict[str, object], message: str
) -> None:
    told(store, batch, (300, 600))
    with pytest.raises(RefusedRequestError, match=message):
        ChangeDesk(store).say("a@1", stated)
    assert store.configs.actions() == ()


def test_a_change_and_what_it_links_must_be_known(store: Store, batch: Callable[..., Batch]) -> None:
    told(store, batch, (300, 600))
    with pytest.raises(NotFoundError):
        ChangeDesk(store).say("a@7", {"action": "explain", "reason": "why"})
    with pytest.raises(NotFoundError):
        ChangeDesk(store).say("a@1", {"action": "link", "target_kind": "incident", "target": "a~9"})


def test_the_ledger_read_from_places_is_the_ledger_of_whole_stretches(
    store: Store, batch: Callable[..., Batch]
) -> None:
    for run, heartbeats in (("a", (300, 600, 300)), ("b", (300, 300)), ("c", (900, 600))):
        queries = told(store, batch, heartbeats, run)
    page = queries.configs.changes()
    assert [row.change for row in page.rows] == list(changes(store.configs.stretches(["a", "b", "c"])))
    assert {row.change.change_id for row in page.rows} == {"a@1", "a@2", "c@1"}
    assert queries.configs.changes(knob="heartbeat_timeout", limit=1).total == 3
    assert queries.configs.changes(knob="max_restarts").total == 0
    assert queries.configs.changes(project="nobody").total == 0
    assert [row.change.change_id for row in queries.configs.changes(run="c").rows] == ["c@1"]
    assert queries.configs.configs("b").rows[0].runs == 2, "the config that b shares with a"
    assert queries.configs.newest(2) == tuple(row.fingerprint for row in queries.configs.configs().rows[:2])
    assert [row.incidents for row in queries.configs.configs(sort="incidents").rows] == [2, 1, 1]


def test_runs_and_configs_are_sides_of_a_comparison(store: Store, batch: Callable[..., Batch]) -> None:
    told(store, batch, (300, 300, 300), "a")
    queries = told(store, batch, (600, 600, 600), "b")
    by_run = queries.configs.compare(["a", "run:b"]).comparison
    configs = [row.fingerprint for row in queries.configs.configs().rows]
    by_config = queries.configs.compare([f"config:{each}" for each in configs]).comparison
    assert {len(each.arm.faults) for each in (*by_run.arms, *by_config.arms)} == {2}
    assert not by_run.differences[0].is_refused
    with pytest.raises(NotFoundError):
        queries.configs.compare(["a", "nobody"])
    with pytest.raises(ValueError, match="two to six"):
        queries.configs.compare(["a", "a"])


def test_a_change_before_a_fault_is_named_where_its_cause_points_at_the_knob(
    store: Store, batch: Callable[..., Batch]
) -> None:
    """Of three changes one touches what a NCCL time-out points at; it is named with old and new, who, why, and when."""
    story = Story("a")
    for index, config in enumerate(
        ({"max_restarts": 3, "nccl_timeout": 600}, {"max_restarts": 9, "nccl_timeout": 600},
         {"max_restarts": 9, "nccl_timeout": 60})
    ):  # fmt: skip
        story.start(config=json.dumps(config)).bring_up(10).steps(1 + 50 * index, 50 + 50 * index)
        if index < 2:
            story.die(after=20).stop(1)
    watchdog = (
        "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=60000) ran for 60001 milliseconds "
        "before timing out."
    )
    evidence = Evidence(run="a", emitter="log", seq=0, at=story.at + S, source="stderr", rank=0, job="job", restart=2,
                        text=watchdog)  # fmt: skip
    story.die(after=20, by="launcher").stop(1)
    story.start(config=json.dumps({"max_restarts": 9, "nccl_timeout": 60})).bring_up(10)
    store.append([batch(*story.facts, evidence)])
    Projector(store, clock=lambda: 2 * 10**18).derive_due()
    queries = Queries(store)
    incident = queries.run("a").incidents[-1]
    assert incident.verdict.cause == "nccl_timeout"
    ChangeDesk(store, lambda: 5).say("a@2", {"action": "explain", "changed_by": "Ada", "reason": "find hangs sooner"})
    (about,) = queries.config_changes_of_incident(incident.incident_id)
    assert [(one.name, one.old.value, one.new.value) for one in about.knobs] == [("collective_timeout", 600, 60)]
    assert (about.row.said.changed_by, about.row.said.reason) == ("Ada", "find hangs sooner")
    assert "with the attempt that failed" in about.reason
    assert queries.config_changes_of_incident("a~0") == ()
    problem = queries.problems.similar(incident.incident_id).problem
    assert problem is not None
    (of_problem,) = queries.config_changes_of_problem(problem.problem.problem_id)
    assert (of_problem.row.change.change_id, of_problem.incidents) == ("a@2", 1)
    ChangeDesk(store, lambda: 6).say(
        "a@1", {"action": "link", "target_kind": "incident", "target": incident.incident_id}
    )
    linked, suspect = queries.config_changes_of_incident(incident.incident_id)
    assert (linked.row.change.change_id, linked.is_linked) == ("a@1", True)
    assert (suspect.row.change.change_id, suspect.is_linked) == ("a@2", False)


def test_every_cause_that_points_at_knobs_is_a_cause_and_its_knobs_are_knobs() -> None:
    assert set(POINTS) <= set(rules())
    assert {name for each in POINTS.values() for name in each.knobs} <= set(KNOB)
