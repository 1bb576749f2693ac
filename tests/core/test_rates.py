"""Failure rates, recovery distributions and how often to save: against published values and counted by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.checkpoint_interval import asynchronous, daly, young
from rerail.server.core.facts import AttemptStarted, Initiator, Outcome, Scope
from rerail.server.core.report import figures
from rerail.server.core.statistics import percentile, poisson_interval
from rerail.server.core.view import RunView
from tests.story import BEGINNING, SECOND, Story

MINUTE, HOUR = 60, 3600


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(1, 0.02532, 5.57164), (2, 0.24221, 7.22469), (5, 1.62349, 11.66833), (10, 4.79539, 18.39036),
     (20, 12.21652, 30.88838), (50, 37.11096, 65.91877), (100, 81.36399, 121.62679)],
)  # fmt: skip
def test_poisson_limits_are_those_of_the_tables(count: int, low: float, high: float):
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-5)


def test_without_a_fault_there_is_the_rule_of_three():
    assert poisson_interval(0) == (0.0, pytest.approx(2.9957, abs=1e-4))


@pytest.mark.parametrize(("count", "confidence"), [(-1, 0.95), (3, 1.0), (3, 0.0)])
def test_limits_of_nonsense_are_refused(count: int, confidence: float):
    with pytest.raises(ValueError, match=r"count|confidence"):
        poisson_interval(count, confidence)


@given(st.integers(1, 3000), st.floats(0.5, 0.999))
def test_seen_from_its_limits_the_count_is_just_improbable_enough(count: int, confidence: float):
    low, high = poisson_interval(count, confidence)
    tail = (1 - confidence) / 2

    def at_most(last: int, mean: float) -> float:
        return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(last + 1))

    assert 1 - at_most(count - 1, low) == pytest.approx(tail, abs=1e-8)
    assert at_most(count, high) == pytest.approx(tail, abs=1e-8)


def test_percentiles_of_few_are_the_maximum():
    assert percentile([1, 2, 3], 0.5) == 2
    assert percentile([1, 2, 3], 0.9) == 3
    assert percentile(list(range(19)), 0.95) == 18
    assert percentile(list(range(1, 101)), 0.95) == 95


@pytest.mark.parametrize(("mttf", "minutes"), [(24 * HOUR, 116.7), (6 * HOUR, 56.7), (15 * MINUTE, 9.14)])
def test_daly_gives_the_figures_of_the_paper(mttf: int, minutes: float):
    assert daly(5 * MINUTE, mttf) / MINUTE == pytest.approx(minutes, abs=0.05)


def test_young_is_its_formula_and_daly_falls_back_to_the_mttf():
    assert young(5 * MINUTE, 24 * HOUR) == pytest.approx(math.sqrt(2 * 300 * 86_400))
    assert daly(600, 300) == 300


@pytest.mark.parametrize(
    ("slowdown", "mttf", "seconds"),
    [(1.0, 3 * HOUR, 275), (1.77, 3 * HOUR, 1628), (1.0, 24 * HOUR, 720), (1.77, 24 * HOUR, 4603)],
)
def test_the_optimum_of_asynchronous_saves_has_a_floor_where_writes_queue(slowdown: float, mttf: int, seconds: int):
    assert asynchronous(3, 275, slowdown, mttf) == pytest.approx(seconds, abs=1)


def twice_down(nodes: tuple[str, ...] = ("n1", "n2")) -> Story:
    """Two faults, the first with a dead relaunch; back by the launcher, then by a person."""
    story = (
        Story().start().bring_up(20).steps(1, 100).save(100, blocked=5).steps(101, 150).die(after=60).stop(2)
        .start(Initiator.FAULT, Scope.IN_JOB).bring_up(10).die(after=5).stop(3)
        .start(Initiator.FAULT, Scope.IN_JOB).bring_up(20).load(100, took=10).steps(101, 300)
        .die(after=30).stop(2).wait(600)
        .start(Initiator.OPERATOR, Scope.REQUEUE).bring_up(20).load(100, took=10).steps(101, 400).finish()
    )  # fmt: skip
    for begun in [fact for fact in story.facts if isinstance(fact, AttemptStarted)]:
        attempt = begun.restart or 0
        config = '{"rank_heartbeat_timeout":45}' if attempt else '{"rank_heartbeat_timeout":900}'
        story.facts.append(
            AttemptStarted(
                run="story", emitter="settings", seq=attempt, at=begun.at, job="job", requeue=0, restart=attempt,
                iteration=0, nodes=nodes, config=config,
            )
        )  # fmt: skip
    return story


def test_a_fault_is_an_incident_and_its_dead_relaunches_are_told_apart():
    view = twice_down().view()
    assert (view.rates.faults, view.interruptions) == (2, 3)
    down = view.account.faults_ns
    assert view.rates.up_ns == view.account.elapsed_ns - down
    assert view.rates.mttf_ns == view.rates.up_ns // 2
    assert view.rates.mtbf_ns == view.account.elapsed_ns // 2
    low, high = poisson_interval(2)
    assert view.rates.mttf_low_ns == round(view.rates.up_ns / high)
    assert view.rates.mttf_high_ns == round(view.rates.up_ns / low)
    node_days = 2 * view.rates.up_ns / (86_400 * SECOND)
    assert view.rates.per_1000_node_days == pytest.approx(2000 / node_days)
    assert view.rates.per_1000_node_days_low == pytest.approx(1000 * low / node_days)


def test_without_nodes_the_rate_per_node_is_unknown_and_without_faults_the_mean_is():
    assert twice_down(nodes=()).view().rates.per_1000_node_days is None
    calm = Story().start().bring_up(20).steps(1, 100).finish().view()
    assert calm.rates.mttf_ns is None
    assert calm.rates.mttf_high_ns is None
    assert calm.rates.mttf_low_ns == round(calm.rates.up_ns / -math.log(0.05))
    assert calm.interval_advice.refusal is not None


def test_a_planned_stop_is_no_fault():
    view = (
        Story().start().bring_up(20).steps(1, 100).stop(5, Outcome.STOPPED)
        .start(Initiator.OPERATOR).bring_up(20).steps(101, 200).finish().view()
    )  # fmt: skip
    assert (view.rates.faults, view.interruptions, view.recovery) == (0, 1, ())


def group(view: RunView, grouped_by: str, name: str) -> dict[str, object]:
    recovery = figures(view)["recovery"]
    return recovery[grouped_by][name]  # type: ignore[index]


def test_recoveries_are_told_by_scope_cause_settings_and_who_restarted():
    view = twice_down().view()
    first, second = view.incidents
    every = group(view, "all", "all")
    assert (every["n"], every["incidents"], every["failed_relaunches"]) == (2, 2, 1)
    assert every["max"] == max(first.time_to_recover_ns or 0, second.time_to_recover_ns or 0) / SECOND
    assert every["lost_steps"] == first.lost_steps + second.lost_steps == 50 + 200
    assert group(view, "initiator", "automatic")["p50"] == (first.time_to_recover_ns or 0) / SECOND
    assert group(view, "initiator", "manual")["p50"] == (second.time_to_recover_ns or 0) / SECOND
    assert group(view, "scope", "requeue")["restart"]["n"] == 1  # type: ignore[index]
    by_config = {each.group: each.incidents for each in view.recovery if each.grouped_by == "config"}
    assert sorted(by_config.values()) == [1, 1]


def test_what_did_not_recover_is_counted_and_in_no_percentile():
    view = Story().start().bring_up(20).steps(1, 100).die(after=60).stop(2).view(later=5)
    every = group(view, "all", "all")
    assert (every["n"], every["incidents"], every["restart"]) == (0, 1, None)


def test_who_asked_for_a_restart_may_be_told_after_everything_else():
    """The groups follow the attempts too, not only the incidents."""
    story = Story().start().bring_up(20).steps(1, 100).die(after=60).stop(2)
    story.start().bring_up(20).steps(101, 200).finish()
    fold = story.fold()
    assert {each.group for each in fold.view(story.at).recovery if each.grouped_by == "initiator"} == {"unknown"}
    fold.add(
        [AttemptStarted(run="story", emitter="late", seq=0, at=story.at, job="job", requeue=0, restart=1, iteration=0,
                        initiator=Initiator.FAULT)]
    )  # fmt: skip
    assert {each.group for each in fold.view(story.at).recovery if each.grouped_by == "initiator"} == {"automatic"}


def test_an_incident_wholly_out_of_account_is_shown_and_counts_nowhere():
    story = twice_down()
    every = story.view()
    first = every.incidents[0]
    since, until = ((at - BEGINNING) / SECOND for at in (first.started_at, first.ended_at or 0))
    view = story.exclude(since - 5, until + 5).view()
    assert [incident.is_excluded for incident in view.incidents] == [True, False]
    assert view.rates.faults == 1
    assert group(view, "all", "all")["incidents"] == 1
    partly = twice_down().exclude(since, (since + until) / 2).view()
    assert partly.rates.faults == 2


def test_of_saves_made_both_ways_the_prevailing_one_says_what_a_save_blocks():
    story = Story().start().bring_up(20)
    for number, write in enumerate((None, None, None, 30.0)):
        story.steps(number * 100 + 1, number * 100 + 100).save(
            number * 100 + 100, blocked=2 if write else 10, write=write
        )
    freshness = story.view().checkpoint
    assert (freshness.is_asynchronous, freshness.blocked_ns) == (False, 10 * SECOND)
