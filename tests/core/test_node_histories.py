"""Node histories: since when a run held a machine, and what was told of it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rerail.collectors.synth.history import facts_of
from rerail.collectors.synth.plans import fleet
from rerail.server.core.facts import AttemptStarted, Evidence, NodeCondition, NodeState, Scope
from rerail.server.core.fold import RunFold
from rerail.server.core.machine_words import most_serious
from rerail.server.core.node_histories import Held, NodeChange, NodeXid, node_histories
from rerail.server.core.report import figures
from rerail.server.core.view import Attempt, MachineWord
from rerail.ui.pages.run_losses import losses
from rerail.ui.pages.run_tables import panels
from rerail.ui.sentences import run_sentence

XID = "Xid (PCI:0000:3b:00):"


def attempt(number: int, start: int, end: int | None, *nodes: str, scope: Scope | None = None) -> Attempt:
    return Attempt(number, start, end, scope=scope, nodes=nodes, is_interrupted=end is not None)


def held(*attempts: Attempt, ended_at: int | None = None) -> dict[str, tuple[Held, ...]]:
    return {each.node: each.held for each in node_histories(attempts, (), (), ended_at)}


def test_a_restart_in_the_job_keeps_its_nodes_and_a_lost_one_goes_with_the_next():
    assert held(attempt(0, 0, 50, "a", "b"), attempt(1, 60, 90, "a", "c", scope=Scope.IN_JOB), ended_at=90) == {
        "a": (Held(0, 90),),
        "b": (Held(0, 60),),
        "c": (Held(60, 90),),
    }


def test_a_requeue_gives_the_nodes_back_meanwhile():
    assert held(attempt(0, 0, 50, "a"), attempt(1, 80, None, "a", scope=Scope.REQUEUE)) == {
        "a": (Held(0, 50), Held(80, None))
    }


def test_where_an_attempt_names_no_nodes_the_time_is_unknown():
    (only,) = node_histories([attempt(0, 0, 50, "a"), attempt(1, 60, None)], (), (), None)
    assert not only.is_exposure_known
    assert only.held_ns(100) is None
    (known,) = node_histories([attempt(0, 0, None, "a")], (), (), None)
    assert known.held_ns(100) == 100


def test_what_was_told_of_a_node_that_no_attempt_names_is_kept():
    told = [("z", NodeXid(5, 79, 3)), ("z", NodeXid(5, 79, 3)), ("z", NodeXid(1, 48))]
    (only,) = node_histories([], told, [("z", NodeChange(9, "drained", "ECC"))], None)
    assert only.xids == (NodeXid(1, 48), NodeXid(5, 79, 3))
    assert only.states == (NodeChange(9, "drained", "ECC"),)
    assert not only.is_exposure_known


def test_without_any_attempt_what_machines_said_is_known_and_on_the_page():
    at, fold = 1_760_000_000_000_000_000, RunFold("r")
    common = {"run": "r", "emitter": "prometheus/n1", "node": "n1"}
    xid = Evidence(**common, seq=1, at=at, source="dcgm", text="GPU 1 of n1: XID 79", code="xid:79")
    fold.add([xid, NodeState(**common, seq=2, at=at + 1, state=NodeCondition.NOT_READY, reason="no power")])
    view = fold.view(at + 10**9)
    assert view.attempts == () and view.incidents == ()
    assert [(each.node, each.source, each.code, each.text) for each in view.machines_say] == [
        ("n1", "dcgm", "xid:79", "GPU 1 of n1: XID 79"), ("n1", "", "not_ready", "no power")
    ]  # fmt: skip
    (history,) = before = fold.node_histories
    assert history.xids == (NodeXid(at, 79, None, "dcgm"),)
    assert [change.state for change in history.states] == ["not_ready"]
    assert not history.is_exposure_known
    fold.view(at + 2 * 10**9)
    assert fold.node_histories is before, "nothing of it changed, so nothing is made anew"
    sentence = "".join(phrase.words for phrase in run_sentence(view))
    assert sentence.startswith(
        "Its machines spoke: n1: GPU 1 of n1: XID 79, the most serious of 2 statements of 1 node."
    )
    (nothing,) = losses(view)
    assert "rerail import logs train.log --run r --url" in nothing.words()
    shown = " ".join(part.words() for part in panels(view, (), ()))
    for words in ("GPU has fallen off the bus", "DCGM (Prometheus)", "no power", "Nobody told of an attempt."):
        assert words in shown
    assert [each["code"] for each in figures(view)["machines_say"]] == ["xid:79", "not_ready"]  # type: ignore[index, attr-defined]
    fold.add([AttemptStarted(run="r", emitter="a", seq=1, at=at - 1, restart=0)])
    view = fold.view(at + 3 * 10**9)
    assert view.machines_say == () and fold.node_histories == before


def test_the_most_serious_word_of_machines_goes_before_the_newest():
    def said(at: int, text: str, code: str | None = None, source: str = "kernel") -> MachineWord:
        return MachineWord(at, "n1", source, text, code)

    ascending = [
        said(9, "", "ready", ""),
        said(8, f"NVRM: {XID} 63, pid=1, Row Remapper: New row marked for remapping", "xid:63"),
        said(7, "", "not_ready", ""),
        said(6, f"NVRM: {XID} 999, pid=1, something new", "xid:999"),
        said(5, "", "lost", ""),
        said(4, f"NVRM: {XID} 48, pid=1, DBE (Double Bit Error) ECC Error", "xid:48"),
        said(3, f"NVRM: {XID} 64, pid=1, Row Remapper: Error. Can not find a free row", "xid:64"),
        said(2, f"NVRM: {XID} 79, pid=1, GPU has fallen off the bus.", "xid:79"),
    ]
    for place in range(1, len(ascending) + 1):
        assert most_serious(ascending[:place][::-1]) is ascending[place - 1]
    assert most_serious([ascending[0], replace(ascending[0], at=10)]).at == 10


@pytest.mark.parametrize("seed", range(3))
def test_in_pieces_and_in_any_order_it_comes_to_the_same(seed: int):
    end = 1_760_000_000_000_000_000
    plan = next(plan for plan in fleet(seed, 40, end) if plan.faults >= 2)
    facts = facts_of(plan)
    whole = RunFold(plan.run)
    whole.add(facts)
    whole.view(plan.end)
    pieces, chance = RunFold(plan.run), random.Random(seed)
    shuffled = list(facts)
    chance.shuffle(shuffled)
    for first in range(0, len(shuffled), 500):
        pieces.add(shuffled[first : first + 500])
        pieces.view(plan.end)
    assert whole.node_histories
    assert pieces.node_histories == whole.node_histories
    before = whole.node_histories
    whole.view(plan.end + 10**9)
    assert whole.node_histories is before, "nothing of it changed, so nothing is made anew"
