"""Node reading: machines over all runs, each call over one snapshot.

Sums over all runs are kept in memory and brought up to date by what was written since, as those of problems are.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine, bindparam, case, func, select

from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.view import Domain
from rerail.server.store import documents, tables
from rerail.server.store.append import key_of
from rerail.server.store.problem_reading import incident_row, incident_rows
from rerail.server.store.problem_rows import IncidentRow, NodeOfRun, NodeSums

_incident, _node, _view = tables.incident.c, tables.node_run.c, tables.run_view.c
_AT_ONCE = 400
_NEWEST = select(func.coalesce(func.max(_node.revision), 0))
_CHANGED = select(
    _node.node, _node.run_id, _node.is_gone, _node.is_exposure_known, _node.held_ns, _node.open_since, _node.blamed,
    _node.xids, case((_node.xids > 0, _node.document)),
).where(_node.revision > bindparam("seen"))  # fmt: skip


class _OfRun(NamedTuple):
    """One node in one run."""

    is_exposure_known: bool
    held_ns: int
    open_since: int | None
    blamed: int
    xids: int
    """As many were told; more than `told` holds where there were very many."""
    told: tuple[tuple[int, int], ...]
    """Second and code of each of its XIDs."""


class _NodeBoard:
    """What each run has of each node. Safe to share between threads."""

    def __init__(self) -> None:
        self._seen = 0
        self._runs: dict[str, dict[int, _OfRun]] = {}
        self._settled: dict[str, tuple[NodeSums, tuple[tuple[int, int], ...]]] = {}
        """Sums without what is held still, and `(run, since when)` of that."""
        self._lock = threading.Lock()

    def sums(self, connection: Connection) -> tuple[NodeSums, ...]:
        """Every node, by name."""
        with self._lock:
            self._renew(connection)
            settled = [self._settled.get(node) or self._settle(node) for node in sorted(self._runs)]
        still = {run_id for _, held in settled for run_id, _ in held}
        heard = _heard(connection, sorted(still))
        return tuple(
            sums._replace(
                held_ns=sums.held_ns + sum(max(0, heard.get(run_id, since) - since) for run_id, since in held)
            )
            if held
            else sums
            for sums, held in settled
        )

    def _renew(self, connection: Connection) -> None:
        newest = int(connection.execute(_NEWEST).scalar_one())
        if newest == self._seen:
            return
        for node, run_id, is_gone, *values, packed in connection.execute(_CHANGED, {"seen": self._seen}).all():
            if not is_gone:
                xids = documents.read_document(NodeHistory, packed).xids if packed else ()
                told = tuple((each.at // 10**9, each.code) for each in xids)
                self._runs.setdefault(node, {})[run_id] = _OfRun(*values, told)
            elif node in self._runs:
                self._runs[node].pop(run_id, None)
                if not self._runs[node]:
                    del self._runs[node]
            self._settled.pop(node, None)
        self._seen = newest

    def _settle(self, node: str) -> tuple[NodeSums, tuple[tuple[int, int], ...]]:
        runs = self._runs[node]
        known = [each for each in runs.values() if each.is_exposure_known]
        told: Counter[tuple[int, int]] = Counter()
        for each in runs.values():
            told |= Counter(each.told)  # a kernel's line that is in the logs of several runs was said once
        codes: Counter[int] = Counter()
        for (_, code), times in told.items():
            codes[code] += times
        sums = NodeSums(
            node=node,
            runs=len(runs),
            held_ns=sum(each.held_ns for each in known),
            blamed=sum(each.blamed for each in known),
            runs_blamed=sum(each.blamed > 0 for each in runs.values()),
            blamed_elsewhere=sum(each.blamed for each in runs.values() if not each.is_exposure_known),
            xids=codes.total() + sum(each.xids - len(each.told) for each in runs.values()),
            has_exposure=bool(known),
            codes=tuple(sorted(codes.items())),
        )
        held = tuple(
            (run_id, each.open_since)
            for run_id, each in runs.items()
            if each.is_exposure_known and each.open_since is not None
        )
        self._settled[node] = (sums, held)
        return sums, held


def _heard(connection: Connection, runs: Sequence[int]) -> dict[int, int]:
    """When runs were heard last: what they hold still is held until then."""
    heard: dict[int, int] = {}
    for first in range(0, len(runs), _AT_ONCE):
        statement = select(_view.run_id, _view.last_heard_at).where(
            _view.run_id.in_(list(runs[first : first + _AT_ONCE])), _view.last_heard_at.is_not(None)
        )
        heard.update((row.run_id, row.last_heard_at) for row in connection.execute(statement))
    return heard


class NodeReader:
    """Reads nodes of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._board = _NodeBoard()

    def node_sums(self) -> tuple[NodeSums, ...]:
        """See `ProblemStore.node_sums`."""
        with self._engine.begin() as connection:
            return self._board.sums(connection)

    def node_told(self, nodes: Sequence[str]) -> dict[str, tuple[NodeOfRun, ...]]:
        """See `ProblemStore.node_told`."""
        told: dict[str, list[NodeOfRun]] = {node: [] for node in nodes}
        with self._engine.begin() as connection:
            for first in range(0, len(nodes), _AT_ONCE):
                rows = connection.execute(
                    select(_node.node, _view.run, _view.last_heard_at, _node.blamed, _node.document)
                    .join_from(tables.node_run, tables.run_view, _node.run_id == _view.run_id)
                    .where(_node.node.in_(list(nodes[first : first + _AT_ONCE])), _node.is_gone.is_(False))
                ).all()
                for row in rows:
                    history = documents.read_document(NodeHistory, row.document)
                    told[row.node].append(NodeOfRun(row.run, history, row.blamed, row.last_heard_at))
        return {node: tuple(found) for node, found in told.items()}

    def blamed(self, node: str, limit: int, *, of_the_workload: bool = False) -> tuple[IncidentRow, ...]:
        """See `ProblemStore.blamed`."""
        is_of_it = _incident.domain == Domain.WORKLOAD.value
        statement = (
            incident_rows()
            .where(
                _incident.culprit_node == node,
                _incident.is_planned.is_(False),
                is_of_it if of_the_workload else ~is_of_it,
            )
            .order_by(_incident.started_at.desc())
            .limit(limit)
        )
        with self._engine.begin() as connection:
            return tuple(map(incident_row, connection.execute(statement).all()))

    def blamed_at(self, nodes: Sequence[str], limit: int) -> dict[str, tuple[int, ...]]:
        """See `ProblemStore.blamed_at`."""
        statement = (
            select(_incident.culprit_node, _incident.started_at)
            .where(
                _incident.culprit_node.in_(list(nodes)),
                _incident.counts.is_(True),
                _incident.domain != Domain.WORKLOAD.value,
            )
            .order_by(_incident.started_at.desc())
            .limit(limit)
        )
        found: dict[str, list[int]] = {}
        with self._engine.begin() as connection:
            for node, at in connection.execute(statement):
                found.setdefault(node, []).append(at)
        return {node: tuple(instants) for node, instants in found.items()}

    def blamed_count(self, node: str) -> int:
        """See `ProblemStore.blamed_count`."""
        counted = select(func.count()).where(
            _incident.culprit_node == node, _incident.is_planned.is_(False), _incident.domain != Domain.WORKLOAD.value
        )
        with self._engine.begin() as connection:
            return connection.execute(counted).scalar_one()

    def incidents_during(self, run: str, since: int, until: int, limit: int) -> tuple[IncidentRow, ...]:
        """See `ProblemStore.incidents_during`."""
        statement = (
            incident_rows()
            .where(
                _incident.run_id == key_of(run),
                _incident.started_at >= since,
                _incident.started_at < until,
                _incident.is_planned.is_(False),
            )
            .order_by(_incident.started_at.desc())
            .limit(limit)
        )
        with self._engine.begin() as connection:
            return tuple(map(incident_row, connection.execute(statement).all()))
