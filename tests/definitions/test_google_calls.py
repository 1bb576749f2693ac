"""Every recorded call of Google's calculator gives the library's own answer: importer, intake, store, `show`.

The calls were recorded in the test-suite of `ml-goodput-measurement` 0.2.3 (Apache-2.0) with a virtual clock that
stands before the entries of some: such a call is asked as of its last entry, where the library, too, takes the end of
the job.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.server.cli import main

CALLS = Path(__file__).parent.parent / "corpus" / "google_goodput" / "calls.jsonl"
POINTS = 0.05
"""Largest difference in percentage points."""

NOT_MEANT: dict[str, str] = {}
"""Calls whose answer the definition cannot mean, by name, each with the reason. There is none."""

RECORDED = [json.loads(line) for line in CALLS.read_text().splitlines()]


def name_of(call: dict) -> str:
    """The run the importer makes of a call."""
    return f"{call['test']}.{call['seq']}"


def asked_at(call: dict) -> str:
    """The instant of the call, or of the last entry where the clock of the recording stood before it."""
    stamps = [
        value
        for entry in call["entries"]
        for name, value in entry.items()
        if isinstance(value, float) and ("time" in name and "secs" not in name)
    ]
    return str(round(max([call["query_time"], *stamps]) * 1_000_000) * 1000)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with every call imported as a run of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('google')}/rerail.sqlite3"
    assert main(["import", "google-goodput", str(CALLS), "--database-url", url]) == 0
    return url


def shown(database: str, capsys: pytest.CaptureFixture[str], run: str, as_of: str, *more: str) -> dict:
    capsys.readouterr()
    arguments = ["show", run, "--definition", "google", "--as-of", as_of, "--json", "--database-url", database, *more]
    assert main(arguments) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("call", RECORDED, ids=name_of)
def test_a_recorded_call_is_answered_as_the_library_answered(
    database: str, capsys: pytest.CaptureFixture[str], call: dict
) -> None:
    assert name_of(call) not in NOT_MEANT
    answer = shown(database, capsys, name_of(call), asked_at(call))
    details, cache = answer["definition_details"], call["cache"]
    buckets = {row["name"]: row["seconds"] for row in details["buckets"]}
    assert answer["definition"] == "google"
    assert answer["productive_seconds"] == pytest.approx(cache["productive_s"], abs=1e-3)
    assert answer["elapsed_seconds"] == pytest.approx(cache["elapsed_s"], abs=1e-3)
    for name, seconds in cache["unproductive_s"].items():
        if name != "CUSTOM_BADPUT_EVENTS":
            assert 100 * buckets[name] / cache["elapsed_s"] == pytest.approx(
                100 * seconds / cache["elapsed_s"], abs=POINTS
            ), name
    assert details["numbers"]["disruptions"] == cache["disruptions"]
    assert details["numbers"]["last_productive_step"] == cache["max_step"]
    if isinstance(call["result"], list):
        goodput, badput, last_step = call["result"][:3]
        assert 100 * answer["training_goodput"] == pytest.approx(goodput, abs=POINTS)
        assert details["numbers"]["last_productive_step"] == last_step
        shares = {row["name"]: 100 * row["share"] for row in details["buckets"]}
        for name, percent in badput.items():
            if name != "CUSTOM_BADPUT_EVENTS":
                assert shares[name] == pytest.approx(percent, abs=POINTS), name
        assert {"name": "told_goodput_pct", "value": goodput}.items() <= details["told"][0].items()
        if len(call["result"]) == 4:
            assert details["numbers"]["excluded_seconds"] == call["result"][3]
        return
    result = call["result"]
    assert answer["productive_seconds"] == pytest.approx(result["goodput_time"]["TOTAL"])
    assert answer["elapsed_seconds"] == pytest.approx(result["total_elapsed_time"])
    assert details["numbers"]["ideal_step_seconds"] == pytest.approx(result["ideal_step_time"])
    deviations = result["step_time_deviation"].values()
    mean = sum(deviations) / len(deviations)
    assert details["numbers"]["step_deviation_mean_seconds"] == pytest.approx(mean, abs=1e-6)
    for theirs, ours in (
        ("stepping_slice_efficiency", "stepping_slice_share"),
        ("available_slice_efficiency", "available_slice_share"),
    ):
        if theirs in result:
            assert details["numbers"][ours] == pytest.approx(result[theirs])


def test_importing_the_calls_again_changes_nothing(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "google-goodput", str(CALLS), "--database-url", database]) == 0
    assert "\n0 facts taken" in "\n" + capsys.readouterr().err
