"""One attempt of the timeline: what its facts claim, how it ended, and the spans that follow.

Rules (docs/accounting.md has the reasons)
- A region is what lies between the start of an attempt and the start of the next; queueing after its end is in it.
- The *notice* is the first of: noticed, aborting, workers gone, a non-zero exit, a lost node, attempt ended, teardown
  begun. A notice before the last completed step began is contradicted by that step and does not count.
- `detecting` reaches from the end of the last completed activity to the notice; an activity still open is part of it.
  A death during bring-up is different: there the phase that was open lasts until the death is noticed.
- Marks make phases: noticed → workers gone is `stopping`, rendezvous started → completed is `rendezvous`, completed →
  initialized is `initializing`. A missing end mark means until what came next.
- Where nobody tells of steps, an attempt runs from when all that was told of its bring-up is over (`running.py`) to its
  notice: that is `silent`, and nothing of it `detecting`.
- In an open run, what is not told is `silent`; heartbeats without a step for longer than a stall takes are `stalled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.attempt_record import AttemptRecord, ToldPhase
from rerail.server.core.facts import MarkStage, Phase
from rerail.server.core.running import BRING_UP, runs_from
from rerail.server.core.steps import StepBlock
from rerail.server.core.timeline import Claim, Mode, Painted, paint, recent_durations, stall_limit_ns, step_claims
from rerail.server.core.view import SpanKind


@dataclass(frozen=True, slots=True)
class Carry:
    """What one region hands to the next."""

    high_water_step: int | None = None
    kind: SpanKind = SpanKind.STARTUP
    """On whose account down phases go until the next completed step."""
    spill: tuple[Claim, ...] = ()
    """Told phases that reach beyond the region: precedence decides between attempts too."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an attempt must know of the rest of its run."""

    start: int
    end: int
    """Start of the next attempt, or the end of the run's life so far."""
    is_last: bool
    is_interrupted: bool
    is_planned: bool
    is_over: bool
    """The attempt is known to have ended: another began, or the run ended, or it was told."""
    queue: tuple[Claim, ...] = ()
    """What the scheduler said, as claims."""
    excluded: tuple[Claim, ...] = ()
    is_hung: bool = False
    """Its dumps show that it stood still until it was stopped, or still does."""
    speaks_for_ranks: bool = True
    """Somebody tells what ranks do, of this run: a step that happens would be told."""

    def within(self, at: int) -> int:
        """An instant as near as the attempt's part of the life has it.

        What was told of an attempt outside its part contradicts the attempts around it; it is counted (`life.py`).
        """
        return min(max(at, self.start), self.end)


@dataclass(frozen=True, slots=True)
class AttemptPass:
    """One attempt's part of the timeline."""

    painted: Painted
    carry: Carry
    noticed_at: int | None
    last_activity_at: int | None
    runs_from: int | None
    """When it was known to run, in a run of which nobody tells steps; None in others, and where it never was."""
    overlays: tuple[Claim, ...]
    """Every claim that is not of steps nor excluded, ordered by start: what may be laid over a step."""


def attempt_pass(record: AttemptRecord, around: Surroundings, carry: Carry, number: int) -> AttemptPass:
    """The spans of `[around.start, around.end)` and what the next region needs to know."""
    blocks = record.blocks()
    first_step_at = None if record.first_block is None else record.first_block.start
    noticed_at = _notice(record, blocks, around) if around.is_interrupted else None
    told = [phase for phase in record.phases if phase.phase is not Phase.QUEUED and phase.start is not None]
    queue = [*around.queue, *record.told_queue(around.end)]
    is_relaunch = carry.kind is SpanKind.FAULT
    runs_at = None if around.speaks_for_ranks else runs_from(record, queue, noticed_at, is_relaunch=is_relaunch)
    bring_up_ends_at = noticed_at if noticed_at is not None else (record.ended_at or around.end)
    if runs_at is not None:
        bring_up_ends_at = min(bring_up_ends_at, runs_at)

    claims = [_closed_claim(phase, runs_at) for phase in told if phase.end is not None]
    claims += [Claim(load.start, load.end, Phase.LOADING) for load in record.loads]
    dying_bring_up = False
    for phase in told:
        if phase.end is not None:
            continue
        claim = _open_claim(phase, record, blocks, around, noticed_at, bring_up_ends_at)
        if claim is not None:
            claims.append(claim)
            dying_bring_up |= phase.phase in BRING_UP and noticed_at is not None and claim.end >= noticed_at
    marked, marked_dying = _marked_bring_up(record, told, noticed_at, bring_up_ends_at)
    claims += marked
    dying_bring_up |= marked_dying and runs_at is None

    last_activity_at = _last_activity(record, blocks, claims, noticed_at)
    claims += queue
    claims += carry.spill
    spill = tuple(claim for claim in claims if claim.end > around.end and not around.is_last)
    modes = [Mode(around.start, carry.kind)]
    if first_step_at is not None:
        modes.append(Mode(max(first_step_at, around.start), SpanKind.OVERHEAD))
    elif runs_at is not None:
        modes.append(Mode(max(runs_at, around.start), SpanKind.OVERHEAD))
    if noticed_at is not None:
        lost_from = noticed_at
        if not dying_bring_up and runs_at is None:
            lost_from = min(noticed_at, record.started_at if last_activity_at is None else last_activity_at)
            claims.append(Claim(lost_from, noticed_at, Phase.DETECTING))
        stays_fault = not blocks and runs_at is None and carry.kind is SpanKind.FAULT
        kind = SpanKind.PLANNED if around.is_planned and not stays_fault else SpanKind.FAULT
        modes.append(Mode(max(lost_from, around.start), kind))
        stopping = _marked_stopping(record, queue, noticed_at, around)
        if stopping is not None:
            claims.append(stopping)
    elif around.is_over and (last_activity_at is not None or runs_at is not None):
        over_at = last_activity_at if runs_at is None else record.ended_at or runs_at
        modes.append(Mode(max(over_at or around.start, runs_at or around.start, around.start), SpanKind.PLANNED))
    elif not around.is_over:
        claims += _live_stall(record, blocks, last_activity_at)

    overlays = tuple(sorted(claims, key=lambda claim: (claim.start, claim.end, claim.phase)))
    steps = step_claims(blocks, carry.high_water_step, overlays)
    painted = paint([*steps, *claims, *around.excluded], around.start, around.end, number, modes)
    high_water_step = carry.high_water_step
    if blocks:
        high_water_step = max(blocks[-1].last_step, -1 if high_water_step is None else high_water_step)
    kind = modes[-1].kind
    if around.is_over and not around.is_last and kind is SpanKind.OVERHEAD:
        kind = SpanKind.PLANNED
    runs_at = None if runs_at is None else around.within(runs_at)
    if around.is_hung and not around.is_over and noticed_at == around.end:
        noticed_at = None  # Nobody has noticed yet: what it does is `detecting` for as long.
    return AttemptPass(painted, Carry(high_water_step, kind, spill), noticed_at, last_activity_at, runs_at, overlays)


def _closed_claim(phase: ToldPhase, runs_at: int | None) -> Claim:
    """What was told, but that a group which is known to run is not brought up any more."""
    assert phase.start is not None and phase.end is not None
    end = phase.end
    if runs_at is not None and phase.phase in BRING_UP and phase.start < runs_at:
        end = min(end, runs_at)
    return Claim(phase.start, end, phase.phase, phase.name)


def _notice(record: AttemptRecord, blocks: Sequence[StepBlock], around: Surroundings) -> int:
    """When the end of an interrupted attempt was first noticed."""
    candidates = list(record.notices)
    candidates += [phase.start for phase in record.phases if phase.phase is Phase.STOPPING and phase.start is not None]
    if blocks:
        candidates = [at for at in candidates if at > blocks[-1].last_began]
    candidates = [at for at in candidates if max(record.started_at, around.start) <= at < around.end]
    return min(candidates, default=around.end)


def _open_claim(
    phase: ToldPhase,
    record: AttemptRecord,
    blocks: Sequence[StepBlock],
    around: Surroundings,
    noticed_at: int | None,
    bring_up_ends_at: int,
) -> Claim | None:
    """The claim of a phase whose end was never told, or None where the fault has taken it."""
    start = phase.start
    assert start is not None
    following = [block.start for block in blocks if block.start >= start]
    if phase.phase in BRING_UP:
        return Claim(start, min([bring_up_ends_at, *following[:1]]), phase.phase)
    if phase.phase is Phase.STOPPING:
        ended = record.ended_at
        return Claim(start, ended if ended is not None and ended >= start else around.end, phase.phase)
    if following:
        return Claim(start, following[0], phase.phase, phase.name)
    if noticed_at is not None:
        return None
    return Claim(start, around.end if not around.is_over else (record.ended_at or around.end), phase.phase, phase.name)


def _marked_bring_up(
    record: AttemptRecord,
    told: Sequence[ToldPhase],
    noticed_at: int | None,
    bring_up_ends_at: int,
) -> tuple[list[Claim], bool]:
    """Rendezvous and initializing as the marks tell them, and whether the attempt died in one of them."""
    marks = record.marks
    started = marks.get(MarkStage.RENDEZVOUS_STARTED)
    completed = marks.get(MarkStage.RENDEZVOUS_COMPLETED)
    initialized = marks.get(MarkStage.INITIALIZED)
    claims: list[Claim] = []
    if started is not None and completed is None:
        later = [at for at in (marks.get(MarkStage.WORKERS_STARTED), initialized) if at is not None and at >= started]
        later += [phase.start for phase in told if phase.start is not None and phase.phase is Phase.INITIALIZING]
        later += [] if record.first_block is None else [record.first_block.start]
        if later:
            claims.append(Claim(started, min(later), Phase.RENDEZVOUS))
            return claims, False
        claims.append(Claim(started, bring_up_ends_at, Phase.RENDEZVOUS))
        return claims, noticed_at is not None
    if started is not None and completed is not None:
        claims.append(Claim(started, completed, Phase.RENDEZVOUS))
    begun = completed if completed is not None else marks.get(MarkStage.WORKERS_STARTED)
    if begun is None:
        return claims, False
    if initialized is not None and initialized >= begun:
        claims.append(Claim(begun, initialized, Phase.INITIALIZING))
        return claims, False
    if record.first_block is not None:
        claims.append(Claim(begun, max(begun, record.first_block.start), Phase.INITIALIZING))
        return claims, False
    ends = [phase.end for phase in told if phase.phase is Phase.INITIALIZING and phase.end is not None]
    if ends:
        claims.append(Claim(begun, max(ends), Phase.INITIALIZING))
        return claims, False
    claims.append(Claim(begun, bring_up_ends_at, Phase.INITIALIZING))
    return claims, noticed_at is not None


def _last_activity(
    record: AttemptRecord, blocks: Sequence[StepBlock], claims: Sequence[Claim], noticed_at: int | None
) -> int | None:
    """End of the last completed activity (step, closed phase, load) not later than the notice."""
    ends = [claim.end for claim in claims if claim.phase is not Phase.STOPPING]
    completed = record.marks.get(MarkStage.RENDEZVOUS_COMPLETED)
    initialized = record.marks.get(MarkStage.INITIALIZED)
    ends += [at for at in (completed, initialized) if at is not None]
    if blocks:
        ends.append(blocks[-1].end if noticed_at is None else min(blocks[-1].end, noticed_at))
    if noticed_at is not None:
        ends = [end for end in ends if end <= noticed_at]
    return max(ends, default=None)


def _marked_stopping(
    record: AttemptRecord, queue: Sequence[Claim], noticed_at: int, around: Surroundings
) -> Claim | None:
    """Teardown as the marks tell it: noticed → workers gone, or attempt ended, or what came next."""
    if any(phase.phase is Phase.STOPPING and phase.start is not None for phase in record.phases):
        return None
    ended_at = record.ended_at
    if ended_at is not None and ended_at >= noticed_at:
        gone = record.marks.get(MarkStage.WORKERS_GONE)
        return Claim(noticed_at, gone if gone is not None and gone >= noticed_at else ended_at, Phase.STOPPING)
    if MarkStage.NOTICED not in record.marks and MarkStage.ABORTING not in record.marks:
        return None
    queued = [claim.start for claim in queue if claim.start >= noticed_at]
    return Claim(noticed_at, min([around.end, *queued]), Phase.STOPPING)


def _live_stall(record: AttemptRecord, blocks: Sequence[StepBlock], last_activity_at: int | None) -> list[Claim]:
    """In an open attempt: heartbeats that went on for longer than a stall takes, without a step."""
    until = record.heartbeat_until
    if until is None or not blocks or last_activity_at is None:
        return []
    limit = stall_limit_ns(recent_durations(blocks))
    if until <= last_activity_at + limit:
        return []
    return [Claim(last_activity_at + limit, until, Phase.STALLED)]
