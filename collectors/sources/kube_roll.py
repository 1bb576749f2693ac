"""Roll: the groups, pods and nodes of a cluster that are followed, and which run each belongs to.

Rules
- The run of a pod is what `Naming` says: the name given, a label or annotation, else the name of its outermost
  workload. A plain Job or pod that asks for no accelerator is not training, unless it bears that label, or pods were
  chosen by hand.
- A node is held by the runs that have a pod there, or had one within the minute before.
- It is plain data, part of a cursor, and bounded: what is over longest is forgotten first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rerail.collectors.sources.kube_groups import SECOND, Group, GroupFacts, Pod, group_of_plain
from rerail.collectors.sources.kube_objects import (
    WORKLOAD_KINDS,
    Object,
    Owner,
    annotations,
    gpus_of,
    items,
    labels,
    mapping,
    metadata,
    text,
)

AFTER_NS = 60 * SECOND
MOST_PODS = 20_000
MOST_KEPT = 5_000
"""Events, nodes and groups that are over."""

SERVICES = frozenset({"DaemonSet", "ReplicaSet", "Deployment", "CronJob", "Node"})


@dataclass(frozen=True, slots=True)
class Naming:
    """Which run an object belongs to."""

    run: str | None = None
    """Everything is of this run."""
    key: str | None = None
    """Else a label or annotation of the pod that names it."""
    takes_bare_pods: bool = False
    """Plain Jobs and pods without accelerators too."""
    trusts_events: bool = False
    """Events make pods known that nobody shows: a file may hold nothing else."""

    def run_of(self, owner: Owner, told: Object) -> str:
        """The run, by name."""
        named = text(labels(told).get(self.key) or annotations(told).get(self.key), 200) if self.key else ""
        return (self.run or named or owner.name.rpartition("/")[2] or "unnamed")[:200]


class Roll:
    """Who is followed. `told` states what happens to the groups."""

    def __init__(self, memory: dict[str, Any], naming: Naming, prefix: str, told: GroupFacts) -> None:
        self.naming = naming
        self.prefix = prefix
        self.told = told
        self.groups = {key: group_of_plain(plain) for key, plain in memory.get("groups", {}).items()}
        self.pods: dict[str, dict[str, Any]] = dict(memory.get("pods", {}))
        """uid → group, name, node, version, moments told, start and end of its latest life."""
        self.nodes: dict[str, list[str]] = dict(memory.get("nodes", {}))
        """Node → until when which groups had pods there that are gone."""
        self.seen: dict[str, str] = dict(memory.get("seen", {}))
        """Workloads, nodes and events → the version, or what of them, that was taken."""
        self.by_name = {plain["name"]: uid for uid, plain in self.pods.items()}

    def plain(self) -> dict[str, Any]:
        """For a cursor."""
        groups = {key: asdict(group) for key, group in self.groups.items()}
        return {"groups": groups, "pods": self.pods, "nodes": self.nodes, "seen": self.seen}

    def group(self, owner: Owner, told: Object) -> Group:
        key = f"{owner.kind} {owner.name}"
        known = self.groups.get(key)
        if known is not None and (not owner.uid or not known.uid or owner.uid == known.uid):
            known.uid = known.uid or owner.uid
            return known
        group = Group(
            run=self.naming.run_of(owner, told), job=(owner.name.rpartition("/")[2] or "unnamed")[:200],
            emitter=(self.prefix + owner.name)[:200], uid=owner.uid,
        )  # fmt: skip
        if known is not None:
            self.told.close(known, known.last_death or known.began or 0)
            group.base, group.is_resubmitted, group.how = (known.requeue or 0) + 1, True, known.how
        self.groups[key] = group
        return group

    def is_training(self, owner: Owner, told: Object) -> bool:
        """Whether a pod, or a workload, is followed: a cluster runs Jobs of many other sorts."""
        if self.naming.key and (self.naming.key in labels(told) or self.naming.key in annotations(told)):
            return True
        if owner.kind in WORKLOAD_KINDS - {"Job"} or f"{owner.kind} {owner.name}" in self.groups:
            return True
        owners = {text(each.get("kind")) for each in items(metadata(told).get("ownerReferences"))}
        if any(gpus_of(each) for each in items(mapping(told.get("spec")).get("containers"))):
            return True
        return self.naming.takes_bare_pods and not owners & SERVICES

    def drop(self, uid: str, at: int) -> None:
        told = self.pods.pop(uid, None)
        if told is None:
            return
        self.by_name.pop(told["name"], None)
        group = self.groups.get(told["g"])
        if group is not None:
            self.told.gone(group, Pod(uid, told["name"], told["node"], 0, None), max(at, group.began or at))
            if told.get("node") and len(self.nodes) < MOST_KEPT:
                self.nodes[told["node"]] = [
                    *self.nodes.get(told["node"], [])[-7:],
                    f"{told['end'] or at} {told['g']}",
                ]

    def holding(self, node: str, at: int) -> list[tuple[str, str | None]]:
        """`(run, job)` of the groups with a pod on a node at an instant, or within the minute before."""
        found: dict[tuple[str, str | None], None] = {}
        for told in self.pods.values():
            if told["node"] != node or (told.get("start") or 0) > at:
                continue
            if told.get("end") is None or told["end"] + AFTER_NS >= at:
                group = self.groups.get(told["g"])
                if group is not None:
                    found[group.run, group.job] = None
        for entry in self.nodes.get(node, ()):
            until, _, key = entry.partition(" ")
            group = self.groups.get(key)
            if group is not None and int(until) + AFTER_NS >= at:
                found[group.run, group.job] = None
        if not self.groups and self.naming.run is not None:
            found[self.naming.run, None] = None
        return list(found)

    def forget(self) -> None:
        """Let go of the oldest, where too much is remembered."""
        for key in list(self.seen)[: max(0, len(self.seen) - 4 * MOST_KEPT)]:
            del self.seen[key]
        if len(self.pods) > MOST_PODS:
            over = sorted((told["end"], uid) for uid, told in self.pods.items() if told["end"] is not None)
            for _, uid in over[: len(self.pods) - MOST_PODS]:
                self.by_name.pop(self.pods.pop(uid)["name"], None)
        if len(self.groups) > MOST_KEPT:
            live = {told["g"] for told in self.pods.values()}
            over_groups = [key for key, group in self.groups.items() if group.is_over and key not in live]
            for key in over_groups[: len(self.groups) - MOST_KEPT]:
                del self.groups[key]
