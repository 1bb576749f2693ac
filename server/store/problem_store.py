"""The problem store in SQL; see the promises in `problem_rows.py`. This file says which part answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Engine

from rerail.server.core.facts import Pairs
from rerail.server.core.problems import Ledger, ProblemAction
from rerail.server.store import engines
from rerail.server.store.node_reading import NodeReader
from rerail.server.store.problem_actions import ProblemActions
from rerail.server.store.problem_reading import ProblemReader
from rerail.server.store.problem_rows import (
    FingerprintRow,
    IncidentRow,
    NodeOfRun,
    NodeSums,
    ProblemSpread,
    ProblemSums,
)


class SqlProblemStore:
    """Problems and nodes of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._actions = ProblemActions(write)
        self._problems = ProblemReader(read)
        self._nodes = NodeReader(read)

    def ledger(self) -> Ledger:
        """Every action there is."""
        with engines.answering():
            return self._problems.ledger()

    def act(self, judge: Callable[[Ledger], ProblemAction]) -> ProblemAction:
        """Add the action that `judge` makes of all before it."""
        with engines.answering():
            return self._actions.act(judge)

    def fingerprints(self, wanted: Sequence[str] | None = None) -> dict[str, FingerprintRow]:
        """What fingerprints are made of."""
        with engines.answering():
            return self._problems.fingerprints(wanted)

    def problem_sums(self, problems: Sequence[str] | None = None, node: str | None = None) -> tuple[ProblemSums, ...]:
        """Problems that have incidents."""
        with engines.answering():
            return self._problems.problem_sums(problems, node)

    def problem_spread(self, problems: Sequence[str]) -> dict[str, ProblemSpread]:
        """Days and nodes of problems."""
        with engines.answering():
            return self._problems.problem_spread(problems)

    def problem_incidents(
        self, problem: str, offset: int, limit: int, where: Pairs = ()
    ) -> tuple[tuple[IncidentRow, ...], int]:
        """Incidents of a problem, newest first, and how many there are."""
        with engines.answering():
            return self._problems.problem_incidents(problem, offset, limit, where)

    def problem_facets(self, problem: str, limit: int) -> tuple[Pairs, ...]:
        """Facets of the newest incidents of a problem."""
        with engines.answering():
            return self._problems.problem_facets(problem, limit)

    def position(self, row: IncidentRow) -> int:
        """The how-manieth incident of its problem one is."""
        with engines.answering():
            return self._problems.position(row)

    def incident_rows(self, incidents: Sequence[str]) -> tuple[IncidentRow, ...]:
        """Incidents by their ids."""
        with engines.answering():
            return self._problems.incident_rows(incidents)

    def alike(self, row: IncidentRow, xids: Sequence[str], near_ns: int, most: int) -> tuple[IncidentRow, ...]:
        """Incidents that share something with one."""
        with engines.answering():
            return self._problems.alike(row, xids, near_ns, most)

    def node_sums(self) -> tuple[NodeSums, ...]:
        """Every node that was named."""
        with engines.answering():
            return self._nodes.node_sums()

    def node_told(self, nodes: Sequence[str]) -> dict[str, tuple[NodeOfRun, ...]]:
        """The histories of nodes, run by run."""
        with engines.answering():
            return self._nodes.node_told(nodes)

    def blamed(self, node: str, limit: int, *, of_the_workload: bool = False) -> tuple[IncidentRow, ...]:
        """Incidents that a node is blamed for, or those of the workload on it."""
        with engines.answering():
            return self._nodes.blamed(node, limit, of_the_workload=of_the_workload)

    def blamed_at(self, nodes: Sequence[str], limit: int) -> dict[str, tuple[int, ...]]:
        """When faults began that are blamed on nodes, newest first."""
        with engines.answering():
            return self._nodes.blamed_at(nodes, limit)

    def blamed_count(self, node: str) -> int:
        """How many incidents a node is blamed for."""
        with engines.answering():
            return self._nodes.blamed_count(node)

    def incidents_during(self, run: str, since: int, until: int, limit: int) -> tuple[IncidentRow, ...]:
        """Incidents of a run that began in a range."""
        with engines.answering():
            return self._nodes.incidents_during(run, since, until, limit)
