"""Pictures of every page, from a server of its own with recorded runs and a made-up fleet. `make pictures`

    python docs/take_pictures.py [--only runs,incident] [--out docs/images/pages]

It prepares an empty SQLite database in a temporary folder, serves it, loads the recorded demonstration and the recorded
arms and a small fleet, says what people would say, and takes each page as it stands in a window of 1280 × 900; one in
dark mode, one as wide as a telephone. Needs the `dev` extra and Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rerail.collectors.demo import config_year
from rerail.collectors.demo.recorded import load_arms, load_recordings, shifted
from rerail.server.core.codec import encode_line

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OUT = Path(__file__).parent / "images" / "pages"
WIDE, HIGH, PHONE = 1280, 900, 390
SYNTH = ("synth", "--runs", "60", "--ranks", "64", "--days", "6", "--faults", "12")


class Server:
    """A server on a free port, and what is asked of it."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {**os.environ, "RERAIL_DATABASE_URL": f"sqlite:///{folder / 'rerail.sqlite3'}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rerail", "serve", "--port", str(port)], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Server:
        deadline = time.monotonic() + 60
        while True:
            try:
                self.get("/api/v1/runs")
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def get(self, path: str) -> Any:
        """What an address of the API answers."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, said: dict[str, object]) -> Any:
        """State something."""
        return self._send(path, json.dumps(said).encode(), "application/json")

    def facts(self, lines: bytes) -> None:
        """Send facts."""
        self._send("/api/v1/facts", lines, "application/x-ndjson")

    def _send(self, path: str, body: bytes, kind: str) -> Any:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def run(self, *words: str) -> None:
        """A command of rerail, told where the server is."""
        subprocess.run([sys.executable, "-m", "rerail", *words, "--url", self.url], env=self.environment, check=True)

    def settle(self) -> None:
        """Wait until everything that was sent is derived and looked at."""
        before, same = None, 0
        while same < 4:
            time.sleep(1.5)
            now = self.get("/api/v1/runs?limit=1")["total"], self.get("/api/v1/problems?limit=1")["total"]
            now = (*now, self.get("/api/v1/alerts?limit=1")["total"])
            same = same + 1 if now == before else 0
            before = now


def fill(server: Server) -> None:
    """What is in the pictures."""
    now = time.time_ns()
    for name, lines in load_recordings():
        server.facts(b"".join(shifted(lines, now, run=f"recorded-{name}")))
    for name, lines in load_arms():
        server.facts(b"".join(shifted(lines, now, run=f"arm-{name}")))
    server.facts(b"".join(map(encode_line, config_year.facts(now))))
    server.run(*SYNTH)
    server.settle()
    for path, said in config_year.said():
        server.post(path, said)


def say(server: Server) -> dict[str, str]:
    """What people say of it; the addresses that are pictured."""
    runs = [row["run_id"] for row in server.get("/api/v1/runs?limit=200")["rows"]]
    shown = next(run for run in runs if run.startswith("recorded-"))
    problem = server.get("/api/v1/problems?sort=incidents&limit=1")["rows"][0]["problem_id"]
    incidents = server.get(f"/api/v1/runs/{quote(shown, safe='')}/incidents")["rows"]
    incident = next(row["incident_id"] for row in incidents if row["cause"] != "unknown")
    node = server.get("/api/v1/nodes?limit=1")["rows"][0]["node"]
    note = server.post("/api/v1/notes", {
        "subject_kind": "incident", "subject": incident, "author": "on call",
        "text": "**The watchdog fired late.** The rank had been gone for minutes; see the heartbeat gap.",
    })  # fmt: skip
    server.post(f"/api/v1/problems/{quote(problem, safe='')}/actions", {
        "action": "resolve", "reason": "the switch was replaced", "author": "on call", "revision": 0,
    })  # fmt: skip
    changes = server.get("/api/v1/configs/changes")["changes"]
    arms = "&".join(f"with=run:arm-{name}" for name, _ in load_arms())
    pages = {
        "fleet": "/", "runs": "/runs", "run": f"/runs/{quote(shown, safe='')}",
        "incident": f"/incidents/{quote(incident, safe='')}", "problems": "/problems",
        "problem": f"/problems/{quote(problem, safe='')}", "nodes": "/nodes", "node": f"/nodes/{quote(node, safe='')}",
        "configs": "/configs", "changes": "/configs/changes", "compare": f"/compare?{arms}", "alerts": "/alerts",
        "knowledge": f"/knowledge?q={quote('체크포인트')}",
        "note": f"/notes/{quote(str(note['note']), safe='')}", "data": "/data",
    }  # fmt: skip
    if changes:
        pages["change"] = f"/configs/changes/{quote(changes[0]['change_id'], safe='')}"
    return pages


def take(browser: Browser, url: str, path: Path, width: int = WIDE, scheme: str = "light") -> None:
    """One page as it stands in a window."""
    window = browser.new_context(viewport={"width": width, "height": HIGH}, color_scheme=scheme)  # type: ignore[arg-type]
    page = window.new_page()
    page.goto(url)
    page.wait_for_selector("#page [data-title]")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(800)
    page.screenshot(path=path, type="jpeg", quality=82)
    window.close()
    print(f"{path.name:28} {path.stat().st_size // 1000} kB")


def main() -> None:
    """Take them."""
    # Not at the top: bench/pages.py takes its data from here, where there need be no browser.
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of pages, separated by commas")
    parser.add_argument("--out", type=Path, default=OUT)
    parsed = parser.parse_args()
    wanted = set(filter(None, parsed.only.split(",")))
    parsed.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder)) as server, sync_playwright() as playwright:
        fill(server)
        pages = say(server)
        server.settle()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, address in pages.items():
            if not wanted or name in wanted:
                take(browser, server.url + address, parsed.out / f"{name}.jpg")
        if not wanted:
            take(browser, server.url + pages["run"], parsed.out / "run-dark.jpg", scheme="dark")
            take(browser, server.url + pages["incident"], parsed.out / "incident-phone.jpg", PHONE)
        browser.close()


if __name__ == "__main__":
    main()
