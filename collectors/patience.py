"""Patience: a limit on the time that reading a file may take, whatever its bytes are."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0
"""The longest that one thing which somebody gives may take, with all that is in it."""

LOOKS = 256
"""The clock is looked at once in so many times that somebody asks."""


class OutOfPatienceError(ValueError):
    """What cannot be given in part was not finished in time."""


class Patience:
    """Asked again and again by who reads; `seconds` is None where there is no limit."""

    __slots__ = ("_asked", "_clock", "_until", "is_ended", "is_spent", "seconds")

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.is_spent = False
        """The time is over. It stays so."""
        self.is_ended = False
        """Somebody said to stop, and the answer reaches nobody."""
        self._clock = clock
        self._until = None if seconds is None else clock() + seconds
        self._asked = 0

    def end(self) -> None:
        """Stop whoever reads, whatever the clock says: nobody waits for it any more. From any thread."""
        self.is_spent = self.is_ended = True

    def is_over(self, now: bool = False) -> bool:
        """Whether to stop; `now` looks at the clock whenever it was looked at last."""
        if self._until is None or self.is_spent:
            return self.is_spent
        self._asked += 1
        if now or self._asked % LOOKS == 0:
            self.is_spent = self.is_ended or self._clock() > self._until
        return self.is_spent
