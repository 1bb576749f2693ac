"""Retry budget: the launcher will soon give up, since it restarts only so often."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, is_open
from rerail.server.core.view import Attempt, RunView

NAMES = ("max_restarts", "max-restarts", "restart_limit", "max_restart")


def _limit(attempt: Attempt) -> int | None:
    """How many restarts its launcher allows; None where that is not told."""
    try:
        config = json.loads(attempt.config or "null")
    except ValueError:
        return None
    if not isinstance(config, dict):
        return None
    for name in NAMES:
        value = config.get(name)
        if isinstance(value, int | float | str) and not isinstance(value, bool) and str(value).isdecimal():
            return int(value)
    return None


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    if not is_open(run) or not run.attempts:
        return
    latest = run.attempts[-1]
    allowed, used = _limit(latest), latest.restart
    if not allowed or used is None or used < 1:
        return
    if allowed - used > limits["left"] and used / allowed < limits["share"]:
        return
    left = max(0, allowed - used)
    yield RULE.finding(
        run, f"{used} of {allowed} restarts are spent: {left or 'none'} left before the launcher gives up.",
        subject=latest.job or "", since=latest.started_at, mark=str(used),
    )  # fmt: skip


RULE = AlertRule(
    name="retry_budget",
    severity=Severity.NOTICE,
    summary="Nearly all restarts that the launcher allows are spent.",
    advice="Mend what makes it restart, or raise the limit before the job is gone.",
    find=_find,
    by_endings=True,
    thresholds=(
        Threshold("share", 0.75, "of the budget", "spent", 0.01, 1),
        Threshold("left", 0, "restarts", "left at most, whatever the share", 0, 1000, is_whole=True),
    ),
)
