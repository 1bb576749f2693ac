"""Hosted demonstration: a server of its own, the recorded runs in it, and a live one beside them.

Rules
- The server is started as a user would start it, as another process; nothing here imports it.
- Recordings are loaded once into a data directory, so that they end shortly before now.
- The server stays until Ctrl-C, and is ended with everything else.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rerail.collectors.demo.recorded import load_recordings, shifted
from rerail.collectors.outlet import BatchRefused, HttpOutlet, OutletDown

log = logging.getLogger("rerail.demo")

START_SECONDS = 60.0
APART_NS = 20 * 60 * 1_000_000_000
"""Between the ends of two recordings, and between the last and now."""


class ServerDown(Exception):  # noqa: N818 - named as the condition it tells
    """The server did not come up; the message says how it ended."""


@contextmanager
def server(data: Path, port: int, screen: IO[str]) -> Iterator[str]:
    """A server on `port` whose database lies in `data`, while the block runs. Gives its address."""
    data.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{(data / 'rerail.db').absolute()}"
    command = [sys.executable, "-m", "rerail", "serve", "--port", str(port), "--database-url", database]
    log_path = data / "server.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process, log_path)
        screen.write(f"rerail is on {url}\n")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
    """Until the server takes an empty batch."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            tail = "\n".join(log_path.read_text("utf-8", "replace").splitlines()[-8:])
            raise ServerDown(f"the server ended with code {process.returncode}:\n{tail}")
        try:
            HttpOutlet(url, timeout_seconds=5).deliver([b"\n"])
        except BatchRefused:
            return  # an empty batch may be refused; whoever refuses it is there
        except OutletDown as error:
            if time.monotonic() > deadline:
                raise ServerDown(f"the server does not answer: {error}") from None
            time.sleep(0.2)
        else:
            return


def load_once(url: str, data: Path) -> int:
    """Send the recordings, unless this data directory has them. Gives how many were sent."""
    mark = data / "recordings-loaded"
    if mark.exists():
        return 0
    outlet = HttpOutlet(url)
    recordings = list(load_recordings())
    now = time.time_ns()
    for place, (name, lines) in enumerate(recordings):
        end = now - APART_NS * (len(recordings) - place)
        delivery = outlet.deliver(shifted(lines, end, run=f"recorded-{name}"))
        for refusal in delivery.refused[:3]:
            log.warning("a line of the recording %s was refused: %s", name, refusal.said)
    mark.touch()
    return len(recordings)
