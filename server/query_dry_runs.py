"""Dry runs: what an alert rule would have found with other thresholds, over the runs of the last days.

Rules
- Nothing is written, and nobody is told. Every run is walked through its past twice at once: with the thresholds asked
  for and with those in force.
- The runs with the most attempts come first: where anything is found, it is there. A run of fewer attempts than the
  rule needs by its thresholds is known to have nothing, and is not read.
- A rule that looks at endings alone is shown the run's saved view as it was (`core/hindsight.py`), at every ending.
  Others are shown the log, folded again up to each of some instants: `MOST_INSTANTS` over the run's time, and more
  after each incident began. A condition that came and went between two of these is not found.
- A dry run that takes long goes on in the background and is asked how far it came. What it did not look at it does not
  judge: its figures are then at least so many.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from rerail.server.core.alert_life import AlertEvent, Change, life, look
from rerail.server.core.alert_rules import DAY, AlertRule, Finding, Thresholds
from rerail.server.core.alerts import SWITCH, findings, in_force, rules
from rerail.server.core.fold import RunFold
from rerail.server.core.hindsight import as_it_was, endings
from rerail.server.core.threshold_changes import Overrides
from rerail.server.core.threshold_changes import in_force as overrides_of
from rerail.server.core.view import RunView
from rerail.server.errors import NotFoundError, RerailError
from rerail.server.query_results import RunRow
from rerail.server.store import Store
from rerail.server.store.log_slices import slices

SECOND = 10**9

MOST_INSTANTS = 60
"""Of one run that its log is folded up to, evenly over its time."""

LEAST_STEP = 15 * SECOND
"""Between two of these."""

MOST_ENDINGS = 1000
"""Of one run that its view is looked at: the newest."""

MOST_EXAMPLES = 20
MOST_RUNS = 20_000
MOST_SECONDS = 900.0
"""After so long a dry run stops, and says how far it came."""

MOST_AT_ONCE = 2
MOST_KEPT = 16
PAGE = 1000
BREATH = 0.001
"""Seconds between two runs: others of this process want the interpreter too."""


@dataclass(frozen=True, slots=True)
class DryRunAlert:
    """An alert that would have been."""

    run_id: str
    at: int
    sentence: str
    key: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a rule would have found with other thresholds, beside what it finds with those in force; so far."""

    rule: str
    start: int
    end: int
    runs: int
    """Runs that lived in the range."""
    looked_at: int
    """Of them, so far."""
    without_log: int
    """Of them whose log is gone, and that are not looked at for that."""
    alerts: int
    """Alerts with the thresholds asked for; at least so many where not every run was looked at."""
    alerts_now: int
    """With those in force, likewise."""
    examples: tuple[DryRunAlert, ...]
    """The newest of the first."""
    is_done: bool = False
    """Nothing more comes; then `looked_at` and `without_log` are all runs, unless the time ran out."""

    @property
    def is_whole(self) -> bool:
        """Whether every run was looked at, so that the figures are exact."""
        return self.is_done and self.looked_at == self.runs


def dry_run(
    store: Store, now: int, rule_name: str, values: Mapping[str, float | None], project: str, days: int
) -> Iterator[DryRun]:
    """How far it came, after every run; the last one is done. Raises NotFoundError."""
    rule = rules().get(rule_name)
    if rule is None:
        raise NotFoundError("alert rule", rule_name[:200])
    start = now - days * DAY
    held = overrides_of(store.alerts.thresholds())
    both = _with(held, rule_name, project, values), held
    rows = _rows(store, start, project)
    found: list[DryRunAlert] = []
    told = DryRun(rule_name, start, now, len(rows), 0, 0, 0, 0, ())
    until = time.monotonic() + MOST_SECONDS
    for row in rows:
        if time.monotonic() > until:
            break
        needed = min(rule.fewest_attempts(Thresholds(in_force(rule, row.project, each))) for each in both)
        if row.attempts < needed:
            told = replace(told, looked_at=told.looked_at + 1)
            continue
        walked = _walk(store, rule, row.run_id, start, now, both)
        if walked is None:
            told = replace(told, without_log=told.without_log + 1)
            yield told
            continue
        if walked[0]:
            found = sorted([*found, *walked[0]], key=lambda each: -each.at)[:MOST_EXAMPLES]
        told = replace(
            told, looked_at=told.looked_at + 1, alerts=told.alerts + len(walked[0]),
            alerts_now=told.alerts_now + len(walked[1]), examples=tuple(found),
        )  # fmt: skip
        yield told
    yield replace(told, is_done=True)


class DryRuns:
    """Dry runs under way in this process, and the last that are done."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._begun: dict[str, _UnderWay] = {}

    def begin(self, rule: str, values: Mapping[str, float | None], project: str, days: int) -> str:
        """Begin one; its number. The oldest under way is stopped where too many are. Raises NotFoundError."""
        if rule not in rules():
            raise NotFoundError("alert rule", rule[:200])
        steps = dry_run(self._store, self._clock(), rule, values, project, days)
        begun = _UnderWay(steps)
        with self._lock:
            number = str(next(self._numbers))
            under_way = [each for each in self._begun.values() if not each.is_over.is_set()]
            for each in under_way[: max(0, len(under_way) + 1 - MOST_AT_ONCE)]:
                each.stop()
            for old in [key for key, each in self._begun.items() if each.is_over.is_set()][: -MOST_KEPT or None]:
                del self._begun[old]
            self._begun[number] = begun
        begun.start()
        return number

    def state(self, number: str, wait_seconds: float = 0.0) -> DryRun:
        """How far one came, at the latest after a wait. Raises NotFoundError, and what went wrong with it."""
        with self._lock:
            begun = self._begun.get(number)
        if begun is None:
            raise NotFoundError("dry run", number[:40])
        begun.is_over.wait(wait_seconds)
        begun.is_told.wait(MOST_SECONDS)
        if begun.error is not None:
            raise begun.error
        if begun.told is None:
            raise NotFoundError("dry run", number[:40])
        return begun.told


class _UnderWay(threading.Thread):
    """One dry run in a thread of its own."""

    def __init__(self, steps: Iterator[DryRun]) -> None:
        super().__init__(name="rerail-dry-run", daemon=True)
        self._steps = steps
        self._is_stopped = False
        self.told: DryRun | None = None
        self.error: Exception | None = None
        self.is_told = threading.Event()
        """There is something to tell, if only that it failed."""
        self.is_over = threading.Event()

    def run(self) -> None:
        """Until it is done, stopped, or something went wrong."""
        try:
            for told in self._steps:
                self.told = replace(told, is_done=told.is_done or self._is_stopped)
                self.is_told.set()
                if self._is_stopped:
                    return
                time.sleep(BREATH)
        except RerailError as error:
            self.error = error
        except Exception as bug:
            self.error = bug
            raise
        finally:
            self.is_told.set()
            self.is_over.set()

    def stop(self) -> None:
        """Go no further than the run at hand."""
        self._is_stopped = True


def _rows(store: Store, start: int, project: str) -> list[RunRow]:
    """The runs that were heard in the range, those of the most attempts first."""
    wanted: list[RunRow] = []
    for offset in range(0, MOST_RUNS, PAGE):
        page = store.run_rows("", None, "last_heard_at", True, offset, PAGE).rows
        heard = [row for row in page if (row.last_heard_at or 0) >= start]
        wanted += [row for row in heard if not project or row.project == project]
        if len(page) < PAGE or len(heard) < len(page):
            break
    return sorted(wanted, key=lambda row: (-row.attempts, row.run_id))


_Alerts = tuple[list[DryRunAlert], list[DryRunAlert]]
"""With the thresholds asked for, and with those in force."""


def _walk(
    store: Store, rule: AlertRule, run: str, start: int, end: int, overrides: tuple[Overrides, Overrides]
) -> _Alerts | None:
    """A run's past, looked at again and again; None where its log is gone and would be needed."""
    saved = store.view(run)
    if saved is None:
        return [], []
    view = saved[0]
    if rule.by_endings:
        moments = ((at, as_it_was(view, at)) for at in _endings_of(view, start, end))
        return _looked_at(rule, run, moments, overrides)
    folded = _folded(store, view, start, end)
    return None if folded is None else _looked_at(rule, run, folded, overrides)


def _endings_of(view: RunView, start: int, end: int) -> list[int]:
    """Every instant at which an attempt began or was over, and some between these: what was found may be over then."""
    last = min(end, view.ended_at or end)
    moments = [each.started_at for each in view.attempts[-MOST_ENDINGS:]]
    moments += [at for at in endings(view)[-MOST_ENDINGS:] if at is not None]
    first = max(start, view.started_at or last)
    return sorted({*(at for at in moments if first <= at <= last), *_instants(first, last, [])})


def _folded(store: Store, saved: RunView, start: int, end: int) -> Iterator[tuple[int, RunView]] | None:
    """The run as its facts told it at some instants; None where its log is gone."""
    run = saved.run_id
    offsets = {row.emitter: row.clock_offset_ns or 0 for row in store.emitters(run)}
    facts = []
    for log in slices(store, run, 0):
        if log.gone_before is not None:
            return None
        facts += log.facts
    stamped = sorted(((fact.at - offsets.get(fact.emitter, 0), fact) for fact in facts), key=lambda each: each[0])
    if not stamped:
        return iter(())
    last = min(end, saved.ended_at or end)
    first = max(start, saved.started_at or stamped[0][0])

    def moments() -> Iterator[tuple[int, RunView]]:
        fold = RunFold(run)
        told = 0
        for at in _instants(first, last, [each.started_at for each in saved.incidents]):
            upto = told
            while upto < len(stamped) and stamped[upto][0] <= at:
                upto += 1
            fold.add([fact for _, fact in stamped[told:upto]])
            told = upto
            if told:
                yield at, fold.view(at)

    return moments()


def _looked_at(
    rule: AlertRule, run: str, moments: Iterator[tuple[int, RunView]], overrides: tuple[Overrides, Overrides]
) -> _Alerts:
    lives: tuple[dict[str, _Walked], dict[str, _Walked]] = ({}, {})
    alerts: _Alerts = ([], [])
    for at, view in moments:
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


def _instants(first: int, last: int, incidents: Sequence[int]) -> list[int]:
    """Instants to look at: evenly over the range, and closely after every incident began."""
    if last <= first:
        return [last]
    step = max(LEAST_STEP, (last - first) // MOST_INSTANTS)
    instants = {*range(first, last, step), last}
    for began in incidents[-50:]:
        instants |= {at for at in (began + 1, began + 120 * SECOND, began + 600 * SECOND) if first <= at <= last}
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
