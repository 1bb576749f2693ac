"""Alert channels: where messages go, with addresses and secrets sealed where there is a key."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, Row, delete, insert, select, update

from rerail.server.store import SEALED, Sealing, tables
from rerail.server.store.alert_rows import ChannelRow, Resealed
from rerail.server.store.derived import next_revision

SHOWN = 4
"""Characters of the end of a secret that are shown, of one that is at least `LONG_ENOUGH`."""

LONG_ENOUGH = 16
_message, _channel = tables.alert_message.c, tables.alert_channel.c


class AlertChannels:
    """Channels of one database."""

    def __init__(self, write: Engine, read: Engine, sealing: Sealing | None) -> None:
        self._write = write
        self._read = read
        self._sealing = sealing

    @property
    def is_sealing(self) -> bool:
        """See `AlertStore.is_sealing`."""
        return self._sealing is not None

    def channels(self) -> tuple[ChannelRow, ...]:
        """See `AlertStore.channels`."""
        with self._read.connect() as connection:
            return tuple(map(self._row, _stored(connection)))

    def channel_secrets(self) -> dict[int, str]:
        """See `AlertStore.channel_secrets`."""
        with self._read.connect() as connection:
            opened = {row.channel_id: self._opened(row.secret) for row in _stored(connection)}
        return {channel_id: secret for channel_id, secret in opened.items() if secret is not None}

    def put_channel(self, row: ChannelRow, secret: str | None) -> ChannelRow:
        """See `AlertStore.put_channel`."""
        values = {"name": row.name, "kind": row.kind, "address": self._kept(row.address), "is_on": row.is_on}
        if secret is not None:
            values["secret"] = self._kept(secret)
        with self._write.begin() as connection:
            if row.channel_id == 0:
                channel_id = next_revision(connection)
                more = {"channel_id": channel_id, "created_at": row.created_at, "created_by": row.created_by}
                connection.execute(insert(tables.alert_channel), {**values, **more})
            else:
                channel_id = row.channel_id
                connection.execute(
                    update(tables.alert_channel).where(_channel.channel_id == channel_id).values(**values)
                )
            written = select(tables.alert_channel).where(_channel.channel_id == channel_id)
            stored = connection.execute(written).one_or_none()
        # Somebody else may have removed it meanwhile: then it is as it was said to be.
        return row if stored is None else self._row(stored)

    def drop_channel(self, channel_id: int) -> bool:
        """See `AlertStore.drop_channel`."""
        with self._write.begin() as connection:
            gone = connection.execute(delete(tables.alert_channel).where(_channel.channel_id == channel_id))
            connection.execute(
                delete(tables.alert_message).where(_message.channel_id == channel_id, _message.state == "waiting")
            )
            return bool(gone.rowcount)

    def reseal(self, *, everything: bool) -> Resealed:
        """See `AlertStore.reseal`."""
        sealed, locked = 0, []
        if self._sealing is None:
            return Resealed(0, ())
        with self._write.begin() as connection:
            next_revision(connection)  # Nobody changes a channel between reading and writing it.
            for row in _stored(connection):
                if _is_sealed(row) and not everything:
                    continue
                if self._is_locked(row):
                    locked.append(row.name)
                    continue
                connection.execute(
                    update(tables.alert_channel)
                    .where(_channel.channel_id == row.channel_id)
                    .values(address=self._again(row.address), secret=self._again(row.secret))
                )
                sealed += 1
        return Resealed(sealed, tuple(locked))

    def _again(self, kept: str | None) -> str | None:
        opened = self._opened(kept)
        return None if opened is None else self._kept(opened)

    def _kept(self, text: str) -> str:
        return text if self._sealing is None else self._sealing.sealed(text)

    def _opened(self, kept: str | None) -> str | None:
        if kept is None or not kept.startswith(SEALED):
            return kept
        return None if self._sealing is None else self._sealing.opened(kept)

    def _is_locked(self, row: Row) -> bool:
        return any(kept is not None and self._opened(kept) is None for kept in (row.address, row.secret))

    def _row(self, row: Row) -> ChannelRow:
        is_locked = self._is_locked(row)
        address = "" if is_locked else self._opened(row.address) or ""
        told = address if row.kind == "apprise" else self._opened(row.secret)
        end = told[-SHOWN:] if told is not None and len(told) >= LONG_ENOUGH and not is_locked else None
        return ChannelRow(
            row.channel_id, row.name, row.kind, address, row.secret is not None, row.is_on, row.created_at,
            row.created_by, end, _is_sealed(row), is_locked,
        )  # fmt: skip


def _stored(connection: Connection) -> list[Row]:
    return list(connection.execute(select(tables.alert_channel).order_by(_channel.name, _channel.channel_id)))


def _is_sealed(row: Row) -> bool:
    return all(kept is None or kept.startswith(SEALED) for kept in (row.address, row.secret))
