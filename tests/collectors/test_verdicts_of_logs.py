"""What several lines of a log tell together: which of them began it, and whom and what the verdict names."""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import pytest

from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import interruptions

RERUN = "[rank3]: ERROR:megatron.core.rerun_state_machine:"
UNEXPECTED = f"{RERUN}Unexpected result nan at /w/pretrain.py line 118, invokation #1 at iteration #106 (message='found NaN in local forward loss calculation')"
LOST = "[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:17800: Connection reset by peer."
AGENT = "1130 07:54:41.115000 29088 torch/distributed/elastic/"
CLOSING = f"W{AGENT}multiprocessing/api.py:1028] Sending process 29091 closing signal SIGTERM"
ABORTED = f"E{AGENT}multiprocessing/api.py:1002] failed (exitcode: -6) local_rank: 1 (pid: 29092) of binary: python"
TRACEBACK = '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/t.py", line 16, in <module>'
ROOT = ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60, "t.py FAILED", "-" * 60,
        "Failures:", "  <NO_OTHER_FAILURES>", "-" * 60, "Root Cause (first observed failure):", "[0]:",
        "  time      : 2026-11-30_07:54:41", "  host      : localhost", "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -6 (pid: 29092)", "  error_file: <N/A>", "  traceback : Signal 6 (SIGABRT) received by PID 29092",
        "=" * 60]  # fmt: skip
WATCHDOG = "[rank0]:[E1130 07:54:40.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600077 milliseconds before timing out."
STEP = "slurmstepd: error: *** STEP 8812.0 ON gpu-17 CANCELLED AT 2026-11-20T03:16:05 ***"
JOB = "slurmstepd: error: *** JOB 8812 ON gpu-17 CANCELLED AT 2026-11-20T03:16:05 ***"
TASK = "srun: error: gpu-17: task 3: Exited with exit code "
PANIC = "Nov 20 03:16:05 gpu-17 kernel: Kernel panic - not syncing: Fatal machine check"
SPENT = (
    f"I{AGENT}agent/server/api.py:899] [default] Worker group FAILED. 0/3 attempts left; will not restart worker group"
)
ILLEGAL = "2026-11-20T03:10:30.000000Z [rank2]: RuntimeError: CUDA error: an illegal memory access was encountered"
XID = "kernel: NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def judged(folder, **logs: list[str]):
    for name, lines in logs.items():
        (folder / f"{name.replace('_', '-')}.log").write_text("\n".join(lines) + "\n")
    found = interruptions(read_run_files([str(folder)]))
    assert len(found) == 1
    return found[0].verdict


@pytest.mark.parametrize(
    ("lines", "cause", "domain", "rank", "node"),
    [
        ([LOST, CLOSING, ABORTED, *ROOT], "crash", "unknown", 1, None),
        ([TRACEBACK, LOST, CLOSING, ABORTED], "crash", "unknown", None, None),
        ([LOST, CLOSING, ABORTED], "network", "unknown", None, None),
        ([WATCHDOG, LOST, CLOSING, ABORTED], "nccl_timeout", "unknown", None, None),
        ([UNEXPECTED, f"{RERUN}First rerun: unexpected result is not reproducible within the tolerance (2.31 != nan)",
          f"{RERUN}Rank 3, node gpu-44, device 3, iteration #106: Possible transient error!"],
         "silent_corruption", "infrastructure", 3, "gpu-44"),
        ([UNEXPECTED, f"{RERUN}Second rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct (nan = nan)"],
         "loss_anomaly", "workload", 3, None),
        ([STEP, TASK + "1"], "user_exception", "unknown", 3, "gpu-17"),
        ([TASK + "1", STEP], "user_exception", "unknown", 3, "gpu-17"),
        ([TASK + "3", STEP], "user_exception", "workload", 3, "gpu-17"),
        ([STEP, TASK + "143"], "operator_stop", "workload", None, None),
        ([JOB, TASK + "1"], "operator_stop", "workload", None, None),
        (["Nov 20 03:16:05 gpu-17 kernel: mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00", PANIC],
         "node_lost", "infrastructure", None, "gpu-17"),
        (["E1120 03:16:05.000000 321 pjrt_client.cc:1] absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
          "/job:jax_worker/replica:0/task:7"], "hang", "unknown", 7, None),
        (["E1120 03:16:05.000000 321 pjrt_client.cc:1] absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
          "/job:jax_worker/replica:0/task:7", "/job:jax_worker/replica:0/task:9"], "hang", "unknown", None, None),
        (["ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
          "[rank1]: RuntimeError: DataLoader worker (pid 3121) is killed by signal: Bus error."], "data_loader", "workload", 1, None),
        (["gpu-17:22112:22500 [3] ofi_process_cq:1234 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 101. Error: Unresponsive receiver (reachable by EFA device but handshake failed)",
          "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2027, unhandled system error, NCCL version 2.21.5"],
         "network", "infrastructure", None, "gpu-17"),
    ],
)  # fmt: skip
def test_the_line_that_began_it_decides(tmp_path, lines, cause, domain, rank, node):
    verdict = judged(tmp_path, train=lines)
    assert (verdict.cause, verdict.domain.value, verdict.culprit_rank, verdict.culprit_node) == (
        cause,
        domain,
        rank,
        node,
    )


def test_exit_code_1_alone_is_hardly_anything_and_the_spent_budget_is_told(tmp_path):
    verdict = judged(tmp_path, train=[ABORTED.replace("-6", "1"), SPENT])
    assert (verdict.cause, verdict.domain.value) == ("user_exception", "unknown")
    assert verdict.confidence <= 0.3
    assert "No restart was left after it (all 3 restarts are spent)." in verdict.sentence


@pytest.mark.parametrize(
    ("second", "cause", "said"),
    [
        ("33", "user_exception", "Node gpu-18 (gpu_hardware) followed 3.000 s later: another machine"),
        ("31", "gpu_hardware", "Rank 2 on gpu-17 (user_exception) came 1.000 s before by another clock"),
    ],
)
def test_a_later_xid_of_another_machine_explains_nothing(tmp_path, second, cause, said):
    verdict = judged(tmp_path, gpu_17=[ILLEGAL], gpu_18=[f"Nov 20 03:10:{second} gpu-18 {XID}"])
    assert verdict.cause == cause
    assert said in verdict.sentence


def test_a_later_xid_of_the_same_or_of_an_unknown_machine_may_explain_it(tmp_path):
    assert judged(tmp_path, train=[ILLEGAL], gpu_18=[f"Nov 20 03:10:33 gpu-18 {XID}"]).cause == "gpu_hardware"
    both = [f"Nov 20 03:10:33 gpu-17 {XID}", f"Nov 20 03:10:33 gpu-18 {XID}"]
    (tmp_path / "train.log").unlink()
    assert judged(tmp_path, gpu_17=[ILLEGAL], gpu_18=both).cause == "gpu_hardware"
