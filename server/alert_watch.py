"""Alert watch: lays every run that was saved beside the rules, round after round.

Rules
- A round takes the views saved since the last one, in their order. The projector saves a live run anew every second
  while it is heard (and every hundredth of its silence when it is not), so what moves with time alone comes by as well.
- What looking comes to is written with the place it got to, in one transaction (`AlertStore.record`): any number of
  watches may share a database, and one that is killed is taken over from where it was.
- Nothing is written where nothing changed but the place; that is put down every `KEEP_PLACE` only, since looking twice
  at one view comes to nothing more.
- An error of one rule is logged with its name, and the other rules go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from rerail.server.core.alert_life import look
from rerail.server.core.alert_rules import DAY, Finding
from rerail.server.core.alerts import findings, rules
from rerail.server.core.threshold_changes import in_force
from rerail.server.core.view import Domain, RunState, RunView
from rerail.server.rounds import Rounds
from rerail.server.store import Store
from rerail.server.store.alert_rows import AlertRow, Looked

logger = logging.getLogger(__name__)

SECOND = 10**9
AT_ONCE = 500
"""Views of one round."""

KEEP_PLACE = 10 * SECOND
REFRESH = 30 * SECOND
"""How old the sentence of a lasting alert may be."""

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

    def work(self) -> bool:
        """One round; whether there were as many views as it takes."""
        return self.round() >= AT_ONCE

    def lost(self) -> None:
        """Go on from the place that the store has."""
        self._kept = None

    def round(self) -> int:
        """Look at what was saved since the last one; how many runs that were."""
        alerts = self._store.alerts
        if self._kept is None:
            self._kept = self._place = alerts.seen()
        place, views = alerts.views_since(self._place, AT_ONCE)
        if not views:
            self._place = place
            return 0
        now = self._clock()
        looked = self._look(views, now)
        if looked or now - self._kept_at >= KEEP_PLACE:
            if alerts.record(self._kept, place, looked, now) is None:
                self._kept = None  # Somebody else looked: go on from where they are.
                return len(views)
            self._kept, self._kept_at = place, now
        self._place = place
        return len(views)

    def start_over(self) -> None:
        """Look at every run again in the next rounds, whatever was looked at before."""
        self._kept = self._store.alerts.seen()
        self._place = 0

    def _look(self, views: Sequence[RunView], now: int) -> list[Looked]:
        """What there is to write down of these runs."""
        changed = in_force(self._store.alerts.thresholds())
        elsewhere = self._blamed_elsewhere(views)
        found = {view.run_id: _find(view, changed, elsewhere.get(view.run_id, {}), now) for view in views}
        by_run = {view.run_id: view for view in views}
        standing: dict[str, AlertRow] = {row.key: row for row in self._store.alerts.firing(tuple(by_run))}
        keys = {key for findings_of in found.values() for key in findings_of}
        lives = self._store.alerts.alerts(sorted(keys | set(standing))) if keys or standing else {}
        looked = []
        for run, of_run in found.items():
            view = by_run[run]
            is_over = view.state is RunState.ENDED
            mine = [key for key, row in standing.items() if row.run == run and key not in of_run]
            for key in (*of_run, *mine):
                finding = of_run.get(key)
                row, stands = lives.get(key, (None, None))
                each = _looked(key, view, finding, is_over)
                if row is None or stands is None:
                    looked.append(each)
                    continue
                seen = look(stands, finding, row.absent_since, view.as_of, is_over=is_over)
                is_silence_over = row.silenced_until is not None and row.silenced_until <= now and not row.is_resolved
                if (
                    seen.change is not None
                    or seen.absent_since != row.absent_since
                    or is_silence_over
                    or (
                        finding is not None and finding.sentence != row.sentence and view.as_of - row.seen_at >= REFRESH
                    )
                ):
                    looked.append(each)
        return looked

    def _blamed_elsewhere(self, views: Sequence[RunView]) -> dict[str, dict[str, int]]:
        """Of each run, how many others blame its nodes for a fault of theirs."""
        nodes = {
            each.verdict.culprit_node
            for view in views
            for each in view.incidents
            if each.verdict.culprit_node and each.verdict.domain is not Domain.WORKLOAD
        }
        if not nodes:
            return {}
        told = self._store.problems.blamed(sorted(nodes), 100)
        runs_of = {
            node: {row.run_id for row in rows if row.domain != Domain.WORKLOAD.value and row.counts}
            for node, rows in told.items()
        }
        return {view.run_id: {node: len(runs - {view.run_id}) for node, runs in runs_of.items()} for view in views}


def _find(
    view: RunView, changed: Mapping[tuple[str, str], Mapping[str, float]], elsewhere: Mapping[str, int], now: int
) -> dict[str, Finding]:
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


def _looked(key: str, view: RunView, finding: Finding | None, is_over: bool) -> Looked:
    rule, subject, _ = key.split(":", 2)
    return Looked(key, view.run_id, rule, unquote(subject), view.as_of, finding, is_over)
