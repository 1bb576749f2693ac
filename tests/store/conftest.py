"""The two databases the contract is held to: an SQLite file and a real PostgreSQL that lives as long as the session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from rerail.migrations import schema
from rerail.server.core import codec
from rerail.server.core.facts import Fact
from rerail.server.store import Batch, LoggedFact, Stated, Store, engines, open_store, tables

_numbers = count()
INITDB = ("-A", "trust", "-U", "rerail", "-E", "UTF8", "--no-sync")
FORGETFUL = "-c fsync=off -c autovacuum=off -c max_connections=100"
INITDB = ("-A", "trust", "-U", "rerail", "-E", "UTF8", "--no-sync")


def _postgres_binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Address of the administration database of a throw-away cluster on a unix socket."""
    binaries = _postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries: apt-get install postgresql")
    as_root = os.geteuid() == 0
    become = ["runuser", "-u", "postgres", "--"] if as_root else []
    directory = Path(tempfile.mkdtemp(prefix="rerail-pg-"))
    if as_root:
        shutil.chown(directory, "postgres")
    data = directory / "data"
    try:
        subprocess.run(
            [*become, str(binaries / "initdb"), "-D", str(data), *INITDB],
            check=True,
            capture_output=True,
            cwd=directory,
        )
        options = f"-c listen_addresses= -c unix_socket_directories={directory} {FORGETFUL}"
        control = [*become, str(binaries / "pg_ctl"), "-D", str(data), "-w"]
        subprocess.run(
            [*control, "-l", str(directory / "log"), "-o", options, "start"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=directory,
        )
        try:
            yield f"postgresql+psycopg://rerail@/postgres?host={directory}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd=directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _execute(address: str, statement: str) -> None:
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def _migrate(address: str) -> None:
    engine = engines.migration_engine(address)
    schema.upgrade(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def postgres_with_tables(postgres: str) -> str:
    """Address of a database with our tables."""
    _execute(postgres, "CREATE DATABASE rerail")
    address = make_url(postgres).set(database="rerail").render_as_string(hide_password=False)
    _migrate(address)
    return address


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with our tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "rerail.sqlite3"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.sqlite3'}"
    postgres = request.getfixturevalue("postgres")
    name = f"empty_{next(_numbers)}"
    _execute(postgres, f"CREATE DATABASE {name}")
    return make_url(postgres).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a database with our tables and nothing in them."""
    if request.param == "sqlite":
        path = tmp_path / "rerail.sqlite3"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"
    # Emptied between tests: making and dropping a database costs a second each, and this thirty milliseconds.
    address = request.getfixturevalue("postgres_with_tables")
    _execute(address, f"TRUNCATE {', '.join(tables.metadata.tables)}")
    return address


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """The store of a fresh database."""
    opened = open_store(database)
    yield opened
    opened.close()


@pytest.fixture
def batch() -> Callable[..., Batch]:
    """Facts as one batch, received a second after the latest of them unless told."""

    def make(*facts: Fact, received_at: int | None = None) -> Batch:
        stated: dict[tuple[str, str], Stated] = {}
        for fact in facts:
            of_emitter = stated.setdefault((fact.run, fact.emitter), Stated(fact.run, fact.emitter))
            of_emitter.facts.append(LoggedFact(fact.seq, fact.at, codec.encode_line(fact).rstrip()))
        if received_at is None:
            received_at = max(fact.at for fact in facts) + 10**9
        return Batch(received_at, tuple(stated.values()))

    return make
