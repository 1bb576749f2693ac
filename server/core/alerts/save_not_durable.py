"""Save not durable: it began, and is neither durable nor failed after twice the usual commit lag."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, is_open
from rerail.server.core.view import RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    stuck = run.checkpoint.stuck
    if not is_open(run) or len(stuck) < limits["saves"]:
        return
    which = ", ".join(stuck[:3]) + (f" and {len(stuck) - 3} others" if len(stuck) > 3 else "")
    yield RULE.finding(
        run, f"{len(stuck)} started save{'s' if len(stuck) > 1 else ''} never became durable: {which}.", mark=stuck[0]
    )


RULE = AlertRule(
    name="save_not_durable",
    severity=Severity.NOTICE,
    summary="A save began and is neither durable nor failed after twice the usual commit lag.",
    advice="See whether every rank finished writing, and whether the store answers.",
    find=_find,
    thresholds=(Threshold("saves", 1, "saves", "that hang", 1, 1000, is_whole=True),),
)
