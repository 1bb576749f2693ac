"""Ingest: batches to the store through one writer thread.

Rules
- A batch is answered when it is committed, never before: 200 means durable.
- Whatever waits when the writer is free is committed together (group commit), so one fsync serves many senders.
- Who derives views is told of each commit.
- The queue is bounded by batches and by facts. When it is full the sender is told to come back; nothing is dropped.
- A batch the store cannot take fails alone: after an error of the whole, each batch is tried by itself.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from rerail.server.errors import RefusedRequestError, StoreAwayError
from rerail.server.store import Batch, Receipt, Store

logger = logging.getLogger(__name__)

MOST_WAITING_BATCHES = 512
MOST_WAITING_FACTS = 400_000
MOST_FACTS_PER_COMMIT = 50_000


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    fact_count: int
    answer: Future[Receipt]


class Ingest:
    """The way of facts into one store. `submit` may be called from any thread."""

    def __init__(
        self,
        store: Store,
        most_batches: int = MOST_WAITING_BATCHES,
        most_facts: int = MOST_WAITING_FACTS,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._on_commit = on_commit
        self._most_batches = most_batches
        self._most_facts = most_facts
        self._waiting: deque[_Waiting] = deque()
        self._waiting_facts = 0
        self._condition = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._write_forever, name="rerail-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether the writer lives."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, batch: Batch) -> Future[Receipt]:
        """A receipt, once the batch is committed. Raises RefusedRequestError (429) when too much waits already."""
        fact_count = sum(len(stated.facts) for stated in batch.stated)
        waiting = _Waiting(batch, fact_count, Future())
        with self._condition:
            if self._is_closing:
                raise RefusedRequestError(503, "closing", "the server is shutting down", "send the batch again")
            is_full = self._waiting_facts + fact_count > self._most_facts and self._waiting
            if len(self._waiting) >= self._most_batches or is_full:
                raise RefusedRequestError(
                    429,
                    "busy",
                    f"{len(self._waiting)} batches wait to be written",
                    "send the batch again after Retry-After seconds; nothing of it was kept",
                    retry_after_seconds=1,
                )
            self._waiting.append(waiting)
            self._waiting_facts += fact_count
            self._condition.notify()
        return waiting.answer

    def _write_forever(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._is_closing:
                    self._condition.wait()
                if not self._waiting:
                    return
                group, facts = [], 0
                while self._waiting and (not group or facts + self._waiting[0].fact_count <= MOST_FACTS_PER_COMMIT):
                    waiting = self._waiting.popleft()
                    group.append(waiting)
                    facts += waiting.fact_count
                self._waiting_facts -= facts
            self._write(group)

    def _write(self, group: Sequence[_Waiting]) -> None:
        try:
            receipts = self._store.append([waiting.batch for waiting in group])
        except StoreAwayError as error:
            for waiting in group:
                waiting.answer.set_exception(error)
        except Exception as error:
            if len(group) > 1:
                for waiting in group:
                    self._write([waiting])
            else:
                logger.exception("a batch could not be written")
                group[0].answer.set_exception(error)
        else:
            for waiting, receipt in zip(group, receipts, strict=True):
                waiting.answer.set_result(receipt)
            self._on_commit()
