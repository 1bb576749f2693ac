"""Step watch: which ranks of a node have stopped stepping while their process lives, seen from their rings.

Rules
- A rank hangs when it has made no step for `max(60 s, 10 × its usual step)`; that is the median of its last 64. Where a
  time-out guards its heartbeats, half of that is waited at most, but two usual steps at least: who asks later asks the
  dead.
- Nothing is said of a rank that never stepped, of one whose process is gone, or whose ring is closed.
- Saving and evaluating are silence too: who acts on this should do nothing that costs the training.
- A ring that cannot be read is left out: the agent says so.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from rerail.collectors.ring import BEAT, STEP, RingReader, process_namespace, process_started

LEAST_SILENCE_NS = 60 * 10**9
USUAL_STEPS = 10
LEAST_STEPS = 2
_STEP = Struct("=qqq")
_BEAT = Struct("=qqQ")


@dataclass(frozen=True, slots=True)
class RankSight:
    """What one ring shows now."""

    rank: int
    run: str
    last_step_at: int
    """End of the last step, wall clock in ns."""
    silent_ns: int
    is_hanging: bool


@dataclass(slots=True)
class _Ring:
    reader: RingReader
    place: int = 0
    last_end: int | None = None
    armed_ns: int = 0
    """The time-out that guards the next heartbeat; 0: none."""
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=64))


class StepWatch:
    """Follows the rings of a directory. One thread at a time."""

    def __init__(self, directory: Path, least_silence_ns: int = LEAST_SILENCE_NS) -> None:
        self._directory = directory
        self._least = least_silence_ns
        self._rings: dict[Path, _Ring] = {}
        self._namespace = process_namespace()

    def look(self, now: int) -> dict[int, RankSight]:
        """Every rank that lives and has stepped, by rank. `now`: the monotonic clock in ns."""
        paths = set(self._directory.glob("rank*.ring"))
        for gone in self._rings.keys() - paths:
            self._rings.pop(gone).reader.close()
        found: dict[int, RankSight] = {}
        for path in sorted(paths):
            ring = self._opened(path)
            if ring is None:
                continue
            self._follow(ring)
            sight = self._sight(ring, now)
            if sight is not None and (sight.rank not in found or sight.last_step_at > found[sight.rank].last_step_at):
                found[sight.rank] = sight
        return found

    def close(self) -> None:
        """Give the mappings back."""
        for ring in self._rings.values():
            ring.reader.close()
        self._rings.clear()

    def _opened(self, path: Path) -> _Ring | None:
        if path not in self._rings:
            try:
                self._rings[path] = _Ring(RingReader(path))
            except (OSError, ValueError, KeyError):
                return None
        return self._rings[path]

    @staticmethod
    def _follow(ring: _Ring) -> None:
        ring.place = ring.reader.oldest(ring.place)
        while (slot := ring.reader.slot(ring.place)) is not None:
            ring.place += 1
            if slot.kind == STEP:
                _, start, end = _STEP.unpack_from(slot.payload)
                ring.last_end = end
                ring.lengths.append(max(0, end - start))
            elif slot.kind == BEAT:
                ring.armed_ns = 1000 * _BEAT.unpack_from(slot.payload)[2]

    def _sight(self, ring: _Ring, now: int) -> RankSight | None:
        header = ring.reader.header
        told = header.about.get("identity")
        rank = told.get("rank") if isinstance(told, dict) else None
        if ring.last_end is None or not isinstance(rank, int) or ring.reader.closed_at is not None:
            return None
        is_seen = header.about.get("namespace") == self._namespace
        if is_seen and process_started(header.process) != header.process_started:
            return None
        silent = max(0, now - ring.last_end)
        usual = statistics.median(ring.lengths)
        limit = max(self._least, int(USUAL_STEPS * usual))
        if ring.armed_ns:
            limit = min(limit, max(ring.armed_ns // 2, int(LEAST_STEPS * usual)))
        run = str(told.get("run")) if isinstance(told, dict) else ""
        at = header.wall_anchor + ring.last_end - header.monotonic_anchor
        return RankSight(rank, run, at, silent, silent > limit)
