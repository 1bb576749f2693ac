"""Alerts over HTTP: from facts to what somebody does, with thresholds, channels, metrics and the fleet."""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import quote

import httpx
import pytest

from rerail.server.preparing import prepare_database

S = 10**9


def looping(lines, run: str, began: int) -> bytes:
    """A run that dies of the same fault again and again."""

    def at(second: int) -> int:
        return began + second * S

    told = [{"kind": "run_started", "run": run, "emitter": "l", "seq": 0, "at": at(0), "gpus": 8, "project": "atlas",
             "name": f"Loop of {run}"}]  # fmt: skip
    for number in range(4):
        base = {"run": run, "emitter": "l", "job": "1", "restart": number}
        start = number * 60
        told += [
            {**base, "kind": "attempt_started", "seq": number * 10 + 1, "at": at(start), "gpus": 8},
            {**base, "kind": "steps", "emitter": "r", "rank": 0, "seq": number, "at": at(start + 30),
             "first_step": 1, "start": at(start + 20), "durations_us": [1_000_000] * 10},
            {**base, "kind": "recovery_mark", "seq": number * 10 + 2, "at": at(start + 40), "stage": "noticed"},
            {**base, "kind": "attempt_ended", "seq": number * 10 + 3, "at": at(start + 45), "outcome": "failed"},
        ]  # fmt: skip
    return lines(*told)


@pytest.fixture
def told(client: httpx.Client, lines) -> httpx.Client:
    """A server that saw two crash loops, and whose rules looked."""
    for run in ("a", "b/c:d"):
        answer = client.post("/api/v1/facts", content=looping(lines, run, time.time_ns() - 300 * S))
        assert answer.json()["rejected"] == []
    until = time.monotonic() + 30
    while len({row["run_id"] for row in rows(client)}) < 2:
        assert time.monotonic() < until, "the rules saw nothing"
        time.sleep(0.05)
    return client


def rows(client: httpx.Client, **query: str) -> list[dict]:
    return client.get("/api/v1/alerts", params=query).json()["rows"]


def act(client: httpx.Client, key: str, status: int = 201, **said: object) -> dict:
    answer = client.post(f"/api/v1/alerts/{quote(key, safe='')}/actions", json=said)
    assert answer.status_code == status, answer.text
    return answer.json()


def one(client: httpx.Client, run: str) -> str:
    return next(row["alert"] for row in rows(client, run=run) if row["rule"] == "same_fault_again")


def test_alerts_are_listed_narrowed_and_told_of(told: httpx.Client):
    assert all(row["standing"] == "open" for row in rows(told))
    assert {row["run_id"] for row in rows(told, run="a")} == {"a"}
    assert {row["rule"] for row in rows(told, search="same fault")} == {"same_fault_again"}
    assert rows(told, standing="resolved") == []
    assert told.get("/api/v1/alerts", params={"standing": "great"}).status_code == 422
    assert told.get("/api/v1/alerts/silence::nobody").status_code == 404


def test_somebody_takes_it_silences_it_and_undoes_that(told: httpx.Client):
    for run in ("a", "b/c:d"):
        key = one(told, run)
        done = act(told, key, action="acknowledge", author="Ada")
        assert done["alert"]["standing"] == "acknowledged"
        assert done["alert"]["acknowledged_by"] == "Ada"
        silenced = act(told, key, action="silence", seconds=3600, author="Ben", reason="known")
        assert silenced["alert"]["standing"] == "silenced"
        refused = act(told, key, 409, action="resolve", revision=done["action"]["action_id"])
        assert "Ben did “silence”" in refused["error"]["message"]
        undone = act(told, key, action="undo", undoes=silenced["action"]["action_id"])
        assert undone["alert"]["standing"] == "acknowledged"
        history = undone["alert"]["history"]
        assert [(each["action"], each["is_undone"]) for each in history] == [
            ("fired", False), ("acknowledge", False), ("silence", True), ("undo", False),
        ]  # fmt: skip
        assert "until" in act(told, key, 422, action="silence")["error"]["message"]


def test_a_group_is_acted_on_and_alerts_carry_the_names_of_their_runs(told: httpx.Client):
    row = next(each for each in rows(told, run="a") if each["rule"] == "same_fault_again")
    assert row["run_name"] == "Loop of a"
    assert {each["run_id"] for each in rows(told, search="loop OF")} == {"a", "b/c:d"}
    path = f"/api/v1/alerts/groups/{quote(row['group'], safe='')}/actions"
    done = told.post(path, json={"action": "acknowledge", "author": "Ada"})
    assert done.status_code == 201
    mine = [each for each in rows(told) if each["group"] == row["group"]]
    assert done.json()["count"] == len(mine) > 1
    assert {each["standing"] for each in mine} == {"acknowledged"}
    undone = told.post(path, json={"action": "undo", "undoes": done.json()["actions"][0]["action_id"]})
    assert undone.json()["count"] == len(mine)
    assert told.post("/api/v1/alerts/groups/rule:nobody/actions", json={"action": "resolve"}).status_code == 404


def test_pages_of_other_sites_change_nothing(told: httpx.Client):
    headers = {"Origin": "http://evil.example", "Content-Type": "application/json"}
    for method, path in (
        ("POST", "/api/v1/alerts/silence::a/actions"),
        ("POST", "/api/v1/alerts/groups/rule:silence/actions"),
        ("POST", "/api/v1/alerts/rules"),
        ("POST", "/api/v1/alerts/channels"),
        ("POST", "/api/v1/alerts/channels/1/test"),
        ("DELETE", "/api/v1/alerts/channels/1"),
        ("POST", "/api/v1/alerts/messages/1/retry"),
    ):
        assert told.request(method, path, headers=headers, content=b"{}").status_code == 403, path


def test_thresholds_are_tried_saved_and_undone(told: httpx.Client):
    tried = told.post("/api/v1/alerts/rules/dry-run", json={"rule": "same_fault_again", "values": {"times": 50}}).json()
    assert (tried["runs"], tried["alerts"], tried["alerts_now"]) == (2, 0, 2)
    saved = told.post("/api/v1/alerts/rules", json={"rule": "silence", "values": {"seconds": 60}, "author": "Ada"})
    assert saved.status_code == 201
    shown = {each["rule"]: each for each in told.get("/api/v1/alerts/rules").json()["rules"]}
    assert shown["silence"]["thresholds"][0]["value"] == 60
    assert len(shown) == 15
    change = saved.json()["change_id"]
    assert told.post("/api/v1/alerts/rules", json={"rule": "stall", "undoes": change}).status_code == 422
    undone = told.post("/api/v1/alerts/rules", json={"undoes": change})
    assert (undone.status_code, undone.json()["rule"]) == (201, "silence")
    wrong = told.get("/api/v1/alerts/rules/dry-run/nobody").json()["error"]
    assert (wrong["code"], wrong["message"]) == ("unknown_dry_run", "no dry run named nobody")
    assert told.get(f"/api/v1/alerts/rules/dry-run/{tried['dry_run']}").json() == tried
    assert tried["is_whole"] is True
    for said, field in (
        ({"rule": "nothing", "values": {"seconds": 1}}, "rule"),
        ({"rule": "silence", "values": {"colour": 1}}, "values"),
        ({"rule": "silence", "values": {"seconds": "many"}}, "values.seconds"),
        ({"rule": "same_fault_again", "values": {"times": 2.5}}, "values.times"),
        ({"rule": "silence", "values": {"on": 0.5}}, "values.on"),
        ({"rule": "silence", "values": 5}, "values"),
    ):
        answer = told.post("/api/v1/alerts/rules", json=said)
        assert (answer.status_code, answer.json()["error"]["message"].split(":")[0]) == (422, field)
        assert told.post("/api/v1/alerts/rules/dry-run", json=said).status_code == 422


def test_channels_are_added_tested_and_shown_without_their_secrets(client: httpx.Client):
    said = {"name": "night", "kind": "webhook", "address": "http://127.0.0.1:9/token-abc", "secret": "s3cr3t"}
    added = client.post("/api/v1/alerts/channels", json=said).json()
    assert added["has_secret"] is True
    path = f"/api/v1/alerts/channels/{added['channel_id']}"
    assert client.post(f"{path}/test").status_code == 202
    until = time.monotonic() + 20
    while not any(each["error"] for each in client.get("/api/v1/alerts/messages").json()["messages"]):
        assert time.monotonic() < until
        time.sleep(0.05)
    everything = client.get("/api/v1/alerts/channels").text + client.get("/api/v1/alerts/messages").text
    assert "token-abc" not in everything
    assert "s3cr3t" not in everything
    assert client.patch(path, json={"is_on": False}).json()["is_on"] is False
    assert client.patch(path, json={"address": "nonsense"}).status_code == 422
    assert client.delete(path).status_code == 200
    assert client.delete(path).status_code == 404
    for wrong in ({"kind": "pigeon"}, {"address": "ftp://x"}, {"name": ""}, {"is_on": "yes"}, {"colour": 1}):
        assert client.post("/api/v1/alerts/channels", json=said | wrong).status_code == 422, wrong
    refused = client.post("/api/v1/alerts/channels", json=said | {"kind": "apprise", "address": "nonsense://topsecret"})
    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("address: Apprise ")
    assert "topsecret" not in refused.text


def test_metrics_are_for_prometheus(told: httpx.Client):
    answer = told.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    told_of = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert float(told_of['rerail_runs{state="alive"}']) + float(told_of['rerail_runs{state="silent"}']) == 2
    assert 'rerail_run_training_goodput{run="b/c:d",project="atlas"}' in told_of
    assert float(told_of['rerail_alerts_open{rule="same_fault_again",severity="urgent"}']) == 2
    assert float(told_of['rerail_intake_lines_total{result="accepted"}']) == 34
    assert float(told_of["rerail_projector_lag_seconds"]) >= 0


def test_the_fleet_names_who_needs_a_person(told: httpx.Client):
    view = told.get("/api/v1/fleet-page").json()
    assert {each["run_id"] for each in view["wanting"]} == {"a", "b/c:d"}
    assert 0 < view["now"]["training_goodput"] < 1
    assert view["before"]["training_goodput"] is None
    assert len(view["columns"]) == 56


def test_a_token_is_asked_for_where_one_is_set(settings, serve):
    prepare_database(settings.database_url)
    with serve(replace(settings, token="let-me-in")) as client:
        assert client.post("/api/v1/alerts/rules", json={}).status_code == 401
        headers = {"Authorization": "Bearer let-me-in"}
        assert client.post("/api/v1/alerts/rules", json={}, headers=headers).status_code == 422
