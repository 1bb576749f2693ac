"""Alert reading: alerts, their events, and sums over incidents, each call over one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Engine, Row, Text, and_, case, cast, func, or_, select

from rerail.server.core.alert_life import AlertEvent, Life, life
from rerail.server.core.facts import Phase
from rerail.server.core.stakes import Stake, stake
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.core.view import Domain, RunState, RunView
from rerail.server.query_results import RunRow
from rerail.server.store import documents, tables
from rerail.server.store.alert_rows import MOST_WEIGHED, REASONS, AlertRow, Asked, FaultSums, WantingRow
from rerail.server.store.alert_writing import (
    ROUND,
    event_of,
    events_of,
    is_silenced,
    matching,
    portions,
    stands,
    thresholds_of,
)
from rerail.server.store.append import keepable, key_of
from rerail.server.store.reading import run_row_of

_alert, _incident, _view, _run = tables.alert.c, tables.incident.c, tables.run_view.c, tables.run.c
_COLUMNS = [tables.alert.c[name] for name in AlertRow._fields]
MOST_RECOVERIES = 50_000


def _views(rows: Sequence[Row]) -> Iterator[RunView]:
    """Views, each made when it is taken. A run that could not be derived has none."""
    return (documents.read_document(RunView, row.document) for row in rows if row.document)


def _stake(run: RunRow) -> Stake:
    return stake(
        run.state, run.current_phase, run.gpus, run.training_goodput, has_open_incident=run.open_incident_id is not None
    )


class AlertReader:
    """Reads of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def seen(self) -> int:
        """See `AlertStore.seen`."""
        table = tables.alert_round
        with self._engine.connect() as connection:
            return connection.execute(select(table.c.seen).where(table.c.round_id == ROUND)).scalar_one_or_none() or 0

    def views_since(self, revision: int, limit: int, ended_since: int) -> tuple[int, int, Iterator[RunView]]:
        """See `AlertStore.views_since`."""
        wanted = (
            select(_view.revision, _view.document)
            .where(_view.revision > revision, or_(_view.ended_at.is_(None), _view.ended_at >= ended_since))
            .order_by(_view.revision)
            .limit(limit)
        )
        counter = tables.change_counter.c
        with self._engine.connect() as connection:
            # Read before the rows: whatever is saved meanwhile has a larger number.
            newest = connection.execute(select(func.max(counter.value))).scalar_one_or_none() or 0
            rows = connection.execute(wanted).all()
        last = rows[-1].revision if rows else revision
        return (last if len(rows) == limit else max(last, newest)), len(rows), _views(rows)

    def views_of(self, runs: Sequence[str], ended_since: int) -> Iterator[RunView]:
        """See `AlertStore.views_of`."""
        rows: list[Row] = []
        with self._engine.connect() as connection:
            for some in portions(sorted(map(key_of, runs))):
                wanted = select(_view.document).where(
                    _view.run_id.in_(some), or_(_view.ended_at.is_(None), _view.ended_at >= ended_since)
                )
                rows += connection.execute(wanted).all()
        return _views(rows)

    def lapsed(self, now: int, ended_since: int) -> tuple[str, ...]:
        """See `AlertStore.lapsed`."""
        is_silence_over = and_(_alert.is_resolved.is_(False), _alert.silenced_until <= now)
        wanted = (
            select(_alert.run)
            .join(tables.run_view, _view.run_id == _alert.run_id)
            .where(
                _alert.is_firing.is_(True),
                _view.ended_at.is_not(None),
                or_(is_silence_over, _view.ended_at < ended_since),
            )
            .distinct()
        )
        with self._engine.connect() as connection:
            return tuple(connection.execute(wanted).scalars())

    def blaming(self, nodes: Sequence[str]) -> dict[str, frozenset[str]]:
        """See `AlertStore.blaming`."""
        found: dict[str, set[str]] = {}
        with self._engine.connect() as connection:
            for some in portions(nodes):
                wanted = (
                    select(_incident.culprit_node, _view.run)
                    .join(tables.run_view, _view.run_id == _incident.run_id)
                    .where(
                        _incident.culprit_node.in_(list(map(keepable, some))),
                        _incident.counts.is_(True),
                        _incident.domain != Domain.WORKLOAD.value,
                    )
                    .distinct()
                )
                for node, run in connection.execute(wanted):
                    found.setdefault(node, set()).add(run)
        return {node: frozenset(runs) for node, runs in found.items()}

    def firing(self, runs: Sequence[str]) -> tuple[AlertRow, ...]:
        """See `AlertStore.firing`."""
        found: list[AlertRow] = []
        with self._engine.connect() as connection:
            for some in portions(sorted(map(key_of, runs))):
                wanted = select(*_COLUMNS).where(_alert.run_id.in_(some), _alert.is_firing.is_(True))
                found += (AlertRow(*row) for row in connection.execute(wanted))
        return tuple(found)

    def alerts(self, keys: Sequence[str]) -> dict[str, tuple[AlertRow, Life]]:
        """See `AlertStore.alerts`."""
        found: dict[str, tuple[AlertRow, Life]] = {}
        with self._engine.connect() as connection:
            histories = events_of(connection, keys)
            for some in portions(sorted(map(key_of, keys))):
                for row in connection.execute(select(*_COLUMNS).where(_alert.alert_id.in_(some))):
                    read = AlertRow(*row)
                    found[read.key] = (read, life(histories.get(read.key, ())))
        return found

    def rows(
        self, standing: str | None, search: str, run: str | None, now: int, offset: int, limit: int
    ) -> tuple[tuple[AlertRow, ...], int]:
        """See `AlertStore.rows`."""
        where = matching(Asked(standing, search, run), now)
        rank = case(
            (_alert.is_resolved.is_(True), 3), (is_silenced(now), 2), (_alert.is_acknowledged.is_(True), 1), else_=0
        )
        order = (rank, case((_alert.severity == "urgent", 0), else_=1), _alert.changed_at.desc())
        wanted = select(*_COLUMNS).where(*where).order_by(*order, _alert.alert_id).offset(offset).limit(limit)
        with self._engine.connect() as connection:
            total = connection.execute(select(func.count()).select_from(tables.alert).where(*where)).scalar_one()
            return tuple(AlertRow(*row) for row in connection.execute(wanted)), total

    def wanting(self, now: int, limit: int) -> tuple[tuple[WantingRow, ...], int]:
        """See `AlertStore.wanting`."""
        is_urgent = func.max(case((_alert.severity == "urgent", 1), else_=0))
        opened = (
            select(_alert.run_id, func.count().label("n"), is_urgent.label("urgent"))
            .where(stands("open", now))
            .group_by(_alert.run_id)
            .subquery()
        )
        is_stalled = and_(_view.state == RunState.ALIVE.value, _view.current_phase == Phase.STALLED.value)
        reason = case((opened.c.n.is_not(None), 0), (is_stalled, 1), else_=2)
        wants = or_(opened.c.n.is_not(None), is_stalled, _view.state == RunState.SILENT.value)
        both = tables.run_view.outerjoin(opened, opened.c.run_id == _view.run_id)
        wanted = (
            select(_view.run_id, _view.row, _view.error, reason.label("reason"))
            .select_from(both)
            .where(wants)
            .order_by(reason, opened.c.urgent.desc(), opened.c.n.desc(), _view.last_heard_at.desc().nulls_last(),
                      _view.run_id)
            .limit(MOST_WEIGHED)
        )  # fmt: skip
        with self._engine.connect() as connection:
            found = connection.execute(wanted).all()
            total = len(found)
            weighed = [(row, told := run_row_of(row.row, row.error), _stake(told)) for row in found]
            weighed.sort(key=lambda each: each[2].rank)
            weighed = weighed[:limit]
            if total == MOST_WEIGHED:
                total = connection.execute(select(func.count()).select_from(both).where(wants)).scalar_one()
            alerts: dict[int, list[AlertRow]] = {}
            order = (case((_alert.severity == "urgent", 0), else_=1), _alert.changed_at.desc(), _alert.alert_id)
            of_runs = select(_alert.run_id, *_COLUMNS).where(
                _alert.run_id.in_([row.run_id for row, _, _ in weighed if not row.reason]), stands("open", now)
            )
            for run_id, *told in connection.execute(of_runs.order_by(*order)):
                alerts.setdefault(run_id, []).append(AlertRow(*told))
        return tuple(
            WantingRow(told, REASONS[row.reason], tuple(alerts.get(row.run_id, ())), at_stake)
            for row, told, at_stake in weighed
        ), total

    def standings(self, now: int) -> dict[str, int]:
        """See `AlertStore.standings`."""
        standing = case(
            (_alert.is_resolved.is_(True), "resolved"),
            (is_silenced(now), "silenced"),
            (_alert.is_acknowledged.is_(True), "acknowledged"),
            else_="open",
        )
        with self._engine.connect() as connection:
            rows = connection.execute(select(standing.label("standing"), func.count().label("n")).group_by(standing))
            return {row.standing: row.n for row in rows}

    def groups(self, groups: Sequence[str], now: int, asked: Asked) -> dict[str, dict[str, int]]:
        """See `AlertStore.groups`."""
        standing = case(
            (is_silenced(now), "silenced"), (_alert.is_acknowledged.is_(True), "acknowledged"), else_="open"
        )
        found: dict[str, dict[str, int]] = {}
        with self._engine.connect() as connection:
            for some in portions(sorted(set(groups))):
                wanted = (
                    select(_alert.group_key, standing.label("standing"), func.count().label("n"))
                    .where(_alert.group_key.in_(some), _alert.is_resolved.is_(False), *matching(asked, now))
                    .group_by(_alert.group_key, standing)
                )
                for row in connection.execute(wanted):
                    found.setdefault(row.group_key, {})[row.standing] = row.n
        return found

    def names(self, runs: Sequence[str]) -> dict[str, str]:
        """See `AlertStore.names`."""
        found: dict[str, str] = {}
        with self._engine.connect() as connection:
            for some in portions(sorted({key_of(run) for run in runs})):
                wanted = select(_view.row, _view.error).where(_view.run_id.in_(some))
                for row in connection.execute(wanted):
                    run = run_row_of(row.row, row.error)
                    if run.name and run.name != run.run_id:
                        found[run.run_id] = run.name
        return found

    def open_by_rule(self, now: int) -> dict[tuple[str, str], int]:
        """See `AlertStore.open_by_rule`."""
        wanted = (
            select(_alert.rule, _alert.severity, func.count().label("n"))
            .where(stands("open", now))
            .group_by(_alert.rule, _alert.severity)
        )
        with self._engine.connect() as connection:
            return {(row.rule, row.severity): row.n for row in connection.execute(wanted)}

    def events(self, key: str) -> tuple[AlertEvent, ...]:
        """See `AlertStore.events`."""
        with self._engine.connect() as connection:
            return tuple(events_of(connection, [key]).get(key, ()))

    def events_of_run(self, run: str) -> dict[str, tuple[AlertEvent, ...]]:
        """See `AlertStore.events_of_run`."""
        event = tables.alert_event.c
        wanted = (
            select(tables.alert_event, _alert.key)
            .join(tables.alert, and_(_alert.run_id == event.run_id, _alert.alert_id == event.alert_id))
            .where(event.run_id == key_of(run))
            .order_by(event.event_id)
        )
        found: dict[str, list[AlertEvent]] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(wanted):
                found.setdefault(row.key, []).append(event_of(row, row.key))
        return {key: tuple(events) for key, events in found.items()}

    def thresholds(self) -> tuple[ThresholdChange, ...]:
        """See `AlertStore.thresholds`."""
        with self._engine.connect() as connection:
            return thresholds_of(connection)

    def faults_between(self, start: int, end: int) -> tuple[FaultSums, ...]:
        """See `AlertStore.faults_between`."""
        inside = (_incident.started_at >= start, _incident.started_at < end, _incident.counts.is_(True))
        sums = (
            select(
                _incident.cause, _incident.scope, func.count().label("n"), func.sum(_incident.lost_gpu_ms).label("cost")
            )
            .where(*inside)
            .group_by(_incident.cause, _incident.scope)
        )
        newest = (
            select(_incident.cause, _incident.scope, _incident.recover_ns)
            .where(*inside, _incident.ended_at.is_not(None), _incident.recover_ns.is_not(None))
            .order_by(_incident.started_at.desc())
            .limit(MOST_RECOVERIES)
            .subquery()
        )
        # One row for many lengths: between any two rows another thread may take the interpreter.
        lengths = select(
            newest.c.cause, newest.c.scope, func.aggregate_strings(cast(newest.c.recover_ns, Text), ",").label("told")
        ).group_by(newest.c.cause, newest.c.scope)
        with self._engine.connect() as connection:
            rows = connection.execute(sums).all()
            recovered: dict[tuple[str, str | None], list[int]] = {}
            for cause, scope, told in connection.execute(lengths):
                recovered[cause, scope] = list(map(int, told.split(",")))
        return tuple(
            FaultSums(
                row.cause, row.scope, row.n, None if row.cost is None else int(row.cost),
                tuple(sorted(recovered.get((row.cause, row.scope), ()))),
            )
            for row in rows
        )  # fmt: skip

    def faults_by_cause(self) -> dict[str, int]:
        """See `AlertStore.faults_by_cause`."""
        wanted = (
            select(_incident.cause, func.count().label("n")).where(_incident.counts.is_(True)).group_by(_incident.cause)
        )
        with self._engine.connect() as connection:
            return {row.cause: row.n for row in connection.execute(wanted)}

    def intake(self) -> Mapping[str, int]:
        """See `AlertStore.intake`."""
        refused = tables.refused_count.c
        with self._engine.connect() as connection:
            accepted, duplicate = connection.execute(
                select(func.coalesce(func.sum(_run.accepted), 0), func.coalesce(func.sum(_run.duplicate), 0))
            ).one()
            rejected = connection.execute(select(func.coalesce(func.sum(refused.total), 0))).scalar_one()
        return {"accepted": int(accepted), "duplicate": int(duplicate), "refused": int(rejected)}
