"""Problems, similar incidents and nodes over HTTP, from facts to answers."""

from __future__ import annotations

import json
import time

import httpx
import pytest

S = 10**9


def failing(lines, run: str, began: int, text: str = "ValueError: bad record", node: str = "n1") -> bytes:
    """A run that trains, fails on a node, comes back and ends."""

    def at(second: int) -> int:
        return began + second * S

    launcher = {"run": run, "emitter": "launcher", "job": "1"}
    rank = {"run": run, "emitter": "rank/0", "rank": 3, "node": node, "job": "1"}
    nodes = ["n1", "n2", "n3"]
    return lines(
        {**launcher, "kind": "run_started", "seq": 0, "at": at(0), "gpus": 8},
        {**launcher, "kind": "attempt_started", "seq": 1, "at": at(0), "restart": 0, "gpus": 8, "nodes": nodes},
        {**rank, "kind": "steps", "seq": 0, "at": at(20), "restart": 0, "first_step": 1, "start": at(10),
         "durations_us": [1_000_000] * 10},
        {**rank, "kind": "evidence", "seq": 1, "at": at(29), "restart": 0, "source": "stderr", "text": text},
        {**launcher, "kind": "recovery_mark", "seq": 2, "at": at(30), "restart": 0, "stage": "noticed"},
        {**launcher, "kind": "attempt_ended", "seq": 3, "at": at(35), "restart": 0, "outcome": "failed",
         "exit_codes": {"3": 1}},
        {**launcher, "kind": "attempt_started", "seq": 4, "at": at(40), "restart": 1, "scope": "in_job", "gpus": 8,
         "nodes": nodes},
        {**rank, "kind": "steps", "seq": 2, "at": at(80), "restart": 1, "first_step": 1, "start": at(60),
         "durations_us": [1_000_000] * 20},
        {**launcher, "kind": "run_ended", "seq": 5, "at": at(81), "outcome": "completed"},
    )  # fmt: skip


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"


@pytest.fixture
def told(client: httpx.Client, lines, settled) -> httpx.Client:
    """A server that knows two runs with one fault and a third with another."""
    long_ago = time.time_ns() - 86_400 * S
    for number, (run, text) in enumerate(
        (("a", "ValueError: bad record 17"), ("b/c", "ValueError: bad record 4,711"), ("d", OOM))
    ):
        answer = client.post("/api/v1/facts", content=failing(lines, run, long_ago + number * 3600 * S, text))
        assert answer.json()["rejected"] == []
    settled(client)
    return client


def problems(client: httpx.Client, **query: str) -> list[dict[str, object]]:
    return client.get("/api/v1/problems", params=query).json()["rows"]


def act(client: httpx.Client, problem: object, status: int = 201, **said: object) -> dict[str, object]:
    answer = client.post(f"/api/v1/problems/{problem}/actions", json=said)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_list_is_searched_filtered_sorted_and_paged(told: httpx.Client):
    rows = problems(told, sort="incidents")
    assert [row["incidents"] for row in rows] == [2, 1]
    assert rows[0]["runs"] == 2
    assert rows[0]["status"] == "new"
    assert [row["cause"] for row in problems(told, cause="gpu_oom")] == ["gpu_oom"]
    assert [row["cause"] for row in problems(told, search="out memory")] == ["gpu_oom"]
    assert problems(told, status="resolved") == []
    page = told.get("/api/v1/problems", params={"limit": 1, "offset": 1, "sort": "incidents"}).json()
    assert (page["total"], [row["incidents"] for row in page["rows"]]) == (2, [1])
    assert page["statuses"]["new"] == 2
    for wrong in ({"sort": "colour"}, {"status": "great"}, {"cause": "zz"}):
        answer = told.get("/api/v1/problems", params=wrong)
        assert answer.status_code == 422
        assert next(iter(wrong)) in answer.json()["error"]["message"]


def test_a_problem_tells_why_these_are_the_same_and_where_they_struck(told: httpx.Client):
    problem = problems(told, sort="incidents")[0]["problem_id"]
    found = told.get(f"/api/v1/problems/{problem}").json()
    assert found["parts"]["cause"] == "user_exception"
    assert {each["run_id"] for each in found["occurrences"]} == {"a", "b/c"}
    shares = {each["facet"]: each["sentence"] for each in found["facet_shares"]}
    assert shares["node"] == "All 2 on node n1."
    only = told.get(f"/api/v1/problems/{problem}", params={"run": "b/c"}).json()
    assert [each["run_id"] for each in only["occurrences"]] == ["b/c"]
    assert told.get("/api/v1/problems/1:000000000000").status_code == 404


def test_what_people_do_is_told_with_who_and_when_and_can_be_undone(told: httpx.Client):
    problem = problems(told, sort="incidents")[0]["problem_id"]
    done = act(told, problem, action="resolve", reason="skip bad records", fixed_by="c0ffee", author="Ada", revision=0)
    assert done["problem"]["status"] == "resolved"
    assert done["problem"]["resolution"]["text"] == "skip bad records"
    number = done["action"]["action_id"]
    undone = act(told, problem, action="undo", undoes=number, author="Ben")
    assert undone["problem"]["status"] == "new"
    history = told.get(f"/api/v1/problems/{problem}").json()["history"]
    assert [(each["action"]["kind"], each["action"]["author"], each["in_force"]) for each in history] == [
        ("resolve", "Ada", False),
        ("undo", "Ben", True),
    ]


def test_what_people_say_is_kept_without_secrets_and_control_characters(told: httpx.Client):
    problem = problems(told, sort="incidents")[0]["problem_id"]
    done = act(told, problem, action="resolve", reason="curl -H token=0a1b2c3d4e5f gave 200", author="A\x00da")
    assert done["problem"]["resolution"]["text"] == "curl -H token=*** gave 200"
    assert done["problem"]["resolution"]["author"] == "A\ufffdda"


def test_a_resolution_does_not_outlive_what_was_said_after_it(told: httpx.Client):
    problem = problems(told, sort="incidents")[0]["problem_id"]
    done = act(told, problem, action="resolve", reason="skip bad records")
    assert done["problem"]["resolution"]["taken_back_at"] is None
    again = act(told, problem, action="reopen", reason="it was not that")
    assert again["problem"]["status"] == "known"
    assert again["problem"]["resolution"]["taken_back_at"] == again["action"]["at"]
    assert act(told, problem, action="resolve", reason="now")["problem"]["resolution"]["taken_back_at"] is None


def test_only_what_a_problem_holds_is_split_off_or_moved_from_it(told: httpx.Client):
    most, other = (row["problem_id"] for row in problems(told, sort="incidents"))
    foreign = told.get(f"/api/v1/problems/{other}").json()["occurrences"][0]["incident_id"]
    for said in (
        {"action": "split", "incidents": [foreign]},
        {"action": "move", "incidents": [foreign], "into": other},
        {"action": "split", "facet": "node", "value": "n7"},
    ):
        refused = act(told, most, 422, **said)
        assert any(word in refused["error"]["message"] for word in (str(other), "n1")), refused
    assert [row["incidents"] for row in problems(told, sort="incidents")] == [2, 1]


def test_a_new_incident_after_the_resolution_makes_it_regressed(told: httpx.Client, lines, settled):
    problem = problems(told, sort="incidents")[0]["problem_id"]
    act(told, problem, action="resolve", reason="skip bad records")
    told.post("/api/v1/facts", content=failing(lines, "late", time.time_ns() + S, "ValueError: bad record 5"))
    settled(told)
    assert [row["problem_id"] for row in problems(told, status="regressed")] == [problem]
    past = told.get("/api/v1/incidents/late~0/similar").json()
    assert past["problem"]["position"] == 3
    assert past["problem"]["problem"]["status"] == "regressed"
    assert [each["occurrence"]["incident_id"] for each in past["similar"]][:2] == ["b/c~0", "a~0"]
    assert past["similar"][0]["resolution"]["text"] == "skip bad records"
    assert past["similar"][0]["strongest"] == 10


def test_merge_split_and_move_and_what_makes_no_sense(told: httpx.Client):
    one, other = (row["problem_id"] for row in problems(told, sort="incidents"))
    act(told, one, action="merge", into=other)
    assert [row["incidents"] for row in problems(told)] == [3]
    refused = act(told, one, 422, action="known")
    assert "merged into" in refused["error"]["message"]
    split = act(told, other, action="split", facet="run", value="a", title="only a")
    assert split["problem"]["title"] == "only a"
    act(told, other, action="move", incidents=["b/c~0"], into=split["problem"]["problem_id"])
    assert sorted((row["title"], row["incidents"]) for row in problems(told))[-1] == ("only a", 2)
    for said, field in (
        ({"action": "resolve"}, "reason"),
        ({"action": "explode"}, "action"),
        ({"action": "known", "colour": "red"}, "colour"),
        ({"action": "known", "into": one}, "into"),
        ({"action": "move", "into": other, "incidents": "a~0"}, "incidents"),
        ({"action": "known", "revision": -1}, "revision"),
        ({"action": "rename", "title": "x" * 300}, "title"),
        ({"action": "known", "author": 7}, "author"),
    ):
        assert field in act(told, other, 422, **said)["error"]["message"].split(":")[0], said
    assert act(told, other, 404, action="merge", into="1:000000000000")["error"]
    assert act(told, other, 404, action="move", into=other, incidents=["nothing~0"])["error"]


def test_what_was_split_off_keeps_its_title_whatever_is_merged_into_it(told: httpx.Client):
    oom, error = (row["problem_id"] for row in sorted(problems(told), key=lambda row: row["title"]))
    for kept, other in ((error, oom), (oom, error)):  # whichever fingerprint is the larger
        facet = {"facet": "run", "value": "a" if kept == error else "d"}
        split = act(told, kept, action="split", **facet)["problem"]
        merged = act(told, other, action="merge", into=split["problem_id"])
        row = told.get(f"/api/v1/problems/{split['problem_id']}").json()["problem"]
        assert (row["title"], row["cause"]) == (split["title"], split["cause"])
        act(told, other, action="undo", undoes=merged["action"]["action_id"])


def test_who_acts_on_what_has_changed_is_told_so(told: httpx.Client):
    problem = problems(told)[0]["problem_id"]
    act(told, problem, action="known", author="Ada", revision=0)
    refused = act(told, problem, 409, action="ignore", author="Ben", revision=0)
    assert "Ada did “known”" in refused["error"]["message"]
    assert problems(told)[0]["status"] == "known"


def test_bodies_that_are_no_object_and_pages_of_other_sites_are_refused(told: httpx.Client):
    problem = problems(told)[0]["problem_id"]
    where = f"/api/v1/problems/{problem}/actions"
    assert told.post(where, content=b"{}").status_code == 415
    assert told.post(where, content=b"[1]", headers={"Content-Type": "application/json"}).status_code == 400
    assert told.post(where, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    headers = {"Content-Type": "application/json", "Origin": "http://evil.example"}
    assert told.post(where, content=json.dumps({"action": "known"}), headers=headers).status_code == 403
    assert problems(told)[0]["status"] == "new"


def test_nodes_are_listed_judged_and_told_of(told: httpx.Client):
    page = told.get("/api/v1/nodes").json()
    assert (page["total"], page["levels"]["unremarkable"]) == (3, 3)
    node = told.get("/api/v1/nodes/n1").json()
    assert {stay["run_id"] for stay in node["stays"]} == {"a", "b/c", "d"}
    assert (node["blamed"], node["blamed_count"], node["node"]["blamed"]) == ([], 0, 0)
    assert len(node["programs"]) == 3, "faults of the workload are no node's"
    assert len(told.get("/api/v1/nodes/n2").json()["present"]) == 3
    assert told.get("/api/v1/nodes/none").status_code == 404
    assert told.get("/api/v1/nodes", params={"level": "great"}).status_code == 422
