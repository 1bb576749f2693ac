"""What `Recorder.step()` costs in the training thread, beside a peer way measured in the same run.

    python bench/recorder_step.py [calls]

Prints the time of a call in a tight loop (median and p99 of blocks of 1,000), the time of single calls (median and
p99, the cost of the clock taken off), alone and while an agent reads the ring, and the same for a line of JSON
appended to a line-buffered file.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rerail.collectors.agent import Agent
from rerail.collectors.identity import Identity, Settings
from rerail.collectors.outlet import FileOutlet
from rerail.collectors.recorder import Recorder

BLOCK = 1000
now = time.perf_counter_ns


def clock_cost() -> int:
    """What reading the clock twice costs by itself: the median of many pairs."""
    pairs = []
    for _ in range(100_000):
        before = now()
        pairs.append(now() - before)
    return int(statistics.median(pairs))


def measure(name: str, call: Callable[[int], object], calls: int, clock: int) -> None:
    """Time `call(step)` in blocks, then one by one."""
    blocks = []
    for block in range(calls // BLOCK):
        first = block * BLOCK
        before = now()
        for step in range(first, first + BLOCK):
            call(step)
        blocks.append((now() - before) / BLOCK)
    singles = []
    for step in range(min(calls, 500_000)):
        before = now()
        call(step)
        singles.append(now() - before - clock)
    blocks.sort()
    singles.sort()
    print(
        f"{name:44s} loop {blocks[len(blocks) // 2]:7.0f} ns (p99 {blocks[len(blocks) * 99 // 100]:7.0f})"
        f"   single {singles[len(singles) // 2]:7.0f} ns (p99 {singles[len(singles) * 99 // 100]:7.0f},"
        f" max {singles[-1] / 1000:8.0f} µs)"
    )


def main() -> None:
    """Measure and print."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    clock = clock_cost()
    print(f"{calls} calls; load {os.getloadavg()[0]:.1f}; reading the clock {clock} ns (taken off single calls)")
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        recorder = Recorder(who=Identity("bench", "n", rank=0), where=Settings(directory))
        recorder.ready()
        measure("Recorder.step(), nobody reads", recorder.step, calls, clock)
        measure("Recorder.heartbeat()", lambda _: recorder.heartbeat(), calls // 4, clock)
        child = os.fork()
        if child == 0:
            read_for_ever(directory)
        measure("Recorder.step(), an agent reads beside it", recorder.step, calls, clock)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        recorder.close()
        print(f"records lost: {recorder.lost}")
        file = (directory / "peer.jsonl").open("a", buffering=1, encoding="utf-8")

        def append(step: int) -> None:
            file.write(json.dumps({"step": step, "t": time.time()}) + "\n")

        measure("peer: a line of JSON, line-buffered", append, calls // 4, clock)
        file.close()


def read_for_ever(directory: Path) -> None:
    """Read the ring over and over, as an agent on the same node does."""
    agent = Agent(directory, FileOutlet(open(os.devnull, "wb")), "n")  # noqa: SIM115
    while True:
        agent.look()
        agent.sender.send_once()
        time.sleep(0.15)


if __name__ == "__main__":
    main()
