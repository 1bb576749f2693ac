"""Blindness: what cannot be seen from a node, from the first failure to the next success.

Rules
- Blind is not empty: a source that is down states that it is, and states the end when it sees again.
- What could not be stated (no run is known yet, the spool is full) is tried again at the next look.
- What was stated is kept in the spool: an agent that is started anew ends what the one before it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rerail.collectors.spool import Spool

State = Callable[[str, int, int | None, str | None, Mapping[str, str]], bool]
"""`(source, since, until, reason, cursors)`: state it, keep the cursors with it; False where that is not possible."""

_CURSOR = "blind "


class Blindness:
    """Sources that cannot see just now."""

    def __init__(self, spool: Spool, state: State) -> None:
        self._state = state
        kept = {name.removeprefix(_CURSOR): since for name, since in spool.cursors(_CURSOR).items() if since}
        self._since = {source: int(since) for source, since in kept.items()}
        self._stated = set(kept)

    def sources(self) -> tuple[str, ...]:
        """Everything that cannot see."""
        return tuple(self._since)

    def cannot_see(self, source: str, reason: str, since: int | None = None) -> bool:
        """`source` sees nothing since `since` (default: now). True where that is news."""
        is_news = source not in self._since
        began = self._since.setdefault(source, time.time_ns() if since is None else since)
        if source not in self._stated and self._state(source, began, None, reason, {_CURSOR + source: str(began)}):
            self._stated.add(source)
        return is_news

    def sees(self, source: str) -> None:
        """`source` sees, or there is nothing more to be seen of it."""
        began = self._since.get(source)
        if began is None:
            return
        if source in self._stated and not self._state(source, began, time.time_ns(), None, {_CURSOR + source: ""}):
            return
        del self._since[source]
        self._stated.discard(source)
