"""Patience: a limit on the time that reading a file may take, whatever its bytes are."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOKS = 256
"""The clock is looked at once in so many times that somebody asks."""


class Patience:
    """Asked again and again by who reads; `seconds` is None where there is no limit."""

    __slots__ = ("_asked", "_clock", "_until", "is_spent", "seconds")

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.is_spent = False
        """The time is over. It stays so."""
        self._clock = clock
        self._until = None if seconds is None else clock() + seconds
        self._asked = 0

    def is_over(self, now: bool = False) -> bool:
        """Whether to stop; `now` looks at the clock whenever it was looked at last."""
        if self._until is None or self.is_spent:
            return self.is_spent
        self._asked += 1
        if now or self._asked % LOOKS == 0:
            self.is_spent = self._clock() > self._until
        return self.is_spent
