"""Hindsight: a saved view tells of an earlier instant what the log told then, as far as rules of endings look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rerail.server.core.alert_rules import Finding, Thresholds
from rerail.server.core.alerts import findings, rules
from rerail.server.core.facts import Initiator, Outcome
from rerail.server.core.hindsight import as_it_was, endings
from rerail.server.core.view import RunState
from tests.core.test_alert_rules import dying, killed_while_stepping, monitored
from tests.story import SECOND, Story

BY_ENDINGS = sorted(name for name, rule in rules().items() if rule.by_endings)


def mending() -> Story:
    """Crash loops that end, a planned stop, and one more death."""
    story = Story().start(config='{"max_restarts": 4}').bring_up(5).steps(1, 50).save(50, blocked=1)
    for last in (70, 90, 110):
        story.steps(last - 19, last).die(after=5).stop(2).start().bring_up(5).die(after=3).stop(2)
        story.start().bring_up(5).load(50, took=2).steps(51, last)
    story.steps(111, 400).save(400, blocked=1).steps(401, 420).die(after=5).stop(2)
    return story.start(Initiator.OPERATOR).bring_up(5).load(400, took=2).steps(401, 500).die(after=5).stop(2)


STORIES: dict[str, Callable[[], Story]] = {
    "a crash loop": lambda: dying(6),
    "several of them": mending,
    "one that failed": lambda: mending().finish(Outcome.FAILED),
    "killed by a monitor": lambda: killed_while_stepping(2.0, 600.0),
    "restarted by one": lambda: Story().start().bring_up(5).steps(1, 50).wait(5).start(Initiator.MONITOR).steps(51, 60),
}


@pytest.mark.parametrize("name", BY_ENDINGS)
@pytest.mark.parametrize("which", sorted(STORIES))
def test_a_rule_of_endings_finds_in_the_saved_view_what_it_found_in_the_log(name: str, which: str):
    story = STORIES[which]()
    view = story.view()
    moments = {at for at in endings(view) if at is not None} | {each.started_at for each in view.attempts}
    for at in sorted(moments):
        for later in (1, 4 * SECOND):
            then = min(view.as_of, at + later)
            fold = Story().fold()
            fold.add([fact for fact in story.facts if fact.at <= then])
            assert seen(name, as_it_was(view, then)) == seen(name, fold.view(then)), (then - at, at)


def seen(name: str, view) -> dict[str, tuple[str, str | None]]:
    found: tuple[Finding, ...] = findings(rules()[name], view, {(name, ""): {}}, {})
    return {each.key: (each.mark, each.incident_id) for each in found}


def test_what_had_not_ended_goes_on():
    view = monitored()
    then = as_it_was(view, view.attempts[0].started_at)
    assert [each.ended_at for each in then.attempts] == [None]
    assert then.incidents == ()
    assert (then.state, then.ended_at) == (RunState.ALIVE, None)
    assert as_it_was(replace(view, attempts=(), incidents=()), 5).attempts == ()
    over = dying(2).finish().view()
    assert as_it_was(over, over.as_of) == over


@pytest.mark.parametrize("name", sorted(rules()))
def test_a_rule_finds_nothing_in_fewer_attempts_than_it_says_that_it_needs(name: str):
    rule = rules()[name]
    for times in range(4):
        view = dying(times).view()
        found = findings(rule, view, {}, {})
        assert not found or len(view.attempts) >= rule.fewest_attempts(Thresholds(rule.defaults()))
