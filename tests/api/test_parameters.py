"""What is asked wrongly is told: a parameter nobody reads, a method that a path has not, an instant before a run."""

from __future__ import annotations

import httpx
import pytest


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("/api/v1/runs?stat=alive", "stat: not a parameter of GET /api/v1/runs", "did you mean state?"),
        ("/api/v1/alerts?limit=1&who=me", "who: not a parameter of GET /api/v1/alerts", "limit, offset, run, search"),
        ("/api/v1/search?query=nccl", "query: not a parameter of GET /api/v1/search", "limit, offset, q"),
    ],
)
def test_a_parameter_that_nobody_reads_is_refused_with_its_name(
    client: httpx.Client, path: str, message: str, hint: str
):
    answer = client.get(path)
    error = answer.json()["error"]
    assert answer.status_code == 422
    assert error["code"] == "unknown_parameter" and error["message"] == message and hint in error["hint"]


def test_parameters_that_are_read_by_hand_are_known(client: httpx.Client):
    assert client.get("/api/v1/runs/nobody?as_of=2026-01-01&from=1&to=2").json()["error"]["code"] == "unknown_run"
    assert client.get("/api/v1/fleet?from=2026-01-01&to=2026-01-02").status_code == 200


def test_a_path_that_takes_another_method_says_which(client: httpx.Client):
    answer = client.put("/api/v1/notes/1", json={})
    assert answer.status_code == 405 and answer.headers["allow"] == "GET"
    assert "it takes GET" in answer.json()["error"]["message"]
    assert client.put("/api/v1/nothing", json={}).status_code == 404


def test_before_its_first_fact_a_run_had_not_begun(client: httpx.Client):
    line = '{"kind":"run_started","run":"young","emitter":"e","seq":0,"at":1750000000000000000}'
    client.post("/api/v1/facts", content=line, headers={"Content-Type": "application/x-ndjson"})
    answer = client.get("/api/v1/runs/young?as_of=2020-01-01")
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_begun"
    assert "had not begun at 2020-01-01T00:00:00" in answer.json()["error"]["message"]
    assert "first fact is of 2025-06-15T15:06:40" in answer.json()["error"]["message"]
