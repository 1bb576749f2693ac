"""Write turns: who of one process writes an SQLite database next.

Rules
- First come, first served. SQLite itself lets who waits ask again after ever longer pauses, up to a tenth of a second;
  one thread that writes back to back always comes between, and another one waits until its time-out: "database is
  locked", though nobody held the lock for long.
- Other processes know nothing of these turns: SQLite's own lock is taken all the same, and is what counts.
- Who waited for `seconds` in vain goes on without a turn, and SQLite decides.
"""

from __future__ import annotations

import threading
from collections import deque
from weakref import WeakValueDictionary


class WriteTurns:
    """The turns of one database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Event] = deque()

    def take(self, seconds: float) -> bool:
        """Wait for the turn; whether it came."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(seconds):
            return True
        with self._lock:
            if mine.is_set():
                return True  # It came while the time ran out.
            self._waiting.remove(mine)
            return False

    def give_back(self) -> None:
        """It is the next one's."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False


_turns: WeakValueDictionary[str, WriteTurns] = WeakValueDictionary()
_all = threading.Lock()


def turns_of(database_url: str) -> WriteTurns:
    """The turns of a database, the same for all of its engines."""
    with _all:
        found = _turns.get(database_url)
        if found is None:
            found = _turns[database_url] = WriteTurns()
        return found
