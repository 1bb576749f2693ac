"""Reads: the log and what is derived from it, each call over one snapshot of the database."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from sqlalchemy import Connection, Engine, and_, bindparam, func, make_url, select, text

from rerail.server.core.facts import Fact
from rerail.server.core.report import iso
from rerail.server.core.rollup import FleetBins, Lived, Resolution, RollupBin, between, summed
from rerail.server.core.view import Checkpoint, Incident, RunState, RunView, Span, StepPoint
from rerail.server.query_results import (
    EmitterRow,
    IncidentMark,
    RefusedPage,
    RefusedRow,
    RunMarks,
    RunPage,
    RunRow,
    StorageFigures,
)
from rerail.server.store import LogSlice, documents, engines, tables
from rerail.server.store.append import key_of
from rerail.server.store.lines import facts_of
from rerail.server.store.run_rows import SORTABLE, mark_of

# Statements of every second are built once: building one costs more than running it.
_REJECTED = select(func.coalesce(func.sum(tables.refused_count.c.total), 0)).where(
    tables.refused_count.c.run_id == bindparam("key")
)
_COUNTED = select(
    tables.run.c.last_ingest,
    tables.run.c.duplicate,
    tables.run.c.log_gone_before,
    _REJECTED.scalar_subquery().label("rejected"),
).where(tables.run.c.run_id == bindparam("key"))
_segment = tables.fact_segment.c
_SEGMENTS = (
    select(_segment.ingest, _segment.lines)
    .where(
        _segment.run_id == bindparam("key"),
        _segment.ingest > bindparam("after"),
        _segment.ingest <= bindparam("upto"),
    )
    .order_by(_segment.ingest, _segment.part)
)

_spans = tables.span_block.c
_SPANS = (
    select(_spans.spans)
    .where(_spans.run_id == bindparam("key"), _spans.start_at < bindparam("end"), _spans.end_at > bindparam("start"))
    .order_by(_spans.block)
)
_VIEW = (
    select(tables.run_view.c.document, tables.run_view.c.revision, tables.run.c.log_gone_before)
    .join_from(tables.run_view, tables.run, tables.run_view.c.run_id == tables.run.c.run_id, isouter=True)
    .where(tables.run_view.c.run_id == bindparam("key"))
)


LOG_GONE = (
    "The facts up to {} were deleted, since the run had been over for long enough: it cannot be derived anew, and what "
    "is told of it now changes nothing."
)


_AT_ONCE = 400

REMEMBERED_VIEWS = 8
"""Views kept decoded, by what they hold: some MB for a run of hundreds of incidents."""


class Reader:
    """Reads of one database."""

    def __init__(self, engine: Engine, database_url: str) -> None:
        self._engine = engine
        self._database_url = database_url

    # --- the log --------------------------------------------------------------------------------------------------

    def log(self, run: str, after_ingest: int, upto_ingest: int | None) -> LogSlice:
        """See `Store.log`."""
        run_id = key_of(run)
        with self._engine.begin() as connection:
            known = connection.execute(_COUNTED, {"key": run_id}).one_or_none()
            if known is None:
                return LogSlice((), 0, 0, 0, int(connection.execute(_REJECTED, {"key": run_id}).scalar_one()))
            upto = known.last_ingest if upto_ingest is None else min(upto_ingest, known.last_ingest)
            segments = []
            if upto > after_ingest:
                segments = connection.execute(_SEGMENTS, {"key": run_id, "after": after_ingest, "upto": upto}).all()
        facts: list[Fact] = []
        for _, commit in groupby(segments, key=itemgetter(0)):
            # In the order of commit, and within one commit in the order of their instants.
            together = [fact for _, packed in commit for fact in facts_of(documents.unpack_lines(packed))]
            together.sort(key=lambda fact: (fact.at, fact.emitter, fact.seq))
            facts += together
        return LogSlice(
            tuple(facts), upto, known.last_ingest, known.duplicate, int(known.rejected), known.log_gone_before
        )

    # --- views ----------------------------------------------------------------------------------------------------

    def view(self, run: str) -> tuple[RunView, int] | None:
        """See `Store.view`."""
        with self._engine.begin() as connection:
            found = connection.execute(_VIEW, {"key": key_of(run)}).one_or_none()
        if found is None or not found.document:
            return None
        view = _read_view(found.document)
        if found.log_gone_before is not None:
            note = LOG_GONE.format(iso(found.log_gone_before))
            view = replace(view, data_quality=replace(view.data_quality, notes=(*view.data_quality.notes, note)))
        return view, found.revision

    def marks(self, run: str) -> RunMarks | None:
        """See `Store.marks`."""
        columns = tables.run_view.c
        with self._engine.begin() as connection:
            found = connection.execute(select(columns.marks).where(columns.run_id == key_of(run))).scalar_one_or_none()
        return documents.read_document(RunMarks, found) if found else None

    def run_row(self, run: str) -> RunRow | None:
        """See `Store.run_row`."""
        columns = tables.run_view.c
        with self._engine.begin() as connection:
            found = connection.execute(
                select(columns.row, columns.error).where(columns.run_id == key_of(run))
            ).one_or_none()
        return None if found is None else run_row_of(*found)

    def run_states(self) -> dict[str, int]:
        """See `Store.run_states`."""
        columns = tables.run_view.c
        with self._engine.begin() as connection:
            counted = select(columns.state, func.count()).group_by(columns.state)
            return {row[0]: row[1] for row in connection.execute(counted)}

    def run_rows(self, search: str, state: str | None, sort: str, descending: bool, offset: int, limit: int) -> RunPage:
        """See `Store.run_rows`."""
        if sort not in SORTABLE:
            raise ValueError(f"runs cannot be sorted by {sort!r}: one of {', '.join(SORTABLE)}")
        columns = tables.run_view.c
        matching = [columns.search_text.contains(word, autoescape=True) for word in search.lower().split()]
        if state is not None:
            matching.append(columns.state == state)
        column = columns["run" if sort == "run_id" else sort]
        order = column.desc() if descending else column.asc()
        with self._engine.begin() as connection:
            total = connection.execute(select(func.count()).select_from(tables.run_view).where(*matching)).scalar_one()
            found = connection.execute(
                select(columns.row, columns.error)
                .where(*matching)
                .order_by(order.nulls_last(), columns.run_id)
                .offset(offset)
                .limit(limit)
            ).all()
        return RunPage(tuple(run_row_of(*entry) for entry in found), total)

    def spans(self, run: str, start: int, end: int) -> tuple[Span, ...]:
        """See `Store.spans`."""
        with self._engine.begin() as connection:
            found = connection.execute(_SPANS, {"key": key_of(run), "start": start, "end": end}).scalars()
            blocks = [documents.read_block(list[Span], packed) for packed in found]
        return tuple(span for block in blocks for span in block if span.start < end and span.end > start)

    def span_count(self, run: str, start: int, end: int) -> int:
        """See `Store.span_count`."""
        columns = tables.span_block.c
        with self._engine.begin() as connection:
            counted = select(func.coalesce(func.sum(columns.span_count), 0)).where(
                columns.run_id == key_of(run), columns.start_at < end, columns.end_at > start
            )
            return int(connection.execute(counted).scalar_one())

    def rollup(self, run: str, resolution: Resolution, start: int, end: int) -> tuple[RollupBin, ...]:
        """See `Store.rollup`."""
        columns = tables.rollup_block.c
        with self._engine.begin() as connection:
            found = connection.execute(
                select(columns.bins)
                .where(
                    columns.run_id == key_of(run),
                    columns.resolution == resolution.value,
                    columns.start_at < end,
                    columns.end_at > start,
                )
                .order_by(columns.block)
            ).scalars()
            blocks = [documents.read_block(list[RollupBin], packed) for packed in found]
        return tuple(between(chain.from_iterable(blocks), resolution, start, end))

    def rollups(self, runs: Sequence[str], resolution: Resolution) -> dict[str, tuple[RollupBin, ...]]:
        """See `Store.rollups`."""
        columns = tables.rollup_block.c
        names = {key_of(run): run for run in runs}
        keys = sorted(names)
        found: dict[str, list[RollupBin]] = {}
        with self._engine.begin() as connection:
            for first in range(0, len(keys), _AT_ONCE):
                some = keys[first : first + _AT_ONCE]
                wanted = (
                    select(columns.run_id, columns.bins)
                    .where(columns.run_id.in_(some), columns.resolution == resolution.value)
                    .order_by(columns.run_id, columns.block)
                )
                for run_id, packed in connection.execute(wanted).all():
                    found.setdefault(names[run_id], []).extend(documents.read_block(list[RollupBin], packed))
        return {run: tuple(bins) for run, bins in found.items()}

    def fleet_rollup(self, resolution: Resolution, start: int, end: int) -> tuple[tuple[RollupBin, ...], int]:
        """See `Store.fleet_rollup`."""
        by_run = self._fleet_bins(resolution, start, end)
        bins = [each for inside in by_run.values() for each in inside]
        return summed(bins, resolution), len(by_run)

    def fleet_rollup_by_gpus(self, resolution: Resolution, start: int, end: int) -> FleetBins:
        """See `Store.fleet_rollup_by_gpus`."""
        told: list[RollupBin] = []
        untold: list[RollupBin] = []
        lives: list[Lived] = []
        for inside in self._fleet_bins(resolution, start, end).values():
            last = last_untold = 0
            for each in inside:
                over = each.start + each.count * resolution.value
                last = max(last, over)
                without = tuple([cell for cell in each.cells if cell.gpu_ns is None])
                if not without:
                    told.append(each)
                    continue
                last_untold = max(last_untold, over)
                untold.append(RollupBin(each.start, without, each.count))
                rest = tuple([cell for cell in each.cells if cell.gpu_ns is not None])
                if rest:
                    told.append(RollupBin(each.start, rest, each.count))
            lives.append(Lived(last, last_untold or None))
        return FleetBins(summed(told, resolution), summed(untold, resolution), tuple(lives))

    def _fleet_bins(self, resolution: Resolution, start: int, end: int) -> dict[int, list[RollupBin]]:
        """Bins by run."""
        columns = tables.rollup_block.c
        with self._engine.begin() as connection:
            found = connection.execute(
                select(columns.run_id, columns.bins).where(
                    columns.resolution == resolution.value, columns.start_at < end, columns.end_at > start
                )
            ).all()
        by_run: dict[int, list[RollupBin]] = {}
        for run_id, packed in found:
            inside = list(between(documents.read_block(list[RollupBin], packed), resolution, start, end))
            if inside:
                by_run.setdefault(run_id, []).extend(inside)
        return by_run

    def step_points(self, run: str, start: int, end: int) -> tuple[StepPoint, ...]:
        """See `Store.step_points`."""
        table, run_id = tables.step_point_block, key_of(run)
        with self._engine.begin() as connection:
            edges = []
            for near in (
                select(func.max(table.c.block)).where(table.c.run_id == run_id, table.c.start_at < start),
                select(func.min(table.c.block)).where(table.c.run_id == run_id, table.c.end_at >= end),
            ):
                edges.append(connection.execute(near).scalar_one())
            reach = [table.c.run_id == run_id]
            if edges[0] is not None:
                reach.append(table.c.block >= edges[0])
            if edges[1] is not None:
                reach.append(table.c.block <= edges[1])
            found = connection.execute(select(table.c.points).where(and_(*reach)).order_by(table.c.block)).scalars()
            points = [point for packed in found for point in documents.read_block(list[StepPoint], packed)]
        first = next((index for index, point in enumerate(points) if point.at >= start), len(points))
        last = next((index for index in range(first, len(points)) if points[index].at >= end), len(points) - 1)
        return tuple(points[max(0, first - 1) : last + 1])

    def checkpoints(self, run: str, start: int, end: int) -> tuple[Checkpoint, ...]:
        """See `Store.checkpoints`."""
        table = tables.checkpoint_block
        with self._engine.begin() as connection:
            found = connection.execute(
                select(table.c.checkpoints)
                .where(table.c.run_id == key_of(run), table.c.start_at <= end, table.c.end_at >= start)
                .order_by(table.c.block)
            ).scalars()
            blocks = [documents.read_block(list[Checkpoint], packed) for packed in found]
        found_here = []
        for each in (each for block in blocks for each in block):
            moments = each.moments
            if moments and min(moments) <= end and max(moments) >= start:
                found_here.append(each)
        return tuple(found_here)

    def newest_checkpoints(self, run: str, limit: int) -> tuple[Checkpoint, ...]:
        """See `Store.newest_checkpoints`."""
        table = tables.checkpoint_block
        newest_first: list[Checkpoint] = []
        with self._engine.begin() as connection:
            found = connection.execute(
                select(table.c.checkpoints)
                .where(table.c.run_id == key_of(run))
                .order_by(table.c.block.desc())
                .limit(limit // documents.BLOCK_LENGTH + 2)
            ).scalars()
            for packed in found:
                newest_first += reversed(documents.read_block(list[Checkpoint], packed))
        return tuple(reversed(newest_first[:limit]))

    # --- incidents ------------------------------------------------------------------------------------------------

    def incident(self, incident_id: str) -> Incident | None:
        """See `Store.incident`."""
        table = tables.incident
        with self._engine.begin() as connection:
            found = connection.execute(
                select(table.c.document).where(table.c.incident_id == incident_id).order_by(table.c.run_id).limit(1)
            ).scalar_one_or_none()
        return None if found is None else documents.read_document(Incident, found)

    def incident_marks(self, run: str | None, offset: int, limit: int) -> tuple[tuple[IncidentMark, ...], int]:
        """See `Store.incident_marks`."""
        table = tables.incident
        matching = [] if run is None else [table.c.run_id == key_of(run)]
        with self._engine.begin() as connection:
            total = connection.execute(select(func.count()).select_from(table).where(*matching)).scalar_one()
            found = connection.execute(
                select(table.c.document)
                .where(*matching)
                .order_by(table.c.started_at.desc(), table.c.run_id, table.c.incident_id)
                .offset(offset)
                .limit(limit)
            ).scalars()
            marks = tuple(mark_of(documents.read_document(Incident, packed)) for packed in found)
        return marks, total

    # --- data ------------------------------------------------------------------------------------------------------

    def emitters(self, run: str) -> tuple[EmitterRow, ...]:
        """See `Store.emitters`."""
        table = tables.emitter
        with self._engine.begin() as connection:
            found = connection.execute(
                select(table).where(table.c.run_id == key_of(run)).order_by(table.c.emitter)
            ).all()
        rows = []
        for row in found:
            rows.append(
                EmitterRow(
                    run_id=run,
                    emitter=row.emitter,
                    accepted=row.accepted,
                    duplicate=row.duplicate,
                    rejected=row.rejected,
                    highest_seq=row.highest_seq,
                    last_at=row.last_at,
                    last_received_at=row.last_received_at,
                    least_delay_ns=row.least_delay_ns,
                    clock_offset_ns=row.clock_offset_ns,
                )
            )
        return tuple(rows)

    def live_rows(self, run: str | None, limit: int) -> tuple[tuple[RunRow, ...], int]:
        """See `Store.live_rows`."""
        view = tables.run_view.c
        live = [view.state != RunState.ENDED.value, *([] if run is None else [view.run_id == key_of(run)])]
        with self._engine.connect() as connection:
            found = connection.execute(
                select(view.row).where(*live).order_by(view.last_heard_at.desc().nulls_last(), view.run_id).limit(limit)
            ).scalars()
            rows = tuple(documents.read_document(RunRow, packed) for packed in found)
            total = len(rows)
            if total == limit:
                total = connection.execute(select(func.count()).select_from(tables.run_view).where(*live)).scalar_one()
        return rows, total

    def refused(self, run: str | None, offset: int, limit: int) -> RefusedPage:
        """See `Store.refused`."""
        rows, counts = tables.refused_row.c, tables.refused_count.c
        of_run = [] if run is None else [rows.run_id == key_of(run)]
        counted = [] if run is None else [counts.run_id == key_of(run)]
        with self._engine.begin() as connection:
            total = connection.execute(select(func.coalesce(func.sum(counts.total), 0)).where(*counted)).scalar_one()
            kept = connection.execute(select(func.count()).select_from(tables.refused_row).where(*of_run)).scalar_one()
            found = connection.execute(
                select(
                    rows.received_at, rows.run, rows.emitter, rows.line, rows.field, rows.value, rows.reason, rows.raw
                )
                .where(*of_run)
                .order_by(rows.received_at.desc(), rows.run_id, rows.day, rows.position)
                .offset(offset)
                .limit(limit)
            ).all()
        return RefusedPage(
            tuple(RefusedRow(*entry[:-1], raw=entry.raw.decode("utf-8", "replace")) for entry in found),
            kept,
            int(total),
        )

    def changes_since(self, revision: int, limit: int) -> tuple[int, tuple[str, ...]]:
        """See `Store.changes_since`."""
        columns = tables.run_view.c
        with self._engine.begin() as connection:
            found = connection.execute(
                select(columns.revision, columns.run)
                .where(columns.revision > revision)
                .order_by(columns.revision)
                .limit(limit)
            ).all()
        return (found[-1].revision if found else revision), tuple(row.run for row in found)

    def newest_changes(self) -> tuple[int, int]:
        """See `Store.newest_changes`."""
        counter, alert = tables.change_counter.c, tables.alert.c
        with self._engine.begin() as connection:
            newest = connection.execute(select(func.max(counter.value))).scalar_one_or_none()
            # One look into the index for each half of it.
            changed = [
                connection.execute(select(func.max(alert.changed_at)).where(alert.is_resolved.is_(half))).scalar_one()
                for half in (False, True)
            ]
        return newest or 0, max(each or 0 for each in changed)

    def newest_revision(self) -> int:
        """See `Store.newest_revision`."""
        with self._engine.begin() as connection:
            return connection.execute(select(func.coalesce(func.max(tables.run_view.c.revision), 0))).scalar_one()

    def storage(self) -> StorageFigures:
        """See `Store.storage`."""
        views, dirty = tables.run_view.c, tables.dirty_run.c
        with self._engine.begin() as connection:
            runs, facts = connection.execute(
                select(func.count(), func.coalesce(func.sum(tables.run.c.accepted), 0)).select_from(tables.run)
            ).one()
            segments = connection.execute(select(func.count()).select_from(tables.fact_segment)).scalar_one()
            refused = connection.execute(select(func.coalesce(func.sum(tables.refused_count.c.total), 0))).scalar_one()
            behind = (
                select(func.count(), func.min(tables.run.c.last_received_at))
                .select_from(
                    tables.run.join(tables.dirty_run, tables.run.c.run_id == dirty.run_id).outerjoin(
                        tables.run_view, tables.run.c.run_id == views.run_id
                    )
                )
                .where(
                    tables.run.c.last_ingest > func.coalesce(views.upto_ingest, 0),
                    tables.run.c.log_gone_before.is_(None),
                )
            )
            waiting, oldest = connection.execute(behind).one()
            failed = connection.execute(
                select(views.run, views.error).where(views.error.is_not(None)).order_by(views.run).limit(100)
            ).all()
            schema = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
            size = self._size(connection)
        return StorageFigures(
            database=engines.shown(self._database_url),
            dialect=self._engine.dialect.name,
            schema=schema,
            size_bytes=size,
            free_bytes=self._free(),
            runs=runs,
            facts=int(facts),
            segments=segments,
            refused=int(refused),
            waiting_runs=waiting,
            oldest_waiting_ns=oldest,
            failed_runs=tuple((row.run, row.error) for row in failed),
        )

    def _size(self, connection: Connection) -> int | None:
        if connection.dialect.name == "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        return connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one()

    def _free(self) -> int | None:
        if self._engine.dialect.name != "sqlite":
            return None
        path = Path(make_url(self._database_url).database or ".")
        return shutil.disk_usage(path.parent).free


@lru_cache(maxsize=REMEMBERED_VIEWS)
def _read_view(packed: bytes) -> RunView:
    """A page asks for its run's view several times, and nothing in one can be changed."""
    return documents.read_document(RunView, packed)


def run_row_of(packed: bytes, error: str | None) -> RunRow:
    """A run as lists show it, with the error of its last derivation."""
    row = documents.read_document(RunRow, packed)
    return row if error is None else replace(row, error=error)
