"""Commands of `rerail` that need the server's extras; `cli.py` imports each when it is called."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from rerail.server.errors import SettingsError
from rerail.server.sealing import sealing_of
from rerail.server.settings import SETTINGS, Settings
from rerail.server.store import Store, engines, open_store


def settings_of(parsed: argparse.Namespace) -> Settings:
    """Settings with the flags of a command."""
    return Settings.load({name: getattr(parsed, name, None) for name in (*SETTINGS, "config")})


def _refuse_to_make(settings: Settings) -> None:
    """A command that reads does not make the database it wants to read: a typo would look like an empty one."""
    url = make_url(engines.normalised(settings.database_url))
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        raise SettingsError(
            f"there is no database {url.database} (from {settings.sources['database_url']}): `rerail serve` makes it, "
            "or name another with --database-url (RERAIL_DATABASE_URL); some commands ask a server instead, with --url "
            "(RERAIL_URL)"
        )


@contextmanager
def opened_store(settings: Settings, *, may_make: bool = False) -> Iterator[Store]:
    """The store of these settings, brought to this version where it is SQLite; made only where that `may_make`."""
    from rerail.server.preparing import prepare_database

    if not may_make:
        _refuse_to_make(settings)
    prepare_database(settings.database_url)
    store = open_store(settings.database_url, sealing_of(settings))
    try:
        yield store
    finally:
        store.close()
