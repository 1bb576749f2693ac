"""Alert writing: what rules saw and what people did, as events, with the messages that follow in the same transaction.

Rules
- The lock is the change counter, as for problems: events, actions and saved views are in one order. Under it every
  alert is looked at again by its events as they are then, so that what people did meanwhile holds.
- Who looked from a place that is no longer the last one writes nothing: the work was done by somebody else.
- The group of an alert is the problem of its incident; without one, its rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, Engine, and_, func, insert, or_, select, update

from rerail.server.core.alert_life import AlertEvent, Change, Life, life, look
from rerail.server.core.alerts import rules
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.store import tables
from rerail.server.store.alert_messages import Entry, enqueue_groups
from rerail.server.store.alert_rows import Asked, Looked
from rerail.server.store.append import keepable, key_of, replacing, upsert
from rerail.server.store.derived import next_revision

_alert, _event, _incident = tables.alert.c, tables.alert_event.c, tables.incident.c
_view = tables.run_view.c
_changes = tables.threshold_change.c
_AT_ONCE = 400
ROUND = 0

GroupJudge = Callable[[Sequence[AlertEvent], int | None], AlertEvent | None]
"""What is done to one alert of a group, by its events and the one to undo; None leaves it as it is."""

STATED = ("sentence", "mark", "severity", "group_key", "problem_id", "incident_id", "node", "since")


def portions(names: Sequence) -> Iterable[Sequence]:
    """In pieces that one statement can name."""
    return (names[first : first + _AT_ONCE] for first in range(0, len(names), _AT_ONCE))


def event_of(row, key: str) -> AlertEvent:
    """An event out of its row."""
    return AlertEvent(
        row.event_id, row.at, Change(row.change), key, row.author, row.reason, row.until, row.undoes, row.sentence,
        row.mark,
    )  # fmt: skip


def events_of(connection: Connection, keys: Sequence[str]) -> dict[str, list[AlertEvent]]:
    """Events by alert, of those that have any."""
    by_id = {key_of(key): key for key in keys}
    found: dict[str, list[AlertEvent]] = {}
    for some in portions(sorted(by_id)):
        wanted = select(tables.alert_event).where(_event.alert_id.in_(some)).order_by(_event.event_id)
        for row in connection.execute(wanted):
            key = by_id[row.alert_id]
            found.setdefault(key, []).append(event_of(row, key))
    return found


def is_silenced(now: int) -> ColumnElement[bool]:
    """Nobody is told of it at an instant."""
    return and_(_alert.silenced_until.is_not(None), _alert.silenced_until > now)


def stands(standing: str, now: int) -> ColumnElement[bool]:
    """It stands so at an instant."""
    silenced = is_silenced(now)
    if standing == "resolved":
        return _alert.is_resolved.is_(True)
    if standing == "silenced":
        return and_(_alert.is_resolved.is_(False), silenced)
    is_acknowledged = standing == "acknowledged"
    return and_(_alert.is_resolved.is_(False), ~silenced, _alert.is_acknowledged.is_(is_acknowledged))


def matching(asked: Asked, now: int) -> list[ColumnElement[bool]]:
    """What holds of the alerts that are asked for."""
    where: list[ColumnElement[bool]] = []
    if asked.standing is not None:
        where.append(stands(asked.standing, now))
    if asked.run is not None:
        where.append(_alert.run_id == key_of(asked.run))
    for word in asked.search.lower().split()[:10]:
        like = f"%{word.replace('|', '||').replace('%', '|%').replace('_', '|_')}%"
        columns = (_alert.run, _alert.rule, _alert.sentence)
        named = select(_view.run_id).where(func.lower(_view.name).like(like, escape="|"))
        where.append(or_(*(func.lower(column).like(like, escape="|") for column in columns), _alert.run_id.in_(named)))
    return where


class AlertWriter:
    """Writes events and thresholds of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, seen_before: int, seen: int, looked: Sequence[Looked], now: int) -> tuple[AlertEvent, ...] | None:
        """See `AlertStore.record`."""
        with self._engine.begin() as connection:
            first = next_revision(connection)
            if not self._take_round(connection, seen_before, seen):
                return None
            return self._record(connection, looked, now, first)

    def _take_round(self, connection: Connection, before: int, seen: int) -> bool:
        table = tables.alert_round
        connection.execute(upsert(connection, table).on_conflict_do_nothing(), {"round_id": ROUND, "seen": 0})
        moved = connection.execute(
            update(table).where(table.c.round_id == ROUND, table.c.seen == before).values(seen=seen)
        )
        return bool(moved.rowcount)

    def _record(self, connection: Connection, looked: Sequence[Looked], now: int, first: int) -> tuple[AlertEvent, ...]:
        histories = events_of(connection, [each.key for each in looked])
        absent = _absent(connection, [each.key for each in looked])
        problems = _problems(connection, [each.finding.incident_id for each in looked if each.finding is not None])
        rows: list[dict[str, object]] = []
        written: list[AlertEvent] = []
        groups: dict[str, list[Entry]] = {}
        for each in looked:
            history = histories.get(each.key, [])
            stands = life(history)
            seen = look(stands, each.finding, absent.get(each.key, (None, "", None))[0], each.at, is_over=each.is_over)
            change = seen.change
            is_silence_over = stands.silenced_until is not None and stands.silenced_until <= now
            if change is None and is_silence_over and stands.is_firing and not stands.is_resolved:
                change = Change.UNSILENCE
            if change is not None:
                event = AlertEvent(
                    first + len(written), each.at, change, each.key,
                    reason="the silence is over" if change is Change.UNSILENCE else None,
                    sentence=each.finding.sentence if each.finding is not None else None,
                    mark=each.finding.mark if each.finding is not None else None,
                )  # fmt: skip
                written.append(event)
                stands = life([*history, event])
            elif not history:
                continue
            row = _row(each, stands, seen.absent_since, problems, absent.get(each.key))
            rows.append(row)
            if change is not None and not (stands.silenced_until is not None and stands.silenced_until > now):
                groups.setdefault(str(row["group_key"]), []).append((each.key, change.value, each.at))
        if len(written) > 1:
            counter = tables.change_counter.c
            connection.execute(update(tables.change_counter).values(value=counter.value + len(written) - 1))
        if written:
            run_ids = {each.key: key_of(each.run) for each in looked}
            connection.execute(insert(tables.alert_event), [_columns(event, run_ids[event.key]) for event in written])
        if rows:
            connection.execute(replacing(connection, tables.alert, tables.alert.c.keys()), rows)
        enqueue_groups(connection, now, groups)
        return tuple(written)

    def act(self, key: str, judge: Callable[[Sequence[AlertEvent]], AlertEvent], now: int) -> AlertEvent:
        """See `AlertStore.act`."""
        with self._engine.begin() as connection:
            event_id = next_revision(connection)
            history = events_of(connection, [key]).get(key)
            if not history:
                raise KeyError(key)
            mine = _alert.alert_id == key_of(key)
            run_id, group, mark = connection.execute(
                select(_alert.run_id, _alert.group_key, _alert.mark).where(mine)
            ).one()
            event = replace(_with_mark(judge(history), mark), event_id=event_id, key=key)
            connection.execute(insert(tables.alert_event), _columns(event, run_id))
            stands = life([*history, event])
            connection.execute(update(tables.alert).where(mine).values(**_standing(stands, now)))
            if event.change in (Change.RESOLVE, Change.REOPEN):
                enqueue_groups(connection, now, {group: [(key, event.change.value, event.at)]})
        return event

    def act_on_group(
        self, group: str, judge: GroupJudge, undoes: int | None, now: int, asked: Asked
    ) -> tuple[AlertEvent, ...]:
        """See `AlertStore.act_on_group`."""
        with self._engine.begin() as connection:
            first = next_revision(connection)
            mine = _alert.group_key == group
            if connection.execute(select(_alert.alert_id).where(mine).limit(1)).first() is None:
                raise KeyError(group)
            undone = None if undoes is None else _beside(connection, group, undoes)
            wanted = _alert.is_resolved.is_(False) if undone is None else _alert.alert_id.in_(list(undone))
            narrowed = matching(asked, now) if undone is None else []
            rows = connection.execute(
                select(_alert.key, _alert.run_id, _alert.mark).where(mine, wanted, *narrowed).order_by(_alert.alert_id)
            ).all()
            histories = events_of(connection, [row.key for row in rows])
            written: list[AlertEvent] = []
            columns: list[dict[str, object]] = []
            for row in rows:
                history = histories.get(row.key, [])
                said = judge(history, None if undone is None else undone[key_of(row.key)])
                if said is None:
                    continue
                event = replace(_with_mark(said, row.mark), event_id=first + len(written), key=row.key)
                written.append(event)
                columns.append(_columns(event, row.run_id))
                connection.execute(
                    update(tables.alert)
                    .where(_alert.run_id == row.run_id, _alert.alert_id == key_of(row.key))
                    .values(**_standing(life([*history, event]), now))
                )
            if len(written) > 1:
                counter = tables.change_counter.c
                connection.execute(update(tables.change_counter).values(value=counter.value + len(written) - 1))
            if columns:
                connection.execute(insert(tables.alert_event), columns)
            told = [(each.key, each.change.value, each.at) for each in written if each.change is Change.RESOLVE]
            if told:
                enqueue_groups(connection, now, {group: told})
        return tuple(written)

    def change_thresholds(self, judge: Callable[[Sequence[ThresholdChange]], ThresholdChange]) -> ThresholdChange:
        """See `AlertStore.change_thresholds`."""
        with self._engine.begin() as connection:
            change_id = next_revision(connection)
            change = replace(judge(thresholds_of(connection)), change_id=change_id)
            connection.execute(
                insert(tables.threshold_change),
                {
                    "change_id": change_id, "at": change.at, "rule": change.rule, "project": keepable(change.project),
                    "said": json.dumps(dict(change.values)), "author": _kept(change.author),
                    "reason": _kept(change.reason), "undoes": change.undoes,
                },
            )  # fmt: skip
        return change


def _beside(connection: Connection, group: str, event_id: int) -> dict[int, int]:
    """Alert → its event, of everything that was done to a group with one action; of nothing else where it was none."""
    both = select(_event.alert_id, _event.event_id, _event.at, _event.change).join(
        tables.alert, (_alert.run_id == _event.run_id) & (_alert.alert_id == _event.alert_id)
    )
    mine = both.where(_alert.group_key == group)
    one = connection.execute(mine.where(_event.event_id == event_id)).first()
    if one is None:
        return {}
    found = connection.execute(mine.where(_event.at == one.at, _event.change == one.change))
    return {row.alert_id: row.event_id for row in found}


def thresholds_of(connection: Connection) -> tuple[ThresholdChange, ...]:
    """Every change of thresholds, oldest first."""
    return tuple(
        ThresholdChange(
            row.change_id, row.at, row.rule, row.project, tuple(json.loads(row.said).items()), row.author, row.reason,
            row.undoes,
        )
        for row in connection.execute(select(tables.threshold_change).order_by(_changes.change_id))
    )  # fmt: skip


def _with_mark(event: AlertEvent, mark: str | None) -> AlertEvent:
    """A resolution with what the alert rests on by now: only what comes after it opens the alert again."""
    return replace(event, mark=mark) if event.change is Change.RESOLVE else event


def _kept(text: str | None) -> str | None:
    return None if text is None else keepable(text)


def _columns(event: AlertEvent, run_id: int) -> dict[str, object]:
    return {
        "run_id": run_id,
        "event_id": event.event_id,
        "alert_id": key_of(event.key),
        "at": event.at,
        "change": event.change.value,
        "author": _kept(event.author),
        "reason": _kept(event.reason),
        "until": event.until,
        "undoes": event.undoes,
        "sentence": _kept(event.sentence),
        "mark": _kept(event.mark),
    }


def _standing(stands: Life, at: int) -> dict[str, object]:
    return {
        "is_firing": stands.is_firing,
        "is_resolved": stands.is_resolved,
        "is_acknowledged": stands.is_acknowledged,
        "silenced_until": stands.silenced_until,
        "changed_at": at if stands.changed_at is None else stands.changed_at,
    }


_Known = tuple[int | None, str, dict[str, object] | None]


def _absent(connection: Connection, keys: Sequence[str]) -> dict[str, _Known]:
    """Since when each condition is gone, and what is written down of the alert."""
    by_id = {key_of(key): key for key in keys}
    found: dict[str, _Known] = {}
    for some in portions(sorted(by_id)):
        for row in connection.execute(select(tables.alert).where(_alert.alert_id.in_(some))):
            stated = {name: getattr(row, name) for name in STATED}
            found[by_id[row.alert_id]] = (row.absent_since, row.group_key, stated)
    return found


def _problems(connection: Connection, incidents: Sequence[str | None]) -> dict[str, str]:
    """The problems of incidents."""
    wanted = sorted({each for each in incidents if each is not None})
    found: dict[str, str] = {}
    for some in portions(wanted):
        rows = connection.execute(
            select(_incident.incident_id, _incident.problem_id).where(_incident.incident_id.in_(some))
        )
        found.update({row.incident_id: row.problem_id for row in rows if row.problem_id is not None})
    return found


def _row(
    each: Looked, stands: Life, absent_since: int | None, problems: dict[str, str], known: _Known | None
) -> dict[str, object]:
    finding = each.finding
    if finding is not None:
        problem = problems.get(finding.incident_id or "")
        stated: dict[str, object] = {
            "sentence": keepable(finding.sentence),
            "mark": keepable(finding.mark),
            "severity": finding.severity.value,
            "group_key": f"problem:{problem}" if problem else f"rule:{each.rule}",
            "problem_id": problem,
            "incident_id": _kept(finding.incident_id),
            "node": _kept(finding.node),
            "since": finding.since,
        }
    elif known is not None and known[2] is not None:
        stated = known[2]
    else:
        rule = rules().get(each.rule)
        stated = {
            "sentence": "", "mark": None, "severity": "notice" if rule is None else rule.severity.value,
            "group_key": f"rule:{each.rule}", "problem_id": None, "incident_id": None, "node": None, "since": None,
        }  # fmt: skip
    return {
        "run_id": key_of(each.run), "alert_id": key_of(each.key), "key": keepable(each.key), "rule": each.rule,
        "run": keepable(each.run), "subject": keepable(each.subject), "seen_at": each.at, "absent_since": absent_since,
        **stated, **_standing(stands, each.at),
    }  # fmt: skip
