"""Scheduler files: what Slurm printed and objects of Kubernetes, recorded, for judging runs without a server.

Rules
- Files are put together before anything is stated: the nodes of one explain the jobs of another.
- One job is the run that was asked about; several are a run each. Nodes that nobody is known to have held belong to the
  run that was asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rerail.collectors.sources import kube_facts, slurm_facts
from rerail.collectors.sources.kube_files import objects_in
from rerail.collectors.sources.kube_objects import WORKLOAD_KINDS, Object
from rerail.collectors.sources.slurm_records import Job, NodeEvent, Refused, read
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Fact


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
            kinds = {str(told.get("kind")) for _, told in self._objects}
            has_work = bool(kinds & (WORKLOAD_KINDS | {"Pod", "Event", "Workload"}))
            naming = kube_facts.Naming(None if has_work else self._run, takes_bare_pods=True)
            found["kubernetes"] = kube_facts.KubeFacts(naming=naming).take(self._objects)
        if self._jobs or self._events:
            runs = slurm_facts.Naming(None if self._jobs else self._run, "job")
            found["slurm"] = slurm_facts.SlurmFacts(naming=runs).take(self._jobs, self._events)
        runs_told = {fact.run for facts in found.values() for fact in facts}
        if len(runs_told) == 1:
            return {kind: self._joined(facts) for kind, facts in found.items()}
        return found

    def _joined(self, facts: Sequence[Fact]) -> list[Fact]:
        return [replace(fact, run=self._run) for fact in facts]
