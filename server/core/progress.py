"""Progress: where the run stands, what it was thrown back by, and the ground it has not regained.

Rules
- The high-water step is the highest ever completed. The current step falls at the end of a successful load, or else
  where the attempt's first completed step began; until then the fall is not known.
- A rollback is named by the attempt that began with it. It is never below 0, and 0 is still a restart.
- The debt is the first-pass training time of the steps between the current step and the high-water step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.server.core.attempt_pass import Surroundings
from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.goodput import Capacities
from rerail.server.core.timeline import TrainingStretch
from rerail.server.core.view import Rollback, StepPoint


def resumed_from(record: AttemptRecord) -> tuple[int, int] | None:
    """`(instant, step)` at which an attempt was known to stand; None before it loaded or stepped."""
    record.blocks()
    first = record.first_block
    loads = [load for load in record.loads if load.is_ok and load.is_before(first)]
    if loads:
        # At the latest when it steps: a load that goes on after that contradicts, and is counted.
        return loads[-1].end if first is None else min(loads[-1].end, first.start), loads[-1].step
    if first is not None:
        return first.start, first.first_step - 1
    return None


def step_path(record: AttemptRecord) -> list[tuple[int, int]]:
    """`(instant, step)` corners of an attempt's progress since it was last sealed, in order, none twice in a row."""
    path: list[tuple[int, int]] = []
    resumed = resumed_from(record)
    if resumed is not None and record.sealed_until is None:
        path.append(resumed)
    for block in record.blocks():
        begun = (block.start, block.first_step - 1)
        if not path or path[-1] != begun:
            path.append(begun)
        path.append((block.end, block.last_step))
    return path


def first_pass_ns(
    stretches: Iterable[Sequence[TrainingStretch]], above_step: int, capacities: Capacities | None = None
) -> int:
    """First-pass training time of the steps above a step.

    `stretches` are those of the attempts, latest attempt first. With `capacities` the result is in GPU·ns.
    """
    total = 0
    for of_attempt in stretches:
        for stretch in reversed(of_attempt):
            block = stretch.block
            if block.last_step <= above_step:
                return total
            start = stretch.start
            if above_step >= block.first_step:
                start = max(start, block.end_of(above_step))
            if stretch.end > start:
                length = stretch.end - start
                total += length if capacities is None else capacities.gpu_ns(start, stretch.end)
    return total


def rollback_of(
    number: int,
    record: AttemptRecord,
    around: Surroundings,
    high_water_step: int | None,
    before: Iterable[Sequence[TrainingStretch]],
) -> Rollback | None:
    """How far the restart that began an attempt threw the run back; None while it is not known.

    `before` are the training stretches of the attempts before it, latest first.
    """
    if number == 0 or high_water_step is None:
        return None
    resumed = resumed_from(record)
    if resumed is None:
        return None
    at, step = resumed
    to_step = min(step, high_water_step)
    return Rollback(number, around.within(at), high_water_step, to_step, first_pass_ns(before, to_step))


def step_points(path: Sequence[tuple[int, int]], attempt: int, before: Sequence[StepPoint] = ()) -> list[StepPoint]:
    """An attempt's progress as points of the step sawtooth; those of `before` it has in common are the same objects."""
    same = 0
    for (at, step), point in zip(path, before, strict=False):
        if point.at != at or point.step != step:
            break
        same += 1
    return [*before[:same], *(StepPoint(at, step, None, attempt) for at, step in path[same:])]
