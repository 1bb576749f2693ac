"""What a run survived accuses nobody, and what it did not survive does."""

from __future__ import annotations

from array import array

import pytest

from rerail.server.core.attempt_record import TimedEvidence, WorkerExit
from rerail.server.core.cause_rules import Case
from rerail.server.core.causes import judge
from rerail.server.core.facts import Evidence, Outcome
from rerail.server.core.steps import StepBlock

SECOND = 1_000_000_000
XID = "NVRM: Xid (PCI:0000:5d:00): 94, pid=91244, name=python, Contained: SM (0x1). RST: No, D-RST: No"
STALL = "nfs: server fs-1 not responding, still trying"
TIMED_OUT = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000)"
)
ERROR = "[rank3]: KeyError: 'caption'"
NOTICE = "spot interruption notice received: instance-action: terminate"


def judged(*told: tuple[str, str, int], steps_every: float = 0, until: int = 0):
    """The verdict on lines `(source, text, second)` of a run whose steps ended `steps_every` seconds apart."""
    evidence = [
        TimedEvidence(
            at * SECOND, Evidence(run="r", emitter="log/a", seq=seq, at=at * SECOND, source=source, text=text)
        )
        for seq, (source, text, at) in enumerate(told)
    ]
    count = int(until / steps_every) if steps_every else 0
    blocks = [StepBlock(1, 0, array("q", (int((n + 1) * steps_every * SECOND) for n in range(count))))] if count else []
    last = blocks[-1].end if blocks else None
    return judge(
        Case(evidence, (), (), None, Outcome.FAILED, (), (), (), None, False, None, last_step_at=last, blocks=blocks)
    )


@pytest.mark.parametrize(
    ("told", "every", "until", "cause"),
    [
        ([("kernel", XID, 100), ("stderr", ERROR, 110)], 1, 110, "user_exception"),
        ([("kernel", XID, 100), ("stderr", ERROR, 110)], 1, 102, "gpu_hardware"),
        ([("kernel", XID, 100), ("stderr", ERROR, 130)], 20, 120, "gpu_hardware"),
        ([("kernel", XID, 100), ("stderr", TIMED_OUT, 1000)], 1, 100, "gpu_hardware"),
        ([("kernel", XID, 100), ("stderr", TIMED_OUT, 1000)], 1, 400, "nccl_timeout"),
        ([("kernel", STALL, 100), ("stderr", TIMED_OUT, 1000)], 1, 400, "checkpoint_io"),
        ([("kernel", STALL, 100), ("kernel", "nfs: server fs-1 OK", 160), ("stderr", TIMED_OUT, 1000)], 1, 400,
         "nccl_timeout"),
        ([("stderr", NOTICE, 100), ("stderr", "received SIGTERM, exiting", 220)], 1, 215, "preemption"),
        ([("stderr", NOTICE, 100), ("stderr", ERROR, 7200)], 1, 7199, "user_exception"),
        ([("stderr", NOTICE, 100), ("stderr", ERROR, 110)], 1, 100, "preemption"),
    ],
)  # fmt: skip
def test_steps_take_back_what_came_before_them(told, every, until, cause):
    verdict, _ = judged(*told, steps_every=every, until=until)
    assert verdict.cause == cause


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
ENDS = "[rank1]: AssertionError: length mismatch"


@pytest.mark.parametrize(
    ("first", "code", "every", "until", "died", "cause"),
    [
        (OOM, None, 5, 120, 1, "user_exception"),
        (OOM, None, 0.5, 104, 1, "user_exception"),
        (OOM, None, 0.3, 101, 1, "gpu_oom"),  # within a second: nobody had missed the rank yet
        (OOM, None, 30, 120, 1, "gpu_oom"),  # one step, which was under way
        (OOM, None, 5, 120, 3, "gpu_oom"),  # the rank is known to have ended
        (f"[rank3]: {OOM}", "OutOfMemoryError", 5, 120, 1, "gpu_oom"),  # nobody caught it
    ],
)  # fmt: skip
def test_what_a_rank_caught_is_not_why_the_run_ended(first, code, every, until, died, cause):
    told = [(first, code, 3, 100), (ENDS, "AssertionError", 1, 125)]
    evidence = [
        TimedEvidence(
            at * SECOND,
            Evidence(
                run="r", emitter="log/a", seq=seq, at=at * SECOND, source="stderr", text=text, code=code, rank=rank
            ),
        )
        for seq, (text, code, rank, at) in enumerate(told)
    ]
    blocks = [StepBlock(1, 0, array("q", (int((n + 1) * every * SECOND) for n in range(int(until / every)))))]
    exits = (WorkerExit(126 * SECOND, died, 1, False, ""),)
    verdict, _ = judge(
        Case(
            evidence, exits, ((died, 1),), None, Outcome.FAILED, (), (), (), None, False, None,
            last_step_at=blocks[-1].end, blocks=blocks,
        )
    )  # fmt: skip
    assert verdict.cause == cause


def test_what_was_survived_is_named_where_nothing_else_is_known_and_says_how_far_the_run_went_on():
    verdict, trace = judged(("kernel", XID, 100), steps_every=1, until=400)
    assert verdict.cause == "gpu_hardware"
    assert verdict.confidence <= 0.3
    assert "The run went on for 300 steps (5\u202fmin) after that, and nothing else says why it ended." in (
        verdict.sentence.replace("5\u202fmin 00\u202fs", "5\u202fmin")
    )
    assert trace[0].meaning is not None
    assert "The run went on after this: 300 steps" in trace[0].meaning


def test_an_exception_without_words_says_where_it_was_raised():
    frame = (("frame", "/workspace/trainer.py:88 in fit"),)
    bare = Evidence(
        run="r", emitter="e", seq=0, at=0, source="stderr", text="[rank4]: StopIteration", code="StopIteration", rank=4,
        attributes=frame,
    )  # fmt: skip
    verdict, _ = judge(Case([TimedEvidence(0, bare)], (), (), None, None, (), (), (), None, False, None))
    assert verdict.sentence == "Rank 4 raised StopIteration in fit (trainer.py:88)"
