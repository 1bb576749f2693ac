"""Queries about alerts: what stands how, what happened to each, which thresholds hold, what others would find."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from rerail.server.core.alert_life import AlertEvent, Life, Standing, episodes, undone
from rerail.server.core.alert_rules import AlertRule, Severity
from rerail.server.core.alerts import in_force, rules
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.core.threshold_changes import in_force as overrides_of
from rerail.server.core.threshold_changes import undone as undone_changes
from rerail.server.errors import NotFoundError
from rerail.server.query_dry_runs import DryRun, DryRuns, dry_run
from rerail.server.query_results import AlertMark
from rerail.server.store import Store
from rerail.server.store.alert_rows import AlertRow, Asked, ChannelRow, MessageRow


@dataclass(frozen=True, slots=True)
class AlertEntry:
    """An alert as a list shows it."""

    row: AlertRow
    standing: Standing
    run_name: str | None = None
    """None where the run has no other name than its id."""


@dataclass(frozen=True, slots=True)
class AlertPage:
    """Alerts that match; `standings` counts all there are."""

    rows: tuple[AlertEntry, ...]
    total: int
    standings: tuple[tuple[str, int], ...]
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of every group in `rows`: standing → how many of its alerts that match stand so, without those resolved."""


@dataclass(frozen=True, slots=True)
class AlertHistoryEntry:
    """One event, and whether it holds."""

    event: AlertEvent
    is_undone: bool


@dataclass(frozen=True, slots=True)
class AlertView:
    """One alert with everything that happened to it."""

    row: AlertRow
    standing: Standing
    life: Life
    is_flapping: bool
    history: tuple[AlertHistoryEntry, ...]
    summary: str
    advice: str
    run_name: str | None = None


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule with the thresholds in force."""

    rule: AlertRule
    values: tuple[tuple[str, float], ...]
    """For every project that has none of its own."""
    projects: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    """Project → what was changed for it."""
    history: tuple[tuple[ThresholdChange, bool], ...]
    """Every change, and whether it was undone; the newest first."""
    open_alerts: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts that a monitoring system wants."""

    faults: Mapping[str, int]
    intake: Mapping[str, int]
    messages: Mapping[str, int]
    """Waiting and dead ones."""


class AlertQueries:
    """Reads about alerts of one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._clock = clock
        self.dry_runs = DryRuns(store, clock)
        """Those that go on in the background."""

    def marks(self, run_id: str, start: int, end: int) -> tuple[AlertMark, ...]:
        """Episodes of a run's alerts that touch `[start, end]`, by their beginning."""
        known = rules()
        marks = []
        for key, events in self._store.alerts.events_of_run(run_id).items():
            rule = key.partition(":")[0]
            is_urgent = rule in known and known[rule].severity is Severity.URGENT
            link = f"/alerts?run={quote(run_id, safe='')}#alert-{events[0].event_id}"
            marks += [
                AlertMark(each.start, each.end, rule, each.sentence, is_urgent, each.ended_by, link)
                for each in episodes(events)
                if each.start <= end and (each.end is None or each.end >= start)
            ]
        return tuple(sorted(marks, key=lambda mark: mark.start))

    def alerts(
        self, standing: str | None = None, search: str = "", run: str | None = None, offset: int = 0, limit: int = 50
    ) -> AlertPage:
        """Alerts, urgent ones first. Raises ValueError for a standing that there is none of."""
        if standing is not None and standing not in list(Standing):
            raise ValueError(f"standing: one of {', '.join(Standing)} (got {standing[:100]!r})")
        now = self._clock()
        rows, total = self._store.alerts.rows(standing, search, run, now, offset, limit)
        counts = self._store.alerts.standings(now)
        names = self._store.alerts.names([row.run for row in rows])
        return AlertPage(
            tuple(AlertEntry(row, standing_of(row, now), names.get(row.run)) for row in rows), total,
            tuple((each.value, counts.get(each.value, 0)) for each in Standing),
            self._store.alerts.groups([row.group_key for row in rows], now, Asked(standing, search, run)),
        )  # fmt: skip

    def open_count(self) -> int:
        """How many alerts are open."""
        return self._store.alerts.standings(self._clock()).get(Standing.OPEN.value, 0)

    def alert(self, key: str) -> AlertView:
        """One alert. Raises NotFoundError."""
        found = self._store.alerts.alerts([key]).get(key)
        if found is None:
            raise NotFoundError("alert", key[:200])
        row, stands = found
        events = self._store.alerts.events(key)
        gone = undone(events)
        now = self._clock()
        rule = rules().get(row.rule)
        return AlertView(
            row, stands.standing(now), stands, stands.is_flapping(now),
            tuple(AlertHistoryEntry(each, each.event_id in gone) for each in events),
            "" if rule is None else rule.summary, "" if rule is None else rule.advice,
            self._store.alerts.names([row.run]).get(row.run),
        )  # fmt: skip

    def rules(self) -> tuple[RuleView, ...]:
        """Every rule, with its thresholds and who changed them."""
        changes = self._store.alerts.thresholds()
        overrides = overrides_of(changes)
        gone = undone_changes(changes)
        counts: dict[str, int] = {}
        for (name, _), times in self._store.alerts.open_by_rule(self._clock()).items():
            counts[name] = counts.get(name, 0) + times
        return tuple(
            RuleView(
                rule,
                tuple(in_force(rule, None, overrides).items()),
                tuple(
                    (project, tuple(values.items()))
                    for (name, project), values in sorted(overrides.items())
                    if name == rule.name and project
                ),
                tuple((each, each.change_id in gone) for each in reversed(changes) if each.rule == rule.name),
                counts.get(rule.name, 0),
            )
            for rule in rules().values()
        )

    def channels(self) -> tuple[ChannelRow, ...]:
        """Every channel; addresses as they are, to be masked by who shows them."""
        return self._store.alerts.channels()

    def is_sealing(self) -> bool:
        """Whether secrets of channels are sealed as they are written."""
        return self._store.alerts.is_sealing

    def messages(self, state: str | None = None, limit: int = 50) -> tuple[MessageRow, ...]:
        """What waits, was sent, or was given up; newest first."""
        return self._store.alerts.messages(state, limit)

    def open_by_rule(self) -> Mapping[tuple[str, str], int]:
        """`(rule, severity)` → open alerts."""
        return self._store.alerts.open_by_rule(self._clock())

    def totals(self) -> Totals:
        """Faults by cause, intake, and messages that are not delivered."""
        alerts = self._store.alerts
        messages = {state: len(alerts.messages(state, 10_000)) for state in ("waiting", "dead")}
        return Totals(alerts.faults_by_cause(), alerts.intake(), messages)

    def dry_run(self, rule_name: str, values: Mapping[str, float | None], project: str = "", days: int = 30) -> DryRun:
        """What a rule would have found over the last days. Nothing is written. Raises NotFoundError."""
        *_, done = dry_run(self._store, self._clock(), rule_name, values, project, days)
        return done


def standing_of(row: AlertRow, now: int) -> Standing:
    """How an alert in a list stands."""
    listed = Life(
        is_firing=row.is_firing, is_resolved=row.is_resolved, is_acknowledged=row.is_acknowledged,
        silenced_until=row.silenced_until,
    )  # fmt: skip
    return listed.standing(now)
