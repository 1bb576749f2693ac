"""Files of one-logger: of a process that was killed at its 17th step, and of the next, which went on from step 10.

Both were written by `nv-one-logger-training-telemetry` 2.3.1 itself: initialization in four spans of 20 ms, steps of
30 ms told five together, saves of 50 ms (the first process sync, the second async), a validation of 30 ms.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.server.cli import main
from rerail.server.core.facts import CheckpointLoaded, CheckpointMoment, Fact, RecoveryMark, Steps
from tests.import_truth import folded, imported
from tests.story import seconds_by_phase

CORPUS = Path(__file__).parent.parent / "corpus" / "one_logger"
FILES = (CORPUS / "killed.jsonl", CORPUS / "resumed.jsonl")


@pytest.fixture(scope="module")
def facts() -> list[Fact]:
    return imported("one-logger", CORPUS, run="llm")


def test_attempts_steps_and_the_rollback_are_those_of_the_run(facts: list[Fact]):
    fold, view = folded(facts)
    assert len(view.attempts) == 2
    assert sum(fact.step_count for fact in facts if isinstance(fact, Steps)) == 15 + 20
    assert (view.high_water_step, view.current_step) == (30, 30)
    assert [(each.attempt, each.from_step, each.to_step) for each in view.rollbacks] == [(1, 15, 10)]
    assert [attempt.number for attempt, _, _ in fold.endings()] == [0]
    assert view.data_quality.contradictions == ()


def test_every_span_is_a_phase_of_its_length(facts: list[Fact]):
    _, view = folded(facts)
    told = seconds_by_phase(view)
    assert told["loading"] == pytest.approx(0.05, abs=0.01)
    assert told["saving"] == pytest.approx(0.05 + 2 * 0.05, abs=0.02)
    assert told["evaluating"] == pytest.approx(0.03, abs=0.01)
    assert told["recomputing"] == pytest.approx(5 * 0.0305, abs=0.02)


def test_a_sync_save_is_durable_and_an_async_one_captured_too(facts: list[Fact]):
    told = [(fact.step, fact.mode, fact.stage.value) for fact in facts if isinstance(fact, CheckpointMoment)]
    assert told[:2] == [(10, "sync", "started"), (10, "sync", "durable")]
    assert sorted(told[2:5]) == [(20, "async", "captured"), (20, "async", "durable"), (20, "async", "started")]
    assert [fact.step for fact in facts if isinstance(fact, CheckpointLoaded)] == [10]


def test_an_asynchronous_save_is_durable_when_it_was_finalized_and_not_when_it_was_scheduled():
    """Written by 2.3.1 with the callbacks in NeMo's order: 20 ms a step and a save's scheduling, finalized three steps
    later; a validation of 22 ms each 15 steps; killed at step 22, when the save of step 20 was not finalized."""
    told = imported("one-logger", CORPUS.parent / "one_logger_async", run="llm")
    fold, view = folded(told)
    moments = [(fact.restart, fact.step, fact.stage.value) for fact in told if isinstance(fact, CheckpointMoment)]
    assert [step for restart, step, stage in moments if restart == 0 and stage == "durable"] == [10]
    assert [step for restart, step, stage in moments if restart == 0 and stage == "captured"] == [10, 20]
    assert [step for restart, step, stage in moments if restart == 1 and stage == "durable"] == [20, 30, 40, 50, 60]
    captured, durable = (
        next(fact.at for fact in told if isinstance(fact, CheckpointMoment) and fact.stage.value == stage)
        for stage in ("captured", "durable")
    )
    assert durable - captured == pytest.approx(72e6, abs=1e6)
    assert [(each.attempt, each.from_step, each.to_step) for each in view.rollbacks] == [(1, 20, 10)]
    assert (len(view.attempts), view.high_water_step, view.outcome) == (2, 60, "completed")
    seconds = seconds_by_phase(view)
    assert seconds["saving"] == pytest.approx(7 * 0.0206, abs=0.002)
    assert seconds["evaluating"] == pytest.approx(5 * 0.022, abs=0.001)
    assert seconds["recomputing"] == pytest.approx(10 * 0.0204, abs=0.001)
    assert seconds["loading"] == pytest.approx(0.05, abs=0.001)
    assert [attempt.number for attempt, _, _ in fold.endings()] == [0]
    assert view.data_quality.contradictions == ()


def test_single_iterations_count_alone_where_they_are_exported(tmp_path: Path):
    lines = [json.loads(line) for line in FILES[1].read_text().splitlines()]
    loop = next(place for place, line in enumerate(lines) if line.get("name") == "training_loop")
    begin = lines[loop]["start_event"]["attributes"]["timestamp_msec"]
    single = [
        {"type": "complete", "id": f"s{n}", "name": "training_single_iteration", "count": 1000 + n,
         "start_event": {"attributes": {"timestamp_msec": begin + 30 * n}},
         "stop_event": {"attributes": {"timestamp_msec": begin + 30 * n + 30}}}
        for n in range(20)
    ]  # fmt: skip
    path = tmp_path / "one.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines[: loop + 1], *single, *lines[loop + 1 :]]))
    steps = [fact for fact in imported("one-logger", path) if isinstance(fact, Steps)]
    assert [fact.first_step for fact in steps] == list(range(11, 31))
    assert {fact.durations_us for fact in steps} == {(30_000,)}


def test_a_line_that_is_no_record_is_refused_and_the_rest_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "broken.jsonl"
    whole = FILES[0].read_text().splitlines()
    path.write_text(
        "\n".join([*whole[:3], "{half", '{"type": "stop", "id": "x", "stop_event": {}}', *whole[3:]]) + "\n"
    )
    assert main(["import", "one-logger", str(path), "--run", "llm", "--stdout"]) == 0
    told = capsys.readouterr().err
    assert "broken.jsonl:4: " in told and "broken.jsonl:5: stop_event.timestamp_msec" in told
    assert len(imported("one-logger", path, run="llm")) == len(imported("one-logger", FILES[0], run="llm"))


def test_the_launcher_of_nvrx_05_tells_the_moments_of_a_restart():
    """Written by `ft_launcher` 0.5.0: rank 1 exits with 3 after five heartbeats, the second attempt ends well."""
    facts = imported("one-logger", CORPUS.parent / "one_logger_launcher" / "nvrx_0.5.0.jsonl", run="llm")
    marks = [
        (fact.restart, fact.stage.value, fact.at % 10**12 // 10**6) for fact in facts if isinstance(fact, RecoveryMark)
    ]
    assert marks == [
        (0, "rendezvous_started", 332620), (0, "rendezvous_completed", 332885), (0, "workers_started", 333010),
        (0, "noticed", 338490), (0, "workers_gone", 338679),
        (1, "rendezvous_started", 338721), (1, "rendezvous_completed", 338806), (1, "workers_started", 338907),
    ]  # fmt: skip
    _, view = folded(facts)
    assert [(each.number, each.scope, each.outcome) for each in view.attempts] == [
        (0, None, "failed"), (1, "in_job", None),
    ]  # fmt: skip
    assert len(view.incidents) == 1 and view.data_quality.contradictions == ()


def test_a_launcher_beside_its_ranks_counts_the_attempts(tmp_path: Path):
    """Of a folder the processes of ranks are numbered; what the launcher says of its cycles stays as it is."""
    launcher = (CORPUS.parent / "one_logger_launcher" / "nvrx_0.5.0.jsonl").read_text()
    (tmp_path / "launcher.jsonl").write_text(launcher.replace('"session_tag":""', '"session_tag":"4242"'))
    for file in FILES:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    facts = imported("one-logger", tmp_path, run="llm")
    assert {fact.restart for fact in facts if fact.job == "4242"} == {0, 1}
    assert {fact.restart for fact in facts if fact.job is None} == {0, 1}
