"""A thousand runs that all send at once to one real server: how soon a page shows what was told, and what it takes.

    python bench/many_runs.py [runs] [--minutes 3] [--every 10] [--steps 2000] [--storm] [--database-url URL]

Each run has told `--steps` steps before. Then every `--every` seconds it tells, in a request of its own as an agent
does, ten more steps and the heartbeats of eight ranks; the runs are spread over that time. Once a second the list of
all runs is read over HTTP, as its page does, and says how far each got: the time from sending a step until the list has
it is the lag, up to one second of which is the asking's own. Memory and CPU are the server's, as /proc tells them.
SQLite in a temporary folder unless told otherwise; a database that is given must be empty.

With `--storm` a switch then fails under all of them: each run states within five seconds that its attempt ended, and by
what line. Measured is how long after that each one's incident is in the list of incidents, with its cause.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fleet import cpu_of
from run_page import free_port, wait_until

from rerail.server.core.codec import encode_lines
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Fact,
    Heartbeats,
    Outcome,
    RunStarted,
    Steps,
)

S = 10**9
WHERE = {"job": "1", "requeue": 0, "restart": 0, "iteration": 0}
RANKS = 8
STEPS_AT_ONCE = 10
SENDERS = 4


class Told:
    """What one run has told, and when which step was sent."""

    def __init__(self, number: int, steps: int) -> None:
        self.run = f"many-{number:04}"
        self.seq = 0
        self.step = steps
        self.sent: list[tuple[int, float]] = []

    def beginning(self, now: int) -> list[Fact]:
        """Its start, and the steps before."""
        began = now - (self.step + 60) * S
        told: list[Fact] = [
            RunStarted(run=self.run, emitter="l", seq=0, at=began, gpus=RANKS, project="bench", name=self.run),
            AttemptStarted(run=self.run, emitter="l", seq=1, at=began, gpus=RANKS, world_size=RANKS, **WHERE),
        ]
        for first in range(1, self.step + 1, 100):
            told.append(self._steps(first, min(100, self.step - first + 1), began + (first + 20) * S))
        return told

    def more(self, now: int) -> list[Fact]:
        """Ten more steps, and a sign of life of every rank."""
        first = self.step + 1
        self.step += STEPS_AT_ONCE
        self.seq += 1
        beats = Heartbeats(
            run=self.run, emitter="agent", seq=self.seq, at=now, start=now - STEPS_AT_ONCE * S, end=now,
            count=RANKS * STEPS_AT_ONCE, max_gap_us=1_000_000, first_rank=0, rank_counts=(STEPS_AT_ONCE,) * RANKS,
            rank_max_gaps_us=(1_000_000,) * RANKS, **WHERE,
        )  # fmt: skip
        return [self._steps(first, STEPS_AT_ONCE, now - STEPS_AT_ONCE * S), beats]

    def end(self, now: int) -> list[Fact]:
        """Rank 3 lost its peer, and the attempt is over."""
        line = (
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, remote process exited or "
            "there was a network error, NCCL version 2.27.5"
        )
        self.seq += 2
        return [
            Evidence(run=self.run, emitter="r0", seq=self.seq - 1, at=now, source="log", text=line, rank=3, **WHERE),
            AttemptEnded(
                run=self.run,
                emitter="l",
                seq=2,
                at=now + S // 10,
                outcome=Outcome.FAILED,
                exit_codes=((3, 1),),
                **WHERE,
            ),
        ]

    def _steps(self, first: int, count: int, start: int) -> Steps:
        self.seq += 1
        return Steps(
            run=self.run, emitter="r0", seq=self.seq, at=start + count * S, first_step=first, start=start, rank=0,
            durations_us=(1_000_000,) * count, **WHERE,
        )  # fmt: skip


def got(url: str, path: str) -> dict:
    """What an address of the API answers."""
    with urllib.request.urlopen(url + path, timeout=120) as answer:
        return json.load(answer)


def listed(url: str, path: str) -> list[dict]:
    """All rows of a list, page after page."""
    rows: list[dict] = []
    while True:
        page = got(url, f"{path}?limit=1000&offset={len(rows)}")
        rows += page["rows"]
        if not page["rows"] or len(rows) >= page["total"]:
            return rows


def post(url: str, facts: list[Fact]) -> float:
    """State facts; the seconds it took."""
    request = urllib.request.Request(
        f"{url}/api/v1/facts", encode_lines(facts), {"Content-Type": "application/x-ndjson"}, method="POST"
    )
    began = time.perf_counter()
    urllib.request.urlopen(request, timeout=120).close()
    return time.perf_counter() - began


def memory_of(process: int) -> float:
    """Resident memory in MB (Linux)."""
    fields = Path(f"/proc/{process}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def send(url: str, runs: list[Told], every: float, until: float, took: list[float]) -> None:
    """Let some runs tell in turns, spread over the time between two of their beats."""
    gap = every / len(runs)
    due = time.monotonic()
    while due < until:
        for run in runs:
            time.sleep(max(0.0, due - time.monotonic()))
            due += gap
            facts = run.more(time.time_ns())
            run.sent.append((run.step, time.monotonic()))
            took.append(post(url, facts))


def storm(url: str, told: list[Told]) -> None:
    """Let all runs fail within five seconds, and print when the list of incidents has them."""
    sent: dict[str, float] = {}

    def fail(runs: list[Told]) -> None:
        for run in runs:
            time.sleep(5 / len(runs))
            sent[run.run] = time.monotonic()
            post(url, run.end(time.time_ns()))

    threads = [threading.Thread(target=fail, args=(told[part::SENDERS],)) for part in range(SENDERS)]
    for thread in threads:
        thread.start()
    shown: dict[str, float] = {}
    began = time.monotonic()
    while len(shown) < len(told) and time.monotonic() < began + 1800:
        time.sleep(0.5)
        asked = time.monotonic()
        for row in listed(url, "/api/v1/incidents"):
            if row["run_id"] not in shown and row["cause"] is not None and row["run_id"] in sent:
                shown[row["run_id"]] = asked - sent[row["run_id"]]
    for thread in threads:
        thread.join()
    lags = list(shown.values())
    print(
        f"  all fail within 5 s: {len(lags)} incidents with a cause are listed p50 {share(lags, 0.5):.1f} s, "
        f"p90 {share(lags, 0.9):.1f} s, max {max(lags, default=float('nan')):.1f} s after their attempt's end"
    )


def share(values: list[float], part: float) -> float:
    """A percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


def measure(runs: int, minutes: float, every: float, steps: int, database: str, is_storm: bool) -> None:
    """Serve, tell, and print."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "rerail", "serve", "--port", str(port), "--database-url", database]
    )
    try:
        wait_until(f"{url}/healthz", bool)
        told = [Told(number, steps) for number in range(runs)]
        began = time.monotonic()
        for first in range(0, runs, 20):
            now = time.time_ns()
            post(url, [fact for run in told[first : first + 20] for fact in run.beginning(now)])
        wait_until(f"{url}/api/v1/storage", lambda body: b'"runs":%d' % runs in body.replace(b" ", b""))
        while sum((row["high_water_step"] or 0) >= steps for row in listed(url, "/api/v1/runs")) < runs:
            time.sleep(0.5)
        print(f"{runs} runs of {steps} steps were told and shown in {time.monotonic() - began:.0f} s")
        cpu, before = cpu_of(server.pid), cpu_of(server.pid)()
        until, took = time.monotonic() + minutes * 60, []
        threads = [
            threading.Thread(target=send, args=(url, told[part::SENDERS], every, until, took))
            for part in range(SENDERS)
        ]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        lags, reads, peak = [], [], 0.0
        next_of = [0] * runs
        while any(thread.is_alive() for thread in threads):
            time.sleep(1)
            asked = time.monotonic()
            rows = {row["run_id"]: row["high_water_step"] or 0 for row in listed(url, "/api/v1/runs")}
            reads.append(time.monotonic() - asked)
            for index, run in enumerate(told):
                while next_of[index] < len(run.sent) and rows.get(run.run, 0) >= run.sent[next_of[index]][0]:
                    lags.append(asked - run.sent[next_of[index]][1])
                    next_of[index] += 1
            peak = max(peak, memory_of(server.pid))
        length = time.monotonic() - started
        late = [time.monotonic() - sent for index, run in enumerate(told) for _, sent in run.sent[next_of[index] :]]
        print(f"  requests: {len(took) / length:.0f} a second, p50 {share(took, 0.5) * 1e3:.0f} ms, "
              f"p99 {share(took, 0.99) * 1e3:.0f} ms")  # fmt: skip
        print(
            f"  from sent to shown: p50 {share(lags, 0.5):.1f} s, p90 {share(lags, 0.9):.1f} s, "
            f"max {max(lags, default=0.0):.1f} s (n={len(lags)}); "
            f"not yet shown {len(late)}, oldest {max(late, default=0):.0f} s"
        )
        print(f"  list of all runs over HTTP meanwhile: p50 {share(reads, 0.5) * 1e3:.0f} ms, "
              f"p90 {share(reads, 0.9) * 1e3:.0f} ms")  # fmt: skip
        print(f"  server: {(cpu() - before) / length:.2f} cores, {peak:.0f} MB at most")
        if is_storm:
            storm(url, told)
    finally:
        server.terminate()
        server.wait(30)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--storm", action="store_true")
    parser.add_argument("--database-url")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = told.database_url or f"sqlite:///{folder}/bench.sqlite3"
        measure(told.runs, told.minutes, told.every, told.steps, database, told.storm)


if __name__ == "__main__":
    main()
