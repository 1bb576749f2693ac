"""`rerail replay`, `db upgrade`, `doctor`: what an operator does."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import rerail
from rerail.server.commands import opened_store, settings_of
from rerail.server.rules_version import rules_version
from rerail.server.sealing import sealing_of
from rerail.server.store import Sealing
from rerail.server.store.alert_rows import ChannelRow


def replay(parsed: argparse.Namespace) -> int:
    """Derive every run again."""
    from rerail.server.projector import Projector

    with opened_store(settings_of(parsed)) as store:
        store.begin_rules(rules_version(), rerail.__version__, time.time_ns())
        total = store.make_all_due()
        store.search.rebuild()
        projector = Projector(store, held_folds=1)
        done = 0
        while done < total and (now := projector.derive_due(limit=8)):
            done += now
            if sys.stderr.isatty():
                print(f"\r{min(done, total)} of {total} runs", end="", file=sys.stderr, flush=True)
        failed = store.storage().failed_runs
    print(f"{total} runs derived again from their facts, {len(failed)} could not be", file=sys.stderr)
    for run, error in failed:
        print(f"  {run}: {error}", file=sys.stderr)
    return 1 if failed else 0


def upgrade(parsed: argparse.Namespace) -> int:
    """Bring the database to this version."""
    from rerail.server.preparing import upgrade_database

    print(f"the database stands at version {upgrade_database(settings_of(parsed).database_url)}", file=sys.stderr)
    return 0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    is_good: bool
    found: str
    mend: str = ""


def doctor(parsed: argparse.Namespace) -> int:
    """Look at everything that has to be right, and say how to mend what is not."""
    checks = list(_checks(parsed))
    if parsed.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            print(f"{'ok  ' if check.is_good else 'BAD '} {check.name}: {check.found}")
            if not check.is_good and check.mend:
                print(f"     {check.mend}")
    return 0 if all(check.is_good for check in checks) else 1


def _checks(parsed: argparse.Namespace) -> Iterator[Check]:
    yield Check("python", sys.version_info >= (3, 11), sys.version.split()[0], "rerail needs Python 3.11 or newer")
    for package in ("sqlalchemy", "alembic", "fastapi", "uvicorn", "msgspec", "zstandard"):
        yield _installed(package, "server")
    yield _installed("dash", "ui")
    from rerail.server.errors import RerailError

    try:
        settings = settings_of(parsed)
    except RerailError as error:
        yield Check("settings", False, str(error), "correct it, or take it away to get the default")
        return
    yield Check("settings", True, ", ".join(f"{name} from {source}" for name, source in settings.sources.items()))
    if settings.database_url.startswith("postgres"):
        yield _installed("psycopg", "postgres")
    try:
        sealing = sealing_of(settings)
    except RerailError as error:
        yield Check("secrets", False, str(error), "correct the key: without it nobody is told of alerts")
        return
    yield from _database(settings.database_url, sealing)


def _installed(package: str, extra: str) -> Check:
    try:
        return Check(package, True, version(package))
    except PackageNotFoundError:
        return Check(package, False, "not installed", f"pip install 'rerail[{extra}]'")


def _secrets(channels: Sequence[ChannelRow]) -> Iterator[Check]:
    locked = [each.name for each in channels if each.is_locked]
    clear = [each.name for each in channels if not each.is_sealed]
    if locked:
        found = f"sealed with a key that is not set: {', '.join(locked)}"
        yield Check("secrets", False, found, "set that key too, or give their addresses and secrets again")
    elif clear:
        found = f"in clear in the database: {', '.join(clear)}"
        yield Check("secrets", False, found, "rerail secrets new-key; then set RERAIL_SECRET_KEY_FILE and start again")
    elif channels:
        yield Check("secrets", True, f"sealed, of {len(channels)} channels")


def _database(database_url: str, sealing: Sealing | None) -> Iterator[Check]:
    from sqlalchemy import make_url

    from rerail.migrations import schema
    from rerail.server.errors import RerailError
    from rerail.server.store import engines, open_store

    try:
        address = engines.normalised(database_url)
    except RerailError as error:
        yield Check("database", False, str(error), "see rerail serve --help")
        return
    shown = engines.shown(address)
    path = Path(make_url(address).database or "") if address.startswith("sqlite") else None
    if path is not None and not path.exists():
        yield Check("database", True, f"{shown} is not there yet; rerail serve makes it")
        return
    engine = engines.migration_engine(address)
    try:
        with engines.answering():
            schema.check(engine)
    except RerailError as error:
        mend = "rerail db upgrade" if "rerail db upgrade" in str(error) else "check the address and that it is running"
        yield Check("database", False, f"{shown}: {error}", mend)
        return
    finally:
        engine.dispose()
    store = open_store(address, sealing)
    try:
        figures = store.storage()
        channels = store.alerts.channels()
    finally:
        store.close()
    yield Check("database", True, f"{shown}, version {figures.schema}, {figures.runs} runs, {figures.facts} facts")
    yield from _secrets(channels)
    if path is not None:
        usage = shutil.disk_usage(path.parent)
        yield Check(
            "disk",
            usage.free > 2**30,
            f"{usage.free / 2**30:.1f} GiB free for a database of {(figures.size_bytes or 0) / 2**20:.1f} MiB",
            f"make room on the disk of {path.parent}: below 1 GiB a checkpoint of the database may not fit",
        )
    for run, error in figures.failed_runs:
        yield Check("run", False, f"{run}: {error}", "rerail replay tries again; if it stays, report it with the run")
