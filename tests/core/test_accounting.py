"""What the second pass, a fault, a stop and a stall cost: one story per rule of docs/accounting.md."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from rerail.server.core import goodput
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Blind,
    CheckpointLoaded,
    Clock,
    Fact,
    Initiator,
    MarkStage,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    Scope,
    Steps,
)
from rerail.server.core.fold import RunFold
from rerail.server.core.report import figures
from rerail.server.core.view import DataQuality, RunState, RunView
from tests.story import BEGINNING, SECOND, Story, seconds_by_phase


def crash_and_return() -> Story:
    return (
        Story().start().bring_up(20).steps(0, 99).save(99, blocked=5).steps(100, 139)
        .die(after=60).stop(2).queue(90)
        .start(Initiator.FAULT).bring_up(20).load(99, took=10).steps(100, 199).finish()
    )  # fmt: skip


def test_a_crash_costs_detection_restart_and_the_ground_it_lost():
    phases = seconds_by_phase(crash_and_return().view())
    assert phases == {
        "detecting": 60, "stopping": 2, "queued": 90, "loading": 10, "initializing": 40, "saving": 5,
        "recomputing": 40, "training": 200,
    }  # fmt: skip


def test_who_does_not_know_how_a_run_ended_overrules_nobody_who_does():
    story = Story().start().steps(1, 50).finish()
    known = story.view()
    story.wait(5)._say(RunEnded, "agent", outcome=None)
    assert (story.view().outcome, story.view().ended_at) == (known.outcome, known.ended_at)
    assert known.outcome is Outcome.COMPLETED
    story.start(Initiator.FAULT).steps(51, 60)._say(RunEnded, "agent", outcome=None)
    assert story.view().outcome is None and story.view().ended_at is not None


def test_its_incident_adds_up():
    (incident,) = crash_and_return().view().incidents
    assert {part.name: part.length_ns / SECOND for part in incident.parts} == {
        "detecting": 60, "stopping": 2, "queued": 90, "initializing": 20, "loading": 10, "catch_up": 40,
    }  # fmt: skip
    assert incident.time_to_recover_ns == incident.so_far_ns == 222 * SECOND
    assert incident.time_to_restart_ns == 182 * SECOND
    assert (incident.lost_steps, incident.lost_ns) == (40, 40 * SECOND)
    assert incident.lost_gpu_ns == 8 * 222 * SECOND
    assert incident.scope is Scope.IN_JOB


def test_what_nothing_tells_of_before_a_restart_is_silent_and_no_catch_up():
    story = Story().start().bring_up(20).steps(1, 10).die(after=5).stop(2).start().wait(200).steps(6, 15)
    (incident,) = story.view().incidents
    assert {part.name: part.length_ns / SECOND for part in incident.parts} == {
        "detecting": 5, "stopping": 2, "silent": 200, "catch_up": 5,
    }  # fmt: skip
    assert incident.time_to_restart_ns == 7 * SECOND


def test_the_waterfall_adds_up_exactly():
    account = crash_and_return().view().account
    levels = {row.name: row.length_ns for row in account.waterfall if row.is_total}
    losses = [row.length_ns for row in account.waterfall if not row.is_total]
    assert levels["elapsed"] - sum(losses) == levels["training_goodput"] == account.productive_ns
    assert levels["infrastructure_goodput"] == account.elapsed_ns - account.faults_ns


def test_ground_not_regained_is_owed_until_it_is():
    story = Story().start().bring_up(20).steps(1, 100).save(50, blocked=1).die(after=0).stop(0)
    story.start(Initiator.FAULT).load(50, took=10)
    just_loaded = story.view()
    assert just_loaded.account.debt_ns == 50 * SECOND
    assert just_loaded.account.productive_ns == 50 * SECOND
    assert (just_loaded.current_step, just_loaded.high_water_step) == (50, 100)
    half_way = story.steps(51, 75).view()
    assert half_way.account.debt_ns == 25 * SECOND
    regained = story.steps(76, 100).view()
    assert regained.account.debt_ns == 0
    assert seconds_by_phase(regained)["recomputing"] == 50


def test_a_crash_loop_never_looks_productive():
    story = Story().start().bring_up(1).steps(1, 10)
    for _ in range(20):
        story.die(after=0).stop(0).start(Initiator.FAULT).bring_up(1).steps(1, 10)
    view = story.view()
    assert view.account.productive_ns == 10 * SECOND
    assert view.restarts == 20
    assert len(view.incidents) == 1


def test_a_zero_rollback_restart_with_a_long_outage_is_not_hidden():
    story = Story(step=0.5).start().steps(1, 100).save(100, blocked=0).die(after=300).stop(5)
    story.start(Initiator.FAULT).load(100, took=5).steps(101, 200).wait(10).finish()
    view = story.view()
    assert view.account.elapsed_ns == 420 * SECOND
    assert view.account.training_goodput == pytest.approx(100 / 420)
    assert [rollback.steps for rollback in view.rollbacks] == [0]
    assert view.interruptions == 1


def test_a_window_inside_an_outage_is_zero_and_one_that_straddles_it_is_its_own_share():
    story = (
        Story().start().steps(1, 100).die(after=300).stop(0).start(Initiator.FAULT).load(100, took=1).steps(101, 150)
    )
    folded = story.fold()
    folded.view(story.at)
    inside = goodput.account(folded.spans, BEGINNING + 150 * SECOND, BEGINNING + 250 * SECOND)
    assert inside.training_goodput == 0
    straddling = goodput.account(folded.spans, BEGINNING + 50 * SECOND, BEGINNING + 150 * SECOND)
    assert straddling.training_goodput == 0.5
    before_the_run = goodput.account(folded.spans, BEGINNING - 20 * SECOND, BEGINNING - 10 * SECOND)
    assert before_the_run.training_goodput is None


def test_a_restart_from_nothing_wastes_what_it_does_again():
    story = Story().start().steps(1, 50).die(after=0).stop(0).start(Initiator.FAULT).steps(1, 60).finish()
    view = story.view()
    assert seconds_by_phase(view) == {"recomputing": 50, "training": 60}
    assert view.rollbacks[0].to_step == 0


def test_relaunches_that_die_early_are_attempts_of_one_incident():
    story = Story().start().steps(1, 30).die(after=5).stop(1)
    for _ in range(5):
        story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 10, "launcher").die(after=0, by="relaunch").stop(1)
    view = story.start(Initiator.FAULT).load(20, took=5).steps(21, 40).finish().view()
    assert (len(view.attempts), view.restarts, view.interruptions) == (7, 6, 6)
    (incident,) = view.incidents
    assert incident.failed_relaunches == 5
    assert incident.lost_steps == 10


def test_an_operators_stop_is_planned_and_no_fault():
    story = Story().start().steps(1, 30).stop(3, Outcome.STOPPED).start(Initiator.OPERATOR).load(30, took=4)
    view = story.steps(31, 40).finish().view()
    assert view.account.infrastructure_goodput == 1.0
    assert view.account.planned_ns == 7 * SECOND
    assert view.incidents[0].is_planned
    assert view.incidents[0].verdict.cause == "operator_stop"


def test_a_fault_in_the_first_step_is_detected_from_the_end_of_bring_up():
    view = Story().start().bring_up(20).die(after=15).stop(1).start(Initiator.FAULT).bring_up(5).steps(1, 5).view()
    phases = seconds_by_phase(view)
    assert (phases["detecting"], phases["initializing"]) == (15, 25)


def test_a_step_that_took_far_too_long_is_stalled_beyond_ten_medians():
    story = Story().start().steps(1, 50, each=4).steps(51, 51, each=100).steps(52, 60, each=4).finish()
    phases = seconds_by_phase(story.view())
    assert phases["stalled"] == 60
    assert phases["training"] == 59 * 4 + 40


def test_a_long_first_step_is_warm_up_and_not_a_stall():
    phases = seconds_by_phase(Story().start().steps(1, 1, each=90).steps(2, 5, each=1).finish().view())
    assert "stalled" not in phases


def test_heartbeats_without_a_step_are_a_live_stall_and_nothing_at_all_is_silence():
    beating = Story().start().steps(1, 50).heartbeats(200)
    assert seconds_by_phase(beating.view()) == {"training": 50, "stalled": 170, "silent": 30}
    quiet = Story().start().steps(1, 50)
    view = quiet.view(later=200)
    assert seconds_by_phase(view) == {"training": 50, "silent": 200}
    assert view.state is RunState.SILENT


def test_a_fault_turns_a_live_stall_into_detecting():
    view = Story().start().steps(1, 50).heartbeats(200).die(after=5, by="hang").stop(1).view()
    assert seconds_by_phase(view)["detecting"] == 205


def test_an_excluded_window_leaves_the_denominator():
    story = Story().start().steps(1, 10).die(after=0).stop(0).queue(100).exclude(20, 60)
    view = story.start(Initiator.FAULT).steps(11, 20).finish().view()
    assert view.account.elapsed_ns == 80 * SECOND
    assert seconds_by_phase(view)["excluded"] == 40


def test_a_blocking_save_counts_apart_and_an_async_write_slows_the_steps_under_it():
    story = Story().start().steps(1, 50).save(50, blocked=2, write=8).steps(51, 54, each=2).steps(55, 100).finish()
    view = story.view()
    assert view.account.checkpoint_efficiency == pytest.approx(1 - 2 / 106)
    assert view.undisturbed_step_ns == SECOND
    assert view.checkpoint_slowdown == 2.0
    assert view.checkpoint.newest_durable_step == 50
    assert view.checkpoint.steps_at_risk == 50


def test_without_a_checkpoint_the_steps_at_risk_are_unknown_not_zero():
    view = Story().start().steps(1, 10).view()
    assert view.checkpoint.steps_at_risk is None
    assert any("No checkpoint" in note for note in view.data_quality.notes)


def test_a_step_backwards_without_a_restart_is_counted_as_a_contradiction():
    view = Story().start().steps(1, 20).steps(5, 8).steps(21, 30).view()
    (contradiction,) = view.data_quality.contradictions
    assert contradiction.count == 1
    assert "5–8" in contradiction.example
    assert view.high_water_step == 30


def test_a_step_after_its_attempts_end_means_that_the_end_was_wrong_and_is_counted():
    story = Story().start().steps(1, 10).stop(0).wait(20).steps(11, 20)
    view = story.view()
    assert view.incidents == ()
    assert view.attempts[0].ended_at is None
    assert seconds_by_phase(view) == {"training": 20, "silent": 20}
    assert [each.count for each in view.data_quality.contradictions] == [1]


def test_a_run_that_steps_on_after_its_end_has_not_ended():
    story = Story().start().steps(1, 10).finish().wait(20).steps(11, 20)
    view = story.view()
    assert view.state is RunState.ALIVE
    assert view.high_water_step == 20
    assert view.data_quality.contradictory == 2


def test_where_only_the_launcher_speaks_training_goodput_is_unknown():
    story = Story().start().phase(Phase.RENDEZVOUS, 5, "launcher").wait(60).die(after=0, exit_code=-9).stop(1)
    story.facts = [fact for fact in story.facts if not fact.emitter.startswith("rank/")]
    view = story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(20).finish().view()
    assert not view.sees_training
    assert figures(view)["training_goodput"] is None
    assert [incident.is_open for incident in view.incidents] == [False]


def without_ranks(story: Story) -> RunView:
    """The run as those tell it who see no step of it."""
    story.facts = [fact for fact in story.facts if not fact.emitter.startswith("rank/")]
    return story.view()


def test_where_only_a_scheduler_speaks_running_is_unknown_and_every_fault_an_incident_of_its_own():
    story = Story().start().wait(500).stop(0, Outcome.PREEMPTED).queue(10).start(Initiator.SCHEDULER).wait(2000)
    story.stop(0).wait(5).start(Initiator.FAULT).wait(3000).stop(0).start(Initiator.FAULT).wait(4000).finish()
    view = without_ranks(story)
    assert seconds_by_phase(view) == {"queued": 10, "silent": 9505}
    assert view.account.faults_ns == 10 * SECOND
    assert [each.attempts for each in view.incidents] == [(0,), (1,), (2,)]
    assert [each.time_to_recover_ns // SECOND for each in view.incidents if each.time_to_recover_ns is not None] == [
        10, 5, 0,
    ]  # fmt: skip
    assert [each.started_at == each.noticed_at for each in view.incidents] == [True, True, True]
    assert all(each.lost_steps is None and each.restarted_at == each.ended_at for each in view.incidents)
    assert (view.rates.faults, view.interruptions) == (3, 3)


def test_where_only_a_launcher_speaks_a_relaunch_that_died_in_its_bring_up_failed():
    story = Story().start().phase(Phase.RENDEZVOUS, 5, "launcher").wait(900).die(after=0, exit_code=-9).stop(1)
    story.start(Initiator.FAULT)
    story.gather().die(after=20).stop(1)
    story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(800).die(after=0, exit_code=1).stop(1)
    view = without_ranks(story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(9).finish())
    assert [each.attempts for each in view.incidents] == [(0, 1), (2,)]
    assert view.account.faults_ns == (1 + 20 + 1 + 5 + 1 + 5) * SECOND
    assert seconds_by_phase(view) == {"stopping": 3, "rendezvous": 35, "silent": 1709}


def test_a_crash_loop_of_which_only_a_launcher_speaks_is_one_incident_with_failed_relaunches():
    """Workers that die seconds after they were started have not trained; the one that dies after an hour has."""
    story = Story().start().phase(Phase.RENDEZVOUS, 5, "launcher").wait(3600).die(after=0, exit_code=1).stop(1)
    for _ in range(4):
        story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(3).die(after=0, exit_code=1).stop(1)
    story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(3600).die(after=0, exit_code=1).stop(1)
    view = without_ranks(story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(60).finish())
    assert [each.attempts for each in view.incidents] == [(0, 1, 2, 3, 4), (5,)]
    assert [each.time_to_restart_ns // SECOND for each in view.incidents] == [1 + 4 * 9 + 5, 1 + 5]
    assert (view.rates.faults, view.interruptions) == (2, 6)
    loop = Story().start().phase(Phase.RENDEZVOUS, 5, "launcher").wait(3).die(after=0, exit_code=1).stop(1)
    for _ in range(3):
        loop.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 5, "launcher").wait(3).die(after=0, exit_code=1).stop(1)
    assert [each.attempts for each in without_ranks(loop).incidents] == [(0, 1, 2, 3)]


def test_ranks_that_beat_and_never_tell_of_a_step_run_from_their_first_beat():
    """Their bring-up is never told to be over, and is not what they do for hours; what they do is unknown."""
    story = Story().start()
    story._say(PhaseSpan, story._worker, **story._rank(), phase=Phase.INITIALIZING, start=story.at, end=None, span="a")
    story.wait(40).heartbeats(3600, count=400).wait(60).die(after=0, exit_code=-9).stop(1)
    story.start(Initiator.FAULT)
    story._say(PhaseSpan, story._worker, **story._rank(), phase=Phase.INITIALIZING, start=story.at, end=None, span="b")
    view = story.wait(20).heartbeats(1800, count=400).finish().view()
    assert seconds_by_phase(view) == {"initializing": 60, "silent": 5460, "stopping": 1}
    assert (view.sees_training, figures(view)["training_goodput"]) == (False, None)
    assert [(each.attempts, each.time_to_restart_ns // SECOND) for each in view.incidents] == [((0,), 21)]
    brief = Story().start().wait(5).heartbeats(20).view()
    assert brief.sees_training, "a run that was brought up a moment ago may still tell of steps"
    assert Story().start().heartbeats(3600).steps(1, 3).view().sees_training


def test_a_word_of_a_rank_at_any_time_makes_the_run_one_whose_steps_are_told():
    story = Story().start().wait(50).die(after=0).stop(0).start(Initiator.FAULT).wait(40).die(after=0).stop(0)
    story.start(Initiator.FAULT)
    fold = story.fold()
    assert len(fold.view(story.at).incidents) == 2
    fold.add(story.steps(1, 10).facts)
    view = fold.view(story.at)
    assert [each.attempts for each in view.incidents] == [(0, 1)]
    assert replace(view, data_quality=DataQuality()) == replace(story.view(), data_quality=DataQuality())


def test_a_run_that_ended_nobody_tells_how_was_interrupted_where_its_last_attempt_left_a_fault():
    for story, cause in (
        (Story().start().steps(1, 10).die(after=1, exit_code=-9), ["sigkill"]),
        (Story().start().steps(1, 10).wait(1), []),
    ):
        story._say(RunEnded, "folder")
        assert [each.verdict.cause for each in story.view().incidents] == cause


def test_an_attempt_that_completed_was_not_interrupted_and_the_next_is_more_work():
    story = Story().start().bring_up(5).steps(1, 30).stop(2, Outcome.COMPLETED).wait(100)
    view = story.start().bring_up(5).steps(31, 40).die(after=3, exit_code=-9).stop(1).view()
    (incident,) = view.incidents
    assert (incident.attempts, incident.is_planned, incident.verdict.cause) == ((1,), False, "sigkill")
    assert (view.interruptions, view.restarts) == (1, 1)
    assert view.account.planned_ns == 7 * SECOND


def test_between_two_steps_a_healthy_run_is_training_and_not_silent():
    assert Story().start().steps(1, 50).view(later=3).current_phase is Phase.TRAINING
    assert Story().start().steps(1, 50).view(later=300).current_phase is Phase.SILENT


def test_a_failed_load_moves_nothing():
    story = Story().start().steps(1, 30).die(after=0).stop(0).start(Initiator.FAULT).load(10, took=3, outcome="failed")
    assert story.view().current_step == 30


def test_a_run_of_which_only_its_name_is_known_says_so():
    view = Story().view()
    assert view.started_at is None
    assert view.account.training_goodput is None
    assert view.attempts == ()


def test_time_shift_moves_every_instant_and_no_length():
    from dataclasses import replace

    story = crash_and_return()
    moved = Story()
    hour = 3600 * SECOND
    moved.facts = [
        replace(fact, at=fact.at + hour, **{
            name: getattr(fact, name) + hour for name in ("start", "end")
            if getattr(fact, name, None) is not None
        })
        for fact in story.facts
    ]  # fmt: skip
    moved.at = story.at + hour
    one, other = story.view(), moved.view()
    assert other.started_at == one.started_at + hour
    assert other.account.ns_by_phase == one.account.ns_by_phase
    assert [each.parts for each in other.incidents] == [each.parts for each in one.incidents]


def view_without_counts(story: Story, order: int = 1) -> RunView:
    """What a recorder outside a launcher tells: no count but the in-process iteration, from 1 on."""
    fold = RunFold(story.run)
    facts = [fact for fact in story.facts if not isinstance(fact, (AttemptStarted, AttemptEnded))][::order]
    for fact in facts:
        counts: dict[str, Any] = {name: None for name in ("job", "requeue", "restart") if hasattr(fact, name)}
        if hasattr(fact, "iteration"):
            counts["iteration"] = getattr(fact, "restart", None) or None
        fold.add([replace(fact, **counts)])
    return fold.view(story.at)


def test_a_run_that_never_counts_its_attempts_has_a_first_one():
    view = view_without_counts(Story().start().bring_up(20).steps(1, 100))
    assert (len(view.attempts), view.account.productive_ns) == (1, 100 * SECOND)


@pytest.mark.parametrize("order", [1, -1])
def test_an_iteration_after_steps_without_one_is_a_second_attempt(order: int):
    story = Story().start().bring_up(20).steps(0, 99).save(49, blocked=5).wait(3)
    story.start(Initiator.FAULT).bring_up(2).load(49, took=1).steps(50, 199)
    view = view_without_counts(story, order)
    assert [rollback.steps for rollback in view.rollbacks] == [50]
    assert view.account.productive_ns == 200 * SECOND


def test_what_an_open_incident_costs_is_known_until_the_run_was_heard_last():
    story = Story(gpus=256).start().bring_up(20).steps(1, 100).die(after=5).stop(2)
    (fresh,), (old,) = story.view().incidents, story.view(later=3600).incidents
    assert (fresh.is_cost_least, old.is_cost_least) == (False, True)
    assert fresh.lost_gpu_ns == old.lost_gpu_ns == 256 * 7 * SECOND
    assert old.so_far_ns == 3607 * SECOND


@pytest.mark.parametrize("order", [1, -1])
def test_an_iteration_that_a_log_told_of_early_begins_where_its_ranks_say(order: int):
    """Lines without a stamp are as old as the stamp before them: older than the last step of the iteration before."""
    run, first, second = "run", {"restart": 0}, {"restart": 0, "iteration": 1}
    rank = {"emitter": "rank/n0/0/x", "rank": 0}
    at = [BEGINNING + each * SECOND for each in range(60)]
    facts: list[Fact] = [
        AttemptStarted(run=run, emitter="log", seq=0, at=at[0], **first),
        Steps(run=run, seq=0, at=at[30], first_step=1, start=at[0], durations_us=(1_000_000,) * 30, **first, **rank),
        RecoveryMark(run=run, emitter="log", seq=1, at=at[28], stage=MarkStage.NOTICED, **first, by="nvrx"),
        AttemptStarted(run=run, emitter="log", seq=2, at=at[28], scope=Scope.IN_PROCESS, **second),
        RecoveryMark(run=run, seq=1, at=at[31], stage=MarkStage.NOTICED, **first, **rank),
        RecoveryMark(run=run, seq=2, at=at[38], stage=MarkStage.WORKERS_GONE, **first, **rank),
        AttemptStarted(run=run, seq=3, at=at[39], scope=Scope.IN_PROCESS, **second, **rank),
        CheckpointLoaded(run=run, seq=4, at=at[40], step=20, start=at[39], end=at[40], **second, **rank),
        Steps(run=run, seq=5, at=at[55], first_step=21, start=at[40], durations_us=(1_000_000,) * 15, **second, **rank),
    ]
    fold = RunFold(run)
    fold.add(facts[::order])
    view = fold.view(at[55])
    assert [(each.first_step, each.last_step) for each in view.attempts] == [(1, 30), (21, 35)]
    (incident,) = view.incidents
    assert (incident.started_at, incident.time_to_restart_ns, incident.lost_steps) == (at[30], 9 * SECOND, 10)
    assert incident.time_to_recover_ns == 20 * SECOND  # until step 31 begins


@pytest.mark.parametrize("is_late", [False, True])
def test_jobs_come_in_the_order_they_began_and_not_in_that_of_their_statements(is_late: bool):
    start = BEGINNING
    facts: list[Fact] = [
        AttemptStarted(run="run", emitter="b", seq=0, at=start + 50 * SECOND, job="b", restart=0),
        PhaseSpan(
            run="run", emitter="a", seq=0, at=start + 100 * SECOND, job="a", restart=0, phase=Phase.INITIALIZING,
            start=start, end=start + 100 * SECOND,
        ),
    ]  # fmt: skip
    if is_late:  # moves what is known of `b`, so that everything is gathered anew
        facts.append(Clock(run="run", emitter="b", seq=1, at=start + 60 * SECOND, offset_us=1))
    fold = RunFold("run")
    fold.add(facts)
    assert [attempt.job for attempt in fold.view(start + 200 * SECOND).attempts] == ["a", "b"]


def test_a_source_that_sees_again_is_blind_no_more_in_whatever_order_that_is_told():
    def blind(seq: int, since: int, until: int | None = None, reason: str | None = None, source: str = "sacct") -> Fact:
        at = BEGINNING + (until or since)
        return Blind(
            run="story", emitter="agent/n1/ab", seq=seq, at=at, source=source, since=BEGINNING + since,
            until=None if until is None else BEGINNING + until, reason=reason,
        )  # fmt: skip

    told = [
        blind(0, 10, reason="cannot connect"), blind(1, 10, until=20),
        blind(2, 30, reason="timed out"), blind(3, 40, reason="timed out"), blind(4, 5, source="kubernetes"),
    ]  # fmt: skip
    for facts in permutations(told):
        fold = RunFold("story")
        fold.add(facts)
        found = fold.view(BEGINNING + 100).data_quality.blind
        assert [(each.source, each.since - BEGINNING, each.until and each.until - BEGINNING) for each in found] == [
            ("kubernetes", 5, None), ("sacct", 10, 20), ("sacct", 30, 40), ("sacct", 40, None),
        ]  # fmt: skip
        assert [each.reason for each in found] == [None, "cannot connect", "timed out", "timed out"]
