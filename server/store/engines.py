"""Engines: connections to SQLite and PostgreSQL that behave the same where it matters.

Rules
- Two engines for one database. On the *write* engine a SQLite transaction begins with `BEGIN IMMEDIATE`: a deferred one
  that reads before it writes fails with "database is locked" whatever the time-out (61 % of the transactions of eight
  threads did), and writers of one process take turns (`write_turns.py`). On the *read* engine a transaction sees one
  snapshot and never waits for a writer.
- SQLite: WAL, `synchronous=FULL`. Group commit makes the fsync cheap, so 200 means it is on the disk.
- The driver's own transaction handling is off (`isolation_level=None`); otherwise it sends a SELECT before its BEGIN.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from rerail.server.errors import SettingsError, StoreAwayError, StoreError
from rerail.server.store.write_turns import turns_of

TURN_SECONDS = 20
_TURN = "rerail_turn"

_WRITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=10000",
    "PRAGMA foreign_keys=ON",
    "PRAGMA cache_size=-65536",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA wal_autocheckpoint=4000",
)
_READ_PRAGMAS = (
    "PRAGMA busy_timeout=10000",
    "PRAGMA foreign_keys=ON",
    "PRAGMA cache_size=-65536",
    "PRAGMA mmap_size=1073741824",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA query_only=ON",
)


def normalised(database_url: str) -> str:
    """The address with the driver we use in it. Raises SettingsError for a database that is not supported."""
    try:
        url = make_url(database_url)
    except Exception as error:
        raise SettingsError(f"database address {database_url!r} cannot be read: {error}") from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    elif url.drivername == "sqlite" and (not url.database or url.database == ":memory:"):
        raise SettingsError("an SQLite database needs a file: sqlite:///path/to/rerail.sqlite3")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise SettingsError(f"database address {database_url!r}: only sqlite:/// and postgresql:// are supported")
    return url.render_as_string(hide_password=False)


def shown(database_url: str) -> str:
    """The address as a page or a log may show it: without a password."""
    return make_url(database_url).render_as_string(hide_password=True)


def write_engine(database_url: str) -> Engine:
    """Connections for transactions that write."""
    return _writing(database_url, _WRITE_PRAGMAS)


def derive_engine(database_url: str) -> Engine:
    """Connections that write what is derived: it can be made again, so SQLite need not wait for the disk."""
    pragmas = ("PRAGMA synchronous=NORMAL" if "synchronous" in one else one for one in _WRITE_PRAGMAS)
    return _writing(database_url, tuple(pragmas))


def _writing(database_url: str, pragmas: tuple[str, ...]) -> Engine:
    if _is_sqlite(database_url):
        _make_folder(database_url)
        return _in_turn(_sqlite_engine(database_url, pragmas, "BEGIN IMMEDIATE", pool_size=2), database_url)
    return create_engine(database_url, pool_pre_ping=True, pool_size=5, max_overflow=5)


def read_engine(database_url: str) -> Engine:
    """Connections for transactions that only read, each over one snapshot."""
    if _is_sqlite(database_url):
        return _sqlite_engine(database_url, _READ_PRAGMAS, "BEGIN", pool_size=10)
    return create_engine(
        database_url,
        pool_pre_ping=True,
        pool_size=10,
        max_overflow=20,
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
    )


def migration_engine(database_url: str) -> Engine:
    """Connections for schema changes: SQLite keeps foreign keys off, or a table rebuild cascades its deletes."""
    if _is_sqlite(database_url):
        _make_folder(database_url)
        pragmas = ("PRAGMA journal_mode=WAL", "PRAGMA busy_timeout=60000", "PRAGMA foreign_keys=OFF")
        return _sqlite_engine(database_url, pragmas, "BEGIN IMMEDIATE", pool_size=1)
    return create_engine(database_url)


def _make_folder(database_url: str) -> None:
    folder = Path(make_url(database_url).database or "").expanduser().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"no database can be made in {folder}: {error.strerror or error}") from None


def _is_sqlite(database_url: str) -> bool:
    return make_url(database_url).drivername == "sqlite"


def _sqlite_engine(database_url: str, pragmas: tuple[str, ...], begin: str, pool_size: int) -> Engine:
    engine = create_engine(
        database_url,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=20,
        connect_args={"timeout": 10, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _in_turn(engine: Engine, database_url: str) -> Engine:
    """The engine, whose connections hold the turn from the beginning of a transaction until they are given back."""
    turns = turns_of(database_url)

    @event.listens_for(engine, "begin", insert=True)
    def _take(connection: Connection) -> None:
        info = connection.connection.record_info
        if info is not None and not info.get(_TURN):
            info[_TURN] = turns.take(TURN_SECONDS)

    @event.listens_for(engine, "checkin")
    def _give_back(_connection: object, record: ConnectionPoolEntry) -> None:
        if record.record_info is not None and record.record_info.pop(_TURN, False):
            turns.give_back()

    return engine


NOT_A_DATABASE = ("file is not a database", "database disk image is malformed", "file is encrypted")
"""What SQLite says of a file that is none of its own, or is broken."""


@contextmanager
def answering() -> Iterator[None]:
    """Turn "the database does not answer" into `StoreAwayError`; every other database error is a bug and passes."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StoreAwayError(_first_line(error)) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise StoreAwayError(_first_line(error)) from error
        if any(words in _first_line(error) for words in NOT_A_DATABASE):
            raise StoreError(f"{_first_line(error)}: name another file, or bring this one back from a copy") from error
        raise


def _first_line(error: DBAPIError) -> str:
    text = str(error.orig) if error.orig is not None else str(error)
    return text.splitlines()[0] if text else type(error).__name__
