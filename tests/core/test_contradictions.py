"""Facts that cannot all be true: counted with a reason and an example, and never a negative or a clamped figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.codec import FactError, decode, decode_line, encode, encode_line
from rerail.server.core.facts import (
    FACT_TYPES,
    AttemptEnded,
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
from tests.invariants import assert_consistent, assert_order_is_nothing, folded
from tests.soup import BEGINNING, KINDS, SECOND, soup
from tests.story import Story

END = BEGINNING + 400 * SECOND


def base() -> Story:
    """Two attempts that fit: 100 steps, a save, a crash, 60 more."""
    story = Story().start().bring_up(10).steps(1, 50).save(50, blocked=2).steps(51, 100).die(after=5).stop(2)
    return story.start(Initiator.FAULT).bring_up(10).load(50, took=4).steps(51, 110).finish()


def more(
    story: Story, kind: type[Fact], second: float, restart: int = 0, emitter: str = "odd", **fields: object
) -> None:
    """One more fact of the first attempt, said by somebody else."""
    where = {"job": "job", "requeue": 0, "restart": restart, "iteration": 0}
    told = sum(fact.emitter == emitter for fact in story.facts)
    at = BEGINNING + round(second * SECOND)
    story.facts.append(kind(run="story", emitter=emitter, seq=told, at=at, **where, **fields))  # type: ignore[arg-type]


def at(second: float) -> int:
    return BEGINNING + round(second * SECOND)


def checkpoint(story: Story, second: float, stage: CheckpointStage, name: str = "c", step: int = 60) -> None:
    more(story, CheckpointMoment, second, checkpoint=name, stage=stage, step=step)


def steps_again(story: Story) -> None:
    more(story, Steps, 30, emitter="rank/node0/0/0", first_step=5, start=at(30), durations_us=(7,))


def steps_over_steps(story: Story) -> None:
    more(story, Steps, 25, first_step=101, start=at(117), durations_us=(3_000_000,))
    more(story, Steps, 25, first_step=102, start=at(118), durations_us=(1_000_000,))


def ranks_hours_apart(story: Story) -> None:
    more(story, Steps, 25, first_step=100, start=at(7200), durations_us=(1_000_000,))


def load_of_the_future(story: Story) -> None:
    more(story, CheckpointLoaded, 130, restart=1, step=999, start=at(125), end=at(126))


def load_before_its_attempt(story: Story) -> None:
    more(story, CheckpointLoaded, 130, restart=1, step=50, start=at(20), end=at(21))
    more(story, RecoveryMark, 119, restart=1, stage=MarkStage.RENDEZVOUS_STARTED)


def load_while_stepping(story: Story) -> None:
    more(story, CheckpointLoaded, 180, restart=1, step=50, start=at(120), end=at(160))


def durable_before_it_started(story: Story) -> None:
    checkpoint(story, 80, CheckpointStage.STARTED)
    checkpoint(story, 70, CheckpointStage.DURABLE)


def durable_before_it_was_captured(story: Story) -> None:
    checkpoint(story, 60, CheckpointStage.STARTED)
    checkpoint(story, 80, CheckpointStage.CAPTURED)
    checkpoint(story, 70, CheckpointStage.DURABLE)


def captured_before_it_started(story: Story) -> None:
    checkpoint(story, 80, CheckpointStage.STARTED)
    checkpoint(story, 70, CheckpointStage.CAPTURED)


def failed_after_it_was_durable(story: Story) -> None:
    checkpoint(story, 70, CheckpointStage.DURABLE)
    checkpoint(story, 80, CheckpointStage.FAILED)


def deleted_before_it_was_there(story: Story) -> None:
    checkpoint(story, 70, CheckpointStage.STARTED)
    checkpoint(story, 60, CheckpointStage.DELETED)


def of_two_steps(story: Story) -> None:
    checkpoint(story, 70, CheckpointStage.STARTED)
    checkpoint(story, 80, CheckpointStage.DURABLE, step=61)


def ended_before_it_began(story: Story) -> None:
    story.facts = [fact for fact in story.facts if not (isinstance(fact, AttemptEnded) and fact.restart == 0)]
    more(story, AttemptEnded, -20)
    more(story, RecoveryMark, 0, stage=MarkStage.RENDEZVOUS_STARTED)


def stepped_after_the_next_began(story: Story) -> None:
    more(
        story, Steps, 150, emitter="rank/node0/0/0", first_step=101, start=at(140), durations_us=(9_000_000, 1_000_000)
    )


def exit_codes_that_differ(story: Story) -> None:
    more(story, Exit, 118, rank=3, exit_code=1)
    more(story, Exit, 118.5, rank=3, exit_code=137)


def phase_of_two_ends(story: Story) -> None:
    for end in (60, 70):
        more(story, PhaseSpan, end, phase=Phase.EVALUATING, start=at(55), end=at(end), span="s")


def phase_without_a_beginning(story: Story) -> None:
    more(story, PhaseSpan, 60, phase=Phase.EVALUATING, end=at(60), span="s")


def phase_that_ends_first(story: Story) -> None:
    more(story, PhaseSpan, 60, phase=Phase.EVALUATING, start=at(60), span="s")
    more(story, PhaseSpan, 50, phase=Phase.EVALUATING, end=at(50), span="s")


def steps_without_a_gpu(story: Story) -> None:
    more(story, Capacity, 62, gpus=0)
    more(story, Capacity, 70, gpus=8)


def window_of_nothing(story: Story) -> None:
    more(story, Excluded, 300, start=at(30), end=at(30))


CONTRADICTIONS: tuple[tuple[Callable[[Story], None], str], ...] = (
    (steps_again, "a step was completed again without a restart"),
    (steps_over_steps, "steps of one emitter lie over one another"),
    (ranks_hours_apart, "ranks disagree by minutes about when a step ended: a clock is off"),
    (load_of_the_future, "a checkpoint was loaded of a step that was never completed"),
    (load_before_its_attempt, "a checkpoint was loaded before its attempt began"),
    (load_while_stepping, "a checkpoint was still being loaded when its attempt stepped"),
    (load_of_the_future, "a checkpoint was loaded that nobody saved, as far as told"),
    (durable_before_it_started, "a checkpoint was durable before it was started"),
    (durable_before_it_was_captured, "a checkpoint was durable before it was captured"),
    (captured_before_it_started, "a checkpoint was captured before it was started"),
    (failed_after_it_was_durable, "a checkpoint failed after it was durable"),
    (deleted_before_it_was_there, "a checkpoint was deleted before it was there"),
    (of_two_steps, "one checkpoint was told of several steps"),
    (ended_before_it_began, "an attempt ended before it began, or stepped on after its end"),
    (stepped_after_the_next_began, "an attempt stepped on after the next one began"),
    (exit_codes_that_differ, "one rank was told to have exited with several codes"),
    (phase_of_two_ends, "one phase was told with several names, beginnings or ends"),
    (phase_without_a_beginning, "a phase ended whose beginning was never told"),
    (phase_that_ends_first, "a phase ended before it began"),
    (steps_without_a_gpu, "steps were completed while no GPU was held"),
    (window_of_nothing, "a window out of account is empty"),
)


def test_what_fits_is_not_counted():
    assert base().view().data_quality.contradictions == ()


@pytest.mark.parametrize(
    ("tell", "reason"), CONTRADICTIONS, ids=[f"{tell.__name__}-{reason[:30]}" for tell, reason in CONTRADICTIONS]
)
def test_a_contradiction_is_counted_with_a_reason_and_an_example(tell: Callable[[Story], None], reason: str):
    story = base()
    tell(story)
    run, view = folded(story.facts, story.at)
    found = {each.reason: each for each in view.data_quality.contradictions}
    assert found[reason].count == 1
    assert found[reason].example
    assert_consistent(run, view)
    assert_order_is_nothing(story.facts, story.at, Random(reason))


@given(st.lists(st.sampled_from([tell for tell, _ in CONTRADICTIONS]), max_size=6), st.randoms(use_true_random=False))
def test_contradictions_of_one_run_do_not_hide_each_other(tells, chance):
    story = base()
    for tell in tells:
        tell(story)
    # Emitters that were told of by several of them go on counting where the others stopped.
    run, view = folded(story.facts, story.at)
    assert_consistent(run, view)
    assert bool(view.data_quality.contradictions) is bool(tells)
    assert_order_is_nothing(story.facts, story.at, chance)


def test_a_clock_that_is_minutes_off_and_does_not_say_so_is_noticed():
    story = base()
    off = 600 * SECOND
    for index, fact in enumerate(story.facts):
        if fact.emitter.startswith("rank/"):
            moved = {name: getattr(fact, name) + off for name in ("start", "end") if getattr(fact, name, None)}
            story.facts[index] = replace(fact, at=fact.at + off, **moved)
    run, view = folded(story.facts, story.at)
    assert_consistent(run, view)
    assert "an attempt stepped on after the next one began" in {
        each.reason for each in view.data_quality.contradictions
    }
    assert view.account.productive_ns == 0


def test_two_emitters_that_count_one_attempt_differently_are_noticed():
    story = base()
    wrong = [fact for fact in story.facts if isinstance(fact, Steps) and fact.restart == 0]
    story.facts = [fact for fact in story.facts if fact not in wrong]
    story.facts += [replace(fact, restart=1) for fact in wrong]
    run, view = folded(story.facts, story.at)
    assert_consistent(run, view)
    assert view.data_quality.contradictory > 0


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Capacity, {"gpus": -1}),
        (Excluded, {"end": BEGINNING - SECOND}),
        (CheckpointLoaded, {"end": BEGINNING - SECOND}),
        (PhaseSpan, {"end": BEGINNING - SECOND}),
        (Steps, {"durations_us": [-1]}),
    ],
)
def test_what_contradicts_itself_is_refused_at_the_door(kind: type[Fact], change: dict[str, object]):
    whole: dict[type[Fact], dict[str, object]] = {
        Capacity: {"gpus": 1},
        Excluded: {"start": BEGINNING, "end": BEGINNING + 1},
        CheckpointLoaded: {"start": BEGINNING, "end": BEGINNING + 1, "step": 1},
        PhaseSpan: {"start": BEGINNING, "end": BEGINNING + 1, "phase": Phase.LOADING},
        Steps: {"start": BEGINNING, "first_step": 1, "durations_us": (1,)},
    }
    fact = kind(run="r", emitter="e", seq=0, at=BEGINNING, **whole[kind])  # type: ignore[arg-type]
    with pytest.raises(FactError) as refused:
        decode({**encode(fact), **change})
    assert refused.value.field.split("[")[0] in change


def test_the_soup_has_every_kind():
    assert set(KINDS) == set(FACT_TYPES.values())


@given(soup())
def test_whatever_fits_the_wire_format_survives_it(facts: list[Fact]):
    assert [decode_line(encode_line(fact)) for fact in facts] == facts


@given(soup(), st.sampled_from([END, BEGINNING + 120 * SECOND, BEGINNING - SECOND]))
def test_whatever_is_told_the_account_tiles_and_nothing_is_negative(facts: list[Fact], as_of: int):
    assert_consistent(*folded(facts, as_of))


@given(soup(), st.randoms(use_true_random=False))
def test_whatever_is_told_its_order_changes_nothing(facts: list[Fact], chance):
    assert_order_is_nothing(facts, END, chance)
