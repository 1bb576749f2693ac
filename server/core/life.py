"""The edges of a run's life, and what each attempt must know of the run around it.

Rules
- A life starts at the first queue or attempt fact, not where the run was named. It ends where the run was told to have
  ended, unless an attempt or a step began after that; an open run lasts until now. Who does not know how it ended
  overrules nobody who does.
- An attempt that was followed by another was interrupted, unless it completed: then the next one is more work, and no
  recovery. The last one was, if it failed; where nobody knows how the run ended, if an end was noticed after its last
  step.
- What its dumps show to have hung was interrupted too, whether somebody stopped it or it still hangs (`hangs.py`).
- Planned is what was stopped before the next began, or what an operator restarted. A restart without any
  fault is planned too: it is a finding, not a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.attempt_pass import Surroundings
from rerail.server.core.attempt_record import END_SLACK_NS, AttemptRecord
from rerail.server.core.facts import Initiator, MarkStage, Outcome, Phase
from rerail.server.core.gathering import Gathering
from rerail.server.core.hangs import hangs
from rerail.server.core.quality import Suspicion
from rerail.server.core.timeline import Claim
from rerail.server.core.told import initiator_of, world_size_of

AFTER_NOW = "something began after the instant the figures hold for: a clock runs ahead"


@dataclass(frozen=True, slots=True)
class Life:
    """The edges of a run's life as of an instant."""

    start: int
    end: int
    ended_at: int | None
    outcome: Outcome | None
    reason: str | None


def life_of(gathering: Gathering, records: Sequence[AttemptRecord], as_of: int) -> Life | None:
    """The life of a run as of an instant; None while nothing of it was told but its name."""
    starts = [record.life_starts_at for record in records]
    starts += [since for since, _ in gathering.queue_intervals()]
    if not starts:
        return None
    start = min(starts)
    ended = sorted(gathering.run_wide.ended, key=lambda entry: entry[:3])
    latest_start = max((record.started_at for record in records), default=start)
    latest_step = max((record.blocks()[-1].last_began for record in records if record.blocks()), default=start)
    is_contradicted = bool(ended) and latest_step > ended[-1][0] + END_SLACK_NS
    if ended and latest_start <= ended[-1][0] <= as_of and not is_contradicted:
        known = [
            entry for entry in ended
            if entry[3].outcome is not None and entry[0] >= latest_start and entry[0] + END_SLACK_NS >= latest_step
        ]  # fmt: skip
        at, _, _, fact = ended[-1] if ended[-1][3].outcome is not None or not known else known[-1]
        return Life(start, max(start, at), at, fact.outcome, fact.reason)
    return Life(start, max(start, as_of), None, None, None)


@dataclass(frozen=True, slots=True)
class Around:
    """What every attempt must know of its run, and what in that contradicts."""

    surroundings: Sequence[Surroundings] = ()
    suspicions: Sequence[Sequence[Suspicion]] = ()
    """Of each attempt."""


def ended_too_soon(gathering: Gathering, records: Sequence[AttemptRecord], life: Life) -> list[Suspicion]:
    """Who told of an end after which the run went on. One of a failed run was true until it was taken up again: a
    launcher ends, and somebody starts it anew."""
    latest_start = max((record.started_at for record in records), default=life.start)
    return [
        Suspicion("the run went on after it was told to have ended", f"told by {emitter}", at)
        for at, emitter, _, fact in gathering.run_wide.ended
        if life.ended_at is None
        and at <= life.end
        and not (latest_start > at and fact.outcome in (Outcome.FAILED, Outcome.PREEMPTED))
    ]


def surroundings_of(
    gathering: Gathering, records: Sequence[AttemptRecord], life: Life, before: Around, steady: int
) -> Around:
    """What each attempt must know of its run; of the `steady` leading ones it is what it was `before`."""
    suspicions: list[list[Suspicion]] = [list(found) for found in before.suspicions[:steady]]
    suspicions += [[] for _ in records[steady:]]
    starts = [around.start for around in before.surroundings[:steady]]
    for index in range(steady, len(records)):
        start = life.start if index == 0 else records[index].started_at
        if start > life.end:
            if start > life.end + END_SLACK_NS:
                suspicions[index].append(Suspicion(AFTER_NOW, f"attempt {index}", start))
            start = life.end
        if index and start < starts[-1]:
            suspicions[index].append(Suspicion("an attempt began before the one it follows", f"attempt {index}", start))
            start = starts[-1]
        starts.append(start)
    queue = []
    attempt_starts = sorted(record.started_at for record in records)
    for since, until in gathering.queue_intervals():
        following = next((at for at in attempt_starts if at > since), life.end)
        queue.append(Claim(since, min(life.end if until is None else until, following), Phase.QUEUED))
    excluded = [Claim(since, until, Phase.EXCLUDED) for since, until in gathering.run_wide.exclusions.in_force()]
    withdrawn = gathering.run_wide.artefacts.withdrawn()
    around = list(before.surroundings[:steady])
    for index in range(steady, len(records)):
        record = records[index]
        is_last = index == len(records) - 1
        start = starts[index]
        end = max(start, life.end if is_last else starts[index + 1])
        next_record = None if is_last else records[index + 1]
        world_size = world_size_of(record, gathering.run_wide.started) if record.has_dumps else None
        is_hung = hangs(record, min(end, record.ended_at or end), withdrawn, world_size)
        is_interrupted, is_planned = ending(record, next_record, life, is_hung=is_hung)
        suspicions[index] += _outside(index, record, start, end, is_last)
        around.append(
            Surroundings(
                start=start,
                end=end,
                is_last=is_last,
                is_interrupted=is_interrupted,
                is_planned=is_planned,
                is_hung=is_hung,
                is_over=not is_last or life.ended_at is not None or record.outcome is not None,
                queue=tuple(claim for claim in queue if claim.end > start and claim.start < end),
                excluded=tuple(claim for claim in excluded if claim.end > start and claim.start < end),
                speaks_for_ranks=gathering.run_wide.speaks_for_ranks,
            )
        )
    return Around(around, suspicions)


def _outside(number: int, record: AttemptRecord, start: int, end: int, is_last: bool) -> list[Suspicion]:
    """Steps that were told of an attempt where another attempt was, or nothing can be yet."""
    blocks = record.blocks()
    if not blocks:
        return []
    found = []
    if blocks[0].start < start - END_SLACK_NS:
        found.append(
            Suspicion(
                "an attempt stepped before the one it follows was over",
                f"attempt {number}: step {blocks[0].first_step}",
                blocks[0].start,
            )
        )
    if blocks[-1].last_began > end + END_SLACK_NS:
        reason = AFTER_NOW if is_last else "an attempt stepped on after the next one began"
        found.append(Suspicion(reason, f"attempt {number}: step {blocks[-1].last_step}", blocks[-1].last_began))
    return found


def ending(
    record: AttemptRecord, following: AttemptRecord | None, life: Life, *, is_hung: bool = False
) -> tuple[bool, bool]:
    """Whether an attempt was interrupted, and whether that was planned."""
    outcome = record.outcome
    if outcome is Outcome.COMPLETED:
        return False, False
    if is_hung:
        return True, False
    if following is not None:
        if outcome is Outcome.STOPPED:
            return True, True
        initiator = initiator_of(following)
        if outcome is None and initiator is Initiator.OPERATOR:
            return True, True
        without_fault = not record.exits and MarkStage.NOTICED not in record.marks and not record.lost_nodes
        return True, outcome is None and initiator is Initiator.MONITOR and without_fault
    if outcome in (Outcome.FAILED, Outcome.PREEMPTED):
        return True, False
    blocks = record.blocks()
    last_began = max(record.started_at - 1, blocks[-1].last_began if blocks else -1)
    if life.ended_at is not None:
        if outcome is not None or life.outcome is not None:
            return outcome is None and life.outcome is Outcome.FAILED, False
        # Nobody tells how it ended: what a fault alone leaves behind does.
        faults = [worker.at for worker in record.exits if worker.exit_code] + [at for at, _ in record.lost_nodes]
        faults += [record.marks[MarkStage.NOTICED]] if MarkStage.NOTICED in record.marks else []
        return any(last_began < at <= life.end for at in faults), False
    if outcome is Outcome.STOPPED:
        return True, True
    return any(last_began < at <= life.end for at in record.notices), False
