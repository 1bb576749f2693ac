"""News: what the objects of nodes, and events, state about the runs that they concern.

Rules
- A change of a node is stated to the runs that hold it, and its end to whoever was told of it.
- An event is about a pod or workload that is followed, or about a node that is held; others are passed over. In a file
  of events alone a group begins where its pods were scheduled.
- Events are told once. Those that say an end put it into the group's story, as far as the pod itself will not: a node
  that does not answer may come back.
"""

from __future__ import annotations

import hashlib
import json
import re

from rerail.collectors.masking import masked
from rerail.collectors.sources import kube_pods as pods
from rerail.collectors.sources.kube_events import ENDS, EventTold, created_pod, event_told, pull_seconds
from rerail.collectors.sources.kube_groups import EVICTED, LOST, PREEMPTED, Group, GroupFacts, Pod, sequence
from rerail.collectors.sources.kube_nodes import NodeTold, node_told
from rerail.collectors.sources.kube_objects import Object, Owner, metadata, text, version_of
from rerail.collectors.sources.kube_roll import Roll
from rerail.server.core.facts import Evidence, Metric, NodeCondition, NodeState

MOST_HOLDERS = 100
"""Runs that are told that a node is back."""

_ASSIGNED = re.compile(r"assigned \S{1,300} to (\S{1,253})")
EVENT_ENDS = {"Preempted": PREEMPTED, "Evicted": EVICTED, "TaintManagerEviction": LOST, "NodeNotReady": LOST}


class News:
    """Takes nodes and events."""

    def __init__(self, roll: Roll, told: GroupFacts) -> None:
        self._roll = roll
        self._told = told
        self._made_by: dict[str, str] = {}
        """Pod → Job, as the Job's controller said."""

    def learn(self, event: Object) -> None:
        """Which Job made which pod."""
        made = created_pod(event)
        if made is not None:
            self._made_by[made[0]] = made[1]

    # --- nodes ---

    def take_node(self, node: Object) -> None:
        name = text(metadata(node).get("name"), 200)
        key, version = f"Node {name}", version_of(node)
        if not name or (version and self._roll.seen.get(key) == version):
            return
        self._roll.seen[key] = version
        kept = set(self._roll.seen.get(f"{key} told", "").split())
        found = node_told(node)
        marks = []
        for told in found:
            mark = f"{told.state.value}@{told.at}@{hashlib.blake2b(told.reason.encode(), digest_size=3).hexdigest()}"
            marks.append(mark)
            if mark not in kept:
                self._tell_node(name, told, had_trouble=bool(kept))
        self._roll.seen[f"{key} told"] = " ".join(marks)[:2000]

    def _tell_node(self, name: str, told: NodeTold, *, had_trouble: bool) -> None:
        concerned = self._roll.seen.get(f"Node {name} runs", "")
        if told.state is NodeCondition.READY:
            if not had_trouble or not concerned:
                return
            # Whoever was told of the trouble is told of its end, wherever its pods are by now.
            holders = [(run, job or None) for run, job in json.loads(concerned)]
            self._roll.seen[f"Node {name} runs"] = ""
        else:
            holders = self._roll.holding(name, told.at)
            both = {*holders, *((run, job or None) for run, job in json.loads(concerned or "[]"))}
            self._roll.seen[f"Node {name} runs"] = json.dumps(
                sorted((run, job or "") for run, job in both)[:MOST_HOLDERS]
            )
        for run, job in holders:
            self._told.facts.append(
                NodeState(
                    run=run,
                    emitter=self._node_emitter(name),
                    seq=sequence(told.at, 0, told.state, told.reason),
                    at=told.at,
                    job=job,
                    node=name,
                    state=told.state,
                    reason=told.reason[:1000] or None,
                )
            )
            if told.words:
                seq = sequence(told.at, 1, told.words)
                self._say_of_node(run, job, name, told.at, seq, told.words, told.code)

    def _say_of_node(
        self, run: str, job: str | None, node: str, at: int, seq: int, words: str, code: str | None
    ) -> None:  # fmt: skip
        """A piece of evidence about a machine that holds pods of a run."""
        self._told.facts.append(
            Evidence(
                run=run, emitter=self._node_emitter(node), seq=seq, at=at, job=job, node=node, source="kubernetes",
                text=masked(words)[:8000], code=code,
            )
        )  # fmt: skip

    def _node_emitter(self, node: str) -> str:
        return f"{self._roll.prefix}node/{node}"[:200]

    # --- events ---

    def news_of(self, event: Object) -> EventTold | None:
        told = event_told(event)
        if told is None:
            if event.get("reason") == "Scheduled":
                self._scheduled(event)
            return None
        if f"Event {told.key}" in self._roll.seen:
            return None
        return told

    def _scheduled(self, event: Object) -> None:
        """A pod that nobody has shown was given to a node."""
        if not self._roll.naming.trusts_events:
            return
        told = event_told({**event, "reason": "NodeScheduled"})
        if told is None or told.kind != "Pod" or told.name in self._roll.by_name:
            return
        uid = told.uid or told.name
        node = _ASSIGNED.search(told.message)
        self._roll.pods[uid] = {
            "g": self._unseen_group(told), "name": told.name, "node": node[1] if node else None, "rv": "", "keys": [],
            "start": None, "end": None, "loose": told.at,
        }  # fmt: skip
        self._roll.by_name[told.name] = uid

    def _unseen_group(self, told: EventTold) -> str:
        """The group of a pod that only events tell of."""
        job = self._made_by.get(told.name)
        owner = Owner("Job", job, "") if job else Owner("Pod", told.name, "")
        self._roll.group(owner, {})
        return f"{owner.kind} {owner.name}"

    def take_event(self, told: EventTold) -> None:
        self._roll.seen[f"Event {told.key}"] = ""
        if told.kind == "Node":
            name = told.name.rpartition("/")[2]
            for run, job in self._roll.holding(name, told.at):
                seq = sequence(told.at, 2, told.key)
                self._say_of_node(run, job, name, told.at, seq, f"{told.reason}: {told.message}", told.reason)
            return
        pod = None
        if told.kind == "Pod":
            uid = told.uid if told.uid in self._roll.pods else self._roll.by_name.get(told.name)
            if uid is None:
                if self._roll.naming.trusts_events:
                    self._scheduled_unknown(told)
                    uid = self._roll.by_name[told.name]
                else:
                    return
            entry = self._roll.pods[uid]
            group = self._roll.groups[entry["g"]]
            pod = Pod(uid, entry["name"], entry["node"], 0, None)
        else:
            owner = Owner("JobSet" if told.kind == "TrainJob" else told.kind, told.name, "")
            known = self._roll.groups.get(f"{owner.kind} {owner.name}")
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
        is_unseen = "loose" in self._roll.pods[pod.uid]
        if told.reason == "NodeNotReady" and not is_unseen:
            return  # it may come back: what becomes of the pod is told by the pod
        if told.reason in ENDS:
            self._told.notice(group, told.at, pod, told.reason)
            self._told.dies(group, pod, told.at, how)
            if is_unseen:
                self._told.gone(group, pod, told.at)

    def _scheduled_unknown(self, told: EventTold) -> None:
        uid = told.uid or told.name
        self._roll.pods[uid] = {
            "g": self._unseen_group(told),
            "name": told.name,
            "node": None,
            "rv": "",
            "keys": [],
            "start": None,
            "end": None,
            "loose": None,
        }
        self._roll.by_name[told.name] = uid

    def _begin_unseen(self, group: Group, at: int) -> None:
        """The pods of a group that only events tell of began, as far as is known, when they were scheduled."""
        for uid, entry in self._roll.pods.items():
            since = entry.get("loose")
            if (
                since is None
                or since > at
                or entry["start"] is not None
                or self._roll.groups.get(entry["g"]) is not group
            ):
                continue
            entry["start"] = since
            self._told.apply(group, Pod(uid, entry["name"], entry["node"], 0, None), pods.Moment(since, pods.STARTED))
