"""Configs, changes and comparisons over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import httpx


def test_configs_changes_and_comparisons_are_answered(
    client: httpx.Client, small_run: Callable[..., bytes], settled: Callable[[httpx.Client], None]
) -> None:
    for run in ("a", "b"):
        client.post("/api/v1/facts", content=small_run(run), headers={"content-type": "application/x-ndjson"})
    settled(client)
    page = client.get("/api/v1/configs").json()
    assert page["total"] == 1
    (row,) = page["configs"]
    assert row["config"]["knobs"]["checkpoint_interval_steps"]["value"] == 5
    assert row["config"]["knobs"]["heartbeat_timeout"] == {
        "value": None, "unit": "s", "standing": "unknown", "source": None,
    }  # fmt: skip
    assert client.get(f"/api/v1/configs/{row['fingerprint']}").json()["runs"] == 2
    assert client.get("/api/v1/configs/changes").json() == {"changes": [], "total": 0}
    found = client.get("/api/v1/compare", params={"with": ["a", "b"]}).json()
    assert [arm["faults"] for arm in found["arms"]] == [1, 1]
    assert found["differences"][0]["training_goodput"] == 0


def test_what_is_not_known_or_does_not_fit_is_told(client: httpx.Client) -> None:
    assert client.get("/api/v1/configs/ffffffff").status_code == 404
    assert client.get("/api/v1/compare").status_code == 422
    assert client.get("/api/v1/configs", params={"sort": "beauty"}).status_code == 422
    said = client.post("/api/v1/configs/changes/a@1/actions", json={"action": "explain", "reason": "why"})
    assert said.status_code == 404
    foreign = client.post(
        "/api/v1/configs/changes/a@1/actions", json={"action": "explain"}, headers={"origin": "http://elsewhere"}
    )
    assert foreign.status_code == 403


def test_the_article_can_be_compared_with_itself_only(client: httpx.Client) -> None:
    found = client.get("/api/v1/compare", params={"with": ["article:in_process", "article:whole_job"]}).json()
    assert found["arms"][0]["reference"] and "vendor" in found["arms"][0]["about"]
    assert not found["differences"][0]["refused"]


def test_config_changes_of_incidents_and_problems_are_answered(
    client: httpx.Client, small_run: Callable[..., bytes], settled: Callable[[httpx.Client], None]
) -> None:
    client.post("/api/v1/facts", content=small_run("a"), headers={"content-type": "application/x-ndjson"})
    settled(client)
    incident = "a~0"
    assert client.get(f"/api/v1/incidents/{incident}/config-changes").json() == {"incident_id": incident, "changes": []}
    problem = client.get("/api/v1/problems").json()["rows"][0]["problem_id"]
    assert client.get(f"/api/v1/problems/{problem}/config-changes").json() == {"problem_id": problem, "changes": []}
    assert client.get("/api/v1/incidents/nobody/config-changes").status_code == 404
    assert client.get("/api/v1/problems/nobody/config-changes").status_code == 404
