"""Alert messages: what waits to be told, by channel and group.

Rules
- What happens to one group while a message of it waits goes into that message. The first one waits `GROUP_WAIT` for
  others; the next one of the group comes `GROUP_INTERVAL` after it at the earliest. The first word of something urgent
  does not wait for that behind what was not.
- Where more than `MOST_GROUPS` groups have something to tell at once it is a storm, and one message tells of all.
- A message names `MOST_ENTRIES` alerts at most, and how many it is about.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, Engine, bindparam, func, insert, select, update

from rerail.server.core.alert_life import Change
from rerail.server.core.alert_rules import Severity
from rerail.server.core.alerts import rules
from rerail.server.store import tables
from rerail.server.store.alert_rows import MessageRow
from rerail.server.store.append import keepable
from rerail.server.store.derived import next_revision

SECOND = 1_000_000_000
GROUP_WAIT = SECOND
GROUP_INTERVAL = 300 * SECOND
MOST_GROUPS = 20
MOST_ENTRIES = 1000
STORM = "storm"

Entry = tuple[str, str, int]
"""`(alert key, change, at)`."""

_message, _channel = tables.alert_message.c, tables.alert_channel.c
_WAITING = (
    select(_message.message_id, _message.document, _message.due_at)
    .where(
        _message.channel_id == bindparam("channel"),
        _message.group_key == bindparam("group"),
        _message.state == "waiting",
        _message.tries == 0,
        _message.claimed_until <= bindparam("now"),
    )
    .order_by(_message.message_id.desc())
    .limit(1)
)
_LAST = select(func.max(_message.due_at)).where(
    _message.channel_id == bindparam("channel"), _message.group_key == bindparam("group")
)

_TOLD = select(_message.document).where(
    _message.channel_id == bindparam("channel"),
    _message.group_key == bindparam("group"),
    _message.created_at >= bindparam("since"),
    (_message.state != "waiting") | (_message.tries > 0) | (_message.claimed_until > 0),
)


class Document(msgspec.Struct):
    """What a message is about."""

    entries: list[Entry]
    count: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Document).decode


def enqueue_groups(connection: Connection, now: int, groups: dict[str, list[Entry]]) -> None:
    """Put what happened, by group, into the messages of every channel that is on."""
    channels = list(connection.execute(select(_channel.channel_id).where(_channel.is_on)).scalars())
    if not channels or not groups:
        return
    if len(groups) > MOST_GROUPS:
        groups = {STORM: [entry for entries in groups.values() for entry in entries]}
    for channel in channels:
        for group, entries in groups.items():
            _put(connection, channel, group, entries, now)


def _put(connection: Connection, channel: int, group: str, entries: list[Entry], now: int) -> None:
    asked = {"channel": channel, "group": group, "now": now}
    waiting = connection.execute(_WAITING, asked).one_or_none()
    last = connection.execute(_LAST, {"channel": channel, "group": group}).scalar_one()
    due = now + GROUP_WAIT if last is None else max(now + GROUP_WAIT, last + GROUP_INTERVAL)
    if any(map(_is_urgent, entries)) and not _was_urgent(connection, channel, group, now):
        due = now + GROUP_WAIT
    if waiting is not None:
        merged = _merged(_decode(waiting.document), entries)
        changed = connection.execute(
            update(tables.alert_message)
            .where(_message.message_id == waiting.message_id, _message.claimed_until <= now, _message.tries == 0)
            .values(document=_encode(merged), due_at=min(due, waiting.due_at))
        )
        if changed.rowcount:
            return
    _insert(connection, channel, group, _merged(Document([], 0), entries), now, due)


def _is_urgent(entry: Entry) -> bool:
    """Something urgent was seen."""
    key, change, _ = entry
    rule = rules().get(key.partition(":")[0])
    return change == Change.FIRED.value and rule is not None and rule.severity is Severity.URGENT


def _was_urgent(connection: Connection, channel: int, group: str, now: int) -> bool:
    """Whether a message of the group, told within the interval, was about something urgent."""
    told = connection.execute(_TOLD, {"channel": channel, "group": group, "since": now - GROUP_INTERVAL}).scalars()
    return any(_is_urgent(entry) for document in told for entry in _decode(document).entries)


def _merged(document: Document, entries: Sequence[Entry]) -> Document:
    """The latest change of each alert; beyond the most there may be, only the count grows."""
    by_key = {entry[0]: entry for entry in document.entries}
    count = document.count
    for entry in entries:
        count += entry[0] not in by_key
        if entry[0] in by_key or len(by_key) < MOST_ENTRIES:
            by_key[entry[0]] = entry
    return Document(list(by_key.values()), count)


def _insert(connection: Connection, channel: int, group: str, document: Document, now: int, due: int) -> int:
    message_id = next_revision(connection)
    connection.execute(
        insert(tables.alert_message),
        {
            "message_id": message_id, "channel_id": channel, "group_key": group, "state": "waiting", "created_at": now,
            "due_at": due, "claimed_until": 0, "tries": 0, "document": _encode(document),
        },
    )  # fmt: skip
    return message_id


class AlertMessages:
    """Messages of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def enqueue(self, channel_id: int, group_key: str, entries: Sequence[Entry], now: int) -> int:
        """See `AlertStore.enqueue`."""
        with self._write.begin() as connection:
            return _insert(connection, channel_id, group_key, Document(list(entries), len(entries)), now, now)

    def claim(self, now: int, lease_ns: int, busy: Sequence[int]) -> tuple[MessageRow, ...]:
        """See `AlertStore.claim`."""
        due = (
            select(_message.channel_id, func.min(_message.due_at).label("due"))
            .join(tables.alert_channel, _channel.channel_id == _message.channel_id)
            .where(_message.state == "waiting", _message.due_at <= now, _message.claimed_until <= now)
            .group_by(_message.channel_id)
        )
        with self._read.connect() as connection:
            wanted = [row.channel_id for row in connection.execute(due) if row.channel_id not in busy]
        if not wanted:
            return ()
        claimed = []
        with self._write.begin() as connection:
            for channel in wanted:
                first = (
                    select(_message.message_id)
                    .where(_message.channel_id == channel, _message.state == "waiting", _message.due_at <= now,
                           _message.claimed_until <= now)
                    .order_by(_message.due_at, _message.message_id)
                    .limit(1)
                    .scalar_subquery()
                )  # fmt: skip
                row = connection.execute(
                    update(tables.alert_message)
                    .where(_message.message_id == first, _message.claimed_until <= now)
                    .values(claimed_until=now + lease_ns, tries=_message.tries + 1)
                    .returning(*tables.alert_message.c)
                ).one_or_none()
                if row is not None:
                    claimed.append(_row(row))
        return tuple(claimed)

    def finish(self, message_id: int, now: int, error: str | None, again_at: int | None) -> None:
        """See `AlertStore.finish`."""
        if error is None:
            values = {"state": "sent", "finished_at": now, "error": None, "claimed_until": 0}
        elif again_at is None:
            values = {"state": "dead", "finished_at": now, "error": keepable(error)[:2000], "claimed_until": 0}
        else:
            values = {"due_at": again_at, "error": keepable(error)[:2000], "claimed_until": 0}
        with self._write.begin() as connection:
            connection.execute(
                update(tables.alert_message)
                .where(_message.message_id == message_id, _message.state == "waiting")
                .values(**values)
            )

    def messages(self, state: str | None, limit: int) -> tuple[MessageRow, ...]:
        """See `AlertStore.messages`."""
        wanted = select(tables.alert_message).order_by(_message.message_id.desc()).limit(limit)
        if state is not None:
            wanted = wanted.where(_message.state == state)
        with self._read.connect() as connection:
            return tuple(_row(row) for row in connection.execute(wanted))

    def revive(self, message_id: int, now: int) -> bool:
        """See `AlertStore.revive`."""
        with self._write.begin() as connection:
            done = connection.execute(
                update(tables.alert_message)
                .where(_message.message_id == message_id, _message.state == "dead")
                .values(state="waiting", due_at=now, tries=0, claimed_until=0, finished_at=None)
            )
            return bool(done.rowcount)


def _row(row) -> MessageRow:
    document = _decode(row.document)
    return MessageRow(
        row.message_id, row.channel_id, row.group_key, row.state, row.created_at, row.due_at, row.tries,
        row.finished_at, row.error, tuple(map(tuple, document.entries)), document.count,
    )  # fmt: skip
