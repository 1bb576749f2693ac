"""AWS's test case: its log and its results become a run, and what it printed of itself stands beside its definition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.server.cli import main
from rerail.server.core.facts import Phase, Scope
from tests.definitions.measuring import Reading, imported

# Two ranks, 120 steps of a second, a checkpoint at 50, an exception after step 70 on rank 1, an in-process restart.
EVENTS: list[tuple[float, int | None, str]] = [
    (0, None, "World size: 2"),
    (4, None, "Distributed initialized: rank=0, world_size=2"),
    (10, None, "Starting training from step 0..."),
    *((10 + step, None, f"Step {step}, Loss: 3.1, Wall: {10 + step}s, Restarts: 0") for step in range(10, 51, 10)),
    (60, None, "Saving checkpoint at step 50..."),
    (65, None, "Checkpoint saved in 5.000s"),
    *((15 + step, None, f"Step {step}, Loss: 2.9, Wall: {15 + step}s, Restarts: 0") for step in (60, 70)),
    (85, 1, "INJECTING FAULT at step 70! type=exception, fault #1"),
    (100, None, "IN-PROCESS RESTART #1"),
    (102, None, "Distributed initialized: rank=0, world_size=2"),
    (109, None, "Loaded DCP checkpoint from step 50 (dir=dcp_step_50)"),
    (
        110,
        None,
        "Recovery overhead [in-process]: shutdown=15.000s, startup=10.000s (NCCL: 2.000s, Model: 3.000s, "
        "Ckpt: 4.000s, DL: 1.000s), total=25.000s, resumed from step 50",
    ),
    (110, None, "Starting training from step 50..."),
    *((60 + step, None, f"Step {step}, Loss: 2.5, Wall: {60 + step}s, Restarts: 1") for step in range(60, 121, 10)),
    (180, None, "TRAINING SUMMARY - NVRx IN-PROCESS RESTART"),
    (180, None, "Training Goodput: 83.3%     Infra Goodput: 80.6%"),
    (180, None, "Wasted steps: 20 (20.0s), Shutdown: 15.0s, Startup: 10.0s"),
]


def log_lines() -> list[bytes]:
    lines = []
    for seconds, only, text in EVENTS:
        stamp = f"2026-03-17 19:{int(seconds) // 60:02d}:{int(seconds) % 60:02d},000"
        ranks = (0, 1) if only is None else (only,)
        lines += [f"[Rank {rank}] {stamp} - __main__ - INFO - {text}\n".encode() for rank in ranks]
    return [b"some library: a line that is not of the case\n", *lines]


def test_a_log_becomes_a_run_whose_every_second_is_told() -> None:
    facts, refused = imported("aws-nvrx", log_lines())
    assert refused == []
    reading = Reading(facts, max(fact.at for fact in facts), run="log")
    view = reading.view
    assert [attempt.scope for attempt in view.attempts] == [None, Scope.IN_PROCESS]
    assert [rollback.steps for rollback in view.rollbacks] == [20]
    seconds = {phase: length / 1e9 for phase, length in view.account.ns_by_phase}
    assert seconds[Phase.TRAINING] == 120
    assert seconds[Phase.RECOMPUTING] == 20
    assert seconds[Phase.SAVING] == 5
    assert seconds[Phase.LOADING] == 4
    assert seconds[Phase.DETECTING] == 15
    assert view.checkpoint.newest_durable_step == 50
    assert view.incidents[0].evidence[0].text.startswith("INJECTING FAULT at step 70")
    assert view.data_quality.contradictory == 0
    aws = reading.under("aws")
    assert aws.training == pytest.approx(120 / 180)
    assert aws.infrastructure == pytest.approx(1 - 25 / 180)
    assert {each.name: each.length_ns / 1e9 for each in aws.buckets} == {
        "shutdown": 15, "startup": 10, "checkpoint": 5, "wasted": 20,
    }  # fmt: skip
    assert "printed 83.3" in aws.difference
    assert {each.name: each.value for each in aws.told}["infra_goodput_pct"] == 80.6


def test_results_join_a_log_and_a_bad_number_in_them_costs_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, results = tmp_path / "train.log", tmp_path / "results.json"
    log.write_bytes(b"".join(log_lines()))
    told = {
        "experiment_type": "inprocess",
        "training_goodput_pct": 55.0,
        "infra_goodput_pct": "much",
        "total_faults": 1,
    }
    results.write_text(json.dumps(told, indent=2))
    database = f"sqlite:///{tmp_path}/rerail.sqlite3"
    arguments = ["import", "aws-nvrx", str(log), str(results), "--run", "arm", "--database-url", database]
    assert main(arguments) == 0
    told = capsys.readouterr().err
    assert f"{results}:1: infra_goodput_pct: not a number (got much)" in told
    assert "as of the time the file was written" in told
    assert main(["show", "arm", "--definition", "aws", "--json", "--database-url", database]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["training_goodput"] == pytest.approx(120 / 180)
    assert {"total_faults", "training_goodput_pct"} <= {each["name"] for each in answer["definition_details"]["told"]}
    assert "printed 55.0" in answer["definition_details"]["difference"]
    assert main(arguments) == 0
    assert "\n0 facts taken" in "\n" + capsys.readouterr().err


@pytest.mark.parametrize("body", [b"", b"\n\n", b"no line of it\n", b"{\n", b"[1]\n", bytes(range(256))])
def test_what_is_no_output_of_the_case_is_refused_and_nothing_raises(body: bytes) -> None:
    facts, refused = imported("aws-nvrx", body.splitlines(keepends=True))
    assert facts == []
    assert len(refused) == (1 if body.strip() else 0)


def test_results_alone_are_told_figures_of_a_run_without_a_timeline(tmp_path: Path, capsys) -> None:
    results = tmp_path / "arm7" / "results.json"
    results.parent.mkdir()
    results.write_text(json.dumps({"training_goodput_pct": 93.1, "infra_goodput_pct": 97.2}))
    database = f"sqlite:///{tmp_path}/rerail.sqlite3"
    assert main(["import", "aws-nvrx", str(results), "--database-url", database]) == 0
    capsys.readouterr()
    assert main(["show", "arm7", "--definition", "aws", "--json", "--database-url", database]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["training_goodput"] is None
    assert "printed 93.1" in answer["definition_details"]["difference"]
    assert set(answer["definition_details"]["reasons"]) == {"training_goodput", "infrastructure_goodput"}
