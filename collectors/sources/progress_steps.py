"""Steps: how long those took that a log tells of, and which of them are stated together.

Rules
- A step line says that its step is done. The steps since the line before share the time: that which the line tells,
  else that between the two lines, less a save or an evaluation that followed the line before at once.
- The first step line of an attempt tells steps where it is known how many: since the checkpoint that was loaded, or
  since 0 where the log shows the beginning (the loop begins in it, or the first line tells as many steps as lie between
  it and the next). Where it is not told when the loop began, those steps took as long as the next ones.
- Where a log prints only each so-many-th step it is said with the steps (`every`): more may be done than are told.
- Steps that are done at the same instant share the time until the next (`untimed`).
- Steps that follow each other are stated together, at most `MOST_TOGETHER`: whoever calls says when to state them.
- MaxText tells a step when the next one is under way: where none follows, those of its last save were done too.
"""

from __future__ import annotations

from rerail.collectors.sources.alike_lines import LONGEST_STEP_US, MOST_TOGETHER, SECOND, steps_between, told_every
from rerail.collectors.sources.progress_lines import Progress
from rerail.collectors.sources.progress_training import Training
from rerail.server.core.facts import Steps


class DoneSteps:
    """States the steps that are done."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._attempts = training.attempts

    def done(self, told: Progress, at: int, step: int) -> None:
        """Steps up to one are done."""
        state = self._training.state
        before = state.done_before
        is_bar = told.bar_seconds is not None  # its rate is an average
        each = None if told.seconds is None or (is_bar and state.has_steps) else round(told.seconds * SECOND)
        count = step - before if before is not None else 1 if each is not None else 0
        interval = count
        if before is not None and count > 0:
            interval = steps_between(before, step)
            if state.has_steps:
                state.every = told_every(interval, state.every if is_bar else 1)
            else:
                state.every = max(interval, state.every)
        count += state.untimed if count > 0 else 0
        if count <= 0:
            state.first = [] if state.has_steps else [step, at]
            return
        if each is not None:
            start = at - each * count
        else:
            begun = state.done_since
            if begun is None:
                state.first = [step, at]
                return
            start = begun
            began, ended = state.pause_began, state.pause_ended
            if began is not None and ended is not None and begun <= began <= ended < at:
                is_next = began - begun <= (state.each_ns or SECOND) // 2
                start = ended if is_next else start
        floor = state.done_since
        if floor is not None:
            start = max(start, floor)
        if is_bar:
            at = max(at, start)
        total_us = (at - start) // 1000
        state.untimed = count if total_us == 0 else 0
        if not 0 < total_us <= LONGEST_STEP_US * count:
            return
        state.each_ns = (at - start) // count
        if state.first:
            self._first_steps(interval)
        if count == 1:
            self._together(step, start, total_us)
        else:
            self.flush()
            self._training.say(
                Steps, at, first_step=step - count + 1, start=start, durations_us=(total_us,), count=count,
                every=state.stated_every,
            )  # fmt: skip

    def _first_steps(self, interval: int) -> None:
        """What the first step line of the attempt told, now that it is known how long a step takes."""
        state = self._training.state
        step, at = state.first
        state.first = []
        base = state.base if state.base is not None else 0 if step == interval else None
        if base is None or state.each_ns is None or not base < step:
            return
        start = at - state.each_ns * (step - base)
        earliest = self._attempts.state.last_mark_at if not self._training.tells_attempts else state.began_at
        start = start if earliest is None else max(start, min(earliest, at))
        self.flush()
        self._training.say(
            Steps, at, first_step=base + 1, start=start, durations_us=((at - start) // 1000,), count=step - base,
            every=state.stated_every,
        )  # fmt: skip

    def _together(self, step: int, start: int, length_us: int) -> None:
        state = self._training.state
        if state.together:
            first, begun, durations, _ = state.together
            end = begun + sum(durations) * 1000
            if first + len(durations) != step or abs(start - end) > 1_000_000 or len(durations) >= MOST_TOGETHER:
                self.flush()
            else:
                durations.append(max(0, length_us + (start - end) // 1000))
                state.together[3] = self._attempts.offset
                return
        state.together = [step, start, [length_us], self._attempts.offset]

    def flush(self) -> None:
        """State the steps that wait for company."""
        state = self._training.state
        if state.together:
            first, start, durations, offset = state.together
            state.together = []
            end = start + sum(durations) * 1000
            self._attempts.late_fact(
                Steps, end, offset, restart=state.attempt, first_step=first, start=start,
                durations_us=tuple(durations), every=state.stated_every,
            )  # fmt: skip

    def flush_all(self) -> None:
        """State what waits for company, and the steps of the last instant: nothing will tell how long they took."""
        self.flush()
        state = self._training.state
        count, state.untimed = state.untimed, 0
        if count and state.step is not None and state.step_at is not None:
            self._attempts.late_fact(
                Steps, state.step_at, state.step_offset, restart=state.attempt, first_step=state.step - count + 1,
                start=state.step_at, durations_us=(0,), count=count, every=state.stated_every,
            )  # fmt: skip

    def tell_ahead(self) -> None:
        """No line of a step follows in this attempt: the steps of its last save were done by then."""
        state = self._training.state
        ahead, state.ahead = state.ahead, []
        if not ahead or state.step is None or state.step_at is None or not ahead[0] > state.step:
            return
        self.flush_all()
        (step, at, offset), begun = ahead, state.step_at
        self._attempts.late_fact(
            Steps, max(at, begun), max(offset, state.step_offset), restart=state.attempt, first_step=state.step + 1,
            start=begun, durations_us=(max(at - begun, 0) // 1000,), count=step - state.step,
        )  # fmt: skip
        state.step, state.step_at = step, max(at, begun)
