"""Projector: facts to views, run by run, as they come and as time passes.

Rules
- A run is derived from its facts alone. What is held in memory (the folds) only saves work: lost, it is made again from
  the log, and the result is the same.
- An open run is due again without new facts, because silence, ages and steps at risk move with the clock: every second
  while it is heard, more and more rarely (1 % of the silence) when it is not. Where so many runs live that this alone
  would take more than a quarter of the time, it is done more rarely: what was told must not wait for what only aged.
- Folds are held as long as their steps fit a budget. When they do not, those of runs that are over go first, then one
  by lot: runs come round in turns, and the least recently used one would always be the one that comes next.
- An error of one run is noted at that run, shown, and tried again later; the others go on.
- Any number of projectors may work on one database: a claim is a lease.
- A few runs are claimed at a time. Those that told of more than progress go first, and who looks at views for what is
  urgent is told when one of them is saved: from a fact to its alert no other run's turn lies between.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rerail.server.core.facts import Note, Steps
from rerail.server.core.fold import RunFold
from rerail.server.core.recovery_configs.stretches import stretches
from rerail.server.core.rollup import Rollups
from rerail.server.core.view import RunState, RunView
from rerail.server.errors import StoreAwayError
from rerail.server.rounds import Rounds
from rerail.server.store import DerivedRun, DueRun, Store
from rerail.server.store.log_slices import logged_facts, slices

logger = logging.getLogger(__name__)

SECOND = 10**9
LEASE_NS = 120 * SECOND
HELD_FOLDS = 10_000
"""Folds kept in memory at most."""

HELD_STEPS = 30_000_000
"""Steps in the folds kept in memory at most; 33 bytes each, so a gigabyte. One fold is kept whatever it holds."""

HELD_ENDED = 64
"""Folds of runs that are over kept at most: what comes late of one mostly comes at once."""

SMALLEST_FOLD = 2_000
"""Steps that a fold counts as at least: what it holds beside them."""

AGEING_SHARE = 4
"""Views that only age take one part in so many of the time."""

COUNTED_EVERY_SECONDS = 10

RETRY_AFTER_NS = 60 * SECOND
IDLE_SECONDS = 0.2
AT_ONCE = 4
"""Runs of one claim: an urgent one waits for so many at most. A claim costs a thirtieth of what deriving them does."""


@dataclass(slots=True)
class _Held:
    """A fold and what of it is in the store."""

    fold: RunFold
    rollups: Rollups = field(default_factory=Rollups)
    upto_ingest: int = 0
    revision: int | None = None
    steps: int = 0
    """Steps that were told to it."""

    @property
    def weight(self) -> int:
        """What it counts in the budget."""
        return max(SMALLEST_FOLD, self.steps)

    @classmethod
    def of(cls, run: str, store: Store) -> _Held:
        """A fold that holds no fact: what it must see again is read from the log."""

        held = cls(RunFold(run, lambda: logged_facts(store, run, held.upto_ingest)))
        return held


class Projector(Rounds):
    """Derives the runs of one store that are due."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int] = time.time_ns,
        held_folds: int = HELD_FOLDS,
        on_urgent: Callable[[], None] = lambda: None,
        held_steps: int = HELD_STEPS,
    ) -> None:
        super().__init__("rerail-projector", IDLE_SECONDS, "the projector could not take its next runs", 2)
        self._store = store
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._held_folds = held_folds
        self._held_steps = held_steps
        self._ended: dict[str, None] = {}
        """Those held of runs that are over, the longest unused first."""
        self._weight = 0
        self._lot = random.Random(0)
        self._pace = _Pace(store)
        self._on_urgent = on_urgent

    def work(self) -> bool:
        """Derive what is due; whether there was any."""
        return bool(self.derive_due())

    def derive_due(self, limit: int = AT_ONCE) -> int:
        """Derive the runs that are due now; how many there were."""
        due = self._store.claim_due(self._clock(), limit, LEASE_NS)
        for run in due:
            began = time.perf_counter()
            self._derive(run)
            self._pace.took(time.perf_counter() - began)
            if run.is_urgent:
                self._on_urgent()
        return len(due)

    def _derive(self, due: DueRun) -> None:
        try:
            self._project(due.run)
        except StoreAwayError:
            self._take(due.run)
            raise
        except Exception as error:
            # A bug in one run's derivation must not stop the others. It is shown at the run, and the fold is dropped
            # because nobody knows what state it is in.
            logger.exception("run %s could not be derived", due.run)
            self._take(due.run)
            self._store.save_error(due.run, f"{type(error).__name__}: {error}", self._clock() + RETRY_AFTER_NS)

    def _project(self, run: str) -> None:
        held = self._take(run) or _Held.of(run, self._store)
        told_notes: list[Note] = []
        for log in slices(self._store, run, held.upto_ingest):
            if log.gone_before is not None:
                return  # Its log was let go since it was claimed: what stands is all there will ever be.
            held.fold.add(log.facts)
            held.steps += sum(fact.step_count for fact in log.facts if isinstance(fact, Steps))
            told_notes += (fact for fact in log.facts if isinstance(fact, Note))
            held.upto_ingest = log.upto_ingest
        as_of = self._clock()
        view = held.fold.view(as_of, duplicates=log.duplicates, rejected=log.rejected)
        held.rollups.renew(held.fold.spans, held.fold.settled_spans, held.fold.capacities)
        minutes, hours, days = held.rollups.by_resolution.values()
        derived = DerivedRun(
            view=view,
            upto_ingest=log.upto_ingest,
            spans=held.fold.spans,
            step_points=held.fold.step_points,
            checkpoints=held.fold.checkpoints,
            minutes=minutes.bins,
            hours=hours.bins,
            days=days.bins,
            nodes=held.fold.node_histories,
            configs=stretches(view, held.fold.spans),
            told_notes=told_notes,
            settled_minutes=minutes.settled,
            settled_hours=hours.settled,
            settled_days=days.settled,
            settled_spans=held.fold.settled_spans,
            settled_step_points=held.fold.settled_step_points,
            settled_checkpoints=held.fold.settled_checkpoints,
            base_revision=held.revision,
        )
        held.revision = self._store.save(derived, next_due_at(view, as_of, self._pace.least_ns()))
        self._hold(run, held, view.state is RunState.ENDED)

    def _take(self, run: str) -> _Held | None:
        held = self._held.pop(run, None)
        self._ended.pop(run, None)
        self._weight -= held.weight if held is not None else 0
        return held

    def _hold(self, run: str, held: _Held, is_over: bool) -> None:
        while self._ended and (len(self._ended) >= HELD_ENDED or self._weight + held.weight > self._held_steps):
            self._take(next(iter(self._ended)))
        others = list(self._held) if self._weight + held.weight > self._held_steps else []
        while others and self._weight + held.weight > self._held_steps:
            place = self._lot.randrange(len(others))
            others[place], others[-1] = others[-1], others[place]
            self._take(others.pop())
        while self._held and len(self._held) >= self._held_folds:
            self._take(next(iter(self._held)))
        self._held[run] = held
        self._weight += held.weight
        if is_over:
            self._ended[run] = None


class _Pace:
    """How rarely views that only age are made again, so that they take no more than their share."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seconds = 0.0
        self._alive = 0
        self._counted_at: float | None = None

    def took(self, seconds: float) -> None:
        """One run was derived. Of a rebuild, which is no usual thing, ten times the usual counts."""
        counted = min(seconds, 10 * self._seconds) if self._seconds else seconds / 50
        self._seconds += (counted - self._seconds) / 50

    def least_ns(self) -> int:
        """Between two views of a run that says nothing new."""
        now = time.monotonic()
        if self._counted_at is None or now - self._counted_at > COUNTED_EVERY_SECONDS:
            self._alive, self._counted_at = self._store.run_states().get(RunState.ALIVE.value, 0), now
        return max(SECOND, round(self._seconds * self._alive * AGEING_SHARE * SECOND))


def next_due_at(view: RunView, now: int, least_ns: int = SECOND) -> int | None:
    """When a view has to be made again without new facts, not before `least_ns` are over; None for a run that ended."""
    if view.state is RunState.ENDED:
        return None
    heard = view.last_heard_at if view.last_heard_at is not None else view.started_at
    silence = 0 if heard is None else max(0, now - heard)
    return now + max(least_ns, silence // 100)
