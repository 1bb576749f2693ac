"""Preparing a database before anything uses it."""

from __future__ import annotations

from rerail.migrations import schema
from rerail.server.store import engines


def prepare_database(database_url: str) -> None:
    """Bring an SQLite database to this version; check a PostgreSQL one, which an operator upgrades on purpose.

    Raises SchemaError, which says what to run.
    """
    engine = engines.migration_engine(engines.normalised(database_url))
    try:
        with engines.answering():
            if engine.dialect.name == "sqlite" and schema.current(engine) in (None, *schema.versions()[1:]):
                schema.upgrade(engine)
            schema.check(engine)
    finally:
        engine.dispose()


def upgrade_database(database_url: str) -> str:
    """Bring any database to this version; the version it stands at now."""
    engine = engines.migration_engine(engines.normalised(database_url))
    try:
        with engines.answering():
            schema.upgrade(engine)
            schema.check(engine)
            return schema.newest()
    finally:
        engine.dispose()
