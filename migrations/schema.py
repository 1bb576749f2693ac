"""Schema: which version a database stands at, and how to bring it to ours.

Works from an installed package: the scripts are found as package data, not by a path of a checkout.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from rerail.server.errors import SchemaError


def _config(directory: str, connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", directory.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def versions() -> tuple[str, ...]:
    """Every version this program knows, the one it needs first."""
    with as_file(files("rerail.migrations")) as directory:
        scripts = ScriptDirectory.from_config(_config(str(directory))).walk_revisions()
        return tuple(script.revision for script in scripts)


def newest() -> str:
    """The version this program needs."""
    return versions()[0]


def current(engine: Engine) -> str | None:
    """The version a database stands at; None for one without our tables."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring a database to a version, in one transaction. Two that try at once wait for each other."""
    with as_file(files("rerail.migrations")) as directory, engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7302481)")
        command.upgrade(_config(str(directory), connection), revision)
        if connection.dialect.name == "sqlite":
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            if broken:
                raise SchemaError(f"the migration would leave {len(broken)} rows without the rows they belong to")


def check(engine: Engine) -> None:
    """Raises `SchemaError`, with what to do, unless the database stands at this program's version."""
    stands = current(engine)
    known = versions()
    needed = known[0]
    if stands == needed:
        return
    if stands is not None and stands not in known:
        raise SchemaError(
            f"the database stands at version {stands}, which a newer rerail wrote; this one knows {needed}. "
            "Install the newer rerail again."
        )
    state = "has no tables of rerail yet" if stands is None else f"stands at version {stands}"
    raise SchemaError(f"the database {state}; this rerail needs {needed}. Run: rerail db upgrade")
