"""Suspect checkpoint: one was loaded twice, and both times the attempt failed before it saved anew."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Thresholds
from rerail.server.core.view import RunView


def _find(run: RunView, _limits: Thresholds) -> Iterable[Finding]:
    newest = run.checkpoint.newest_durable_step
    for step in run.checkpoint.suspect_steps:
        if newest is not None and newest > step:
            continue
        incident = run.incidents[-1] if run.incidents else None
        yield RULE.finding(
            run, f"The checkpoint of step {step} was loaded at least twice, and each time the attempt failed.",
            subject=str(step), since=None if incident is None else incident.started_at,
            mark=str(len(run.attempts)), incident_id=None if incident is None else incident.incident_id,
        )  # fmt: skip


RULE = AlertRule(
    name="suspect_checkpoint",
    severity=Severity.URGENT,
    summary="The same checkpoint was loaded twice and the attempts failed: it may be what is broken.",
    advice="Resume from the checkpoint before it, and verify this one.",
    find=_find,
    fewest_attempts=lambda _limits: 2,
)
