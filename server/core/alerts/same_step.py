"""The same step: two attempts died at the same step, give or take, so the next one will too.

Quiet as soon as an attempt passed that step.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, deaths, incident_of
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    died = [(each, each.last_step) for each in deaths(run) if each.step_count and each.last_step is not None]
    if not died:
        return
    newest, step = died[0]
    near = [each for each, at in died if abs(at - step) <= limits["steps"]]
    if len(near) < limits["times"]:
        return
    latest = run.attempts[-1]
    if latest is not newest and latest.last_step is not None and latest.last_step > step + limits["steps"]:
        return
    incident = incident_of(run, newest.number)
    yield RULE.finding(
        run, f"{len(near)} attempts died in or right after step {step + 1}: what stops it lies in that step.",
        since=near[-1].ended_at, mark=f"attempt {newest.number}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


RULE = AlertRule(
    name="same_step",
    severity=Severity.URGENT,
    summary="Attempts died at the same step: it is deterministic, and restarting is futile.",
    advice="Look at the batch and the code of that step; skip the data or mend it before the next restart.",
    find=_find,
    fewest_attempts=lambda limits: limits["times"],
    thresholds=(
        Threshold("times", 2, "attempts", "that died there", 2, 100, is_whole=True),
        Threshold("steps", 1, "steps", "that count as the same", 0, 1000, is_whole=True),
    ),
)
