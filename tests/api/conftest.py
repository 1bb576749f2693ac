"""A real server on a free port, with its threads, over a fresh SQLite file."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from rerail.server.app import create_api
from rerail.server.preparing import prepare_database
from rerail.server.settings import Settings

T = 1_760_000_000_000_000_000
S = 10**9


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a server over a fresh database."""
    return Settings(database_url=f"sqlite:///{tmp_path / 'rerail.sqlite3'}")


Serve = Callable[[Settings], AbstractContextManager[httpx.Client]]


@pytest.fixture(scope="session")
def serve() -> Serve:
    """Serve these settings on a free port; gives a client."""

    @contextmanager
    def serving(settings: Settings) -> Iterator[httpx.Client]:
        server = uvicorn.Server(uvicorn.Config(create_api(settings), log_level="error", timeout_graceful_shutdown=2))
        listening = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()
            listening.close()

    return serving


@pytest.fixture
def client(settings: Settings, serve: Serve) -> Iterator[httpx.Client]:
    """A client of a running server."""
    prepare_database(settings.database_url)
    with serve(settings) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> Iterator[httpx.Client]:
    """A client of a server that all tests of a module share: for those that do not mind each other."""
    settings = Settings(database_url=f"sqlite:///{tmp_path_factory.mktemp('shared') / 'rerail.sqlite3'}")
    prepare_database(settings.database_url)
    with serve(settings) as running:
        yield running


@pytest.fixture(scope="session")
def lines() -> Callable[..., bytes]:
    """Wire lines as the body of a batch."""

    def make(*stated: dict[str, object]) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in stated)

    return make


@pytest.fixture(scope="session")
def small_run(lines: Callable[..., bytes]) -> Callable[..., bytes]:
    """A run that trains ten steps, dies, comes back from step 6, and ends."""

    def make(run: str = "a") -> bytes:
        def at(second: int) -> int:
            return T + second * S

        launcher = {"run": run, "emitter": "launcher"}
        rank = {"run": run, "emitter": "rank/0", "rank": 0}
        return lines(
            {**launcher, "kind": "run_started", "seq": 0, "at": at(0), "name": "small", "gpus": 8},
            {**launcher, "kind": "attempt_started", "seq": 1, "at": at(0), "job": "1", "restart": 0, "gpus": 8,
             "config": {"checkpoint_interval_steps": 5}},
            {**rank, "kind": "steps", "seq": 0, "at": at(20), "job": "1", "restart": 0, "first_step": 1,
             "start": at(10), "durations_us": [1_000_000] * 10},
            {**rank, "kind": "checkpoint", "seq": 1, "at": at(16), "job": "1", "restart": 0, "step": 6,
             "stage": "durable"},
            {**launcher, "kind": "recovery_mark", "seq": 2, "at": at(30), "job": "1", "restart": 0, "stage": "noticed"},
            {**launcher, "kind": "attempt_ended", "seq": 3, "at": at(35), "job": "1", "restart": 0,
             "outcome": "failed", "exit_codes": {"0": -9}},
            {**launcher, "kind": "attempt_started", "seq": 4, "at": at(40), "job": "1", "restart": 1,
             "scope": "in_job"},
            {**rank, "kind": "checkpoint_loaded", "seq": 2, "at": at(50), "job": "1", "restart": 1, "step": 6,
             "start": at(45), "end": at(50)},
            {**rank, "kind": "steps", "seq": 3, "at": at(70), "job": "1", "restart": 1, "first_step": 7,
             "start": at(60), "durations_us": [1_000_000] * 10},
            {**launcher, "kind": "run_ended", "seq": 5, "at": at(71), "outcome": "completed"},
        )  # fmt: skip

    return make


@pytest.fixture(scope="session")
def settled() -> Callable[[httpx.Client], None]:
    """Wait until every fact a server took is in a view."""

    def wait(client: httpx.Client) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if client.get("/api/v1/storage").json()["waiting_runs"] == 0:
                return
            time.sleep(0.01)
        raise AssertionError("the projector did not catch up")

    return wait
