"""Verdicts of logs as others write them: other prefixes, ranks, versions and wordings than those of the recordings."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

from pathlib import Path

import pytest

from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import Interruption, interruptions

FRAMES = [
    '  File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward',
    "    torch.autograd.backward(",
]
OWN = ['  File "/home/me/pretrain/train.py", line 412, in train_step', "    loss = model(batch)"]
PEER = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[10.1.2.3]:30123"
)
NCCL_PEER = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote "
    "process exited or there was a network error, NCCL version 2.20.5"
)
PREFIXES = {
    "none but torch's": "[rank{rank}]: {line}",
    "srun -l": "{rank}: [rank{rank}]: {line}",
    "torchrun --tee": "[default{local}]:[rank{rank}]: {line}",
    "Ray": "(WorkerDict pid=4321, ip=10.0.0.7) [rank{rank}]: {line}",
    "kubectl logs --timestamps": "2026-11-29T12:00:0{tick}.123456789Z [rank{rank}]: {line}",
}


def traceback(last: str, own: bool = True, extra: list[str] | None = None) -> list[str]:
    return ["Traceback (most recent call last):", *(OWN if own else []), *(extra or FRAMES), last]


def judged(tmp_path: Path, text: str, name: str = "train.log", **others: str) -> list[Interruption]:
    (tmp_path / name).write_text(text)
    for other, words in others.items():
        path = tmp_path / other.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(words)
    return interruptions(read_run_files([str(tmp_path)]))


def said(found: list[Interruption]) -> tuple[str, int | None]:
    assert found, "nothing was found"
    return found[0].verdict.cause, found[0].verdict.culprit_rank


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("rank", [0, 7, 123, 9999])
@pytest.mark.parametrize(
    ("last", "cause"),
    [
        ("ValueError: Expected input batch_size (8) to match target batch_size (16).", "user_exception"),
        ("KeyError: 'attention_mask'", "user_exception"),
        ("mypackage.errors.BadShardError: shard 12 has 0 samples", "user_exception"),
        ("AssertionError", "user_exception"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacty of",
         "gpu_oom"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB", "gpu_oom"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "user_exception"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_hardware"),
        ("RuntimeError: CUDA error: unspecified launch failure", "user_exception"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/step_100/rank_7.pt'", "checkpoint_io"),
        ("RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 12345 vs 12239", "checkpoint_io"),
        ("RuntimeError: DataLoader worker (pid 991) is killed by signal: Killed. ", "data_loader"),
        ("RuntimeError: Loss is nan, stopping training", "loss_anomaly"),
        ("ValueError: Gradient norm is not finite at step 1234", "loss_anomaly"),
        ("ModuleNotFoundError: No module named 'flash_attn'", "configuration"),
        ("MemoryError: Unable to allocate 93.1 GiB for an array", "host_oom"),
        ("ValueError: could not convert string to float: 'nan'", "user_exception"),
        ("ValueError: NCCL backend is not supported for CPU tensors", "user_exception"),
        ("RuntimeError: checkpoint_every must be positive", "user_exception"),
        ("TypeError: timeout must be a timedelta, got int", "user_exception"),
    ],
)  # fmt: skip
def test_the_rank_that_raised_first_is_named_whatever_its_peers_print(tmp_path, prefix, rank, last, cause):
    def printed(who: int, lines: list[str], tick: int) -> str:
        local = who % 8
        return "".join(prefix.format(rank=who, local=local, line=line, tick=tick) + "\n" for line in lines)

    peers = [other for other in (1, 2, 3, 5000) if other != rank]
    text = "step 99 loss 2.31\n" * 20 + printed(rank, traceback(last), 1)
    text += "".join(printed(other, traceback(PEER, own=False), 3) for other in peers)
    text += "".join(printed(other, traceback(NCCL_PEER, own=False), 4) for other in peers)
    expected_rank = None if cause == "configuration" else rank
    assert said(judged(tmp_path, text)) == (cause, expected_rank)


@pytest.mark.parametrize("rank", [0, 5, 311])
def test_a_victim_that_prints_before_the_culprit_is_still_a_victim(tmp_path, rank):
    victims = [other for other in range(4) if other != rank]
    text = "".join("".join(f"[rank{other}]: {line}\n" for line in traceback(PEER, own=False)) for other in victims)
    text += "".join(f"[rank{rank}]: {line}\n" for line in traceback("IndexError: list index out of range"))
    assert said(judged(tmp_path, text)) == ("user_exception", rank)


def test_the_frame_of_ones_own_code_is_a_trait_and_numbers_are_not(tmp_path):
    text = "".join(f"[rank3]: {line}\n" for line in traceback("IndexError: index 50304 is out of bounds"))
    (found,) = judged(tmp_path, text)
    assert found.verdict.traits == (("exception", "IndexError"), ("frame", "train.py:train_step"))


WATCHDOG = {
    "torch 2.1": "[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=77, OpType=ALLGATHER, Timeout(ms)=1800000) ran for 1800724 milliseconds before timing out.",
    "torch 2.3": "[rank{rank}]:[E ProcessGroupNCCL.cpp:563] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=77, OpType=ALLGATHER, NumelIn=1, NumelOut=8, Timeout(ms)=600000) ran for 600724 milliseconds before "
    "timing out.",
    "torch 2.8": "[rank{rank}]:[E1129 12:00:00.123456789 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLGATHER, NumelIn=1, NumelOut=8, Timeout(ms)=600000) ran "
    "for 600724 milliseconds before timing out.",
}


@pytest.mark.parametrize("template", WATCHDOG.values(), ids=WATCHDOG)
@pytest.mark.parametrize("world", [2, 64, 3000])
def test_a_lone_time_out_of_nccl_is_a_time_out_and_never_the_network(tmp_path, template, world):
    text = "".join(template.format(rank=rank) + "\n" for rank in range(world))
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, found.verdict.domain.value) == ("nccl_timeout", "unknown")
    assert found.verdict.culprit_rank is None
    assert dict(found.verdict.traits)["operation"] == "allgather"


@pytest.mark.parametrize("behind", [0, 13, 2999])
def test_who_had_issued_less_did_not_come(tmp_path, behind):
    text = "".join(WATCHDOG["torch 2.8"].format(rank=rank) + "\n" for rank in range(3000) if rank != behind)
    text += "".join(
        f"[rank{rank}]:[E1129 12:00:01.123456789 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  "
        f"failure detected by watchdog at work sequence id: 77 PG status: last enqueued work: "
        f"{76 if rank == behind else 78}, last completed work: 76\n"
        for rank in range(3000)
    )
    assert said(judged(tmp_path, text)) == ("nccl_timeout", behind)


def test_a_time_out_after_an_exception_is_its_echo(tmp_path):
    text = "".join(
        f"[rank9]: {line}\n" for line in traceback("FileNotFoundError: [Errno 2] No such file: 'vocab.json'")
    )
    text += "".join(WATCHDOG["torch 2.8"].format(rank=rank) + "\n" for rank in range(8))
    assert said(judged(tmp_path, text)) == ("user_exception", 9)


def test_a_reset_connection_inside_the_data_loader_is_the_data_loaders(tmp_path):
    through = [
        '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data',
        '  File "/opt/python3/lib/python3.11/multiprocessing/connection.py", line 395, in _recv',
    ]
    text = "".join(
        f"[rank2]: {line}\n"
        for line in traceback("ConnectionResetError: [Errno 104] Connection reset by peer", extra=through)
    )
    assert said(judged(tmp_path, text)) == ("data_loader", 2)


def test_a_full_disk_found_while_saving_is_the_checkpoints(tmp_path):
    through = ['  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 943, in save']
    text = "".join(f"[rank0]: {line}\n" for line in traceback("OSError: [Errno 5] Input/output error", extra=through))
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, found.verdict.domain.value) == ("checkpoint_io", "infrastructure")


LAUNCH = "+ torchrun --nproc-per-node 8 train.py\n"
"""Without it nothing tells how many nodes there are, and a local rank is not the rank."""
ELASTIC = {
    "torch 2.13": "E1129 12:03:40.228000 30487 torch/distributed/elastic/multiprocessing/api.py:1002] ",
    "torch 2.3": "E1129 12:03:40.228000 140617718325696 torch/distributed/elastic/multiprocessing/api.py:826] ",
    "torch 2.2": "[2026-11-29 12:03:40,228] torch.distributed.elastic.multiprocessing.api: [ERROR] ",
    "torch 2.0": "ERROR:torch.distributed.elastic.multiprocessing.api:",
}
KERNEL = {
    "dmesg -T": "[Sun Nov 29 12:03:39 2026] ",
    "dmesg": "[123456.789012] ",
    "syslog": "Nov 29 12:03:39 gpu-17 kernel: ",
    "journalctl": "2026-11-29T12:03:39.123456+00:00 gpu-17 kernel: ",
}


@pytest.mark.parametrize("prefix", ELASTIC.values(), ids=ELASTIC)
@pytest.mark.parametrize(
    ("code", "cause"),
    [(-9, "sigkill"), (137, "sigkill"), (-11, "crash"), (-6, "crash"), (-7, "crash"), (3, "user_exception")],
)
def test_an_exit_code_without_words_is_what_it_is(tmp_path, prefix, code, cause):
    text = f"{prefix}failed (exitcode: {code}) local_rank: 5 (pid: 30501) of binary: /usr/bin/python3\n"
    assert said(judged(tmp_path, text))[0] == cause


@pytest.mark.parametrize("kernel", KERNEL.values(), ids=KERNEL)
def test_a_kill_that_the_kernel_explains_is_out_of_memory_with_its_culprit(tmp_path, kernel):
    text = f"{LAUNCH}{ELASTIC['torch 2.13']}failed (exitcode: -9) local_rank: 5 (pid: 30501) of binary: python3\n"
    oom = (
        f"{kernel}python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        f"{kernel}Out of memory: Killed process 30501 (python3) total-vm:999999kB, anon-rss:500000kB, UID:1000\n"
    )
    (found,) = judged(tmp_path, text, **{"dmesg.txt": oom})
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("host_oom", 5)
    if "gpu-17" in kernel:
        assert found.verdict.culprit_node == "gpu-17"


@pytest.mark.parametrize("kernel", KERNEL.values(), ids=KERNEL)
@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "gpu_hardware"),
        ("NVRM: Xid (PCI:0000:10:1c): 64, pid=1896, Row Remapper: remapping failure", "gpu_hardware"),
        ("NVRM: Xid (PCI:0000:10:1c): 94, pid=1896, name=python3, Contained: SM (0x1). RST: No, D-RST: No", "gpu_hardware"),
        ("NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5) installed in this system has fallen off the bus", "gpu_hardware"),
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu", "sigkill"),
        ("NVRM: Xid (PCI:0000:10:1c): 45, pid=1896, name=python3, Ch 00000008", "sigkill"),
    ],
)  # fmt: skip
def test_a_kernel_line_is_read_with_the_makers_catalogue(tmp_path, kernel, line, cause):
    text = f"{ELASTIC['torch 2.13']}failed (exitcode: -9) local_rank: 5 (pid: 30501) of binary: /usr/bin/python3\n"
    assert said(judged(tmp_path, text, **{"dmesg.txt": f"{kernel}{line}\n"}))[0] == cause


def test_error_files_and_logs_of_one_run_are_judged_together(tmp_path):
    error = (
        '{"message": {"message": "ZeroDivisionError: division by zero", "extraInfo": {"py_callstack": "Traceback (most '
        'recent call last):\\n  File \\"/home/me/train.py\\", line 3, in scale\\nZeroDivisionError: division by zero\\n", '
        '"timestamp": "1795953810"}}}'
    )
    victim = "".join(line + "\n" for line in traceback(PEER, own=False))
    found = judged(
        tmp_path, "", "empty.log",
        **{"run_x__attempt_0__1__error.json": error, "run_x__attempt_0__0__stderr.log": victim},
    )  # fmt: skip
    assert said(found) == ("user_exception", 1)
    assert dict(found[0].verdict.traits)["frame"] == "train.py:scale"


def test_a_log_of_healthy_training_accuses_nobody(tmp_path):
    text = "".join(
        f"2026-11-29 12:00:{second:02d},000 INFO step {second} loss 2.1 grad_norm 0.3 errors=0 timeout=600 nan_count=0\n"
        for second in range(60)
    )
    text += "NCCL_TIMEOUT=1800 --timeout 30 NCCL_ASYNC_ERROR_HANDLING=1\nWARNING: retrying download, connection slow\n"
    assert judged(tmp_path, text) == []


@pytest.mark.parametrize(
    ("line", "cause", "domain"),
    [
        ("slurmstepd: error: *** JOB 1234 ON gpu-17 CANCELLED AT 2026-11-29T12:00:00 DUE TO PREEMPTION ***", "preemption", "infrastructure"),
        ("slurmstepd: error: *** JOB 1234 ON gpu-17 CANCELLED AT 2026-11-29T12:00:00 DUE TO TIME LIMIT ***", "time_limit", "infrastructure"),
        ("slurmstepd: error: *** STEP 1234.0 ON gpu-17 CANCELLED AT 2026-11-29T12:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "node_lost", "infrastructure"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1234.0. Some of the step tasks have been OOM Killed.", "host_oom", "workload"),
        ("srun: error: Node failure on gpu-17\nsrun: error: Nodes gpu-17 not responding, setting DOWN", "node_lost", "infrastructure"),
    ],
)  # fmt: skip
def test_the_schedulers_word_outweighs_what_the_ranks_print(tmp_path, line, cause, domain):
    text = "".join(f"[rank1]: {row}\n" for row in traceback("ValueError: interrupted")) + line + "\n"
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, found.verdict.domain.value) == (cause, domain)


@pytest.mark.parametrize(
    ("text", "cause", "rank", "node"),
    [
        ("srun: error: gpu-17: task 12: Killed\nsrun: error: gpu-18: tasks 0-7: Terminated\n", "sigkill", 12, "gpu-17"),
        ("srun: error: gpu-17: task 12: Segmentation fault (core dumped)\nsrun: Job step aborted: Waiting up to 32 seconds\n", "crash", 12, "gpu-17"),
        ("srun: error: gpu-17: task 12: Exited with exit code 1\n", "user_exception", 12, "gpu-17"),
        ("srun: error: gpu-17: task 12: Out Of Memory\n", "host_oom", 12, "gpu-17"),
        ("mpirun noticed that process rank 3 with PID 0 on node gpu-17 exited on signal 9 (Killed).\n", "sigkill", 3, "gpu-17"),
        ("[2026-11-29 12:00:00,123] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 1234\n[2026-11-29 12:00:01,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', 'train.py'] exits with return code = -9\n", "sigkill", None, None),
        ("[Rank 5] 2026-03-17 19:19:04,123 - train - ERROR - Training failed: ValueError: batch of 3\n", "user_exception", 5, None),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n", "host_oom", None, None),
        ("2026-11-29 12:00:00.123456: F external/xla/client.h:80] Terminating process because the coordination service missed heartbeat\n", "hang", None, None),
        ("Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n", "crash", None, None),
        ("[rank3]: Traceback (most recent call last):\n[rank3]: KeyboardInterrupt\n", "operator_stop", 3, None),
    ],
)  # fmt: skip
def test_other_launchers_and_frameworks_are_understood(tmp_path, text, cause, rank, node):
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, found.verdict.culprit_rank, found.verdict.culprit_node) == (cause, rank, node)


def test_a_caught_error_in_a_line_does_not_outweigh_what_ended_the_run(tmp_path):
    text = (
        f"{LAUNCH}2026-11-29 11:00:00,000 ERROR uploading metrics failed: ValueError: odd\n"
        + f"{ELASTIC['torch 2.13']}failed (exitcode: -9) local_rank: 5 (pid: 1) of binary: python\n"
    )
    assert said(judged(tmp_path, text)) == ("sigkill", 5)


CONTAINERS = {
    "docker logs --timestamps": "2026-11-29T12:33:{tick:02d}.123456789Z ",
    "a CRI file": "2026-11-29T12:33:{tick:02d}.123456789+00:00 stderr F ",
    "kubectl logs --prefix": "[pod/llm-worker-0/pytorch] ",
    "compose": "worker-0  | ",
    "Ray": "(RayTrainWorker pid=77, ip=10.0.0.3) ",
}


@pytest.mark.parametrize("prefix", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_launchers_log_that_a_container_runtime_passed_on_is_the_same_log(tmp_path, prefix, end):
    lines = [
        "[rank5]: Traceback (most recent call last):", '[rank5]:   File "/home/me/train.py", line 3, in step',
        "[rank5]: ZeroDivisionError: division by zero",
        f"{ELASTIC['torch 2.13'].replace('12:03:40', '12:33:40')}failed (exitcode: 1) local_rank: 5 (pid: 30501) of binary: python",
    ]  # fmt: skip
    text = "".join(prefix.format(tick=index) + line + end for index, line in enumerate(lines))
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 5)
    assert dict(found.verdict.traits) == {"exception": "ZeroDivisionError", "frame": "train.py:step"}


def test_colours_of_a_terminal_do_not_hide_a_line(tmp_path):
    text = "\x1b[31m[rank5]: Traceback (most recent call last):\x1b[0m\n\x1b[31m[rank5]: KeyError: 'x'\x1b[0m\n"
    assert said(judged(tmp_path, text)) == ("user_exception", 5)


RAISED = [
    "[2026-03-02 11:23:40] iteration 102/ 1000 | elapsed time per iteration (ms): 1000.0 | lm loss: 5.1E+00 |",
    *traceback("ValueError: bad sample 812"),
]
NOTICED = (
    "E0302 11:23:44.220000 4711 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 3 "
    "(pid: 4804) of binary: /usr/bin/python3"
)


def table_entry(number: int, host: str, rank: int, local: int, code: int, process: int) -> list[str]:
    return [
        f"[{number}]:", "  time      : 2026-03-02_11:23:43", f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {local})", f"  exitcode  : {code} (pid: {process})", "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    ]  # fmt: skip


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_traceback_without_a_rank_is_of_the_one_that_torchrun_s_table_names_and_of_its_machine(
    is_alone: bool, is_noticed: bool, tmp_path: Path
):
    others = ["  <NO_OTHER_FAILURES>"] if is_alone else table_entry(1, "node8", 16, 0, -15, 5804)
    text = "\n".join(
        [
            *RAISED, *([NOTICED] if is_noticed else []),
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60, "train.py FAILED", "-" * 60,
            "Failures:", *others, "-" * 60, "Root Cause (first observed failure):", *table_entry(0, "node7", 11, 3, 1, 4804),
            "=" * 60, "",
        ]
    )  # fmt: skip
    (found,) = judged(tmp_path, text)
    told = found.verdict
    assert (told.cause, told.culprit_rank, told.culprit_node) == ("user_exception", 11, "node7")


@pytest.mark.parametrize(
    ("ends", "truth"),
    [
        (["srun: error: node7: task 3: Exited with exit code 1"], (3, "node7")),
        (
            ["srun: error: node7: task 3: Exited with exit code 1", "srun: error: node8: task 5: Terminated"],
            (3, "node7"),
        ),
        (["srun: error: node7: tasks 2-3: Exited with exit code 1"], (None, None)),
        (
            [
                "srun: error: node7: task 3: Exited with exit code 1",
                "srun: error: node8: task 5: Exited with exit code 1",
            ],
            (None, None),
        ),
    ],
)
def test_a_traceback_without_a_rank_is_of_the_only_task_that_srun_saw_fail(
    ends: list[str], truth: tuple[int | None, str | None], tmp_path: Path
):
    (found,) = judged(tmp_path, "\n".join([*RAISED, *ends, ""]))
    assert found.verdict.cause == "user_exception"
    assert (found.verdict.culprit_rank, found.verdict.culprit_node) == truth
