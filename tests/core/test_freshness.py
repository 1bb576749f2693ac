"""What a crash right now would cost, which saves worry somebody, and what saves cost the steps beside them."""

from __future__ import annotations

import pytest

from rerail.server.core.checkpoint_interval import daly
from rerail.server.core.facts import CheckpointMoment, CheckpointStage, Initiator
from rerail.server.core.report import figures
from tests.story import SECOND, Story


def saving(rounds: int = 4, write: float | None = 10.0) -> Story:
    """A save after every 100 steps of a second: 2 s blocked, then `write` s until it is durable."""
    story = Story(gpus=8).start().bring_up(20)
    for number in range(rounds):
        story.steps(number * 100 + 1, (number + 1) * 100).save((number + 1) * 100, blocked=2, write=write)
    return story


def test_the_usual_interval_is_the_median_between_captures_and_overdue_is_beyond_it_and_the_lag():
    story = saving().steps(401, 450)
    freshness = story.view().checkpoint
    assert freshness.interval_ns == 102 * SECOND
    assert freshness.commit_lag_p95_ns == 10 * SECOND
    assert freshness.age_ns == 50 * SECOND
    assert freshness.overdue_ns == 0
    assert freshness.exposed_gpu_ns == 8 * 50 * SECOND
    late = story.steps(451, 600).view().checkpoint
    assert late.overdue_ns == (200 - 102 - 15) * SECOND


def test_a_run_that_is_over_or_saved_but_once_is_not_overdue():
    assert saving().finish().view().checkpoint.overdue_ns is None
    assert saving(rounds=1).steps(101, 900).view().checkpoint.overdue_ns is None


def test_a_save_that_neither_ends_nor_fails_is_stuck_after_twice_the_usual_lag():
    story = saving().steps(401, 500)
    common = {**story._rank(), "step": 500, "checkpoint": "step-500", "mode": "async"}
    story._say(CheckpointMoment, story._worker, **common, stage=CheckpointStage.STARTED)
    assert story.view(later=20).checkpoint.stuck == ()
    assert story.view(later=21).checkpoint.stuck == ("step-500",)
    assert story.view(later=21).checkpoint.age_started_ns == 21 * SECOND
    story._say(CheckpointMoment, story._worker, **common, stage=CheckpointStage.FAILED)
    assert story.view(later=21).checkpoint.stuck == ()


def resume_and_die(story: Story, first: int, last: int) -> Story:
    return story.die(after=5).stop(2).start(Initiator.FAULT).bring_up(10).load(400, took=3).steps(first, last)


def test_a_checkpoint_after_which_every_attempt_fails_is_suspect_until_one_saves_anew():
    story = resume_and_die(saving().steps(401, 410), 401, 405)
    assert story.view().checkpoint.suspect_steps == ()
    story = resume_and_die(story, 401, 404)
    assert story.view().checkpoint.suspect_steps == (), "the second attempt still runs"
    story.die(after=5).stop(2)
    assert story.view().checkpoint.suspect_steps == (400,)
    story.start(Initiator.FAULT).bring_up(10).load(400, took=3).steps(401, 500).save(500, blocked=2, write=10)
    story.steps(501, 600)
    assert story.view().checkpoint.suspect_steps == ()


def test_the_advised_interval_is_dalys_of_the_runs_own_figures():
    story = saving(write=None).steps(401, 410)
    story.die(after=5).stop(2).start(Initiator.FAULT).bring_up(10).load(400, took=3).steps(401, 900).finish()
    view = story.view()
    advice = figures(view)["checkpoint"]["advised_interval"]  # type: ignore[index]
    assert advice["formula"] == "daly"
    assert advice["seconds"] == pytest.approx(daly(2.0, (view.rates.mttf_ns or 0) / SECOND), rel=1e-6)
    assert advice["low_seconds"] < advice["seconds"] < advice["high_seconds"]


def test_without_a_fault_or_a_save_no_interval_is_advised():
    assert "no fault" in (saving().view().interval_advice.refusal or "")
    unsaved = Story().start().bring_up(20).steps(1, 50).die(after=5).stop(2).view()
    assert unsaved.interval_advice.refusal == "how long a save blocks training is not known"


def test_for_asynchronous_saves_the_write_sets_a_floor():
    view = resume_and_die(saving(write=60.0).steps(401, 410), 401, 900).view()
    assert view.interval_advice.formula == "asynchronous"
    assert view.interval_advice.floor_ns == 60 * SECOND


def test_steps_under_a_write_cost_what_they_take_beyond_the_others():
    story = Story(gpus=8).start().bring_up(20).steps(1, 50).save(50, blocked=2, write=20)
    story.steps(51, 60, each=2.0).steps(61, 100).finish()
    view = story.view()
    assert view.undisturbed_step_ns == SECOND
    assert view.checkpoint_slowdown == 2.0
    assert view.hidden_checkpoint_ns == 10 * SECOND
    assert view.slowdown_ns == 10 * SECOND
    calm = Story().start().bring_up(20).steps(1, 50).finish().view()
    assert (calm.slowdown_ns, calm.hidden_checkpoint_ns) == (0, None)


def test_of_a_save_that_is_only_told_to_be_durable_nobody_knows_the_commit_lag():
    story = Story(gpus=8).start().bring_up(20).steps(1, 100)
    told = {**story._rank(), "step": 100, "checkpoint": "step-100", "stage": CheckpointStage.DURABLE}
    story._say(CheckpointMoment, story._worker, **told)
    freshness = story.steps(101, 110).view().checkpoint
    assert (freshness.durable_count, freshness.commit_lag_p95_ns, freshness.commit_lag_count) == (1, None, 0)
