"""Stall: there are signs of life and no step, for far longer than a step takes."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import SECOND, AlertRule, Finding, Severity, Threshold, Thresholds, is_open
from rerail.server.core.facts import Phase
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    if not is_open(run) or run.current_phase is not Phase.STALLED or not run.attempts:
        return
    since = run.attempts[-1].last_activity_at
    if since is None or run.as_of - since < limits.ns("seconds"):
        return
    seconds = (run.as_of - since) // SECOND
    yield RULE.finding(
        run, f"Heartbeats and no step for {seconds} s, at step {run.current_step}.",
        since=since, mark=str(since),
    )  # fmt: skip


RULE = AlertRule(
    name="stall",
    severity=Severity.URGENT,
    summary="Ranks give signs of life and complete no step.",
    advice="Take flight recorder dumps of all ranks before anything is killed.",
    find=_find,
    thresholds=(Threshold("seconds", 60, "seconds", "since the last completed work", 1, 86_400),),
)
