"""Fault traces: evidence of many kinds, clocks and attempts, joined."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

from dataclasses import replace

from rerail.server.core.attempt_record import TimedEvidence, WorkerExit
from rerail.server.core.cause_rules import Case
from rerail.server.core.causes import judge
from rerail.server.core.causes.standing import standing_of
from rerail.server.core.facts import Clock, Evidence, Exit, Initiator
from rerail.server.core.fault_trace import COUNTED, MOST_LINES
from rerail.server.core.view import CausalRole
from tests.story import Story

SECOND = 1_000_000_000


def said(text: str, at: float, emitter: str = "launcher", source: str = "stderr", **fields: object) -> TimedEvidence:
    instant = int(at * SECOND)
    seq = fields.pop("seq", int(at * 1000))
    return TimedEvidence(
        instant, Evidence(run="r", emitter=emitter, seq=seq, at=instant, source=source, text=text, **fields)
    )


def case(*evidence: TimedEvidence, exits: tuple[WorkerExit, ...] = (), **fields: object) -> Case:
    return Case(
        sorted(evidence, key=TimedEvidence.order), exits, fields.pop("exit_codes", ()), None, None, (),
        fields.pop("lost_nodes", ()), (), None, False, fields.pop("last_step", None), **fields,
    )  # fmt: skip


def test_the_earliest_accusation_over_all_ranks_wins_not_the_loudest():
    storm = [said("RuntimeError: Connection closed by peer", 20 + each / 1000, rank=each) for each in range(200)]
    verdict, trace = judge(case(*storm, said("ValueError: bad sample", 12, rank=71), said("KeyError: 'x'", 13, rank=4)))
    assert (verdict.cause, verdict.culprit_rank) == ("user_exception", 71)
    assert [line.role for line in trace[:2]] == [CausalRole.INITIATING, CausalRole.CASCADE]


def test_a_rank_that_lost_its_peers_and_then_raises_is_an_echo():
    verdict, trace = judge(
        case(
            said("RuntimeError: Timed out waiting 1000ms for recv operation to complete", 10, rank=0),
            said("mylib.TrainingFailed: MyError: giving up", 11, rank=0, code="TrainingFailed"),
        )
    )
    assert verdict.cause == "hang"
    assert trace[1].role is CausalRole.CASCADE


def test_what_the_kernel_killed_of_others_explains_no_exception_of_the_run():
    text = "Out of memory: Killed process 991 (node_exporter) total-vm:1kB"
    killed = said(text, 10, source="kernel", emitter="kernel", node="gpu-9")
    verdict, _ = judge(case(killed, said("KeyError: 'x'", 60, rank=1)))
    assert (verdict.cause, verdict.culprit_rank) == ("user_exception", 1)
    alone, _ = judge(case(killed))
    assert (alone.cause, alone.culprit_rank, alone.confidence) == ("host_oom", None, 0.4)
    assert "node_exporter (process 991), which is not known to be of the run" in alone.sentence
    python, _ = judge(
        case(replace(killed, evidence=replace(killed.evidence, text=text.replace("node_exporter", "python3"))))
    )
    assert python.confidence == 0.9


def test_the_one_rank_that_ended_by_itself_is_the_one_that_the_others_lost():
    lost = said("RuntimeError: Connection closed by peer [127.0.0.1]:5004", 10, rank=0)
    ended = (WorkerExit(11 * SECOND, 1, 7, False), WorkerExit(12 * SECOND, 0, -15, False))
    verdict, _ = judge(case(lost, exits=ended))
    assert (verdict.cause, verdict.culprit_rank, verdict.domain.value) == ("user_exception", 1, "unknown")
    assert "exit code 7" in verdict.sentence and "lost the connection" in verdict.sentence
    both = (*ended, WorkerExit(11 * SECOND, 2, 1, False))
    assert judge(case(lost, exits=both))[0].culprit_rank is None, "which of two was first is not told"
    told = judge(case(lost, said("ValueError: bad sample", 9, rank=2), exits=ended))[0]
    assert (told.cause, told.culprit_rank) == ("user_exception", 2)


def test_where_threads_stand_accuses_nobody():
    stack = 'Thread 0x1 (most recent call first):\n  File "torch/cuda.py", line 3 in OutOfMemoryError\n  File "a.py", line 1 in ValueError'
    ended = (WorkerExit(50 * SECOND, 1, -9, False),)
    verdict, trace = judge(case(said(stack, 10, source="stack", code="stack_dump", rank=0), exits=ended))
    assert (verdict.cause, verdict.culprit_rank) == ("sigkill", 1)
    assert [line.role for line in trace] == [CausalRole.INFORMATIONAL, CausalRole.CONFIRMATION]


STACKS = """Current thread 0x00007f51bbfff6c0 (most recent call first):
  <no Python frame>

Thread 0x00007f51e5286b80 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 718 in readinto
  File "/job/site-packages/s3/body.py", line 40 in read
  File "/job/loader.py", line 96 in next_shard
  File "/job/train.py", line 240 in <module>
"""


def test_of_the_rank_that_is_blamed_for_a_hang_it_is_said_where_it_stood():
    hung = said("Rank 3 failed to pass monitoredBarrier in 60000 ms", 80, rank=0)
    stacks = (said(STACKS, 60, source="stack", code="stack_dump", rank=3, node="n7"),
              said(STACKS.replace("next_shard", "elsewhere"), 60, source="stack", code="stack_dump", rank=0))  # fmt: skip
    verdict, _ = judge(case(*stacks, hung))
    assert (verdict.cause, verdict.culprit_rank, verdict.culprit_node) == ("hang", 3, "n7")
    assert "Rank 3 stood in readinto (socket.py:718), which next_shard (loader.py:96) called." in verdict.sentence
    assert dict(verdict.traits)["frame"] == "loader.py:next_shard"
    without, _ = judge(case(stacks[1], hung))
    assert "stood" not in without.sentence and "frame" not in dict(without.traits)


def test_stacks_without_python_frames_say_nothing_of_where_a_rank_stood():
    assert standing_of("Current thread 0x1f (most recent call first):\n  <no Python frame>\n") is None
    assert standing_of("") is None
    foreign = standing_of('Thread 0x1f (most recent call first):\n  File "/x/site-packages/a.py", line 3 in f\n')
    assert foreign is not None
    assert (foreign.words, foreign.own_frame) == ("f (a.py:3)", None)


def test_what_a_run_survived_accuses_nobody():
    verdict, trace = judge(
        case(
            said("ValueError: bad sample, retrying", 10, rank=3),
            exits=(WorkerExit(5000 * SECOND, 1, -9, False),),
            last_step_at=4990 * SECOND,
        )
    )
    assert (verdict.cause, verdict.culprit_rank) == ("sigkill", 1)
    assert trace[0].role is CausalRole.UNKNOWN


def test_what_was_said_long_before_the_attempt_is_not_about_it():
    verdict, _ = judge(
        case(
            said("Out of memory: Killed process 1 (python3) total-vm:1kB", 10, source="kernel"),
            exits=(WorkerExit(5000 * SECOND, 1, -6, False),), started_at=4000 * SECOND,
        )
    )  # fmt: skip
    assert verdict.cause != "host_oom" or verdict.confidence < 0.5


def test_a_kill_and_the_kernels_line_are_one_story_with_its_culprit():
    verdict, trace = judge(
        case(
            said(
                "Out of memory: Killed process 4242 (python3) total-vm:1kB",
                100,
                "kernel/gpu-17",
                "kernel",
                node="gpu-17",
            ),
            said("failed (exitcode: -9) local_rank: 3 (pid: 4242) of binary: python", 101, source="torchrun", rank=11),
            said("RuntimeError: Connection closed by peer", 101.5, rank=0),
            exits=(WorkerExit(101 * SECOND, 11, -9, False, "gpu-17"),),
        )
    )
    assert (verdict.cause, verdict.culprit_rank, verdict.culprit_node) == ("host_oom", 11, "gpu-17")
    assert verdict.confidence > 0.95
    assert [(line.source, line.role) for line in trace] == [
        ("kernel", CausalRole.INITIATING),
        ("torchrun", CausalRole.CONFIRMATION),
        ("exit", CausalRole.CONFIRMATION),
        ("stderr", CausalRole.CASCADE),
    ]
    assert trace[2].text == "Rank 11 ended with exit code −9 SIGKILL."


def test_a_lost_node_and_the_exits_it_left_are_told_though_nobody_printed_a_line():
    exits = tuple(WorkerExit((102 + rank) * SECOND, rank, -15, False, "gpu-1") for rank in range(9))
    verdict, trace = judge(case(exits=exits, lost_nodes=((100 * SECOND, "gpu-17"),)))
    assert verdict.cause == "node_lost"
    assert (trace[0].text, trace[0].role) == ("Node gpu-17 was lost.", CausalRole.INITIATING)
    assert {line.role for line in trace[1:]} == {CausalRole.TEARDOWN}
    assert trace[-1].text == "5 more workers ended with exit code −15 SIGTERM."


def test_an_oom_kill_beside_exits_of_which_none_was_a_kill_is_another_story():
    verdict, _ = judge(
        case(
            said("Out of memory: Killed process 77 (chrome) total-vm:1kB", 100, "kernel/x", "kernel"),
            said("ValueError: boom", 101, rank=2),
            exits=(WorkerExit(102 * SECOND, 2, 1, False),), exit_codes=((2, 1),),
        )
    )  # fmt: skip
    assert (verdict.cause, verdict.culprit_rank) == ("user_exception", 2)


def test_clocks_that_cannot_tell_two_accusations_apart_lower_the_confidence_and_name_both():
    first = said("ValueError: bad sample", 10.000, "rank/a/0", rank=0, node="a")
    second = said("KeyError: 'x'", 10.050, "rank/b/8", rank=8, node="b")
    sure, _ = judge(case(first, said("KeyError: 'x'", 14, "rank/b/8", rank=8, node="b")))
    doubtful, trace = judge(case(first, second, clock_errors={"rank/a/0": SECOND // 10, "rank/b/8": SECOND // 10}))
    exact, _ = judge(case(first, second, clock_errors={"rank/a/0": SECOND // 100, "rank/b/8": SECOND // 100}))
    assert (doubtful.culprit_rank, exact.culprit_rank) == (0, 0)
    assert doubtful.confidence < exact.confidence == sure.confidence
    assert [line.meaning for line in trace] == [None, "May have been first: the two clocks are known to 0.200 s only."]
    assert "Rank 8 on b" in doubtful.sentence and "0.050 s later" in doubtful.sentence
    one_clock, _ = judge(case(first, said("KeyError: 'x'", 10.05, "rank/a/1", rank=8, node="a")))
    assert one_clock.confidence == sure.confidence


def test_clock_facts_reach_the_verdict_in_any_order():
    def verdict(clock_first: bool):
        story = Story().start().steps(1, 20).wait(5)

        def clocks():
            for emitter in ("rank/a/0", "rank/b/1"):
                story._say(Clock, emitter, offset_us=0, error_us=2_000_000, method="ntp")

        if clock_first:
            clocks()
        story._say(
            Evidence,
            "rank/a/0",
            **{**story._here(), "text": "ValueError: a", "source": "stderr", "rank": 0, "node": "a"},
        )
        story.wait(1)
        story._say(
            Evidence,
            "rank/b/1",
            **{**story._here(), "text": "KeyError: 'b'", "source": "stderr", "rank": 1, "node": "b"},
        )
        if not clock_first:
            clocks()
        story.die(after=1).stop(1).start(Initiator.FAULT).steps(21, 25)
        return story.view().incidents[0].verdict

    assert verdict(True) == verdict(False)
    assert "clock" in verdict(True).sentence


def test_a_storm_of_a_hundred_thousand_lines_keeps_the_telling_ones_and_counts_the_rest():
    storm = [
        said(
            f"[rank{each}]: RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.{each % 250}]:{each}.",
            20,
            seq=each,
            rank=each,
        )
        for each in range(100_000)
    ]
    verdict, trace = judge(case(*storm, said("ValueError: bad sample", 25, rank=100_001)))
    assert (verdict.cause, verdict.culprit_rank) == ("user_exception", 100_001)
    assert len(trace) <= MOST_LINES + 10
    (counted,) = [line for line in trace if line.code == COUNTED]
    assert counted.role is CausalRole.CASCADE
    assert counted.text.startswith("99988 more lines of network")
    assert any(line.role is CausalRole.INITIATING for line in trace)


def test_every_failed_relaunch_has_a_verdict_of_its_own_and_the_first_is_the_incidents():
    story = Story().start().steps(1, 20).wait(5)
    story._say(Evidence, "launcher", **{**story._here(), "text": "[rank1]: ValueError: first", "source": "stderr"})
    story.die(after=1).stop(1).start(Initiator.FAULT).wait(5)
    story._say(
        Evidence,
        "launcher",
        **{**story._here(), "text": "OSError: [Errno 28] No space left on device", "source": "stderr"},
    )
    story.die(after=1).stop(1).start(Initiator.FAULT).wait(5)
    story._say(Exit, "launcher", **{**story._here(), "exit_code": -9, "rank": 2})
    story.die(after=1).stop(1).start(Initiator.FAULT).steps(21, 25)
    (incident,) = story.view().incidents
    assert incident.verdict.cause == "user_exception"
    assert [(each.attempt, each.verdict.cause) for each in incident.relaunches] == [
        (1, "checkpoint_io"),
        (2, "sigkill"),
    ]
    assert incident.relaunches[0].evidence[0].role is CausalRole.INITIATING


def test_an_xid_carries_the_makers_words_and_a_consequence_is_none():
    verdict, trace = judge(
        case(
            said(
                "NVRM: Xid (PCI:0000:10:1c): 45, pid=1896, name=python3, Ch 00000008", 9, "kernel/a", "kernel", node="a"
            ),
            said(
                "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus.",
                10,
                "kernel/a",
                "kernel",
                node="a",
            ),
            said("failed (exitcode: -6) local_rank: 3 (pid: 1896) of binary: python", 12, source="torchrun", rank=3),
        )
    )
    assert (verdict.cause, verdict.culprit_node, verdict.culprit_rank) == ("gpu_hardware", "a", 3)
    assert verdict.traits == (("xid", "79"),)
    assert [line.role for line in trace][:2] == [CausalRole.CASCADE, CausalRole.INITIATING]
    assert trace[1].meaning is not None and "RESTART_BM" in trace[1].meaning


def test_the_order_in_which_evidence_came_changes_nothing():
    pieces = [
        said("ValueError: bad sample", 12, rank=71), said("RuntimeError: Connection closed by peer", 12, "other", rank=1),
        said("KeyError: 'x'", 12.01, "third", rank=4), said("Out of memory: Killed process 1 (x)", 12, "kernel", "kernel"),
    ]  # fmt: skip
    assert judge(case(*pieces)) == judge(case(*reversed(pieces)))
