"""No durable progress: attempt after attempt ends without a later checkpoint than the one before began with.

What was gained is told by where attempts resumed. Where no checkpoint was ever told of, only attempts without a single
completed step count: progress that cannot be seen is not called none.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, deaths, incident_of
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    wanted = round(limits["attempts"])
    died = list(deaths(run))[:wanted]
    if len(died) < wanted:
        return
    newest = died[0]
    if run.checkpoint.count:
        began = [each.resumed_from_step for each in died if each.resumed_from_step is not None]
        durable = run.checkpoint.newest_durable_step
        base = began[-1] if began else 0
        if any(step > base for step in began) or (durable is not None and durable > base):
            return
        from_where = f"step {base}" if base else "the beginning"
        sentence = f"{wanted} attempts in a row ended without a durable checkpoint after {from_where}."
    else:
        if any(each.step_count for each in died):
            return
        sentence = f"{wanted} attempts in a row ended before they completed a step."
    incident = incident_of(run, newest.number)
    yield RULE.finding(
        run, sentence, since=died[-1].started_at, mark=f"attempt {newest.number}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


RULE = AlertRule(
    name="no_durable_progress",
    severity=Severity.URGENT,
    summary="Several attempts in a row ended without a later durable checkpoint: the run restarts and gets nowhere.",
    advice="Stop the restarts, read the fault trace of the incident, and mend the cause first.",
    find=_find,
    thresholds=(Threshold("attempts", 3, "attempts", "so many in a row", 2, 100),),
)
