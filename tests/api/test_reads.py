"""Reads: the figures of pages as JSON, every path answers or says why not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest

T = 1_760_000_000_000_000_000
S = 10**9
FACTS = "/api/v1/facts"


@pytest.fixture(scope="module")
def runs(
    shared: httpx.Client, small_run: Callable[..., bytes], settled: Callable[[httpx.Client], None]
) -> httpx.Client:
    """A client of a server that knows three runs."""
    for run in ("a", "team/b", "a/timeline"):
        assert shared.post(FACTS, content=small_run(run)).json()["accepted"] == 10
    settled(shared)
    return shared


def test_runs_are_listed_with_their_figures(runs: httpx.Client) -> None:
    page = runs.get("/api/v1/runs", params={"search": "team"}).json()
    assert page["total"] == 1
    row = page["rows"][0]
    assert (row["run_id"], row["state"], row["high_water_step"], row["gpus"]) == ("team/b", "ended", 16, 8)
    assert row["elapsed_seconds"] == pytest.approx(71)
    assert sum(row["seconds_by_phase"].values()) == pytest.approx(71)
    assert row["started_at"] == "2025-10-09T08:53:20.000000Z"


def test_a_run_answers_with_the_figures_of_the_command_line(runs: httpx.Client) -> None:
    shown = runs.get("/api/v1/runs/a").json()
    assert shown["run_id"] == "a"
    assert shown["restarts"] == 1
    assert shown["elapsed_seconds"] == pytest.approx(71)
    assert shown["seconds_by_phase"]["recomputing"] == pytest.approx(4)
    assert len(shown["incidents"]) == 1


@pytest.mark.parametrize("path", ["team/b", "team%2Fb"])
def test_slashes_in_a_run_id_may_be_encoded_or_not(runs: httpx.Client, path: str) -> None:
    assert runs.get(f"/api/v1/runs/{path}").json()["run_id"] == "team/b"
    assert runs.get(f"/api/v1/runs/{path}/timeline").json()["run_id"] == "team/b"


def test_a_run_that_ends_like_a_path_is_told_from_the_path(runs: httpx.Client) -> None:
    assert runs.get("/api/v1/runs/a%2Ftimeline").json()["run_id"] == "a/timeline"
    assert "sliding" in runs.get("/api/v1/runs/a/timeline").json()
    assert "sliding" in runs.get("/api/v1/runs/a%2Ftimeline/timeline").json()


def test_the_past_is_shown_as_its_facts_tell_it(runs: httpx.Client) -> None:
    past = runs.get("/api/v1/runs/a", params={"as_of": T + 25 * S}).json()
    assert past["restarts"] == 0
    assert past["high_water_step"] == 10
    assert runs.get("/api/v1/runs/a", params={"as_of": T // S - 5}).status_code == 404


@pytest.mark.parametrize(
    "edges",
    [
        {"from": "2025-10-09T08:53:40Z", "to": "2025-10-09T08:53:55Z"},
        {"from": "2025-10-09T10:53:40+02:00", "to": str(T + 35 * S)},
        {"from": str(T // S + 20), "to": f"{T // S + 35}.0"},
    ],
)
def test_a_window_is_clipped_from_the_run(runs: httpx.Client, edges: dict[str, str]) -> None:
    window = runs.get("/api/v1/runs/a", params=edges).json()
    assert (window["from_ns"], window["to_ns"]) == (T + 20 * S, T + 35 * S)
    assert window["training_goodput"] == 0
    assert window["elapsed_seconds"] == pytest.approx(15)


def test_the_timeline_has_everything_a_picture_needs(runs: httpx.Client) -> None:
    shown = runs.get("/api/v1/runs/a/timeline").json()
    assert shown["is_exact"]
    spans = shown["spans"]
    assert len(spans["edges_us"]) == len(spans["phase"]) + 1
    assert spans["edges_us"] == sorted(spans["edges_us"])
    assert spans["edges_us"][0] * 1000 == T
    assert spans["edges_us"][-1] * 1000 == T + 71 * S
    assert shown["attempts"]["number"] == [0, 1]
    assert len(shown["incidents"]) == 1
    assert shown["sliding"]["at_us"][-1] == spans["edges_us"][-1]
    assert shown["steps"]["step"]
    part = runs.get("/api/v1/runs/a/timeline", params={"from": T + 21 * S, "to": T + 22 * S, "window": 5}).json()
    assert part["spans"]["edges_us"] == [(T + 21 * S) // 1000, (T + 22 * S) // 1000]
    assert set(part["sliding"]["training"]) <= {0.0, *part["sliding"]["training"]}
    assert part["window_seconds"] == 5


def test_the_fleet_is_the_sum_of_the_runs_in_a_range(runs: httpx.Client) -> None:
    edges = {"from": str(T), "to": str(T + 71 * S), "resolution": "minute"}
    sums = runs.get("/api/v1/fleet", params=edges).json()
    assert sums["runs"] >= 3
    assert sums["resolution_seconds"] == 60
    one = runs.get("/api/v1/runs/a", params={"from": str(T), "to": str(T + 71 * S)}).json()["seconds_by_phase"]
    cells = [cell for each in sums["bins"] for cell in each["cells"]]
    recomputed = sum(cell["seconds"] for cell in cells if cell["phase"] == "recomputing")
    assert recomputed >= 3 * one["recomputing"] > 0
    assert {cell["account"] for cell in cells if cell["phase"] == "recomputing"} == {"rework"}
    assert runs.get("/api/v1/fleet", params={"from": str(T), "to": str(T)}).json()["bins"] == []


def test_an_incident_is_found_by_its_id(runs: httpx.Client) -> None:
    (listed,) = runs.get("/api/v1/runs/a/incidents").json()["rows"]
    shown = runs.get(f"/api/v1/incidents/{quote(listed['incident_id'], safe='')}").json()
    assert shown["incident"]["incident_id"] == listed["incident_id"]
    assert shown["run"]["run_id"] == "a"
    assert [attempt["number"] for attempt in shown["attempts"]] == [0, 1]
    assert shown["config"] == '{"checkpoint_interval_steps":5}'
    assert sum(shown["incident"]["parts_seconds"].values()) == pytest.approx(listed["time_to_recover_seconds"])
    assert runs.get("/api/v1/incidents").json()["total"] >= 3


def test_emitters_and_storage_are_shown(runs: httpx.Client) -> None:
    emitters = runs.get("/api/v1/emitters", params={"run": "team/b"}).json()
    assert [row["emitter"] for row in emitters] == ["launcher", "rank/0"]
    assert emitters == runs.get("/api/v1/runs/team/b/emitters").json()
    assert runs.get("/api/v1/storage").json()["facts"] >= 30


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/runs/nobody", 404, "unknown_run"),
        ("/api/v1/runs/nobody/timeline", 404, "unknown_run"),
        ("/api/v1/runs/nobody/incidents", 404, "unknown_run"),
        ("/api/v1/emitters?run=nobody", 404, "unknown_run"),
        ("/api/v1/incidents/nothing", 404, "unknown_incident"),
        ("/api/v1/runs?sort=document", 422, "invalid_parameter"),
        ("/api/v1/runs?limit=0", 422, "invalid_parameter"),
        ("/api/v1/runs/a?as_of=yesterday", 422, "invalid_parameter"),
        ("/api/v1/runs/a?definition=mine", 422, "invalid_parameter"),
        ("/api/v1/runs/a?from=5", 422, "invalid_parameter"),
        ("/api/v1/runs/a/timeline?from=2000000000&to=1900000000", 422, "invalid_parameter"),
        ("/api/v1/runs/a/timeline?width=nan", 422, "invalid_parameter"),
        ("/api/v1/fleet?resolution=week", 422, "invalid_parameter"),
        ("/api/v1/fleet?from=2000000000&to=1900000000", 422, "invalid_parameter"),
        ("/api/v1/fleet?from=1700000000&to=1900000000&resolution=minute", 422, "invalid_parameter"),
        ("/api/v2/runs", 404, "unknown_path"),
        ("/api/", 404, "unknown_path"),
        ("/api/v1/facts", 405, "method_not_allowed"),
    ],
)
def test_what_cannot_be_answered_says_why(runs: httpx.Client, path: str, status: int, code: str) -> None:
    response = runs.get(path)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code


def test_an_unchanged_answer_is_not_sent_again(runs: httpx.Client) -> None:
    first = runs.get("/api/v1/runs/a/timeline")
    again = runs.get("/api/v1/runs/a/timeline", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["Content-Encoding"] == "gzip"


def test_changes_can_be_followed_by_polling(runs: httpx.Client, small_run: Callable[..., bytes], settled) -> None:
    cursor = runs.get("/api/v1/changes").json()["cursor"]
    assert runs.get("/api/v1/changes", params={"since": cursor}).json()["run_ids"] == []
    runs.post(FACTS, content=small_run("new"))
    settled(runs)
    assert "new" in runs.get("/api/v1/changes", params={"since": cursor}).json()["run_ids"]


def test_the_documentation_is_served_from_here_and_names_every_path(runs: httpx.Client) -> None:
    for path in ("/docs", "/api/docs"):
        page = runs.get(path).text
        assert "http:" not in page
        assert "https:" not in page
        assert "//" not in page.replace("</", "")
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "docs.js"):
        assert runs.get(f"/api/static/{name}").status_code == 200
    assert runs.get("/api/static/..%2Fapp.py").status_code == 404
    described = runs.get("/api/openapi.json").json()["paths"]
    for path in ("facts", "runs", "runs/{run_id}", "runs/{run_id}/timeline", "incidents/{incident_id}", "events"):
        assert f"/api/v1/{path}" in described
    assert {entry["name"] for entry in described["/api/v1/runs/{run_id}"]["get"]["parameters"]} == {
        "run_id",
        "as_of",
        "from",
        "to",
        "definition",
    }


def test_health_is_told(runs: httpx.Client) -> None:
    assert runs.get("/healthz").json()["status"] == "ok"


def test_reading_and_writing_at_once_never_fails(runs: httpx.Client, small_run: Callable[..., bytes]) -> None:
    bad: list[object] = []

    def read() -> None:
        for _ in range(8):
            for path in ("/api/v1/runs", "/api/v1/runs/a", "/api/v1/runs/a/timeline"):
                response = runs.get(path)
                if response.status_code != 200:
                    bad.append(response.text)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(12):
        response = runs.post(FACTS, content=small_run(f"more-{number}"))
        if response.status_code != 200:
            bad.append(response.text)
    for reader in readers:
        reader.join()
    assert bad == []


@pytest.mark.parametrize("query", ["offset=99999999999999999999", "offset=-1", "state=foo", "sort=nonsense", "limit=0"])
def test_a_list_that_cannot_be_is_refused_and_not_a_bug(client, query: str):
    answer = client.get(f"/api/v1/runs?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid_parameter"


def test_who_cannot_see_is_told_for_all_runs_that_are_not_over(
    client: httpx.Client, settled: Callable[[httpx.Client], None]
) -> None:
    """One row for each source, whatever runs it is blind of; what sees again, and runs that are over, are left out."""
    assert client.get("/api/v1/blind").json() == {"rows": [], "total": 0, "runs": 0, "is_whole": True}
    started = [{"kind": "attempt_started", "run": run, "emitter": "a", "seq": 0, "at": T} for run in ("a", "b", "over")]
    down: list[dict[str, object]] = [
        {"kind": "blind", "run": run, "emitter": "slurm", "seq": 1, "at": T + place * S, "source": "slurm sacct",
         "since": T + place * S, "reason": "sacct is not installed here"}
        for place, run in enumerate(("b", "a", "over"))
    ]  # fmt: skip
    down += [
        {"kind": "blind", "run": "a", "emitter": f"agent/{node}", "node": node, "seq": 1, "at": T + 9 * S,
         "source": "kernel", "since": T + 9 * S, "reason": "/dev/kmsg: Operation not permitted"}
        for node in ("n1", "n2")
    ]  # fmt: skip
    down.append({**down[-1], "seq": 2, "at": T + 20 * S, "until": T + 20 * S, "reason": None})
    over = {"kind": "run_ended", "run": "over", "emitter": "a", "seq": 3, "at": T + 30 * S, "outcome": "completed"}
    content = "\n".join(json.dumps({name: value for name, value in row.items() if value is not None})
                        for row in [*started, *down, over])  # fmt: skip
    assert client.post(FACTS, content=content.encode()).json()["rejected"] == []
    settled(client)
    page = client.get("/api/v1/blind").json()
    assert (page["total"], page["runs"], page["is_whole"]) == (2, 2, True)
    queue, kernel = page["rows"]
    assert (queue["source"], queue["runs"], queue["run_count"]) == ("slurm sacct", ["b", "a"], 2)
    assert queue["since"] == "2025-10-09T08:53:20.000000Z" and "management node" in queue["mend"]
    assert (kernel["node"], kernel["emitter"], kernel["runs"]) == ("n1", "agent/n1", ["a"])
    assert [row["source"] for row in client.get("/api/v1/blind", params={"run": "b"}).json()["rows"]] == ["slurm sacct"]
