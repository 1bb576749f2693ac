"""Scheduler files: what Slurm printed and objects of Kubernetes, recorded, for judging runs without a server.

Rules
- Files are put together before anything is stated: the nodes of one explain the jobs of another.
- One job is the run that was asked about; several are a run each. Nodes that nobody is known to have held belong to the
  run that was asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rerail.collectors.sources import kube_facts, slurm_facts
from rerail.collectors.sources.kube_files import objects_in
from rerail.collectors.sources.kube_objects import WORKLOAD_KINDS, Object, conditions, instant, items, mapping
from rerail.collectors.sources.slurm_output import read
from rerail.collectors.sources.slurm_records import Job, NodeEvent, Refused
from rerail.collectors.sources.slurm_words import WAITING
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Fact

UNKNOWN_INSTANT = 1
"""Where a file tells no instant: order is all that is known."""
NO_STAMP = "2000-01-01T00:00:00Z"


def _placed(job: Job) -> Job:
    """A job of which no instant is told, as one that ended when nobody knows."""
    if job.submit is not None or job.start is not None:
        return job
    has_begun = job.state not in WAITING
    return replace(
        job, submit=UNKNOWN_INSTANT, start=UNKNOWN_INSTANT if has_begun else None,
        end=UNKNOWN_INSTANT if has_begun else None,
    )  # fmt: skip


def _stamped(objects: Sequence[tuple[str, Object]]) -> list[tuple[str, Object]]:
    """The objects, their conditions without an instant put at the latest that any object tells."""
    told = [at for _, each in objects for *_, at in conditions(each) if at is not None]
    stamp = NO_STAMP
    if told:
        stamp = datetime.fromtimestamp(max(told) // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for change, each in objects:
        status = mapping(each.get("status"))
        if isinstance(status.get("conditions"), list):
            stamped = [{"lastTransitionTime": stamp, **condition} for condition in items(status["conditions"])]
            each = {**each, "status": {**status, "conditions": stamped}}
        found.append((change, each))
    return found


class SchedulerFiles:
    """Collects what files hold; `facts` states it all."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._objects: list[tuple[str, Object]] = []
        self._jobs: list[Job] = []
        self._events: list[NodeEvent] = []
        self.took_last = False
        """Whether the file that was added last held anything."""

    def add(self, kind: str, content: bytes) -> list[str]:
        """Take one file, `kubernetes` or `slurm`; gives what was refused of it."""
        before = len(self._objects) + len(self._jobs) + len(self._events)
        refused: list[str] = []
        if kind == "kubernetes":
            for told in objects_in(content):
                if isinstance(told, FactError):
                    refused.append(str(told))
                else:
                    self._objects.append(told)
        else:
            for record in read(content):
                if isinstance(record, Refused):
                    refused.append(f"line {record.line}: {record.field}: {record.reason} (got {record.value})")
                elif isinstance(record, Job):
                    self._jobs.append(record)
                else:
                    self._events.append(record)
        self.took_last = len(self._objects) + len(self._jobs) + len(self._events) > before
        return refused

    def facts(self) -> dict[str, list[Fact]]:
        """What each scheduler states, of the run that was asked about or of runs of their own."""
        found: dict[str, list[Fact]] = {}
        if self._objects:
            kinds = {str((mapping(told.get("involvedObject")) or told).get("kind")) for _, told in self._objects}
            has_work = bool(kinds & (WORKLOAD_KINDS | {"Pod", "Workload"}))
            naming = kube_facts.Naming(None if has_work else self._run, takes_bare_pods=True, trusts_events=True)
            found["kubernetes"] = _undated(kube_facts.KubeFacts(naming=naming).take(_stamped(self._objects)))
        if self._jobs or self._events:
            self._jobs = [_placed(job) for job in self._jobs]
            runs = slurm_facts.Naming(None if self._jobs else self._run, "job")
            found["slurm"] = slurm_facts.SlurmFacts(naming=runs).take(self._jobs, self._events)
        runs_told = {fact.run for facts in found.values() for fact in facts}
        if len(runs_told) == 1:
            return {kind: self._joined(facts) for kind, facts in found.items()}
        return found

    def _joined(self, facts: Sequence[Fact]) -> list[Fact]:
        return [replace(fact, run=self._run) for fact in facts]


def _undated(facts: Sequence[Fact]) -> list[Fact]:
    """What was put at no instant is told so."""
    nowhere = instant(NO_STAMP)
    return [replace(fact, at=UNKNOWN_INSTANT) if fact.at == nowhere else fact for fact in facts]
