"""The same fault again: one fingerprint several times in a row, or several times within a day.

Relaunches that died of the same cause within one incident count too: a crash loop is one incident and many deaths. The
finding is quiet once the newest of them is older than the window.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import HOUR, AlertRule, Finding, Severity, Threshold, Thresholds, faults_of
from rerail.server.core.view import Incident, RunView


def _deaths(incident: Incident) -> int:
    return 1 + sum(each.verdict.cause == incident.verdict.cause for each in incident.relaunches)


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    faults = [each for each in faults_of(run) if each.fingerprint is not None]
    window = round(limits["hours"] * HOUR)
    wanted = round(limits["times"])
    if not faults or run.as_of - faults[-1].started_at > window:
        return
    in_a_row: list[Incident] = []
    for each in reversed(faults):
        if each.fingerprint != faults[-1].fingerprint:
            break
        in_a_row.append(each)
    by_fingerprint: dict[str, list[Incident]] = {}
    for each in faults:
        if run.as_of - each.started_at <= window and each.fingerprint is not None:
            by_fingerprint.setdefault(each.fingerprint.text, []).append(each)
    for text, alike in by_fingerprint.items():
        newest = alike[-1]
        row = sum(map(_deaths, in_a_row)) if newest is faults[-1] else 0
        recent = sum(map(_deaths, alike))
        if max(row, recent) < wanted:
            continue
        how = f"{row} times in a row" if row >= wanted else f"{recent} times within {limits['hours']:g} h"
        cause = newest.verdict.cause.replace("_", " ")
        yield RULE.finding(
            run, f"The same fault {how}: {cause}. {newest.verdict.sentence}", subject=text,
            since=alike[0].started_at, mark=f"{newest.incident_id}/{len(newest.attempts)}",
            incident_id=newest.incident_id, node=newest.verdict.culprit_node,
        )  # fmt: skip


RULE = AlertRule(
    name="same_fault_again",
    severity=Severity.URGENT,
    summary="One fingerprint came several times in a row, or several times within a day.",
    advice="Look at the problem: what was done about it before, and did it hold?",
    find=_find,
    fewest_attempts=lambda limits: limits["times"],
    by_endings=True,
    thresholds=(
        Threshold("times", 3, "times", "in a row, or within the window", 2, 1000, is_whole=True),
        Threshold("hours", 24, "hours", "length of the window", 1, 24 * 30),
    ),
)
