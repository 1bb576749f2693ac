"""Where Google's library errs, rerail's definition says the truth, and the Google definition what the library says.

Each case is a run of which the truth is known. The first figures are the truth, which rerail must give; the second are
what `ml-goodput-measurement` 0.2.3 gives for the same run, which the definition named after it must give too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rerail.server.core.codec import encode_lines
from rerail.server.core.facts import Initiator, Phase
from rerail.server.decoding import decode_body
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import open_store
from tests.definitions.measuring import Reading, imported
from tests.story import BEGINNING, SECOND, Story

T = BEGINNING / SECOND


@dataclass(frozen=True)
class Case:
    """A run, its truth, and what the library says of it."""

    name: str
    reading: Reading
    truth: float | None
    restarts: int
    library: float | None
    disruptions: int | None
    window: tuple[float, float] | None = None


def rollback() -> Reading:
    """60 steps, 30 s down, back by 10 steps."""
    story = Story().start().bring_up(10).steps(1, 60).die(after=0).stop(30)
    story.start(Initiator.FAULT).bring_up(10).steps(51, 100).finish()
    return Reading(story.facts, story.at)


def zero_rollback() -> Reading:
    """100 steps in 420 s, with an outage of 310 s that lost no step."""
    story = Story().start().bring_up(10).steps(1, 50).die(after=0).stop(10)
    story.start(Initiator.FAULT).bring_up(300).steps(51, 100).finish()
    return Reading(story.facts, story.at)


def hang() -> Reading:
    """Steps until 610 s, then nothing."""
    story = Story().start().bring_up(10).steps(1, 600)
    return Reading(story.facts, BEGINNING + 920 * SECOND)


def lost_before_the_window() -> Reading:
    """A restart that does again what was first done before the window."""
    story = Story().start().bring_up(10).steps(1, 60).die(after=0).stop(5)
    story.start(Initiator.FAULT).bring_up(5).steps(41, 80).finish()
    return Reading(story.facts, story.at)


def from_step_0() -> Reading:
    """60 steps done, and all of them again."""
    story = Story().start().steps(0, 59).die(after=0).stop(20).start(Initiator.FAULT).steps(0, 119).finish()
    return Reading(story.facts, story.at)


def save_in_the_lost_part() -> Reading:
    """A blocking save of 20 s among steps that are lost."""
    story = Story().start().bring_up(10).steps(1, 55).save(55, blocked=20).steps(56, 60).die(after=0).stop(10)
    story.start(Initiator.FAULT).bring_up(10).steps(51, 100).finish()
    return Reading(story.facts, story.at)


def early_deaths() -> Reading:
    """Five relaunches that die before their first step."""
    story = Story().start().bring_up(10).steps(1, 60).die(after=0).stop(1)
    for _ in range(5):
        story.start(Initiator.FAULT).phase(Phase.RENDEZVOUS, 79, "launcher").die(after=0, by="relaunch").stop(1)
    story.start(Initiator.FAULT).bring_up(9).steps(51, 90).finish()
    return Reading(story.facts, story.at)


def logged(*stamps: tuple[int, float], end: float) -> list[dict[str, object]]:
    """A log of Google's with steps that began at some seconds."""
    lines: list[dict[str, object]] = [{"job_name": "story", "job_start_time": T}]
    lines += [{"job_name": "story", "step_count": step, "step_start_time": T + at} for step, at in stamps]
    return [*lines, {"job_name": "story", "job_end_time": T + end}]


def of_log(lines: list[dict[str, object]], end: float) -> Reading:
    facts, refused = imported("google-goodput", lines)
    assert not refused
    return Reading(facts, BEGINNING + round(end * SECOND))


def doubled() -> Reading:
    """One entry delivered twice."""
    lines = logged(*((step, float(step)) for step in range(100)), end=100)
    return of_log([*lines[:50], lines[49], *lines[50:]], 100)


def swapped() -> Reading:
    """Two entries the other way round."""
    lines = logged(*((step, float(step)) for step in range(100)), end=100)
    lines[49], lines[50] = lines[50], lines[49]
    return of_log(lines, 100)


def every_tenth() -> Reading:
    """1,000 steps of which only every tenth was logged, after 10 s of bring-up."""
    return of_log(logged(*((step, 10.0 + step) for step in range(0, 990, 10)), end=1000), 1000)


CASES = [
    Case("E0 rollback", rollback(), 0.625, 1, 0.625, 1),
    Case("E1 zero rollback", zero_rollback(), 100 / 420, 1, 410 / 420, 0),
    Case("E2 window that straddles a hang", hang(), 0.5, 0, 1.0, 0, (310, 910)),
    Case("E2 window with a little training", hang(), 10 / 300, 0, 1.0, 0, (600, 900)),
    Case("E2 window inside a hang", hang(), 0.0, 0, None, None, (620, 920)),
    Case("E2b lost before the window", lost_before_the_window(), 20 / 45, 1, 1.0, 0, (75, 120)),
    Case("E3 restart from step 0", from_step_0(), 120 / 200, 1, 120 / 200, 1),
    Case("E6 save in the lost part", save_in_the_lost_part(), 100 / 160, 1, 80 / 160, 1),
    Case("E7 relaunches that die early", early_deaths(), 90 / 520, 6, 90 / 520, 1),
]
"""E4, E8 and E9 are of logs, E5 of a store: they follow below."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_is_the_truth_and_theirs_is_what_the_library_says(case: Case) -> None:
    ours = case.reading.under("rerail", case.window)
    theirs = case.reading.under("google", case.window)
    assert ours.training == pytest.approx(case.truth)
    assert case.reading.view.restarts == case.restarts
    assert theirs.training == (None if case.library is None else pytest.approx(case.library))
    assert dict(theirs.numbers).get("disruptions") == case.disruptions
    if theirs.training is None:
        assert "no log entry" in dict(theirs.reasons)["training_goodput"]


def test_e0_and_e3_what_was_wasted() -> None:
    of_rollback = {each.name: each.length_ns for each in rollback().under("google").buckets}
    assert of_rollback["WASTED_PROGRESS_FROM_DISRUPTION"] == 9 * SECOND
    assert of_rollback["INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION"] == 31 * SECOND
    restart = from_step_0()
    assert dict(restart.view.account.ns_by_phase)[Phase.RECOMPUTING] == 60 * SECOND
    of_restart = {each.name: each.length_ns for each in restart.under("google").buckets}
    assert of_restart["WASTED_PROGRESS_FROM_DISRUPTION"] == 0
    assert of_restart["OTHER"] == 59 * SECOND


def test_e4_steps_that_were_not_logged_were_done_all_the_same() -> None:
    assert every_tenth().under("rerail").training == pytest.approx(0.99)


def test_e5_who_asks_anew_and_who_goes_on_asking_see_every_step(tmp_path: Path) -> None:
    story = Story().start().bring_up(1).steps(0, 57)
    begun = len(story.facts)
    story.steps(58, 499).finish()
    address = f"sqlite:///{tmp_path}/rerail.sqlite3"
    prepare_database(address)
    store = open_store(address)
    projector, asked_all_along = Projector(store), Queries(store)

    def state(facts: list) -> None:
        store.append([decode_body(encode_lines(facts), story.at + 3600 * SECOND).batch])
        while projector.derive_due():
            pass

    state(story.facts[:begun])
    seen = dict(asked_all_along.measured("story", "google").measured.numbers)
    assert seen["last_productive_step"] == 57
    state(story.facts[begun:])
    for queries in (asked_all_along, Queries(store)):
        found = queries.measured("story", "google")
        assert dict(found.measured.numbers)["last_productive_step"] == 499
        assert found.measured.training == pytest.approx(500 / 501)
        assert found.view.high_water_step == 499
    store.close()


@pytest.mark.parametrize("reading", [doubled, swapped], ids=["E8 doubled", "E9 swapped"])
def test_e8_and_e9_delivery_twice_or_out_of_order_changes_nothing(reading: Callable[[], Reading]) -> None:
    found = reading()
    assert found.under("rerail").training == 1.0
    assert found.view.restarts == 0
    assert dict(found.under("google").numbers)["disruptions"] == 0
