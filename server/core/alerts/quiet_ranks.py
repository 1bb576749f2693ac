"""Quiet ranks: some are heard no longer while others are."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, is_open
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    quiet = run.quiet_ranks
    if not is_open(run) or quiet is None or run.as_of - quiet.since < limits.ns("seconds"):
        return
    named = ", ".join(map(str, quiet.ranks[:8])) + (" …" if quiet.count > 8 else "")
    yield RULE.finding(
        run, f"{quiet.count} rank{'s are' if quiet.count > 1 else ' is'} heard no longer while others are: {named}.",
        since=quiet.since, mark=f"attempt {len(run.attempts)}",
    )  # fmt: skip


RULE = AlertRule(
    name="quiet_ranks",
    severity=Severity.URGENT,
    summary="Some ranks give no sign of life while others do.",
    advice="Look at those ranks' nodes; a hang is about to be noticed.",
    find=_find,
    thresholds=(Threshold("seconds", 30, "seconds", "since the last of them was heard", 1, 86_400),),
)
