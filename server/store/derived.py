"""Derived writes: views, blocks, incidents, and the queue of runs whose view is due.

Rules
- One view is saved with its spans, step points, checkpoints and incidents in one transaction, so a page never mixes
  two states.
- Only what changed is written: the blocks from the first unsettled one on, and the incidents that differ.
- A view that has seen less of the log than the stored one is dropped: its worker was overtaken.
- `dirty_run` is both the queue of runs with new facts (`due_at` 0) and the clock of open runs. A claim is a lease: the
  run of a worker that died comes back when it is over.
- Every saved view takes the next number of one counter as its revision, late in the transaction, so revisions become
  visible in their order and "what changed since" misses nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

from sqlalchemy import Connection, Engine, bindparam, delete, insert, select, update

from rerail.server.core.view import Checkpoint, Incident, RunState, Span, StepPoint
from rerail.server.query_results import RunRow
from rerail.server.store import DerivedRun, DueRun, documents, tables
from rerail.server.store.append import inserting, keepable, key_of, replacing, upsert
from rerail.server.store.run_rows import row_columns, row_of_view

_REMEMBERED_RUNS = 256


class DerivedWriter:
    """Writes what is derived, for one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._incidents: OrderedDict[str, tuple[int, dict[str, Incident]]] = OrderedDict()

    # --- the queue ------------------------------------------------------------------------------------------------

    def claim_due(self, now: int, limit: int, lease_ns: int) -> tuple[DueRun, ...]:
        """See `Store.claim_due`."""
        dirty = tables.dirty_run.c
        with self._engine.begin() as connection:
            due = (
                connection.execute(
                    select(dirty.run_id)
                    .where(dirty.due_at <= now, dirty.claimed_until <= now)
                    .order_by(dirty.due_at, dirty.run_id)
                    .limit(limit)
                    .with_for_update(skip_locked=True)
                )
                .scalars()
                .all()
            )
            if not due:
                return ()
            connection.execute(
                update(tables.dirty_run).where(dirty.run_id.in_(due)).values(claimed_until=now + lease_ns)
            )
            found = connection.execute(
                select(tables.run.c.run, tables.run.c.last_ingest).where(tables.run.c.run_id.in_(due))
            )
            return tuple(DueRun(run, last_ingest) for run, last_ingest in found)

    def make_all_due(self) -> int:
        """See `Store.make_all_due`."""
        with self._engine.begin() as connection:
            runs = connection.execute(select(tables.run.c.run_id, tables.run.c.last_ingest)).all()
            if runs:
                statement = upsert(connection, tables.dirty_run)
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["run_id"], set_={"due_at": statement.excluded.due_at, "claimed_until": 0}
                    ),
                    [
                        {"run_id": run_id, "ingest": last_ingest, "due_at": 0, "claimed_until": 0}
                        for run_id, last_ingest in runs
                    ],
                )
            return len(runs)

    def _give_back(self, connection: Connection, run_id: int, upto_ingest: int, next_due_at: int | None) -> None:
        """End a claim: gone or due later where everything was seen, due at once where facts came since."""
        dirty = tables.dirty_run.c
        seen = (dirty.run_id == run_id) & (dirty.ingest <= upto_ingest)
        if next_due_at is None:
            connection.execute(delete(tables.dirty_run).where(seen))
        else:
            connection.execute(update(tables.dirty_run).where(seen).values(due_at=next_due_at, claimed_until=0))
        connection.execute(
            update(tables.dirty_run)
            .where(dirty.run_id == run_id, dirty.ingest > upto_ingest)
            .values(due_at=0, claimed_until=0)
        )

    # --- views ----------------------------------------------------------------------------------------------------

    def save(self, derived: DerivedRun, next_due_at: int | None) -> int | None:
        """See `Store.save`."""
        view = derived.view
        run_id = key_of(view.run_id)
        with self._engine.begin() as connection:
            stored = connection.execute(
                select(tables.run_view.c.revision, tables.run_view.c.upto_ingest)
                .where(tables.run_view.c.run_id == run_id)
                .with_for_update()
            ).one_or_none()
            if stored is not None and stored.upto_ingest > derived.upto_ingest:
                # Another projector saved a newer view: what it wrote is no base for what this one settles next.
                self._give_back(connection, run_id, derived.upto_ingest, next_due_at)
                return None
            is_base = stored is not None and stored.revision == derived.base_revision
            self._save_spans(connection, run_id, derived.spans, derived.settled_spans if is_base else 0)
            self._save_points(connection, run_id, derived.step_points, derived.settled_step_points if is_base else 0)
            self._save_checkpoints(
                connection, run_id, derived.checkpoints, derived.settled_checkpoints if is_base else 0
            )
            self._save_incidents(connection, run_id, derived, is_base)
            revision = self._next_revision(connection)
            row = row_of_view(view)
            saved = {
                **row_columns(row),
                "run_id": run_id,
                "upto_ingest": derived.upto_ingest,
                "revision": revision,
                "error": None,
                "row": documents.document(row),
                "document": documents.document(view),
            }
            connection.execute(replacing(connection, tables.run_view, tables.run_view.c.keys()), saved)
            self._give_back(connection, run_id, derived.upto_ingest, next_due_at)
        self._incidents[view.run_id] = (revision, {incident.incident_id: incident for incident in view.incidents})
        self._incidents.move_to_end(view.run_id)
        if len(self._incidents) > _REMEMBERED_RUNS:
            self._incidents.popitem(last=False)
        return revision

    def save_error(self, run: str, error: str, next_due_at: int) -> None:
        """See `Store.save_error`."""
        run_id = key_of(run)
        with self._engine.begin() as connection:
            revision = self._next_revision(connection)
            empty = RunRow(run_id=run, state=RunState.SILENT, as_of=0)
            saved = {
                **row_columns(empty),
                "run_id": run_id,
                "upto_ingest": 0,
                "revision": revision,
                "error": keepable(error),
                "row": documents.document(empty),
                "document": b"",
            }
            connection.execute(replacing(connection, tables.run_view, ("error", "revision")), saved)
            connection.execute(
                update(tables.dirty_run)
                .where(tables.dirty_run.c.run_id == run_id)
                .values(due_at=next_due_at, claimed_until=0)
            )

    def _next_revision(self, connection: Connection) -> int:
        return connection.execute(_counting(connection.dialect.name), {"counter_id": 0, "value": 1}).scalar_one()

    def _save_spans(self, connection: Connection, run_id: int, spans: Sequence[Span], settled: int) -> None:
        def columns(part: Sequence[Span]) -> dict[str, object]:
            packed = documents.document(part)
            return {"start_at": part[0].start, "end_at": part[-1].end, "span_count": len(part), "spans": packed}

        self._replace_tail(connection, tables.span_block, run_id, settled, spans, columns)

    def _save_points(self, connection: Connection, run_id: int, points: Sequence[StepPoint], settled: int) -> None:
        def columns(part: Sequence[StepPoint]) -> dict[str, object]:
            packed = documents.document(part)
            return {"start_at": part[0].at, "end_at": part[-1].at, "point_count": len(part), "points": packed}

        self._replace_tail(connection, tables.step_point_block, run_id, settled, points, columns)

    def _save_checkpoints(
        self, connection: Connection, run_id: int, checkpoints: Sequence[Checkpoint], settled: int
    ) -> None:
        def columns(part: Sequence[Checkpoint]) -> dict[str, object]:
            moments = [at for each in part for at in each.moments] or [0]
            packed = documents.document(part)
            return {
                "start_at": min(moments), "end_at": max(moments), "checkpoint_count": len(part), "checkpoints": packed
            }  # fmt: skip

        self._replace_tail(connection, tables.checkpoint_block, run_id, settled, checkpoints, columns)

    def _replace_tail(self, connection: Connection, table, run_id: int, settled: int, items: Sequence, columns) -> None:
        """Write the blocks from the first that holds an unsettled item anew."""
        first = settled // documents.BLOCK_LENGTH
        connection.execute(delete(table).where(table.c.run_id == run_id, table.c.block >= first))
        starts = range(first * documents.BLOCK_LENGTH, len(items), documents.BLOCK_LENGTH)
        rows = [
            {"run_id": run_id, "block": block, **columns(items[start : start + documents.BLOCK_LENGTH])}
            for block, start in enumerate(starts, first)
        ]
        if rows:
            connection.execute(insert(table), rows)

    def _save_incidents(self, connection: Connection, run_id: int, derived: DerivedRun, is_base: bool) -> None:
        """Write the incidents that differ from those saved with the base revision, take out those that are gone."""
        revision, saved = self._incidents.get(derived.view.run_id, (None, {}))
        if not is_base or revision != derived.base_revision:
            connection.execute(delete(tables.incident).where(tables.incident.c.run_id == run_id))
            saved = {}
        changed = [entry for entry in derived.view.incidents if saved.get(entry.incident_id) != entry]
        kept = {entry.incident_id for entry in derived.view.incidents}
        gone = [incident_id for incident_id in saved if incident_id not in kept]
        stale = gone + [entry.incident_id for entry in changed if entry.incident_id in saved]
        if stale:
            connection.execute(
                delete(tables.incident).where(
                    tables.incident.c.run_id == run_id, tables.incident.c.incident_id == bindparam("stale")
                ),
                [{"stale": incident_id} for incident_id in stale],
            )
        if changed:
            connection.execute(
                insert(tables.incident),
                [
                    {
                        "run_id": run_id,
                        "incident_id": entry.incident_id,
                        "started_at": entry.started_at,
                        "ended_at": entry.ended_at,
                        "is_open": entry.is_open,
                        "is_planned": entry.is_planned,
                        "cause": entry.verdict.cause,
                        "document": documents.document(entry),
                    }
                    for entry in changed
                ],
            )


@lru_cache(maxsize=2)
def _counting(dialect: str):
    """The next number of the one counter of changes."""
    statement = inserting(dialect, tables.change_counter)
    return statement.on_conflict_do_update(
        index_elements=["counter_id"], set_={"value": tables.change_counter.c.value + 1}
    ).returning(tables.change_counter.c.value)
