"""Evidence of several logs, or of several ranks in one: what is joined, who began, and what is not asked for again."""

from __future__ import annotations

import pytest

from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import interruptions
from rerail.server.core.view import Verdict

TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=======================================================
train.py FAILED
-------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_12:00:20
  host      : gpu-5
  rank      : 13 (local_rank: 5)
  exitcode  : -9 (pid: 4242)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4242
=======================================================
"""
KILLED = "Nov 29 12:00:19 gpu-5 kernel: Out of memory: Killed process 4242 (python) total-vm:123kB\n"
EXIT = (
    "E1129 12:00:20.000000 123 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) "
    "local_rank: 5 (pid: 4242) of binary: python\n"
)
XID_43 = "Nov 29 12:00:19 gpu-5 kernel: NVRM: Xid (PCI:0000:05:00): 43, pid=1\n"
WATCHDOG = (
    "[rank{rank}]:[E1129 12:00:0{second}.100000000 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) "
    "Rank {rank}] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure\n"
)


@pytest.fixture
def judged(tmp_path):
    def judge(**logs: str) -> Verdict:
        for name, text in logs.items():
            (tmp_path / f"{name}.log").write_text(text)
        found = interruptions(read_run_files([str(tmp_path)]))
        assert len(found) == 1
        return found[0].verdict

    return judge


def said_of(verdict: Verdict) -> tuple[str, int | None, str | None]:
    return verdict.cause, verdict.culprit_rank, verdict.culprit_node


def test_a_table_alone_says_when_where_and_who(judged):
    assert said_of(judged(launcher=TABLE)) == ("sigkill", 13, "gpu-5")


def test_the_kernels_kill_is_joined_with_the_table_by_the_process(judged):
    assert said_of(judged(launcher=TABLE, kernel=KILLED)) == ("host_oom", 13, "gpu-5")


@pytest.mark.parametrize(
    "tells",
    [
        "NCCL WARN Cuda failure 719 'unspecified launch failure'",
        "NCCL WARN Cuda failure 'unspecified launch failure'",
        "NCCL WARN Cuda failure 719",
        "CUDA error: unspecified launch failure",
    ],
)
def test_a_failed_gpu_is_the_same_whoever_tells_it_and_the_first_is_the_origin(judged, tells):
    log = (
        f"2: 2026-11-29 12:00:01,000 gpu-3:100:200 [2] include/alloc.h:112 {tells}\n"
        f"1: 2026-11-29 12:00:00,100 gpu-3:101:201 [1] include/alloc.h:112 {tells}\n"
    )
    assert said_of(judged(train=log))[:2] == ("user_exception", 1)


def test_gpus_that_failed_at_one_instant_blame_no_single_rank(judged):
    together = "".join(WATCHDOG.format(rank=rank, second=0) for rank in (1, 2))
    assert said_of(judged(train=together)) == ("user_exception", None, None)


def test_the_step_that_slurm_ends_after_a_failed_task_was_stopped_by_nobody(judged):
    log = (
        "srun: error: gpu-7: task 289: Bus error\nsrun: Terminating job step 3495450.0\n"
        "slurmstepd: error: *** STEP 3495450.0 ON gpu-4 CANCELLED AT 2026-11-29T12:00:00 ***\n"
    )
    assert said_of(judged(slurm=log)) == ("crash", 289, "gpu-7")
    alone = log.splitlines()[-1] + "\n"
    assert judged(slurm=alone).cause == "operator_stop"


def test_a_task_that_starts_a_launcher_is_a_machine_and_no_rank(judged):
    log = EXIT.format(code=1) + "srun: error: gpu-7: task 12: Exited with exit code 1\n"
    assert judged(train=log).culprit_rank != 12


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ERROR:megatron.core.rerun_state_machine:Possible persistent error! node gpu-9, device 2, rank 10, step 7",
         ("silent_corruption", 10, "gpu-9")),
        ("WARNING:megatron.core.rerun_state_machine:Possible transient error! node gpu-9, device 2, rank 10",
         ("silent_corruption", 10, "gpu-9")),
        ("2026-11-29T12:00:00Z Warning NodeNotReady node/gpu-17 Node gpu-17 status is now: NodeNotReady",
         ("node_lost", None, "gpu-17")),
        ("salloc: error: Node failure on gpu-17", ("node_lost", None, "gpu-17")),
        ("(raylet) node_manager.cc:1: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers "
         "crashed due to other reasons at node (ID: 8289f87b, IP: 172.24.0.226)", ("host_oom", None, "172.24.0.226")),
        ("ERROR:composer.cli.launcher:Global rank 5 (PID 42) exited with code -9", ("sigkill", 5, None)),
    ],
)  # fmt: skip
def test_a_line_names_its_rank_and_its_machine(judged, line, said):
    assert said_of(judged(train=line + "\n")) == said


@pytest.mark.parametrize(
    ("logs", "asks", "does_not_ask"),
    [
        ({"kernel": "[12345.678] NVRM: Xid (PCI:0000:05:00): 79, pid=42, GPU has fallen off the bus.\n"}, "", "kernel"),
        ({"train": "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"}, "kernel log", "dump"),
        ({"launcher": EXIT.format(code=-9)}, "kernel log", "exit code"),
        ({"launcher": EXIT.format(code=-9), "kernel": XID_43},
         "scheduler", "kernel log"),
        ({"launcher": EXIT.format(code=-6)}, "core dump", "exit codes"),
        ({"launcher": "E1129 12:00:20.000000 123 torch/distributed/run.py:1] RendezvousTimeoutError: 600 s\n"},
         "of the other nodes", "of every node"),
    ],
)  # fmt: skip
def test_what_would_settle_it_was_not_given(judged, logs, asks, does_not_ask):
    wanted = (judged(**logs).missing_evidence or "").lower()
    assert asks in wanted
    assert does_not_ask not in wanted


def test_a_kernels_log_is_joined_to_workers_whose_launcher_said_nothing_more(judged):
    """No exit line: the log breaks off before the launcher's last words."""
    train = "2026-11-29T12:00:20.000000Z [rank5]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    kernel = "Nov 29 12:00:19 gpu-5 kernel: NVRM: Xid (PCI:0000:05:00): 94, pid=1, Contained\n"
    verdict = judged(train=train, kernel=kernel)  # one interruption, or `judged` fails
    assert said_of(verdict) == ("gpu_hardware", 5, "gpu-5")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["slurmstepd: error: *** JOB 998 ON gpu-001 CANCELLED AT 2026-03-10T10:05:30 DUE TO NODE FAILURE ***",
          "srun: error: Node failure on gpu-007"], ("node_lost", None, "gpu-007")),
        (["slurmstepd: error: *** JOB 998 ON gpu-001 CANCELLED AT 2026-03-10T10:05:30 DUE TO NODE FAILURE ***"],
         ("node_lost", None, None)),
        (["slurmstepd: error: *** STEP 998.0 ON gpu-001 CANCELLED AT 2026-03-10T10:05:30 DUE TO PREEMPTION ***"],
         ("preemption", None, None)),
        (["[rank0]: Traceback (most recent call last):", '[rank0]:   File "/opt/train.py", line 8, in save_checkpoint',
          "[rank0]: torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([13])",
          "[rank0]: Traceback (most recent call last): (RANK 13)", "[rank0]: OSError: [Errno 5] Input/output error"],
         ("checkpoint_io", 13, None)),
        (["[rank3]: Traceback (most recent call last):", '[rank3]:   File "/opt/data.py", line 88, in __getitem__',
          "[rank3]: OSError: [Errno 116] Stale file handle: '/lustre/data/shard_001.bin'"], ("data_loader", 3, None)),
    ],
)  # fmt: skip
def test_who_printed_a_line_is_not_who_failed(judged, lines, said):
    assert said_of(judged(train="\n".join(lines) + "\n")) == said


DEEPSPEED = (
    "".join(
        f"[2026-11-29 12:00:2{local},195] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {4240 + local}\n"
        for local in range(4)
    )
    + "[2026-11-29 12:00:25,238] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', "
    "'--local_rank=3', '--deepspeed'] exits with return code = -9\n"
)
SIZE = "[2026-11-29 11:00:00,100] [INFO] [launch.py:146:main] nnodes={nodes}, num_local_procs=4, node_rank={place}\n"


@pytest.mark.parametrize(
    ("before", "rank", "who"),
    [
        ("", None, "Local rank 2 on gpu-5"),
        (SIZE.format(nodes=1, place=0), 2, "Rank 2 on gpu-5"),
        (SIZE.format(nodes=2, place=1), 6, "Rank 6 on gpu-5"),
    ],
)
def test_deepspeed_names_its_processes_in_the_order_of_their_local_ranks(judged, before, rank, who):
    verdict = judged(launcher=before + DEEPSPEED, kernel=KILLED)
    assert said_of(verdict) == ("host_oom", rank, "gpu-5")
    assert verdict.sentence.startswith(f"{who} was killed by the kernel")


def test_the_local_rank_in_the_command_of_deepspeed_is_that_of_the_last_process(judged):
    verdict = judged(launcher=SIZE.format(nodes=1, place=0) + DEEPSPEED)
    assert said_of(verdict) == ("sigkill", None, None)


def test_a_process_that_deepspeed_named_at_its_start_is_known(judged):
    spawned = (
        "[2026-11-29 11:00:00,200] [INFO] [launch.py:256:main] process 4242 spawned with command: ['/usr/bin/python', "
        "'-u', 'train.py', '--local_rank=1', '--deepspeed']\n"
    )
    ended = DEEPSPEED.splitlines(keepends=True)[2]
    verdict = judged(launcher=SIZE.format(nodes=1, place=0) + spawned + ended, kernel=KILLED)
    assert said_of(verdict) == ("host_oom", 1, "gpu-5")
