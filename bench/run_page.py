"""What the page of a run costs: bytes and milliseconds of each request, on a real server.

    python bench/run_page.py [steps]

A run of a million steps with ten faults and a thousand checkpoints, and the recorded demonstration beside it.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fold import history

from rerail.collectors.demo.recorded import load_recordings, shifted
from rerail.server.core.codec import encode_line

BATCH = 2000
REQUESTS = (
    ("document", "/runs/{run}"),
    ("picture, whole run", "/figures/runs/{run}/timeline?width=1400"),
    ("timeline (API)", "/api/v1/runs/{run}/timeline?width=1400"),
    ("figures (API)", "/api/v1/runs/{run}"),
)


def get(url: str) -> tuple[int, float]:
    """Bytes and seconds of one GET."""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:
        size = len(answer.read())
    return size, time.perf_counter() - began


def post(url: str, lines: list[bytes]) -> None:
    """State facts in batches."""
    for first in range(0, len(lines), BATCH):
        body = b"".join(lines[first : first + BATCH])
        request = urllib.request.Request(f"{url}/api/v1/facts", body, {"Content-Type": "application/x-ndjson"})
        urllib.request.urlopen(request, timeout=60).close()


def wait_until(url: str, is_ready: object) -> None:
    """Ask until an answer is as wanted."""
    for _ in range(1200):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                if is_ready(answer.read()):  # type: ignore[operator]
                    return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.1)
    raise SystemExit(f"{url} never answered as wanted")


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(steps: int) -> None:
    """Print a table."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rerail", "serve", "--port", str(port)]
        server = subprocess.Popen([*command, "--database-url", f"sqlite:///{folder}/bench.sqlite3"])
        try:
            wait_until(f"{url}/healthz", bool)
            post(url, [encode_line(fact) for fact in history(steps, 10, 1000)])
            name, lines = next(load_recordings())
            post(url, shifted(lines, time.time_ns(), run=name))
            wait_until(f"{url}/api/v1/runs/bench", lambda body: b'"attempt":10' in body.replace(b" ", b""))
            wait_until(f"{url}/api/v1/runs/{name}", lambda body: b"completed" in body)
            print(f"{'run':<22} {'request':<20} {'kB':>8} {'ms, p50':>9} {'ms, max':>9}")
            for run, label in (("bench", f"{steps:,} steps"), (name, "demonstration")):
                for what, path in REQUESTS:
                    tries = [get(url + path.format(run=run)) for _ in range(12)]
                    times = sorted(seconds * 1e3 for _, seconds in tries)
                    print(
                        f"{label:<22} {what:<20} {tries[0][0] / 1e3:>8.1f} {statistics.median(times):>9.1f}"
                        f" {times[-1]:>9.1f}"
                    )
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
