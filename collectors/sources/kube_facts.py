"""Kubernetes facts: objects as they are listed, watched or recorded, and what they state about runs.

Rules
- Moments of all pods of a batch are taken in order of time; then workloads, nodes and events, which refer to them.
- Each moment is stated once: the memory keeps, for each pod that is there, the moments its object still tells. What was
  let go and is seen again is stated under its old identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from rerail.collectors.sources import kube_pods as pods
from rerail.collectors.sources.kube_groups import Group, GroupFacts, Pod
from rerail.collectors.sources.kube_news import News
from rerail.collectors.sources.kube_objects import (
    JOBSET_ATTEMPT,
    WORKLOAD_KINDS,
    Object,
    conditions,
    gpus_of,
    items,
    labels,
    mapping,
    name_of,
    owner_of,
    text,
    uid_of,
    version_of,
)
from rerail.collectors.sources.kube_roll import Naming, Roll
from rerail.collectors.sources.kube_workloads import take_kueue, take_workload
from rerail.server.core.facts import Fact

__all__ = ["KubeFacts", "Naming"]


class KubeFacts:
    """States facts from objects. `memory` is plain JSON data, brought up to date by `plain`."""

    def __init__(
        self, memory: dict[str, Any] | None = None, naming: Naming | None = None, *, cluster: str = "",
        states_attempts: bool = True,
    ) -> None:  # fmt: skip
        self._told = GroupFacts(states_attempts=states_attempts)
        prefix = f"kubernetes/{cluster[:60]}/" if cluster else "kubernetes/"
        self._roll = Roll(memory or {}, naming or Naming(), prefix, self._told)
        self._news = News(self._roll, self._told)

    def plain(self) -> dict[str, Any]:
        """For a cursor."""
        return self._roll.plain()

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs with a workload that is not over."""
        return tuple(sorted({group.run for group in self._roll.groups.values() if not group.is_over}))

    def take(self, changes: Iterable[tuple[str, Object]]) -> list[Fact]:
        """The facts that objects state: `(ADDED | MODIFIED | DELETED, object)`, in the order they were given."""
        of_kind: dict[str, list[tuple[str, Object]]] = {}
        for change, told in changes:
            of_kind.setdefault(str(told.get("kind") or ""), []).append((change, told))
        nodes, events = of_kind.pop("Node", []), of_kind.pop("Event", [])
        for _, event in events:
            self._news.learn(event)
        self._take_pods(of_kind.pop("Pod", []))
        for kind, found in of_kind.items():
            for _, told in found:
                self._take_workload(kind, told)
        for _, told in nodes:
            self._news.take_node(told)
        news = [news for _, event in events if (news := self._news.news_of(event)) is not None]
        for each in sorted(news, key=lambda each: (each.at, each.key)):
            self._news.take_event(each)
        self._roll.forget()
        return self._stated()

    def vanished(self, uids: set[str], at: int, namespace: str = "") -> list[Fact]:
        """Pods (of a namespace; empty: of all) that are not listed any more, and whose deletion nobody saw."""
        prefix = f"{namespace}/" if namespace else ""
        for uid, told in list(self._roll.pods.items()):
            if uid not in uids and "loose" not in told and told["name"].startswith(prefix):
                self._roll.drop(uid, at)
        return self._stated()

    def _stated(self) -> list[Fact]:
        facts, self._told.facts = self._told.facts, []
        return facts

    # --- pods ---

    def _take_pods(self, changes: list[tuple[str, Object]]) -> None:
        waiting: list[tuple[pods.Moment, Group, Pod]] = []
        gone: list[tuple[str, int]] = []
        for change, told in changes:
            owner = owner_of(told)
            if not self._roll.is_training(owner, told):
                continue
            uid, version = uid_of(told), version_of(told)
            known = self._roll.pods.get(uid)
            if known is not None and version and known.get("rv") == version and change != "DELETED":
                continue
            group = self._roll.group(owner, told)
            pod = self._pod(uid, told)
            found = pods.moments(told)
            keys = [hashlib.blake2b(each.key.encode(), digest_size=5).hexdigest() for each in found]
            before = set(known["keys"]) if known is not None else set()
            waiting += [(each, group, pod) for each, key in zip(found, keys, strict=True) if key not in before]
            started = max((each.at for each in found if each.kind == pods.STARTED), default=None)
            died = max((each.at for each in found if each.kind in (pods.ENDED, pods.FAILED)), default=None)
            self._roll.pods[uid] = {
                "g": f"{owner.kind} {owner.name}", "name": pod.name, "node": pod.node, "rv": version, "keys": keys,
                "start": started if started is not None else known.get("start") if known else None,
                "end": died if died is not None and (started is None or died >= started) else None,
            }  # fmt: skip
            self._roll.by_name[pod.name] = uid
            if change == "DELETED":
                gone.append((uid, max((each.at for each in found), default=0)))
        order = pods.ORDER
        for moment, group, pod in sorted(
            waiting, key=lambda each: (each[0].at, order.index(each[0].kind), each[0].life, each[2].name)
        ):
            self._told.apply(group, pod, moment)
        for uid, at in gone:
            self._roll.drop(uid, at)

    @staticmethod
    def _pod(uid: str, told: Object) -> Pod:
        spec = mapping(told.get("spec"))
        attempt = text(labels(told).get(JOBSET_ATTEMPT), 12)
        return Pod(
            uid, name_of(told), text(spec.get("nodeName"), 200) or None,
            sum(gpus_of(each) for each in items(spec.get("containers"))),
            int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 9 else None,
        )  # fmt: skip

    # --- workloads ---

    def _take_workload(self, kind: str, told: Object) -> None:
        key, version = f"{kind} {uid_of(told)}", version_of(told)
        if (version and self._roll.seen.get(key) == version) or not any(conditions(told)):
            return
        owner = owner_of(told)
        if kind not in WORKLOAD_KINDS and kind != "Workload":
            return
        if (kind == "Workload" and owner.kind not in WORKLOAD_KINDS) or not self._roll.is_training(owner, told):
            return
        group = self._roll.group(owner, told)
        kept = set(self._roll.seen.get(f"{key} told", "").split())
        news = [
            each for each in items(mapping(told.get("status")).get("conditions"))
            if self._condition_key(each) not in kept
        ]  # fmt: skip
        self._roll.seen[key] = version
        self._roll.seen[f"{key} told"] = " ".join(
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
