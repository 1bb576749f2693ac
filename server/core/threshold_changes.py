"""Threshold changes: what people changed of the rules' thresholds, never edited, and what is in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.alerts import SWITCH, rules


@dataclass(frozen=True, slots=True)
class ThresholdChange:
    """Somebody set thresholds of a rule, for one project or (`""`) for all."""

    change_id: int
    at: int
    rule: str
    project: str
    values: tuple[tuple[str, float | None], ...]
    """None: back to what holds without it."""
    author: str | None = None
    reason: str | None = None
    undoes: int | None = None
    """Number of the change that never was; then `values` is empty."""


Overrides = dict[tuple[str, str], dict[str, float]]


def undone(changes: Sequence[ThresholdChange]) -> frozenset[int]:
    """Numbers of the changes that never were."""
    gone: set[int] = set()
    for change in sorted(changes, key=lambda each: -each.change_id):
        if change.undoes is not None and change.change_id not in gone:
            gone.add(change.undoes)
    return frozenset(gone)


def in_force(changes: Sequence[ThresholdChange]) -> Overrides:
    """`(rule, project)` → thresholds, after all changes that were not undone."""
    gone = undone(changes)
    overrides: Overrides = {}
    for change in sorted(changes, key=lambda each: each.change_id):
        if change.change_id in gone or change.undoes is not None:
            continue
        values = overrides.setdefault((change.rule, change.project), {})
        for name, value in change.values:
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
    return {key: values for key, values in overrides.items() if values}


def refusal_of(change: ThresholdChange, changes: Sequence[ThresholdChange]) -> tuple[str, object, str] | None:
    """Why this cannot be: field, value, reason; None where it can."""
    rule = rules().get(change.rule)
    if change.undoes is not None:
        known = {each.change_id: each for each in changes}
        if change.undoes not in known:
            return "undoes", change.undoes, "not the number of a change of thresholds"
        if change.rule != known[change.undoes].rule:
            return "undoes", change.undoes, f"a change of {known[change.undoes].rule}, not of {change.rule}"
        if change.undoes in undone(changes):
            return "undoes", change.undoes, "it was undone already"
        return None
    if rule is None:
        return "rule", change.rule, f"not a rule: {', '.join(rules())}"
    if not change.values:
        return "values", {}, "names no threshold"
    bounds = {each.name: (each.lowest, each.highest) for each in rule.thresholds} | {SWITCH: (0.0, 1.0)}
    whole = {each.name: each.unit for each in rule.thresholds if each.is_whole}
    for name, value in change.values:
        if name not in bounds:
            return "values", name, f"not a threshold of {rule.name}: {', '.join(bounds)}"
        lowest, highest = bounds[name]
        if value is not None and not lowest <= value <= highest:
            return f"values.{name}", value, f"not from {lowest:g} to {highest:g}"
        if value is not None and name in whole and value != int(value):
            return f"values.{name}", value, f"not a whole number of {whole[name]}"
        if value is not None and name == SWITCH and value not in (0, 1):
            return f"values.{name}", value, "1 switches the rule on, 0 switches it off"
    return None
