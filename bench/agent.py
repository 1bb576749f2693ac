"""What an agent costs its node: memory and CPU while eight ranks hand it a day of facts in a minute.

    python bench/agent.py [seconds]

Eight recorders write, fast forward, what a day of steps of one second with a heartbeat each, a metric every ten steps
and a checkpoint every half hour comes to; `rerail agent` reads their rings, keeps its spool on disk, follows the
kernel's messages, and sends to a server that takes everything and keeps nothing. Steps come in bursts of about ten
milliseconds, which are a fact each. Prints memory and CPU of the agent as it runs, and facts a second.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rerail.collectors.identity import Identity, Settings
from rerail.collectors.recorder import Recorder

RANKS = 8
DAY_SECONDS = 86_400
TICKS = os.sysconf("SC_CLK_TCK")


class BlackHole(BaseHTTPRequestHandler):
    """Takes every batch, counts its lines and forgets them."""

    protocol_version = "HTTP/1.1"
    facts = 0
    bytes = 0
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        lines = gzip.decompress(body).count(b"\n")
        with BlackHole.lock:
            BlackHole.facts += lines
            BlackHole.bytes += len(body)
        answer = json.dumps({"accepted": lines, "duplicate": 0, "rejected": [], "received_at": time.time_ns()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def train(directory: Path, rank: int, seconds: float) -> None:
    """A day of one rank, in so many seconds."""
    faster = DAY_SECONDS / seconds
    where = Settings(directory)
    who = Identity("bench", "node", rank=rank, local_rank=rank, world_size=RANKS)
    recorder = Recorder(who=who, where=Settings(directory, fold_seconds=where.fold_seconds / faster))
    recorder.ready()
    began = time.monotonic()
    for step in range(DAY_SECONDS):
        recorder.step(step)
        recorder.heartbeat()
        if step % 10 == 0 and rank == 0:
            recorder.metric("loss", 1 / (step + 1), step)
        if step % 1800 == 1799:
            recorder.checkpoint(step, "started")
            recorder.checkpoint(step, "durable")
        ahead = step / faster - (time.monotonic() - began)
        if ahead > 0.01:
            time.sleep(ahead)
    print(f"rank {rank}: {DAY_SECONDS} steps in {time.monotonic() - began:.1f} s, {recorder.lost} records lost")
    recorder.close()


def memory_mb(process: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {process} has no VmRSS")


def processor_seconds(process: int) -> float:
    """CPU used so far, in user and kernel."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    server = ThreadingHTTPServer(("127.0.0.1", 0), BlackHole)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        command = [sys.executable, "-m", "rerail", "agent", "--dir", place, "--kernel", "--run-id", "bench"]
        agent = subprocess.Popen([*command, "--url", f"http://127.0.0.1:{server.server_port}"])
        time.sleep(3)
        idle, before = memory_mb(agent.pid), processor_seconds(agent.pid)
        time.sleep(5)
        used = processor_seconds(agent.pid) - before
        print(f"no rank yet: {idle:.1f} MB, {100 * used / 5:.1f} % of a core; load {os.getloadavg()[0]:.1f}")
        context = multiprocessing.get_context("spawn")
        ranks = [context.Process(target=train, args=(directory, rank, seconds)) for rank in range(RANKS)]
        began, before = time.monotonic(), processor_seconds(agent.pid)
        for rank in ranks:
            rank.start()
        peak = start = 0.0
        while any(rank.is_alive() for rank in ranks):
            time.sleep(0.5)
            peak = max(peak, memory_mb(agent.pid))
            start = start or (peak if time.monotonic() - began > seconds / 10 else 0.0)
        passed, used = time.monotonic() - began, processor_seconds(agent.pid) - before
        end = memory_mb(agent.pid)
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
        print(f"{BlackHole.facts} facts in {passed:.0f} s ({BlackHole.facts / passed:.0f} a second), ", end="")
        print(f"{BlackHole.bytes / 1e6:.1f} MB gzipped")
        print(f"memory: {start:.1f} MB after a tenth, {end:.1f} MB at the end, {peak:.1f} MB at most")
        print(
            f"CPU: {used:.1f} s for {RANKS * DAY_SECONDS} steps, {1e6 * used / max(1, BlackHole.facts):.0f} µs a fact"
        )


if __name__ == "__main__":
    main()
