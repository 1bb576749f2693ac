"""Kubernetes facts: objects as they are listed, watched or recorded, and what they state about runs.

Rules
- The run of a pod is what `Naming` says: the name given, a label or annotation, else the name of its outermost
  workload. What belongs to no workload and asks for no accelerator is not training, unless it bears that label.
- Moments of all pods of a batch are taken in order of time; then workloads, nodes and events, which refer to them.
- Each moment is stated once: the memory keeps, for each pod that is there, the moments its object still tells. It is
  plain data, part of a cursor, and bounded; what was let go and is seen again is stated under its old identity.
- A node is told to the runs that have a pod there, or had one within the minute before. An event about a pod that
  nobody has shown (a file of events alone) begins its group where the pod was scheduled.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rerail.collectors.masking import masked
from rerail.collectors.sources import kube_pods as pods
from rerail.collectors.sources.kube_events import ENDS, EventTold, created_pod, event_told, pull_seconds
from rerail.collectors.sources.kube_groups import (
    EVICTED,
    LOST,
    PREEMPTED,
    SECOND,
    Group,
    GroupFacts,
    Pod,
    group_of_plain,
    sequence,
)
from rerail.collectors.sources.kube_nodes import NodeTold, node_told
from rerail.collectors.sources.kube_objects import (
    JOBSET_ATTEMPT,
    WORKLOAD_KINDS,
    Object,
    Owner,
    annotations,
    conditions,
    gpus_of,
    items,
    labels,
    mapping,
    metadata,
    name_of,
    owner_of,
    text,
    uid_of,
    version_of,
)
from rerail.collectors.sources.kube_workloads import take_kueue, take_workload
from rerail.server.core.facts import Evidence, Fact, Metric, NodeCondition, NodeState

AFTER_NS = 60 * SECOND
MOST_PODS = 20_000
MOST_KEPT = 5_000
"""Events, nodes and groups that are over; the oldest are forgotten first."""

MOST_HOLDERS = 100
"""Runs that are told that a node is back."""

SERVICES = frozenset({"DaemonSet", "ReplicaSet", "Deployment", "CronJob", "Node"})
_ASSIGNED = re.compile(r"assigned \S{1,300} to (\S{1,253})")
EVENT_ENDS = {"Preempted": PREEMPTED, "Evicted": EVICTED, "TaintManagerEviction": LOST, "NodeNotReady": LOST}


@dataclass(frozen=True, slots=True)
class Naming:
    """Which run an object belongs to."""

    run: str | None = None
    """Everything is of this run."""
    key: str | None = None
    """Else a label or annotation of the pod that names it."""
    takes_bare_pods: bool = False
    """Pods without a workload and without accelerators too."""

    def run_of(self, owner: Owner, told: Object) -> str:
        """The run, by name."""
        named = text(labels(told).get(self.key) or annotations(told).get(self.key), 200) if self.key else ""
        return (self.run or named or owner.name.rpartition("/")[2] or "unnamed")[:200]


class KubeFacts:
    """States facts from objects. `memory` is plain JSON data, brought up to date by `plain`."""

    def __init__(
        self, memory: dict[str, Any] | None = None, naming: Naming | None = None, *, cluster: str = "",
        states_attempts: bool = True,
    ) -> None:  # fmt: skip
        memory = memory or {}
        self._naming = naming or Naming()
        self._prefix = f"kubernetes/{cluster[:60]}/" if cluster else "kubernetes/"
        self._groups = {key: group_of_plain(told) for key, told in memory.get("groups", {}).items()}
        self._pods: dict[str, dict[str, Any]] = dict(memory.get("pods", {}))
        self._nodes: dict[str, list[str]] = dict(memory.get("nodes", {}))
        self._seen: dict[str, str] = dict(memory.get("seen", {}))
        """Workloads, nodes and events → the version, or instant, that was taken."""
        self._by_name = {told["name"]: uid for uid, told in self._pods.items()}
        self._made_by: dict[str, str] = {}
        self._late: list[EventTold] = []
        self._told = GroupFacts(states_attempts=states_attempts)

    def plain(self) -> dict[str, Any]:
        """For a cursor."""
        return {
            "groups": {key: asdict(group) for key, group in self._groups.items()},
            "pods": self._pods, "nodes": self._nodes, "seen": self._seen,
        }  # fmt: skip

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs with a workload that is not over."""
        return tuple(sorted({group.run for group in self._groups.values() if not group.is_over}))

    def take(self, changes: Iterable[tuple[str, Object]]) -> list[Fact]:
        """The facts that objects state: `(ADDED | MODIFIED | DELETED, object)`, in the order they were given."""
        of_kind: dict[str, list[tuple[str, Object]]] = {}
        for change, told in changes:
            of_kind.setdefault(str(told.get("kind") or ""), []).append((change, told))
        for _, event in of_kind.get("Event", ()):
            made = created_pod(event)
            if made is not None:
                self._made_by[made[0]] = made[1]
        self._take_pods(of_kind.pop("Pod", []))
        nodes, events = of_kind.pop("Node", []), of_kind.pop("Event", [])
        for kind, found in of_kind.items():
            for _, told in found:
                self._take_workload(kind, told)
        for _, told in nodes:
            self._take_node(told)
        late, self._late = self._late, []
        told_events = late + [told for _, event in events if (told := self._news_of(event)) is not None]
        for told_event in sorted(told_events, key=lambda each: (each.at, each.key)):
            self._take_event(told_event)
        self._forget()
        facts, self._told.facts = self._told.facts, []
        return facts

    def vanished(self, uids: set[str], at: int, namespace: str = "") -> list[Fact]:
        """Pods (of a namespace; empty: of all) that are not listed any more, and whose deletion nobody saw."""
        prefix = f"{namespace}/" if namespace else ""
        for uid, told in list(self._pods.items()):
            if uid not in uids and "loose" not in told and told["name"].startswith(prefix):
                self._drop(uid, at)
        facts, self._told.facts = self._told.facts, []
        return facts

    # --- groups ---

    def _group(self, owner: Owner, told: Object) -> Group:
        key = f"{owner.kind} {owner.name}"
        known = self._groups.get(key)
        if known is not None and (not owner.uid or not known.uid or owner.uid == known.uid):
            known.uid = known.uid or owner.uid
            return known
        group = Group(
            run=self._naming.run_of(owner, told), job=(owner.name.rpartition("/")[2] or "unnamed")[:200],
            emitter=(self._prefix + owner.name)[:200], uid=owner.uid,
        )  # fmt: skip
        if known is not None:
            self._told.close(known, known.last_death or known.began or 0)
            group.base, group.is_resubmitted, group.how = (known.requeue or 0) + 1, True, known.how
        self._groups[key] = group
        return group

    def _is_training(self, owner: Owner, pod: Object) -> bool:
        if self._naming.key and (self._naming.key in labels(pod) or self._naming.key in annotations(pod)):
            return True
        if owner.kind in WORKLOAD_KINDS:
            return True
        owners = {text(each.get("kind")) for each in items(metadata(pod).get("ownerReferences"))}
        if any(gpus_of(each) for each in items(mapping(pod.get("spec")).get("containers"))):
            return True
        return self._naming.takes_bare_pods and not owners & SERVICES

    # --- pods ---

    def _take_pods(self, changes: list[tuple[str, Object]]) -> None:
        waiting: list[tuple[pods.Moment, Group, Pod]] = []
        gone: list[tuple[str, int]] = []
        for change, told in changes:
            owner = owner_of(told)
            if not self._is_training(owner, told):
                continue
            uid, version = uid_of(told), version_of(told)
            known = self._pods.get(uid)
            if known is not None and version and known.get("rv") == version and change != "DELETED":
                continue
            group = self._group(owner, told)
            pod = self._pod(uid, told)
            found = pods.moments(told)
            keys = [hashlib.blake2b(each.key.encode(), digest_size=5).hexdigest() for each in found]
            before = set(known["keys"]) if known is not None else set()
            waiting += [(each, group, pod) for each, key in zip(found, keys, strict=True) if key not in before]
            started = max((each.at for each in found if each.kind == pods.STARTED), default=None)
            died = max((each.at for each in found if each.kind in (pods.ENDED, pods.FAILED)), default=None)
            self._pods[uid] = {
                "g": f"{owner.kind} {owner.name}", "name": pod.name, "node": pod.node, "rv": version, "keys": keys,
                "start": started if started is not None else known.get("start") if known else None,
                "end": died if died is not None and (started is None or died >= started) else None,
            }  # fmt: skip
            self._by_name[pod.name] = uid
            if change == "DELETED":
                gone.append((uid, max((each.at for each in found), default=0)))
        order = pods.ORDER
        for moment, group, pod in sorted(
            waiting, key=lambda each: (each[0].at, order.index(each[0].kind), each[0].life, each[2].name)
        ):
            self._told.apply(group, pod, moment)
        for uid, at in gone:
            self._drop(uid, at)

    @staticmethod
    def _pod(uid: str, told: Object) -> Pod:
        spec = mapping(told.get("spec"))
        attempt = text(labels(told).get(JOBSET_ATTEMPT), 12)
        return Pod(
            uid, name_of(told), text(spec.get("nodeName"), 200) or None,
            sum(gpus_of(each) for each in items(spec.get("containers"))),
            int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 9 else None,
        )  # fmt: skip

    def _drop(self, uid: str, at: int) -> None:
        told = self._pods.pop(uid, None)
        if told is None:
            return
        self._by_name.pop(told["name"], None)
        group = self._groups.get(told["g"])
        if group is not None:
            self._told.gone(group, Pod(uid, told["name"], told["node"], 0, None), max(at, group.began or at))
            if told.get("node") and len(self._nodes) < MOST_KEPT:
                self._nodes[told["node"]] = [
                    *self._nodes.get(told["node"], [])[-7:],
                    f"{told['end'] or at} {told['g']}",
                ]

    # --- workloads ---

    def _take_workload(self, kind: str, told: Object) -> None:
        key, version = f"{kind} {uid_of(told)}", version_of(told)
        if (version and self._seen.get(key) == version) or not any(conditions(told)):
            return
        owner = owner_of(told)
        if kind not in WORKLOAD_KINDS and kind != "Workload":
            return
        if kind == "Workload" and owner.kind not in WORKLOAD_KINDS:
            return
        group = self._group(owner, told)
        kept = set(self._seen.get(f"{key} told", "").split())
        news = [
            each for each in items(mapping(told.get("status")).get("conditions"))
            if self._condition_key(each) not in kept
        ]  # fmt: skip
        self._seen[key] = version
        self._seen[f"{key} told"] = " ".join(
            self._condition_key(each) for each in items(mapping(told.get("status")).get("conditions"))
        )[:2000]
        fresh = {**told, "status": {"conditions": news}}
        if kind == "Workload":
            take_kueue(fresh, group, self._told)
        elif owner.kind == kind or (kind == "TrainJob" and owner.kind == "JobSet"):
            take_workload(fresh, group, self._told)
        else:
            for name, is_true, reason, message, at in conditions(fresh):
                if name == "Failed" and is_true == "True" and at is not None:
                    self._told.evidence(group, at, None, f"{kind} {name_of(told)}: {reason}: {message}", reason or name)

    @staticmethod
    def _condition_key(told: dict[str, Any]) -> str:
        words = f"{told.get('type')} {told.get('status')} {told.get('reason')} {told.get('lastTransitionTime')}"
        return hashlib.blake2b(words.encode("utf-8", "replace"), digest_size=5).hexdigest()

    # --- nodes ---

    def _take_node(self, node: Object) -> None:
        name = text(metadata(node).get("name"), 200)
        key, version = f"Node {name}", version_of(node)
        if not name or (version and self._seen.get(key) == version):
            return
        self._seen[key] = version
        kept = set(self._seen.get(f"{key} told", "").split())
        found = node_told(node)
        marks = []
        for told in found:
            mark = f"{told.state.value}@{told.at}@{hashlib.blake2b(told.reason.encode(), digest_size=3).hexdigest()}"
            marks.append(mark)
            if mark not in kept:
                self._tell_node(name, told, had_trouble=bool(kept))
        self._seen[f"{key} told"] = " ".join(marks)[:2000]

    def _tell_node(self, name: str, told: NodeTold, *, had_trouble: bool) -> None:
        concerned = self._seen.get(f"Node {name} runs", "")
        if told.state is NodeCondition.READY:
            if not had_trouble or not concerned:
                return
            # Whoever was told of the trouble is told of its end, wherever its pods are by now.
            holders = [(run, job or None) for run, job in json.loads(concerned)]
            self._seen[f"Node {name} runs"] = ""
        else:
            holders = self._holding(name, told.at)
            both = {*holders, *((run, job or None) for run, job in json.loads(concerned or "[]"))}
            self._seen[f"Node {name} runs"] = json.dumps(sorted((run, job or "") for run, job in both)[:MOST_HOLDERS])
        for run, job in holders:
            emitter = f"{self._prefix}node/{name}"[:200]
            self._told.facts.append(
                NodeState(
                    run=run,
                    emitter=emitter,
                    seq=sequence(told.at, 0, told.state, told.reason),
                    at=told.at,
                    job=job,
                    node=name,
                    state=told.state,
                    reason=told.reason[:1000] or None,
                )
            )
            if told.words:
                self._told.facts.append(
                    Evidence(
                        run=run,
                        emitter=emitter,
                        seq=sequence(told.at, 1, told.words),
                        at=told.at,
                        job=job,
                        node=name,
                        source="kubernetes",
                        text=masked(told.words)[:8000],
                        code=told.code,
                    )
                )

    def _holding(self, node: str, at: int) -> list[tuple[str, str | None]]:
        """`(run, job)` of the groups with a pod on a node at an instant, or within the minute before."""
        found: dict[tuple[str, str | None], None] = {}
        for told in self._pods.values():
            if told["node"] != node or (told.get("start") or 0) > at:
                continue
            if told.get("end") is None or told["end"] + AFTER_NS >= at:
                group = self._groups.get(told["g"])
                if group is not None:
                    found[group.run, group.job] = None
        for entry in self._nodes.get(node, ()):
            until, _, key = entry.partition(" ")
            group = self._groups.get(key)
            if group is not None and int(until) + AFTER_NS >= at:
                found[group.run, group.job] = None
        if not self._groups and self._naming.run is not None:
            found[self._naming.run, None] = None
        return list(found)

    # --- events ---

    def _news_of(self, event: Object) -> EventTold | None:
        told = event_told(event)
        if told is None:
            if event.get("reason") == "Scheduled":
                self._scheduled(event)
            return None
        if f"Event {told.key}" in self._seen:
            return None
        return told

    def _scheduled(self, event: Object) -> None:
        """A pod that nobody has shown was given to a node."""
        told = event_told({**event, "reason": "NodeScheduled"})
        if told is None or told.kind != "Pod" or told.name in self._by_name:
            return
        uid = told.uid or told.name
        node = _ASSIGNED.search(told.message)
        self._pods[uid] = {
            "g": self._unseen_group(told), "name": told.name, "node": node[1] if node else None, "rv": "", "keys": [],
            "start": None, "end": None, "loose": told.at,
        }  # fmt: skip
        self._by_name[told.name] = uid

    def _unseen_group(self, told: EventTold) -> str:
        """The group of a pod that only events tell of."""
        job = self._made_by.get(told.name)
        owner = Owner("Job", job, "") if job else Owner("Pod", told.name, "")
        self._group(owner, {})
        return f"{owner.kind} {owner.name}"

    def _take_event(self, told: EventTold) -> None:
        self._seen[f"Event {told.key}"] = ""
        if told.kind == "Node":
            name = told.name.rpartition("/")[2]
            for run, job in self._holding(name, told.at):
                emitter = f"{self._prefix}node/{name}"[:200]
                self._told.facts.append(
                    Evidence(
                        run=run,
                        emitter=emitter,
                        seq=sequence(told.at, 2, told.key),
                        at=told.at,
                        job=job,
                        node=name,
                        source="kubernetes",
                        text=masked(f"{told.reason}: {told.message}")[:8000],
                        code=told.reason,
                    )
                )
            return
        pod = None
        if told.kind == "Pod":
            uid = told.uid if told.uid in self._pods else self._by_name.get(told.name)
            if uid is None and told.name in self._made_by:
                self._scheduled_unknown(told)
                uid = self._by_name.get(told.name)
            if uid is None:
                if self._naming.takes_bare_pods or self._naming.run is not None:
                    self._scheduled_unknown(told)
                    uid = self._by_name[told.name]
                else:
                    return
            entry = self._pods[uid]
            group = self._groups[entry["g"]]
            pod = Pod(uid, entry["name"], entry["node"], 0, None)
        else:
            owner = Owner("JobSet" if told.kind == "TrainJob" else told.kind, told.name, "")
            known = self._groups.get(f"{owner.kind} {owner.name}")
            if known is None:
                return
            group = known
        seconds = pull_seconds(told.message) if told.reason == "Pulled" else None
        if told.reason == "Pulled":
            if seconds is not None:
                self._told.facts.append(
                    Metric(
                        run=group.run,
                        emitter=group.emitter,
                        seq=sequence(told.at, 3, "pull", told.key),
                        at=told.at,
                        job=group.job,
                        node=pod.node if pod else None,
                        name="kubernetes/image_pull_seconds",
                        value=seconds,
                    )
                )
            return
        if told.reason == "FailedScheduling":
            # Its words tell of nodes that the pod did not get: they accuse nobody.
            if not group.is_open and not group.is_over:
                group.waits = True
                self._told.state(group, told.at, "queued", f"{told.reason}: {told.message}", told.key)
            return
        how = EVENT_ENDS.get(told.reason)
        if how is not None and pod is not None:
            self._begin_unseen(group, told.at)
        about = "" if pod is None else f" ({pod.name})"
        self._told.evidence(group, told.at, pod, f"{told.reason}: {told.message}{about}", told.reason)
        if how is None or pod is None or pod.uid not in group.alive:
            return
        if how == PREEMPTED:
            self._told.state(group, told.at, PREEMPTED, told.message, pod.uid)
        is_unseen = "loose" in self._pods[pod.uid]
        if told.reason == "NodeNotReady" and not is_unseen:
            return  # it may come back: what becomes of the pod is told by the pod
        if told.reason in ENDS:
            self._told.notice(group, told.at, pod, told.reason)
            self._told.dies(group, pod, told.at, how)
            if is_unseen:
                self._told.gone(group, pod, told.at)

    def _scheduled_unknown(self, told: EventTold) -> None:
        uid = told.uid or told.name
        self._pods[uid] = {
            "g": self._unseen_group(told),
            "name": told.name,
            "node": None,
            "rv": "",
            "keys": [],
            "start": None,
            "end": None,
            "loose": None,
        }
        self._by_name[told.name] = uid

    def _begin_unseen(self, group: Group, at: int) -> None:
        """The pods of a group that only events tell of began, as far as is known, when they were scheduled."""
        for uid, entry in self._pods.items():
            since = entry.get("loose")
            if since is None or since > at or entry["start"] is not None or self._groups.get(entry["g"]) is not group:
                continue
            entry["start"] = since
            self._told.apply(group, Pod(uid, entry["name"], entry["node"], 0, None), pods.Moment(since, pods.STARTED))

    # --- memory ---

    def _forget(self) -> None:
        """Let go of the oldest, where too much is remembered."""
        for key in list(self._seen)[: max(0, len(self._seen) - 4 * MOST_KEPT)]:
            del self._seen[key]
        if len(self._pods) > MOST_PODS:
            over = sorted((told["end"], uid) for uid, told in self._pods.items() if told["end"] is not None)
            for _, uid in over[: len(self._pods) - MOST_PODS]:
                self._by_name.pop(self._pods.pop(uid)["name"], None)
        if len(self._groups) > MOST_KEPT:
            live = {told["g"] for told in self._pods.values()}
            over_groups = [key for key, group in self._groups.items() if group.is_over and key not in live]
            for key in over_groups[: len(self._groups) - MOST_KEPT]:
                del self._groups[key]
