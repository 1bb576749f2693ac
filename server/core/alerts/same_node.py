"""The same node: it is blamed for faults of several runs, or several of this one.

Faults of the workload are no node's. What other runs say comes with the thresholds. On one machine every fault is that
machine's: an attempt that had no other says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.alert_rules import DAY, AlertRule, Finding, Severity, Threshold, Thresholds, faults_of
from rerail.server.core.recovery_configs.normalising import most_nodes
from rerail.server.core.view import Domain, Incident, RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    blamed: dict[str, list[Incident]] = {}
    for each in faults_of(run):
        node = each.verdict.culprit_node
        if node and each.verdict.domain is not Domain.WORKLOAD and not _had_one_machine(run, each):
            blamed.setdefault(node, []).append(each)
    for node, incidents in sorted(blamed.items()):
        newest = incidents[-1]
        if run.as_of - newest.started_at > limits["days"] * DAY:
            continue
        runs = 1 + limits.blamed_elsewhere.get(node, 0)
        if runs < limits["runs"] and len(incidents) < limits["incidents"]:
            continue
        where = f"faults of {runs} runs" if runs >= limits["runs"] else f"{len(incidents)} faults of this run"
        yield RULE.finding(
            run, f"Node {node} is blamed for {where}.", subject=node, since=incidents[0].started_at,
            mark=newest.incident_id, incident_id=newest.incident_id, node=node,
        )  # fmt: skip


def _had_one_machine(run: RunView, incident: Incident) -> bool:
    """Whether the attempt that was interrupted is known to have had one machine, by its nodes or its launcher."""
    for attempt in run.attempts:
        if attempt.number not in incident.attempts:
            continue
        return len(attempt.nodes) == 1 if attempt.nodes else most_nodes(attempt.config) == 1
    return False


RULE = AlertRule(
    name="same_node",
    severity=Severity.NOTICE,
    summary="One node is blamed for faults of several runs, or for several of one.",
    advice="Drain the node and test it; its page says how likely chance is.",
    find=_find,
    by_endings=True,
    thresholds=(
        Threshold("runs", 2, "runs", "that blame it", 2, 1000, is_whole=True),
        Threshold("incidents", 3, "incidents", "of this run that it is blamed for", 2, 1000, is_whole=True),
        Threshold("days", 7, "days", "since the newest of them", 1, 365),
    ),
)
