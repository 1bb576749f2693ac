"""Rederiving: runs that are over are derived again by the rules of this version, oldest first, one after the other.

Rules
- Open runs are derived again by themselves. One that is over would keep what an older version made of it.
- One run at a time, and ten times as long a pause after it as it took: what is told now does not wait for the past.
- Each is tried once; what could not be derived is shown as it is everywhere else. A run whose log was let go stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import rerail
from rerail.server.errors import StoreAwayError
from rerail.server.query_results import Outdated
from rerail.server.rounds import Rounds
from rerail.server.rules_version import rules_version
from rerail.server.store import Store

IDLE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
PAUSE = 10
PATIENCE_SECONDS = 600.0
"""A run that is not derived after so long is left to the projector, and the next one comes."""


class Rederiving(Rounds):
    """Makes outdated runs of one store due; the projector does the rest."""

    def __init__(
        self, store: Store, clock: Callable[[], int] = time.time_ns, on_due: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__("rerail-rederiving", IDLE_SECONDS, "the next outdated run could not be taken", 10)
        self._store = store
        self._clock = clock
        self._on_due = on_due
        self._since: int | None = None
        self._begun = False
        self._is_done = False
        self._after: Outdated | None = None
        self._waits: tuple[str, float] | None = None
        """Run that is due, and since when by a clock that only goes forward."""
        self._not_before = 0.0

    def start(self) -> None:
        """Begin. What is derived from here on is of this version, also before its rules are known."""
        try:
            self._since = self._store.newest_revision()
        except StoreAwayError:
            self._since = None
        super().start()

    def work(self) -> bool:
        """Look whether the last one is done and take the next; nothing more is ever waiting at once."""
        if self._is_done:
            return False
        if not self._begun:
            self._store.begin_rules(rules_version(), rerail.__version__, self._clock(), self._since)
            self._begun = True
        now = time.monotonic()
        if self._waits is not None:
            run, since = self._waits
            took = now - since
            if self._store.is_outdated(run) and took < PATIENCE_SECONDS:
                return False
            self._waits = None
            self._not_before = now + min(LONGEST_PAUSE_SECONDS, PAUSE * took)
        if now < self._not_before:
            return False
        self._after = self._store.make_outdated_due(self._after, self._clock())
        if self._after is None:
            self._is_done = True
            return False
        self._waits = (self._after.run_id, now)
        self._on_due()
        return False
