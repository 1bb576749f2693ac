"""Commands of `rerail` that need the server's extras; `cli.py` imports each when it is called."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from rerail.server.settings import SETTINGS, Settings
from rerail.server.store import Store, open_store


def settings_of(parsed: argparse.Namespace) -> Settings:
    """Settings with the flags of a command."""
    return Settings.load({name: getattr(parsed, name, None) for name in (*SETTINGS, "config")})


@contextmanager
def opened_store(settings: Settings) -> Iterator[Store]:
    """The store of these settings, brought to this version where it is SQLite."""
    from rerail.server.preparing import prepare_database

    prepare_database(settings.database_url)
    store = open_store(settings.database_url)
    try:
        yield store
    finally:
        store.close()
