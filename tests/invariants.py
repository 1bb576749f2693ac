"""What must hold for every view, whatever was told: nothing negative, nothing clamped, everything adds up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from random import Random

from rerail.server.core import goodput
from rerail.server.core.facts import Fact, Phase
from rerail.server.core.fold import RunFold
from rerail.server.core.report import figures
from rerail.server.core.timeline import DOWN_PHASES
from rerail.server.core.view import Account, Incident, RunView, Span

SETTLED = ("spans", "step_points", "checkpoints")


def folded(facts: Sequence[Fact], as_of: int) -> tuple[RunFold, RunView]:
    """All facts at once, and the view as of an instant."""
    run = RunFold(facts[0].run)
    run.add(facts)
    return run, run.view(as_of)


def assert_consistent(run: RunFold, view: RunView) -> None:
    """Every figure of a view fits every other one."""
    _assert_tiled(run.spans, view)
    _assert_adds_up(view.account)
    if view.gpu_account is not None:
        _assert_adds_up(view.gpu_account)
    for incident in view.incidents:
        _assert_incident(incident, view)
    interrupted = [attempt.number for attempt in view.attempts if attempt.is_interrupted]
    assert sorted(number for incident in view.incidents for number in incident.attempts) == interrupted
    for attempt in view.attempts:
        assert attempt.ended_at is None or attempt.ended_at >= attempt.started_at
        assert attempt.step_count >= 0
    for rollback in view.rollbacks:
        assert rollback.steps >= 0
        assert rollback.lost_ns >= 0
    freshness = view.checkpoint
    for length in (freshness.age_ns, freshness.steps_at_risk, freshness.commit_lag_p95_ns):
        assert length is None or length >= 0
    assert 0 <= freshness.durable_count <= freshness.count == len(run.checkpoints)
    assert view.undisturbed_step_ns is None or view.undisturbed_step_ns >= 0
    assert view.checkpoint_slowdown is None or view.checkpoint_slowdown >= 0
    for group in view.recovery:
        assert group.incidents > 0
        assert min(group.failed_relaunches, group.lost_steps or 0, group.lost_ns or 0, group.lost_gpu_ns or 0) >= 0
        for each in filter(None, (group.recover, group.restart)):
            assert 0 <= each.p50_ns <= each.p90_ns <= each.p95_ns <= each.p99_ns <= each.max_ns
            assert 0 < each.n <= group.incidents
    rates = view.rates
    assert rates.faults == len(view.unplanned_incidents)
    assert 0 <= rates.up_ns <= rates.elapsed_ns == view.account.elapsed_ns
    assert (rates.mttf_ns is None) == (rates.faults == 0)
    if rates.mttf_ns is not None:
        assert 0 <= (rates.mttf_low_ns or 0) <= rates.mttf_ns <= (rates.mttf_high_ns or 0)
    for length in (freshness.age_started_ns, freshness.overdue_ns, freshness.interval_ns, freshness.exposed_gpu_ns):
        assert length is None or length >= 0
    quality = view.data_quality
    assert sum(each.length_ns for each in quality.unexplained) == quality.unexplained_ns
    assert all(each.count > 0 and each.length_ns > 0 for each in quality.unexplained)
    assert quality.contradictory == sum(each.count for each in quality.contradictions)
    points = [point.at for point in run.step_points]
    assert points == sorted(points)
    if view.current_step is not None and view.current_step > (view.high_water_step or 0):
        assert any("never completed" in each.reason for each in quality.contradictions)
    for each in run.checkpoints:
        assert each.commit_lag_ns is None or each.commit_lag_ns >= 0
    json.dumps(figures(view), allow_nan=False)


def _assert_tiled(spans: Sequence[Span], view: RunView) -> None:
    assert all(span.start < span.end for span in spans)
    assert all(one.end == other.start for one, other in pairwise(spans))
    if spans:
        assert (spans[0].start, spans[-1].end) == (view.account.start, view.account.end)
        middle = (view.account.start + view.account.end) // 2
        whole, first, second = (
            dict(goodput.account(spans, since, until).ns_by_phase)
            for since, until in (
                (view.account.start, view.account.end),
                (view.account.start, middle),
                (middle, view.account.end),
            )
        )
        assert whole == dict(view.account.ns_by_phase)
        assert whole == {phase: first.get(phase, 0) + second.get(phase, 0) for phase in Phase if phase in whole}
    else:
        assert view.account.start == view.account.end


def _assert_adds_up(account: Account) -> None:
    by_phase = dict(account.ns_by_phase)
    assert all(length > 0 for length in by_phase.values())
    assert sum(by_phase.values()) - by_phase.get(Phase.EXCLUDED, 0) == account.elapsed_ns
    assert 0 <= account.productive_ns <= account.elapsed_ns
    assert 0 <= account.debt_ns <= by_phase.get(Phase.TRAINING, 0)
    losses = sum(row.length_ns for row in account.waterfall if not row.is_total)
    assert account.elapsed_ns - losses == account.productive_ns
    assert all(row.length_ns >= 0 for row in account.waterfall)
    for share in (account.training_goodput, account.infrastructure_goodput, account.checkpoint_efficiency):
        assert share is None or 0 <= share <= 1
    longest = account.longest_unproductive_ns
    assert longest is None or 0 <= longest <= account.elapsed_ns


def _assert_incident(incident: Incident, view: RunView) -> None:
    assert incident.so_far_ns == sum(part.length_ns for part in incident.parts)
    assert all(part.length_ns >= 0 for part in incident.parts)
    assert incident.time_to_recover_ns in (None, incident.so_far_ns)
    down = sum(part.length_ns for part in incident.parts if part.name in {phase.value for phase in DOWN_PHASES})
    assert 0 <= incident.time_to_restart_ns <= down <= incident.so_far_ns
    assert (incident.lost_steps is None) == (incident.lost_ns is None) == (incident.rollback is None)
    assert min(incident.lost_steps or 0, incident.lost_ns or 0) >= 0
    assert incident.lost_gpu_ns is None or incident.lost_gpu_ns >= 0
    assert view.account.start <= incident.started_at <= (incident.ended_at or view.account.end) <= view.account.end


def without_arrival(view: RunView) -> RunView:
    """The view without the two counts that tell how facts arrived, not what they say."""
    return replace(view, data_quality=replace(view.data_quality, late=0, duplicates=0))


def assert_order_is_nothing(facts: Sequence[Fact], as_of: int, chance: Random, most: int = 12) -> None:
    """The same facts in another order, twice, in small batches with a view after each, come to the same."""
    whole, expected = folded(facts, as_of)
    told = [*facts, *chance.choices(facts, k=5)]
    chance.shuffle(told)
    piecewise = RunFold(facts[0].run)
    saved: dict[str, list[object]] = {name: [] for name in SETTLED}
    while told:
        size = chance.randint(1, most)
        piecewise.add(told[:size])
        del told[:size]
        piecewise.view(as_of)
        for name, before in saved.items():
            now, settled = list(getattr(piecewise, name)), getattr(piecewise, f"settled_{name}")
            assert now[:settled] == before[:settled], "what is settled is what was there before"
            saved[name] = now
    found, wanted = without_arrival(piecewise.view(as_of)), without_arrival(expected)
    differ = [each.name for each in fields(RunView) if getattr(found, each.name) != getattr(wanted, each.name)]
    assert not differ, {name: (getattr(found, name), getattr(wanted, name)) for name in differ}
    for name, at_last in saved.items():
        assert at_last == list(getattr(whole, name))


def smallest_that_fails(facts: Sequence[Fact], fails: Callable[[Sequence[Fact]], bool]) -> list[Fact]:
    """A subset of facts that still fails, from which no single fact can be taken away: for finding out by hand."""
    kept = list(facts)
    index = 0
    while index < len(kept):
        without = kept[:index] + kept[index + 1 :]
        if without and fails(without):
            kept = without
        else:
            index += 1
    return kept
