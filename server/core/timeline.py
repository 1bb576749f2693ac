"""The timeline: what the run was doing at every instant, as spans that tile its life.

Rules
- Every instant has exactly one phase. Facts become *claims* on intervals; where claims overlap, the first in the
  order of `Phase` wins; where there is none, the run is `silent`.
- Steps at or below the high-water step are `recomputing`, above it `training`. The second pass is the loss, not the
  first: a span that is over never changes its phase, except through a late fact.
- The part of a step beyond max(10 × the median of the 100 steps before it in its attempt, 30 s) is `stalled`. Phases
  laid over a step are not part of its duration; an attempt's first step has nothing to be measured by.
- A down phase is on the account of whatever it followed: a fault (from its detection to the start of the next
  completed step), a planned stop, or nothing yet (start-up).

What it does not know: attempts and causes. `attempt_pass.py` makes the claims of one attempt and calls `paint`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.steps import StepBlock
from rerail.server.core.view import Span, SpanKind

PRECEDENCE: dict[Phase, int] = {phase: index for index, phase in enumerate(Phase)}

DOWN_PHASES = frozenset(
    {
        Phase.DETECTING,
        Phase.STOPPING,
        Phase.QUEUED,
        Phase.RENDEZVOUS,
        Phase.LOADING,
        Phase.INITIALIZING,
    }
)
"""Phases in which a run cannot step; infrastructure loss when they follow a fault."""

KIND_OF_PHASE: dict[Phase, SpanKind] = {
    Phase.EXCLUDED: SpanKind.EXCLUDED,
    Phase.SAVING: SpanKind.CHECKPOINT,
    Phase.EVALUATING: SpanKind.OVERHEAD,
    Phase.DATA_WAIT: SpanKind.OVERHEAD,
    Phase.OVERHEAD: SpanKind.OVERHEAD,
    Phase.STALLED: SpanKind.STALL,
    Phase.RECOMPUTING: SpanKind.REWORK,
    Phase.TRAINING: SpanKind.PRODUCTIVE,
    Phase.SILENT: SpanKind.UNKNOWN,
}
"""On whose account a phase goes; down phases are decided by what they followed."""

STALL_FACTOR = 10
STALL_FLOOR_NS = 30_000_000_000
STALL_MEMORY = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """`[start, end)` is said to have been in a phase. Step claims carry the block and the steps they stand for."""

    start: int
    end: int
    phase: Phase
    name: str | None = None
    block: StepBlock | None = None


@dataclass(frozen=True, slots=True)
class TrainingStretch:
    """A stretch of first-pass training: `[start, end)` of it was spent inside this block of steps."""

    block: StepBlock
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mode:
    """From `at` on, down phases go on this account."""

    at: int
    kind: SpanKind


@dataclass(frozen=True, slots=True)
class Painted:
    """What `paint` made of the claims of one region."""

    spans: tuple[Span, ...]
    stretches: tuple[TrainingStretch, ...]


def stall_limit_ns(durations_before: Sequence[int]) -> int:
    """How long a step may take before the rest of it is a stall, given the durations of the steps before it."""
    recent = sorted(durations_before[-STALL_MEMORY:])
    if not recent:
        return STALL_FLOOR_NS
    middle = len(recent) // 2
    median = recent[middle] if len(recent) % 2 else (recent[middle - 1] + recent[middle]) // 2
    return max(STALL_FACTOR * median, STALL_FLOOR_NS)


def step_claims(
    blocks: Sequence[StepBlock], high_water_step: int | None, overlays: Sequence[Claim] = ()
) -> list[Claim]:
    """Claims of an attempt's completed steps: recomputing up to the high-water step, training above, stalls cut out.

    `overlays` are phases laid over steps, ordered by start; their time is not part of a step's duration.
    """
    claims: list[Claim] = []
    for index, block in enumerate(blocks):
        if block.longest_ns > STALL_FLOOR_NS:
            pieces = _split_stalls(blocks, index, overlays)
        else:
            pieces = [(block.start, block.end, False)]
        boundary = block.start
        if high_water_step is not None and high_water_step >= block.first_step:
            boundary = block.end_of(min(high_water_step, block.last_step))
        for start, end, is_stall in pieces:
            if is_stall:
                claims.append(Claim(start, end, Phase.STALLED, None, block))
                continue
            if start < boundary:
                claims.append(Claim(start, min(end, boundary), Phase.RECOMPUTING, None, block))
            if end > boundary:
                claims.append(Claim(max(start, boundary), end, Phase.TRAINING, None, block))
    return claims


def _split_stalls(blocks: Sequence[StepBlock], index: int, overlays: Sequence[Claim]) -> list[tuple[int, int, bool]]:
    """`(start, end, is a stall)` pieces of a block. An attempt's first step has nothing to be measured by."""
    block = blocks[index]
    before = recent_durations(blocks[:index], overlays)
    pieces: list[tuple[int, int, bool]] = []
    start = piece_start = block.start
    for end, duration in zip(block.ends, net_durations(block, overlays), strict=True):
        if before and duration > STALL_FLOOR_NS:
            excess = duration - stall_limit_ns(before)
            if excess > 0:
                stalled_from = _back_from(end, excess, start, overlays)
                pieces.append((piece_start, stalled_from, False))
                pieces.append((stalled_from, end, True))
                piece_start = end
        before.append(duration)
        start = end
    if piece_start < block.end:
        pieces.append((piece_start, block.end, False))
    return pieces


def recent_durations(blocks: Sequence[StepBlock], overlays: Iterable[Claim] = ()) -> list[int]:
    """Durations of the newest steps of these blocks, as many as a stall is measured by, or some more."""
    recent: list[int] = []
    for block in reversed(blocks):
        recent = net_durations(block, overlays)[-STALL_MEMORY:] + recent
        if len(recent) >= STALL_MEMORY:
            break
    return recent


def union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping intervals joined, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def net_durations(block: StepBlock, overlays: Iterable[Claim]) -> list[int]:
    """Length of each step of a block in ns, without the phases laid over it."""
    covered = union(
        (claim.start, claim.end) for claim in overlays if claim.end > block.start and claim.start < block.end
    )
    if not covered:
        return block.durations()
    lengths = []
    start = block.start
    for end in block.ends:
        laid_over = sum(max(0, min(end, until) - max(start, since)) for since, until in covered)
        lengths.append(end - start - laid_over)
        start = end
    return lengths


def _back_from(end: int, length: int, limit: int, overlays: Iterable[Claim]) -> int:
    """The instant from which `length` of uncovered time is left until `end`; not before `limit`."""
    at = end
    for since, until in reversed(union((claim.start, claim.end) for claim in overlays)):
        if until <= limit or since >= at:
            continue
        uncovered = at - min(until, at)
        if uncovered >= length:
            break
        length -= uncovered
        at = max(since, limit)
    return max(at - length, limit)


def paint(claims: Iterable[Claim], start: int, end: int, attempt: int | None, modes: Sequence[Mode]) -> Painted:
    """The spans of `[start, end)`: ordered, touching, none empty.

    `modes` are ordered and say on whose account down phases go; the first holds from `start`.
    """
    if end <= start:
        return Painted((), ())
    ordered = sorted(
        (claim for claim in claims if claim.end > start and claim.start < end and claim.end > claim.start),
        key=lambda claim: (claim.start, claim.end, PRECEDENCE[claim.phase], claim.name or ""),
    )
    painter = _Painter(attempt, modes, end)
    active: list[tuple[int, int, int, Claim]] = []
    at = start
    for index, claim in enumerate(ordered):
        if claim.start > at:
            at = painter.until(active, at, claim.start)
        heapq.heappush(active, (PRECEDENCE[claim.phase], -claim.end, index, claim))
    painter.until(active, at, end)
    return painter.painted()


@dataclass(slots=True)
class _Brush:
    """A span that may still grow."""

    start: int
    end: int
    phase: Phase
    kind: SpanKind
    name: str | None
    first: int | None
    last: int | None


class _Painter:
    """Emits spans from left to right; the claim on top of the heap is the one that wins."""

    def __init__(self, attempt: int | None, modes: Sequence[Mode], end: int) -> None:
        self._spans: list[Span] = []
        self._stretches: list[TrainingStretch] = []
        self._brush: _Brush | None = None
        self._attempt = attempt
        self._modes = modes
        self._mode = 0
        self._end = end

    def until(self, active: list[tuple[int, int, int, Claim]], at: int, limit: int) -> int:
        while at < limit:
            while active and active[0][3].end <= at:
                heapq.heappop(active)
            if not active:
                self._emit(at, limit, None)
                return limit
            claim = active[0][3]
            stop = min(claim.end, limit)
            self._emit(at, stop, claim)
            at = stop
        return at

    def _emit(self, start: int, end: int, claim: Claim | None) -> None:
        phase = Phase.SILENT if claim is None else claim.phase
        if phase in DOWN_PHASES:
            modes = self._modes
            while start < end:
                while self._mode + 1 < len(modes) and modes[self._mode + 1].at <= start:
                    self._mode += 1
                following = modes[self._mode + 1].at if self._mode + 1 < len(modes) else end
                stop = min(end, following)
                self._put(start, stop, phase, modes[self._mode].kind, claim)
                start = stop
            return
        self._put(start, end, phase, KIND_OF_PHASE[phase], claim)

    def _put(self, start: int, end: int, phase: Phase, kind: SpanKind, claim: Claim | None) -> None:
        first = last = None
        name = None
        if claim is not None:
            name = claim.name
            if claim.block is not None:
                first, last = claim.block.steps_between(start, end)
                if phase is Phase.TRAINING:
                    self._stretch(claim.block, start, end)
        brush = self._brush
        if brush is not None:
            if brush.phase is phase and brush.kind is kind and brush.name == name:
                brush.end, brush.last = end, last
                if brush.first is None:
                    brush.first = first
                return
            self._lift(brush)
        self._brush = _Brush(start, end, phase, kind, name, first, last)

    def _lift(self, brush: _Brush) -> None:
        self._spans.append(
            Span(brush.start, brush.end, brush.phase, brush.kind, self._attempt, brush.name, brush.first, brush.last)
        )

    def painted(self) -> Painted:
        """Everything that was emitted."""
        if self._brush is not None:
            self._lift(self._brush)
            self._brush = None
        return Painted(tuple(self._spans), tuple(self._stretches))

    def _stretch(self, block: StepBlock, start: int, end: int) -> None:
        stretches = self._stretches
        if stretches and stretches[-1].block is block and stretches[-1].end == start:
            stretches[-1] = TrainingStretch(block, stretches[-1].start, end)
            return
        stretches.append(TrainingStretch(block, start, end))
