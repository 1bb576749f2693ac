"""Whole-job restarts of the demonstration: the job ends with every fault, and is begun again after a back-off.

Rules
- The launcher restarts nothing. What begins the job again is this file, in the place of a scheduler: it says so
  (`scheduler_state` facts of an emitter of its own), and counts requeues as a scheduler does.
- The back-off doubles from 5 s, as that of a Kubernetes Job does from 10 s.
"""

from __future__ import annotations

import subprocess
import threading
import time
from typing import IO

from rerail.collectors.agent import Agent
from rerail.collectors.demo import runner
from rerail.collectors.demo.runner import Demo, DemoResult
from rerail.collectors.identity import identity
from rerail.collectors.outlet import Outlet
from rerail.collectors.sources.launcher import LauncherSource
from rerail.server.core.codec import encode_line
from rerail.server.core.facts import SchedulerState

FIRST_BACK_OFF = 5.0
SCHEDULER = "scheduler/demo"


def run_whole_jobs(demo: Demo, launcher: str, outlet: Outlet, screen: IO[str] | None) -> DemoResult:
    """Train job after job until one comes to its end, or one more than there are faults has failed."""
    began = time.monotonic()
    sent = unsent = refused = seq = 0
    exit_code: int | None = None
    node = identity().node

    def say(state: str, requeue: int) -> None:
        nonlocal seq
        fact = SchedulerState(
            run=demo.run, emitter=SCHEDULER, seq=seq, at=time.time_ns(), job=demo.run, requeue=requeue, state=state
        )
        outlet.deliver([encode_line(fact)])
        seq += 1

    for requeue in range(len(demo.planned) + 2):
        if requeue:
            say("backoff", requeue)
            time.sleep(FIRST_BACK_OFF * 2 ** (requeue - 1))
        say("running", requeue)
        command = runner.launcher_command(launcher, demo)
        log_path = demo.directory / f"launcher.{requeue}.log"
        log_path.touch()
        source = LauncherSource(node=node, run=demo.run, log=log_path, command=command, job=demo.run, requeue=requeue)
        sources = [source, runner.dumps_of_workers(demo, node)]
        agent = Agent(demo.directory, outlet, node, run=demo.run, sources=sources)
        stop = threading.Event()
        watching = threading.Thread(target=agent.run, args=(stop,), name="rerail-agent", daemon=True)
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                env=runner.environment(demo, requeue), cwd=demo.directory,
            )  # fmt: skip
            watching.start()
            try:
                exit_code = runner.watch(process, demo, began, screen)
            finally:
                runner.end_group(process)
                stop.set()
                watching.join(timeout=60)
        sent, refused, unsent = sent + agent.sender.sent, refused + agent.sender.refused, agent.spool.waiting()
        agent.close()
        if exit_code == 0:
            break
    tail = log_path.read_text("utf-8", "replace").splitlines()[-15:]
    return DemoResult(exit_code, launcher, time.monotonic() - began, sent, unsent, refused, demo.directory, tail)
