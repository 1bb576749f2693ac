"""Short attempts: they end before one bring-up and one save interval have passed, so nothing of them stays."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, deaths, incident_of
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    wanted = round(limits["attempts"])
    short = []
    for attempt in deaths(run):
        if attempt.ended_at is None:
            break
        length = attempt.ended_at - attempt.started_at
        if attempt.first_step_at is None:
            short.append(attempt)
            continue
        if run.checkpoint.interval_ns is None:
            break
        if length >= attempt.first_step_at - attempt.started_at + run.checkpoint.interval_ns:
            break
        short.append(attempt)
    if len(short) < wanted:
        return
    incident = incident_of(run, short[0].number)
    yield RULE.finding(
        run, f"The last {len(short)} attempts ended before they could bring up and save once.",
        since=short[-1].started_at, mark=f"attempt {short[0].number}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


RULE = AlertRule(
    name="short_attempts",
    severity=Severity.URGENT,
    summary="Attempts end sooner than bring-up and one save interval take: nothing of their work is kept.",
    advice="Save more often until the fault is found, or stop restarting.",
    find=_find,
    by_endings=True,
    fewest_attempts=lambda limits: limits["attempts"],
    thresholds=(Threshold("attempts", 3, "attempts", "so many in a row", 2, 100, is_whole=True),),
)
