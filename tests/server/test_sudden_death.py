"""What was answered with 200 is there after the server was killed; sending everything again completes the rest."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from rerail.server.store import Store

T = 1_760_000_000_000_000_000


def body(number: int) -> bytes:
    lines = [
        {"kind": "capacity", "run": "a", "emitter": "e", "seq": number * 50 + index, "at": T + number, "gpus": 1}
        for index in range(50)
    ]
    return b"\n".join(json.dumps(line).encode() for line in lines)


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_killed_server_has_kept_whatever_it_answered_for(store: Store, database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answered: set[int] = set()
    for life in range(3):
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "rerail",
                "serve",
                "--port",
                str(port),
                "--database-url",
                database_url,
                "--role",
                "all",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                while True:
                    try:
                        client.get("/healthz").raise_for_status()
                        break
                    except httpx.TransportError:
                        assert server.poll() is None
                        time.sleep(0.1)
                for number in range(40 * (life + 1)):
                    assert client.post("/api/v1/facts", content=body(number)).status_code == 200
                    answered.add(number)
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
        held = [fact.seq for fact in store.log("a").facts]
        assert len(held) == len(set(held)), "none twice"
        assert set(held) == {number * 50 + index for number in answered for index in range(50)}
