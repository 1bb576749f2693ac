"""Step durations: the undisturbed step time s* and the hidden cost of checkpoint writes κ, kept up step by step.

Rules
- s* is the exact median duration of steps with no save in flight; κ is the mean duration of steps with one in flight,
  divided by s*. Each attempt's first step belongs to neither.
- A save is in flight from `started` until it is durable, has failed, or its attempt ended.
- Phases laid over a step are subtracted from its duration; a window declared out of account is none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.steps import StepBlock
from rerail.server.core.timeline import Claim, net_durations

_BUCKET_BITS = 20
"""Coarse buckets of about 1 ms: few enough to walk, narrow enough to sort one."""


@dataclass(frozen=True, slots=True)
class Window:
    """A save was in flight during `[start, end)`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BlockSample:
    """What one block of steps adds to s* and κ."""

    undisturbed: array[int]
    in_flight_ns: int
    in_flight_count: int


class DurationCounts:
    """An exact multiset of durations that answers its median without sorting all of them."""

    __slots__ = ("_buckets", "_median", "count", "in_flight_count", "in_flight_ns", "undisturbed_ns")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[int, int]] = {}
        self._median: int | None = None
        """As far as it was asked for since the last change."""
        self.count = 0
        self.undisturbed_ns = 0
        self.in_flight_ns = 0
        self.in_flight_count = 0

    def add(self, sample: BlockSample) -> None:
        """Take a block's durations in."""
        self._median = None
        for duration in sample.undisturbed:
            bucket = self._buckets.setdefault(duration >> _BUCKET_BITS, {})
            bucket[duration] = bucket.get(duration, 0) + 1
        self.count += len(sample.undisturbed)
        self.undisturbed_ns += sum(sample.undisturbed)
        self.in_flight_ns += sample.in_flight_ns
        self.in_flight_count += sample.in_flight_count

    def remove(self, sample: BlockSample) -> None:
        """Take a block's durations out again."""
        self._median = None
        for duration in sample.undisturbed:
            key = duration >> _BUCKET_BITS
            bucket = self._buckets[key]
            bucket[duration] -= 1
            if not bucket[duration]:
                del bucket[duration]
                if not bucket:
                    del self._buckets[key]
        self.count -= len(sample.undisturbed)
        self.undisturbed_ns -= sum(sample.undisturbed)
        self.in_flight_ns -= sample.in_flight_ns
        self.in_flight_count -= sample.in_flight_count

    def median(self) -> int | None:
        """The median duration in ns, of an even number the mean of the middle two; None when there is none."""
        if self.count and self._median is None:
            lower, upper = self._middle((self.count - 1) // 2, self.count // 2)
            self._median = (lower + upper) // 2
        return self._median

    def _middle(self, lower: int, upper: int) -> tuple[int, int]:
        """The durations at two places of the ascending order that are the same or neighbours."""
        found: int | None = None
        passed = 0
        for key in sorted(self._buckets):
            bucket = self._buckets[key]
            inside = sum(bucket.values())
            if lower < passed + inside:
                for duration in sorted(bucket):
                    passed += bucket[duration]
                    if found is None and lower < passed:
                        found = duration
                    if upper < passed:
                        return duration if found is None else found, duration
            else:
                passed += inside
        raise IndexError(upper)

    def slowdown(self) -> float | None:
        """κ; None while no step was taken with a write in flight, or none without."""
        undisturbed = self.median()
        if not undisturbed or not self.in_flight_count:
            return None
        return self.in_flight_ns / self.in_flight_count / undisturbed

    def slowdown_ns(self) -> int | None:
        """What all steps took beyond the undisturbed step time."""
        undisturbed = self.median()
        if undisturbed is None:
            return None
        return self.undisturbed_ns + self.in_flight_ns - (self.count + self.in_flight_count) * undisturbed

    def hidden_checkpoint_ns(self) -> int | None:
        """What steps with a write in flight took beyond it; None while there were none, or none without."""
        undisturbed = self.median()
        if undisturbed is None or not self.in_flight_count:
            return None
        return self.in_flight_ns - self.in_flight_count * undisturbed


class AttemptSamples:
    """The samples of one attempt's blocks; only what changed is computed again."""

    __slots__ = ("_blocks", "_overlays", "_signatures", "_was_sealed", "_windows", "samples")

    def __init__(self) -> None:
        self._blocks: list[StepBlock] = []
        """As they were sampled: a block only grows, so one that is the same object and as long has not changed."""
        self._signatures: list[tuple[object, ...]] = []
        self._windows: Sequence[Window] = ()
        self._overlays: Sequence[Claim] = ()
        self._was_sealed = False
        self.samples: list[BlockSample] = []

    def seal(self, blocks: int) -> None:
        """The first so many blocks will not be given again; what they added stays."""
        del self._blocks[:blocks]
        del self._signatures[:blocks]
        del self.samples[:blocks]
        self._was_sealed = True

    def update(
        self,
        blocks: Sequence[StepBlock],
        windows: Sequence[Window],
        overlays: Sequence[Claim],
        counts: DurationCounts,
    ) -> None:
        """Bring the samples and `counts` up to date with an attempt's blocks, saves in flight and overlays.

        `windows` and `overlays` are ordered by start.
        """
        window_starts = [window.start for window in windows]
        overlay_starts = [claim.start for claim in overlays]
        window_reach = _reach([window.end for window in windows])
        overlay_reach = _reach([claim.end for claim in overlays])
        for index in range(self._first_affected(blocks, windows, overlays), len(blocks)):
            block = blocks[index]
            near_windows = tuple(
                window
                for window in windows[
                    bisect_left(window_reach, block.start + 1) : bisect_left(window_starts, block.end)
                ]
                if window.end > block.start
            )
            near_overlays = tuple(
                claim
                for claim in overlays[
                    bisect_left(overlay_reach, block.start + 1) : bisect_left(overlay_starts, block.end)
                ]
                if claim.end > block.start
            )
            skip = 1 if index == 0 and not self._was_sealed else 0
            signature = (block.start, block.end, len(block.ends), near_windows, near_overlays)
            if index < len(self._signatures):
                if self._signatures[index] == signature and self._has_same_steps(index, block):
                    continue
                counts.remove(self.samples[index])
                self._blocks[index] = block
                self._signatures[index] = signature
                self.samples[index] = sample_of(block, near_windows, near_overlays, skip)
            else:
                self._blocks.append(block)
                self._signatures.append(signature)
                self.samples.append(sample_of(block, near_windows, near_overlays, skip))
            counts.add(self.samples[index])
        while len(self.samples) > len(blocks):
            counts.remove(self.samples.pop())
            self._blocks.pop()
            self._signatures.pop()
        self._windows, self._overlays = windows, overlays

    def _first_affected(self, blocks: Sequence[StepBlock], windows: Sequence[Window], overlays: Sequence[Claim]) -> int:
        """The first block that may differ from what was sampled of it: it changed, or something laid over it did."""
        changes = [
            first_change
            for before, after in ((self._windows, windows), (self._overlays, overlays))
            if (first_change := _first_change(before, after)) is not None
        ]
        changed_from = min(changes, default=None)
        for index, (block, signature) in enumerate(zip(blocks, self._signatures, strict=False)):
            if signature[:3] != (block.start, block.end, len(block.ends)) or not self._has_same_steps(index, block):
                return index
            if changed_from is not None and block.end > changed_from:
                return index
        return min(len(blocks), len(self._signatures))

    def _has_same_steps(self, index: int, block: StepBlock) -> bool:
        """Whether a block of the same edges also ends its steps where the one that was sampled did.

        Where several ranks report, one that comes late moves the ends inside.
        """
        known = self._blocks[index]
        return known is block or known.ends == block.ends

    def forget(self, counts: DurationCounts) -> None:
        """Take everything out of `counts` again."""
        self.update((), (), (), counts)


def _first_change(before: Sequence[Window | Claim], after: Sequence[Window | Claim]) -> int | None:
    """The earliest start among what two sequences ordered by start do not have in common; None where they are equal."""
    for old, new in zip(before, after, strict=False):
        if old != new:
            return min(old.start, new.start)
    if len(before) == len(after):
        return None
    longer = before if len(before) > len(after) else after
    return longer[min(len(before), len(after))].start


def _reach(ends: list[int]) -> list[int]:
    """For each interval the farthest end so far: ascending, so that it can be searched."""
    reach: list[int] = []
    farthest = 0
    for end in ends:
        farthest = max(farthest, end)
        reach.append(farthest)
    return reach


def sample_of(block: StepBlock, windows: Sequence[Window], overlays: Sequence[Claim], skip: int) -> BlockSample:
    """What the steps of one block say; the first `skip` of them are left out."""
    durations = net_durations(block, overlays)
    if not windows:
        return BlockSample(array("q", durations[skip:]), 0, 0)
    undisturbed: list[int] = []
    in_flight_ns = in_flight_count = 0
    start = block.start
    for index, (end, duration) in enumerate(zip(block.ends, durations, strict=True)):
        if index >= skip:
            if any(window.start < end and window.end > start for window in windows):
                in_flight_ns += duration
                in_flight_count += 1
            else:
                undisturbed.append(duration)
        start = end
    return BlockSample(array("q", undisturbed), in_flight_ns, in_flight_count)
