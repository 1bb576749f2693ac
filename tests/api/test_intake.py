"""Intake: every body gets a clear answer, and whatever can be kept of it is."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import httpx
import pytest
import zstandard

from rerail.server.preparing import prepare_database
from rerail.server.settings import Settings

T = 1_760_000_000_000_000_000
Lines = Callable[..., bytes]
PATH = "/api/v1/facts"
Serve = Callable[[Settings], AbstractContextManager[httpx.Client]]


def capacity(seq: int, **changes: object) -> dict[str, object]:
    return {"kind": "capacity", "run": "a", "emitter": "e", "seq": seq, "at": T, "gpus": 8, **changes}


def error_of(response) -> dict[str, str]:
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"code", "message", "hint"}
    return error


def test_facts_are_accepted_once(client: httpx.Client, lines: Lines) -> None:
    body = lines(capacity(0), capacity(1))
    first, again = client.post(PATH, content=body), client.post(PATH, content=body)
    assert first.status_code == again.status_code == 200
    assert {**first.json(), "received_at": 0} == {"accepted": 2, "duplicate": 0, "rejected": [], "received_at": 0}
    assert (again.json()["accepted"], again.json()["duplicate"]) == (0, 2)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:20]) + gzip.compress(body[20:])),
        ("zstd", zstandard.compress),
        ("zstd", lambda body: zstandard.compress(body[:20]) + zstandard.compress(body[20:])),
        ("identity", bytes),
        ("GZIP", gzip.compress),
    ],
)
def test_packed_bodies_are_unpacked(
    shared: httpx.Client, lines: Lines, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    body = pack(lines(*(capacity(seq, run=repr((encoding, pack))) for seq in range(100))))
    assert shared.post(PATH, content=body, headers={"Content-Encoding": encoding}).json()["accepted"] == 100


def test_a_context_holds_for_the_lines_after_it(client: httpx.Client, lines: Lines) -> None:
    body = lines(
        {"kind": "context", "run": "a", "emitter": "e", "gpus": 4, "at": T},
        {"kind": "capacity", "seq": 0},
        {"kind": "capacity", "seq": 1, "gpus": 3},
        {"kind": "capacity"},
    )
    answer = client.post(PATH, content=body).json()
    assert answer["accepted"] == 2
    assert answer["rejected"] == [{"line": 4, "field": "seq", "value": "null", "reason": "missing"}]


def test_each_refused_line_is_named_and_can_be_read_afterwards(client: httpx.Client, lines: Lines) -> None:
    body = lines(
        capacity(0),
        {**capacity(1), "kind": "steps", "first_step": 1, "start": T, "durations_us": [5, 1, 2, -5]},
        capacity(2, at=5),
        {**capacity(3), "kind": "steps", "first_step": 1, "start": T, "durations_us": [float("nan")]},
    )
    answer = client.post(PATH, content=body + b"\x00\xff\n" + lines(capacity(4))).json()
    assert answer["accepted"] == 2
    assert [(line["line"], line["field"]) for line in answer["rejected"]] == [
        (2, "durations_us[3]"),
        (3, "at"),
        (4, "durations_us[0]"),
        (5, ""),
    ]
    assert answer["rejected"][0] == {"line": 2, "field": "durations_us[3]", "value": "-5", "reason": "negative"}
    page = client.get("/api/v1/refused", params={"run": "a"}).json()
    assert [row["line"] for row in page["rows"]] == [2, 3, 4]
    assert "before the year 2000" in page["rows"][1]["reason"]
    assert client.get("/api/v1/refused").json()["total"] == 4


def test_a_body_of_fifty_megabytes_is_refused_without_being_read(shared: httpx.Client) -> None:
    response = shared.post(PATH, content=b" " * 50_000_000)
    assert response.status_code == 413
    assert "smaller batches" in error_of(response)["hint"]


def test_a_body_without_a_length_is_given_up_when_it_is_too_long(shared: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1_000_000

    assert shared.post(PATH, content=endless()).status_code == 413


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_bomb_is_not_unpacked(shared: httpx.Client, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(b"\n" * 200_000_000)
    assert len(bomb) < 500_000
    response = shared.post(PATH, content=bomb, headers={"Content-Encoding": encoding})
    assert (response.status_code, error_of(response)["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"not gzip", 400),
        ("gzip", gzip.compress(b"{}" * 1000, mtime=0)[:-20], 400),
        ("zstd", b"not zstd", 400),
        ("br", b"{}", 415),
        ("gzip, zstd", b"{}", 415),
        ("deflate", zlib.compress(b"{}"), 415),
        ("identity", gzip.compress(b'{"kind":"note"}', mtime=0), 400),
        ("identity", b"<html></html>", 400),
    ],
)
def test_what_cannot_be_read_at_all_is_refused_as_a_whole(
    shared: httpx.Client, encoding: str, body: bytes, status: int
) -> None:
    response = shared.post(PATH, content=body, headers={"Content-Encoding": encoding})
    assert response.status_code == status
    assert error_of(response)["hint"]


@pytest.mark.parametrize("body", [b"", b"\n\n", b"{}\n", b"[]\n{}"])
def test_a_body_without_facts_is_answered(shared: httpx.Client, body: bytes) -> None:
    answer = shared.post(PATH, content=body)
    assert answer.status_code == 200
    assert answer.json()["accepted"] == 0


def test_zstd_that_is_cut_off_never_counts_as_whole(shared: httpx.Client, lines: Lines) -> None:
    packed = zstandard.compress(lines(*(capacity(seq) for seq in range(5000))))
    response = shared.post(PATH, content=packed[: len(packed) // 2], headers={"Content-Encoding": "zstd"})
    assert response.status_code == 400


def test_a_token_is_asked_for_where_one_is_set(settings: Settings, lines: Lines, serve: Serve) -> None:
    prepare_database(settings.database_url)
    with serve(replace(settings, token="sesame")) as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "sesame"},
            {"Authorization": "Bearer é"},
        ):
            packed = {name: value.encode() for name, value in headers.items()}
            response = client.post(PATH, content=lines(capacity(0)), headers=packed)
            assert response.status_code == 401
            assert "RERAIL_TOKEN" in error_of(response)["hint"]
            assert response.headers["WWW-Authenticate"] == "Bearer"
        good = client.post(PATH, content=lines(capacity(0)), headers={"Authorization": "bearer sesame"})
        assert good.json()["accepted"] == 1


def test_a_database_that_is_away_is_said_and_nothing_is_taken(lines: Lines, serve: Serve) -> None:
    away = Settings(database_url="postgresql://rerail@127.0.0.1:1/rerail?connect_timeout=1")
    with serve(away) as client:
        response = client.post(PATH, content=lines(capacity(0)))
        assert (response.status_code, error_of(response)["code"]) == (503, "database_away")
        assert response.headers["Retry-After"] == "5"
        assert client.get("/healthz").status_code == 503
        assert client.get("/api/v1/runs").status_code == 503


def test_every_line_of_a_long_batch_of_rubbish_is_counted(client: httpx.Client) -> None:
    answer = client.post(PATH, content=b"{bad\n" * 3000).json()
    assert len(answer["rejected"]) == 1000
    assert answer["rejected_not_listed"] == 2000
    page = client.get("/api/v1/refused").json()
    assert (page["total"], page["kept"]) == (3000, 1000)


def test_names_of_every_script_survive_the_way_through(
    client: httpx.Client, lines: Lines, settled: Callable[[httpx.Client], None]
) -> None:
    run = "실험/α β?#%2F"
    body = lines({**capacity(0), "run": run, "kind": "run_started", "name": "이름\u0000"})
    assert client.post(PATH, content=body).json()["accepted"] == 1
    settled(client)
    rows = client.get("/api/v1/runs", params={"search": "실험/α"}).json()["rows"]
    assert [json.loads(json.dumps(row["run_id"])) for row in rows] == [run]
