"""A real server in a process of its own, on a store of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(slots=True)
class Server:
    """A server that runs, and how to tell it facts."""

    url: str

    def tell(self, lines: str) -> None:
        """Post facts; every line must be taken."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/facts", lines.encode(), {"Content-Type": "application/x-ndjson"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["rejected"] == []


def serve(folder: Path) -> Iterator[Server]:
    """One server, until the generator is closed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (folder / "log").open("w")
    command = [sys.executable, "-m", "rerail", "serve", "--database-url", f"sqlite:///{folder}/rerail.sqlite3"]
    process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log, env=os.environ | {"TZ": "UTC"})
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/healthz", timeout=1).close()
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if process.poll() is not None:
                    pytest.fail((folder / "log").read_text())
                time.sleep(0.1)
        else:
            pytest.fail("the server does not answer")
        yield Server(url)
    finally:
        process.terminate()
        process.wait(20)
        log.close()
