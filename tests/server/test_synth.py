"""Synthetic fleets: the same seed gives the same facts, all are taken, and a killed replay of them loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rerail.collectors.synth.history import facts_of
from rerail.collectors.synth.plans import Ending, RunPlan, fleet, large_run
from rerail.server.cli import main
from rerail.server.core.codec import decode_line
from rerail.server.core.fold import RunFold
from rerail.server.core.rollup import Resolution
from rerail.server.core.view import RunState
from rerail.server.projector import LEASE_NS, Projector
from rerail.server.store import Store

END = 1_790_000_000 * 10**9
SMALL = ["--seed", "7", "--end", "2026-09-21T14:13:20Z", "--ranks", "512", "--days", "2", "--faults", "12"]


def plans() -> Sequence[RunPlan]:
    return [*fleet(7, 12, END), large_run(7, 512, 2, 12, END)]


def test_the_same_seed_gives_the_same_facts_and_another_one_others() -> None:
    assert [facts_of(plan) for plan in plans()] == [facts_of(plan) for plan in plans()]
    assert [plan.begin for plan in fleet(7, 12, END)] != [plan.begin for plan in fleet(8, 12, END)]
    # A run does not depend on how many others are made with it.
    assert next(iter(fleet(7, 1, END))) == next(iter(fleet(7, 12, END)))


def test_a_large_run_has_everything_a_real_one_has() -> None:
    plan = large_run(3, 2048, 6, 60, END)
    fold = RunFold(plan.run)
    fold.add(facts_of(plan))
    view = fold.view(END)
    assert view.state is RunState.ALIVE
    assert view.world_size == 2048
    assert view.interruptions == 60
    assert {"node_lost", "user_exception", "hang", "gpu_oom"} <= {each.verdict.cause for each in view.incidents}
    assert {attempt.scope.value for attempt in view.attempts if attempt.scope} == {"in_job", "requeue"}
    assert any(incident.failed_relaunches for incident in view.incidents)
    assert {"training", "recomputing", "saving", "evaluating", "data_wait", "queued", "loading"} <= {
        phase.value for phase, _ in view.account.ns_by_phase
    }
    assert len({attempt.gpus for attempt in view.attempts}) > 1, "elastic"
    assert view.checkpoint.failed_count
    assert view.heartbeat
    assert view.data_quality.contradictory == 0
    assert 0.5 < (view.account.training_goodput or 0) < 0.98


def test_a_fleet_has_runs_of_every_ending_and_size() -> None:
    made = list(fleet(1, 300, END))
    assert {plan.ending for plan in made} == set(Ending)
    assert len({plan.run for plan in made}) == 300
    assert max(plan.ranks for plan in made) >= 16 * min(plan.ranks for plan in made)
    assert max(plan.end - plan.begin for plan in made) > 50 * min(plan.end - plan.begin for plan in made)


@pytest.mark.parametrize("flag", ["--ranks", "--runs", "--days", "--faults"])
def test_a_size_that_makes_no_sense_is_refused_by_name(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", flag, "-3", "--stdout"]) == 1
    assert f"{flag} -3 is not from" in capsys.readouterr().err


def test_every_line_shown_is_a_fact(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["synth", "--runs", "3", *SMALL, "--stdout"]) == 0
    lines = capsysbinary.readouterr().out.splitlines()
    assert len(lines) > 1000
    assert len({decode_line(line).run for line in lines}) == 4


def test_kept_again_they_are_duplicates(store: Store, database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["synth", "--runs", "5", *SMALL, "--database-url", database_url]
    assert main(command) == 0
    assert " 0 held already" in capsys.readouterr().err
    runs = store.run_rows("", None, "run_id", False, 0, 10)
    assert runs.total == 6
    assert all(row.error is None for row in runs.rows)
    assert main(command) == 0
    assert ": 0 facts taken" in capsys.readouterr().err


def derived(store: Store, runs: Sequence[str]) -> list[object]:
    """Everything derived of runs that are over, but for the instant it was derived at."""
    everything: list[object] = []
    for run in runs:
        everything += [read(run, 0, 2**62) for read in (store.spans, store.step_points, store.checkpoints)]
        everything += [store.rollup(run, resolution, 0, 2**62) for resolution in Resolution]
        saved = store.view(run)
        assert saved is not None
        everything.append(replace(saved[0], as_of=0))
    return everything


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_kill_in_the_middle_of_a_replay_loses_nothing(store: Store, database_url: str) -> None:
    over = [plan.run for plan in fleet(7, 60, END) if plan.ending in (Ending.COMPLETED, Ending.FAILED)]
    assert main(["synth", "--runs", "60", *SMALL, "--database-url", database_url]) == 0
    before = derived(store, over)
    at_first = store.newest_revision()
    replay = subprocess.Popen([sys.executable, "-m", "rerail", "replay", "--database-url", database_url])
    while store.newest_revision() < at_first + 10:
        assert replay.poll() is None
        time.sleep(0.002)
    replay.send_signal(signal.SIGKILL)
    assert replay.wait() == -signal.SIGKILL
    assert store.newest_revision() < at_first + 61, "it was killed in the middle"
    assert derived(store, over) == before, "whatever can be read meanwhile is whole"
    # Whoever comes next takes what is left, and what the dead one had claimed once its lease is over.
    later = time.time_ns() + LEASE_NS + 10**9
    projector = Projector(store, lambda: later)
    while projector.derive_due():
        pass  # The clock stands still, so an open run is not due again.
    assert store.newest_revision() >= at_first + 61, "every run was derived"
    assert derived(store, over) == before
