"""The alert store in SQL; see the promises in `alert_rows.py`. This file says which part answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlalchemy import Engine

from rerail.server.core.alert_life import AlertEvent, Life
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.core.view import RunView
from rerail.server.store import Sealing, engines
from rerail.server.store.alert_channels import AlertChannels
from rerail.server.store.alert_messages import AlertMessages, Entry
from rerail.server.store.alert_reading import AlertReader
from rerail.server.store.alert_rows import (
    EVERYTHING,
    AlertRow,
    Asked,
    ChannelRow,
    FaultSums,
    Looked,
    MessageRow,
    Resealed,
    WantingRow,
)
from rerail.server.store.alert_writing import AlertWriter, GroupJudge


class SqlAlertStore:
    """Alerts of one database."""

    def __init__(self, write: Engine, read: Engine, sealing: Sealing | None = None) -> None:
        self._reader = AlertReader(read)
        self._writer = AlertWriter(write)
        self._messages = AlertMessages(write, read)
        self._channels = AlertChannels(write, read, sealing)

    def seen(self) -> int:
        """Revision up to which runs were looked at."""
        with engines.answering():
            return self._reader.seen()

    def views_since(self, revision: int, limit: int, ended_since: int) -> tuple[int, int, Iterator[RunView]]:
        """Views saved after a revision."""
        with engines.answering():
            return self._reader.views_since(revision, limit, ended_since)

    def views_of(self, runs: Sequence[str], ended_since: int) -> Iterator[RunView]:
        """Views of these runs."""
        with engines.answering():
            return self._reader.views_of(runs, ended_since)

    def lapsed(self, now: int, ended_since: int) -> tuple[str, ...]:
        """Ended runs whose alerts time alone changes."""
        with engines.answering():
            return self._reader.lapsed(now, ended_since)

    def blaming(self, nodes: Sequence[str]) -> dict[str, frozenset[str]]:
        """Runs that blame nodes."""
        with engines.answering():
            return self._reader.blaming(nodes)

    def firing(self, runs: Sequence[str]) -> tuple[AlertRow, ...]:
        """Alerts of these runs whose condition holds."""
        with engines.answering():
            return self._reader.firing(runs)

    def alerts(self, keys: Sequence[str]) -> dict[str, tuple[AlertRow, Life]]:
        """Alerts by their keys."""
        with engines.answering():
            return self._reader.alerts(keys)

    def record(self, seen_before: int, seen: int, looked: Sequence[Looked], now: int) -> tuple[AlertEvent, ...] | None:
        """Write down what looking came to."""
        with engines.answering():
            return self._writer.record(seen_before, seen, looked, now)

    def act(self, key: str, judge: Callable[[Sequence[AlertEvent]], AlertEvent], now: int) -> AlertEvent:
        """Add what somebody did."""
        with engines.answering():
            return self._writer.act(key, judge, now)

    def act_on_group(
        self, group: str, judge: GroupJudge, undoes: int | None, now: int, asked: Asked = EVERYTHING
    ) -> tuple[AlertEvent, ...]:
        """Add what somebody did to a group."""
        with engines.answering():
            return self._writer.act_on_group(group, judge, undoes, now, asked)

    def groups(self, groups: Sequence[str], now: int, asked: Asked = EVERYTHING) -> dict[str, dict[str, int]]:
        """How the alerts of groups stand."""
        with engines.answering():
            return self._reader.groups(groups, now, asked)

    def names(self, runs: Sequence[str]) -> dict[str, str]:
        """Names of runs."""
        with engines.answering():
            return self._reader.names(runs)

    def rows(
        self, standing: str | None, search: str, run: str | None, now: int, offset: int, limit: int
    ) -> tuple[tuple[AlertRow, ...], int]:
        """Alerts that stand so."""
        with engines.answering():
            return self._reader.rows(standing, search, run, now, offset, limit)

    def wanting(self, now: int, limit: int) -> tuple[tuple[WantingRow, ...], int]:
        """Runs that need a person."""
        with engines.answering():
            return self._reader.wanting(now, limit)

    def standings(self, now: int) -> dict[str, int]:
        """How many alerts stand how."""
        with engines.answering():
            return self._reader.standings(now)

    def open_by_rule(self, now: int) -> dict[tuple[str, str], int]:
        """Open alerts by rule and severity."""
        with engines.answering():
            return self._reader.open_by_rule(now)

    def events(self, key: str) -> tuple[AlertEvent, ...]:
        """Everything that happened to an alert."""
        with engines.answering():
            return self._reader.events(key)

    def events_of_run(self, run: str) -> dict[str, tuple[AlertEvent, ...]]:
        """Everything that happened to the alerts of a run."""
        with engines.answering():
            return self._reader.events_of_run(run)

    def thresholds(self) -> tuple[ThresholdChange, ...]:
        """Every change of thresholds."""
        with engines.answering():
            return self._reader.thresholds()

    def change_thresholds(self, judge: Callable[[Sequence[ThresholdChange]], ThresholdChange]) -> ThresholdChange:
        """Add a change of thresholds."""
        with engines.answering():
            return self._writer.change_thresholds(judge)

    def channels(self) -> tuple[ChannelRow, ...]:
        """Every channel."""
        with engines.answering():
            return self._channels.channels()

    def channel_secrets(self) -> dict[int, str]:
        """Secrets by channel."""
        with engines.answering():
            return self._channels.channel_secrets()

    @property
    def is_sealing(self) -> bool:
        """Whether secrets are sealed."""
        return self._channels.is_sealing

    def reseal(self, *, everything: bool) -> Resealed:
        """Seal what is kept."""
        with engines.answering():
            return self._channels.reseal(everything=everything)

    def put_channel(self, row: ChannelRow, secret: str | None) -> ChannelRow:
        """Add or change a channel."""
        with engines.answering():
            return self._channels.put_channel(row, secret)

    def drop_channel(self, channel_id: int) -> bool:
        """Remove a channel."""
        with engines.answering():
            return self._channels.drop_channel(channel_id)

    def enqueue(self, channel_id: int, group_key: str, entries: Sequence[Entry], now: int) -> int:
        """A message by itself."""
        with engines.answering():
            return self._messages.enqueue(channel_id, group_key, entries, now)

    def claim(self, now: int, lease_ns: int, busy: Sequence[int]) -> tuple[MessageRow, ...]:
        """Due messages, one of a channel."""
        with engines.answering():
            return self._messages.claim(now, lease_ns, busy)

    def finish(self, message_id: int, now: int, error: str | None, again_at: int | None) -> None:
        """What became of a delivery."""
        with engines.answering():
            self._messages.finish(message_id, now, error, again_at)

    def messages(self, state: str | None, limit: int) -> tuple[MessageRow, ...]:
        """Messages, newest first."""
        with engines.answering():
            return self._messages.messages(state, limit)

    def revive(self, message_id: int, now: int) -> bool:
        """Try a dead message again."""
        with engines.answering():
            return self._messages.revive(message_id, now)

    def faults_between(self, start: int, end: int) -> tuple[FaultSums, ...]:
        """Unplanned incidents of a range."""
        with engines.answering():
            return self._reader.faults_between(start, end)

    def faults_by_cause(self) -> dict[str, int]:
        """Unplanned incidents ever."""
        with engines.answering():
            return self._reader.faults_by_cause()

    def intake(self) -> Mapping[str, int]:
        """Facts and refused lines, ever."""
        with engines.answering():
            return self._reader.intake()
