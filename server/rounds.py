"""Rounds: a thread that works off what is due, round after round, until it is closed.

Rules
- While the database is away nothing is lost and nobody else is stopped: the round is tried again.
- An error of a round is logged, and the next round comes. A thread that died would be a server that looks well.
- Who knows that something is due wakes the thread. Nobody need: it looks by itself every `idle_seconds`, since what is
  due may come from another process.
"""

from __future__ import annotations

import logging
import threading

from rerail.server.errors import StoreAwayError

logger = logging.getLogger(__name__)

AWAY_SECONDS = 2


class Rounds:
    """The thread of a part of the server. A part says what one round does in `work`."""

    def __init__(self, name: str, idle_seconds: float, failed: str, failed_seconds: float) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._failed, self._failed_seconds = failed, failed_seconds
        """What the log says of a round that came to nothing, and how long to wait after it."""
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def work(self) -> bool:
        """One round; whether more is waiting already."""
        raise NotImplementedError

    def lost(self) -> None:
        """A round failed: nobody knows how far it came."""

    def start(self) -> None:
        """Begin in a thread of its own."""
        self._thread = threading.Thread(target=self._run_forever, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something is due: begin the next round now. From any thread; costs nothing where a round is under way."""
        self._woken.set()

    def close(self) -> None:
        """Finish the round at hand, then stop."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether its thread lives."""
        return self._thread is not None and self._thread.is_alive()

    def _run_forever(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()  # Before looking: what comes meanwhile wakes the next round.
            try:
                has_more = self.work()
            except StoreAwayError as error:
                logger.warning("%s: the database is away: %s", self._name, error)
                has_more = self._wait_after_loss(AWAY_SECONDS)
            except Exception:
                logger.exception(self._failed)
                has_more = self._wait_after_loss(self._failed_seconds)
            if not has_more and not self._stopping.is_set():
                self._woken.wait(self._idle_seconds)

    def _wait_after_loss(self, seconds: float) -> bool:
        self.lost()
        self._stopping.wait(seconds)
        return False
