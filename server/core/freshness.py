"""Freshness: what a crash right now would cost, and which saves or checkpoints should worry somebody.

Rules
- Newest is the latest captured that is durable and not deleted. A failed save refreshes nothing.
- The usual interval is the median time between captures of one attempt, over the latest saves. An open run is *overdue*
  when the newest durable checkpoint is older than that interval plus 1.5 × p95 of the commit lag.
- A save of the running attempt that is neither durable nor failed after 2 × p95 of the commit lag is *stuck*.
- A checkpoint is *suspect* when it was loaded at least twice, and each of the last two times the attempt failed without
  having made a newer one durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.attempt_pass import Surroundings
from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.checkpoints import CheckpointShelf
from rerail.server.core.goodput import Capacities
from rerail.server.core.statistics import percentile
from rerail.server.core.view import Checkpoint, CheckpointFreshness

LOOK_BACK = 64
"""Saves overlap by far less than this: so many durable ones in a row that are no newer end a search."""


def freshness_of(
    shelf: CheckpointShelf,
    records: Sequence[AttemptRecord],
    surroundings: Sequence[Surroundings],
    capacities: Capacities,
    high_water_step: int | None,
    as_of: int,
) -> CheckpointFreshness:
    """All freshness figures at an instant, which for a run that is over is its end."""
    lag_p95 = percentile(shelf.lags, 0.95) if shelf.lags else None
    recent = shelf.ordered[-LOOK_BACK:]
    is_open = bool(surroundings) and not surroundings[-1].is_over
    newest = _newest_durable(shelf.ordered, as_of)
    interval = _interval_ns(recent)
    captured_at = None if newest is None else newest.captured_at
    age = None if captured_at is None else as_of - captured_at
    overdue = None
    if is_open and age is not None and interval is not None and lag_p95 is not None:
        overdue = max(0, age - interval - lag_p95 * 3 // 2)
    modes = [each.mode for each in recent if each.mode is not None]
    is_asynchronous = 2 * modes.count("async") > len(modes)
    alike = [each for each in recent if (each.mode == "async") is is_asynchronous]
    blocked = sorted(length for each in alike if (length := _blocked_ns(each)) is not None)
    return CheckpointFreshness(
        newest_durable_step=None if newest is None else newest.step,
        newest_durable_id=None if newest is None else newest.checkpoint_id,
        age_ns=age,
        steps_at_risk=None if newest is None else steps_at_risk(high_water_step, newest.step),
        commit_lag_p95_ns=lag_p95,
        commit_lag_count=len(shelf.lags),
        count=len(shelf.ordered),
        durable_count=shelf.durable_count,
        failed_count=shelf.failed_count,
        age_started_ns=_age_started(recent, as_of),
        interval_ns=interval,
        overdue_ns=overdue,
        exposed_gpu_ns=capacities.gpu_ns(captured_at, as_of)
        if captured_at is not None and capacities.is_known
        else None,
        stuck=_stuck(recent, len(records) - 1, lag_p95, as_of) if is_open else (),
        blocked_ns=percentile(blocked, 0.5) if blocked else None,
        commit_lag_p50_ns=percentile(shelf.lags, 0.5) if shelf.lags else None,
        is_asynchronous=is_asynchronous,
        suspect_steps=_suspect_steps(shelf, records, surroundings),
    )


def steps_at_risk(high_water_step: int | None, durable_step: int) -> int | None:
    """What a crash would undo; unknown without a step, and where a checkpoint claims more than was ever completed."""
    if high_water_step is None or durable_step > high_water_step:
        return None
    return high_water_step - durable_step


def _newest_durable(ordered: Sequence[Checkpoint], as_of: int) -> Checkpoint | None:
    newest: Checkpoint | None = None
    older = 0
    for checkpoint in reversed(ordered):
        if older >= LOOK_BACK:
            break
        if not _is_durable(checkpoint, as_of):
            continue
        if newest is None or _freshness_key(checkpoint) > _freshness_key(newest):
            newest, older = checkpoint, 0
        else:
            older += 1
    return newest


def _is_durable(checkpoint: Checkpoint, as_of: int) -> bool:
    if checkpoint.durable_at is None or checkpoint.durable_at > as_of:
        return False
    return checkpoint.deleted_at is None or checkpoint.deleted_at > as_of


def _freshness_key(checkpoint: Checkpoint) -> tuple[int, int, str]:
    return (checkpoint.captured_at or 0, checkpoint.step, checkpoint.checkpoint_id)


def _blocked_ns(checkpoint: Checkpoint) -> int | None:
    """What a save blocked training: as told, else from its beginning until captured (synchronous: until durable).

    Unknown where nobody says which of both it was: that it was durable by then tells no more.
    """
    if checkpoint.blocked_ns is not None or checkpoint.started_at is None or checkpoint.mode is None:
        return checkpoint.blocked_ns
    until = checkpoint.captured_at if checkpoint.mode == "async" else checkpoint.durable_at
    return None if until is None or until < checkpoint.started_at else until - checkpoint.started_at


def _age_started(recent: Sequence[Checkpoint], as_of: int) -> int | None:
    begun = [at for each in recent for at in (each.started_at, each.captured_at) if at is not None and at <= as_of]
    return as_of - max(begun) if begun else None


def _interval_ns(recent: Sequence[Checkpoint]) -> int | None:
    captures: dict[int | None, list[int]] = {}
    for each in recent:
        if each.durable_at is not None and each.captured_at is not None:
            captures.setdefault(each.attempt, []).append(each.captured_at)
    gaps = [
        after - before
        for of_attempt in captures.values()
        for before, after in zip(sorted(of_attempt), sorted(of_attempt)[1:], strict=False)
        if after > before
    ]
    return percentile(sorted(gaps), 0.5) if gaps else None


def _stuck(recent: Sequence[Checkpoint], attempt: int, lag_p95: int | None, as_of: int) -> tuple[str, ...]:
    if lag_p95 is None:
        return ()
    return tuple(
        each.checkpoint_id
        for each in reversed(recent)
        if each.attempt == attempt
        and each.started_at is not None
        and each.durable_at is None
        and each.failed_at is None
        and as_of - each.started_at > 2 * lag_p95
    )


def _suspect_steps(
    shelf: CheckpointShelf, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]
) -> tuple[int, ...]:
    ended_badly: dict[int, list[bool]] = {}
    for number, (record, around) in enumerate(zip(records, surroundings, strict=True)):
        loaded = [load.step for load in record.loads if load.is_ok]
        if not loaded:
            continue
        has_failed = around.is_interrupted and not around.is_planned
        ended_badly.setdefault(loaded[-1], []).append(has_failed and not shelf.has_durable_of(number, loaded[-1]))
    return tuple(sorted(step for step, ends in ended_badly.items() if len(ends) >= 2 and all(ends[-2:])))
