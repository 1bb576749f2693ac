"""The contract of every alert rule: quiet on the healthy story, fires on its own, under a key that stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rerail.server.core.alerts import SWITCH, Finding, find, findings, in_force, rules
from rerail.server.core.facts import Evidence, Initiator, Outcome
from rerail.server.core.view import (
    CheckpointFreshness,
    Domain,
    HeartbeatFigures,
    QuietRanks,
    RunView,
)
from tests.story import SECOND, Story


def healthy() -> Story:
    story = Story().start().bring_up(20)
    for first in range(1, 1000, 100):
        story.steps(first, first + 99).save(first + 99, blocked=1, write=10)
    return story.steps(1001, 1040)


def dying(times: int, step: int = 60) -> Story:
    story = Story().start().bring_up(20).steps(1, 50).save(50, blocked=1).steps(51, step)
    for _ in range(times):
        story.die(after=5).stop(2).start(scope=None).bring_up(20).load(50, took=5).steps(51, step)
    return story


def stillborn() -> RunView:
    story = Story().start().bring_up(5)
    for _ in range(3):
        story.die(after=5).stop(2).start().bring_up(5)
    return story.view()


def with_config(restart: int) -> RunView:
    view = dying(restart).view()
    return replace(
        view, attempts=tuple(replace(each, config='{"max_restarts": 4}', restart=each.number) for each in view.attempts)
    )


def at_a_node() -> RunView:
    view = dying(3).view()
    blamed = tuple(
        replace(each, verdict=replace(each.verdict, culprit_node="n7", domain=Domain.INFRASTRUCTURE))
        for each in several_incidents().incidents
    )
    return replace(view, incidents=blamed)


def several_incidents() -> RunView:
    story = Story().start().bring_up(5).steps(1, 50).save(50, blocked=1)
    last = 50
    for _ in range(4):
        story.steps(last + 1, last + 20).die(after=5).stop(2).start().bring_up(5).load(50, took=2)
        story.steps(51, last + 40).save(last + 40, blocked=1)
        last += 40
    return story.view()


def monitored() -> RunView:
    story = Story().start().bring_up(5).steps(1, 50)
    return story.wait(5).start(initiator=Initiator.MONITOR).bring_up(5).steps(1, 60).view()


def untold_saves(loads: int, step: int = 51) -> Story:
    """A loop whose saves nobody tells of: every attempt goes on from step 50 and dies at 60."""
    story = Story().start().bring_up(20).steps(1, 60)
    for number in range(loads):
        story.die(after=5).stop(2).start().bring_up(20).load(50, took=5)
        if number + 1 < loads:
            story.steps(51, 60)
    return story


def killed_while_stepping(gap: float = 2.0, waited: float = 600.0) -> Story:
    story = Story().start().bring_up(5).steps(1, 700).wait(gap)
    text = f"Did not get subsequent heartbeat. Waited {waited:.2f} seconds."
    story._say(Evidence, "launcher", **story._here(), source="nvrx", text=text, rank=0)
    return story.die(after=0, by="monitor").stop(2).start().bring_up(5)


def stalled() -> RunView:
    story = Story().start().bring_up(20).steps(1, 200)
    return story.heartbeats(300, count=150).view()


def freshness(**known: object) -> Callable[[], RunView]:
    return lambda: replace(healthy().view(), checkpoint=CheckpointFreshness(count=3, **known))


def gaps() -> RunView:
    figures = HeartbeatFigures("saving", n=900, max_gap_ns=80 * SECOND, armed_timeout_ns=100 * SECOND)
    return replace(healthy().view(), heartbeat=(figures,))


def quiet() -> RunView:
    view = healthy().view()
    return replace(view, quiet_ranks=QuietRanks(2, (3, 4), view.as_of - 90 * SECOND))


def burning() -> RunView:
    story = Story().start().bring_up(20).steps(1, 3600)
    return story.die(after=5).view(later=3000)


STORIES: dict[str, Callable[[], RunView]] = {
    "no_durable_progress": stillborn,
    "same_fault_again": lambda: dying(3).view(),
    "same_step": lambda: dying(2).die(after=5).stop(2).view(),
    "suspect_checkpoint": lambda: dying(2).die(after=5).stop(2).view(),
    "same_node": at_a_node,
    "short_attempts": stillborn,
    "restart_without_fault": monitored,
    "retry_budget": lambda: with_config(3),
    "stall": stalled,
    "silence": lambda: healthy().view(later=900),
    "checkpoint_overdue": freshness(overdue_ns=600 * SECOND, age_ns=900 * SECOND, newest_durable_step=3),
    "save_not_durable": freshness(stuck=("step-900",)),
    "timeout_headroom": gaps,
    "goodput_objective": burning,
    "quiet_ranks": quiet,
}


def found_of(name: str, view: RunView, values: dict[str, float] | None = None) -> tuple[Finding, ...]:
    return findings(rules()[name], view, {(name, ""): values or {}}, {})


def test_every_rule_has_its_story():
    assert set(STORIES) == set(rules())


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_rule_is_quiet_on_the_healthy_story_at_every_moment_of_it(name: str):
    story = healthy()
    for upto in range(0, len(story.facts), 7):
        told = [fact for fact in story.facts if fact.at <= story.facts[upto].at]
        fold = Story().fold()
        fold.add(told)
        assert found_of(name, fold.view(max(fact.at for fact in told))) == ()
    assert found_of(name, story.finish().view()) == ()


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_rule_fires_on_its_own_story_and_can_be_switched_off(name: str):
    view = STORIES[name]()
    first = found_of(name, view)
    assert len(first) == 1, [each.sentence for each in first]
    assert first[0].rule == name
    assert first[0].run_id == "story"
    assert len(first[0].sentence) > 20
    assert found_of(name, view, {SWITCH: 0.0}) == ()


@pytest.mark.parametrize("name", sorted(STORIES))
def test_the_key_and_what_it_rests_on_stay_while_time_passes_and_findings_repeat(name: str):
    view = STORIES[name]()
    later = replace(view, as_of=view.as_of + 5 * SECOND)
    assert found_of(name, view) == found_of(name, view)
    assert {each.key for each in found_of(name, later)} == {each.key for each in found_of(name, view)}
    assert {each.mark for each in found_of(name, later)} == {each.mark for each in found_of(name, view)}


@pytest.mark.parametrize("name", sorted(STORIES))
def test_thresholds_are_in_bounds_and_explained(name: str):
    for each in rules()[name].thresholds:
        assert each.lowest <= each.default <= each.highest
        assert each.meaning
        assert each.unit
    assert rules()[name].summary.endswith(".")
    assert rules()[name].advice.endswith((".", "?"))


@pytest.mark.parametrize(("loads", "is_found"), [(1, False), (2, False), (3, True), (44, True)])
def test_going_on_from_one_step_again_and_again_is_no_progress_where_no_save_is_told_of(loads, is_found):
    view = untold_saves(loads).view()
    assert view.checkpoint.count == 0
    found = found_of("no_durable_progress", view)
    assert bool(found) is is_found
    if found:
        assert found[0].sentence.startswith(f"{loads} attempts in a row went on from step 50")
        assert "concluded from where they resumed" in found[0].sentence


def test_passing_what_all_attempts_before_reached_is_progress_whatever_is_told_of_saves():
    assert found_of("no_durable_progress", untold_saves(4).steps(51, 60).view())
    assert found_of("no_durable_progress", untold_saves(4).steps(51, 61).view()) == ()


@pytest.mark.parametrize(
    ("gap", "waited", "is_found"), [(2.0, 600.0, True), (599.0, 600.0, False), (6.0, 5.0, False), (2.0, 5.0, True)]
)
def test_a_kill_while_steps_went_on_is_a_restart_without_a_fault(gap, waited, is_found):
    view = killed_while_stepping(gap, waited).view()
    assert view.incidents[0].verdict.cause == "hang"
    found = found_of("restart_without_fault", view)
    assert bool(found) is is_found
    if found:
        assert f"until {gap:g}\u202fs before the kill" in found[0].sentence
        assert found[0].incident_id == view.incidents[0].incident_id


@pytest.mark.parametrize(
    ("gap", "said"), [(80, "came close to the time-out"), (100, "reached the time-out"), (130, "exceeded the time-out")]
)
def test_a_gap_is_said_to_be_near_a_time_out_or_beyond_it(gap, said):
    (figures,) = gaps().heartbeat
    view = replace(gaps(), heartbeat=(replace(figures, max_gap_ns=gap * SECOND),))
    assert said in found_of("timeout_headroom", view)[0].sentence


@pytest.mark.parametrize(("at_risk", "is_found"), [(0, False), (1, True), (None, True)])
def test_a_checkpoint_is_overdue_only_where_a_crash_would_cost_something(at_risk, is_found):
    view = freshness(overdue_ns=600 * SECOND, age_ns=900 * SECOND, steps_at_risk=at_risk)()
    assert bool(found_of("checkpoint_overdue", view)) is is_found


def test_other_thresholds_find_other_things():
    view = dying(2).view()
    assert found_of("same_fault_again", view) == ()
    assert len(found_of("same_fault_again", view, {"times": 2})) == 1
    assert found_of("silence", healthy().view(later=900), {"seconds": 1000.0}) == ()


def test_a_project_has_thresholds_of_its_own_over_those_of_all():
    rule = rules()["silence"]
    changed = {("silence", ""): {"seconds": 60.0}, ("silence", "atlas"): {"seconds": 900.0}}
    assert in_force(rule, "atlas", changed)["seconds"] == 900
    assert in_force(rule, "other", changed)["seconds"] == 60
    assert in_force(rule, None, {})["seconds"] == 300


def test_a_step_that_was_passed_is_deterministic_no_more():
    story = dying(2)
    assert (
        found_of("same_step", story.die(after=5).stop(2).start().bring_up(5).load(50, took=1).steps(51, 80).view())
        == ()
    )


def test_a_run_that_ended_long_ago_wakes_nobody():
    view = dying(3).die(after=5).stop(2).finish(Outcome.FAILED).view()
    assert find(view, {}, {}, view.as_of)
    assert find(view, {}, {}, view.as_of + 2 * 86_400 * SECOND) == ()


def test_nodes_that_other_runs_blame_are_told_of_at_once():
    view = at_a_node()
    one = replace(view, incidents=view.incidents[:1])
    rule = rules()["same_node"]
    assert findings(rule, one, {}, {}) == ()
    assert [each.node for each in findings(rule, one, {}, {"n7": 1})] == ["n7"]


@pytest.mark.parametrize(
    ("told", "is_found"),
    [
        ({"nodes": ("n7",)}, False), ({"nodes": ("n7", "n8")}, True), ({"config": '{"max_nodes": 1}'}, False),
        ({"config": '{"nnodes": "1:1"}'}, False), ({"config": '{"nnodes": "1:4"}'}, True), ({"config": "[1]"}, True),
        ({"config": "no json"}, True),
    ],
)  # fmt: skip
def test_where_there_is_one_machine_every_fault_is_on_it_and_says_nothing(told, is_found):
    view = at_a_node()
    placed = replace(view, attempts=tuple(replace(each, **{"nodes": (), **told}) for each in view.attempts))
    assert bool(findings(rules()["same_node"], placed, {}, {"n7": 5})) is is_found
