"""Data quality: facts that cannot all be true, and what the figures rest on.

Nothing contradictory is dropped in silence or clamped: it is counted here with a reason and an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerail.server.core.attempt_record import END_SLACK_NS, AttemptRecord
from rerail.server.core.checkpoints import CheckpointRecord, CheckpointShelf
from rerail.server.core.exclusions import Exclusions
from rerail.server.core.facts import CheckpointStage, Phase
from rerail.server.core.goodput import Capacities
from rerail.server.core.view import Contradiction, Span
from rerail.server.core.words import each_step

RANKS_APART_NS = 60_000_000_000
"""Ranks wait for each other at every step: ends of one step further apart than this are a matter of clocks."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One fact, or relation of facts, that contradicts another."""

    reason: str
    example: str
    at: int


def suspicions_of(number: int, record: AttemptRecord) -> list[Suspicion]:
    """What contradicts within one attempt."""
    found: list[Suspicion] = []
    for emitter, stream in sorted(record.streams.items()):
        for stated in stream.repeated:
            found.append(
                Suspicion(
                    "a step was completed again without a restart",
                    f"attempt {number}: steps {stated.first_step}–{stated.last_step} by {emitter}",
                    stated.start,
                )
            )
        for overlapping in stream.overlapping:
            found.append(
                Suspicion(
                    "steps of one emitter lie over one another",
                    f"attempt {number}: step {overlapping.first_step} by {emitter}",
                    overlapping.start,
                )
            )
    found += _disagreeing_ranks(number, record)
    found += _several_exit_codes(number, record)
    if record.is_end_contradicted:
        at = record.ended[-1][0]
        found.append(
            Suspicion("an attempt ended before it began, or stepped on after its end", f"attempt {number}", at)
        )
    for load in record.loads:
        if load.end < record.started_at:
            found.append(
                Suspicion(
                    "a checkpoint was loaded before its attempt began",
                    f"attempt {number}: load of step {load.step}",
                    load.start,
                )
            )
        first = record.first_block
        if load.is_ok and first is not None and load.start <= first.start < load.end - END_SLACK_NS:
            found.append(
                Suspicion(
                    "a checkpoint was still being loaded when its attempt stepped",
                    f"attempt {number}: load of step {load.step}",
                    load.start,
                )
            )
    for phase in record.phases:
        if phase.is_contradicted:
            found.append(
                Suspicion(
                    "one phase was told with several names, beginnings or ends",
                    f"attempt {number}: {phase.phase.value} by {phase.emitter}",
                    phase.start or phase.end or 0,
                )
            )
        if phase.start is None:
            found.append(
                Suspicion(
                    "a phase ended whose beginning was never told",
                    f"attempt {number}: {phase.phase.value} by {phase.emitter}",
                    phase.end or 0,
                )
            )
        elif phase.end is not None and phase.end < phase.start:
            found.append(
                Suspicion(
                    "a phase ended before it began",
                    f"attempt {number}: {phase.phase.value} by {phase.emitter}",
                    phase.start,
                )
            )
    return found


def _disagreeing_ranks(number: int, record: AttemptRecord) -> list[Suspicion]:
    """Ranks that say of the same step that it ended minutes apart: a step is everyone's, so a clock is off."""
    streams = {emitter: stream for emitter, stream in sorted(record.streams.items()) if stream.blocks}
    if len(streams) < 2:
        return []
    step = min(stream.blocks[-1].last_step for stream in streams.values())
    ends = sorted((end, emitter) for emitter, stream in streams.items() if (end := stream.end_of(step)) is not None)
    if len(ends) < 2 or ends[-1][0] - ends[0][0] <= RANKS_APART_NS:
        return []
    (first, early), (last, late) = ends[0], ends[-1]
    example = f"attempt {number}: step {step} ended {(last - first) / 1e9:.0f} s later by {late} than by {early}"
    return [Suspicion("ranks disagree by minutes about when a step ended: a clock is off", example, first)]


def _several_exit_codes(number: int, record: AttemptRecord) -> list[Suspicion]:
    """Ranks that are said to have exited with different codes. A signal counts as itself, as −9 or as 137."""
    codes: dict[int, set[int]] = {}
    told = [(worker.rank, worker.exit_code) for worker in record.exits if worker.rank >= 0]
    for rank, code in told + [pair for *_, fact in record.ended for pair in fact.exit_codes]:
        codes.setdefault(rank, set()).add(128 - code if code > 128 else code)
    at = record.exits[0].at if record.exits else record.ended[0][0] if record.ended else 0
    return [
        Suspicion(
            "one rank was told to have exited with several codes",
            f"attempt {number}: rank {rank} with {', '.join(str(code) for code in sorted(several))}",
            at,
        )
        for rank, several in sorted(codes.items())
        if len(several) > 1
    ]


def steps_without_gpus(spans: Sequence[Span], capacities: Capacities) -> list[Suspicion]:
    """Stretches of stepping in which the run was told to hold no GPU at all."""
    if not capacities.is_ever_none:
        return []
    return [
        Suspicion(
            "steps were completed while no GPU was held", f"attempt {span.attempt}: step {span.first_step}", span.start
        )
        for span in spans
        if span.phase in (Phase.TRAINING, Phase.RECOMPUTING)
        and any(gpus == 0 for _, gpus in capacities.between(span.start, span.end))
    ]


def loads_of_nothing(records: Sequence[AttemptRecord], shelf: CheckpointShelf) -> list[Suspicion]:
    """Restarts that loaded a step of which no save was told, though others were."""
    if not shelf.ordered:
        return []
    return [
        Suspicion(
            "a checkpoint was loaded that nobody saved, as far as told",
            f"attempt {number}: step {load.step}",
            load.start,
        )
        for number, record in enumerate(records)
        for load in record.loads
        if number and load.is_ok and load.step > 0 and not shelf.knows(load.step)
    ]


def unearned_checkpoints(shelf: CheckpointShelf, high_water_step: int | None) -> list[Suspicion]:
    """Checkpoints of steps that were never completed, as far as told."""
    if high_water_step is None:
        return []
    return [
        Suspicion("a checkpoint holds a step that was never completed", f"step {each.step}", each.durable_at or 0)
        for each in shelf.durable_above(high_water_step)
    ]


def loads_beyond(records: Sequence[AttemptRecord], high_water_steps: Sequence[int | None]) -> list[Suspicion]:
    """Loads of steps that were never completed before; `high_water_steps` are those each attempt began with."""
    return [
        Suspicion(
            "a checkpoint was loaded of a step that was never completed",
            f"attempt {number}: load of step {load.step}, high-water step {mark}",
            load.start,
        )
        for number, (record, mark) in enumerate(zip(records, high_water_steps, strict=True))
        for load in record.loads
        if mark is not None and load.is_ok and load.step > mark and load.is_before(record.first_block)
    ]


def suspicions_of_checkpoint(record: CheckpointRecord) -> list[Suspicion]:
    """What contradicts within the life of one checkpoint."""
    when, found = record.when, []
    name = f"{record.checkpoint_id}, attempt {record.attempt}"
    at = min(when.values())
    durable = when.get(CheckpointStage.DURABLE)
    if len(record.steps) > 1:
        told = ", ".join(str(step) for step in sorted(record.steps))
        found.append(Suspicion("one checkpoint was told of several steps", f"{name}: steps {told}", at))
    for stage in (CheckpointStage.STARTED, CheckpointStage.CAPTURED):
        if durable is not None and when.get(stage, durable) > durable:
            reason = f"a checkpoint was durable before it was {stage.value}"
            found.append(Suspicion(reason, name, durable))
    started, captured = when.get(CheckpointStage.STARTED), when.get(CheckpointStage.CAPTURED)
    if started is not None and captured is not None and captured < started:
        found.append(Suspicion("a checkpoint was captured before it was started", name, captured))
    failed, deleted = when.get(CheckpointStage.FAILED), when.get(CheckpointStage.DELETED)
    if failed is not None and durable is not None and failed > durable:
        found.append(Suspicion("a checkpoint failed after it was durable", name, failed))
    if deleted is not None and deleted < min((moment for moment in (started, captured, durable) if moment is not None),
                                             default=deleted):  # fmt: skip
        found.append(Suspicion("a checkpoint was deleted before it was there", name, deleted))
    return found


def suspicions_of_windows(exclusions: Exclusions) -> list[Suspicion]:
    """What people said about windows out of account that cannot be."""
    found = [
        Suspicion("a window that was never declared was undone", f"{state.window}, by {state.emitter}", state.at)
        for state in exclusions.unheard_of()
    ]
    found += [
        Suspicion("a window out of account is empty", f"{window.window}", window.start)
        for window in exclusions.windows()
        if window.end <= window.start
    ]
    return found


def grouped(suspicions: Iterable[Suspicion]) -> tuple[Contradiction, ...]:
    """Suspicions by reason, each with its count and its first example."""
    groups: dict[str, list[Suspicion]] = {}
    for each in sorted(suspicions, key=lambda suspicion: (suspicion.at, suspicion.example)):
        groups.setdefault(each.reason, []).append(each)
    return tuple(Contradiction(reason, len(group), group[0].example) for reason, group in sorted(groups.items()))


def footing(
    records: Sequence[AttemptRecord],
    world_size: int | None,
    saw_checkpoints: bool,
    saw_steps: bool,
    speaks_for_ranks: bool,
    unnoticed: Sequence[int] = (),
    untold_restarts: Sequence[int] = (),
    told_every: int = 1,
) -> tuple[str, ...]:
    """What the figures rest on where not everything is known, in sentences.

    `unnoticed` are the interrupted attempts whose end nobody noticed before the next began; `untold_restarts` are
    attempts before which nobody knows how long none ran; `told_every`: each how many-th step is told of those that were
    interrupted.
    """
    notes = []
    ranks = {rank for record in records for rank in record.reporting_ranks}
    if ranks and (world_size or 2) > len(ranks):
        named = ", ".join(str(rank) for rank in sorted(ranks)[:8])
        of = f" of {world_size}" if world_size else ""
        notes.append(f"Steps are reported by {'rank' if len(ranks) == 1 else 'ranks'} {named}{of}: "
                     "the phase of the run is that of the slowest of them.")  # fmt: skip
    if saw_steps and not saw_checkpoints:
        notes.append("No checkpoint was stated: steps at risk and checkpoint stalls are unknown.")
    if unnoticed:
        how_many = "1 attempt" if len(unnoticed) == 1 else f"{len(unnoticed)} attempts"
        notes.append(f"{how_many} ended without anyone noticing, as far as told: detection reaches until the next "
                     f"attempt began, and may hold queueing too (attempt {unnoticed[0]}).")  # fmt: skip
    if untold_restarts:
        more = f" and {len(untold_restarts) - 1} more" if len(untold_restarts) > 1 else ""
        notes.append(f"Nothing that was told dates the restart that began attempt {untold_restarts[0]}{more}: "
                     "how long the run was down is unknown, its time is in no figure.")  # fmt: skip
    if told_every > 1:
        notes.append(f"Only {each_step(told_every)} is told: at every interruption up to {told_every - 1} more "
                     "may have been lost than is shown, and the time to redo them; what had been done of them is shown "
                     "as detecting.")  # fmt: skip
    if records and not speaks_for_ranks:
        notes.append("Nobody tells of steps: they are not seen, so training goodput is unknown, and what follows "
                     "bring-up cannot be told from it.")  # fmt: skip
    elif records and not saw_steps:
        notes.append("No completed step was stated: nothing can count as training.")
    return tuple(notes)
