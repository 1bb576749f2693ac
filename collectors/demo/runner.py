"""Runner of the demonstration: real training, real faults, a real launcher, and rerail watching all of it.

Rules
- The launcher is NVRx's `ft_launcher` where it is installed, else `torchrun`, and which one it is is said.
- The agent and the launcher source run as they would on a node, in this process.
- Whatever ends the demonstration (its end, an error, Ctrl-C) ends every process it started, and only those.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

from rerail.collectors.agent import Agent
from rerail.collectors.agent import log as agent_log
from rerail.collectors.demo.in_process import COLLECTIVE_TIMEOUT
from rerail.collectors.demo.schedule import Fault, schedule, worker_socket
from rerail.collectors.identity import identity, inherited
from rerail.collectors.outlet import Outlet
from rerail.collectors.sources.flight_recorder_live import FlightRecorderLive
from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.step_watch import StepWatch

RANKS = 2
PROJECT = "demo arms"
FASTEST_HEARTBEAT_TIMEOUT = 10
STOP_SECONDS = 10.0
HANG_AFTER_NS = 4 * 10**9
"""Steps take 0.15 s here, and a launcher waits 10 or 15 s for a rank that hangs."""


@dataclass(frozen=True, slots=True)
class Demo:
    """What is asked for. `faults` None: the schedule's own."""

    directory: Path
    run: str
    launcher: str = "auto"
    checkpoints: str = "async"
    steps: int = 150
    checkpoint_every: int = 20
    step_seconds: float = 0.15
    faults: tuple[Fault, ...] | None = None
    in_process: bool = False
    """NVRx's in-process wrapper goes around the training."""
    whole_job: bool = False
    """The launcher restarts nothing: the job ends with a fault and is begun again after a back-off."""
    arm: str | None = None
    """Which arm of a comparison this is (`arms.py`)."""

    @property
    def planned(self) -> tuple[Fault, ...]:
        """The faults of this demonstration."""
        return schedule(self.steps) if self.faults is None else self.faults


@dataclass(slots=True)
class DemoResult:
    """How it went. `exit_code` is the launcher's; None where it was stopped."""

    exit_code: int | None
    launcher: str
    seconds: float
    sent: int
    unsent: int
    refused: int
    directory: Path
    log_tail: list[str] = field(default_factory=list)


class DemoUnavailable(Exception):  # noqa: N818 - named as the condition it tells
    """The demonstration cannot run here; the message says what is missing."""


def run_demo(demo: Demo, outlet: Outlet, *, screen: IO[str] | None = None) -> DemoResult:
    """Train, fail and recover, while an agent sends what is seen to `outlet`. Raises `DemoUnavailable`."""
    launcher = chosen_launcher(demo.launcher)
    demo.directory.mkdir(parents=True, exist_ok=True)
    log_path = demo.directory / "launcher.log"
    if demo.whole_job:
        from rerail.collectors.demo.whole_job import run_whole_jobs

        return run_whole_jobs(demo, launcher, outlet, screen)
    command = launcher_command(launcher, demo)
    node = identity().node
    log_path.touch()
    source = LauncherSource(node=node, run=demo.run, log=log_path, command=command)
    agent = Agent(demo.directory, outlet, node, run=demo.run, sources=[source, dumps_of_workers(demo, node)])
    stop = threading.Event()
    watching = threading.Thread(target=agent.run, args=(stop,), name="rerail-agent", daemon=True)
    if screen is not None:
        agent_log.setLevel(logging.ERROR)  # that a rank which was killed cannot be asked is part of the show
    began = time.monotonic()
    exit_code: int | None = None
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            env=environment(demo), cwd=demo.directory,
        )  # fmt: skip
        watching.start()
        try:
            exit_code = watch(process, demo, began, screen)
        finally:
            end_group(process)
            stop.set()
            watching.join(timeout=60)
    result = DemoResult(
        exit_code, launcher, time.monotonic() - began, agent.sender.sent, agent.spool.waiting(), agent.sender.refused,
        demo.directory, log_path.read_text("utf-8", "replace").splitlines()[-15:],
    )  # fmt: skip
    agent.close()
    return result


def dumps_of_workers(demo: Demo, node: str) -> FlightRecorderLive:
    """What asks the ranks of a demonstration where they stand when one hangs: `rerail agent --flight-recorder`."""
    watch = StepWatch(demo.directory / "rings", HANG_AFTER_NS)
    pattern = worker_socket(demo.directory, "*")
    return FlightRecorderLive([f"unix:{pattern}"], node=node, run=demo.run, watch=watch)


def chosen_launcher(asked: str) -> str:
    """`ft_launcher` or `torchrun`. Raises `DemoUnavailable` where neither, or not the one asked for, is there."""
    if importlib.util.find_spec("torch") is None:
        raise DemoUnavailable("the demonstration trains a model and needs torch: pip install 'rerail[demo]'")
    if importlib.util.find_spec("numpy") is None:
        raise DemoUnavailable("torch loads distributed checkpoints through numpy: pip install 'rerail[demo]'")
    has_nvrx = importlib.util.find_spec("nvidia_resiliency_ext") is not None
    if asked == "ft_launcher" and not has_nvrx:
        raise DemoUnavailable("ft_launcher is part of nvidia-resiliency-ext: pip install 'rerail[demo]'")
    if asked == "auto":
        return "ft_launcher" if has_nvrx else "torchrun"
    return asked


def launcher_command(launcher: str, demo: Demo) -> tuple[str, ...]:
    """The command line of the launcher. Timeouts below 10 s take a busy machine for a hung rank."""
    common = (
        "--nnodes=1", f"--nproc-per-node={RANKS}",
        f"--max-restarts={0 if demo.whole_job else len(demo.planned) + 2}",
        "--monitor-interval=0.1", f"--rdzv-id={path_safe(demo.run)}", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{free_port()}",
    )  # fmt: skip
    training = (
        "-m", "rerail.collectors.demo.train", "--directory", str(demo.directory), "--steps", str(demo.steps),
        "--checkpoint-every", str(demo.checkpoint_every), "--checkpoints", demo.checkpoints,
        "--step-seconds", str(demo.step_seconds), "--faults", ",".join(map(str, demo.planned)),
        *(("--in-process", "--collective-timeout", str(COLLECTIVE_TIMEOUT)) if demo.in_process else ()),
        *(("--project", PROJECT, "--arm", demo.arm) if demo.arm else ()),
    )  # fmt: skip
    if launcher == "torchrun":
        # Nothing but the collective's own timeout ends a hang under torchrun.
        return (sys.executable, "-m", "torch.distributed.run", *common, *training, "--collective-timeout", "15")
    nvrx = [
        "--ft-workload-check-interval=1", "--ft-initial-rank-heartbeat-timeout=120",
        f"--ft-rank-heartbeat-timeout={FASTEST_HEARTBEAT_TIMEOUT}",
    ]  # fmt: skip
    if nvrx_version() >= (0, 6):
        nvrx += ["--ft-gpu-memory-reclaim-timeout=0", f"--ft-cycle-info-dir={demo.directory / 'cycle_infos'}"]
    module = "nvidia_resiliency_ext.fault_tolerance.launcher"
    return (sys.executable, "-m", module, *common, *nvrx, *training)


def path_safe(name: str) -> str:
    """A run's name as launchers can use it: they make directories of it."""
    return re.sub(r"[^\w.-]+", "-", name)


def nvrx_version() -> tuple[int, ...]:
    """The release of NVRx that is installed; empty where none is."""
    try:
        text = version("nvidia-resiliency-ext")
    except PackageNotFoundError:
        return ()
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def environment(demo: Demo, requeue: int | None = None) -> dict[str, str]:
    """What the launcher and its workers get."""
    return {
        **inherited(),
        "RERAIL_RUN": demo.run,
        "RERAIL_DIR": str(demo.directory),
        **({} if requeue is None else {"RERAIL_JOB": demo.run, "RERAIL_REQUEUE": str(requeue)}),
        "OMP_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",  # the flight recorder keeps its last collectives, for gloo too
        "PYTHONUNBUFFERED": "1",
        "LOGLEVEL": "INFO",
        # With the store of the launcher shared, a restarted gloo group finds addresses of the dead one and fails once.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "GROUP_RANK": "0",
    }


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_group(process: subprocess.Popen[bytes], seconds: float = STOP_SECONDS) -> None:
    """End a process and all it started: asked first, killed where they are still there `seconds` later."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except (ProcessLookupError, PermissionError):
            break
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and _group_lives(process):
            time.sleep(0.05)
    process.wait(timeout=STOP_SECONDS)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def watch(process: subprocess.Popen[bytes], demo: Demo, began: float, screen: IO[str] | None) -> int:
    """Wait for the launcher, drawing how far the training is."""
    truth = TruthTail(demo.directory / "truth.rank0.jsonl")
    drawn = ""
    while (code := process.poll()) is None:
        truth.look()
        if screen is not None:
            line = progress_line(demo, truth, time.monotonic() - began)
            if line != drawn:
                screen.write("\r" + line.ljust(len(drawn)))
                screen.flush()
                drawn = line
        time.sleep(0.1)
    if screen is not None:
        screen.write("\n")
    return code


class TruthTail:
    """How far rank 0 says it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.step = 0
        self.highest = 0
        self.attempt = 0
        self.doing = "starting the launcher"

    def look(self) -> None:
        """Read what was written since."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines = file.read().split(b"\n")
        except OSError:
            return
        for line in lines[:-1]:
            self._offset += len(line) + 1
            told = json.loads(line)
            event = told["event"]
            self.attempt = told["attempt"]
            if event in ("step", "load"):
                self.step = told["step"]
                self.highest = max(self.highest, self.step)
            self.doing = {
                "process_start": "importing torch", "imports_done": "forming the group", "pg_init": "building",
                "load": "loading a checkpoint", "step": "training", "save": "saving", "done": "done",
            }.get(event, self.doing)  # fmt: skip


def progress_line(demo: Demo, truth: TruthTail, seconds: float) -> str:
    """One line: a bar, the step, the attempt and what happens now."""
    width = 30
    full = width * truth.step // max(1, demo.steps)
    seen = width * truth.highest // max(1, demo.steps)
    bar = "█" * full + "▒" * (seen - full) + "·" * (width - seen)
    doing = truth.doing
    if doing == "training" and truth.step < truth.highest:
        doing = "redoing lost steps"
    return f"{bar} step {truth.step}/{demo.steps}  attempt {truth.attempt}  {doing}  {seconds:.0f} s"


def temporary_directory(run: str) -> Path:
    """A new directory for one demonstration."""
    return Path(tempfile.mkdtemp(prefix=f"rerail-{path_safe(run)}-"))
