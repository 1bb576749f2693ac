"""The timeline of a whole run, kept up as facts come in.

Rules
- Attempts are folded in order, each handing its high-water step on. One that is over and of which nothing changed is
  not folded again.
- The beginning of a long open attempt is *sealed*: its facts are let go and its part of the timeline stays, so that one
  more step costs the same after a million. Something that comes late enough to change what is sealed makes everything
  be gathered again; the result is the same.
- `settled_spans` and `settled_step_points` say how many leading entries the last fold left as they were.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rerail.server.core.attempt_pass import AttemptPass, Carry, Surroundings, attempt_pass
from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.attempts import AttemptKey
from rerail.server.core.facts import Phase
from rerail.server.core.gathering import Gathering
from rerail.server.core.goodput import Capacities, Tally, account_of, gpu_tally, tally
from rerail.server.core.life import Life
from rerail.server.core.progress import first_pass_ns, rollback_of, step_path, step_points
from rerail.server.core.steps import StepBlock
from rerail.server.core.timeline import Claim, Mode, TrainingStretch, paint
from rerail.server.core.view import Account, Rollback, Span, SpanKind, StepPoint

OPEN_NS = 3600 * 10**9
"""The last hour of an attempt stays open: facts that come late by less than that cost little."""

FEWEST_OPEN_BLOCKS, MOST_OPEN_BLOCKS = 16, 128
"""Blocks of steps that stay open in any case, and however short they are."""

SEALED_AT_ONCE = 16
"""Sealing costs about as much as folding what is open: not at every block."""


@dataclass(frozen=True, slots=True)
class Version:
    """One state of one attempt's record."""

    gathering: int
    job: str | None
    key: AttemptKey
    facts: int

    def is_of(self, other: Version) -> bool:
        """Whether both are of the same record."""
        return (self.gathering, self.job, self.key) == (other.gathering, other.job, other.key)


@dataclass(frozen=True, slots=True)
class Sealed:
    """The settled beginning of a long attempt: its facts were let go, its part of the timeline stays."""

    until: int
    carry: Carry
    past: tuple[object, ...]
    """What of the surroundings it was made from."""
    spans: int
    points: int
    tally: Tally
    gpu_tally: Tally
    stretches: tuple[TrainingStretch, ...]


@dataclass(slots=True)
class Folded:
    """What was computed of one attempt, and from what."""

    version: Version
    around: Surroundings
    gpus: tuple[tuple[int, int], ...]
    carry_in: Carry
    result: AttemptPass
    span_count: int
    point_count: int
    tally: Tally
    gpu_tally: Tally
    stretches: tuple[TrainingStretch, ...]
    rollback: Rollback | None
    passes_at: int | None
    """Start of its first completed step above the high-water step before it."""
    points: Sequence[StepPoint] = ()
    """Of its part that is not sealed."""
    sealed: Sealed | None = None


@dataclass(frozen=True, slots=True)
class _Sums:
    """Time of the leading attempts."""

    attempts: int
    tally: Tally
    gpu_tally: Tally


def _summed(folded: Sequence[Folded], before: _Sums | None = None) -> tuple[Tally, Tally]:
    """Time of attempts in order, by wall time and by GPU time, and of those before them."""
    total, gpu_total = Tally(), Tally()
    for each in (*((before,) if before is not None else ()), *folded):
        total.add(each.tally)
        gpu_total.add(each.gpu_tally)
    return total, gpu_total


class RunTimeline:
    """Spans and step points of one run, and the sums over them."""

    def __init__(self, gathering: Gathering) -> None:
        self.spans: list[Span] = []
        self.step_points: list[StepPoint] = []
        self.settled_spans = 0
        self.settled_step_points = 0
        self.folded: list[Folded] = []
        self._steady_sums = _Sums(0, Tally(), Tally())
        self._gathering = gathering

    def version(self, record: AttemptRecord) -> Version:
        """Changes with everything told about an attempt, and from attempt to attempt: numbers move, records do not."""
        return Version(self._gathering.gatherings, record.job, record.key, record.version)

    def fold(
        self,
        records: Sequence[AttemptRecord],
        surroundings: Sequence[Surroundings],
        capacities: Capacities,
        steady: int,
    ) -> bool:
        """Bring the timeline up to date; the `steady` leading attempts are what they were.

        False when what was sealed no longer holds and must be gathered anew.
        """
        before, after = self.folded, self.folded[:steady]
        carry = after[-1].result.carry if after else Carry()
        old_spans, old_points = self.spans, self.step_points
        spans_at = sum(folded.span_count for folded in after)
        points_at = sum(folded.point_count for folded in after)
        unchanged = True
        for number in range(steady, len(records)):
            record, around = records[number], surroundings[number]
            known = before[number] if number < len(before) else None
            gpus = tuple(capacities.between(around.start, around.end)) if capacities.is_known else ()
            version = self.version(record)
            if (
                unchanged
                and known is not None
                and (known.version, known.around, known.carry_in) == (version, around, carry)
                and known.gpus == gpus
            ):
                after.append(known)
                carry = known.result.carry
                spans_at += known.span_count
                points_at += known.point_count
                continue
            sealed = known.sealed if known is not None and known.version.is_of(version) else None
            if record.sealed_until is not None and (
                not unchanged
                or record.sealed_until > around.end
                or sealed is None
                or known is None
                or known.carry_in != carry
                or sealed.past != _past(around, sealed.until, capacities)
            ):
                self.spans, self.step_points = old_spans, old_points
                return False
            if unchanged:
                unchanged = False
                kept_spans = spans_at + (0 if sealed is None else sealed.spans)
                kept_points = points_at + (0 if sealed is None else sealed.points)
                self.spans, self.step_points = old_spans[:kept_spans], old_points[:kept_points]
                self.settled_spans, self.settled_step_points = kept_spans, kept_points
            folded = self._fold_one(number, record, around, carry, sealed, after, capacities, gpus)
            after.append(folded)
            spans_at += folded.span_count
            points_at += folded.point_count
            carry = folded.result.carry
        if unchanged:
            self.spans, self.step_points = old_spans[:spans_at], old_points[:points_at]
            self.settled_spans, self.settled_step_points = spans_at, points_at
        else:
            self.settled_spans = _equal_until(old_spans, self.spans, self.settled_spans)
            self.settled_step_points = _equal_until(old_points, self.step_points, self.settled_step_points)
        self.folded = after
        return True

    def _fold_one(
        self,
        number: int,
        record: AttemptRecord,
        around: Surroundings,
        carry: Carry,
        sealed: Sealed | None,
        before: Sequence[Folded],
        capacities: Capacities,
        gpus: tuple[tuple[int, int], ...],
    ) -> Folded:
        """One attempt's part of the timeline, appended to the run's spans and step points."""
        if sealed is None:
            result = attempt_pass(record, around, carry, number)
        else:
            result = attempt_pass(record, replace(around, start=sealed.until), sealed.carry, number)
        spans = result.painted.spans
        known = self.folded[number] if number < len(self.folded) else None
        path = [(around.within(at), step) for at, step in step_path(record)]
        if sealed is not None and path and self.step_points and self.step_points[-1].at == path[0][0]:
            del path[0]  # the corner at which it was sealed is there already
        points = step_points(path, number, () if known is None else known.points)
        total = Tally()
        gpu_total = Tally()
        stretches = result.painted.stretches
        if sealed is not None:
            total.add(sealed.tally)
            gpu_total.add(sealed.gpu_tally)
            stretches = sealed.stretches + stretches
        total.add(tally(spans))
        if capacities.is_known:
            gpu_total.add(gpu_tally(spans, capacities))
        self.spans.extend(spans)
        self.step_points.extend(points)
        mark = carry.high_water_step
        passes_at = known.passes_at if sealed is not None and known is not None else None
        return Folded(
            version=self.version(record),
            around=around,
            gpus=gpus,
            carry_in=carry,
            result=result,
            span_count=len(spans) + (0 if sealed is None else sealed.spans),
            point_count=len(points) + (0 if sealed is None else sealed.points),
            tally=total,
            gpu_tally=gpu_total,
            stretches=stretches,
            rollback=rollback_of(number, record, around, mark, (folded.stretches for folded in reversed(before))),
            passes_at=passes_at or _passes_at(record, around, mark),
            points=points,
            sealed=sealed,
        )

    def seal(
        self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings], capacities: Capacities
    ) -> tuple[int, int] | None:
        """Settle the beginning of the open attempt once it has grown long, so that a step more stays cheap.

        Returns the instant and the number of blocks that were let go; None when nothing was.
        """
        if not self.folded:
            return None
        number = len(records) - 1
        record, around, folded = records[number], surroundings[number], self.folded[number]
        blocks = record.blocks()
        cut = _sealable(blocks)
        if around.is_interrupted or around.is_over or cut < SEALED_AT_ONCE or around.end < blocks[-1].end:
            return None
        until, last_step = blocks[cut].start, blocks[cut - 1].last_step
        limits = (record.earliest_open_phase, folded.result.last_activity_at)
        if any(limit is not None and limit < until for limit in limits):
            return None
        if any(load.end > until for load in record.loads):
            return None
        start = self._offset_of(number)
        of_attempt = self.spans[start:]
        past = [span for span in of_attempt if span.end <= until]
        if len(past) < len(of_attempt) and of_attempt[len(past)].start < until:
            # Only whole spans are sealed: cutting one in two would make the timeline depend on when it was sealed.
            until = of_attempt[len(past)].start
            cut = bisect_left([block.start for block in blocks], until)
            if cut <= SEALED_AT_ONCE // 2 or cut >= len(blocks) or blocks[cut].start != until:
                return None
            last_step = blocks[cut - 1].last_step
        points_start = sum(each.point_count for each in self.folded[:number])
        points = [point for point in self.step_points[points_start:] if point.at <= until and point.step <= last_step]
        mark = folded.carry_in.high_water_step
        total, gpu_total = tally(past), Tally()
        if capacities.is_known:
            gpu_total = gpu_tally(past, capacities)
        stretches = tuple(each for each in folded.stretches if each.end <= until)
        sealed = Sealed(
            until=until,
            carry=Carry(high_water_step=max(last_step, -1 if mark is None else mark), kind=SpanKind.OVERHEAD, spill=()),
            past=_past(around, until, capacities),
            spans=len(past),
            points=len(points),
            tally=total,
            gpu_tally=gpu_total,
            stretches=stretches,
        )
        record.seal(until, last_step)
        folded.sealed = sealed
        folded.version = replace(folded.version, facts=-1)
        return until, cut

    def _offset_of(self, number: int) -> int:
        return sum(folded.span_count for folded in self.folded[:number])

    def current_step(self, high_water_step: int | None) -> int | None:
        """Where the run stands; None before any step."""
        if high_water_step is None:
            return None
        return self.step_points[-1].step if self.step_points else None

    def accounts(
        self, life: Life, current_step: int | None, high_water_step: int | None, capacities: Capacities, steady: int
    ) -> tuple[Account, Account | None]:
        """Where the time of the whole life went, by wall time and by GPU time."""
        if self._steady_sums.attempts != steady:
            self._steady_sums = _Sums(steady, *_summed(self.folded[:steady]))
        total, gpu_total = _summed(self.folded[steady:], self._steady_sums)
        if not self.folded:
            waiting = [
                Claim(since, life.end if until is None else min(until, life.end), Phase.QUEUED)
                for since, until in self._gathering.queue_intervals()
            ]
            total, gpu_total = self._only_waiting(waiting, life, capacities)
        debt = gpu_debt = 0
        if current_step is not None and high_water_step is not None and current_step < high_water_step:
            stretches = [folded.stretches for folded in reversed(self.folded)]
            debt = first_pass_ns(stretches, current_step)
            gpu_debt = first_pass_ns(stretches, current_step, capacities) if capacities.is_known else 0
        account = account_of(total, life.start, life.end, debt)
        return account, account_of(gpu_total, life.start, life.end, gpu_debt) if capacities.is_known else None

    def _only_waiting(self, waiting: list[Claim], life: Life, capacities: Capacities) -> tuple[Tally, Tally]:
        windows = self._gathering.run_wide.exclusions.in_force()
        excluded = [Claim(since, until, Phase.EXCLUDED) for since, until in windows]
        modes = [Mode(life.start, SpanKind.STARTUP)]
        self.spans = list(paint([*waiting, *excluded], life.start, life.end, None, modes).spans)
        self.settled_spans = 0
        return tally(self.spans), gpu_tally(self.spans, capacities) if capacities.is_known else Tally()


def _sealable(blocks: Sequence[StepBlock]) -> int:
    """How many leading blocks are old enough to be settled."""
    if not blocks:
        return 0
    old = bisect_left([block.end for block in blocks], blocks[-1].end - OPEN_NS)
    return max(min(old, len(blocks) - FEWEST_OPEN_BLOCKS), len(blocks) - MOST_OPEN_BLOCKS)


def _passes_at(record: AttemptRecord, around: Surroundings, high_water_step: int | None) -> int | None:
    """Start of an attempt's first completed step above a step."""
    for block in record.blocks():
        if high_water_step is None:
            return around.within(block.start)
        if block.last_step > high_water_step:
            return around.within(block.end_of(max(high_water_step, block.first_step - 1)))
    return None


def _past(around: Surroundings, until: int, capacities: Capacities) -> tuple[object, ...]:
    """What of an attempt's surroundings bears on its timeline before an instant."""
    return (
        around.start,
        tuple((claim.start, min(claim.end, until), claim.phase) for claim in around.queue if claim.start < until),
        tuple((claim.start, min(claim.end, until)) for claim in around.excluded if claim.start < until),
        tuple(capacities.between(around.start, until)) if capacities.is_known else (),
    )


def _equal_until(before: Sequence[object], after: Sequence[object], known_equal: int) -> int:
    """How many leading entries are the same, given how many are known to be."""
    for index in range(known_equal, min(len(before), len(after))):
        if before[index] != after[index]:
            return index
    return min(len(before), len(after))
