"""How long from the last evidence of a fault until its verdict can be read: over the API, and on an open page.

    python bench/live_verdict.py [tries]

A run of 64 ranks trains, a rank raises, 63 others print that they lost it. The page of the incident is open in a real
browser when the decisive line arrives; measured is from the answer of the intake until the page shows the verdict. The
figures are of one server with SQLite that also follows ten other live runs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run_page import free_port, post, wait_until

SECOND = 10**9
RANKS = 64
OTHERS = 10
WORDS = "sample 4711 is broken"


def line(run: str, emitter: str, seq: int, kind: str, at: int, **fields: object) -> bytes:
    """One fact of the wire format."""
    told = {"kind": kind, "run": run, "emitter": emitter, "seq": seq, "at": at, "restart": 0, **fields}
    return json.dumps(told).encode() + b"\n"


def training(run: str, now: int) -> list[bytes]:
    """A run that trained for a minute until now."""
    began = now - 60 * SECOND
    return [
        line(run, "launcher", 0, "attempt_started", began, gpus=RANKS, world_size=RANKS),
        line(run, "rank/0", 0, "steps", now, rank=0, first_step=1, start=began, durations_us=[1_000_000] * 60),
    ]


def fault(run: str, now: int) -> tuple[list[bytes], list[bytes]]:
    """What is printed by those who lost a rank, and the line that says why."""
    lost = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:4711"
    victims = [
        line(run, f"logs/{rank}", 0, "evidence", now, rank=rank, source="stderr", text=f"[rank{rank}]: {lost}")
        for rank in range(1, RANKS)
    ]
    noticed = line(run, "launcher", 1, "recovery_mark", now, stage="noticed", by="ft_launcher")
    cause = f"[rank0]: ValueError: {WORDS}"
    return [*victims, noticed], [
        line(run, "logs/0", 0, "evidence", now - SECOND // 10, rank=0, source="stderr", text=cause)
    ]


def verdict_of(url: str, run: str) -> str:
    """The cause as the API has it; nothing while there is no incident."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/incidents/{run}~0", timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError:
        return ""


def over_api(url: str, run: str) -> float:
    """Seconds until the API answers with the verdict."""
    before, decisive = fault(run, time.time_ns())
    post(url, before)
    wait_until(f"{url}/api/v1/incidents/{run}~0", lambda body: b"incident_id" in body)
    post(url, decisive)
    began = time.perf_counter()
    while WORDS not in verdict_of(url, run):
        time.sleep(0.01)
    return time.perf_counter() - began


def on_page(url: str, run: str, browser: object) -> float:
    """Seconds until an open page shows it, without a reload."""
    before, decisive = fault(run, time.time_ns())
    post(url, before)
    wait_until(f"{url}/api/v1/incidents/{run}~0", lambda body: b"incident_id" in body)
    page = browser.new_page()  # type: ignore[attr-defined]
    page.goto(f"{url}/incidents/{run}~0")
    page.wait_for_selector("#verdict")
    page.wait_for_timeout(1500)
    post(url, decisive)
    began = time.perf_counter()
    page.wait_for_function(f"() => document.getElementById('verdict').textContent.includes('{WORDS}')", timeout=30_000)
    took = time.perf_counter() - began
    page.close()
    return took


def main(tries: int) -> None:
    """Print both."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rerail", "serve", "--port", str(port)]
        server = subprocess.Popen(
            [*command, "--database-url", f"sqlite:///{folder}/bench.sqlite3"], stdout=subprocess.DEVNULL
        )
        try:
            wait_until(f"{url}/healthz", bool)
            for other in range(OTHERS):
                post(url, training(f"other-{other}", time.time_ns()))
            for number in range(2 * tries):
                post(url, training(f"run-{number}", time.time_ns()))
            said(f"API, {tries} faults", [over_api(url, f"run-{number}") for number in range(tries)])
            measure_page(url, tries)
        finally:
            server.terminate()
            server.wait(20)


def measure_page(url: str, tries: int) -> None:
    """Print the page's, where there is a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("no playwright: the page was not measured")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        said(f"page, {tries} faults", [on_page(url, f"run-{tries + number}", browser) for number in range(tries)])
        browser.close()


def said(what: str, seconds: list[float]) -> None:
    """One row."""
    print(f"{what:<18} median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
