"""Problem board: the sums of all problems, kept in memory and brought up to date by what changed since.

Rules
- What is held only saves reading: it is made of `problem_run` and lost without harm. Every question asks first what was
  written since the revision that was seen last; revisions become visible in their order, so nothing is missed.
- Of a problem that changed, sums and spread are added up anew when they are asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, func, select

from rerail.server.store import tables
from rerail.server.store.problem_rows import ProblemSpread, ProblemSums

_share = tables.problem_run.c
_NEWEST = select(func.coalesce(func.max(_share.revision), 0))
_CHANGED = select(
    _share.problem_id, _share.run_id, _share.revision, _share.fingerprint, _share.incidents, _share.still_open,
    _share.first_at, _share.last_at, _share.restart_ns, _share.recover_ns, _share.lost_ns, _share.lost_gpu_ms,
    _share.cost_unknown, _share.spread,
).where(_share.revision > bindparam("seen"))  # fmt: skip


class _Spread(msgspec.Struct):
    days: dict[str, int]
    nodes: dict[str, int]


_read_spread = msgspec.json.Decoder(_Spread).decode


class _Part(NamedTuple):
    """One run's part of a problem."""

    fingerprint: str
    incidents: int
    still_open: int
    first_at: int
    last_at: int
    restart_ns: int
    recover_ns: int
    lost_ns: int
    lost_gpu_ms: int
    cost_unknown: int
    spread: bytes


class ProblemBoard:
    """The sums of one database's problems. Safe to share between threads."""

    def __init__(self) -> None:
        self._seen = 0
        self._parts: dict[str, dict[int, _Part]] = {}
        self._sums: dict[str, ProblemSums] = {}
        self._spreads: dict[str, ProblemSpread] = {}
        self._lock = threading.Lock()

    def sums(self, connection: Connection, problems: Sequence[str] | None) -> tuple[ProblemSums, ...]:
        """Of every problem that has incidents, or of those named that do."""
        with self._lock:
            self._renew(connection)
            wanted = self._parts if problems is None else [each for each in problems if each in self._parts]
            return tuple(self._sums_of(problem) for problem in wanted)

    def spreads(self, connection: Connection, problems: Sequence[str]) -> dict[str, ProblemSpread]:
        """Days and nodes of problems; not to be changed by who asks."""
        with self._lock:
            self._renew(connection)
            return {problem: self._spread_of(problem) for problem in problems}

    def _renew(self, connection: Connection) -> None:
        newest = int(connection.execute(_NEWEST).scalar_one())
        if newest == self._seen:
            return
        for problem, run_id, _, *values in connection.execute(_CHANGED, {"seen": self._seen}):
            part = _Part(*values)
            if part.incidents:
                self._parts.setdefault(problem, {})[run_id] = part
            elif problem in self._parts:
                self._parts[problem].pop(run_id, None)
                if not self._parts[problem]:
                    del self._parts[problem]
            self._sums.pop(problem, None)
            self._spreads.pop(problem, None)
        self._seen = newest

    def _sums_of(self, problem: str) -> ProblemSums:
        known = self._sums.get(problem)
        if known is not None:
            return known
        parts = self._parts[problem].values()
        made = ProblemSums(
            problem_id=problem,
            fingerprint=max(part.fingerprint for part in parts),
            incidents=sum(part.incidents for part in parts),
            still_open=sum(part.still_open for part in parts),
            runs=len(parts),
            first_at=min(part.first_at for part in parts),
            last_at=max(part.last_at for part in parts),
            restart_ns=sum(part.restart_ns for part in parts),
            recover_ns=sum(part.recover_ns for part in parts),
            lost_ns=sum(part.lost_ns for part in parts),
            lost_gpu_ms=sum(part.lost_gpu_ms for part in parts),
            cost_unknown=sum(part.cost_unknown for part in parts),
        )
        self._sums[problem] = made
        return made

    def _spread_of(self, problem: str) -> ProblemSpread:
        known = self._spreads.get(problem)
        if known is not None:
            return known
        made = ProblemSpread({}, {})
        for part in self._parts.get(problem, {}).values():
            found = _read_spread(part.spread)
            for day, times in found.days.items():
                made.days[int(day)] = made.days.get(int(day), 0) + times
            for name, times in found.nodes.items():
                made.nodes[name] = made.nodes.get(name, 0) + times
        self._spreads[problem] = made
        return made
