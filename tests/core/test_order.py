"""Facts that once came to something else in another order, each as the smallest history that showed it."""

from __future__ import annotations

from itertools import permutations

import pytest

from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Capacity,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Excluded,
    Exit,
    Fact,
    Initiator,
    MarkStage,
    Phase,
    PhaseSpan,
    RecoveryMark,
    Steps,
)
from rerail.server.core.fold import RunFold
from rerail.server.core.view import RunView
from tests.invariants import assert_consistent, folded, without_arrival
from tests.soup import BEGINNING, SECOND
from tests.story import Story

END = BEGINNING + 400 * SECOND


def at(second: float) -> int:
    return BEGINNING + round(second * SECOND)


class Said:
    """Facts, numbered as they are made."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def say(self, kind: type[Fact], second: float, **fields: object) -> Said:
        self.facts.append(kind(run="r", emitter="e", seq=len(self.facts), at=at(second), **fields))  # type: ignore[arg-type]
        return self


def in_every_order(facts: list[Fact], as_of: int = END) -> RunView:
    """The one view that all orders come to, with a look after each fact."""
    run, expected = folded(facts, as_of)
    assert_consistent(run, expected)
    for order in permutations(facts):
        fold = RunFold(facts[0].run)
        for fact in order:
            fold.add([fact])
            fold.view(as_of)
        assert without_arrival(fold.view(as_of)) == without_arrival(expected)
    return expected


def test_an_attempt_that_is_told_of_late_takes_its_number_and_not_its_neighbours_contradictions():
    said = Said()
    said.say(CheckpointMoment, 245, restart=0, iteration=1, step=4, stage=CheckpointStage.STARTED)
    said.say(PhaseSpan, 2, restart=1, iteration=0, phase=Phase.EVALUATING, end=at(220), span="t")
    (found,) = in_every_order(said.facts).data_quality.contradictions
    assert (found.count, found.example[:9]) == (1, "attempt 1")


def test_gpus_that_are_told_late_change_what_an_old_incident_cost():
    story = Story(gpus=None).start().steps(1, 10).die(after=5).stop(1).start(Initiator.FAULT).steps(11, 20).finish()
    fold = story.fold()
    assert fold.view(story.at).incidents[0].lost_gpu_ns is None
    fold.add([Capacity(run="story", emitter="slurm", seq=0, at=BEGINNING, gpus=4)])
    assert fold.view(story.at).incidents[0].lost_gpu_ns == 4 * 6 * SECOND


def test_an_iteration_that_only_waits_takes_no_facts_from_the_one_that_runs():
    said = Said()
    said.say(PhaseSpan, 0, restart=2, iteration=1, phase=Phase.QUEUED, start=at(1), end=at(2))
    said.say(PhaseSpan, 3, restart=2, phase=Phase.SAVING, start=at(3), end=at(9))
    assert len(in_every_order(said.facts).attempts) == 1


def test_a_fact_that_proves_no_attempt_does_not_decide_which_is_the_first():
    said = Said()
    said.say(PhaseSpan, 5, phase=Phase.INITIALIZING, start=at(5), end=at(7))
    said.say(PhaseSpan, 90, iteration=2, phase=Phase.INITIALIZING, start=at(90), end=at(95))
    said.say(Exit, 1, iteration=2, rank=0, exit_code=-9)
    assert [attempt.iteration for attempt in in_every_order(said.facts).attempts] == [0, 2]


def test_a_fact_that_is_given_by_its_instant_moves_no_beginning():
    said = Said()
    said.say(AttemptEnded, 1)
    said.say(CheckpointLoaded, 285, iteration=1, step=1, start=at(2), end=at(3))
    said.say(AttemptStarted, 135, initiator=Initiator.OPERATOR)
    said.say(CheckpointLoaded, 2.5, step=3, start=at(10), end=at(140), outcome="failed")
    in_every_order(said.facts)


def test_a_phase_that_is_told_three_times_is_what_its_emitter_said_first():
    said = Said()
    said.say(PhaseSpan, 10, phase=Phase.INITIALIZING, start=at(10), end=at(30), span="s")
    said.say(PhaseSpan, 40, phase=Phase.STOPPING, end=at(5), span="s")
    said.say(PhaseSpan, 50, phase=Phase.INITIALIZING, end=at(50), span="s")
    view = in_every_order(said.facts)
    assert dict(view.account.ns_by_phase)[Phase.INITIALIZING] == 20 * SECOND
    assert view.data_quality.contradictions[0].reason == "one phase was told with several names, beginnings or ends"


def test_the_lowest_step_that_was_told_of_a_checkpoint_holds():
    said = Said()
    said.say(CheckpointMoment, 30, step=6, stage=CheckpointStage.FAILED, checkpoint="d")
    said.say(CheckpointMoment, 20, step=4, stage=CheckpointStage.DELETED, checkpoint="d")
    run, _ = folded(said.facts, END)
    assert [checkpoint.step for checkpoint in run.checkpoints] == [4]
    in_every_order(said.facts)


def test_a_load_that_goes_on_while_its_attempt_steps_is_over_when_it_steps():
    said = Said()
    said.say(Steps, 126, first_step=4, start=at(125), durations_us=(1_000_000,))
    said.say(CheckpointLoaded, 155, step=3, start=at(0), end=at(200))
    view = in_every_order(said.facts)
    assert (view.attempts[0].resumed_from_step, view.data_quality.contradictory) == (3, 1)


@pytest.mark.parametrize("as_of", [-1, 0, 100, 400])
def test_attempts_that_lie_over_one_another_or_in_the_future_leave_a_life_that_tiles(as_of: float):
    said = Said()
    said.say(Steps, 25, restart=0, first_step=1, start=at(0), durations_us=(40_000_000,) * 2)
    said.say(Steps, 5, restart=1, first_step=2, start=at(1), durations_us=(5_000_000,))
    said.say(RecoveryMark, 300, restart=2, stage=MarkStage.RENDEZVOUS_STARTED)
    in_every_order(said.facts, at(as_of))


def test_a_workers_end_before_their_beginning_is_none():
    said = Said()
    said.say(RecoveryMark, 5, restart=0, stage=MarkStage.WORKERS_GONE)
    said.say(RecoveryMark, 50, restart=0, stage=MarkStage.RENDEZVOUS_STARTED)
    said.say(AttemptStarted, 80, restart=1)
    assert in_every_order(said.facts).attempts[0].ended_at == at(80)


def test_a_gap_is_looked_at_again_when_steps_after_it_come_late():
    story = (
        Story().start().steps(1, 10).wait(30).steps(20, 30).die(after=0).stop(0).start(Initiator.FAULT).steps(31, 40)
    )
    late = next(fact for fact in story.facts if isinstance(fact, Steps) and fact.first_step == 20)
    fold = RunFold("story")
    fold.add([fact for fact in story.facts if fact is not late])
    fold.view(story.at)
    fold.add([late])
    found = fold.view(story.at).data_quality.unexplained
    assert found == story.view().data_quality.unexplained
    assert [each.reason for each in found] == ["steps_not_told"]


def test_a_rank_that_comes_late_moves_the_ends_inside_a_block_and_the_step_time_with_them():
    said = Said()
    for rank, durations in ((0, (1_000_000,) * 4), (1, (1_000_000, 1_400_000, 800_000, 800_000))):
        said.facts.append(
            Steps(
                run="r", emitter=f"rank/{rank}", seq=0, at=at(13), restart=0, rank=rank, first_step=1, start=at(10),
                durations_us=durations,
            )
        )  # fmt: skip
    said.say(Exit, 20, restart=0, rank=0, exit_code=1)
    assert in_every_order(said.facts).undisturbed_step_ns == 800_000_000


def test_an_exit_that_comes_before_its_attempt_is_known_does_not_move_its_job():
    said = Said()
    said.say(Exit, 0, job="b", restart=2, iteration=0, exit_code=1)
    said.say(Steps, 200, iteration=0, first_step=3, start=at(50), durations_us=(150_000_000,))
    said.say(RecoveryMark, 150, job="a", restart=1, iteration=0, stage=MarkStage.RENDEZVOUS_COMPLETED)
    said.say(Exit, 0, job="a", restart=1, rank=0, exit_code=0)
    assert [attempt.job for attempt in in_every_order(said.facts).attempts] == [None, "a"]


def test_a_job_that_only_waits_has_not_begun():
    said = Said()
    said.say(CheckpointLoaded, 80, job="a", requeue=1, restart=1, iteration=1, step=4, start=at(5), end=at(35))
    said.say(RecoveryMark, 190, job="b", restart=2, stage=MarkStage.INITIALIZED)
    said.say(PhaseSpan, 190, job="a", requeue=1, restart=1, phase=Phase.QUEUED, start=at(0), end=at(1))
    said.say(CheckpointLoaded, 265, requeue=1, restart=1, iteration=0, step=8, start=at(4), end=at(160))
    assert [attempt.job for attempt in in_every_order(said.facts).attempts] == [None, "a", "b"]


def test_a_wait_told_without_its_iteration_is_of_the_iteration_that_begins():
    said = Said()
    said.say(PhaseSpan, 1, job="b", restart=2, phase=Phase.QUEUED, start=at(1), end=at(5))
    said.say(CheckpointLoaded, 240, job="b", restart=2, iteration=1, step=11, start=at(0), end=at(2))
    said.say(Steps, 50, job="a", iteration=0, first_step=12, start=at(3), durations_us=(40_000_000,))
    assert len(in_every_order(said.facts).attempts) == 2


def test_a_window_declared_late_changes_an_incident_that_was_over_at_once():
    said = Said()
    said.say(Steps, 10, restart=0, first_step=1, start=at(0), durations_us=(10_000_000,))
    said.say(Steps, 20, restart=1, first_step=2, start=at(10), durations_us=(10_000_000,))
    said.say(Excluded, 300, start=at(5), end=at(15))
    in_every_order(said.facts)


def test_from_where_an_attempt_goes_on_is_unknown_where_nobody_came_so_far_and_no_load_is_told():
    story = Story(gpus=8).start().bring_up(20).steps(1, 45).die(1).stop(2)
    jumped = story.start().bring_up(20).steps(61, 80).view()
    assert [(each.first_step, each.resumed_from_step) for each in jumped.attempts] == [(1, 0), (61, None)]
    story = Story(gpus=8).start().bring_up(20).steps(1, 45).die(1).stop(2)
    redone = story.start().bring_up(20).steps(41, 80).view()
    assert [each.resumed_from_step for each in redone.attempts] == [0, 40]
