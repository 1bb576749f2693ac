"""Derivation: by which rules views were made, and which are to be made again.

The revision says it: every view that was saved before a server with these rules started first has a smaller one.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, func, select, tuple_

from rerail.server.query_results import Outdated, RulesProgress
from rerail.server.store import tables
from rerail.server.store.append import key_of, replacing, upsert
from rerail.server.store.derived import next_revision

ONLY = 0

_view, _run, _derivation = tables.run_view.c, tables.run.c, tables.derivation.c


class RulesLedger:
    """Reads and writes of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def begin(self, rules: str, version: str, now: int, since: int | None) -> RulesProgress:
        """See `Store.begin_rules`."""
        with self._write.begin() as connection:
            newest = next_revision(connection)  # The lock of everything that is derived.
            revision = newest if since is None else min(since, newest)
            known = connection.execute(select(_derivation.rules).where(_derivation.derivation_id == ONLY)).scalar()
            if known != rules:
                total = connection.execute(_outdated(select(func.count()), revision)).scalar_one()
                row = {
                    "derivation_id": ONLY, "rules": rules, "version": version, "revision": revision,
                    "started_at": now, "total": total,
                }  # fmt: skip
                connection.execute(replacing(connection, tables.derivation, tables.derivation.c.keys()), row)
            found = _progress(connection)
        assert found is not None
        return found

    def progress(self) -> RulesProgress | None:
        """See `Store.rules_progress`."""
        with self._read.connect() as connection:
            return _progress(connection)

    def make_next_due(self, after: Outdated | None, now: int) -> Outdated | None:
        """See `Store.make_outdated_due`."""
        with self._write.begin() as connection:
            began = connection.execute(select(_derivation.revision)).scalar()
            if began is None:
                return None
            place = (func.coalesce(_view.ended_at, 0), _view.run_id)
            wanted = _outdated(select(*place, _view.run, _run.last_ingest), began).order_by(*place).limit(1)
            if after is not None:
                wanted = wanted.where(tuple_(*place) > tuple_(*after[:2]))
            found = connection.execute(wanted).one_or_none()
            if found is None:
                return None
            *place_found, run, ingest = found
            connection.execute(
                upsert(connection, tables.dirty_run).on_conflict_do_nothing(),
                {"run_id": place_found[1], "ingest": ingest, "due_at": now, "claimed_until": 0},
            )
        return Outdated(*place_found, run)

    def is_outdated(self, run: str) -> bool:
        """See `Store.is_outdated`."""
        began = select(_derivation.revision).scalar_subquery()
        outdated = select(_view.run_id).where(
            _view.run_id == key_of(run), _view.state == "ended", _view.revision <= began
        )
        with self._read.connect() as connection:
            return connection.execute(outdated).first() is not None


def _outdated(select_from, revision: int, *, has_log: bool = True):
    """Of runs that are over and were derived up to a revision."""
    log = _run.log_gone_before.is_(None) if has_log else _run.log_gone_before.is_not(None)
    return select_from.select_from(tables.run_view.join(tables.run, _run.run_id == _view.run_id)).where(
        _view.state == "ended", _view.revision <= revision, log
    )


def _progress(connection: Connection) -> RulesProgress | None:
    row = connection.execute(select(tables.derivation)).one_or_none()
    if row is None:
        return None
    left = connection.execute(_outdated(select(func.count()), row.revision)).scalar_one()
    gone = connection.execute(_outdated(select(func.count()), row.revision, has_log=False)).scalar_one()
    return RulesProgress(row.rules, row.version, row.revision, row.started_at, row.total, left, gone)
