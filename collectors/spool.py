"""Spool: facts on their way to the server, on the disk of the node.

Rules
- A fact and the cursor that says it was read are stored in one transaction: after a crash neither is without the
  other, and `(run, emitter, seq)` is unique, so nothing is stored twice.
- A fact leaves only when the server has answered for it.
- The size is capped. Over the cap heartbeats are merged first (longer windows, nothing lost but detail), then
  heartbeats and metrics are dropped and counted. Edges (steps, checkpoints, phases, exits, evidence, …) are never
  dropped: while there is no room, nothing more is read, and the rings hold what comes.
- A fact that was tried is never changed: the server may hold it already.
- A full disk raises `SpoolFull` and changes nothing.

One connection guarded by a lock; any thread may call.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rerail.server.core.codec import encode_line
from rerail.server.core.facts import Fact

MOST_BYTES = 256 * 1024 * 1024
ROW_OVERHEAD = 120
"""Bytes a row costs beside its line, roughly."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, emitter TEXT NOT NULL, seq INTEGER NOT NULL,
    kind TEXT NOT NULL, line BLOB NOT NULL, tried INTEGER NOT NULL DEFAULT 0, UNIQUE (run, emitter, seq)
);
CREATE TABLE IF NOT EXISTS cursors (name TEXT PRIMARY KEY, cursor TEXT NOT NULL) WITHOUT ROWID;
"""


class SpoolFull(Exception):  # noqa: N818 - named as the condition it tells
    """The disk under the spool took nothing more; the message is the database's."""


@dataclass(frozen=True, slots=True)
class Row:
    """A fact on its way."""

    id: int
    line: bytes


class Spool:
    """The outbox of one node. Opens or makes `path`."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.most_bytes = most_bytes
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(_SCHEMA)
        self._measure()
        self.mark = self.cursor("spool mark") or uuid.uuid4().hex[:8]
        self.store((), {"spool mark": self.mark})

    @property
    def bytes(self) -> int:
        """About how many bytes are waiting."""
        return int(self._bytes)

    @property
    def has_room(self) -> bool:
        """More may be stored."""
        return self._bytes < self.most_bytes

    def waiting(self) -> int:
        """Number of facts that wait."""
        with self._lock:
            return int(self._connection.execute("SELECT COUNT(*) FROM outbox").fetchone()[0])

    def cursor(self, name: str) -> str | None:
        """What was stored under `name` last."""
        with self._lock:
            row = self._connection.execute("SELECT cursor FROM cursors WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def cursors(self, prefix: str) -> dict[str, str]:
        """Everything that is stored under names that begin so."""
        with self._lock:
            rows = self._connection.execute("SELECT name, cursor FROM cursors").fetchall()
        return {str(name): str(cursor) for name, cursor in rows if name.startswith(prefix)}

    def forget(self, name: str) -> None:
        """Drop a cursor that will not be needed again."""
        with self._lock:
            self._connection.execute("DELETE FROM cursors WHERE name = ?", (name,))

    def store(self, facts: Iterable[Fact], cursors: Mapping[str, str]) -> None:
        """Store facts and cursors together, or nothing. Raises `SpoolFull`."""
        rows = [(fact.run, fact.emitter, fact.seq, fact.kind, encode_line(fact)) for fact in facts]
        added = 0
        with self._lock, self._transaction():
            for row in rows:
                done = self._connection.execute(
                    "INSERT OR IGNORE INTO outbox (run, emitter, seq, kind, line) VALUES (?, ?, ?, ?, ?)", row
                )
                added += (len(row[4]) + ROW_OVERHEAD) * done.rowcount
            self._connection.executemany(
                "INSERT INTO cursors VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET cursor = excluded.cursor",
                list(cursors.items()),
            )
        self._bytes += added

    def batch(self, most_lines: int, most_bytes: int) -> list[Row]:
        """The oldest facts, marked as tried; at least one where any waits."""
        with self._lock:
            rows: list[Row] = []
            size = 0
            for number, line in self._connection.execute(
                "SELECT id, line FROM outbox ORDER BY id LIMIT ?", (most_lines,)
            ):
                size += len(line)
                if rows and size > most_bytes:
                    break
                rows.append(Row(number, bytes(line)))
            if rows:
                self._write("UPDATE outbox SET tried = 1 WHERE id <= ? AND tried = 0", [(rows[-1].id,)])
        return rows

    def done(self, rows: Sequence[Row]) -> None:
        """The server answered for these."""
        with self._lock:
            self._write("DELETE FROM outbox WHERE id = ?", [(row.id,) for row in rows])
            self._bytes -= sum(len(row.line) + ROW_OVERHEAD for row in rows)

    def relieve(self) -> int:
        """Make room: merge heartbeats, then drop heartbeats and metrics. Gives how many facts were dropped."""
        with self._lock:
            self._merge_heartbeats()
            if self._bytes < self.most_bytes * 9 // 10:
                return 0
            return self._drop(("heartbeats", "metric"))

    def _merge_heartbeats(self) -> None:
        """One window for all waiting heartbeats of a rank, phase and timeout; it keeps the place of the last."""
        windows: dict[tuple[object, ...], list[tuple[int, dict[str, object]]]] = defaultdict(list)
        for number, line in self._connection.execute(
            "SELECT id, line FROM outbox WHERE kind = 'heartbeats' AND tried = 0 ORDER BY id"
        ):
            beat = json.loads(line)
            key = tuple(beat.get(name) for name in ("run", "emitter", "iteration", "phase", "armed_timeout_us"))
            windows[key].append((number, beat))
        for window in windows.values():
            if len(window) < 2:
                continue
            last_number, last = window[-1]
            merged = {
                **last,
                "start": min(beat["start"] for _, beat in window),  # type: ignore[type-var]
                "count": sum(beat["count"] for _, beat in window),  # type: ignore[misc]
                "max_gap_us": max(beat["max_gap_us"] for _, beat in window),  # type: ignore[type-var]
            }
            line = json.dumps(merged, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
            self._write("DELETE FROM outbox WHERE id = ?", [(number,) for number, _ in window[:-1]])
            self._write("UPDATE outbox SET line = ? WHERE id = ?", [(line, last_number)])
        self._measure()

    def _drop(self, kinds: tuple[str, ...]) -> int:
        dropped = 0
        for kind in kinds:
            (count,) = self._connection.execute("SELECT COUNT(*) FROM outbox WHERE kind = ?", (kind,)).fetchone()
            self._write("DELETE FROM outbox WHERE kind = ?", [(kind,)])
            dropped += count
        self._measure()
        return dropped

    def _measure(self) -> None:
        (self._bytes,) = self._connection.execute(
            f"SELECT COALESCE(SUM(LENGTH(line) + {ROW_OVERHEAD}), 0) FROM outbox"
        ).fetchone()

    def _write(self, statement: str, values: list[tuple[object, ...]]) -> None:
        with self._transaction():
            self._connection.executemany(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that the block writes, or nothing. Raises `SpoolFull`."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise SpoolFull(str(error)) from error

    def close(self) -> None:
        """Close the database; what waits stays."""
        with self._lock:
            self._connection.close()
