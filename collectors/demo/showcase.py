"""The showcase behind `make run`: a server of its own, recorded runs, a live demonstration, one address, one Ctrl-C.

Rules
- The server is a child process on a database in `data`; started again, the same database goes on.
- Recorded runs are moved to end some minutes before now, the first time; they say that they are recorded.
- The address is printed as soon as the page answers; training starts after it.
- Whatever ends this (Ctrl-C, an error, the end) ends the server and the training, and nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rerail.collectors.demo import config_year
from rerail.collectors.demo.recorded import load_arms, load_recordings, shifted
from rerail.collectors.demo.runner import Demo, DemoUnavailable, end_group, run_demo
from rerail.collectors.outlet import HttpOutlet, OutletDown
from rerail.server.core import codec

START_SECONDS = 60.0
STOP_SECONDS = 15.0
BATCH_LINES = 1000
MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS


@dataclass(frozen=True, slots=True)
class Showcase:
    """What is asked for."""

    port: int
    data: Path
    demo: Demo
    token: str | None = None

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.port}"


class ShowcaseFailed(Exception):  # noqa: N818 - named as the condition it tells
    """It could not be shown; the message says why and what to do."""


def run_showcase(showcase: Showcase, screen: IO[str]) -> int:
    """Serve, load, train, and go on serving until Ctrl-C. Raises `ShowcaseFailed`."""
    showcase.data.mkdir(parents=True, exist_ok=True)
    with _server(showcase, screen) as server:
        outlet = HttpOutlet(showcase.url, showcase.token)
        loaded = load_recorded_runs(showcase, outlet, screen)
        screen.write(f"\n  rerail is at  {showcase.url}\n")
        if loaded:
            screen.write(f"  recorded runs: {', '.join(loaded)}\n")
        screen.write(f"  live run:      {showcase.url}/runs/{showcase.demo.run}\n")
        screen.write("  Ctrl-C ends everything\n\n")
        screen.flush()
        try:
            result = run_demo(showcase.demo, outlet, screen=screen)
        except DemoUnavailable as error:
            screen.write(f"no live demonstration: {error}\n")
        else:
            screen.write(
                f"the live run ended after {result.seconds:.0f} s under {result.launcher}: {result.sent} facts sent, "
                f"{result.unsent} unsent, {result.refused} refused; its files are in {result.directory}\n"
            )
            if result.exit_code:
                screen.write("\n".join(("the launcher failed; the end of its output:", *result.log_tail)) + "\n")
        screen.write(f"still serving at {showcase.url}; Ctrl-C ends it\n")
        screen.flush()
        server.wait()
        raise ShowcaseFailed(f"the server ended by itself (exit code {server.returncode}); see {_log_of(showcase)}")


def load_recorded_runs(showcase: Showcase, outlet: HttpOutlet, screen: IO[str]) -> list[str]:
    """Send every recorded run the database does not hold yet; the names of all of them."""
    names = []
    recordings = [(f"recorded-{name}", lines) for name, lines in load_recordings()]
    recordings += [(f"arm-{name}", lines) for name, lines in load_arms()]
    if not _is_known(showcase, config_year.RUN):
        load_year(showcase, outlet)
    for index, (run, lines) in enumerate(recordings):
        names.append(run)
        if _is_known(showcase, run):
            continue
        end = time.time_ns() - (5 + 12 * index) * MINUTE_NS
        moved = shifted(lines, end, run=run)
        for first in range(0, len(moved), BATCH_LINES):
            screen.write(f"\rloading {run}: {min(first + BATCH_LINES, len(moved))}/{len(moved)} facts ")
            screen.flush()
            try:
                outlet.deliver(moved[first : first + BATCH_LINES])
            except OutletDown as error:
                raise ShowcaseFailed(f"the server did not take the recorded run {run}: {error}") from None
        screen.write("\n")
    return names


def load_year(showcase: Showcase, outlet: HttpOutlet) -> None:
    """The made-up year of settings, and what people said of it. Where the latter does not get there, it is left out."""
    try:
        outlet.deliver(list(map(codec.encode_line, config_year.facts(time.time_ns() - HOUR_NS))))
    except OutletDown as error:
        raise ShowcaseFailed(f"the server did not take the run {config_year.RUN}: {error}") from None
    deadline = time.monotonic() + 30
    while _get(showcase, f"/api/v1/configs/changes/{config_year.RUN}@9") is None and time.monotonic() < deadline:
        time.sleep(0.2)
    for path, said in config_year.said():
        request = urllib.request.Request(
            showcase.url + path, json.dumps(said).encode(), {"Content-Type": "application/json"}
        )
        if showcase.token:
            request.add_header("Authorization", f"Bearer {showcase.token}")
        with contextlib.suppress(urllib.error.URLError, http.client.HTTPException, OSError):
            urllib.request.urlopen(request, timeout=10).close()


def _is_known(showcase: Showcase, run: str) -> bool:
    return _get(showcase, f"/api/v1/runs/{run}") is not None


def _get(showcase: Showcase, path: str) -> bytes | None:
    """The body of a GET; None where nothing answers or it answers with an error."""
    request = urllib.request.Request(showcase.url + path)
    if showcase.token:
        request.add_header("Authorization", f"Bearer {showcase.token}")
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return bytes(response.read())
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def _log_of(showcase: Showcase) -> Path:
    return showcase.data / "server.log"


@contextlib.contextmanager
def _server(showcase: Showcase, screen: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A running server; ended when the block is left."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", showcase.port))
        except OSError:
            raise ShowcaseFailed(
                f"port {showcase.port} is taken: end what listens there, or choose another with `make run PORT=8051`"
            ) from None
    database = (showcase.data / "rerail.sqlite3").absolute()
    command = [
        sys.executable, "-m", "rerail", "serve", "--host", "127.0.0.1", "--port", str(showcase.port),
        "--database-url", f"sqlite:///{database}",
    ]  # fmt: skip
    with _log_of(showcase).open("ab") as log:
        # A session of its own: Ctrl-C in the terminal reaches this process first, which ends the others in order.
        server = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while _get(showcase, "/healthz") is None:
            if server.poll() is not None or time.monotonic() > deadline:
                tail = _log_of(showcase).read_text("utf-8", "replace").splitlines()[-8:]
                raise ShowcaseFailed("\n".join(("the server did not start; the end of its log:", *tail)))
            time.sleep(0.1)
        watcher = threading.Thread(target=_say_if_it_ends, args=(server, showcase, screen), daemon=True)
        watcher.start()
        yield server
    finally:
        end_group(server, STOP_SECONDS)


def _say_if_it_ends(server: subprocess.Popen[bytes], showcase: Showcase, screen: IO[str]) -> None:
    code = server.wait()
    if code not in (0, -signal.SIGTERM):
        screen.write(f"\nthe server ended (exit code {code}); facts are kept and sent when it is back. "
                     f"Its log: {_log_of(showcase)}\n")  # fmt: skip
        screen.flush()
