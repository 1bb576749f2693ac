"""Headroom of a time-out: the longest healthy gap comes close to it, so the next one may kill healthy ranks."""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, is_open
from rerail.server.core.view import RunView
from rerail.server.core.words import duration


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    if not is_open(run):
        return
    for figures in run.heartbeat:
        headroom = figures.headroom
        if headroom is None or figures.n < limits["gaps"] or headroom >= limits["headroom"]:
            continue
        came = "came close to" if headroom > 1 else "exceeded" if headroom < 1 else "reached"
        yield RULE.finding(
            run,
            f"In {figures.phase} a healthy gap of {duration(figures.max_gap_ns)} {came} the time-out of "
            f"{duration(figures.armed_timeout_ns)}, which is {headroom:.2f} × of it.",
            subject=figures.phase, mark=f"{figures.max_gap_ns}/{figures.armed_timeout_ns}",
        )  # fmt: skip


RULE = AlertRule(
    name="timeout_headroom",
    severity=Severity.NOTICE,
    summary="An armed time-out is hardly longer than the longest healthy gap it guards.",
    advice="Raise the time-out, or find out what makes the gap.",
    find=_find,
    thresholds=(
        Threshold("headroom", 1.5, "×", "time-out ÷ longest healthy gap, at least", 1, 100),
        Threshold("gaps", 50, "gaps", "seen before anything is said", 1, 1_000_000, is_whole=True),
    ),
)
