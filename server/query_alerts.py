"""Queries about alerts: what stands how, what happened to each, which thresholds hold, what others would find."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from rerail.server.core.alert_life import AlertEvent, Change, Life, Standing, episodes, life, look, undone
from rerail.server.core.alert_rules import DAY, AlertRule, Finding, Severity
from rerail.server.core.alerts import SWITCH, findings, in_force, rules
from rerail.server.core.fold import RunFold
from rerail.server.core.threshold_changes import Overrides, ThresholdChange
from rerail.server.core.threshold_changes import in_force as overrides_of
from rerail.server.core.threshold_changes import undone as undone_changes
from rerail.server.errors import NotFoundError
from rerail.server.query_results import AlertMark
from rerail.server.store import Store
from rerail.server.store.alert_rows import AlertRow, ChannelRow, MessageRow
from rerail.server.store.log_slices import slices

MOST_INSTANTS = 60
"""Of one run that a dry run looks at."""

MOST_EXAMPLES = 20
DRY_RUN_SECONDS = 20.0
"""After so long a dry run stops, and says how far it came."""


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
    """Of every group in `rows`: standing → how many of all its alerts stand so, without those resolved."""


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
class DryRunAlert:
    """An alert that would have been."""

    run_id: str
    at: int
    sentence: str
    key: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a rule would have found with other thresholds, beside what it finds with those in force."""

    rule: str
    start: int
    end: int
    runs: int
    """Runs that lived in the range."""
    looked_at: int
    """Of them; fewer where the log is gone or the time ran out."""
    without_log: int
    alerts: int
    """Alerts with the thresholds asked for."""
    alerts_now: int
    """With those in force."""
    examples: tuple[DryRunAlert, ...]
    """The newest of the first."""


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
            self._store.alerts.groups([row.group_key for row in rows], now),
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
        rule = rules().get(rule_name)
        if rule is None:
            raise NotFoundError("alert rule", rule_name[:200])
        end = self._clock()
        start = end - days * DAY
        now_in_force = overrides_of(self._store.alerts.thresholds())
        asked = _with(now_in_force, rule_name, project, values)
        page = self._store.run_rows("", None, "last_heard_at", True, 0, 1000)
        rows = [row for row in page.rows if (row.last_heard_at or 0) >= start]
        wanted = [row for row in rows if not project or row.project == project]
        until = time.monotonic() + DRY_RUN_SECONDS
        found: list[DryRunAlert] = []
        looked = gone = before = 0
        for row in wanted:
            if time.monotonic() > until:
                break
            walked = self._walk(rule, row.run_id, start, end, (asked, now_in_force))
            if walked is None:
                gone += 1
                continue
            looked += 1
            found += walked[0]
            before += len(walked[1])
        found.sort(key=lambda each: -each.at)
        return DryRun(
            rule_name, start, end, len(wanted), looked, gone, len(found), before, tuple(found[:MOST_EXAMPLES])
        )

    def _walk(
        self, rule: AlertRule, run: str, start: int, end: int, overrides: tuple[Overrides, Overrides]
    ) -> tuple[list[DryRunAlert], list[DryRunAlert]] | None:
        """A run's past as its facts tell it, looked at again and again; None where its log is gone."""
        offsets = {row.emitter: row.clock_offset_ns or 0 for row in self._store.emitters(run)}
        facts = []
        for log in slices(self._store, run, 0):
            if log.gone_before is not None:
                return None
            facts += log.facts
        stamped = sorted(((fact.at - offsets.get(fact.emitter, 0), fact) for fact in facts), key=lambda each: each[0])
        saved = self._store.view(run)
        if not stamped or saved is None:
            return [], []
        last = min(end, saved[0].ended_at or end)
        first = max(start, saved[0].started_at or stamped[0][0])
        fold = RunFold(run)
        told = 0
        lives: tuple[dict[str, _Walked], dict[str, _Walked]] = ({}, {})
        alerts: tuple[list[DryRunAlert], list[DryRunAlert]] = ([], [])
        for at in _instants(first, last, [each.started_at for each in saved[0].incidents]):
            upto = told
            while upto < len(stamped) and stamped[upto][0] <= at:
                upto += 1
            fold.add([fact for _, fact in stamped[told:upto]])
            told = upto
            if not told:
                continue
            view = fold.view(at)
            for which in (0, 1):
                seen = {each.key: each for each in findings(rule, view, overrides[which], {})}
                alerts[which].extend(_followed(lives[which], seen, run, at))
        return alerts


@dataclass(slots=True)
class _Walked:
    """An alert while a dry run follows it."""

    events: list[AlertEvent]
    absent_since: int | None = None


def _followed(lives: dict[str, _Walked], seen: Mapping[str, Finding], run: str, at: int) -> list[DryRunAlert]:
    """The alerts that begin at this instant."""
    begun = []
    for key in sorted(set(seen) | set(lives)):
        walked = lives.setdefault(key, _Walked([]))
        result = look(life(walked.events), seen.get(key), walked.absent_since, at)
        walked.absent_since = result.absent_since
        if result.change is not None:
            finding = seen.get(key)
            mark = None if finding is None else finding.mark
            walked.events.append(AlertEvent(len(walked.events) + 1, at, result.change, key, mark=mark))
            if result.change is Change.FIRED and finding is not None:
                begun.append(DryRunAlert(run, at, finding.sentence, key))
    return begun


def _instants(first: int, last: int, incidents: list[int]) -> list[int]:
    """Instants to look at: evenly over the range, and closely after every incident began."""
    if last <= first:
        return [last]
    step = max(1, (last - first) // MOST_INSTANTS)
    instants = {*range(first, last, step), last}
    for began in incidents[-50:]:
        instants |= {at for at in (began + 1, began + 120 * 10**9, began + 600 * 10**9) if first <= at <= last}
    return sorted(instants)


def _with(overrides: Overrides, rule: str, project: str, values: Mapping[str, float | None]) -> Overrides:
    """The overrides, had these values been set too."""
    changed = {key: dict(held) for key, held in overrides.items()}
    mine = changed.setdefault((rule, project), {})
    mine.setdefault(SWITCH, 1.0)
    for name, value in values.items():
        if value is None:
            mine.pop(name, None)
        else:
            mine[name] = value
    return changed


def standing_of(row: AlertRow, now: int) -> Standing:
    """How an alert in a list stands."""
    listed = Life(
        is_firing=row.is_firing, is_resolved=row.is_resolved, is_acknowledged=row.is_acknowledged,
        silenced_until=row.silenced_until,
    )  # fmt: skip
    return listed.standing(now)
