"""Projector: facts to views, run by run, as they come and as time passes.

Rules
- A run is derived from its facts alone. What is held in memory (the folds) only saves work: lost, it is made again from
  the log, and the result is the same.
- An open run is due again without new facts, because silence, ages and steps at risk move with the clock: every second
  while it is heard, more and more rarely (1 % of the silence) when it is not.
- An error of one run is noted at that run, shown, and tried again later; the others go on.
- Any number of projectors may work on one database: a claim is a lease.
- A few runs are claimed at a time. Those that told of more than progress go first, and who looks at views for what is
  urgent is told when one of them is saved: from a fact to its alert no other run's turn lies between.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from rerail.server.core.facts import Note
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
HELD_FOLDS = 256
"""Folds kept in memory; the least recently used one goes first."""

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
    ) -> None:
        super().__init__("rerail-projector", IDLE_SECONDS, "the projector could not take its next runs", 2)
        self._store = store
        self._clock = clock
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._held_folds = held_folds
        self._on_urgent = on_urgent

    def work(self) -> bool:
        """Derive what is due; whether there was any."""
        return bool(self.derive_due())

    def derive_due(self, limit: int = AT_ONCE) -> int:
        """Derive the runs that are due now; how many there were."""
        due = self._store.claim_due(self._clock(), limit, LEASE_NS)
        for run in due:
            self._derive(run)
            if run.is_urgent:
                self._on_urgent()
        return len(due)

    def _derive(self, due: DueRun) -> None:
        try:
            self._project(due.run)
        except StoreAwayError:
            self._held.pop(due.run, None)
            raise
        except Exception as error:
            # A bug in one run's derivation must not stop the others. It is shown at the run, and the fold is dropped
            # because nobody knows what state it is in.
            logger.exception("run %s could not be derived", due.run)
            self._held.pop(due.run, None)
            self._store.save_error(due.run, f"{type(error).__name__}: {error}", self._clock() + RETRY_AFTER_NS)

    def _project(self, run: str) -> None:
        held = self._held.pop(run, None) or _Held.of(run, self._store)
        told_notes: list[Note] = []
        for log in slices(self._store, run, held.upto_ingest):
            if log.gone_before is not None:
                return  # Its log was let go since it was claimed: what stands is all there will ever be.
            held.fold.add(log.facts)
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
        held.revision = self._store.save(derived, next_due_at(view, as_of))
        self._held[run] = held
        while len(self._held) > self._held_folds:
            self._held.popitem(last=False)


def next_due_at(view: RunView, now: int) -> int | None:
    """When a view has to be made again without new facts; None for a run that is over."""
    if view.state is RunState.ENDED:
        return None
    heard = view.last_heard_at if view.last_heard_at is not None else view.started_at
    silence = 0 if heard is None else max(0, now - heard)
    return now + max(SECOND, silence // 100)
