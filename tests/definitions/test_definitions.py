"""Every definition on every recorded history: it answers or says why not, and depends on the set of facts alone."""

from __future__ import annotations

import random

import pytest

from rerail.server.core.definitions import OURS, definitions
from rerail.server.core.facts import Initiator, Phase
from tests.definitions.measuring import Reading
from tests.histories import History, histories
from tests.story import BEGINNING, SECOND, Story

every_definition = pytest.mark.parametrize("name", list(definitions()))
every_history = pytest.mark.parametrize("history", histories(), ids=lambda history: history.name)


def test_ours_comes_first_and_each_has_a_statement() -> None:
    assert next(iter(definitions())) == OURS
    assert set(definitions()) == {"rerail", "aws", "ett", "google", "meta_ettr"}
    for definition in definitions().values():
        assert definition.stated_by.endswith(".")


@every_history
def test_each_answers_or_says_why_not(history: History) -> None:
    facts = history.facts()
    as_of = history.expected["as_of"]
    reading = Reading(facts, as_of, facts[0].run)
    for name in definitions():
        measured = reading.under(name)
        reasons = dict(measured.reasons)
        for figure, value in (
            ("training_goodput", measured.training),
            ("infrastructure_goodput", measured.infrastructure),
        ):
            assert (value is None) == (figure in reasons), (name, figure)
            assert value is None or value <= 1, (name, figure)
        assert measured.difference.endswith("."), name
        assert all(bucket.length_ns >= 0 for bucket in measured.buckets), name
    ours = reading.under(OURS)
    assert ours.training == (reading.view.account.training_goodput if reading.view.sees_training else None)


@every_history
def test_order_and_duplicates_change_nothing(history: History) -> None:
    facts = history.facts()
    as_of = history.expected["as_of"]
    expected = {name: Reading(facts, as_of, facts[0].run).under(name) for name in definitions()}
    shuffled = facts + facts[: len(facts) // 3]
    random.Random(history.name).shuffle(shuffled)
    again = Reading(shuffled, as_of, facts[0].run)
    assert {name: again.under(name) for name in definitions()} == expected


def test_ettr_keeps_what_rerail_leaves_out_of_account() -> None:
    story = Story().queue(20).start().bring_up(10).steps(1, 60).exclude(40, 50).finish()
    measured = Reading(story.facts, story.at).under("meta_ettr")
    assert measured.training == pytest.approx(50 / 90)
    assert "10\u202fs declared out of account stay in its wall" in measured.difference
    assert {each.name: each.length_ns / SECOND for each in measured.buckets}["queue"] == 20


def test_ett_takes_away_the_start_and_the_recoveries_and_no_stall() -> None:
    story = Story().start().bring_up(10).steps(1, 50).save(50, blocked=20).steps(51, 60).die(after=5).stop(5)
    story.start(Initiator.FAULT).bring_up(10).load(50, took=5).steps(51, 100).finish()
    measured = Reading(story.facts, story.at).under("ett")
    # 165 s: 10 to start, 35 to recover (25 down, 10 to catch up), 20 blocked by the save.
    assert measured.elapsed_ns == 165 * SECOND
    assert measured.training == pytest.approx(1 - (10 + 35) / 165)
    assert dict(measured.numbers) == {"failures": 1, "mean_time_to_recover_seconds": 35}
    assert "20\u202fs of checkpoint stalls" in measured.difference


def test_aws_counts_kept_steps_and_does_not_see_that_steps_slowed_down() -> None:
    story = Story().start().bring_up(10).steps(1, 200).steps(201, 250, each=3).finish()
    reading = Reading(story.facts, story.at)
    assert reading.under("rerail").training == pytest.approx(350 / 360)
    assert reading.under("aws").training == pytest.approx(250 / 360)


def test_a_window_is_measured_as_a_window() -> None:
    story = Story().start().bring_up(10).steps(1, 100).die(after=0).stop(20)
    story.start(Initiator.FAULT).bring_up(30).steps(91, 150).finish()
    reading = Reading(story.facts, story.at)
    window = (100, 200)
    # Ten steps, 50 s down, ten done again, thirty new ones.
    assert reading.under("rerail", window).training == pytest.approx(0.4)
    assert reading.under("meta_ettr", window).training == pytest.approx(0.4)
    aws = reading.under("aws", window)
    assert aws.training == pytest.approx(0.4)
    assert aws.infrastructure == pytest.approx(0.5)
    assert reading.under("ett", window).training == pytest.approx(1 - 60 / 100)


@every_definition
def test_where_only_a_launcher_speaks_nobody_claims_training(name: str) -> None:
    story = Story().start().phase(Phase.RENDEZVOUS, 10, "launcher").wait(60).die(after=1).stop(1)
    story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 10, "launcher").wait(100)
    measured = Reading(story.facts, story.at).under(name)
    assert measured.training is None
    assert "training_goodput" in dict(measured.reasons)


@every_definition
def test_a_run_of_which_nothing_but_its_name_is_known_is_unknown(name: str) -> None:
    measured = Reading(Story().facts, BEGINNING + SECOND).under(name)
    assert measured.training is None
    assert "training_goodput" in dict(measured.reasons)
