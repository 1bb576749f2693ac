"""Kubernetes source: watches pods, events, nodes and workloads of a cluster, and states what they tell of runs.

Rules
- Pods must be seen, or the source is down. Another kind that may not be read is stated blind (`partial_sight.py`) and
  the rest goes on; a kind that the cluster does not know is none to be blind of.
- The cursor holds, for each kind, the version up to which it was taken, and what the facts need to go on. A poll
  given another cursor than the last one begins there anew.
- Nothing is stated before every kind was listed, or failed: events and nodes refer to pods.
- `finish` lists everything once and does not watch.
"""

from __future__ import annotations

import argparse
import json
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.identity import settings
from rerail.collectors.live_sources import LiveSource
from rerail.collectors.source import Polled, Source, SourceDown
from rerail.collectors.sources.kube_client import Client, Unseen, access
from rerail.collectors.sources.kube_facts import KubeFacts, Naming
from rerail.collectors.sources.kube_files import objects_in
from rerail.collectors.sources.kube_objects import Object, slim, uid_of
from rerail.collectors.sources.kube_watch import Change, Resource, Watch
from rerail.collectors.sources.partial_sight import PartialSight
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Fact

RUN_KEY = "rerail.io/run"
MANIFEST = Path(__file__).parent.parent / "kubernetes.yaml"
MOST_WAITING = 10_000
"""Changes read and not yet taken."""
MOST_AT_ONCE = 5_000
FIRST_SECONDS = 15.0
"""How long the first poll waits for every kind to be listed."""
POLL_SECONDS = 1.0

CLUSTER = (Resource("nodes", "/api/v1/nodes", "Node"),)
CORE = (("pods", "Pod", True), ("events", "Event", False))
GROUPS = (
    ("jobs", "/apis/batch/v1", "Job", False),
    ("jobsets", "/apis/jobset.x-k8s.io/v1alpha2", "JobSet", True),
    ("pytorchjobs", "/apis/kubeflow.org/v1", "PyTorchJob", True),
    ("trainjobs", "/apis/trainer.kubeflow.org/v1alpha1", "TrainJob", True),
    ("hyperpodpytorchjobs", "/apis/sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", True),
    ("workloads", "/apis/kueue.x-k8s.io/v1beta1", "Workload", True),
    ("workloads.v1beta2", "/apis/kueue.x-k8s.io/v1beta2", "Workload", True),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a cluster is watched."""

    namespaces: tuple[str, ...] = ()
    """Empty: all."""
    selector: str | None = None
    """Label selector of pods."""
    has_nodes: bool = True

    def resources(self) -> list[Resource]:
        """Every kind, in the order in which they are listed: what is referred to comes first."""
        found: list[Resource] = []
        for space in self.namespaces or ("",):
            within, suffix = (f"/namespaces/{space}", f" in {space}") if space else ("", "")
            for name, kind, is_needed in CORE:
                found.append(
                    Resource(name + suffix, f"/api/v1{within}/{name}", kind, is_needed=is_needed, namespace=space)
                )
            for name, group, kind, may_be_absent in GROUPS:
                path = f"{group}{within}/{name.partition('.')[0]}"
                found.append(Resource(name + suffix, path, kind, may_be_absent=may_be_absent, namespace=space))
        return [*found, *(CLUSTER if self.has_nodes else ())]


class KubernetesSource:
    """The training workloads of a cluster, as its API tells of them."""

    def __init__(
        self,
        client: Client,
        naming: Naming | None = None,
        scope: Scope | None = None,
        *,
        cluster: str = "",
        states_attempts: bool = True,
        first_seconds: float = FIRST_SECONDS,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.name = f"kubernetes {cluster}".strip()
        self.runs: tuple[str, ...] = () if naming is None or naming.run is None else (naming.run,)
        self._client = client
        self._naming = naming or Naming()
        self._scope = scope or Scope()
        self._cluster = cluster
        self._states_attempts = states_attempts
        self._first_seconds = first_seconds
        self._now = now
        self._resources = self._scope.resources()
        self._watches: list[Watch] = []
        self._queue: queue.Queue[Change] = queue.Queue(MOST_WAITING)
        self._at: str | None = None
        self._facts: KubeFacts | None = None
        self._versions: dict[str, str] = {}
        self._blind: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        """Kinds of which the last list held what is no object, and how much of it."""
        self._heard: set[str] = set()
        self._held: list[Change] = []
        self._last_poll = 0.0

    # --- watching ---

    @property
    def unseen(self) -> dict[str, str]:
        """What could not be looked at the last time, and why: also where no run is known yet that would be told."""
        return {**{f"{name} in part": reason for name, reason in self._broken.items()}, **self._failed}

    def poll(self, cursor: str | None) -> Polled:
        """What changed since. Raises `SourceDown`."""
        if self._facts is None or cursor != self._at:
            self._begin(cursor)
        waited = time.monotonic() - self._last_poll
        if self._is_ready and waited < POLL_SECONDS and self._queue.qsize() < MOST_AT_ONCE:
            return self._nothing()
        self._last_poll = time.monotonic()
        changes = self._drain()
        if not self._is_ready:
            self._held += changes
            return self._nothing()
        changes, self._held = self._held + changes, []
        return self._taken(changes)

    def close(self) -> None:
        """Stop watching."""
        for watch in self._watches:
            watch.stop()
        self._watches = []
        self._facts = None

    @property
    def _is_ready(self) -> bool:
        return all(each.name in self._heard for each in self._resources)

    def _begin(self, cursor: str | None) -> None:
        self.close()
        memory = _memory(cursor)
        self._facts = self._make(memory)
        self._versions, self._blind = dict(memory["versions"]), dict(memory["blind"])
        self._failed, self._broken, self._heard, self._held = {}, {}, set(), []
        self._queue = queue.Queue(MOST_WAITING)
        self._at = cursor
        for each in self._resources:
            selector = self._scope.selector if each.kind == "Pod" else None
            watch = Watch(self._client, each, self._versions.get(each.name, ""), self._queue, selector=selector)
            self._watches.append(watch)
            watch.start()
        until = time.monotonic() + self._first_seconds
        while not self._is_ready and time.monotonic() < until:
            self._held += self._drain(wait=0.05)

    def _make(self, memory: dict[str, Any]) -> KubeFacts:
        return KubeFacts(memory["facts"], self._naming, cluster=self._cluster, states_attempts=self._states_attempts)

    def _drain(self, wait: float = 0.0) -> list[Change]:
        found: list[Change] = []
        while len(found) < MOST_AT_ONCE:
            try:
                change = self._queue.get(timeout=wait) if wait and not found else self._queue.get_nowait()
            except queue.Empty:
                break
            found.append(change)
            if change.what in ("SEEN", "FAILED"):
                self._heard.add(change.resource.name)
        return found

    def _nothing(self) -> Polled:
        self._raise_if_down()
        return Polled((), self._at or "")

    def _raise_if_down(self) -> None:
        for each in self._resources:
            if each.is_needed and each.name in self._failed:
                raise SourceDown(self._failed[each.name])

    def _taken(self, changes: list[Change]) -> Polled:
        assert self._facts is not None
        if not changes:
            return self._nothing()
        told: list[Fact] = []
        seen: list[str] = []
        objects: list[tuple[str, Object]] = []
        listed: list[Change] = []
        for change in changes:
            name = change.resource.name
            if change.what == "FAILED":
                self._failed[name] = change.reason
            elif change.what == "SEEN":
                self._failed.pop(name, None)
                seen.append(name)
            elif change.what == "LISTED":
                listed.append(change)
                self._note_broken(name, change.reason)
            elif change.told:
                objects.append((change.what, change.told))
            if change.version:
                self._versions[name] = change.version
        told += self._facts.take(objects)
        added = {uid_of(each) for what, each in objects if each.get("kind") == "Pod" and what != "DELETED"}
        for change in listed:
            if change.resource.kind == "Pod":
                told += self._facts.vanished(added | change.uids, self._now(), change.resource.namespace)
        self.runs = self._facts.runs or self.runs
        told += self._sights(seen)
        if not told:
            # Who is told that we are down keeps the cursor it has, and comes back with that one.
            self._raise_if_down()
        polled = Polled(tuple(told), self._cursor())
        self._at = polled.cursor
        return polled

    def _is_down(self) -> bool:
        return any(each.is_needed and each.name in self._failed for each in self._resources)

    def _note_broken(self, name: str, reason: str) -> None:
        self._broken.pop(name, None)
        if reason:
            self._broken[name] = reason

    def _sights(self, seen: list[str]) -> list[Fact]:
        sight = PartialSight(self.name, self._blind, self._now)
        told: list[Fact] = []
        for name in seen:
            if name not in self._failed:
                told += sight.sees(name)
        for each in self._resources if not self._is_down() else ():
            if not each.is_needed and each.name in self._failed:
                told += sight.cannot_see(each.name, self._failed[each.name], self.runs)
        for each in self._resources:
            part = f"{each.name} in part"
            if each.name in self._broken:
                told += sight.cannot_see(part, self._broken[each.name], self.runs)
            elif each.name in seen:
                told += sight.sees(part)
        return told

    def _cursor(self) -> str:
        assert self._facts is not None
        memory = {"facts": self._facts.plain(), "versions": self._versions, "blind": self._blind}
        return json.dumps(memory, separators=(",", ":"))

    # --- one look ---

    def finish(self, cursor: str | None) -> Polled:
        """Everything as it is now. Raises `SourceDown`."""
        self.close()
        memory = _memory(cursor)
        self._facts = self._make(memory)
        self._versions, self._blind = dict(memory["versions"]), dict(memory["blind"])
        self._failed, self._broken = {}, {}
        told: list[Fact] = []
        seen: list[str] = []
        objects: list[tuple[str, Object]] = []
        uids: dict[str, set[str]] = {}
        for each in self._resources:
            selector = self._scope.selector if each.kind == "Pod" else None
            try:
                for found, version in self._client.pages(each.path, selector):
                    objects += [("ADDED", slim({**one, "kind": each.kind})) for one in found]
                    if each.kind == "Pod":
                        uids.setdefault(each.namespace, set()).update(uid_of(one) for one in found)
                    self._versions[each.name] = version
                seen.append(each.name)
                self._note_broken(each.name, self._client.passed_over.get(each.path, ""))
            except Unseen as error:
                if each.is_needed:
                    self._facts = None
                    raise SourceDown(str(error)) from None
                if error.status == 404 and each.may_be_absent:
                    seen.append(each.name)
                else:
                    self._failed[each.name] = str(error)
        told += self._facts.take(objects)
        for space, there in uids.items():
            told += self._facts.vanished(there, self._now(), space)
        self.runs = self._facts.runs or self.runs
        told += self._sights(seen)
        written = self._cursor()
        self._facts = None
        return Polled(tuple(told), written)


def _memory(cursor: str | None) -> dict[str, Any]:
    """What a cursor holds; one that makes no sense is the beginning."""
    empty: dict[str, Any] = {"facts": {}, "versions": {}, "blind": {}}
    try:
        told = json.loads(cursor) if cursor else {}
    except ValueError:
        return empty
    fits = isinstance(told, dict) and all(isinstance(told.get(name), dict) for name in empty)
    return {**empty, **told} if fits else empty


def _read_file(old: OldFile) -> Iterator[Fact]:
    objects: list[tuple[str, Object]] = []
    for number, found in enumerate(objects_in(old.content()), 1):
        if isinstance(found, FactError):
            old.refuse(number, found)
        else:
            objects.append(found)
    if objects and old.run is None and {told.get("kind") for _, told in objects} == {"Node"}:
        old.refuse(1, FactError("run", old.stem, "a file of nodes alone tells no run: name it with --run"))
        return
    yield from KubeFacts(naming=Naming(old.run, takes_bare_pods=True, trusts_events=True)).take(objects)


FORMAT = ImportFormat(
    name="kubernetes",
    summary="objects as kubectl get … -o json prints them: pods, events, nodes, Jobs, JobSets, Workloads",
    read=_read_file,
    example="pods.json events.json nodes.json --run llm",
    tells="attempts, exit codes, OOM kills, back-off, evictions, preemptions, waits for quota, nodes that were lost",
    cannot_tell="steps and checkpoints; what happened in a container; events that the API server no longer keeps (an "
    "hour by default)",
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--manifest", action="store_true", help="print what to deploy, with the rights it needs, and stop"
    )
    parser.add_argument(
        "--api", metavar="URL", help="the API server without credentials, such as that of kubectl proxy"
    )
    parser.add_argument("--kubeconfig", type=Path, help="how to reach it (default: the service account of this pod)")
    parser.add_argument("--context", help="context of the kubeconfig (default: its current one)")
    parser.add_argument("--namespace", "-n", action="append", default=[], help="only this one; may be given again")
    parser.add_argument("--selector", "-l", help="only pods with these labels, as kubectl takes them")
    parser.add_argument("--no-nodes", action="store_true", help="do not read nodes: where only a Role is granted")
    parser.add_argument("--cluster", default="", help="name of the cluster, where several report to one server")
    parser.add_argument(
        "--run-key", default=RUN_KEY, metavar="KEY", help=f"label or annotation that names the run (default {RUN_KEY})"
    )
    parser.add_argument(
        "--attempts", choices=("pods", "none"), default="pods",
        help="who counts attempts: restarts of pods, or nobody here, where launchers and recorders do (default pods)",
    )  # fmt: skip


def _make(arguments: argparse.Namespace) -> tuple[Source, ...]:
    reach = access(arguments.api, arguments.kubeconfig, arguments.context)
    run = arguments.run_id or settings().run
    source = KubernetesSource(
        Client(reach),
        Naming(run, arguments.run_key or None, takes_bare_pods=run is not None or arguments.selector is not None),
        Scope(tuple(arguments.namespace), arguments.selector, has_nodes=not arguments.no_nodes),
        cluster=arguments.cluster,
        states_attempts=arguments.attempts == "pods",
    )
    return (source,)


SOURCE = LiveSource(
    name="kubernetes",
    summary="pods, events, nodes, Jobs, JobSets, training jobs and Kueue of a cluster",
    description="Watches a cluster; states attempts, deaths, evictions, lost nodes, waiting (docs/kubernetes.md).",
    add_arguments=_add_arguments,
    make=_make,
    shows=lambda arguments: MANIFEST.read_text() if arguments.manifest else None,
)
