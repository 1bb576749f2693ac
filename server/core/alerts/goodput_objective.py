"""Goodput under its objective: faults burn the time that the objective allows to be lost, far faster than it allows.

The burn rate of a window is the share of it lost to unplanned incidents ÷ the share that may be lost. Both windows must
burn: the long one says that it matters, the short one that it still goes on. Beside that, the whole life of the run may
have an objective for its training goodput; it has none unless somebody sets it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import HOUR, AlertRule, Finding, Severity, Threshold, Thresholds, faults_of, is_open
from rerail.server.core.view import RunView
from rerail.server.core.words import share


def _lost(run: RunView, window: int) -> float:
    start = run.as_of - window
    lost = sum(
        max(
            0, min(run.as_of, run.as_of if each.is_open else (each.ended_at or run.as_of)) - max(start, each.started_at)
        )
        for each in faults_of(run)
    )
    return lost / window


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    if not is_open(run) or run.started_at is None:
        return
    long, short = round(limits["long_hours"] * HOUR), round(limits["short_hours"] * HOUR)
    allowed = 1 - limits["objective"]
    lived = run.as_of - run.started_at
    incidents = faults_of(run)
    if incidents and allowed > 0 and lived >= short:
        lost_long, lost_short = _lost(run, min(long, lived)), _lost(run, short)
        if min(lost_long, lost_short) / allowed >= limits["burn_rate"]:
            yield RULE.finding(
                run,
                f"Incidents took {share(lost_long)} of the last {min(long, lived) / HOUR:.3g} h; the objective allows "
                f"{share(allowed)}.",
                subject="incidents", since=incidents[-1].started_at, mark=incidents[-1].incident_id,
                incident_id=incidents[-1].incident_id,
            )  # fmt: skip
    goodput = run.account.training_goodput if run.sees_training else None
    if limits["training"] and goodput is not None and lived >= long and goodput < limits["training"]:
        yield RULE.finding(
            run, f"Training goodput is {share(goodput)}, under its objective of {share(limits['training'])}.",
            subject="training", mark="",
        )  # fmt: skip


RULE = AlertRule(
    name="goodput_objective",
    severity=Severity.NOTICE,
    summary="Faults burn the lost time that the objective allows, several times too fast.",
    advice="See the loss waterfall: is it the faults, their length, or the rework after them?",
    find=_find,
    thresholds=(
        Threshold("objective", 0.95, "share", "of time not lost to incidents", 0, 0.9999),
        Threshold("burn_rate", 6, "×", "of what the objective allows, in both windows", 1, 10_000),
        Threshold("long_hours", 6, "hours", "the long window", 1, 24 * 30),
        Threshold("short_hours", 1, "hours", "the short window", 0.1, 24),
        Threshold("training", 0, "share", "objective for the training goodput of the whole life; 0: none", 0, 0.9999),
    ),
)
