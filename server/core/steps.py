"""Steps: the completed steps of one attempt as blocks that follow one another.

Rules
- Every stream (one per emitter) states blocks of contiguous steps. Blocks of one stream whose edges differ by less
  than 1 ms touch: durations are told in whole microseconds, so their sum drifts from the clock by less than that.
- Where several ranks report a step, it ends when the last of them ends it and begins when the step before it ended,
  unless all of them told a gap.
- A step number that was completed before in the same attempt contradicts; the first statement holds.
- The blocks depend only on the set of statements, not on their order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

TOUCHING_NS = 1_000_000
LONGEST_BLOCK = 1024
"""Steps of one block. Bounded, so that a step more costs the work of one block and not of the attempt. A block ends
before each multiple of it, so that where blocks meet does not depend on what was told first.
"""


@dataclass(slots=True)
class StepBlock:
    """Contiguous steps, back to back: step `first_step + i` ended at `ends[i]`, the first began at `start`."""

    first_step: int
    start: int
    ends: array[int]
    longest_ns: int = 0

    @property
    def last_step(self) -> int:
        """Number of the last step."""
        return self.first_step + len(self.ends) - 1

    @property
    def end(self) -> int:
        """When the last step ended."""
        return self.ends[-1]

    @property
    def last_began(self) -> int:
        """When the last step began."""
        return self.ends[-2] if len(self.ends) > 1 else self.start

    def end_of(self, step: int) -> int:
        """When a step ended; before the first it is the start of the block."""
        return self.start if step < self.first_step else self.ends[step - self.first_step]

    def steps_between(self, start: int, end: int) -> tuple[int, int]:
        """First and last step that were worked on in `[start, end)`."""
        first = bisect_right(self.ends, start)
        last = bisect_left(self.ends, end)
        return self.first_step + min(first, len(self.ends) - 1), self.first_step + min(last, len(self.ends) - 1)

    def durations(self) -> list[int]:
        """Length of each step in ns."""
        ends = self.ends
        lengths = [later - earlier for earlier, later in pairwise(ends)]
        lengths.insert(0, ends[0] - self.start)
        return lengths


@dataclass(frozen=True, slots=True, order=True)
class StatedSteps:
    """One statement of completed steps, on the server's clock."""

    start: int
    first_step: int
    ends: array[int] = field(compare=False)
    identity: tuple[str, int] = ("", 0)

    @property
    def last_step(self) -> int:
        """Number of the last step."""
        return self.first_step + len(self.ends) - 1


def stated_ends(start: int, durations_us: tuple[int, ...], count: int | None) -> array[int]:
    """When each step ended, in ns. `count` steps share one duration evenly, to the nanosecond in their sum."""
    ends = array("q")
    if count is not None:
        total = durations_us[0] * 1000
        ends.extend(start + total * (index + 1) // count for index in range(count))
        return ends
    at = start
    append = ends.append
    for duration in durations_us:
        at += duration * 1000
        append(at)
    return ends


class StepStream:
    """The statements of one emitter in one attempt, made into blocks."""

    __slots__ = ("_stated", "blocks", "overlapping", "repeated")

    def __init__(self) -> None:
        self._stated: list[StatedSteps] = []
        self.blocks: list[StepBlock] = []
        self.repeated: list[StatedSteps] = []
        """Statements of step numbers that were completed before."""
        self.overlapping: list[StatedSteps] = []
        """Statements of steps that began clearly before the one before them ended."""

    def add(self, stated: StatedSteps) -> bool:
        """Take a statement; False when it came out of order, so that earlier blocks may have changed."""
        in_order = not self._stated or self._stated[-1] < stated
        self._stated.append(stated)
        if in_order:
            self._append(stated)
            return True
        self._stated.sort()
        self.blocks = []
        self.repeated = []
        self.overlapping = []
        for each in self._stated:
            self._append(each)
        return False

    def end_of(self, step: int) -> int | None:
        """When a step ended; None where it was not told, or let go."""
        index = bisect_right(self.blocks, step, key=lambda block: block.first_step) - 1
        if index < 0 or self.blocks[index].last_step < step:
            return None
        return self.blocks[index].end_of(step)

    def forget_until(self, last_step: int) -> None:
        """Drop the steps up to and including one: they are settled and will not be asked for again."""
        self._stated = [stated for stated in self._stated if stated.last_step > last_step]
        kept = [block for block in self.blocks if block.last_step > last_step]
        if kept and kept[0].first_step <= last_step:
            kept[0] = cut_after(kept[0], last_step)
        self.blocks = kept

    def _append(self, stated: StatedSteps) -> None:
        blocks = self.blocks
        if not blocks:
            self._begin(stated.first_step, stated.start, stated.ends)
            return
        last = blocks[-1]
        if stated.first_step <= last.last_step:
            self.repeated.append(stated)
            if stated.last_step <= last.last_step:
                return
            skip = last.last_step + 1 - stated.first_step
            start = max(stated.ends[skip - 1], last.end)
            ends = array("q", [max(end, start) for end in stated.ends[skip:]])
            self._begin(last.last_step + 1, start, ends)
            return
        gap = stated.start - last.end
        if stated.first_step == last.last_step + 1 and -TOUCHING_NS < gap < TOUCHING_NS:
            previous_start = last.ends[-2] if len(last.ends) > 1 else last.start
            edge = max(stated.start, previous_start)
            if edge != last.end:
                last.ends[-1] = edge
                last.longest_ns = max(last.longest_ns, edge - previous_start)
            fitting = -stated.first_step % LONGEST_BLOCK
            _extend(last, edge, stated.ends[:fitting])
            if len(stated.ends) > fitting:
                self._begin(stated.first_step + fitting, last.end if fitting else edge, stated.ends[fitting:])
            return
        if gap <= -TOUCHING_NS:
            self.overlapping.append(stated)
        start = max(stated.start, last.end)
        self._begin(stated.first_step, start, array("q", [max(end, start) for end in stated.ends]))

    def _begin(self, first_step: int, start: int, ends: array[int]) -> None:
        """New blocks for steps that do not continue the last one."""
        at = 0
        while at < len(ends):
            until = min(len(ends), at + LONGEST_BLOCK - (first_step + at) % LONGEST_BLOCK)
            self.blocks.append(_block(first_step + at, start, ends[at:until]))
            start, at = ends[until - 1], until


def _block(first_step: int, start: int, ends: Sequence[int]) -> StepBlock:
    block = StepBlock(first_step, start, array("q"))
    _extend(block, start, ends)
    return block


def _extend(block: StepBlock, start: int, ends: Sequence[int]) -> None:
    longest = block.longest_ns
    previous = start
    for end in ends:
        if end - previous > longest:
            longest = end - previous
        previous = end
    block.ends.extend(ends)
    block.longest_ns = longest


def cut_after(block: StepBlock, last_step: int) -> StepBlock:
    """What is left of a block after one of its steps."""
    return _block(last_step + 1, block.end_of(last_step), block.ends[last_step + 1 - block.first_step :])


def merged_blocks(streams: list[StepStream]) -> list[StepBlock]:
    """The steps of all streams of an attempt as one sequence of blocks."""
    if len(streams) == 1:
        return streams[0].blocks
    first_starts: dict[int, int] = {}
    slowest_start = max((stream.blocks[0].start for stream in streams if stream.blocks), default=0)
    last_ends: dict[int, int] = {}
    for stream in streams:
        for block in stream.blocks:
            start, step = block.start, block.first_step
            for end in block.ends:
                first_starts[step] = min(first_starts.get(step, start), start)
                last_ends[step] = max(last_ends.get(step, end), end)
                start = end
                step += 1
    merged: list[StepBlock] = []
    for step in sorted(last_ends):
        end = last_ends[step]
        if not merged:
            # Bring-up is over when the last rank begins to step.
            merged.append(_block(step, min(slowest_start, end), (end,)))
            continue
        last = merged[-1]
        end = max(end, last.end)
        touches = step == last.last_step + 1 and first_starts[step] - last.end < TOUCHING_NS
        if touches and step % LONGEST_BLOCK:
            _extend(last, last.end, (end,))
        else:
            start = last.end if touches else max(first_starts[step], last.end)
            merged.append(_block(step, start, (max(end, start),)))
    return merged
