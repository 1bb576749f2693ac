"""Recovery configs in SQL; see the promises in `config_rows.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, select

from rerail.server.core.recovery_configs.change_actions import ChangeAction, ChangeActionKind, LinkKind, said_of
from rerail.server.core.recovery_configs.changes import ConfigChange, changes
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.search.documents import config_change_document
from rerail.server.store import documents, engines, tables
from rerail.server.store.append import keepable, key_of, replacing
from rerail.server.store.config_rows import ConfigFault, StretchFigures, StretchPlace
from rerail.server.store.problem_writing import GPU_MS
from rerail.server.store.search_writing import renew

_stretch, _incident, _action = tables.config_stretch.c, tables.incident.c, tables.config_change_action.c
_document = tables.search_document.c
_AT_ONCE = 400
_FAULT = (
    _incident.incident_id, _incident.config, _incident.started_at, _incident.cause, _incident.detecting_ns,
    _incident.restart_ns, _incident.recover_ns, _incident.ended_at, _incident.lost_gpu_ms,
)  # fmt: skip
_PLACE = (
    tables.run.c.run, _stretch.number, _stretch.fingerprint, _stretch.first_attempt, _stretch.started_at,
    _stretch.project, _stretch.name,
)  # fmt: skip
REMEMBERED = 20_000
"""Stretches whose figures are kept decoded, by what they hold: about 25 MB at most."""

REMEMBERED_WHOLE = 2_000
"""Stretches kept decoded with their configs, which are ten times as large."""


class SqlConfigStore:
    """Recovery configs of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def stretches(self, runs: Sequence[str]) -> tuple[Stretch, ...]:
        """Stretches of some runs, whole."""
        found: list[Stretch] = []
        with engines.answering(), self._read.begin() as connection:
            for some in _in_parts(sorted({key_of(run) for run in runs})):
                wanted = select(_stretch.document).where(_stretch.run_id.in_(some))
                ordered = wanted.order_by(_stretch.run_id, _stretch.number)
                found += map(_read_stretch, connection.execute(ordered).scalars())
        return tuple(found)

    def figures(self, fingerprints: Sequence[str] | None = None) -> tuple[StretchFigures, ...]:
        """Stretches without their configs."""
        statement = select(_stretch.document).order_by(_stretch.run_id, _stretch.number)
        if fingerprints is None:
            statement = statement.where(_stretch.fingerprint.is_not(None))
        with engines.answering(), self._read.begin() as connection:
            if fingerprints is None:
                return tuple(map(_read_figures, connection.execute(statement).scalars().all()))
            return tuple(
                _read_figures(packed)
                for some in _in_parts(fingerprints)
                for packed in connection.execute(statement.where(_stretch.fingerprint.in_(some))).scalars().all()
            )

    def newest(self, limit: int) -> tuple[str, ...]:
        """Fingerprints of the configs used last."""
        used = (
            select(_stretch.fingerprint)
            .where(_stretch.fingerprint.is_not(None))
            .group_by(_stretch.fingerprint)
            .order_by(func.max(_stretch.started_at).desc(), _stretch.fingerprint)
            .limit(limit)
        )
        with engines.answering(), self._read.begin() as connection:
            return tuple(connection.execute(used).scalars().all())

    def places(self, run: str | None = None, project: str | None = None) -> tuple[StretchPlace, ...]:
        """Where stretches lie, from the columns alone."""
        statement = select(*_PLACE).join(tables.run, tables.run.c.run_id == _stretch.run_id)
        if project is not None:
            statement = statement.where(_stretch.project == keepable(project))
        with engines.answering(), self._read.begin() as connection:
            if run is not None:
                statement = statement.where(*_same_line(connection, key_of(run)))
            rows = connection.execute(statement.order_by(_stretch.run_id, _stretch.number)).all()
        return tuple(StretchPlace(*row) for row in rows)

    def configs(self, fingerprints: Sequence[str]) -> dict[str, RecoveryConfig]:
        """Configs as the newest stretch under each told them."""
        found: dict[str, Stretch] = {}
        with engines.answering(), self._read.begin() as connection:
            for some in _in_parts(fingerprints):
                newest = (
                    select(_stretch.fingerprint, func.max(_stretch.started_at).label("at"))
                    .where(_stretch.fingerprint.in_(some))
                    .group_by(_stretch.fingerprint)
                    .subquery()
                )
                wanted = select(_stretch.document).join(
                    newest, and_(newest.c.fingerprint == _stretch.fingerprint, newest.c.at == _stretch.started_at)
                )
                for packed in connection.execute(wanted).scalars():
                    told = _read_stretch(packed)
                    before = found.get(told.fingerprint or "")
                    if before is None or before.run_id < told.run_id:
                        found[told.fingerprint or ""] = told
        return {name: each.config for name, each in found.items() if each.config is not None}

    def lines_of(self, run: str) -> tuple[Stretch, ...]:
        """Stretches of a run and of the runs of the same project and name."""
        with engines.answering(), self._read.begin() as connection:
            return _line_of(connection, key_of(run))

    def faults(self, fingerprints: Sequence[str]) -> tuple[ConfigFault, ...]:
        """Unplanned incidents under some configs, by their start."""
        return self._faults(_incident.config, fingerprints)

    def faults_of_runs(self, runs: Sequence[str]) -> tuple[ConfigFault, ...]:
        """Unplanned incidents of some runs, by their start."""
        return self._faults(_incident.run_id, sorted({key_of(run) for run in runs}))

    def _faults(self, column: ColumnElement[object], wanted: Sequence[object]) -> tuple[ConfigFault, ...]:
        statement = select(*_FAULT).where(_incident.counts.is_(True), _incident.config.is_not(None))
        with engines.answering(), self._read.begin() as connection:
            rows = [
                row for some in _in_parts(wanted) for row in connection.execute(statement.where(column.in_(some))).all()
            ]
        rows.sort(key=lambda row: (row.started_at, row.incident_id))
        return tuple(
            ConfigFault(
                incident_id, config, started_at, cause, detecting, restart, None if ended_at is None else recover,
                None if gpu_ms is None else gpu_ms * GPU_MS,
            )
            for incident_id, config, started_at, cause, detecting, restart, recover, ended_at, gpu_ms in rows
        )  # fmt: skip

    def fault_counts(self) -> dict[str, int]:
        """How many unplanned incidents began under each config."""
        wanted = (
            select(_incident.config, func.count().label("n"))
            .where(_incident.counts.is_(True), _incident.config.is_not(None))
            .group_by(_incident.config)
        )
        with engines.answering(), self._read.begin() as connection:
            return {row.config: row.n for row in connection.execute(wanted)}

    def actions(self, change_ids: Sequence[str] | None = None) -> tuple[ChangeAction, ...]:
        """What people said, in order."""
        with engines.answering(), self._read.begin() as connection:
            if change_ids is None:
                return _actions(connection, None)
            parts = _in_parts([keepable(each) for each in change_ids])
            found = [each for some in parts for each in _actions(connection, _action.change_id.in_(some))]
        return tuple(sorted(found, key=lambda action: action.action_id))

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


def _in_parts(wanted: Sequence[object]) -> Iterable[list[object]]:
    """As many at once as a statement takes."""
    for first in range(0, len(wanted), _AT_ONCE):
        yield list(wanted[first : first + _AT_ONCE])


def _same_line(connection: Connection, run_id: int) -> tuple[ColumnElement[bool], ...]:
    """What stretches of a run, and of the runs of the same project and name, have in common."""
    own = (
        select(_stretch.project, _stretch.name)
        .where(_stretch.run_id == run_id)
        .order_by(_stretch.number.desc())
        .limit(1)
    )
    found = connection.execute(own).one_or_none()
    if found is None or not found.project or not found.name:
        return (_stretch.run_id == run_id,)
    return _stretch.project == found.project, _stretch.name == found.name


def _line_of(connection: Connection, run_id: int) -> tuple[Stretch, ...]:
    """Stretches of a run and of the runs of the same project and name."""
    line = select(_stretch.document).where(*_same_line(connection, run_id))
    ordered = line.order_by(_stretch.run_id, _stretch.number)
    return tuple(_read_stretch(packed) for packed in connection.execute(ordered).scalars())


@lru_cache(maxsize=REMEMBERED_WHOLE)
def _read_stretch(packed: bytes) -> Stretch:
    return documents.read_document(Stretch, packed)


@lru_cache(maxsize=REMEMBERED)
def _read_figures(packed: bytes) -> StretchFigures:
    return documents.read_part(StretchFigures, packed)


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
    if before is None or [_argued(each) for each in before] != [_argued(each) for each in found]:
        _renew_changes(connection, run_id)


def _argued(stretch: Stretch) -> Stretch:
    """As much of a stretch as its changes are made of: that a run goes on makes no other change."""
    return replace(
        stretch, ended_at=None, elapsed_ns=0, productive_ns=0, faults_ns=0, elapsed_gpu_ns=None, kept_steps=0,
        contradicted_hangs=0, sees_training=True,
    )  # fmt: skip


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
