"""Derived writes: views, blocks, incidents, and the queue of runs whose view is due.

Rules
- One view is saved with its spans, step points, checkpoints, rollups and incidents in one transaction, so a page
  never mixes two states.
- Only what changed is written: the blocks from the first unsettled one on, and the incidents that differ.
- A view that has seen less of the log than the stored one is dropped: its worker was overtaken.
- `dirty_run` is both the queue of runs with new facts (due since they came, the urgent ones first: `append.due_since`)
  and the clock of open runs. A claim is a lease: the run of a worker that died comes back when it is over. While a run
  is claimed it is due at the end of the lease, or where facts came meanwhile since these came, so that a run that is
  always heard takes its turn with the others.
- Every saved view takes the next number of one counter as its revision, late in the transaction, so revisions become
  visible in their order and "what changed since" misses nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import BigInteger, Connection, Engine, Table, bindparam, case, delete, insert, select, update

from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.rollup import Resolution, RollupBin
from rerail.server.core.search.documents import Document, run_document
from rerail.server.core.view import Checkpoint, Incident, RunState
from rerail.server.query_results import RunRow
from rerail.server.store import DerivedRun, DueRun, documents, tables
from rerail.server.store.append import inserting, keepable, key_of, replacing, upsert
from rerail.server.store.config_store import write_stretches
from rerail.server.store.note_store import write_told
from rerail.server.store.problem_writing import (
    FingerprintWriter,
    LedgerReader,
    Share,
    blamed_nodes,
    counted,
    incident_columns,
    node_rows,
    placed,
    problems_of,
    write_nodes,
    write_shares,
)
from rerail.server.store.run_rows import marks_of, row_columns, row_of_view
from rerail.server.store.search_writing import renew_incidents, renew_nodes, renew_problems, renew_run

_REMEMBERED_RUNS = 4_000
"""Runs of which is known what was saved last, so that only what differs is written. It must hold all that live at once:
they come round in turns, and beyond it each is written whole every time."""

# Statements of every second are built once: building one costs more than running it.
_dirty, _view = tables.dirty_run.c, tables.run_view.c
_DUE = (
    select(_dirty.run_id, _dirty.due_at, tables.run.c.run, tables.run.c.last_ingest)
    .join(tables.run, tables.run.c.run_id == _dirty.run_id)
    .where(
        _dirty.due_at <= bindparam("now"),
        _dirty.claimed_until <= bindparam("now"),
        tables.run.c.log_gone_before.is_(None),
    )
    .order_by(_dirty.due_at, _dirty.run_id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True, of=tables.dirty_run)
)
_CLAIM = (
    update(tables.dirty_run)
    .where(_dirty.run_id.in_(bindparam("due", expanding=True)))
    .values(claimed_until=bindparam("until"), due_at=bindparam("until"))
)
_STORED_VIEW = select(_view.revision, _view.upto_ingest).where(_view.run_id == bindparam("key")).with_for_update()
_FORGET_IF_SEEN = delete(tables.dirty_run).where(_dirty.run_id == bindparam("key"), _dirty.ingest <= bindparam("upto"))
_STALE = delete(tables.incident).where(
    tables.incident.c.run_id == bindparam("key"), tables.incident.c.incident_id == bindparam("stale")
)
_GIVE_BACK = (
    update(tables.dirty_run)
    .where(_dirty.run_id == bindparam("key"))
    .values(
        due_at=case((_dirty.ingest <= bindparam("upto"), bindparam("later", type_=BigInteger)), else_=_dirty.due_at),
        claimed_until=0,
    )
)


class _BlockKind:
    """One kind of items that are kept in blocks, with its statements."""

    def __init__(
        self,
        name: str,
        table: Table,
        count: str,
        content: str,
        reach: Callable[[Sequence], tuple[int, int]],
        fixed: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        """As in `DerivedRun`."""
        self.fixed = dict(fixed or {})
        """The rest of the key, where kinds share a table."""
        self.table, self.columns_written = table, (count, content, "start_at", "end_at")
        self.delete = delete(table).where(
            table.c.run_id == bindparam("key"),
            table.c.block >= bindparam("first"),
            *(table.c[column] == value for column, value in self.fixed.items()),
        )
        self._count, self._content, self._reach = count, content, reach

    def columns(self, part: Sequence) -> dict[str, object]:
        """Of one block."""
        start, end = self._reach(part)
        return {
            **self.fixed,
            "start_at": start,
            "end_at": end,
            self._count: len(part),
            self._content: documents.document(part),
        }


def _reach_of_saves(part: Sequence[Checkpoint]) -> tuple[int, int]:
    moments = [at for each in part for at in each.moments] or [0]
    return min(moments), max(moments)


def _rollup_kind(resolution: Resolution) -> _BlockKind:
    def reach(part: Sequence[RollupBin]) -> tuple[int, int]:
        return part[0].start, part[-1].start + part[-1].count * resolution

    name = f"{resolution.name.lower()}s"
    return _BlockKind(name, tables.rollup_block, "bin_count", "bins", reach, {"resolution": resolution.value})


_BLOCK_KINDS = (
    _BlockKind("spans", tables.span_block, "span_count", "spans", lambda part: (part[0].start, part[-1].end)),
    _BlockKind("step_points", tables.step_point_block, "point_count", "points", lambda part: (part[0].at, part[-1].at)),
    _BlockKind("checkpoints", tables.checkpoint_block, "checkpoint_count", "checkpoints", _reach_of_saves),
    *map(_rollup_kind, Resolution),
)


class _Saved(NamedTuple):
    """What a revision saved of a run, so that the next writes only what differs."""

    revision: int
    incidents: dict[str, Incident]
    lengths: dict[str, int]
    """Of each kind of blocks."""
    problems: dict[str, str]
    """Where each incident was placed."""
    last_action: int
    """The newest action that the places follow."""
    configs: Sequence[Stretch]
    histories: Sequence[NodeHistory]
    blamed: dict[str, int]
    """Faults blamed on each of its nodes."""
    nodes: dict[str, dict[str, object]]
    """The rows of its nodes."""
    found_as: Document
    """What search finds of the run itself."""


class DerivedWriter:
    """Writes what is derived, for one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._saved: OrderedDict[str, _Saved] = OrderedDict()
        self._ledger = LedgerReader()
        self._fingerprints = FingerprintWriter()

    # --- the queue ------------------------------------------------------------------------------------------------

    def claim_due(self, now: int, limit: int, lease_ns: int) -> tuple[DueRun, ...]:
        """See `Store.claim_due`."""
        with self._engine.begin() as connection:
            due = connection.execute(_DUE, {"now": now, "most": limit}).all()
            if due:
                connection.execute(_CLAIM, {"due": [row.run_id for row in due], "until": now + lease_ns})
            return tuple(DueRun(row.run, row.last_ingest, row.due_at < 0) for row in due)

    def make_all_due(self) -> int:
        """See `Store.make_all_due`."""
        with self._engine.begin() as connection:
            columns = tables.run.c
            has_log = select(columns.run_id, columns.last_ingest).where(columns.log_gone_before.is_(None))
            runs = connection.execute(has_log).all()
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
        if next_due_at is None:
            connection.execute(_FORGET_IF_SEEN, {"key": run_id, "upto": upto_ingest})
        connection.execute(_GIVE_BACK, {"key": run_id, "upto": upto_ingest, "later": next_due_at or 0})

    # --- views ----------------------------------------------------------------------------------------------------

    def save(self, derived: DerivedRun, next_due_at: int | None) -> int | None:
        """See `Store.save`."""
        view = derived.view
        run_id = key_of(view.run_id)
        with self._engine.begin() as connection:
            stored = connection.execute(_STORED_VIEW, {"key": run_id}).one_or_none()
            if stored is not None and stored.upto_ingest > derived.upto_ingest:
                # Another projector saved a newer view: what it wrote is no base for what this one settles next.
                self._give_back(connection, run_id, derived.upto_ingest, next_due_at)
                return None
            is_base = stored is not None and stored.revision == derived.base_revision
            before = self._saved.get(view.run_id)
            if before is not None and (not is_base or before.revision != derived.base_revision):
                before = None
            for kind in _BLOCK_KINDS:
                items = getattr(derived, kind.name)
                settled = getattr(derived, f"settled_{kind.name}") if is_base else 0
                length = None if before is None else before.lengths[kind.name]
                self._save_blocks(connection, run_id, kind, items, settled, length)
            # From here on the counter is locked, which every action of people takes too: none comes between.
            revision = next_revision(connection)
            changed, problems, newest_action = self._save_incidents(
                connection, run_id, revision, view.incidents, before
            )
            write_stretches(connection, run_id, derived.configs, None if before is None else before.configs)
            nodes = self._save_nodes(connection, run_id, revision, derived, changed, before)
            found_as = run_document(view)
            if before is None or before.found_as != found_as:
                renew_run(connection, run_id, found_as)
            write_told(connection, run_id, derived.told_notes)
            row = row_of_view(view)
            saved = {
                **row_columns(row),
                "run_id": run_id,
                "upto_ingest": derived.upto_ingest,
                "revision": revision,
                "error": None,
                "row": documents.document(row),
                "document": documents.document(view),
                "marks": documents.document(marks_of(view)),
            }
            connection.execute(replacing(connection, tables.run_view, tables.run_view.c.keys()), saved)
            self._give_back(connection, run_id, derived.upto_ingest, next_due_at)
        self._saved[view.run_id] = _Saved(
            revision,
            {incident.incident_id: incident for incident in view.incidents},
            {kind.name: len(getattr(derived, kind.name)) for kind in _BLOCK_KINDS},
            problems,
            newest_action,
            derived.configs,
            derived.nodes,
            *nodes,
            found_as,
        )
        self._saved.move_to_end(view.run_id)
        if len(self._saved) > _REMEMBERED_RUNS:
            self._saved.popitem(last=False)
        return revision

    def save_error(self, run: str, error: str, next_due_at: int) -> None:
        """See `Store.save_error`."""
        run_id = key_of(run)
        with self._engine.begin() as connection:
            revision = next_revision(connection)
            empty = RunRow(run_id=run, state=RunState.SILENT, as_of=0)
            saved = {
                **row_columns(empty),
                "run_id": run_id,
                "upto_ingest": 0,
                "revision": revision,
                "error": keepable(error),
                "row": documents.document(empty),
                "document": b"",
                "marks": b"",
            }
            connection.execute(replacing(connection, tables.run_view, ("error", "revision")), saved)
            connection.execute(
                update(tables.dirty_run)
                .where(tables.dirty_run.c.run_id == run_id)
                .values(due_at=next_due_at, claimed_until=0)
            )

    def _save_blocks(
        self, connection: Connection, run_id: int, kind: _BlockKind, items: Sequence, settled: int, length: int | None
    ) -> None:
        """Write the blocks from the first that holds an unsettled item anew. `length` items are saved, where known."""
        if settled == len(items) == length:
            return
        first = settled // documents.BLOCK_LENGTH
        if length is None or length > len(items):
            # Blocks that there are none of any more.
            connection.execute(kind.delete, {"key": run_id, "first": first})
        starts = range(first * documents.BLOCK_LENGTH, len(items), documents.BLOCK_LENGTH)
        rows = [
            {"run_id": run_id, "block": block, **kind.columns(items[start : start + documents.BLOCK_LENGTH])}
            for block, start in enumerate(starts, first)
        ]
        if rows:
            connection.execute(replacing(connection, kind.table, kind.columns_written), rows)

    def _save_incidents(
        self,
        connection: Connection,
        run_id: int,
        revision: int,
        incidents: Sequence[Incident],
        before: _Saved | None,
    ) -> tuple[bool, dict[str, str], int]:
        """Write the incidents that differ from those `before`, take out those that are gone; None rewrites all.

        Gives whether any did, where each is placed, and the newest action that this follows.
        """
        known = {} if before is None else before.incidents
        changed = [entry for entry in incidents if known.get(entry.incident_id) != entry]
        kept = {entry.incident_id for entry in incidents}
        gone = [incident_id for incident_id in known if incident_id not in kept]
        if before is not None and not changed and not gone:
            return False, before.problems, before.last_action
        newest_action, ledger = self._ledger.of(connection)
        is_current = before is not None and before.last_action == newest_action
        problems = dict(before.problems) if is_current and before is not None else {}
        affected = {problems.pop(incident_id) for incident_id in gone if incident_id in problems}
        for entry in changed if is_current else incidents:
            where = placed(entry)
            if entry.incident_id in problems:
                affected.add(problems.pop(entry.incident_id))
            if where is not None:
                problems[entry.incident_id] = ledger.place(where)
                affected.add(problems[entry.incident_id])
        if before is None:
            connection.execute(delete(tables.incident).where(tables.incident.c.run_id == run_id))
        stale = gone + [entry.incident_id for entry in changed if entry.incident_id in known]
        if stale:
            connection.execute(_STALE, [{"key": run_id, "stale": incident_id} for incident_id in stale])
        if changed:
            self._fingerprints.write(connection, changed)
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
                        **incident_columns(entry, problems.get(entry.incident_id)),
                        "document": documents.document(entry),
                    }
                    for entry in changed
                ],
            )
        touched = None if before is None else {*gone, *(entry.incident_id for entry in changed)}
        renew_incidents(connection, run_id, incidents, touched)
        if not is_current:
            affected.update(problems_of(connection, run_id))
        shares = {(run_id, problem): Share() for problem in affected}
        for entry in incidents:
            share = shares.get((run_id, problems.get(entry.incident_id, "")))
            if share is not None and (adds := counted(entry)) is not None:
                share.add(adds)
        write_shares(connection, revision, shares)
        renew_problems(connection, affected, ledger)
        return True, problems, newest_action

    def _save_nodes(
        self,
        connection: Connection,
        run_id: int,
        revision: int,
        derived: DerivedRun,
        is_changed: bool,
        before: _Saved | None,
    ) -> tuple[dict[str, int], dict[str, dict[str, object]]]:
        """Write the nodes that differ; the faults blamed on each, and their rows."""
        if before is not None and not is_changed and before.histories == derived.nodes:
            return before.blamed, before.nodes
        blamed = blamed_nodes(derived.view.incidents)
        if before is not None and before.blamed == blamed and before.histories == derived.nodes:
            return before.blamed, before.nodes
        rows = node_rows(run_id, derived.nodes, blamed)
        renew_nodes(
            connection, write_nodes(connection, run_id, revision, rows, None if before is None else before.nodes)
        )
        return blamed, rows


def next_revision(connection: Connection) -> int:
    """The next number of the change counter, which nobody else takes before this transaction is over."""
    return connection.execute(_counting(connection.dialect.name), {"counter_id": 0, "value": 1}).scalar_one()


@lru_cache(maxsize=2)
def _counting(dialect: str):
    """The next number of the one counter of changes."""
    statement = inserting(dialect, tables.change_counter)
    return statement.on_conflict_do_update(
        index_elements=["counter_id"], set_={"value": tables.change_counter.c.value + 1}
    ).returning(tables.change_counter.c.value)
