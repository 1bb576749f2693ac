"""Restart without a fault: a monitor restarted ranks that nothing was wrong with.

Either nobody stated a fault, or the hang that it saw is contradicted: by steps that were completed while it waited, or
by a longer gap that the run outlived.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rerail.server.core.alert_rules import HOUR, AlertRule, Finding, Severity, Threshold, Thresholds, incident_of
from rerail.server.core.facts import Initiator
from rerail.server.core.recovery_configs.contradicted import contradiction
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    window = round(limits["hours"] * HOUR)
    found = {
        before.number: after.started_at
        for before, after in pairwise(run.attempts)
        if before.is_planned and after.initiator is Initiator.MONITOR and run.as_of - after.started_at <= window
    }
    contradicted = [
        each
        for each in (contradiction(incident, run) for incident in run.incidents)
        if each is not None and run.as_of - each.at <= window
    ]
    found |= {each.attempt: each.at for each in contradicted}
    if not found or len(found) < limits["times"]:
        return
    newest = max(found)
    incident = incident_of(run, newest)
    times = "once" if len(found) == 1 else f"{len(found)} times"
    lead = f"A monitor restarted the run {times} within {limits['hours']:g} h"
    because = f". {contradicted[-1].sentence}" if contradicted else ", and no fault was told of."
    yield RULE.finding(
        run, lead + because, since=min(found.values()), mark=f"attempt {newest + 1}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


RULE = AlertRule(
    name="restart_without_fault",
    severity=Severity.NOTICE,
    summary="A monitor restarted the run although no rank failed, or while steps went on: a time-out may be too short.",
    advice="Compare the armed time-outs with the longest healthy gaps on the run's page, and see that every rank sends "
    "its signs of life.",
    find=_find,
    by_endings=True,
    thresholds=(
        Threshold("times", 1, "restarts", "within the window", 1, 1000, is_whole=True),
        Threshold("hours", 24, "hours", "length of the window", 1, 24 * 30),
    ),
)
