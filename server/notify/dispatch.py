"""Dispatch: takes due messages out of the outbox and hands each to its channel, a thread for each channel.

Rules
- A channel that hangs or fails delays nobody else: it has one delivery under way at most, in a thread of its own.
- A failed delivery is tried again, later each time (5 s, 10 s, 20 s … an hour); after `MOST_TRIES` it is a dead letter
  that the alerts page shows and a person may revive.
- A channel that forgets (`FORGETFUL`) is told again of everything that stands, every `RENEW_NS`; between its messages,
  never beside one, so that the end of an alert is not overtaken by what was told before. What fails is told next time.
- A channel whose secrets no key of this server opens is told nothing, least of all unsigned: it fails like one that is
  away, so that what waits is sent once the key is there.
- What came of a delivery is written down until it stands in the database: while that is away or locked it is kept in
  memory and tried every round, before anything else is taken out. Nothing that was taken is sent again for that.
- A claim is a lease: when this process is killed under way, the message is delivered again when the lease is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rerail.server.errors import StoreAwayError
from rerail.server.notify import send
from rerail.server.notify.composing import message_of, standing_messages
from rerail.server.notify.messages import Channel, DeliveryError
from rerail.server.queries import Queries
from rerail.server.rounds import Rounds
from rerail.server.store import Store
from rerail.server.store.alert_rows import ChannelRow, MessageRow

logger = logging.getLogger(__name__)

SECOND = 10**9
LEASE_NS = 120 * SECOND
MOST_TRIES = 12
FIRST_PAUSE = 5 * SECOND
LONGEST_PAUSE = 3600 * SECOND
RENEW_NS = 300 * SECOND
RENEW_ASKED = SECOND
"""How often is asked whether it is time."""

FORGETFUL = frozenset({"alertmanager"})
IDLE_SECONDS = 0.3
LOCKED = "its address is sealed with a key that this server does not have: set RERAIL_SECRET_KEY, or give it again"


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a delivery."""

    at: int
    error: str | None
    """None where it was taken."""
    again: int | None
    """When to try again; None for never."""


def pause_ns(tries: int) -> int:
    """How long to wait after so many tries."""
    return min(LONGEST_PAUSE, FIRST_PAUSE << min(30, max(0, tries - 1)))


class Dispatch(Rounds):
    """Delivers the messages of one store."""

    def __init__(
        self, store: Store, queries: Queries, url: str | None = None, clock: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__("rerail-notify", IDLE_SECONDS, "messages could not be taken out of the outbox", 5)
        self._store = store
        self._queries = queries
        self._url = url
        self._clock = clock
        self._busy: dict[int, threading.Thread] = {}
        self._renewed: dict[int, int] = {}
        """When each forgetful channel was last told of everything."""
        self._asked_at = 0
        self._unwritten: dict[int, _Outcome] = {}
        """What came of deliveries, by message, that the store could not write down."""

    def work(self) -> bool:
        """Begin what is due; whether there was any."""
        has_more = bool(self.deliver_due())
        self.renew_due()
        return has_more

    def close(self) -> None:
        """Begin no delivery any more. One that hangs is left to its lease."""
        super().close()
        for thread in list(self._busy.values()):
            thread.join(1)
        try:
            self._write_down()
        except StoreAwayError as away:
            logger.warning("%s deliveries are not written down: %s", len(self._unwritten), away)

    def _write_down(self) -> None:
        """Write what could not be written before."""
        for message, outcome in list(self._unwritten.items()):
            self._store.alerts.finish(message, outcome.at, outcome.error, outcome.again)
            self._unwritten.pop(message, None)

    def deliver_due(self) -> int:
        """Begin the deliveries that are due; how many were begun."""
        self._busy = {channel: thread for channel, thread in self._busy.items() if thread.is_alive()}
        self._write_down()  # After looking who is busy: what one leaves behind later keeps its channel busy till then.
        rows = self._store.alerts.claim(self._clock(), LEASE_NS, tuple(self._busy))
        if not rows:
            return 0
        channels = {row.channel_id: row for row in self._store.alerts.channels()}
        for row in rows:
            channel = channels.get(row.channel_id)
            if channel is None or (not channel.is_on and row.group_key != "test"):
                # A channel that is off keeps its tests only; what else waits for it is given up, and shown.
                self._store.alerts.finish(row.message_id, self._clock(), "the channel is off", None)
                continue
            self._begin(channel, self._deliver, channel, row)
        return len(rows)

    def _begin(self, channel: ChannelRow, act: Callable[..., None], *said: object) -> None:
        name = f"rerail-notify-{channel.channel_id}"
        thread = threading.Thread(target=act, args=said, name=name, daemon=True)
        self._busy[channel.channel_id] = thread
        thread.start()

    def renew_due(self) -> int:
        """Begin to tell forgetful channels of everything that stands, where it is time; how many were begun."""
        now = self._clock()
        if now - self._asked_at < RENEW_ASKED:
            return 0
        self._asked_at = now
        begun = 0
        for channel in self._store.alerts.channels():
            is_due = now - self._renewed.get(channel.channel_id, 0) >= RENEW_NS
            thread = self._busy.get(channel.channel_id)
            is_busy = thread is not None and thread.is_alive()
            is_able = channel.is_on and not channel.is_locked and channel.kind in FORGETFUL
            if not is_able or not is_due or is_busy:
                continue
            self._renewed[channel.channel_id] = now
            self._begin(channel, self._renew, channel)
            begun += 1
        return begun

    def wait(self, seconds: float) -> None:
        """Until the deliveries under way are over, or so long."""
        until = time.monotonic() + seconds
        for thread in list(self._busy.values()):
            thread.join(max(0.0, until - time.monotonic()))

    def _deliver(self, channel: ChannelRow, row: MessageRow) -> None:
        try:
            secret = self._store.alerts.channel_secrets().get(channel.channel_id)
            if channel.is_locked:
                self._finish(channel, row, LOCKED)
                return
            message = message_of(self._store, self._queries, row, self._url)
            if row.entries and not message.told:
                self._settle(row, self._clock(), "its alerts are not known any more", None)
                return
            error = None
            try:
                send(Channel(channel.channel_id, channel.name, channel.kind, channel.address, secret), message)
            except DeliveryError as failed:
                error = str(failed)
            self._finish(channel, row, error)
        except StoreAwayError as away:
            logger.warning("the database is away: %s", away)
        except Exception as bug:
            # What a client library raises may hold the address: its type is enough here.
            logger.error("channel %s: message %s failed: %s", channel.name, row.message_id, type(bug).__name__)
            self._finish(channel, row, type(bug).__name__)

    def _renew(self, row: ChannelRow) -> None:
        try:
            secret = self._store.alerts.channel_secrets().get(row.channel_id)
            channel = Channel(row.channel_id, row.name, row.kind, row.address, secret)
            for message in standing_messages(self._store, self._queries, self._url, self._clock()):
                send(channel, message)
        except (DeliveryError, StoreAwayError) as failed:
            logger.warning("channel %s could not be told of what stands: %s", row.name, failed)
        except Exception as bug:
            logger.error("channel %s could not be told of what stands: %s", row.name, type(bug).__name__)

    def _finish(self, channel: ChannelRow, row: MessageRow, error: str | None) -> None:
        now = self._clock()
        again = None if error is None or row.tries >= MOST_TRIES else now + pause_ns(row.tries)
        if error is not None:
            logger.warning("channel %s: message %s: %s (try %s)", channel.name, row.message_id, error, row.tries)
        self._settle(row, now, error, again)

    def _settle(self, row: MessageRow, at: int, error: str | None, again: int | None) -> None:
        try:
            self._store.alerts.finish(row.message_id, at, error, again)
        except StoreAwayError as away:
            logger.warning("message %s: what came of it is written down later: %s", row.message_id, away)
            self._unwritten[row.message_id] = _Outcome(at, error, again)
