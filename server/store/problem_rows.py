"""Problem rows: what the store keeps and gives of problems and nodes, and the promises of that part of it.

Promises
- To which problem an incident belongs follows from its fingerprint, its facets and the actions (`core/problems.py`):
  whoever saves an incident, and whoever acts, writes down the same. The two never miss each other.
- An action is judged under a lock against every action before it, is durable when it is answered, and is never edited.
- Sums of a problem are kept per run and are exact; they are made again with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rerail.server.core.facts import Pairs
from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.problems import Ledger, ProblemAction

GPU_MS = 1_000_000
"""GPU·ns in a GPU·ms: what GPU costs are kept in, since a sum of GPU·ns does not fit 64 bit."""


class FingerprintRow(NamedTuple):
    """What a fingerprint was made of."""

    fingerprint: str
    cause: str
    title: str
    parts: Pairs


class ProblemSums(NamedTuple):
    """One problem over all runs; planned restarts and incidents out of account are in no sum."""

    problem_id: str
    fingerprint: str
    """Its own, or of one of its incidents where it was split off."""
    incidents: int
    still_open: int
    runs: int
    first_at: int
    last_at: int
    restart_ns: int
    recover_ns: int
    lost_ns: int
    lost_gpu_ms: int
    cost_unknown: int
    """Incidents of which no GPU number is known."""


class ProblemSpread(NamedTuple):
    """Where and when the incidents of a problem were."""

    days: dict[int, int]
    """Days since 1970 (UTC) → incidents."""
    nodes: dict[str, int]
    """Culprit nodes → incidents."""


class IncidentRow(NamedTuple):
    """An incident as lists of occurrences need it."""

    incident_id: str
    started_at: int
    ended_at: int | None
    is_open: bool
    counts: bool
    cause: str
    domain: str
    scope: str | None
    fingerprint: str | None
    problem_id: str | None
    culprit_node: str | None
    culprit_rank: int | None
    exception: str | None
    xid: str | None
    step: int | None
    facets: Pairs
    restart_ns: int | None
    recover_ns: int | None
    lost_steps: int | None
    lost_ns: int | None
    lost_gpu_ms: int | None

    @property
    def run_id(self) -> str:
        """The run it is of."""
        return self.incident_id.rsplit("~", 1)[0]


class NodeSums(NamedTuple):
    """One node over all runs."""

    node: str
    runs: int
    held_ns: int
    """In runs that name the nodes of every attempt."""
    blamed: int
    """Faults in those runs; of the workload none."""
    runs_blamed: int
    blamed_elsewhere: int
    """Faults in runs that do not name them."""
    xids: int
    has_exposure: bool
    codes: tuple[tuple[int, int], ...] = ()
    """XID code → how many, ascending."""


class NodeOfRun(NamedTuple):
    """One node in one run."""

    run: str
    history: NodeHistory
    blamed: int
    heard_at: int | None
    """When the run was heard last: what is held still is held until then."""


class ProblemStore(Protocol):
    """See the promises above."""

    def ledger(self) -> Ledger:
        """Every action there is."""

    def act(self, judge: Callable[[Ledger], ProblemAction]) -> ProblemAction:
        """Add the action that `judge` makes of all before it; its number is given here.

        What `judge` raises is raised, and nothing happened.
        """

    def fingerprints(self, wanted: Sequence[str] | None = None) -> dict[str, FingerprintRow]:
        """What fingerprints are made of; all, unless some are named."""

    def problem_sums(self, problems: Sequence[str] | None = None, node: str | None = None) -> tuple[ProblemSums, ...]:
        """Every problem that has incidents, or those named, or those with an incident a node is blamed for."""

    def problem_spread(self, problems: Sequence[str]) -> dict[str, ProblemSpread]:
        """Days and nodes of problems."""

    def problem_incidents(
        self, problem: str, offset: int, limit: int, where: Pairs = ()
    ) -> tuple[tuple[IncidentRow, ...], int]:
        """Incidents of a problem, newest first, and how many there are."""

    def problem_facets(self, problem: str, limit: int) -> tuple[Pairs, ...]:
        """Facets of the newest incidents of a problem."""

    def position(self, row: IncidentRow) -> int:
        """The how-manieth incident of its problem one is, by time, of those that count."""

    def incident_rows(self, incidents: Sequence[str]) -> tuple[IncidentRow, ...]:
        """Incidents by their ids; those that are not known are left out."""

    def alike(self, row: IncidentRow, xids: Sequence[str], near_ns: int, most: int) -> tuple[IncidentRow, ...]:
        """Incidents that share something with one: fingerprint, exception, XID (one of those), node, step or time.

        Of each kind the `most` nearest before and after it.
        """

    def node_sums(self) -> tuple[NodeSums, ...]:
        """Every node that was named."""

    def node_told(self, nodes: Sequence[str]) -> dict[str, tuple[NodeOfRun, ...]]:
        """The histories of nodes, run by run."""

    def blamed(self, node: str, limit: int, *, of_the_workload: bool = False) -> tuple[IncidentRow, ...]:
        """Incidents that a node is blamed for, newest first, at most `limit`; or those of the workload on it."""

    def blamed_at(self, nodes: Sequence[str], limit: int) -> dict[str, tuple[int, ...]]:
        """When faults began that are blamed on nodes, newest first; of the workload none. At most `limit` in all."""

    def blamed_count(self, node: str) -> int:
        """How many incidents a node is blamed for; of the workload none."""

    def incidents_during(self, run: str, since: int, until: int, limit: int) -> tuple[IncidentRow, ...]:
        """Incidents of a run that began in `[since, until)`, newest first."""
