"""Time that no fact explains: shown as unknown, with the reason the run's own facts make most likely, never more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rerail.server.core.facts import AttemptEnded, Blind, CheckpointMoment, Fact, Initiator, Phase, PhaseSpan, Scope
from rerail.server.core.facts import RecoveryMark as Mark
from rerail.server.core.fold import RunFold
from rerail.server.core.report import figures
from rerail.server.core.view import RunView
from tests.histories import histories
from tests.seed_replay import arm_facts
from tests.story import BEGINNING, SECOND, Story, seconds_by_phase


def view_of(facts: list[Fact], as_of: int | None = None) -> RunView:
    fold = RunFold(facts[0].run)
    fold.add(facts)
    return fold.view(max(fact.at for fact in facts) if as_of is None else as_of)


def reasons(view: RunView) -> dict[str, tuple[float, int]]:
    """Seconds and number of gaps of each reason."""
    assert sum(each.length_ns for each in view.data_quality.unexplained) == view.data_quality.unexplained_ns
    return {each.reason: (each.length_ns / SECOND, each.count) for each in view.data_quality.unexplained}


@pytest.mark.parametrize(
    ("arm", "training", "infrastructure", "stalls"),
    [("in_process", 31.0, 87.0, 1048.896), ("ft_launcher", 25.5, 85.9, 1464.904)],
)
def test_checkpoint_stalls_that_nobody_logged_do_not_flatter_a_run(arm, training, infrastructure, stalls):
    logged = view_of(arm_facts(arm))
    assert round(logged.account.training_goodput * 100, 1) == training
    assert round(logged.account.infrastructure_goodput * 100, 1) == infrastructure
    assert reasons(logged) == {}
    assert not any("without anyone noticing" in note for note in logged.data_quality.notes)
    unlogged = view_of(arm_facts(arm, with_saves=False))
    assert unlogged.account.training_goodput == logged.account.training_goodput
    assert unlogged.account.infrastructure_goodput == logged.account.infrastructure_goodput
    assert unlogged.account.checkpoint_efficiency == 1.0
    assert reasons(unlogged) == {"checkpoint_not_logged": (stalls, 4)}
    (told,) = figures(unlogged)["data_quality"]["unexplained"]
    assert told["detail"] == (
        "unlogged checkpoint stalls are likely: no checkpoint was stated, and these gaps come every 500 steps"
    )
    assert told["example"]["after_step"] == 500
    waterfall = {row.name: row.length_ns for row in unlogged.account.waterfall}
    assert waterfall["unknown"] == round(stalls * SECOND)


def steps_with_gaps(story: Story, *gaps: tuple[int, float]) -> Story:
    """Steps up to each step named, and then so long nothing."""
    done = 0
    for step, seconds in gaps:
        story.steps(done + 1, step).wait(seconds)
        done = step
    return story.steps(done + 1, done + 5)


def test_gaps_at_a_regular_number_of_steps_are_likely_to_be_saves():
    story = steps_with_gaps(Story().start(), (50, 20), (100, 21), (120, 3), (150, 19), (200, 22)).finish()
    assert reasons(story.view()) == {"checkpoint_not_logged": (82, 4), "unknown": (3, 1)}


def test_gaps_at_any_number_of_steps_have_no_known_reason():
    story = steps_with_gaps(Story().start(), (50, 20), (61, 21), (120, 3), (153, 19)).finish()
    assert reasons(story.view()) == {"unknown": (63, 4)}


def test_two_gaps_are_no_rhythm_unless_the_run_began_in_step_with_them():
    assert reasons(steps_with_gaps(Story().start(), (50, 20), (90, 20)).finish().view()) == {"unknown": (40, 2)}
    assert "checkpoint_not_logged" in reasons(steps_with_gaps(Story().start(), (50, 20), (100, 20)).finish().view())


def test_gaps_after_every_step_are_no_rhythm():
    story = steps_with_gaps(Story().start(), *((step, 2) for step in range(1, 20))).finish()
    assert reasons(story.view()) == {"unknown": (38, 19)}


def test_a_step_that_is_loaded_later_was_saved_there():
    story = Story().start().steps(1, 33).wait(9).steps(34, 40).die(after=0).stop(0)
    story.start(Initiator.FAULT).load(33, took=1).steps(34, 50).finish()
    assert reasons(story.view()) == {"checkpoint_not_logged": (9, 1)}


def test_where_saves_are_logged_a_gap_is_not_taken_for_one():
    story = Story().start().steps(1, 50).save(50, blocked=1)
    story.steps(51, 100).wait(20).steps(101, 150).wait(20).steps(151, 200).wait(20).steps(201, 205).finish()
    assert reasons(story.view()) == {"unknown": (60, 3)}


def test_a_save_whose_stall_was_not_told_explains_the_gap_it_began_in():
    story = Story().start().steps(1, 50).save(50, blocked=7).steps(51, 60).finish()
    story.facts = [fact for fact in story.facts if not isinstance(fact, PhaseSpan)]
    assert reasons(story.view()) == {"save_without_its_stall": (7, 1)}


def test_a_gap_between_attempts_is_waiting_that_was_not_seen_unless_a_scheduler_speaks():
    story = Story().start().steps(1, 50).die(after=1).stop(2).wait(300).start(Initiator.FAULT).steps(51, 60).finish()
    assert reasons(story.view()) == {"between_attempts": (300, 1)}
    seen = Story().queue(10).start().steps(1, 50).die(after=1).stop(2).wait(300)
    seen.start(Initiator.FAULT).steps(51, 60).finish()
    assert reasons(seen.view()) == {"unknown": (300, 1)}


def test_bring_up_that_was_not_told_is_named():
    assert reasons(Story().start().wait(40).steps(1, 9).finish().view()) == {"bring_up": (40, 1)}


def test_steps_that_were_lost_are_named():
    assert reasons(Story().start().steps(1, 9).wait(10).steps(20, 30).finish().view()) == {"steps_not_told": (10, 1)}


def test_the_end_of_an_open_run_is_not_told_yet_or_nobody_noticed_it():
    story = Story().start().steps(1, 50)
    assert reasons(story.view(later=5)) == {"not_told_yet": (5, 1)}
    assert reasons(story.view(later=5000)) == {"end_not_noticed": (5000, 1)}


def test_time_before_a_run_was_told_to_have_ended():
    assert reasons(Story().start().steps(1, 50).wait(12).finish().view()) == {"before_the_end": (12, 1)}


def test_a_blind_source_takes_the_part_of_a_gap_it_was_blind_in():
    story = Story().start().steps(1, 50).wait(100).steps(51, 60).finish()
    at = BEGINNING + 80 * SECOND
    story.facts.append(
        Blind(run="story", emitter="agent", seq=0, at=at, source="ring", since=at, until=at + 30 * SECOND)
    )
    assert reasons(story.view()) == {"blind_source": (30, 1), "unknown": (70, 2)}


def test_where_only_the_launcher_speaks_the_ranks_are_the_reason():
    story = Story().start().phase(Phase.RENDEZVOUS, 5, "launcher").wait(60).finish()
    assert reasons(story.view()) == {"only_the_launcher": (60, 1)}


def test_a_run_that_only_waits_explains_itself():
    assert reasons(Story().queue(30).view()) == {}


def test_nothing_is_unexplained_twice_and_nothing_is_left_out_as_facts_come_in():
    for history in histories():
        facts = [
            fact
            for fact in history.facts()
            if not isinstance(fact, CheckpointMoment)
            and not (isinstance(fact, PhaseSpan) and fact.phase is Phase.SAVING)
        ]
        as_of = history.expected["as_of"]
        whole, piecewise = RunFold(facts[0].run), RunFold(facts[0].run)
        whole.add(facts)
        for index in range(0, len(facts), 7):
            piecewise.add(facts[index : index + 7])
            reasons(piecewise.view(as_of))
        expected, found = whole.view(as_of).data_quality, piecewise.view(as_of).data_quality
        assert replace(found, late=0) == replace(expected, late=0)


def test_an_attempt_without_a_notice_is_detecting_and_not_silent():
    story = (
        Story().start().steps(1, 50).die(after=20).stop(1).start(Initiator.FAULT, Scope.IN_JOB).steps(51, 60).finish()
    )
    story.facts = [fact for fact in story.facts if not isinstance(fact, (Mark, AttemptEnded)) or fact.restart == 1]
    view = story.view()
    assert seconds_by_phase(view)["detecting"] == 21
    assert any("without anyone noticing" in note for note in view.data_quality.notes)
