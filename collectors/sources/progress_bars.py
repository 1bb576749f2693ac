"""Bars: when a progress bar without a stamp was drawn.

Rules
- A bar without a stamp is dated by its own clock, from an instant that is known: the loop that began, the stamp of the
  next line, or when the file was written last. Bars of an epoch that nothing dates stay without an instant: how long it
  took until the next epoch began is not known.
- Bars wait for that instant in the order of the log; what was told beside them without a stamp keeps its place among
  them.
- Bars of evaluations and of loading shards have another total than that of training, and tell no steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.log_lines import Line
from rerail.collectors.sources.progress_attempts import OwnAttempts
from rerail.collectors.sources.progress_instants import STAMP_WITHIN, Instants
from rerail.collectors.sources.progress_lines import Progress, Told
from rerail.collectors.sources.progress_steps import DoneSteps
from rerail.collectors.sources.progress_training import Training
from rerail.collectors.sources.progress_waiting import BRING_UP, Waiting

MOST_TOTALS = 20
MOST_BARS = 500
"""Bars that wait for an instant; of more the first are let go."""


class Bars:
    """Holds the bars that nothing dates yet, and has their steps told once something does."""

    def __init__(
        self, training: Training, instants: Instants, steps: DoneSteps, own: OwnAttempts, waiting: Waiting,
        tell_step: Callable[[Progress, int, Line], None], tell: Callable[[Progress, int], None],
    ) -> None:  # fmt: skip
        """`tell_step` takes a step, when it was done and the line that says so; `tell` what else was told, and when."""
        self._training = training
        self._attempts = training.attempts
        self._instants = instants
        self._steps = steps
        self._own = own
        self._waiting = waiting
        self._step = tell_step
        self._moment = tell

    def is_of_training(self, told: Progress) -> bool:
        """Bars of evaluations and of loading shards have another total."""
        if told.epoch is not None or told.framework != "transformers":
            return True
        state = self._training.state
        total, unclaimed = state.bar_total, state.unclaimed
        if total is None and told.step is not None and len(unclaimed) < MOST_TOTALS:
            unclaimed.setdefault(str(told.total), told.step)
        return total is not None and told.total == total

    def wait(self, told: Progress, line: Line) -> None:
        """A bar that nothing dates yet. The last state of a bar that is drawn again and again is enough of them all."""
        if not self.is_of_training(told):
            return
        waiting = self._training.state.waiting
        ahead, is_last = len(waiting), told.epoch is not None and told.step == (told.epoch + 1) * (told.total or 0)
        while is_last and ahead and waiting[ahead - 1][0] == Told.FINISHED:
            ahead -= 1  # it is drawn once more behind the word that the trainer is done
        self._wait_for_instant(told, line, self._attempts.offset, ahead)

    def _wait_for_instant(self, told: Progress, line: Line, offset: int, ahead: int) -> None:
        """It was drawn in the line at byte `offset`, when so much (`ahead`) waited already."""
        state, bars = self._training.state, self._training.state.bars
        if len(bars) >= MOST_BARS:
            half = MOST_BARS // 2
            kept = [  # the last state of an epoch tells its steps; a save that is told beside a bar is placed by it
                bar for before, bar, after in zip([bars[0], *bars], bars[:half], bars[1:], strict=False)
                if not (before[9] == bar[9] == after[9] and bar[3] == after[3])
            ][-half // 2 :]  # fmt: skip
            epochs = {bar[3] for bar in [*kept, *bars[half:]]}
            state.undated -= sum(bar[3] in epochs for bar in bars[:half]) - len(kept)
            bars[:half] = kept
        bars.append(
            [told.step, told.bar_seconds, told.seconds, told.epoch, told.total, offset, told.framework,
             line.stream, line.rank, ahead]
        )  # fmt: skip
        self._attempts.state.open_from = bars[0][5]

    def is_reset(self, told: Progress) -> bool:
        """Whether a bar that has come further is drawn at 0 of its epoch again: by itself that tells of nothing.

        Lightning does so at the end of each epoch. Where a program begins anew in that epoch, the next state says so.
        """
        if not told.is_at_zero or told.epoch is None or told.step is None:
            return False
        state = self._training.state
        last = state.bars[-1] if state.bars else None
        if state.loading or any(one[0] in BRING_UP for one in state.waiting[0 if last is None else last[9] :]):
            return False
        if last is not None:
            return last[3] == told.epoch and last[0] > told.step
        if state.begins or not state.has_steps or state.step is None:
            return False
        return told.step < state.step <= told.step + (told.total or 0)

    def wait_for_name(self, told: Progress, line: Line) -> None:
        """A bar of an epoch that is not named."""
        unnamed = self._training.state.unnamed
        if told.of_epoch and len(unnamed) < MOST_BARS:
            unnamed.append(
                [told.of_epoch, told.bar_seconds, self._attempts.offset, line.stream, line.rank,
                 len(self._training.state.waiting)]
            )  # fmt: skip

    def name_those_before(self, told: Progress) -> None:
        """The bar of an epoch begins: those before it that named none were of the epoch before, if they were as many
        as it has. Else nothing says which steps they told."""
        state = self._training.state
        if not state.unnamed or told.told is not Told.STEP or told.framework != "lightning":
            return
        unnamed, state.unnamed = state.unnamed, []
        if not told.epoch or not told.total or unnamed[-1][0] != told.total or told.bar_seconds is None:
            return
        epoch = told.epoch - 1
        state.undated += len(unnamed)
        for done, clock, offset, stream, rank, ahead in unnamed:
            self._wait_for_instant(
                Progress(Told.STEP, "lightning", epoch * told.total + done, None, clock, told.total, epoch=epoch),
                Line("", rank=rank, stream=stream), offset, min(ahead, len(state.waiting)),
            )  # fmt: skip

    def peek(self, raw: bytes) -> None:
        """The line behind the one that was taken: where it tells when it was, the bars before were drawn by then."""
        text = raw[:STAMP_WITHIN].decode("utf-8", "replace")
        if self._training.state.bars and "%|" not in text and (at := self._instants.stamp_in(text)) is not None:
            self.date_back(at)

    def was_read_to_its_end(self) -> None:
        """Of a log that is followed: the last bar that waits was drawn when the file was written last."""
        if self._instants.dates_by_reading and self._training.state.bars and self._instants.read_at is not None:
            self.date_back(self._instants.read_at)

    def date_end(self, at: int) -> None:
        """Nothing follows for now, and the log was written last at `at`: what it says behind its last bar was then."""
        self.date_back(at)
        state = self._training.state
        while state.waiting and state.waiting[0][0] in (Told.SAVING, Told.FINISHED):
            kind, framework, step, seconds, *_ = state.waiting.pop(0)
            self._moment(Progress(Told(kind), framework, step, seconds), at)

    def date_back(self, until: int) -> None:
        """Date the bars that wait by their own clock: the last of them was drawn at `until`.

        Of those before it, the ones of its epoch, and where no step is dated yet those of the epochs before: each was
        over when the next began, as far as that is known. The others stay undated.
        """
        bars, self._training.state.bars = self._training.state.bars, []
        self._attempts.state.open_from = None
        epochs: list[list[list[Any]]] = []
        ended = until
        while bars:
            epoch = _last_epoch(bars, self._training.state.waiting)
            begins = ended - epoch[-1][1] * SECOND
            if epochs and not self._may_come_before(epoch, begins, epochs[-1]):
                break
            epochs.append(epoch)
            del bars[len(bars) - len(epoch) :]
            ended = begins
        if not epochs:
            return
        waiting, self._training.state.waiting = self._training.state.waiting, []
        settled = 0
        self._training.is_counted_on = True
        for epoch in reversed(epochs):
            ended = min(ended + epoch[-1][1] * SECOND, until)
            settled = self._date_epoch(epoch, ended, waiting, settled)
        self._training.is_counted_on = False
        self._training.state.waiting = [*waiting[settled:], *self._training.state.waiting]

    def _may_come_before(self, epoch: list[list[Any]], began: int, following: list[list[Any]]) -> bool:
        """Whether an epoch that began at `began`, were it over when the next one began, fits what is known.

        The next one is the same again where the program began anew: the trainer of Transformers draws one bar over all
        epochs, and a bar of an epoch is begun again by another process alone.
        """
        state, number = self._training.state, epoch[0][3]
        earliest = state.heard_at if state.heard_at is not None else state.began_at
        if number is None:
            is_next = following[0][3] is None and {epoch[0][6], following[0][6]} == {"transformers"}
        else:
            is_next = following[0][3] in (number, number + 1)
        is_later = earliest is None or began >= earliest or self._instants.dates_by_reading
        return (state.begins or not state.has_steps) and is_next and is_later

    def _date_epoch(self, bars: list[list[Any]], until: int, waiting: list[list[Any]], settled: int) -> int:
        """Date bars of one epoch, the last of which was drawn at `until`.

        `waiting` is what was told without a stamp, `settled` how much of it has its place already; so much has after.
        """
        first_bar, last = bars[0], bars[-1]
        began = self._read_by(until - last[1] * SECOND)
        place = self._attempts.place
        self._attempts.back_at(first_bar[5])
        self._training.state.waiting = waiting[settled : first_bar[9]]
        settled = max(settled, first_bar[9])
        self._own.begin_where_due(began)
        self._waiting.settle(began, None)
        apart = next((bar[0] - first_bar[0] for bar in bars if bar[0] > first_bar[0]), None)
        self._begins(began, first_bar, apart)
        at = began
        for step, clock, seconds, epoch, total, first, framework, stream, rank, ahead in bars:
            before, at = at, min(self._read_by(began + clock * SECOND), until)
            if first != self._attempts.offset:
                self._attempts.back_at(first)
            if ahead > settled:
                self._waiting.settle_between(waiting[settled:ahead], before, at)
                settled = ahead
            self._step(
                Progress(Told.STEP, framework, step, seconds, clock, total, epoch=epoch), at,
                Line("", rank=rank, stream=stream),
            )  # fmt: skip
            self._training.state.undated -= 1
            self._training.state.dated_back += 1
        self._attempts.return_to(place)
        if self._training.tells_attempts:
            self._attempts.state.last_at = until
        self._training.state.bar_base, self._training.state.bar_epoch = [until, last[1]], last[3]
        return settled

    def _read_by(self, at: int) -> int:
        """Of a log that is dated by when it is read, nothing is before what was read earlier, which came sooner."""
        heard = self._training.state.heard_at if self._instants.dates_by_reading else None
        return at if heard is None else max(at, heard)

    def _begins(self, at: int, bar: list[Any], apart: int | None) -> None:
        """An epoch began when its bar's clock was at 0: its steps, but those that were loaded, came after that.

        `apart`: the next state of the bar is so many steps further. Behind a load, the first may be in mid-epoch.
        """
        step, _, _, epoch, total, _, framework, *_ = bar
        self._training.state.framework = self._training.state.framework or framework
        self._own.begin_first(at)
        state = self._training.state
        done_before = 0 if epoch is None else epoch * (total or 0)
        if epoch is None or step is None or not 0 <= step - done_before <= (total or 0):
            return
        if step == done_before + (total or 0):
            state.loaded = []  # its epoch was over when it was drawn: who knows in which one the attempt began
        if not state.has_steps and state.is_fresh and done_before:
            state.base, state.since = 0, at
            self._steps.done(Progress(Told.STEP, framework, done_before), at, done_before)
            state.step, state.step_at, state.heard_at, state.has_steps = done_before, at, at, True
            self._steps.flush_all()  # nothing says when they were done
        elif state.has_steps and state.step is not None and state.step < done_before:
            # They are of epochs that nothing dated.
            self._steps.done(Progress(Told.STEP, framework, done_before), at, done_before)
            state.step, state.step_at, state.heard_at = done_before, at, at
        elif state.has_steps:
            state.pause_began, state.pause_ended = state.step_at, at
        else:
            if state.loaded and apart is not None and step - done_before > apart:
                done_before = step - apart
            state.base, state.since = max(done_before, state.base or 0), at


def _last_epoch(bars: list[list[Any]], waiting: list[list[Any]]) -> list[list[Any]]:
    """The bars at the end that are states of one: of one epoch, none of them goes back, and nothing that was told
    between them (`waiting`) loads a step before them."""
    begin = len(bars) - 1
    while begin and bars[begin - 1][3] == bars[-1][3] and all(
        earlier <= later for earlier, later in zip(bars[begin - 1][:2], bars[begin][:2], strict=True)
    ) and not any(
        kind in (Told.LOADING, Told.RESUMING, Told.LOADED) and step is not None and step < bars[begin - 1][0]
        for kind, _, step, *_ in waiting[bars[begin - 1][9] : bars[begin][9]]
    ):  # fmt: skip
        begin -= 1
    return bars[begin:]
