"""Facts out of a ring: the same ring gives the same facts, whoever reads it, however often.

Rules
- A fact's `seq` is four times the number of the first slot it came from. So a reader that lost its memory states the
  same facts under the same identity, and the server counts duplicates instead of contradictions.
- Steps are folded into one fact per cell of a fixed grid of the monotonic clock (`fold_ns` in the header), heartbeats
  into windows of another. A cell is stated when it is over, or when the process is dead. What is folded depends on the
  records, not on when they were read.
- The place to read from next is the first record that is not stated yet. Facts after it may be stated again; they are
  the same facts. Steps and heartbeats lie between each other in the ring, so each has a place of its own: a fold that
  was stated must not be begun again in its middle.
- `seq` + 1 … + 3 are free for what the reader itself has to say about this emitter at that place: records overwritten
  before they were read, the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct

from rerail.collectors.recorder import BEAT_PHASES
from rerail.collectors.ring import BEAT, STEP, TEXT, TEXT_BYTES, RingReader, Slot
from rerail.server.core.codec import Context, FactError, decode
from rerail.server.core.facts import Blind, Fact, Heartbeats, Steps

SEQUENCES_PER_SLOT = 4
OVERRUN, CLOCK = 1, 3
MOST_FOLDED_STEPS = 4096
GUARD_NS = 100_000_000
"""How long after its end a cell stays open: a thread may have read the clock and not written yet."""

HOLE_NS = 2_000_000_000
"""How long a slot may stay unwritten while later ones are there, before it is counted as lost."""

FURTHEST_HOLE = 512


@dataclass(frozen=True, slots=True)
class RingPlace:
    """Where to read on: the first slot of all, and the first whose step or heartbeat is not stated yet."""

    slot: int = 0
    steps: int = 0
    beats: int = 0


@dataclass(frozen=True, slots=True)
class RingReading:
    """What one look at a ring gave."""

    facts: tuple[Fact, ...]
    place: RingPlace
    written: int
    """The first slot that is not there yet."""
    last_instant: int | None
    """Wall clock of the newest record, as far as it was read."""


@dataclass(slots=True)
class _StepCell:
    first_slot: int
    iteration: int
    cell: int
    steps: list[tuple[int, int, int]] = field(default_factory=list)

    def takes(self, iteration: int, cell: int, step: int, start: int) -> bool:
        number, _, end = self.steps[-1]
        return (
            (iteration, cell, step, start) == (self.iteration, self.cell, number + 1, end)
            and len(self.steps) < MOST_FOLDED_STEPS
        )  # fmt: skip


@dataclass(slots=True)
class _BeatCell:
    first_slot: int
    iteration: int
    cell: int
    phase: int
    armed_us: int
    start: int
    end: int
    count: int
    max_gap: int

    def takes(self, beat: _BeatCell) -> bool:
        return (beat.iteration, beat.cell, beat.phase, beat.armed_us) == (
            self.iteration, self.cell, self.phase, self.armed_us,
        )  # fmt: skip

    def add(self, beat: _BeatCell) -> None:
        self.end = beat.end
        self.count += beat.count
        self.max_gap = max(self.max_gap, beat.max_gap)


@dataclass(slots=True)
class _Message:
    iteration: int
    pieces: dict[int, bytes]
    count: int


class RingFacts:
    """Turns the slots of one ring into facts."""

    def __init__(self, ring: RingReader) -> None:
        self.ring = ring
        about = ring.header.about
        self.emitter = str(about["emitter"])
        told = about.get("identity")
        self.identity: dict[str, object] = dict(told) if isinstance(told, dict) else {}
        self.place: dict[str, object] = {
            name: self.identity.get(name)
            for name in ("run", "job", "requeue", "restart", "rank", "local_rank", "node")
            if self.identity.get(name) is not None
        }
        """Where in a run the writer stands."""
        self._fold = _positive(about.get("fold_ns"), 500_000_000)
        self._beat_fold = _positive(about.get("beat_fold_ns"), 5_000_000_000)
        self.unreadable = 0

    def wall(self, monotonic: int) -> int:
        """Wall clock of a monotonic instant, by the anchor the process took when it started."""
        return self.ring.header.wall_anchor + monotonic - self.ring.header.monotonic_anchor

    def read(self, place: RingPlace, now: int, *, until: int | None = None) -> RingReading:
        """Facts from `place` on. `now` is the monotonic clock; cells that are not over by it are not stated.

        `until`: the process is dead, so everything is over.
        """
        facts: list[Fact] = []
        steps: _StepCell | None = None
        beats: _BeatCell | None = None
        messages: dict[int, _Message] = {}
        last: int | None = None
        number = self.ring.oldest(place.slot)
        if number > place.slot:
            facts.append(self._overrun(place.slot, number, now))
        for slot in self._slots(number, now, until, facts):
            number = slot.number + 1
            if slot.kind == STEP:
                step, start, end = _step(slot)
                last = end
                if slot.number < place.steps:
                    continue
                cell = end // self._fold
                if steps is not None and steps.takes(slot.iteration, cell, step, start):
                    steps.steps.append((step, start, end))
                    continue
                if steps is not None:
                    facts.append(self._steps(steps))
                steps = _StepCell(slot.number, slot.iteration, cell, [(step, start, end)])
            elif slot.kind == BEAT:
                last = _step(slot)[2]
                if slot.number < place.beats:
                    continue
                window = self._beat_cell(slot)
                if beats is not None and beats.takes(window):
                    beats.add(window)
                    continue
                if beats is not None:
                    facts.append(self._beats(beats))
                beats = window
            elif slot.kind == TEXT:
                self._take_text(slot, messages, facts)
        if steps is not None and (until is not None or now > (steps.cell + 1) * self._fold + GUARD_NS):
            facts.append(self._steps(steps))
            steps = None
        if beats is not None and (until is not None or now > (beats.cell + 1) * self._beat_fold + GUARD_NS):
            facts.append(self._beats(beats))
            beats = None
        steps_from = number if steps is None else steps.first_slot
        beats_from = number if beats is None else beats.first_slot
        texts_from = number if until is not None else min(messages, default=number)
        facts.sort(key=lambda fact: fact.seq)
        return RingReading(
            tuple(facts),
            RingPlace(min(steps_from, beats_from, texts_from), steps_from, beats_from),
            number,
            None if last is None else self.wall(last),
        )

    def _slots(self, first: int, now: int, until: int | None, facts: list[Fact]) -> Iterator[Slot]:
        """Whole slots in order. A hole that stays a hole is counted and stepped over."""
        number = first
        while True:
            slot = self.ring.slot(number)
            if slot is not None:
                yield slot
                number += 1
                continue
            beyond = self._after_hole(number, now, until)
            if beyond is None:
                return
            facts.append(self._overrun(number, beyond, now))
            number = beyond

    def _after_hole(self, number: int, now: int, until: int | None) -> int | None:
        """The first whole slot after a hole that will never be filled; None where `number` is simply the end."""
        for later in range(number + 1, number + FURTHEST_HOLE):
            slot = self.ring.slot(later)
            if slot is None:
                continue
            if until is not None or (slot.kind in (STEP, BEAT) and now - _step(slot)[2] > HOLE_NS):
                return later
            return None
        return None

    def _identified(self, slot: int, iteration: int, offset: int = 0) -> dict[str, object]:
        common = dict(self.place)
        if iteration or self.identity.get("iteration") is not None:
            common["iteration"] = iteration
        return {**common, "emitter": self.emitter, "seq": slot * SEQUENCES_PER_SLOT + offset}

    def _steps(self, cell: _StepCell) -> Fact:
        start = cell.steps[0][1]
        edges = [0] + [(end - start) // 1000 for _, _, end in cell.steps]
        return Steps(
            **self._identified(cell.first_slot, cell.iteration),  # type: ignore[arg-type]
            at=self.wall(cell.steps[-1][2]),
            first_step=max(0, cell.steps[0][0]),
            start=self.wall(start),
            durations_us=tuple(max(0, later - earlier) for earlier, later in pairwise(edges)),
        )

    def _beat_cell(self, slot: Slot) -> _BeatCell:
        before, now, armed, _ = _BEAT_PAYLOAD.unpack_from(slot.payload)
        cell = now // self._beat_fold
        return _BeatCell(slot.number, slot.iteration, cell, slot.small, armed, before, now, 1, now - before)

    def _beats(self, window: _BeatCell) -> Fact:
        return Heartbeats(
            **self._identified(window.first_slot, window.iteration),  # type: ignore[arg-type]
            at=self.wall(window.end),
            start=self.wall(window.start),
            end=self.wall(window.end),
            count=window.count,
            max_gap_us=max(0, window.max_gap // 1000),
            phase=BEAT_PHASES[window.phase] if window.phase < len(BEAT_PHASES) else None,
            armed_timeout_us=window.armed_us or None,
        )

    def _take_text(self, slot: Slot, messages: dict[int, _Message], facts: list[Fact]) -> None:
        first, index, count, piece = _TEXT_PAYLOAD.unpack_from(slot.payload)
        message = messages.setdefault(first, _Message(slot.iteration, {}, count))
        message.pieces[index] = piece[: min(slot.small, TEXT_BYTES)]
        if len(message.pieces) < message.count:
            return
        del messages[first]
        try:
            stated = json.loads(b"".join(message.pieces[at] for at in range(message.count)))
            fact = decode({**stated, **self._identified(first, message.iteration)})
        except (ValueError, TypeError, KeyError, FactError):
            self.unreadable += 1
            return
        if not isinstance(fact, Context):
            facts.append(fact)

    def _overrun(self, first: int, beyond: int, now: int) -> Fact:
        instant = self.wall(now)
        slot = self.ring.slot(beyond)
        if slot is not None and slot.kind in (STEP, BEAT):
            instant = self.wall(_step(slot)[2])
        return Blind(
            **self._identified(first, 0, OVERRUN),  # type: ignore[arg-type]
            at=instant,
            source="recorder",
            since=instant,
            until=instant,
            reason=f"{beyond - first} records were overwritten or torn before they were read",
        )


_BEAT_PAYLOAD = Struct("=qqQQ")
_TEXT_PAYLOAD = Struct("=QHH28s")
_STEP_PAYLOAD = Struct("=qqq")
_BEAT_TIMES = Struct("=qq")


def _step(slot: Slot) -> tuple[int, int, int]:
    """Number, start and end of a step; for a heartbeat the one before it and itself."""
    if slot.kind == BEAT:
        before, now = _BEAT_TIMES.unpack_from(slot.payload)
        return 0, before, now
    step, start, end = _STEP_PAYLOAD.unpack_from(slot.payload)
    return step, start, end


def _positive(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and value > 0 else otherwise
