"""`rerail problems`, `problem`, `nodes`: over a synthetic fleet, in words and as JSON; replay loses nothing of it."""

from __future__ import annotations

import json

import pytest

from rerail.server.cli import main

END = "2026-03-01T00:00:00Z"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of a database with a fleet in it."""
    address = f"sqlite:///{tmp_path_factory.mktemp('fleet') / 'rerail.sqlite3'}"
    told = ["synth", "--runs", "12", "--ranks", "64", "--days", "3", "--faults", "12", "--seed", "4", "--end", END]
    assert main([*told, "--database-url", address]) == 0
    return address


@pytest.fixture
def shown(fleet: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("RERAIL_DATABASE_URL", fleet)
    monkeypatch.delenv("RERAIL_URL", raising=False)
    capsys.readouterr()

    def ask(*arguments: str) -> dict:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


def test_every_unplanned_incident_of_a_fleet_is_in_exactly_one_problem(shown):
    page = shown("problems", "--limit", "1000")
    found: list[str] = []
    for row in page["rows"]:
        one = shown("problem", row["problem_id"])
        assert one["occurrence_count"] == row["incidents"] == len(one["occurrences"])
        found += [each["incident_id"] for each in one["occurrences"]]
    wanted = [
        incident["incident_id"]
        for run in shown("runs", "--limit", "100")["rows"]
        for incident in shown("show", run["run_id"])["incidents"]
        if not incident["planned"]
    ]
    assert sorted(found) == sorted(wanted)
    assert len(found) > 15


def test_an_incident_knows_its_fingerprint_its_problem_and_those_like_it(shown):
    problem = shown("problems", "--sort", "incidents")["rows"][0]
    newest = shown("problem", problem["problem_id"])["occurrences"][0]["incident_id"]
    found = shown("incident", newest)
    assert found["incident"]["fingerprint"] == problem["problem_id"]
    assert found["incident"]["fingerprint_parts"]["cause"] == problem["cause"]
    assert found["past"]["problem"]["position"] == problem["incidents"]
    assert found["past"]["similar"][0]["reasons"][0] == "The same fault, by every part of its fingerprint."


def test_what_is_said_is_kept_by_replay_and_undone_by_its_number(shown, capsys: pytest.CaptureFixture[str]):
    rows = shown("problems", "--sort", "incidents")["rows"]
    one, other = rows[0]["problem_id"], rows[1]["problem_id"]
    shown("problem", one, "--resolve", "new cables", "--fixed-by", "c0ffee", "--author", "Ada")
    merged = shown("problem", other, "--merge-into", one, "--author", "Ada", "--reason", "one fault")
    assert merged["problem"]["incidents"] == rows[0]["incidents"] + rows[1]["incidents"]

    def standing() -> list[object]:
        """Everything but how long incidents that are open have taken so far."""
        kept = ("problem_id", "title", "status", "incidents", "runs", "nodes", "first_at", "revision", "resolution")
        return [[row[name] for name in kept] for row in shown("problems", "--limit", "1000")["rows"]]

    before = standing()
    assert main(["replay"]) == 0
    capsys.readouterr()
    assert standing() == before
    assert main(["problem", one]) == 0
    printed = capsys.readouterr().out
    assert "resolved" in printed and "by Ada: new cables (c0ffee)" in printed and "merge by Ada" in printed
    shown("problem", other, "--undo", str(merged["action"]["action_id"]))
    assert [row["incidents"] for row in shown("problems", "--sort", "incidents")["rows"]] == [
        row["incidents"] for row in rows
    ]


def test_nodes_are_judged_in_words_and_numbers(shown, capsys: pytest.CaptureFixture[str]):
    page = shown("nodes", "--limit", "1000")
    assert page["total"] == len(page["rows"]) > 8
    worst = page["rows"][0]
    assert worst["lemon"]["level"] in ("lemon", "suspect", "unremarkable")
    one = shown("nodes", worst["node"])
    assert len(one["blamed"]) == one["blamed_count"] >= worst["blamed"]
    assert main(["nodes", worst["node"]]) == 0
    assert worst["lemon"]["sentence"] in capsys.readouterr().out
    assert main(["nodes"]) == 0
    assert worst["node"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["problem", "1:000000000000"], "no problem named 1:000000000000"),
        (["problems", "--sort", "colour"], "cannot be sorted by 'colour'"),
        (["nodes", "nowhere"], "no node named nowhere"),
        (["problem", "1:000000000000", "--known"], "no problem named"),
        (["problem", "x", "--split", "node"], "FACET=VALUE"),
        (["problem", "x", "--fixed-by", "y", "--known"], "--fixed-by"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(shown, capsys: pytest.CaptureFixture[str], arguments, said: str):
    assert main(arguments) == 1
    told = capsys.readouterr().err.strip()
    assert said in told and "\n" not in told
