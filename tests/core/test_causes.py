"""Verdicts: the right class and rank, the right role for each line, and an honest unknown."""

# ruff: noqa: E501 - lines of logs are as long as they are

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


@pytest.mark.parametrize(("waited", "confidence"), [(5, 0.9), (600, 0.4)])
def test_a_monitor_that_waited_while_steps_went_on_is_hardly_believed(waited: int, confidence: float):
    """The last step ended 5 s before."""
    text = f"Did not get subsequent heartbeat. Waited {waited}.00 seconds."
    verdict = incident(line(text, source="nvrx")).verdict
    assert (verdict.cause, verdict.confidence, verdict.culprit_rank) == ("hang", confidence, None)
    assert ("it had not hung" in verdict.sentence) == (waited == 600)
    assert ("heartbeats from where it steps" in (verdict.advice or "")) == (waited == 600)


def test_a_signal_is_explained_by_the_scheduler_that_sent_it():
    """Though the signal's line is first."""
    signal = line("Received Signals.SIGTERM death signal, shutting down workers")
    ended = line("JobId=10 State=CANCELLED by 1000 ExitCode=0:15", source="slurm")
    assert incident(signal).verdict.cause == "sigterm"
    assert incident(signal, ended).verdict.cause == "operator_stop"


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


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Evicted: The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.", "host_oom"),
        ("Evicted: The node was low on resource: ephemeral-storage.", "checkpoint_io"),
        ("DisruptionTarget EvictionByEvictionAPI: Eviction API: evicting", "preemption"),
    ],
)
def test_an_eviction_is_what_the_node_ran_short_of(message, cause):
    verdict = incident(
        (SchedulerState, {"state": "evicted", "reason": message}), line(message, source="kubernetes"),
        (Exit, {"exit_code": 143, "rank": 0}), by="TerminationByKubelet: evicted",
    ).verdict  # fmt: skip
    assert (verdict.cause, verdict.domain) == (cause, Domain.INFRASTRUCTURE)


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


def timed_out(ranks: range | list[int], group: str = "0(default_pg)", work: int = 8) -> list[tuple[type, dict]]:
    """What the watchdogs of ranks say, of eight in all."""
    said = []
    for rank in ranks:
        said.append(
            line(
                f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={work}, "
                "OpType=ALLREDUCE, NumelIn=1) ran for 600004 milliseconds before timing out.",
                rank,
            )
        )
        said.append(
            line(
                f"[PG ID {group[0]} PG GUID {group} Rank {rank}]  failure detected by watchdog at work "
                f"sequence id: {work} PG status: last enqueued work: {work}, last completed work: 7",
                rank,
            )
        )
    return said  # fmt: skip


HEARD = line("[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 0 and "
             "we will try our best to dump the debug info.", 5)  # fmt: skip
ALL_BUT_5 = [0, 1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        (timed_out(ALL_BUT_5), 5),
        ([*timed_out(ALL_BUT_5), HEARD], 5),
        ([HEARD, *timed_out(ALL_BUT_5, "3(dp)")], 5),  # the last place of the group is that of the world
        (timed_out([0, 1, 2, 3, 4, 7]), None),
        (timed_out(range(8)), None),
        (timed_out(range(7), "3(dp)"), None),  # a group of seven, for all that is told
        ([*timed_out([0, 1, 2, 3]), *timed_out([4, 6, 7], work=9)], None),
        ([*timed_out(ALL_BUT_5), timed_out([5])[1]], None),  # it had issued as much as the others
        ([*timed_out(ALL_BUT_5), line(timed_out([3])[1][1]["text"].replace("work: 8", "work: 6"), 3)], 5),
    ],
)  # fmt: skip
def test_the_only_rank_of_the_world_that_did_not_time_out_is_named(said, rank):
    verdict = incident(*said).verdict
    assert (verdict.cause, verdict.domain, verdict.culprit_rank) == ("nccl_timeout", Domain.UNKNOWN, rank)
    assert ("the only one of 8 that did not time out" in verdict.sentence) == (rank is not None)
    assert verdict.confidence <= 0.75


def test_a_link_is_suspected_only_where_every_rank_is_known_to_have_waited():
    assert incident(*timed_out(range(8))).verdict.sentence.endswith("the link or the kernel did not finish.")
    assert incident(*timed_out([0, 1, 2, 3, 4, 7])).verdict.sentence.endswith(
        "; of ranks 5, 6 it is not known that they waited."
    )


def test_a_rank_that_had_issued_less_goes_before_one_that_is_silent():
    behind = line(timed_out([3])[1][1]["text"].replace("enqueued work: 8", "enqueued work: 6"), 3)
    said = [each for each in timed_out(ALL_BUT_5) if each[1]["rank"] != 3 or "Watchdog" in each[1]["text"]]
    verdict = incident(*said, behind).verdict
    assert (verdict.culprit_rank, verdict.confidence) == (3, 0.85)


def xid_line(words: str) -> tuple[str, dict]:
    return line(f"NVRM: Xid (PCI:0000:05:00): {words}", source="kernel")


@pytest.mark.parametrize(
    ("said", "sentence", "advice"),
    [
        ([line("[rank1]: ValueError: boom", 1),
          line("EARLY TERMINATION: 3 consecutive training cycles without progress.", source="nvrx")],
         "Rank 1 raised ValueError: boom. No restart was left after it (EARLY TERMINATION: 3 consecutive training cycles "
         "without progress).", "Read the traceback"),
        ([line("RuntimeError: CUDA error: unknown error", 1),
          line("Unable to determine the device handle for GPU 0000:4F:00.0: Unknown Error")],
         "a GPU failed (Unable to determine the device handle for GPU 0000:4F:00.0: Unknown Error).", "Drain the node"),
        ([xid_line("94, pid=1, name=python3, Contained: CE User Channel (0x9)")],
         "a GPU failed (XID 94, Contained memory error).", "Restart the application"),
        ([xid_line("94, pid=1, name=python3, Contained: CE User Channel (0x9)"),
          xid_line("95, pid=1, name=python3, Uncontained: LTC TAG (0x2)")],
         "a GPU failed (XID 94, Contained memory error).", "Drain the node and reset the GPU"),
        ([xid_line("94, pid=1, name=python3, Contained: CE User Channel (0x9)"),
          xid_line("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")],
         "a GPU failed (XID 94, Contained memory error).", "Restart the application: the driver kept the error within it, and the GPU serves on. Reset the GPU when the node is "
         "free, and replace it where this comes again. The driver itself recommends: GPU Reset Required (XID 154)."),
        ([xid_line("79, pid=1, name=python3, GPU has fallen off the bus.")],
         "a GPU failed (XID 79, GPU has fallen off the bus).", "Drain the node and reboot it"),
        ([line("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", 1)],
         "Rank 1: the GPUs were not ready for CUDA: their fabric was not set up (Error 802: system not yet initialized).",
         "See that the fabric manager"),
        ([line("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
          line("Memory on the node (IP: 10.0.0.7, ID: 8c5a) where the task was running was 31GB / 33GB (0.96), which "
               "exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 0f76)")],
         "A rank on 10.0.0.7 was ended by Ray's own memory monitor: its node ran short of memory", "Look at data loader"),
        ([line("[rank0]: torch.distributed.checkpoint.api.CheckpointException: CheckpointException "
               "ranks:dict_keys([3])", 0),
          line("[rank0]: OSError: [Errno 5] Input/output error: '/srv/x'", 0)],
         "Rank 3 could not write or read its files (CheckpointException ranks:dict_keys([3])): "
         "OSError: [Errno 5] Input/output error: '/srv/x'.", "Look at free space"),
        ([line("[rank2]: RuntimeError: " + "a word or two " * 30, 2)], "a word or two a word or two a…", "Read the traceback"),
        ([line("slurmstepd: error: Detected 1 oom_kill event in StepId=4405755.0. Some of the step tasks have been "
               "OOM Killed.")],
         "(Detected 1 oom_kill event in StepId=4405755.0. Some of the step tasks have been OOM…).", "Look at data"),
        ([line("llm-worker-0   0/1   CrashLoopBackOff   8   2m32s")],
         "A container failed again after each of its starts (CrashLoopBackOff); why is not told.", "Look at the causes"),
    ],
)  # fmt: skip
def test_a_sentence_says_what_is_known_in_whole_words(said, sentence, advice):
    verdict = incident(*said).verdict
    assert sentence in verdict.sentence
    assert verdict.advice.startswith(advice)


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
