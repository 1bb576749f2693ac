"""A folder of what one run left behind is one run."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from rerail.server.cli import main
from rerail.server.core.facts import AttemptEnded, AttemptStarted, Evidence, Fact, Steps
from tests.import_truth import folded, imported

CORPUS = Path(__file__).parent.parent / "corpus"
MEGATRON = (CORPUS / "training_logs/megatron.log").read_bytes()


def steps_of(facts: list[Fact]) -> set[tuple[int | None, int]]:
    """`(attempt, last step)` of every statement."""
    return {(fact.restart, fact.first_step + fact.step_count - 1) for fact in facts if isinstance(fact, Steps)}


def test_ranks_that_print_the_same_steps_count_once(tmp_path: Path):
    (tmp_path / "rank_0.log").write_bytes(MEGATRON)
    alone = imported("logs", tmp_path)
    (tmp_path / "rank_1.log").write_bytes(MEGATRON[: len(MEGATRON) * 2 // 3])
    both = imported("logs", tmp_path)
    told = {fact.emitter for fact in both if isinstance(fact, Steps)}
    assert len(told) == 1 and steps_of(both) == steps_of(alone)
    assert folded(both)[1].high_water_step == 50


def test_a_run_that_was_submitted_again_goes_on_in_its_next_log(tmp_path: Path):
    lines = MEGATRON.splitlines(keepends=True)
    again = next(place for place, line in enumerate(lines) if place > 3 and b"using world size" in line)
    (tmp_path / "slurm-101.out").write_bytes(b"".join(lines[:again]))
    (tmp_path / "slurm-102.out").write_bytes(b"".join(lines[again:]))
    facts = imported("logs", tmp_path)
    assert sorted(fact.restart or 0 for fact in facts if isinstance(fact, AttemptStarted)) == [0, 1]
    _, view = folded(facts)
    assert (len(view.attempts), view.high_water_step) == (2, 50)
    assert [(each.attempt, each.to_step) for each in view.rollbacks] == [(1, 20)]


def test_the_same_folder_elsewhere_states_the_same_facts(tmp_path: Path):
    for place in ("here", "there"):
        shutil.copytree(CORPUS / "nvrx/0.6.0/applog", tmp_path / place)
    here, there = imported("logs", tmp_path / "here"), imported("logs", tmp_path / "there")
    assert here and {(fact.emitter, fact.seq) for fact in here} == {(fact.emitter, fact.seq) for fact in there}
    assert len({(fact.emitter, fact.seq) for fact in here}) == len(here)


def test_cycle_files_tell_the_attempts_where_no_launchers_log_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(CORPUS / "nvrx/0.6.0/applog", tmp_path / "run")
    whole = imported("logs", tmp_path / "run")
    assert not any("cycle_info" in fact.emitter for fact in whole)
    (tmp_path / "run" / "nvrx.log").unlink()
    facts = imported("logs", tmp_path / "run")
    begun = [(fact.restart, fact.at, fact.nodes) for fact in facts if isinstance(fact, AttemptStarted)]
    assert [(number, nodes) for number, _, nodes in begun] == [(0, ("localhost",)), (1, ("localhost",))]
    (end,) = [fact for fact in facts if isinstance(fact, AttemptEnded)]
    assert end.restart == 0 and end.at <= begun[1][1]
    (piece,) = [fact for fact in facts if isinstance(fact, Evidence)]
    assert (piece.restart, piece.at) == (0, end.at)
    assert main(["import", "logs", str(CORPUS / "nvrx/0.6.0/applog"), "--run", "r", "--stdout"]) == 0
    assert "the launcher's log beside it tells more" in capsys.readouterr().err


def test_what_nothing_dates_was_when_its_file_was_written_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "train.log"
    path.write_text("Traceback (most recent call last):\n  File \"/opt/train.py\", line 7, in step\nKeyError: 'x'\n")
    os.utime(path, (1_795_954_200, 1_795_954_200))
    facts = imported("logs", tmp_path)
    assert {fact.at for fact in facts} == {1_795_954_200 * 10**9}
    ((_, verdict, _),) = folded(facts)[0].endings()
    assert verdict.cause == "user_exception"
    assert main(["import", "logs", str(tmp_path), "--run", "r", "--stdout"]) == 0
    assert "no line of train.log dates it" in capsys.readouterr().err


def test_a_folder_without_anything_to_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "x.bin").write_bytes(bytes(100))
    assert imported("logs", tmp_path) == []
    assert main(["import", "logs", str(tmp_path), "--run", "r", "--stdout"]) == 0
    assert "holds no file that is read" in capsys.readouterr().err


def test_steps_that_nothing_in_the_folder_dates_are_counted_back_from_when_their_file_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "rank_0.log"
    path.write_text("".join(
        f"Training epoch 0, iteration {n}/99 | lr: 1e-05 | global_step: {n} | train_step_timing in s: 2.0\n"
        for n in range(100)
    ))  # fmt: skip
    os.utime(path, (1_793_700_200, 1_793_700_200))
    _, view = folded(imported("logs", tmp_path), later=0)
    assert (view.started_at, view.high_water_step) == (1_793_700_000 * 10**9, 100)
    assert main(["import", "logs", str(tmp_path), "--run", "r", "--stdout"]) == 0
    assert "steps took the 200 s that their lines tell" in capsys.readouterr().err
    (tmp_path / "launcher.log").write_bytes((CORPUS / "nvrx/0.4.1/multi.log").read_bytes())
    dated = [
        fact for fact in imported("logs", tmp_path) if isinstance(fact, Steps) and fact.start < 1_793_800_000 * 10**9
    ]
    assert dated == [], "other files tell when the run was: the time of this one may be that of a copy"


def _steps(first: int, last: int, at: int) -> str:
    """Lines of steps that take two seconds each, the first of them done at second `at` of ten o'clock."""
    return "".join(
        f"2026-11-29 10:{(at + 2 * done) // 60:02}:{(at + 2 * done) % 60:02},000 INFO step {first + done} loss 2.5\n"
        for done in range(last - first + 1)
    )


def test_a_log_that_was_rotated_is_one_attempt_and_no_step_of_it_is_lost(tmp_path: Path):
    with gzip.open(tmp_path / "train.log.2.gz", "wt") as packed:
        packed.write(_steps(1, 100, 2))
    (tmp_path / "train.log.1").write_text(_steps(101, 200, 202))
    (tmp_path / "train.log").write_text(_steps(201, 300, 402))
    _, view = folded(imported("logs", tmp_path))
    assert [(each.first_step, each.last_step, each.step_count) for each in view.attempts] == [(1, 300, 300)]
    assert (view.incidents, view.data_quality.contradictions) == ((), ())


def test_how_a_submission_ended_is_what_its_own_log_says_and_the_next_is_no_restart_in_job(tmp_path: Path):
    over = "slurmstepd: error: *** JOB 1000 ON n1 CANCELLED AT 2026-11-29T10:01:45 DUE TO TIME LIMIT ***\n"
    (tmp_path / "slurm-1000.out").write_text(_steps(1, 45, 12) + over)
    again = "2026-11-29 10:10:00,000 INFO Resuming from checkpoint at step 40\n"
    (tmp_path / "slurm-1037.out").write_text(again + _steps(41, 70, 610))
    _, view = folded(imported("logs", tmp_path))
    first, second = view.attempts
    assert (first.outcome, (first.ended_at or 0) // 10**9 % 3600, second.scope) == ("failed", 105, "resubmit")
    (incident,) = view.incidents
    assert (incident.verdict.cause, incident.lost_steps) == ("time_limit", 5)
    assert {part.name: part.length_ns // 10**9 for part in incident.parts}["detecting"] == 5
