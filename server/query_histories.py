"""Histories: what the log tells of a run step by step, kept up for those who ask again.

Rules
- A history is read when a definition asks for one, never to draw a page under rerail's own: the view has all of that.
- What is held only saves reading the log again: the first question about a run reads all of it, the next only what came
  since. `HELD` runs are kept; the one asked about longest ago goes first.
- Safe to share between threads; two questions about one run wait for each other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rerail.server.core.definitions.history import History, HistoryFold
from rerail.server.core.facts import Fact
from rerail.server.core.view import RunView
from rerail.server.errors import LogGoneError
from rerail.server.store import Store
from rerail.server.store.log_slices import logged_facts, slices

HELD = 8


def history_of(facts: Iterable[Fact], view: RunView) -> History:
    """The history of a view that was folded from the same facts."""
    fold = HistoryFold()
    fold.add(facts)
    return fold.history(view)


class _Held:
    """One run's history, and up to where its log was read. It holds no fact: the log has them."""

    def __init__(self, run_id: str, store: Store) -> None:
        self.fold = HistoryFold(lambda: logged_facts(store, run_id, self.upto_ingest))
        self.upto_ingest = 0
        self.lock = threading.Lock()


class Histories:
    """The histories of one store's runs as of now."""

    def __init__(self, store: Store, held: int = HELD) -> None:
        self._store = store
        self._most = held
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def of(self, run_id: str, view: RunView) -> Iterator[History]:
        """The history of a run as of its saved view. It stands still inside the block, and is not for later.

        Raises `LogGoneError` where the log was let go.
        """
        with self._lock:
            held = self._held.get(run_id) or _Held(run_id, self._store)
            self._held[run_id] = held
            self._held.move_to_end(run_id)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        with held.lock:
            for log in slices(self._store, run_id, held.upto_ingest):
                if log.gone_before is not None:
                    raise LogGoneError(run_id)
                held.upto_ingest = log.upto_ingest
                held.fold.add(log.facts)
            yield held.fold.history(view)
