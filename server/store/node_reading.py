"""Node reading: machines over all runs, each call over one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Engine, Integer, case, cast, func, select

from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.view import Domain
from rerail.server.store import documents, tables
from rerail.server.store.append import key_of
from rerail.server.store.problem_reading import incident_row, incident_rows
from rerail.server.store.problem_rows import IncidentRow, NodeOfRun, NodeSums

_incident, _node, _view = tables.incident.c, tables.node_run.c, tables.run_view.c
_AT_ONCE = 400
_BLAMED = (_incident.is_planned.is_(False), _incident.domain != Domain.WORKLOAD.value)


class NodeReader:
    """Reads nodes of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def node_sums(self) -> tuple[NodeSums, ...]:
        """See `ProblemStore.node_sums`."""
        is_known = _node.is_exposure_known
        still = case((_view.last_heard_at > _node.open_since, _view.last_heard_at - _node.open_since), else_=0)
        zero = cast(0, BigInteger)
        statement = (
            select(
                _node.node,
                func.count(),
                func.sum(case((is_known, _node.held_ns + func.coalesce(still, zero)), else_=zero)),
                func.sum(case((is_known, _node.blamed), else_=zero)),
                func.sum(case((_node.blamed > 0, 1), else_=0)),
                func.sum(case((is_known, zero), else_=_node.blamed)),
                func.sum(_node.xids),
                func.max(cast(is_known, Integer)),
            )
            .join_from(tables.node_run, tables.run_view, _node.run_id == _view.run_id, isouter=True)
            .group_by(_node.node)
            .order_by(_node.node)
        )
        with self._engine.begin() as connection:
            rows = connection.execute(statement).all()
        return tuple(NodeSums(row[0], *map(int, row[1:7]), bool(row[7])) for row in rows)

    def node_told(self, nodes: Sequence[str]) -> dict[str, tuple[NodeOfRun, ...]]:
        """See `ProblemStore.node_told`."""
        told: dict[str, list[NodeOfRun]] = {node: [] for node in nodes}
        with self._engine.begin() as connection:
            for first in range(0, len(nodes), _AT_ONCE):
                rows = connection.execute(
                    select(_node.node, _view.run, _view.last_heard_at, _node.blamed, _node.document)
                    .join_from(tables.node_run, tables.run_view, _node.run_id == _view.run_id)
                    .where(_node.node.in_(list(nodes[first : first + _AT_ONCE])))
                ).all()
                for row in rows:
                    history = documents.read_document(NodeHistory, row.document)
                    told[row.node].append(NodeOfRun(row.run, history, row.blamed, row.last_heard_at))
        return {node: tuple(found) for node, found in told.items()}

    def nodes_with_xids(self) -> tuple[str, ...]:
        """See `ProblemStore.nodes_with_xids`."""
        with self._engine.begin() as connection:
            return tuple(
                connection.execute(select(_node.node).where(_node.xids > 0).distinct().order_by(_node.node)).scalars()
            )

    def blamed(self, nodes: Sequence[str], limit: int) -> dict[str, tuple[IncidentRow, ...]]:
        """See `ProblemStore.blamed`."""
        found = {}
        with self._engine.begin() as connection:
            for node in nodes:
                rows = connection.execute(
                    incident_rows()
                    .where(_incident.culprit_node == node, _incident.is_planned.is_(False))
                    .order_by(_incident.started_at.desc())
                    .limit(limit)
                ).all()
                found[node] = tuple(map(incident_row, rows))
        return found

    def blamed_count(self, node: str) -> int:
        """See `ProblemStore.blamed_count`."""
        counted = select(func.count()).where(_incident.culprit_node == node, _incident.is_planned.is_(False))
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
