"""Windows out of account over HTTP: declared, listed, undone, refused to other sites, and the same after a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from rerail.server.core.report import figures
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.settings import Settings
from rerail.server.store import open_store
from tests.api.conftest import S, Serve, T

RUN = "실험/a?#b"
PATH = f"/api/v1/runs/{'%EC%8B%A4%ED%97%98%2Fa%3F%23b'}"


@pytest.fixture
def running(client: httpx.Client, small_run, settled: Callable[[httpx.Client], None]) -> httpx.Client:
    """A server with a small run of 71 s."""
    client.post("/api/v1/facts", content=small_run(RUN))
    settled(client)
    return client


def window(start: float, end: float, **more: object) -> dict[str, object]:
    return {"start": T + round(start * S), "end": T + round(end * S), **more}


def elapsed(client: httpx.Client) -> float:
    return client.get(PATH).json()["elapsed_seconds"]


def test_a_window_is_declared_undone_and_declared_again(running: httpx.Client, settled, settings: Settings) -> None:
    answer = running.post(f"{PATH}/exclusions", json=window(20, 40, reason=" power ", author="Ada"))
    assert answer.status_code == 201
    declared = answer.json()
    assert (declared["window"], declared["reason"], declared["author"]) == ("people~0", "power", "Ada")
    settled(running)
    assert elapsed(running) == 51
    undone = running.delete(f"{PATH}/exclusions/people~0", params={"author": "Bo", "reason": "wrong night"})
    assert undone.json()["withdrawn"] is True
    settled(running)
    assert elapsed(running) == 71
    (listed,) = running.get(f"{PATH}/exclusions").json()["exclusions"]
    assert [(each["state"], each["author"], each["reason"]) for each in listed["changes"]] == [
        ("withdrawn", "Bo", "wrong night")
    ]
    assert running.post(f"{PATH}/exclusions/people~0/restore").json()["withdrawn"] is False
    assert running.post(f"{PATH}/exclusions/people~0/restore").json()["withdrawn"] is False
    second = running.post(f"{PATH}/exclusions", json=window(60, 500)).json()["window"]
    settled(running)
    assert elapsed(running) == 40
    assert len(running.get(f"{PATH}/exclusions").json()["exclusions"]) == 2
    # Nothing waits for the view: what was just declared can be undone at once.
    assert running.delete(f"{PATH}/exclusions/{second}").json()["withdrawn"] is True
    settled(running)
    before = running.get(PATH).json()
    store = open_store(settings.database_url)
    try:
        store.make_all_due()
        Projector(store, lambda: T + 100 * S).derive_due()
        after = figures(Queries(store).run(RUN))
    finally:
        store.close()
    same = ("exclusions", "seconds_by_phase", "waterfall", "incidents", "training_goodput", "elapsed_seconds")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (window(40, 20), "end"),
        (window(40, 40), "end"),
        ({"start": T}, "end"),
        ({**window(1, 2), "start": "yesterday"}, "start"),
        ({**window(1, 2), "start": True}, "start"),
        ({**window(1, 2), "start": 12}, "start"),
        ({**window(1, 2), "author": 7}, "author"),
        ({**window(1, 2), "author": "a" * 201}, "author"),
        ({**window(1, 2), "until": T}, "until"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(running: httpx.Client, body, field: str) -> None:
    answer = running.post(f"{PATH}/exclusions", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid_field"
    assert answer.json()["error"]["message"].startswith(f"{field}: ")
    assert running.get(f"{PATH}/exclusions").json()["exclusions"] == []


def test_an_unknown_run_and_an_unknown_window_are_404(running: httpx.Client) -> None:
    for answer in (
        running.post("/api/v1/runs/nobody/exclusions", json=window(1, 2)),
        running.get("/api/v1/runs/nobody/exclusions"),
        running.delete("/api/v1/runs/nobody/exclusions/people~0"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_run")
    answer = running.delete(f"{PATH}/exclusions/people~9")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_window")


@pytest.mark.parametrize("headers", [{"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_page_of_another_site_changes_nothing(running: httpx.Client, headers: dict[str, str], lines) -> None:
    fact = {"kind": "excluded", "run": RUN, "emitter": "x", "seq": 0, "at": T, "start": T, "end": T + S}
    for answer in (
        running.post(f"{PATH}/exclusions", json=window(1, 2), headers=headers),
        running.delete(f"{PATH}/exclusions/people~0", headers=headers),
        running.post(f"{PATH}/exclusions/people~0/restore", headers=headers),
        running.post("/api/v1/facts", content=lines(fact), headers=headers),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_page")
    assert running.get(f"{PATH}/exclusions").json()["exclusions"] == []


def test_a_page_of_this_server_and_a_program_may(running: httpx.Client) -> None:
    own = f"http://{running.base_url.netloc.decode()}"
    for headers in ({}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}):
        assert running.post(f"{PATH}/exclusions", json=window(1, 2), headers=headers).status_code == 201


def test_only_json_is_taken(running: httpx.Client) -> None:
    answer = running.post(f"{PATH}/exclusions", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    for body in (b"{", b"[]"):
        headers = {"Content-Type": "application/json"}
        assert running.post(f"{PATH}/exclusions", content=body, headers=headers).status_code == 400


def test_the_token_is_asked_for_as_at_the_intake(settings: Settings, serve: Serve, small_run) -> None:
    prepare_database(settings.database_url)
    with serve(replace(settings, token="sesame")) as client:
        good = {"Authorization": "Bearer sesame"}
        client.post("/api/v1/facts", content=small_run(RUN), headers=good)
        assert client.post(f"{PATH}/exclusions", json=window(1, 2)).status_code == 401
        assert client.delete(f"{PATH}/exclusions/people~0").status_code == 401
        assert client.get(f"{PATH}/exclusions").status_code == 200
        assert client.post(f"{PATH}/exclusions", json=window(1, 2), headers=good).status_code == 201
