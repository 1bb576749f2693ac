"""NVRx's in-process wrapper, run for real on the CPU: two ranks, one exception, one restart."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.server.core.facts import AttemptStarted, Evidence, Fact, MarkStage, RecoveryMark, Steps
from rerail.server.core.fold import RunFold

SCRIPT = """
import os, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
from nvidia_resiliency_ext import inprocess
from rerail.collectors.nvrx_wrapper import observed_arguments
from rerail.collectors.recorder import Recorder

folder, port, fault = sys.argv[1], int(sys.argv[2]), sys.argv[3]
initial = int(os.environ["RANK"])
recorder = Recorder(config={"checkpoint_interval": 2})

class Close(inprocess.finalize.Finalize):
    def __call__(self, state):
        if dist.is_initialized():
            dist.destroy_process_group()
        return state

class Check(inprocess.health_check.HealthCheck):
    def __call__(self, state):
        if fault == "raise" and initial == 2 and state.iteration == 1:
            raise RuntimeError("the GPU of this rank is not healthy")
        return state

def training(call: inprocess.CallWrapper = None):
    attempt = call.iteration
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{attempt}", rank=rank, world_size=size,
                            timeout=timedelta(seconds=3 if fault == "raise" else 4))
    recorder.ready()
    for step in range(1 if attempt == 0 else 2, 6):
        if attempt == 0 and initial == 1 and step == 3:
            if fault == "hang":
                time.sleep(5)  # nothing of Python runs: the wrapper sees no progress, and interrupts when it is back
            else:
                raise ValueError("bad batch")
        dist.all_reduce(torch.ones(1))
        recorder.step(step)

training.__annotations__["call"] = inprocess.CallWrapper
short = timedelta(seconds=0.2)
wrapper = inprocess.Wrapper(**observed_arguments(
    recorder, store_kwargs={"port": port}, initialize=None, finalize=Close(), health_check=Check(),
    soft_timeout=timedelta(seconds=20 if fault == "raise" else 2), hard_timeout=timedelta(seconds=30),
    monitor_thread_interval=short, monitor_process_interval=short,
    progress_watchdog_interval=short, last_call_wait=short,
))
try:
    wrapper(training)()
finally:
    recorder.close()
"""
RANKS = 3


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> list[Fact]:
    return run_wrapped(tmp_path_factory.mktemp("wrapped"), "raise")


def run_wrapped(folder: Path, fault: str) -> list[Fact]:
    """What three ranks stated of a run whose rank 1 fails once at step 3: it raises, or hangs."""
    pytest.importorskip("nvidia_resiliency_ext.inprocess")
    script = folder / "train.py"
    script.write_text(SCRIPT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"RERAIL_DIR": str(folder / "rings"), "RERAIL_RUN": "r", "PATH": "/usr/bin:/bin", "HOME": str(folder),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS),
                   "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}  # fmt: skip
    with ExitStack() as stack:
        processes = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(script), str(folder), str(port), fault],
                env=environment | {"RANK": str(rank)}, stdout=subprocess.DEVNULL,
                stderr=stack.enter_context((folder / f"{rank}.log").open("w")),
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        for process in processes:
            process.wait(120)
    told = "\n".join((folder / f"{rank}.log").read_text()[-1500:] for rank in range(RANKS))
    assert [processes[rank].returncode for rank in (0, 1)] == [0, 0], told
    found: list[Fact] = []
    for path in sorted((folder / "rings" / "rings").glob("*.ring")):
        reader = RingReader(path)
        found += RingFacts(reader).read(RingPlace(), time.monotonic_ns(), until=0).facts
        reader.close()
    return found


@pytest.mark.slow
@pytest.mark.anywhere
def test_iterations_abort_and_the_end_of_the_old_workers_are_told(facts: list[Fact]):
    restarts = [fact for fact in facts if isinstance(fact, AttemptStarted) and fact.iteration == 1]
    assert {(fact.rank, str(fact.scope), str(fact.initiator)) for fact in restarts} >= {
        (0, "in_process", "fault"), (1, "in_process", "fault"),
    }  # fmt: skip
    marks = {(fact.rank, fact.stage) for fact in facts if isinstance(fact, RecoveryMark) and not fact.iteration}
    for rank in (0, 1):
        assert {(rank, MarkStage.NOTICED), (rank, MarkStage.WORKERS_GONE)} <= marks


@pytest.mark.slow
@pytest.mark.anywhere
def test_what_the_caller_gave_is_the_recovery_config(facts: list[Fact]):
    told = [fact for fact in facts if isinstance(fact, AttemptStarted) and fact.config]
    settings = {name: value for fact in told for name, value in json.loads(fact.config).items()}
    assert settings["restart_scope"] == "in_process"
    assert (float(settings["soft_timeout"]), float(settings["hard_timeout"])) == (20.0, 30.0)
    assert "barrier_timeout" not in settings, "nobody gave one: the release's default is not stated as a setting"
    assert {fact.rank for fact in told} == {0}


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_failed_health_check_and_who_goes_on_as_whom_are_evidence(facts: list[Fact]):
    told = [fact for fact in facts if isinstance(fact, Evidence)]
    checked = {(fact.rank, fact.text) for fact in told if fact.code == "health_check"}
    assert checked == {(2, "health check failed: RuntimeError: the GPU of this rank is not healthy")}
    moved = {(fact.rank, fact.text) for fact in told if fact.code == "rank_assignment"}
    assert (0, "in-process: what was rank 0 of 3 goes on as rank 0 of 2") in moved


@pytest.mark.slow
@pytest.mark.anywhere
def test_the_page_has_the_attempts_the_cause_and_the_steps(facts: list[Fact]):
    fold = RunFold("r")
    fold.add(facts)
    fold.view(max(fact.at for fact in facts) + 10**9)
    attempt, verdict, trace = next(iter(fold.endings()))
    assert (attempt.iteration or 0) == 0
    assert (verdict.cause, verdict.culprit_rank) == ("user_exception", 1)
    assert any("bad batch" in line.text for line in trace)
    trained = {(fact.iteration or 0, fact.first_step + len(fact.durations_us) - 1)
               for fact in facts if isinstance(fact, Steps)}  # fmt: skip
    assert max(trained)[1] == 5
    assert max(trained)[0] >= 1, "a restarted attempt trained on"


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_soft_time_out_is_a_hang_without_any_log(tmp_path: Path):
    """The others' collective times out too, and their words alone are those of a network."""
    facts = run_wrapped(tmp_path, "hang")
    told = [fact for fact in facts if isinstance(fact, Evidence) and fact.code == "soft_timeout"]
    assert {fact.iteration or 0 for fact in told} == {0}
    assert all("Interruption.SOFT_TIMEOUT" in fact.text and fact.source == "nvrx" for fact in told)
    restarts = {(fact.rank, str(fact.initiator)) for fact in facts
                if isinstance(fact, AttemptStarted) and fact.iteration == 1}  # fmt: skip
    assert (1, "monitor") in restarts
    fold = RunFold("r")
    fold.add(facts)
    fold.view(max(fact.at for fact in facts) + 10**9)
    attempt, verdict, _ = next(iter(fold.endings()))
    assert (attempt.iteration or 0, verdict.cause) == (0, "hang")
