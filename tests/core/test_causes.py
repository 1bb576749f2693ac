"""Verdicts: the right class and rank, the right role for each line, and an honest unknown."""

from __future__ import annotations

import pytest

from rerail.server.core.causes import rules
from rerail.server.core.facts import Evidence, Exit, Initiator, NodeCondition, NodeState, SchedulerState
from rerail.server.core.view import CausalRole, Domain, Incident
from tests.story import Story

VICTIM = (
    "[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:11684. This is "
    "typically caused by a remote worker crashing."
)


def incident(*said: tuple[type, dict], by: str | None = None) -> Incident:
    """The incident of a run that broke, given what was said at its end."""
    story = Story().start().steps(1, 20).wait(5)
    for kind, fields in said:
        story._say(kind, "launcher", **{**story._here(), **fields})
    story.die(after=1, by=by or "launcher").stop(1).start(Initiator.FAULT).steps(21, 25)
    return story.view().incidents[0]


def line(text: str, rank: int | None = None, source: str = "stderr") -> tuple[type, dict]:
    return Evidence, {"text": text, "rank": rank, "source": source}


@pytest.mark.parametrize(
    ("said", "cause", "rank"),
    [
        ([line("[rank1]: RuntimeError: injected exception at step 13", 1), line(VICTIM, 0)], "user_exception", 1),
        ([line(VICTIM, 0), line("[rank1]: ValueError: bad shape", 1), (Exit, {"exit_code": 1, "rank": 1})],
         "user_exception", 1),
        ([line(VICTIM, 0), (Exit, {"exit_code": -9, "rank": 1, "signal": 9})], "sigkill", 1),
        ([(Exit, {"exit_code": 137, "rank": 3})], "sigkill", 3),
        ([line("[Cycle 0] Did not get subsequent heartbeat. Waited 5.00 seconds.", source="nvrx"),
          (Exit, {"exit_code": -9, "rank": 0})], "hang", None),
        ([line("Section 'step' has been open for 5.40 seconds. Timeout is 5.00 seconds.", source="nvrx")],
         "hang", None),
        ([line("[rank0]: RuntimeError: Timed out waiting 15000ms for send operation to complete", 0)], "hang", None),
        ([line("[rank1]: ValueError: boom", 1),
          line("[rank0]: RuntimeError: Timed out waiting 15000ms for recv operation to complete", 0)],
         "user_exception", 1),
        ([line("[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", 2)], "gpu_oom", 2),
        ([line("RuntimeError: CUDA error: uncorrectable ECC error encountered", 2),
          (Exit, {"exit_code": 1, "rank": 2})], "gpu_hardware", 2),
        ([line(VICTIM, 0), line("NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.", 4, "kernel"),
          (Exit, {"exit_code": -9, "rank": 4})], "gpu_hardware", 4),
        ([line("RuntimeError: CUDA error: an illegal memory access was encountered", 1)], "user_exception", 1),
        ([(Exit, {"exit_code": -9, "rank": 1, "oom_killed": True})], "host_oom", 1),
        ([line("Out of memory: Killed process 4242 (python)", source="kernel")], "host_oom", None),
        ([(Exit, {"exit_code": -11, "rank": 5})], "crash", 5),
        ([line(VICTIM, 0), (Exit, {"exit_code": -6, "rank": 0})], "crash", 0),
    ],
)  # fmt: skip
def test_the_cause_is_not_the_loudest_line(said, cause, rank):
    verdict = incident(*said).verdict
    assert (verdict.cause, verdict.culprit_rank) == (cause, rank)
    assert verdict.confidence > 0


def test_evidence_keeps_its_order_and_gets_its_role():
    lines = incident(
        line("[rank1]: RuntimeError: boom", 1),
        line(VICTIM, 0),
        line("Sending process 22664 closing signal SIGTERM"),
        line("something else"),
    ).evidence
    assert [each.role for each in lines if each.emitter is not None] == [
        CausalRole.INITIATING, CausalRole.CASCADE, CausalRole.TEARDOWN, CausalRole.UNKNOWN,
    ]  # fmt: skip


def test_nothing_said_is_unknown_and_says_what_would_settle_it():
    verdict = incident().verdict
    assert (verdict.cause, verdict.domain, verdict.confidence) == ("unknown", Domain.UNKNOWN, 0.0)
    assert verdict.missing_evidence


def test_a_lost_node_is_named():
    verdict = incident((NodeState, {"node": "gpu-17", "state": NodeCondition.LOST})).verdict
    assert (verdict.cause, verdict.culprit_node, verdict.domain) == ("node_lost", "gpu-17", Domain.INFRASTRUCTURE)


def test_a_preemption_is_the_schedulers_word():
    story = Story().start().steps(1, 20)
    story._say(SchedulerState, "slurm", state="preempted", reason="priority")
    view = story.die(after=0).stop(1).start(Initiator.SCHEDULER).steps(21, 25).view()
    assert view.incidents[0].verdict.cause == "preemption"


def test_every_rule_explains_itself():
    for name, rule in rules().items():
        assert rule.name == name
        assert rule.advice.endswith(".")


def test_a_node_that_came_back_and_stepped_on_did_not_end_the_attempt():
    story = Story().start().steps(1, 20)
    lost = {"node": "gpu-1", "state": NodeCondition.LOST}
    story._say(NodeState, "kubernetes/node/gpu-1", **lost)
    said = "node gpu-1: NodeStatusUnknown: Kubelet stopped posting node status."
    story._say(Evidence, "kubernetes/node/gpu-1", source="kubernetes", node="gpu-1", text=said)
    story.steps(21, 400)
    story._say(Exit, "launcher", **story._here(), exit_code=-11, rank=1)
    story.die(after=1).stop(1).start(Initiator.FAULT).steps(401, 405)
    assert story.view().incidents[0].verdict.cause == "crash"
    still_gone = Story().start().steps(1, 20)
    still_gone._say(NodeState, "kubernetes/node/gpu-1", **lost)
    still_gone.die(after=1).stop(1).start(Initiator.FAULT).steps(21, 25)
    assert still_gone.view().incidents[0].verdict.cause == "node_lost"
