"""Append: batches into the log, each fact once.

Rules
- One transaction for all batches of a call. Its first writes lock the runs' rows in the order of their keys, so two
  processes never wait for each other in a circle, and `ingest` numbers of a run become visible in their order.
- What is held of an emitter is read and written in the same transaction as its rows; nothing is remembered between
  calls, so any number of processes may append.
- What a batch states about a run is one row of compressed lines. A row per fact costs ten times the compression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter

from sqlalchemy import Connection, Engine, Table, bindparam, case, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from rerail.server.errors import StoreError
from rerail.server.store import Batch, LoggedFact, Receipt, RefusedLine, Stated, tables
from rerail.server.store.documents import pack_lines
from rerail.server.store.held_numbers import HeldNumbers, chunks_of

KEPT_REFUSALS = 1000
"""Refused lines kept per run and day; the rest is only counted, so that a storm cannot fill the disk."""

LONGEST_RAW = 4096
DAY_NS = 86_400 * 10**9


def key_of(text: str) -> int:
    """63 bit that stand for a run's or an emitter's text id."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


def inserting(dialect: str, table: Table):
    """An INSERT of a dialect that knows ON CONFLICT."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def upsert(connection: Connection, table: Table):
    """The same, of the connection's dialect."""
    return inserting(connection.dialect.name, table)


@lru_cache(maxsize=64)
def _replacing(dialect: str, table: Table, keys: tuple[str, ...], names: tuple[str, ...]):
    statement = inserting(dialect, table)
    return statement.on_conflict_do_update(
        index_elements=list(keys), set_={name: statement.excluded[name] for name in names}
    )


def replacing(connection: Connection, table: Table, names: Sequence[str]):
    """An INSERT that replaces these columns where the row exists. Built once: building costs more than running it."""
    keys = tuple(column.name for column in table.primary_key.columns)
    return _replacing(connection.dialect.name, table, keys, tuple(name for name in names if name not in keys))


# Statements of every batch are built once: building one costs more than running it.
_runs, _emitter, _held = tables.run.c, tables.emitter.c, tables.held_numbers.c
_HEARD = (
    update(tables.run)
    .where(_runs.run_id == bindparam("key"))
    .values(
        last_ingest=bindparam("ingest"),
        accepted=_runs.accepted + bindparam("new"),
        duplicate=_runs.duplicate + bindparam("again"),
        last_received_at=bindparam("received"),
    )
)
_EMITTERS = select(tables.emitter).where(
    tuple_(_emitter.run_id, _emitter.emitter_id).in_(bindparam("keys", expanding=True))
)
_CHUNKS = select(tables.held_numbers).where(
    tuple_(_held.run_id, _held.emitter_id, _held.chunk).in_(bindparam("keys", expanding=True))
)
_SEGMENT = insert(tables.fact_segment)
_dirty = tables.dirty_run.c


@lru_cache(maxsize=2)
def _mark_dirty(dialect: str):
    """Make runs due, not later than they are already."""
    statement = inserting(dialect, tables.dirty_run)
    sooner = case((statement.excluded.due_at < _dirty.due_at, statement.excluded.due_at), else_=_dirty.due_at)
    return statement.on_conflict_do_update(
        index_elements=["run_id"], set_={"ingest": statement.excluded.ingest, "due_at": sooner}
    )


URGENT = -(2**62)
"""Added to an instant in `dirty_run.due_at`: before all that is due by the clock, and in the order of arrival."""

_PROGRESS = (b'"steps"', b'"heartbeats"', b'"checkpoint"', b'"metric"', b'"clock"')


def due_since(received_at: int, lines: Iterable[bytes]) -> int:
    """Where a run stands in the queue of views, by the lines that came of it.

    A run that only told of progress is due since it did so, like one that is due by the clock: who waited longest is
    next. One that told anything else (an end, an exit, evidence) goes before them, since that is what alerts are of.
    A line of progress that is not seen as one only comes sooner.
    """
    if all(any(kind in line for kind in _PROGRESS) for line in lines):
        return received_at
    return URGENT + received_at


@lru_cache(maxsize=2)
def _lock_runs(dialect: str):
    """Make the rows of runs that are new; lock and give back all of them."""
    return (
        inserting(dialect, tables.run)
        .on_conflict_do_update(index_elements=["run_id"], set_={"last_ingest": _runs.last_ingest})
        .returning(_runs.run_id, _runs.run, _runs.last_ingest)
    )


_seq, _at, _line = itemgetter(0), itemgetter(1), itemgetter(2)


class _Emitter:
    """What is known of one emitter while a transaction adds to it."""

    __slots__ = (
        "accepted", "chunks", "clock_offset_ns", "duplicate", "highest_seq", "last_at", "least_delay_ns", "name",
        "rejected",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: dict[int, HeldNumbers] = {}
        """The chunks of held numbers that this transaction touches."""
        self.highest_seq: int | None = None
        self.accepted = self.duplicate = self.rejected = 0
        self.last_at: int | None = None
        self.least_delay_ns: int | None = None
        self.clock_offset_ns: int | None = None

    def take(self, numbers: Sequence[int]) -> list[int] | None:
        """Hold these numbers. The places of those that were new; None when every one was."""
        new: list[int] = []
        for chunk, places in chunks_of(numbers).items():
            held = self.chunks[chunk]
            fresh = held.take([numbers[place] for place in places])
            new.extend(places if fresh is None else [places[index] for index in fresh])
        if numbers:
            highest = max(numbers)
            self.highest_seq = highest if self.highest_seq is None else max(self.highest_seq, highest)
        return None if len(new) == len(numbers) else sorted(new)

    def hear(self, facts: Sequence[LoggedFact], received_at: int) -> None:
        newest = max(map(_at, facts))
        delay = received_at - newest
        self.last_at = newest if self.last_at is None else max(self.last_at, newest)
        self.least_delay_ns = delay if self.least_delay_ns is None else min(self.least_delay_ns, delay)


class Appender:
    """Writes the log of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def append(self, batches: Sequence[Batch]) -> tuple[Receipt, ...]:
        """See `Store.append`."""
        with self._engine.begin() as connection:
            return self._append(connection, batches)

    def _append(self, connection: Connection, batches: Sequence[Batch]) -> tuple[Receipt, ...]:
        run_ids = {stated.run: key_of(stated.run) for batch in batches for stated in batch.stated}
        ingests = self._lock_runs(connection, run_ids, max((batch.received_at for batch in batches), default=0))
        emitters = self._emitters(connection, run_ids, batches)
        segments: list[dict[str, object]] = []
        receipts = []
        totals: dict[str, list[int]] = {run: [0, 0] for run in run_ids}
        due: dict[str, int] = {}
        for batch in batches:
            accepted = duplicate = 0
            new_of_run: dict[str, list[LoggedFact]] = {}
            for stated in batch.stated:
                emitter = emitters[run_ids[stated.run], key_of(stated.emitter)]
                new = self._new_facts(emitter, stated, batch.received_at)
                again = len(stated.facts) - len(new)
                accepted += len(new)
                duplicate += again
                totals[stated.run][0] += len(new)
                totals[stated.run][1] += again
                if new:
                    new_of_run.setdefault(stated.run, []).extend(new)
            for run, facts in new_of_run.items():
                segments.append(self._segment(run_ids[run], ingests[run_ids[run]], len(segments), batch, facts))
                since = due_since(batch.received_at, map(_line, facts))
                due[run] = min(since, due.get(run, since))
            receipts.append(Receipt(accepted, duplicate))
            for line in batch.refused:
                if line.run is not None and line.emitter is not None:
                    known = emitters.get((run_ids.get(line.run, -1), key_of(line.emitter)))
                    if known is not None:
                        known.rejected += 1
        if segments:
            connection.execute(_SEGMENT, segments)
        self._save_chunks(connection, emitters)
        self._save_emitters(connection, emitters, max((batch.received_at for batch in batches), default=0))
        self._save_runs(connection, run_ids, ingests, totals, due, batches)
        for batch in batches:
            if batch.refused:
                self._refuse(connection, batch.received_at, batch.refused)
        return tuple(receipts)

    # --- runs -----------------------------------------------------------------------------------------------------

    def _lock_runs(self, connection: Connection, run_ids: dict[str, int], received_at: int) -> dict[int, int]:
        """The `ingest` number of this transaction for each run, whose rows are locked until it ends."""
        if not run_ids:
            return {}
        ordered = sorted(run_ids.items(), key=lambda item: item[1])
        locked = connection.execute(
            _lock_runs(connection.dialect.name),
            [
                {
                    "run_id": run_id,
                    "run": run,
                    "first_received_at": received_at,
                    "last_received_at": received_at,
                    "last_ingest": 0,
                    "accepted": 0,
                    "duplicate": 0,
                }
                for run, run_id in ordered
            ],
        )
        ingests = {}
        for run_id, run, last_ingest in locked:
            if run_ids.get(run) != run_id:
                raise StoreError(f"run {run!r} and another run of this batch have the same key; rename one of them")
            ingests[run_id] = last_ingest + 1
        return ingests

    def _save_runs(
        self,
        connection: Connection,
        run_ids: dict[str, int],
        ingests: dict[int, int],
        totals: dict[str, list[int]],
        due: dict[str, int],
        batches: Sequence[Batch],
    ) -> None:
        received = dict.fromkeys(run_ids, 0)
        for batch in batches:
            for stated in batch.stated:
                received[stated.run] = max(received[stated.run], batch.received_at)
        heard = [
            {
                "key": run_id,
                "ingest": ingests[run_id] if totals[run][0] else ingests[run_id] - 1,
                "new": totals[run][0],
                "again": totals[run][1],
                "received": received[run],
            }
            for run, run_id in run_ids.items()
        ]
        if not heard:
            return
        connection.execute(_HEARD, heard)
        connection.execute(
            _mark_dirty(connection.dialect.name),
            [
                {
                    "run_id": run_id,
                    "ingest": entry["ingest"],
                    "due_at": due.get(run, entry["received"]),
                    "claimed_until": 0,
                }
                for (run, run_id), entry in zip(run_ids.items(), heard, strict=True)
            ],
        )

    # --- emitters -------------------------------------------------------------------------------------------------

    def _emitters(
        self, connection: Connection, run_ids: dict[str, int], batches: Sequence[Batch]
    ) -> dict[tuple[int, int], _Emitter]:
        """What is known of everyone who speaks in these batches."""
        emitters = {
            (run_ids[stated.run], key_of(stated.emitter)): _Emitter(stated.emitter)
            for batch in batches
            for stated in batch.stated
        }
        keys = list(emitters)
        for index in range(0, len(keys), 500):
            for row in connection.execute(_EMITTERS, {"keys": keys[index : index + 500]}):
                emitter = emitters[row.run_id, row.emitter_id]
                if emitter.name != row.emitter:
                    raise StoreError(f"emitters {emitter.name!r} and {row.emitter!r} have the same key; rename one")
                emitter.highest_seq = row.highest_seq
                emitter.accepted, emitter.duplicate, emitter.rejected = row.accepted, row.duplicate, row.rejected
                emitter.last_at, emitter.least_delay_ns = row.last_at, row.least_delay_ns
                emitter.clock_offset_ns = row.clock_offset_ns
        self._read_chunks(connection, emitters, run_ids, batches)
        return emitters

    def _read_chunks(
        self,
        connection: Connection,
        emitters: dict[tuple[int, int], _Emitter],
        run_ids: dict[str, int],
        batches: Sequence[Batch],
    ) -> None:
        """The chunks of held numbers that these batches touch."""
        for batch in batches:
            for stated in batch.stated:
                emitter = emitters[run_ids[stated.run], key_of(stated.emitter)]
                for chunk in chunks_of(list(map(_seq, stated.facts))):
                    emitter.chunks.setdefault(chunk, HeldNumbers())
        keys = [(*key, chunk) for key, emitter in emitters.items() for chunk in emitter.chunks]
        for index in range(0, len(keys), 500):
            for row in connection.execute(_CHUNKS, {"keys": keys[index : index + 500]}):
                emitters[row.run_id, row.emitter_id].chunks[row.chunk] = HeldNumbers.from_bytes(row.held)

    def _new_facts(self, emitter: _Emitter, stated: Stated, received_at: int) -> Sequence[LoggedFact]:
        """Those of an emitter's facts that are not held yet; from now on they are."""
        facts: Sequence[LoggedFact] = stated.facts
        new = emitter.take(list(map(_seq, facts)))
        if new is not None:
            facts = [facts[index] for index in new]
        emitter.accepted += len(facts)
        emitter.duplicate += len(stated.facts) - len(facts)
        if facts:
            emitter.hear(facts, received_at)
            if stated.clock_offset_ns is not None:
                emitter.clock_offset_ns = stated.clock_offset_ns
        return facts

    def _segment(
        self, run_id: int, ingest: int, part: int, batch: Batch, facts: Sequence[LoggedFact]
    ) -> dict[str, object]:
        """What one batch states about one run, as one row."""
        return {
            "run_id": run_id,
            "ingest": ingest,
            "part": part,
            "received_at": batch.received_at,
            "first_at": min(map(_at, facts)),
            "last_at": max(map(_at, facts)),
            "fact_count": len(facts),
            "lines": pack_lines(map(_line, facts)),
        }

    def _save_emitters(
        self, connection: Connection, emitters: dict[tuple[int, int], _Emitter], received_at: int
    ) -> None:
        if not emitters:
            return
        changing = (
            "highest_seq", "accepted", "duplicate", "rejected", "last_at", "last_received_at", "least_delay_ns",
            "clock_offset_ns",
        )  # fmt: skip
        connection.execute(
            replacing(connection, tables.emitter, changing),
            [
                {
                    "run_id": run_id,
                    "emitter_id": emitter_id,
                    "emitter": emitter.name,
                    "highest_seq": emitter.highest_seq,
                    "accepted": emitter.accepted,
                    "duplicate": emitter.duplicate,
                    "rejected": emitter.rejected,
                    "last_at": emitter.last_at,
                    "last_received_at": received_at,
                    "least_delay_ns": emitter.least_delay_ns,
                    "clock_offset_ns": emitter.clock_offset_ns,
                }
                for (run_id, emitter_id), emitter in sorted(emitters.items())
            ],
        )

    def _save_chunks(self, connection: Connection, emitters: dict[tuple[int, int], _Emitter]) -> None:
        rows = [
            {"run_id": run_id, "emitter_id": emitter_id, "chunk": chunk, "held": held.to_bytes()}
            for (run_id, emitter_id), emitter in sorted(emitters.items())
            for chunk, held in sorted(emitter.chunks.items())
        ]
        if not rows:
            return
        connection.execute(replacing(connection, tables.held_numbers, ("held",)), rows)

    # --- refusals -------------------------------------------------------------------------------------------------

    def _refuse(self, connection: Connection, received_at: int, refused: Sequence[RefusedLine]) -> None:
        """Keep refused lines, up to the daily cap of each run; count them all."""
        by_run: dict[int, list[RefusedLine]] = {}
        for line in refused:
            by_run.setdefault(0 if line.run is None else key_of(line.run), []).append(line)
        day = received_at // DAY_NS
        for run_id, lines in sorted(by_run.items()):
            count = upsert(connection, tables.refused_count).values(run_id=run_id, day=day, total=len(lines))
            total = connection.execute(
                count.on_conflict_do_update(
                    index_elements=["run_id", "day"],
                    set_={"total": tables.refused_count.c.total + count.excluded.total},
                ).returning(tables.refused_count.c.total)
            ).scalar_one()
            first = total - len(lines)
            kept = lines[: max(0, KEPT_REFUSALS - first)]
            if kept:
                connection.execute(
                    insert(tables.refused_row),
                    [
                        {
                            "run_id": run_id,
                            "day": day,
                            "position": first + offset,
                            "received_at": received_at,
                            "run": None if line.run is None else keepable(line.run),
                            "emitter": None if line.emitter is None else keepable(line.emitter),
                            "line": line.line,
                            "field": keepable(line.field),
                            "value": keepable(line.value),
                            "reason": keepable(line.reason),
                            "raw": line.raw[:LONGEST_RAW],
                        }
                        for offset, line in enumerate(kept)
                    ],
                )


def keepable(text: str) -> str:
    """Text that every database can keep: NUL and half surrogates are written out."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
