"""Silence: nothing is heard of a run that has not ended. It may train, hang or be gone."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds
from rerail.server.core.view import RunState, RunView
from rerail.server.core.words import duration


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    since = run.silent_since
    if run.state is not RunState.SILENT or since is None or run.as_of - since < limits.ns("seconds"):
        return
    yield RULE.finding(
        run, f"Nothing is heard of it for {duration(run.as_of - since)}; whether it trains is not known.",
        since=since, mark=str(since),
    )  # fmt: skip


RULE = AlertRule(
    name="silence",
    severity=Severity.URGENT,
    summary="Nothing is heard of a run that has not ended.",
    advice="See whether the job, its agents and the way to this server still stand.",
    find=_find,
    thresholds=(Threshold("seconds", 300, "seconds", "since anything was heard", 1, 30 * 86_400),),
)
