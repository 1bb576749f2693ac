"""Checkpoint overdue: the next durable one should have been there, by the run's own interval and commit lag.

Quiet where a crash would cost no step: a run that stands still has nothing new to save, and other rules say that.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, is_open
from rerail.server.core.view import RunView
from rerail.server.core.words import count, duration


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    freshness = run.checkpoint
    overdue = freshness.overdue_ns
    if not is_open(run) or not overdue or overdue < limits.ns("seconds") or freshness.steps_at_risk == 0:
        return
    risk = "" if freshness.steps_at_risk is None else f"; a crash now costs {count(freshness.steps_at_risk, 'step')}"
    yield RULE.finding(
        run, f"No durable checkpoint for {duration(freshness.age_ns)}, {duration(overdue)} beyond what is usual{risk}.",
        since=run.as_of - overdue, mark=str(freshness.newest_durable_step),
    )  # fmt: skip


RULE = AlertRule(
    name="checkpoint_overdue",
    severity=Severity.URGENT,
    summary="The newest durable checkpoint is older than interval and commit lag explain.",
    advice="See whether saves begin, and where their write hangs.",
    find=_find,
    thresholds=(Threshold("seconds", 60, "seconds", "beyond interval + 1.5 × p95 of the commit lag", 0, 86_400),),
)
