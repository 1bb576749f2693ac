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

from rerail.server.core.facts import CheckpointMoment, CheckpointStage
from rerail.server.core.view import Checkpoint


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


class CheckpointShelf:
    """All checkpoints of a run in the order they began, with what freshness needs of them kept up."""

    def __init__(self) -> None:
        self.ordered: list[Checkpoint] = []
        """Every checkpoint, by its first stamp. To be read only."""
        self.lags: list[int] = []
        """Commit lags in ns, ascending. To be read only."""
        self.failed_count = 0
        self._by_name: dict[str, list[Checkpoint]] = {}
        self._durable_steps: list[int] = []
        self._durable_of: dict[int | None, list[int]] = {}
        """Steps of durable checkpoints, ascending, by the attempt that saved them."""
        self._told_of: dict[int, int] = {}
        """How many checkpoints of each step there are."""
        self._untouched = 0

    def put(self, name: str, checkpoints: Sequence[Checkpoint]) -> None:
        """Replace the checkpoints that go by one name."""
        for old in self._by_name.pop(name, ()):
            place = bisect_left(self.ordered, _shelf_key(old), key=_shelf_key)
            del self.ordered[place]
            self._count(old, place, -1)
            lag = old.commit_lag_ns
            if lag is not None and lag >= 0:
                del self.lags[bisect_left(self.lags, lag)]
        for new in checkpoints:
            place = bisect_left(self.ordered, _shelf_key(new), key=_shelf_key)
            self.ordered.insert(place, new)
            self._count(new, place, 1)
            lag = new.commit_lag_ns
            if lag is not None and lag >= 0:
                insort(self.lags, lag)
        if checkpoints:
            self._by_name[name] = list(checkpoints)

    def _count(self, checkpoint: Checkpoint, place: int, change: int) -> None:
        if checkpoint.durable_at is not None:
            for steps in (self._durable_steps, self._durable_of.setdefault(checkpoint.attempt, [])):
                if change > 0:
                    insort(steps, checkpoint.step)
                else:
                    del steps[bisect_left(steps, checkpoint.step)]
        self._told_of[checkpoint.step] = self._told_of.get(checkpoint.step, 0) + change
        self.failed_count += change * (checkpoint.failed_at is not None)
        self._untouched = min(self._untouched, place)

    def settle(self) -> int:
        """How many leading checkpoints are as they were when this was called last."""
        untouched, self._untouched = self._untouched, len(self.ordered)
        return untouched

    @property
    def durable_count(self) -> int:
        """Checkpoints that became durable, deleted ones among them."""
        return len(self._durable_steps)

    def has_durable_of(self, attempt: int, above_step: int) -> bool:
        """Whether an attempt made a checkpoint of a later step durable."""
        steps = self._durable_of.get(attempt, [])
        return bool(steps) and steps[-1] > above_step

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
