"""Alerts: conditions that somebody should hear of, one file each, found by themselves.

Rules
- Each file has one `RULE` (`alert_rules.py` says what one is made of). A name taken twice is an error.
- What a rule is told of as its thresholds are its defaults, what was changed for every project, and what was changed
  for the run's own, the latter winning. A rule that is switched off finds nothing.
- Of a run that ended more than a day ago nothing is found: importing the past wakes nobody.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from rerail.server.core.alert_rules import DAY, AlertRule, Finding, Severity, Threshold, Thresholds, key_of
from rerail.server.core.view import RunState, RunView

__all__ = ["SWITCH", "AlertRule", "Finding", "Severity", "Threshold", "Thresholds", "find", "key_of", "rules"]

SWITCH = "on"
"""The threshold that every rule has: 0 switches it off."""

_RULES: dict[str, AlertRule] = {}


def rules() -> dict[str, AlertRule]:
    """Every rule by name."""
    if not _RULES:
        found: dict[str, AlertRule] = {}
        for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
            rule: AlertRule = importlib.import_module(f"{__name__}.{module}").RULE
            if rule.name in found:
                raise RuntimeError(f"two alert rules are named {rule.name}")
            found[rule.name] = rule
        _RULES.update(found)
    return dict(_RULES)


def find(
    run: RunView,
    changed: Mapping[tuple[str, str], Mapping[str, float]],
    blamed_elsewhere: Mapping[str, int],
    now: int,
) -> tuple[Finding, ...]:
    """What every rule sees of a run. `changed`: `(rule, project)` → thresholds; the project `""` is all of them."""
    if run.state is RunState.ENDED and run.ended_at is not None and now - run.ended_at > DAY:
        return ()
    found: dict[str, Finding] = {}
    for rule in rules().values():
        for each in findings(rule, run, changed, blamed_elsewhere):
            found.setdefault(each.key, each)
    return tuple(found.values())


def findings(
    rule: AlertRule,
    run: RunView,
    changed: Mapping[tuple[str, str], Mapping[str, float]],
    blamed_elsewhere: Mapping[str, int],
) -> tuple[Finding, ...]:
    """What one rule sees."""
    values = in_force(rule, run.project, changed)
    if not values[SWITCH]:
        return ()
    return tuple(rule.find(run, Thresholds(values, blamed_elsewhere)))


def in_force(
    rule: AlertRule, project: str | None, changed: Mapping[tuple[str, str], Mapping[str, float]]
) -> dict[str, float]:
    """The thresholds of a rule for runs of a project."""
    own = changed.get((rule.name, project), {}) if project else {}
    return {SWITCH: 1.0, **rule.defaults(), **changed.get((rule.name, ""), {}), **own}
