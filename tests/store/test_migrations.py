"""Migrations: they make the tables the code has, on both databases, from nothing and from every older version."""

from __future__ import annotations

import ast
from importlib.resources import files
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from rerail.migrations import schema
from rerail.server.errors import SchemaError
from rerail.server.preparing import prepare_database, upgrade_database
from rerail.server.store import engines, tables

REFERENCE_TABLES = frozenset(
    ["alert_channel", "alert_message", "alert_round", "change_counter", "config_change_action", "derivation",
     "fingerprint", "note",
     "note_mention", "note_revision", "problem_action", "search_document", "threshold_change"]
)  # fmt: skip


def test_migrations_make_the_tables_of_the_code(database: str) -> None:
    engine = engines.migration_engine(database)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "target_metadata": tables.metadata,
                # The index of words on SQLite is no table that SQLAlchemy knows.
                "include_name": lambda name, kind, _: not str(name).startswith("search_words"),
            },
        )
        assert compare_metadata(context, tables.metadata) == []
    engine.dispose()


def test_going_down_and_up_again_loses_no_table(empty_database: str) -> None:
    engine = engines.migration_engine(empty_database)
    schema.upgrade(engine)
    assert schema.current(engine) == schema.newest()
    engine.dispose()
    assert upgrade_database(empty_database) == schema.newest()


def test_an_empty_sqlite_is_migrated_and_an_empty_postgresql_asks_for_it(empty_database: str) -> None:
    if empty_database.startswith("sqlite"):
        prepare_database(empty_database)
    else:
        with pytest.raises(SchemaError, match="rerail db upgrade"):
            prepare_database(empty_database)
        upgrade_database(empty_database)
    prepare_database(empty_database)


def test_a_database_of_a_newer_version_is_left_alone(empty_database: str) -> None:
    upgrade_database(empty_database)
    engine = engines.migration_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'from_the_future'"))
    engine.dispose()
    with pytest.raises(SchemaError, match="newer rerail"):
        prepare_database(empty_database)


def test_versions_import_nothing_of_ours() -> None:
    for path in Path(str(files("rerail.migrations").joinpath("versions"))).glob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        }
        assert {str(name).split(".")[0] for name in imported} <= {"__future__", "alembic", "sqlalchemy"}, path


def test_every_key_of_a_distributed_table_holds_the_run() -> None:
    for table in tables.metadata.tables.values():
        if table.name in REFERENCE_TABLES:
            continue  # About no run in particular: reference tables.
        assert "run_id" in table.primary_key.columns, table.name
        assert not table.foreign_keys, table.name


def test_a_database_of_the_first_version_keeps_its_runs_and_has_them_derived_anew(empty_database: str) -> None:
    engine = engines.migration_engine(empty_database)
    schema.upgrade(engine, "0001")
    with engine.begin() as connection:
        connection.execute(
            tables.run.insert().values(
                run_id=7, run="r", first_received_at=1, last_received_at=1, last_ingest=3, accepted=1, duplicate=0
            )
        )
        connection.execute(tables.dirty_run.insert().values(run_id=7, ingest=3, due_at=10**18, claimed_until=5))
    engine.dispose()
    upgrade_database(empty_database)
    with engine.connect() as connection:
        due = connection.execute(text("SELECT run_id, ingest, due_at, claimed_until FROM dirty_run")).all()
    engine.dispose()
    assert [tuple(row) for row in due] == [(7, 3, 0, 0)]
