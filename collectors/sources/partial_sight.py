"""Partial sight: a source that sees through several openings states which of them it cannot see through, and since
when.

A source that sees nothing at all is `SourceDown`, and its agent says so. Where one command or one kind of object of
many is refused, the rest is still seen: then the source itself states `blind`, of that part, for every run it tells
of.

Rules
- `memory` is plain data and part of the source's cursor, so that a new instance ends what the one before it began.
- The beginning has `seq` = milliseconds since 1970 × 2, its end that + 1: the emitter is the part's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from rerail.server.core.facts import Blind, Fact


class PartialSight:
    """What of a source cannot be seen just now. `memory`: `part` → `[since, reason, runs told]`."""

    def __init__(self, source: str, memory: dict[str, Any], now: Callable[[], int] = time.time_ns) -> None:
        self._source = source
        self._memory = memory
        self._now = now

    def cannot_see(self, part: str, reason: str, runs: Iterable[str]) -> list[Fact]:
        """State it for the runs that it was not stated for."""
        entry = self._memory.setdefault(part, [self._now(), reason[:500], []])
        since, told_reason, told = entry
        facts: list[Fact] = []
        for run in runs:
            if run not in told:
                told.append(run)
                facts.append(self._blind(run, part, since, None, told_reason))
        return facts

    def sees(self, part: str) -> list[Fact]:
        """It is seen again: state the end wherever the beginning was stated."""
        entry = self._memory.pop(part, None)
        if entry is None:
            return []
        since, reason, told = entry
        until = self._now()
        return [self._blind(run, part, since, until, reason) for run in told]

    def _blind(self, run: str, part: str, since: int, until: int | None, reason: str) -> Fact:
        source = f"{self._source} {part}"[:200]
        return Blind(
            run=run, emitter=f"{source}/blind"[:200], seq=since // 1_000_000 * 2 + (until is not None),
            at=since if until is None else until, source=source, since=since, until=until, reason=reason,
        )  # fmt: skip
