"""Nodes: whether a machine can be used, as its conditions, its cordon and HyperPod's labels tell.

Rules
- `Ready` unknown, or the unreachable taint, is a lost node: nobody hears of its kubelet. `Ready` false is not ready;
  cordoned, or taken out by HyperPod's health checks, is drained.
- Each change is told at the instant that the object tells: a condition's transition, a taint, or the last write of the
  label. A label whose write is not told has no instant, and is told with that of the `Ready` condition.
- HyperPod's fault types and reasons are evidence: they name what its agent found.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.collectors.sources.kube_objects import (
    Object,
    annotations,
    conditions,
    instant,
    items,
    labels,
    mapping,
    metadata,
    text,
)
from rerail.server.core.facts import NodeCondition

HYPERPOD = "sagemaker.amazonaws.com/"
HEALTH = f"{HYPERPOD}node-health-status"
GONE_TAINTS = frozenset({"node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/shutdown"})


@dataclass(frozen=True, slots=True)
class NodeTold:
    """The condition of a node from an instant on, and why."""

    at: int
    state: NodeCondition
    reason: str
    words: str
    """As evidence; empty for a node that is ready."""
    code: str | None = None


def node_told(node: Object) -> list[NodeTold]:
    """What a node's object tells, the latest last."""
    name = text(metadata(node).get("name"), 200)
    found: list[NodeTold] = []
    ready_at: int | None = None
    for kind, is_true, reason, message, at in conditions(node):
        if kind != "Ready" or at is None:
            continue
        ready_at = at
        if is_true == "True":
            found.append(NodeTold(at, NodeCondition.READY, reason, ""))
        else:
            state = NodeCondition.LOST if is_true == "Unknown" else NodeCondition.NOT_READY
            word = "NodeNotReady" if state is NodeCondition.NOT_READY else "NodeStatusUnknown"
            found.append(NodeTold(at, state, reason, f"node {name}: {word}: {reason}: {message}", reason or word))
    spec = mapping(node.get("spec"))
    for taint in items(spec.get("taints")):
        at = instant(taint.get("timeAdded")) or ready_at
        key = text(taint.get("key"), 200)
        if at is not None and key in GONE_TAINTS and not any(each.state is NodeCondition.LOST for each in found):
            found.append(NodeTold(at, NodeCondition.LOST, key, f"node {name}: taint {key}", key))
    cordoned = next((instant(taint.get("timeAdded")) for taint in items(spec.get("taints"))
                     if taint.get("key") == "node.kubernetes.io/unschedulable"), None)  # fmt: skip
    if spec.get("unschedulable") is True and (cordoned or ready_at) is not None:
        found.append(
            NodeTold(cordoned or ready_at or 0, NodeCondition.DRAINED, "cordoned", f"node {name}: cordoned", "cordoned")
        )
    health = text(labels(node).get(HEALTH), 100)
    if health and health != "Schedulable":
        at = instant(mapping(metadata(node).get("stamps")).get("health")) or ready_at
        if at is not None:
            words = " ".join(
                f"{short}={text(told, 1000)}"
                for short in ("fault-types", "fault-reasons", "fault-details", "deep-health-check-status")
                for told in (labels(node).get(HYPERPOD + short) or annotations(node).get(HYPERPOD + short),)
                if text(told, 1000)
            )
            found.append(
                NodeTold(at, NodeCondition.DRAINED, health, f"node {name}: HyperPod {health} {words}".strip(), health)
            )
    return sorted(found, key=lambda each: each.at)
