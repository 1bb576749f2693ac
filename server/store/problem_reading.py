"""Problem reading: problems, the incidents in them, and those that are like one; each call over one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, Row, Select, func, select

from rerail.server.core.facts import Pairs
from rerail.server.core.problems import Ledger
from rerail.server.store import tables
from rerail.server.store.append import key_of
from rerail.server.store.problem_board import ProblemBoard
from rerail.server.store.problem_rows import FingerprintRow, IncidentRow, ProblemSpread, ProblemSums
from rerail.server.store.problem_writing import LedgerReader, pairs_of

_incident = tables.incident.c
_ROW = (
    _incident.incident_id, _incident.started_at, _incident.ended_at, _incident.is_open, _incident.counts,
    _incident.cause, _incident.domain, _incident.scope, _incident.fingerprint, _incident.problem_id,
    _incident.culprit_node, _incident.culprit_rank, _incident.exception, _incident.xid, _incident.step,
    _incident.facets, _incident.restart_ns, _incident.recover_ns, _incident.lost_steps, _incident.lost_ns,
    _incident.lost_gpu_ms,
)  # fmt: skip
_FACETS_AT = [column.name for column in _ROW].index("facets")
_AT_ONCE = 400


def incident_row(row: Row) -> IncidentRow:
    """A row of the columns of `_ROW`."""
    values = list(row)
    values[_FACETS_AT] = pairs_of(values[_FACETS_AT])
    return IncidentRow(*values)


def incident_rows() -> Select:
    """The statement that `incident_row` reads."""
    return select(*_ROW)


class ProblemReader:
    """Reads problems of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ledger = LedgerReader()
        self._board = ProblemBoard()

    def ledger(self) -> Ledger:
        """See `ProblemStore.ledger`."""
        with self._engine.begin() as connection:
            return self._ledger.of(connection)[1]

    def fingerprints(self, wanted: Sequence[str] | None) -> dict[str, FingerprintRow]:
        """See `ProblemStore.fingerprints`."""
        table = tables.fingerprint
        statements = [select(table)]
        if wanted is not None:
            names = sorted(set(wanted))
            portions = [names[first : first + _AT_ONCE] for first in range(0, len(names), _AT_ONCE)]
            statements = [select(table).where(table.c.fingerprint.in_(some)) for some in portions]
        with self._engine.begin() as connection:
            rows = [row for statement in statements for row in connection.execute(statement)]
        return {
            row.fingerprint: FingerprintRow(row.fingerprint, row.cause, row.title, pairs_of(row.parts)) for row in rows
        }

    def problem_sums(self, problems: Sequence[str] | None, node: str | None) -> tuple[ProblemSums, ...]:
        """See `ProblemStore.problem_sums`."""
        with self._engine.begin() as connection:
            found = self._board.sums(connection, problems)
            if node is None:
                return found
            blamed = select(_incident.problem_id).where(_incident.culprit_node == node).distinct()
            among = set(connection.execute(blamed).scalars())
        return tuple(each for each in found if each.problem_id in among)

    def problem_spread(self, problems: Sequence[str]) -> dict[str, ProblemSpread]:
        """See `ProblemStore.problem_spread`."""
        with self._engine.begin() as connection:
            return self._board.spreads(connection, problems)

    def problem_facets(self, problem: str, limit: int) -> tuple[Pairs, ...]:
        """See `ProblemStore.problem_facets`."""
        statement = (
            select(_incident.facets)
            .where(_incident.problem_id == problem)
            .order_by(_incident.started_at.desc())
            .limit(limit)
        )
        with self._engine.begin() as connection:
            return tuple(pairs_of(packed) for packed in connection.execute(statement).scalars())

    def problem_incidents(
        self, problem: str, offset: int, limit: int, where: Pairs
    ) -> tuple[tuple[IncidentRow, ...], int]:
        """See `ProblemStore.problem_incidents`."""
        matching = [_incident.problem_id == problem]
        for name, value in where:
            if name == "run":
                matching.append(_incident.run_id == key_of(value))
            elif name == "node":
                matching.append(_incident.culprit_node == value)
        with self._engine.begin() as connection:
            total = connection.execute(select(func.count()).select_from(tables.incident).where(*matching)).scalar_one()
            rows = connection.execute(
                incident_rows()
                .where(*matching)
                .order_by(_incident.started_at.desc(), _incident.incident_id)
                .offset(offset)
                .limit(limit)
            ).all()
        return tuple(map(incident_row, rows)), total

    def position(self, row: IncidentRow) -> int:
        """See `ProblemStore.position`."""
        counted = select(func.count()).where(
            _incident.problem_id == row.problem_id,
            _incident.started_at <= row.started_at,
            _incident.counts.is_(True),
        )
        with self._engine.begin() as connection:
            return connection.execute(counted).scalar_one()

    def incident_rows(self, incidents: Sequence[str]) -> tuple[IncidentRow, ...]:
        """See `ProblemStore.incident_rows`."""
        with self._engine.begin() as connection:
            rows = connection.execute(
                incident_rows().where(_incident.incident_id.in_(list(incidents)), _incident.facets.is_not(None))
            ).all()
        return tuple(map(incident_row, rows))

    def alike(self, row: IncidentRow, xids: Sequence[str], near_ns: int, most: int) -> tuple[IncidentRow, ...]:
        """See `ProblemStore.alike`."""
        found: dict[str, IncidentRow] = {}
        kinds: list[tuple[object, ...]] = []
        for column, value in (
            (_incident.fingerprint, row.fingerprint),
            (_incident.exception, row.exception),
            (_incident.culprit_node, row.culprit_node),
        ):
            if value is not None:
                kinds.append((column == value,))
        kinds += [(_incident.xid == xid,) for xid in xids]
        with self._engine.begin() as connection:
            for matching in kinds:
                self._nearest(connection, matching, row, most, found)
            if row.step is not None:
                statement = incident_rows().where(
                    _incident.step.between(row.step - 1, row.step + 1), _incident.is_planned.is_(False)
                )
                self._take(connection, statement.limit(2 * most), found)
            statement = incident_rows().where(
                _incident.started_at.between(row.started_at - near_ns, row.started_at + near_ns),
                _incident.is_planned.is_(False),
            )
            self._take(connection, statement.order_by(_incident.started_at).limit(2 * most), found)
        found.pop(row.incident_id, None)
        return tuple(found.values())

    def _nearest(
        self,
        connection: Connection,
        matching: tuple[object, ...],
        row: IncidentRow,
        most: int,
        found: dict[str, IncidentRow],
    ) -> None:
        """Add the nearest incidents before and after one; an index on each column and `started_at` finds them."""
        statement = incident_rows().where(*matching)  # type: ignore[arg-type]
        at = _incident.started_at
        before = statement.where(at <= row.started_at).order_by(at.desc()).limit(most)
        self._take(connection, before, found)
        self._take(connection, statement.where(at > row.started_at).order_by(at).limit(most), found)

    def _take(self, connection: Connection, statement: Select, found: dict[str, IncidentRow]) -> None:
        for row in connection.execute(statement):
            if row.facets is not None and row.fingerprint is not None:
                found.setdefault(row.incident_id, incident_row(row))
