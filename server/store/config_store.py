"""Recovery configs in SQL; see the promises in `config_rows.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, insert, select

from rerail.server.core.recovery_configs.change_actions import ChangeAction, ChangeActionKind, LinkKind, said_of
from rerail.server.core.recovery_configs.changes import ConfigChange, changes
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.search.documents import config_change_document
from rerail.server.store import documents, engines, tables
from rerail.server.store.append import keepable, key_of, replacing
from rerail.server.store.config_rows import ConfigFault
from rerail.server.store.problem_writing import GPU_MS
from rerail.server.store.search_writing import renew

_stretch, _incident, _action = tables.config_stretch.c, tables.incident.c, tables.config_change_action.c
_document = tables.search_document.c
_AT_ONCE = 400
_FAULT = (
    _incident.incident_id, _incident.config, _incident.started_at, _incident.cause, _incident.detecting_ns,
    _incident.restart_ns, _incident.recover_ns, _incident.ended_at, _incident.lost_gpu_ms,
)  # fmt: skip
REMEMBERED = 20_000


class SqlConfigStore:
    """Recovery configs of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def stretches(self, fingerprints: Sequence[str] | None = None, run: str | None = None) -> tuple[Stretch, ...]:
        """Stretches, by run and number."""
        statement = select(_stretch.document).order_by(_stretch.run_id, _stretch.number)
        if run is not None:
            statement = statement.where(_stretch.run_id == key_of(run))
        if fingerprints is not None:
            statement = statement.where(_stretch.fingerprint.in_(list(fingerprints)[:_AT_ONCE]))
        with engines.answering(), self._read.begin() as connection:
            return tuple(_read_stretch(packed) for packed in connection.execute(statement).scalars())

    def lines_of(self, run: str) -> tuple[Stretch, ...]:
        """Stretches of a run and of the runs of the same project and name."""
        with engines.answering(), self._read.begin() as connection:
            return _line_of(connection, key_of(run))

    def faults(self, fingerprints: Sequence[str] | None = None) -> tuple[ConfigFault, ...]:
        """Unplanned incidents, by their start."""
        statement = select(*_FAULT).where(_incident.counts.is_(True), _incident.config.is_not(None))
        if fingerprints is not None:
            statement = statement.where(_incident.config.in_(list(fingerprints)[:_AT_ONCE]))
        with engines.answering(), self._read.begin() as connection:
            rows = connection.execute(statement.order_by(_incident.started_at, _incident.incident_id)).all()
        return tuple(
            ConfigFault(
                incident_id, config, started_at, cause, detecting, restart, None if ended_at is None else recover,
                None if gpu_ms is None else gpu_ms * GPU_MS,
            )
            for incident_id, config, started_at, cause, detecting, restart, recover, ended_at, gpu_ms in rows
        )  # fmt: skip

    def actions(self, change_id: str | None = None) -> tuple[ChangeAction, ...]:
        """What people said, in order."""
        with engines.answering(), self._read.begin() as connection:
            return _actions(connection, None if change_id is None else _action.change_id == keepable(change_id))

    def changes_about(self, target: str) -> tuple[ChangeAction, ...]:
        """Links to an incident or problem."""
        with engines.answering(), self._read.begin() as connection:
            return _actions(connection, and_(_action.kind == "link", _action.target == keepable(target)))

    def say(self, judge: Callable[[Sequence[ChangeAction]], ChangeAction]) -> ChangeAction:
        """Append an action."""
        # Not at the top: the writer of what is derived imports this file.
        from rerail.server.store.derived import next_revision

        with engines.answering(), self._write.begin() as connection:
            action_id = next_revision(connection)
            action = replace(judge(_actions(connection, None)), action_id=action_id)
            connection.execute(insert(tables.config_change_action), _columns(action))
            _renew_changes(connection, key_of(action.change_id.rpartition("@")[0]))
        return action


def _line_of(connection: Connection, run_id: int) -> tuple[Stretch, ...]:
    """Stretches of a run and of the runs of the same project and name."""

    def read(*where: ColumnElement[bool]) -> tuple[Stretch, ...]:
        found = select(_stretch.document).where(*where).order_by(_stretch.run_id, _stretch.number)
        return tuple(_read_stretch(packed) for packed in connection.execute(found).scalars())

    own = read(_stretch.run_id == run_id)
    if not own or not own[-1].project or not own[-1].name:
        return own
    return read(_stretch.project == keepable(own[-1].project), _stretch.name == keepable(own[-1].name))


@lru_cache(maxsize=REMEMBERED)
def _read_stretch(packed: bytes) -> Stretch:
    return documents.read_document(Stretch, packed)


def _actions(connection: Connection, where: object | None) -> tuple[ChangeAction, ...]:
    statement = select(tables.config_change_action).order_by(_action.action_id)
    if where is not None:
        statement = statement.where(where)  # type: ignore[arg-type]
    return tuple(
        ChangeAction(
            row.action_id, row.at, row.change_id, ChangeActionKind(row.kind), row.author, row.changed_by, row.reason,
            None if row.target_kind is None else LinkKind(row.target_kind), row.target, row.undoes,
        )
        for row in connection.execute(statement)
    )  # fmt: skip


def _columns(action: ChangeAction) -> dict[str, object]:
    def kept(text: str | None) -> str | None:
        return None if text is None else keepable(text)

    return {
        "action_id": action.action_id,
        "at": action.at,
        "change_id": keepable(action.change_id),
        "kind": action.kind.value,
        "author": kept(action.author),
        "changed_by": kept(action.changed_by),
        "reason": kept(action.reason),
        "target_kind": None if action.target_kind is None else action.target_kind.value,
        "target": kept(action.target),
        "undoes": action.undoes,
    }


def write_stretches(
    connection: Connection, run_id: int, found: Sequence[Stretch], before: Sequence[Stretch] | None
) -> None:
    """Write the stretches of a run that differ from those saved `before`, and what search finds of their changes.

    None rewrites all.
    """
    if before is None or len(before) > len(found):
        first = 0 if before is None else len(found)
        connection.execute(delete(tables.config_stretch).where(_stretch.run_id == run_id, _stretch.number >= first))
    known: Mapping[int, Stretch] = {} if before is None else {each.number: each for each in before}
    rows = [
        {
            "run_id": run_id,
            "number": each.number,
            "fingerprint": each.fingerprint,
            "first_attempt": each.first_attempt,
            "started_at": each.started_at,
            "project": None if each.project is None else keepable(each.project),
            "name": None if each.name is None else keepable(each.name),
            "document": documents.document(each),
        }
        for each in found
        if known.get(each.number) != each
    ]
    if rows:
        connection.execute(replacing(connection, tables.config_stretch, tables.config_stretch.c.keys()), rows)
    if rows or before is None or len(before) > len(found):
        _renew_changes(connection, run_id)


def _renew_changes(connection: Connection, run_id: int) -> None:
    """Documents of the changes that took effect in a run, and in the runs that followed it."""
    found = changes(_line_of(connection, run_id))
    runs = {run_id, *(key_of(each.run_id) for each in found if key_of(each.before_run) == run_id)}
    _renew(connection, [_document.run_id.in_(runs)], [each for each in found if key_of(each.run_id) in runs])


def renew_all_changes(connection: Connection) -> None:
    """Documents of every change there is."""
    packed = connection.execute(select(_stretch.document)).scalars().all()
    _renew(connection, [], changes(map(_read_stretch, packed)))


def _renew(connection: Connection, where: Sequence[ColumnElement[bool]], found: Sequence[ConfigChange]) -> None:
    actions: dict[str, list[ChangeAction]] = {}
    named = [keepable(each.change_id) for each in found]
    for first in range(0, len(named), _AT_ONCE):
        for action in _actions(connection, _action.change_id.in_(named[first : first + _AT_ONCE])):
            actions.setdefault(action.change_id, []).append(action)
    made = (
        config_change_document(each, said_of(each.change_id, actions.get(keepable(each.change_id), ())))
        for each in found
    )
    renew(connection, [_document.kind == "config_change", *where], made)
