"""A server that misbehaves on demand, and recorders in directories of their own."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rerail.collectors.identity import Identity, Settings
from rerail.collectors.recorder import Recorder


class Intake:
    """A server as `docs/facts.md` describes it, with a memory of what it was sent and a way to fail.

    `behaviours` holds what to do with the next requests, first come first served; then it answers 200.
    """

    def __init__(self) -> None:
        self.facts: dict[tuple[str, str, int], dict[str, object]] = {}
        self.contradictions: list[tuple[str, str, int]] = []
        self.behaviours: list[str] = []
        self.requests = 0
        self.offset_ns = 0
        self.refuse: Callable[[dict[str, object]], bool] = lambda fact: False
        self.most_lines = 10_000
        self.authorizations: list[str | None] = []
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        intake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                intake.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        body = gzip.decompress(request.rfile.read(int(request.headers["Content-Length"])))
        self.authorizations.append(request.headers["Authorization"])
        lines = body.splitlines()
        behaviour = self.behaviours.pop(0) if self.behaviours else "take"
        if len(lines) > self.most_lines:
            behaviour = "413"
        if behaviour == "429":
            self.say(request, 429, b"{}", {"Retry-After": "0.05"})
        elif behaviour.isdigit():
            self.say(request, int(behaviour), b"{}", {})
        elif behaviour == "hang up":
            request.connection.close()
        elif behaviour == "take and hang up":
            self.take(lines)
            request.connection.close()
        elif behaviour == "nonsense":
            self.say(request, 200, b"<html>welcome</html>", {})
        else:
            if behaviour == "slow":
                time.sleep(0.3)
            self.say(request, 200, json.dumps(self.take(lines)).encode(), {})

    def take(self, lines: list[bytes]) -> dict[str, object]:
        accepted = duplicate = 0
        rejected = []
        for number, line in enumerate(lines, start=1):
            fact = json.loads(line)
            key = (fact["run"], fact["emitter"], fact["seq"])
            if self.refuse(fact):
                rejected.append({"line": number, "field": "kind", "value": fact["kind"], "reason": "refused"})
            elif key in self.facts:
                duplicate += 1
                if self.facts[key] != fact:
                    self.contradictions.append(key)
            else:
                self.facts[key] = fact
                accepted += 1
        stamp = time.time_ns() + self.offset_ns
        return {"accepted": accepted, "duplicate": duplicate, "rejected": rejected, "received_at": stamp}

    @staticmethod
    def say(request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def of_kind(self, kind: str) -> list[dict[str, object]]:
        return [fact for fact in self.facts.values() if fact["kind"] == kind]

    def steps(self) -> list[int]:
        """Every completed step the server was told of, in order of telling; twice told is twice here."""
        told: list[int] = []
        for fact in self.of_kind("steps"):
            first, durations = fact["first_step"], fact["durations_us"]
            assert isinstance(first, int)
            assert isinstance(durations, list)
            told.extend(range(first, first + len(durations)))
        return told


@pytest.fixture
def intake() -> Iterator[Intake]:
    """A running server."""
    server = Intake()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def make_recorder(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """Makes recorders of rank 1 of a run; the last argument overrides the identity."""
    made: list[Recorder] = []

    def make(ring_bytes: int = 1 << 20, fold_seconds: float = 0.5, **identity: object) -> Recorder:
        told = {"run": "story", "node": "n1", "rank": 1, "local_rank": 1, "restart": 0, **identity}
        who = Identity(**told)  # type: ignore[arg-type]
        recorder = Recorder(who=who, where=Settings(tmp_path, ring_bytes=ring_bytes, fold_seconds=fold_seconds))
        made.append(recorder)
        return recorder

    yield make
    for recorder in made:
        recorder.close()
