"""Alert watch: lays every run that was saved beside the rules, round after round.

Rules
- A round takes the views saved since the last one, in their order. The projector saves a live run anew every second
  while it is heard (and every hundredth of its silence when it is not), so what moves with time alone comes by as well.
- What looking comes to is written with the place it got to, in one transaction (`AlertStore.record`): any number of
  watches may share a database, and one that is killed is taken over from where it was.
- A run that is over is saved no more. It is looked at again when others blame its nodes, when thresholds changed, when
  a silence of its alerts is over, and a day after its end, from when on nothing is found of it. So what stands is what
  looking at every run in every round would come to; a property test compares both.
- Nothing is written where nothing changed but the place; that is put down every `KEEP_PLACE` only, since looking twice
  at one view comes to nothing more.
- An error of one rule is logged with its name, and the other rules go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from urllib.parse import unquote

from rerail.server.core.alert_life import look
from rerail.server.core.alert_rules import DAY, Finding
from rerail.server.core.alerts import findings, rules
from rerail.server.core.threshold_changes import Overrides, in_force
from rerail.server.core.view import Domain, RunState, RunView
from rerail.server.rounds import Rounds
from rerail.server.store import Store
from rerail.server.store.alert_rows import AlertRow, Looked

logger = logging.getLogger(__name__)

SECOND = 10**9
AT_ONCE = 500
"""Views of one round."""

IN_MEMORY = 8
"""Views held at once. Those of a whole round would outlive the young generations of the garbage collector, which then
walks them again and again: twice the time of decoding them."""

KEEP_PLACE = 10 * SECOND
LAPSED_EVERY = 5 * SECOND
"""How often runs that are over are asked for alerts that time alone changes."""

REFRESH = 5 * SECOND
"""How old the sentence of a lasting alert may be where nothing new is behind it: how long it lasts by now."""

IDLE_SECONDS = 0.5


class AlertWatch(Rounds):
    """Looks at the runs of one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        super().__init__("rerail-alerts", IDLE_SECONDS, "alerts: this round came to nothing", 5)
        self._store = store
        self._clock = clock
        self._kept: int | None = None
        """The place that the store has."""
        self._place = 0
        self._kept_at = 0
        self._lapsed_at = 0
        self._thresholds: int | None = None
        """Changes of thresholds that the last round knew; another number is a reason to look at everything again."""
        self._blaming: dict[str, frozenset[str]] = {}
        """Runs that blame a node, as of the last look."""

    def work(self) -> bool:
        """One round; whether there were as many views as it takes."""
        return self.round() >= AT_ONCE

    def lost(self) -> None:
        """Go on from the place that the store has."""
        self._kept = None

    def round(self) -> int:
        """Look at what was saved since the last one, or changed without being saved; how many runs that were."""
        alerts = self._store.alerts
        now = self._clock()
        changes = alerts.thresholds()
        if self._kept is None:
            self._kept = self._place = alerts.seen()
        if self._thresholds != len(changes):
            self._place = 0
            self._thresholds = len(changes)
        place, count, views = alerts.views_since(self._place, AT_ONCE, now - DAY)
        if now - self._lapsed_at >= LAPSED_EVERY:
            self._lapsed_at = now
            if lapsed := alerts.lapsed(now, now - DAY):
                count += len(lapsed)
                views = chain(views, alerts.views_of(lapsed, 0))
        if not count:
            self._place = place
            return 0
        looked = self._look(views, in_force(changes), now)
        if looked or now - self._kept_at >= KEEP_PLACE:
            if alerts.record(self._kept, place, looked, now) is None:
                self.lost()  # Somebody else looked: go on from where they are.
                return count
            self._kept, self._kept_at = place, now
        self._place = place
        return count

    def start_over(self) -> None:
        """Look at every run again in the next rounds, whatever was looked at before."""
        self._kept = self._store.alerts.seen()
        self._place = self._lapsed_at = 0

    def _look(self, views: Iterable[RunView], changed: Overrides, now: int) -> list[Looked]:
        """What there is to write down of these runs."""
        seen = self._seen(views, changed, now)
        by_run = {each.run: each for each in seen}
        standing: dict[str, AlertRow] = {row.key: row for row in self._store.alerts.firing(tuple(by_run))}
        gone: dict[str, list[str]] = {}
        for key, row in standing.items():
            if key not in by_run[row.run].found:
                gone.setdefault(row.run, []).append(key)
        keys = {key for each in seen for key in each.found}
        lives = self._store.alerts.alerts(sorted(keys | set(standing))) if keys or standing else {}
        looked = []
        for of_run in seen:
            for key in (*of_run.found, *gone.get(of_run.run, ())):
                finding = of_run.found.get(key)
                row, stands = lives.get(key, (None, None))
                each = _looked(key, of_run, finding)
                if row is None or stands is None:
                    looked.append(each)
                    continue
                after = look(stands, finding, row.absent_since, of_run.as_of, is_over=of_run.is_over)
                is_silence_over = row.silenced_until is not None and row.silenced_until <= now and not row.is_resolved
                if (
                    after.change is not None
                    or after.absent_since != row.absent_since
                    or is_silence_over
                    or (finding is not None and _is_stale(row, finding, of_run))
                ):
                    looked.append(each)
        return looked

    def _seen(self, views: Iterable[RunView], changed: Overrides, now: int) -> list[_Seen]:
        """What the rules see of each run. A view is let go as soon as its rules had it."""
        seen: dict[str, _Seen] = {}
        touched: set[str] = set()
        views = iter(views)
        while some := tuple(islice(views, IN_MEMORY)):
            touched |= self._look_at(some, changed, now, seen)
        # What these runs say of nodes is news for others that blame the same ones, and nobody need save those anew.
        others = iter(self._store.alerts.views_of(sorted(touched - set(seen)), now - DAY))
        while some := tuple(islice(others, IN_MEMORY)):
            self._look_at(some, changed, now, seen)
        return list(seen.values())

    def _look_at(self, views: Sequence[RunView], changed: Overrides, now: int, seen: dict[str, _Seen]) -> set[str]:
        """Put what the rules see of these runs into `seen`; runs that blame a node that another set of runs blamed."""
        nodes = {
            each.verdict.culprit_node
            for view in views
            for each in view.incidents
            if each.verdict.culprit_node and each.verdict.domain is not Domain.WORKLOAD
        }
        blaming = self._store.alerts.blaming(sorted(nodes)) if nodes else {}
        touched: set[str] = set()
        for node in nodes:
            runs = blaming.get(node, frozenset())
            if self._blaming.get(node) != runs:
                touched |= runs | self._blaming.get(node, frozenset())
                self._blaming[node] = runs
        for view in views:
            elsewhere = {node: len(runs - {view.run_id}) for node, runs in blaming.items()}
            found = _find(view, changed, elsewhere, now)
            seen[view.run_id] = _Seen(view.run_id, view.as_of, view.state is RunState.ENDED, found)
        return touched


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rules see of one run as it was saved."""

    run: str
    as_of: int
    is_over: bool
    found: Mapping[str, Finding]
    """By key."""


def _find(view: RunView, changed: Overrides, elsewhere: Mapping[str, int], now: int) -> dict[str, Finding]:
    """What every rule sees of a run, by key; a rule that fails is left out, and said in the log."""
    if view.state is RunState.ENDED and view.ended_at is not None and now - view.ended_at > DAY:
        return {}
    found: dict[str, Finding] = {}
    for rule in rules().values():
        try:
            for each in findings(rule, view, changed, elsewhere):
                found.setdefault(each.key, each)
        except Exception:
            logger.exception("alert rule %s failed on run %s", rule.name, view.run_id)
    return found


def _is_stale(row: AlertRow, finding: Finding, seen: _Seen) -> bool:
    """Whether what is written down of an alert lags behind what its rule says now."""
    if finding.mark != row.mark:
        return True
    return finding.sentence != row.sentence and (seen.is_over or seen.as_of - row.seen_at >= REFRESH)


def _looked(key: str, seen: _Seen, finding: Finding | None) -> Looked:
    rule, subject, _ = key.split(":", 2)
    return Looked(key, seen.run, rule, unquote(subject), seen.as_of, finding, seen.is_over)
