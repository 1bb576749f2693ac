"""Step stamps: a run as nothing but the instants at which its steps began, which is all that Google's library is told.

Rules
- Steps come in runs of consecutive numbers; a step lasts until the next stamp, whatever lies in it.
- Time declared out of account is taken out of the clock: every instant is counted on one that stood still meanwhile.
- Sums over a run of steps telescope, so that a million steps cost what their blocks cost.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rerail.server.core.definitions.history import AttemptHistory


@dataclass(frozen=True, slots=True)
class StampRun:
    """Steps `first_step …` began at `starts`, one after the other."""

    first_step: int
    starts: Sequence[int]

    @property
    def last_step(self) -> int:
        """Number of the last step that began."""
        return self.first_step + len(self.starts) - 1

    def start_of(self, step: int) -> int:
        """When a step of this run began."""
        return self.starts[step - self.first_step]

    def until(self, step: int) -> StampRun:
        """The steps before one."""
        return StampRun(self.first_step, self.starts[: step - self.first_step])

    def since(self, step: int) -> StampRun:
        """One step and those after it."""
        return StampRun(step, self.starts[step - self.first_step :])


class StoppedClock:
    """Counts time without the windows that were declared out of account."""

    def __init__(self, excluded: Sequence[tuple[int, int]]) -> None:
        """`excluded` are windows in order that do not overlap."""
        self._starts = [start for start, _ in excluded]
        self.windows = excluded
        self._before = [0]
        for start, end in excluded:
            self._before.append(self._before[-1] + end - start)

    @property
    def never_stops(self) -> bool:
        """Nothing was declared out of account."""
        return not self.windows

    def counted(self, at: int) -> int:
        """An instant on this clock."""
        index = bisect_right(self._starts, at)
        if not index:
            return at
        _, end = self.windows[index - 1]
        return at - self._before[index] + max(0, end - at)


def stamp_runs(attempt: AttemptHistory) -> Iterator[StampRun]:
    """The stamps of one attempt: the start of every completed step, and of the one it was in."""
    open_run: StampRun | None = None
    for block in attempt.blocks:
        starts = array("q", [block.start])
        starts.extend(block.ends[:-1])
        if open_run is not None and open_run.last_step + 1 == block.first_step:
            assert isinstance(open_run.starts, array)
            open_run.starts.extend(starts)
            continue
        if open_run is not None:
            yield open_run
        open_run = StampRun(block.first_step, starts)
    if attempt.unfinished is not None:
        step, began = attempt.unfinished
        if open_run is not None and open_run.last_step + 1 == step:
            assert isinstance(open_run.starts, array)
            open_run.starts.append(began)
        else:
            if open_run is not None:
                yield open_run
            open_run = StampRun(step, array("q", [began]))
    if open_run is not None:
        yield open_run


def mapped(runs: Iterable[StampRun], counted: Callable[[int], int]) -> Iterator[StampRun]:
    """The same steps on another clock."""
    for run in runs:
        yield StampRun(run.first_step, array("q", map(counted, run.starts)))


def inside(runs: Iterable[StampRun], after: int, until: int) -> Iterator[StampRun]:
    """The stamps in `(after, until]`."""
    for run in runs:
        low, high = bisect_right(run.starts, after), bisect_right(run.starts, until)
        if high > low:
            yield StampRun(run.first_step + low, run.starts[low:high])


class Segment:
    """The steps between two disruptions: no number is in it twice."""

    def __init__(self) -> None:
        self.runs: list[StampRun] = []

    def first_known(self, run: StampRun) -> int | None:
        """The first step of a run that this segment has already; None where it has none of them."""
        shared = [
            max(run.first_step, known.first_step)
            for known in self.runs
            if run.first_step <= known.last_step and known.first_step <= run.last_step
        ]
        return min(shared, default=None)

    def add(self, run: StampRun) -> None:
        """Take steps that came after those held."""
        if run.starts:
            self.runs.append(run)

    @property
    def last_start(self) -> int:
        """When the step that came last began."""
        return self.runs[-1].starts[-1]

    @property
    def first_number(self) -> int:
        """The lowest number in it."""
        return min(run.first_step for run in self.runs)

    @property
    def last_number(self) -> int:
        """The highest number in it."""
        return max(run.last_step for run in self.runs)

    def start_of(self, step: int) -> int:
        """When a step of it began."""
        return next(run.start_of(step) for run in self.runs if run.first_step <= step <= run.last_step)

    def pairs_up_to(self, step: int) -> Iterator[Pairs]:
        """Steps whose successor began too, as far as the successor is not above `step`, in order."""
        for index, run in enumerate(self.runs):
            if index:
                before = self.runs[index - 1]
                if before.last_step + 1 == run.first_step <= step:
                    yield Pairs(before.last_step, array("q", (before.starts[-1], run.starts[0])), bridges=True)
            last = min(run.last_step, step)
            if last > run.first_step:
                yield Pairs(run.first_step, run.starts[: last - run.first_step + 1], bridges=False)

    def wasted_above(self, step: int) -> int:
        """Time that led to steps above one: they are lost."""
        wasted = 0
        for index, run in enumerate(self.runs):
            if index and run.first_step > step:
                wasted += run.starts[0] - self.runs[index - 1].starts[-1]
            if run.last_step > step:
                wasted += run.starts[-1] - run.start_of(max(step, run.first_step))
        return wasted


@dataclass(frozen=True, slots=True)
class Pairs:
    """Consecutive stamps: step `first_step + i` lasted from `stamps[i]` to `stamps[i + 1]`."""

    first_step: int
    stamps: Sequence[int]
    bridges: bool
    """One pair that reaches from one attempt, or from one gap in what was told, into the next."""

    @property
    def steps(self) -> int:
        """How many steps have a length here."""
        return len(self.stamps) - 1

    @property
    def last_step(self) -> int:
        """The last step that has a length here."""
        return self.first_step + self.steps - 1

    @property
    def length_ns(self) -> int:
        """Their lengths together."""
        return self.stamps[-1] - self.stamps[0]

    def around(self, start: int, end: int) -> int | None:
        """The step that `[start, end]` lies wholly in."""
        index = bisect_right(self.stamps, start) - 1
        if index < 0 or index >= self.steps:
            index = bisect_left(self.stamps, start)
        if 0 <= index < self.steps and self.stamps[index] <= start and end <= self.stamps[index + 1]:
            return self.first_step + index
        return None
