"""Restart without a fault: a monitor restarted ranks that nothing was wrong with, as far as anybody stated."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rerail.server.core.alert_rules import HOUR, AlertRule, Finding, Severity, Threshold, Thresholds, incident_of
from rerail.server.core.facts import Initiator
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    window = round(limits["hours"] * HOUR)
    found = [
        after
        for before, after in pairwise(run.attempts)
        if before.is_planned and after.initiator is Initiator.MONITOR and run.as_of - after.started_at <= window
    ]
    if len(found) < limits["times"]:
        return
    newest = found[-1]
    incident = incident_of(run, newest.number - 1)
    times = "once" if len(found) == 1 else f"{len(found)} times"
    yield RULE.finding(
        run, f"A monitor restarted the run {times} within {limits['hours']:g} h, and no fault was told of.",
        since=found[0].started_at, mark=f"attempt {newest.number}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


RULE = AlertRule(
    name="restart_without_fault",
    severity=Severity.NOTICE,
    summary="A monitor restarted the run although no rank failed: a time-out may be too short.",
    advice="Compare the armed time-outs with the longest healthy gaps on the run's page.",
    find=_find,
    thresholds=(
        Threshold("times", 1, "restarts", "within the window", 1, 1000),
        Threshold("hours", 24, "hours", "length of the window", 1, 24 * 30),
    ),
)
