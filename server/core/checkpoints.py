"""Checkpoints: how far each saved state got, how fresh the newest durable one is, and what a crash would cost now.

Rules
- A checkpoint has three stamps: `started`, `captured` (the state is snapshotted), `durable` (every shard committed).
  Only a durable one that was not deleted counts; a failed save never refreshes.
- It is known by its id, or else by its step within its attempt.
- A synchronous save is captured when it began, unless told otherwise: what it holds is the state at that instant.
- Newest is the latest captured. Its age counts from its capture.
- Where its stamps contradict (durable before it began), the ones that do are left out, and counted in data quality.
- Steps at risk are unknown, not 0, while no durable checkpoint is known.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import replace

from rerail.server.core.facts import CheckpointMoment, CheckpointStage
from rerail.server.core.view import Checkpoint, CheckpointFreshness


class CheckpointRecord:
    """What was stated about one checkpoint, whatever the order it came in."""

    __slots__ = (
        "_first",
        "attempt",
        "blocked_us",
        "bytes",
        "checkpoint_id",
        "location",
        "mode",
        "steps",
        "tier",
        "when",
    )

    def __init__(self, checkpoint_id: str, attempt: int | None) -> None:
        self.checkpoint_id = checkpoint_id
        self.attempt = attempt
        self.steps: set[int] = set()
        """As told; more than one contradicts."""
        self.mode: str | None = None
        self.tier: str | None = None
        self.bytes: int | None = None
        self.location: str | None = None
        self.blocked_us: int | None = None
        self.when: dict[CheckpointStage, int] = {}
        self._first: dict[str, tuple[int, str, int]] = {}

    def add(self, moment: CheckpointMoment, at: int) -> None:
        """Take one statement. The earliest instant of a stage holds, of `durable` the latest: every shard counts."""
        known = self.when.get(moment.stage)
        if known is None:
            self.when[moment.stage] = at
        elif moment.stage is CheckpointStage.DURABLE:
            self.when[moment.stage] = max(known, at)
        else:
            self.when[moment.stage] = min(known, at)
        self.steps.add(moment.step)
        order = (at, moment.emitter, moment.seq)
        for name in ("mode", "tier", "bytes", "location", "blocked_us"):
            value = getattr(moment, name)
            if value is not None and (name not in self._first or order < self._first[name]):
                self._first[name] = order
                setattr(self, name, value)

    @property
    def step(self) -> int:
        """The step whose state it holds; where several were told, the lowest: a rollback goes at least that far."""
        return min(self.steps)

    def _believed(self, stage: CheckpointStage) -> int | None:
        """The instant of a stage before it was durable; None too where it was told to come after that."""
        told, durable = self.when.get(stage), self.when.get(CheckpointStage.DURABLE)
        return None if told is None or (durable is not None and told > durable) else told

    @property
    def captured_at(self) -> int | None:
        """When its state was taken."""
        told = self._believed(CheckpointStage.CAPTURED)
        if told is not None:
            return told
        started = self.started_at
        if started is not None and (self.mode == "sync" or CheckpointStage.DURABLE in self.when):
            return started
        return self.when.get(CheckpointStage.DURABLE)

    @property
    def started_at(self) -> int | None:
        """When its saving began."""
        return self._believed(CheckpointStage.STARTED)

    @property
    def in_flight_until(self) -> int | None:
        """When its write was over, for good or not; None while it runs."""
        ends = [self.when[stage] for stage in (CheckpointStage.DURABLE, CheckpointStage.FAILED) if stage in self.when]
        return min(ends) if ends else None

    def view(self) -> Checkpoint:
        """The checkpoint as pages show it."""
        return Checkpoint(
            checkpoint_id=self.checkpoint_id,
            step=self.step,
            attempt=self.attempt,
            mode=self.mode,
            tier=self.tier,
            started_at=self.started_at,
            captured_at=self.captured_at,
            durable_at=self.when.get(CheckpointStage.DURABLE),
            failed_at=self.when.get(CheckpointStage.FAILED),
            deleted_at=self.when.get(CheckpointStage.DELETED),
            blocked_ns=None if self.blocked_us is None else self.blocked_us * 1000,
            bytes=self.bytes,
            location=self.location,
        )


LOOK_BACK = 64
"""Saves overlap by far less than this: so many durable ones in a row that are no newer end the search."""


class CheckpointShelf:
    """All checkpoints of a run in the order they began, with what freshness needs kept up as they change."""

    def __init__(self) -> None:
        self.ordered: list[Checkpoint] = []
        """Every checkpoint, by its first stamp. To be read only."""
        self._by_name: dict[str, list[Checkpoint]] = {}
        self._lags: list[int] = []
        self._durable_steps: list[int] = []
        self._told_of: dict[int, int] = {}
        """How many checkpoints of each step there are."""
        self._failed = 0
        self._untouched = 0

    def put(self, name: str, checkpoints: Sequence[Checkpoint]) -> None:
        """Replace the checkpoints that go by one name."""
        for old in self._by_name.pop(name, ()):
            place = bisect_left(self.ordered, _shelf_key(old), key=_shelf_key)
            del self.ordered[place]
            self._count(old, place, -1)
            lag = old.commit_lag_ns
            if lag is not None and lag >= 0:
                del self._lags[bisect_left(self._lags, lag)]
        for new in checkpoints:
            place = bisect_left(self.ordered, _shelf_key(new), key=_shelf_key)
            self.ordered.insert(place, new)
            self._count(new, place, 1)
            lag = new.commit_lag_ns
            if lag is not None and lag >= 0:
                insort(self._lags, lag)
        if checkpoints:
            self._by_name[name] = list(checkpoints)

    def _count(self, checkpoint: Checkpoint, place: int, change: int) -> None:
        if checkpoint.durable_at is not None and change > 0:
            insort(self._durable_steps, checkpoint.step)
        elif checkpoint.durable_at is not None:
            del self._durable_steps[bisect_left(self._durable_steps, checkpoint.step)]
        self._told_of[checkpoint.step] = self._told_of.get(checkpoint.step, 0) + change
        self._failed += change * (checkpoint.failed_at is not None)
        self._untouched = min(self._untouched, place)

    def settle(self) -> int:
        """How many leading checkpoints are as they were when this was called last."""
        untouched, self._untouched = self._untouched, len(self.ordered)
        return untouched

    def knows(self, step: int) -> bool:
        """Whether any checkpoint of a step was told of."""
        return self._told_of.get(step, 0) > 0

    def names(self) -> set[str]:
        """Every name there is a checkpoint under."""
        return set(self._by_name)

    def durable_above(self, step: int) -> list[Checkpoint]:
        """Durable checkpoints of later steps than this one, by their first stamp."""
        if not self._durable_steps or self._durable_steps[-1] <= step:
            return []
        return [each for each in self.ordered if each.durable_at is not None and each.step > step]

    def freshness(self, high_water_step: int | None, as_of: int) -> CheckpointFreshness:
        """What a crash at `as_of` would cost."""
        lag_p95 = percentile(self._lags, 0.95) if self._lags else None
        newest: Checkpoint | None = None
        older = 0
        for checkpoint in reversed(self.ordered):
            if older >= LOOK_BACK:
                break
            if not _is_durable(checkpoint, as_of):
                continue
            if newest is None or _freshness_key(checkpoint) > _freshness_key(newest):
                newest, older = checkpoint, 0
            else:
                older += 1
        counted = CheckpointFreshness(
            commit_lag_p95_ns=lag_p95,
            commit_lag_count=len(self._lags),
            count=len(self.ordered),
            durable_count=len(self._durable_steps),
            failed_count=self._failed,
        )
        if newest is None:
            return counted
        return replace(
            counted,
            newest_durable_step=newest.step,
            newest_durable_id=newest.checkpoint_id,
            age_ns=as_of - (newest.captured_at or 0),
            steps_at_risk=steps_at_risk(high_water_step, newest.step),
        )


def steps_at_risk(high_water_step: int | None, durable_step: int) -> int | None:
    """What a crash would undo; unknown without a step, and where a checkpoint claims more than was ever completed."""
    if high_water_step is None or durable_step > high_water_step:
        return None
    return high_water_step - durable_step


def _is_durable(checkpoint: Checkpoint, as_of: int) -> bool:
    if checkpoint.durable_at is None or checkpoint.durable_at > as_of:
        return False
    return checkpoint.deleted_at is None or checkpoint.deleted_at > as_of


def first_stamp(checkpoint: Checkpoint) -> int:
    """The earliest instant that was told of a checkpoint: what a shelf is ordered by."""
    return min((*checkpoint.moments, *filter(None, (checkpoint.deleted_at,))), default=0)


def _shelf_key(checkpoint: Checkpoint) -> tuple[int, int, str, int]:
    return (
        first_stamp(checkpoint),
        checkpoint.step,
        checkpoint.checkpoint_id,
        -1 if checkpoint.attempt is None else checkpoint.attempt,
    )


def percentile(ordered: Sequence[int], share: float) -> int:
    """The nearest-rank percentile of ascending values; below 20 of them, above the 90th it is the maximum."""
    if len(ordered) < 20 and share > 0.9:
        return ordered[-1]
    rank = -(-len(ordered) * round(share * 1000) // 1000)
    return ordered[max(0, rank - 1)]


def _freshness_key(checkpoint: Checkpoint) -> tuple[int, int, str]:
    return (checkpoint.captured_at or 0, checkpoint.step, checkpoint.checkpoint_id)
