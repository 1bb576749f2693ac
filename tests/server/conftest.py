"""A store over a fresh SQLite file, a clock that stands still, and lines to feed it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rerail.server.decoding import decode_body
from rerail.server.preparing import prepare_database
from rerail.server.store import Receipt, Store, open_store

T = 1_760_000_000_000_000_000
S = 10**9


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A database with tables and nothing in them."""
    address = f"sqlite:///{tmp_path / 'rerail.sqlite3'}"
    prepare_database(address)
    return address


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """The store of that database."""
    opened = open_store(database_url)
    yield opened
    opened.close()


@pytest.fixture
def state(store: Store) -> Callable[..., Receipt]:
    """Facts into the store, by the way they come in."""

    def tell(*lines: dict[str, object] | bytes, received_at: int = T + 10_000 * S) -> Receipt:
        body = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        (receipt,) = store.append([decode_body(body, received_at).batch])
        return receipt

    return tell


@pytest.fixture
def long_run() -> Callable[..., list[dict[str, object]]]:
    """Lines of a run with many attempts: each trains, saves every ten steps, dies and falls back to the last save."""

    def make(attempts: int, steps: int = 30, run: str = "a", is_over: bool = True) -> list[dict[str, object]]:
        lines: list[dict[str, object]] = [
            {"kind": "run_started", "run": run, "emitter": "l", "seq": 0, "at": T, "gpus": 8}
        ]
        seq, at, step = {"l": 1, "r": 0}, T, 0

        def say(emitter: str, kind: str, when: int, **told: object) -> None:
            lines.append(
                {"kind": kind, "run": run, "emitter": emitter, "seq": seq[emitter], "at": when, "job": "1", **told}
            )
            seq[emitter] += 1

        for attempt in range(attempts):
            place = {"restart": attempt, "rank": 0}
            say("l", "attempt_started", at, restart=attempt, gpus=8)
            at += 5 * S
            if attempt:
                step = step // 10 * 10
                say("r", "checkpoint_loaded", at + S, step=step, start=at, end=at + S, **place)
                at += S
            for _ in range(steps // 10):
                say("r", "steps", at + 10 * S, first_step=step + 1, start=at, durations_us=[1_000_000] * 10, **place)
                at, step = at + 10 * S, step + 10
                say("r", "phase", at + S, phase="saving", start=at, end=at + S, **place)
                at += S
                say("r", "checkpoint", at, step=step, stage="durable", **place)
            if attempt < attempts - 1 or is_over:
                say("r", "steps", at + 3 * S, first_step=step + 1, start=at, durations_us=[1_000_000] * 3, **place)
                at, step = at + 3 * S, step + 3
                say("l", "attempt_ended", at + 2 * S, restart=attempt, outcome="failed")
                at += 4 * S
        if is_over:
            say("l", "run_ended", at, outcome="completed")
        return lines

    return make
