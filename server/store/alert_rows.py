"""Alert rows: what the store keeps and gives of alerts, thresholds, channels and messages, and what it promises.

Promises
- What rules saw and the messages that follow from it are written in one transaction: who is killed after it has lost
  nothing, who is killed before it has told nobody of what is not there.
- An event is judged under a lock against every event of its alert before it, is durable when it is answered, and is
  never edited. Deriving runs anew touches none.
- A message is delivered at least once. Two deliverers never have it at one time, until the claim of one runs out.
- A secret is given to who delivers (`channel_secrets`), and to nobody else.
- Where the store has a `Sealing`, addresses and secrets are sealed as they are written. What was written before stays
  in clear until `reseal`; what no key opens makes its channel `is_locked`, and nothing is sent to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from rerail.server.core.alert_life import AlertEvent, Life
from rerail.server.core.alert_rules import Finding
from rerail.server.core.stakes import Stake
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.core.view import RunView
from rerail.server.query_results import RunRow


class AlertRow(NamedTuple):
    """An alert as lists need it."""

    alert_id: int
    key: str
    rule: str
    run: str
    subject: str
    severity: str
    group_key: str
    problem_id: str | None
    incident_id: str | None
    node: str | None
    sentence: str
    since: int | None
    seen_at: int
    absent_since: int | None
    is_firing: bool
    is_resolved: bool
    is_acknowledged: bool
    silenced_until: int | None
    changed_at: int
    mark: str | None = None
    """What the newest finding rests on; None where it was last seen by a version that did not keep it."""


class Asked(NamedTuple):
    """Which alerts are asked for: all of these hold."""

    standing: str | None = None
    search: str = ""
    """Words, each in the run, its name, the rule or the sentence."""
    run: str | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether anything is asked for at all."""
        return bool(self.standing or self.search.split() or self.run)


EVERYTHING = Asked()


class Looked(NamedTuple):
    """One alert, looked at once."""

    key: str
    run: str
    rule: str
    subject: str
    at: int
    """The instant the run was looked at."""
    finding: Finding | None
    is_over: bool
    """The run ended."""


class ChannelRow(NamedTuple):
    """Where messages go."""

    channel_id: int
    name: str
    kind: str
    address: str
    """Of a webhook or an Alertmanager its URL, of Apprise its whole address: may hold secrets. See `masked`."""
    has_secret: bool
    is_on: bool
    created_at: int
    created_by: str | None
    secret_end: str | None = None
    """The last characters of a long secret (of Apprise: of the address): enough to tell two apart."""
    is_sealed: bool = False
    """Its address and secret are sealed in the database."""
    is_locked: bool = False
    """No key that this server has opens them: the address is empty."""


class Resealed(NamedTuple):
    """What sealing anew came to."""

    sealed: int
    locked: tuple[str, ...]
    """Channels that no key opens, by name; they stay as they are."""


class MessageRow(NamedTuple):
    """A message that waits, was sent, or was given up."""

    message_id: int
    channel_id: int
    group_key: str
    state: str
    """`waiting`, `sent` or `dead`."""
    created_at: int
    due_at: int
    tries: int
    finished_at: int | None
    error: str | None
    entries: tuple[tuple[str, str, int], ...]
    """`(alert key, change, at)`, the latest change of each."""
    count: int
    """Alerts it is about, those without an entry among them."""


class FaultSums(NamedTuple):
    """Unplanned incidents that began in a range, of one cause and scope."""

    cause: str
    scope: str | None
    incidents: int
    lost_gpu_ms: int | None
    recover_ns: tuple[int, ...]
    """Of those that recovered, ascending."""


MOST_WEIGHED = 2000

REASONS = ("alert", "stalled", "silent")
"""Why a run needs a person, the most urgent first."""


class WantingRow(NamedTuple):
    """A run that needs a person, and why."""

    run: RunRow
    reason: str
    """One of `REASONS`."""
    alerts: tuple[AlertRow, ...]
    """Its open ones, urgent ones first."""
    stake: Stake
    """What it loses just now."""


class AlertStore(Protocol):
    """See the promises above."""

    def seen(self) -> int:
        """Revision of views up to which runs were looked at."""

    def views_since(self, revision: int, limit: int, ended_since: int) -> tuple[int, int, Iterator[RunView]]:
        """Up to `limit` runs saved after a revision that did not end before an instant.

        Gives the revision up to which that is everything, how many runs there are, and their views, oldest first, each
        made when it is taken. A run that could not be derived counts and has no view.
        """

    def views_of(self, runs: Sequence[str], ended_since: int) -> Iterator[RunView]:
        """Views of these runs as they are saved, without those that ended before an instant."""

    def lapsed(self, now: int, ended_since: int) -> tuple[str, ...]:
        """Ended runs with alerts that time alone changes: a silence is over, or the run ended before an instant."""

    def blaming(self, nodes: Sequence[str]) -> dict[str, frozenset[str]]:
        """Node → the runs that blame it for a fault that is not the workload's."""

    def firing(self, runs: Sequence[str]) -> tuple[AlertRow, ...]:
        """Alerts of these runs whose condition holds, as far as it is written down."""

    def alerts(self, keys: Sequence[str]) -> dict[str, tuple[AlertRow, Life]]:
        """Alerts by their keys, and how each stands."""

    def record(self, seen_before: int, seen: int, looked: Sequence[Looked], now: int) -> tuple[AlertEvent, ...] | None:
        """Write down what looking came to, and the messages that follow; None where somebody else looked meanwhile."""

    def act(self, key: str, judge: Callable[[Sequence[AlertEvent]], AlertEvent], now: int) -> AlertEvent:
        """Add the event that `judge` makes of all before it. Raises KeyError for an alert that is not known."""

    def act_on_group(
        self,
        group: str,
        judge: Callable[[Sequence[AlertEvent], int | None], AlertEvent | None],
        undoes: int | None,
        now: int,
        asked: Asked = EVERYTHING,
    ) -> tuple[AlertEvent, ...]:
        """Add what `judge` makes of every alert of a group that is not resolved, all or nothing; None leaves one alone.

        Of the group those that are `asked` for. With `undoes`, the number of an event, it is asked of the alerts that
        the same action touched, whatever is asked for, and told which event of each that was. Raises KeyError for a
        group that no alert belongs to.
        """

    def groups(self, groups: Sequence[str], now: int, asked: Asked = EVERYTHING) -> dict[str, dict[str, int]]:
        """Group → standing → how many of its alerts stand so, of those asked for; without those resolved."""

    def names(self, runs: Sequence[str]) -> dict[str, str]:
        """Run → its name, of those that have another than their id."""

    def rows(
        self, standing: str | None, search: str, run: str | None, now: int, offset: int, limit: int
    ) -> tuple[tuple[AlertRow, ...], int]:
        """Alerts that stand so, and how many there are: open ones first, urgent ones of these, what changed last."""

    def wanting(self, now: int, limit: int) -> tuple[tuple[WantingRow, ...], int]:
        """The first runs that need a person, and how many do.

        Those that lose most come first (`core/stakes.py`); where that is equal those with open alerts, urgent ones
        before others, then those that stall, then the silent ones. Of more than `MOST_WEIGHED` the first in that latter
        order are weighed.
        """

    def standings(self, now: int) -> dict[str, int]:
        """How many alerts stand how."""

    def open_by_rule(self, now: int) -> dict[tuple[str, str], int]:
        """`(rule, severity)` → open alerts."""

    def events(self, key: str) -> tuple[AlertEvent, ...]:
        """Everything that happened to an alert, oldest first."""

    def events_of_run(self, run: str) -> dict[str, tuple[AlertEvent, ...]]:
        """Key → everything that happened to it, of every alert of a run."""

    def thresholds(self) -> tuple[ThresholdChange, ...]:
        """Every change of thresholds, oldest first."""

    def change_thresholds(self, judge: Callable[[Sequence[ThresholdChange]], ThresholdChange]) -> ThresholdChange:
        """Add the change that `judge` makes of all before it."""

    def channels(self) -> tuple[ChannelRow, ...]:
        """Every channel, by name."""

    def channel_secrets(self) -> dict[int, str]:
        """Secrets by channel, for who delivers; without those that no key opens (`ChannelRow.is_locked`)."""

    @property
    def is_sealing(self) -> bool:
        """Whether what is written now is sealed."""

    def reseal(self, *, everything: bool) -> Resealed:
        """Seal what lies in clear; with `everything` also what is sealed, with the newest key."""

    def put_channel(self, row: ChannelRow, secret: str | None) -> ChannelRow:
        """Add a channel (id 0) or change one; a secret of None keeps the one that is there."""

    def drop_channel(self, channel_id: int) -> bool:
        """Remove a channel and what waits for it; False where there is none."""

    def enqueue(self, channel_id: int, group_key: str, entries: Sequence[tuple[str, str, int]], now: int) -> int:
        """A message by itself, due at once; its number."""

    def claim(self, now: int, lease_ns: int, busy: Sequence[int]) -> tuple[MessageRow, ...]:
        """One due message of every channel that is on and not busy; nobody else gets them before the lease is over."""

    def finish(self, message_id: int, now: int, error: str | None, again_at: int | None) -> None:
        """It was sent; or, with an error, is tried again at an instant; or never again."""

    def messages(self, state: str | None, limit: int) -> tuple[MessageRow, ...]:
        """Messages, newest first."""

    def revive(self, message_id: int, now: int) -> bool:
        """Try a dead message again; False where there is none."""

    def faults_between(self, start: int, end: int) -> tuple[FaultSums, ...]:
        """Unplanned incidents that began in `[start, end)`, by cause and scope."""

    def faults_by_cause(self) -> dict[str, int]:
        """Unplanned incidents ever, by cause."""

    def intake(self) -> Mapping[str, int]:
        """Facts accepted, duplicates and refused lines, ever."""
