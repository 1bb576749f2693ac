"""Instants: when a line of progress was written, as far as it or what was told before it says so.

Rules
- An instant is the line's own stamp, else the stamp that whoever received the line put in front; lines of Megatron-LM
  and NeMo 2 without either are counted on from the last stamp by the times they tell. What has no instant is not
  stated, and counted (`undated`).
- Of a whole log in which nothing tells an instant, but lines of steps how long those took (`counted`), a second reading
  counts on from so long before the file was written last. What stood still in between (saves, restarts) took no time
  that is known.
- A bar without a stamp whose clock is tied to an instant (`bar_base`) is dated by it; of the others `progress_bars.py`
  takes care.
- Where steps go on and their stamps go back by nearly whole hours, the clock that wrote them was set to another zone
  (or from summer time): what follows is dated by it. Where they go back otherwise, that is counted (`went_back`).
- Of a log that is followed and in which nothing tells a time, what is new happened when it was read.
"""

from __future__ import annotations

import re
import time
from typing import Any

from rerail.collectors.sources.alike_lines import MOST_SECONDS, SECOND, Alike
from rerail.collectors.sources.log_lines import Line, LocalClock, zoned_instant
from rerail.collectors.sources.progress_lines import Progress, Told
from rerail.collectors.sources.progress_training import Training

STAMP_WITHIN = 120
"""So many characters of a line of no known logger may hold its stamp."""
COUNTED = frozenset({"nemo", "megatron", "maxtext"})
"""Their lines tell how long a step took, and often no instant."""
RECEIVED = re.compile(rb"^(\d{9,10})\.(\d{1,9}) ")
HOUR = 3600 * SECOND
BACK_LEAST = 60 * SECOND
"""Who goes back by less is another thread, or a clock that was set right."""
USUAL_AGAIN = 10
"""Behind a change of the zone the next step took at most so many times as long as the last."""
SHORT_STAMP = re.compile(r"[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d\.\d{6}) ")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")


def received_at(received: re.Match[bytes]) -> int:
    """The instant, in ns, of a stamp that a line was received with (`RECEIVED`)."""
    return int(received[1]) * SECOND + int(received[2].ljust(9, b"0"))


class Instants:
    """Tells when the lines of one log were written."""

    def __init__(self, training: Training, clock: LocalClock) -> None:
        self._training = training
        self._clock = clock
        clock.behind_ns = training.state.behind_ns
        self.read_at: int | None = None
        """When the lines that are taken were written, at the latest: for a log that is followed and tells no time."""

    @property
    def dates_by_reading(self) -> bool:
        """Nothing in the log tells a time, and it is read as it grows: what is new happened just now."""
        return self.read_at is not None and not self._training.state.is_clocked

    def instant_of(self, raw: bytes, line: Line, told: Progress, stamp: int | None) -> int | None:
        """When a line was written that tells `told`; `stamp`: what was found in its text. None: nothing says so."""
        if line.at is not None:
            return line.at
        if (received := RECEIVED.match(raw)) is not None:
            return received_at(received)
        if stamp is not None:
            return stamp
        state = self._training.state
        if told.told is not Told.STEP or told.step is None:
            return None
        if state.is_counted and state.speaker is not None and line.stream != state.stream:
            return state.heard_at
        if told.bar_seconds is not None and told.epoch == state.bar_epoch and state.bar_base:
            if state.bars or (state.has_steps and state.step is not None and told.step < state.step):
                return None  # another process drew it: its clock began when that process began, nobody says when
            return self._bar_instant(told, told.bar_seconds)
        if told.seconds is None:
            return None
        before, begun = state.done_before, state.done_since
        count = told.step - before if before is not None and told.step > before else 1
        if told.framework == "nemo" or (state.is_counted and told.framework in COUNTED):
            known = [at for at in (begun, state.pause_ended, state.heard_at) if at is not None]
            return max(known) + round(told.seconds * SECOND) * count if known else None
        if told.framework == "maxtext":
            # It prints steps without a stamp, and the stamps around are those of other threads too.
            known = [at for at in (begun, state.pause_ended) if at is not None]
            after = max(known) + round(told.seconds * SECOND) * count if known else state.heard_at
            return None if after is None else max(after, state.heard_at or after)
        if told.framework == "megatron" and before is not None and begun is not None:
            return max(begun, state.pause_ended or begun) + round(told.seconds * SECOND) * max(0, told.step - before)
        return None

    def goes_back(self, told: Progress, at: int) -> int:
        """How much later than its stamp without a zone a line was written, whose step goes on where its stamp goes
        back. By (nearly) whole hours: the clock is the same, and set to another zone from here on. Else 0."""
        state = self._training.state
        before = max(state.step_at or 0, state.pause_ended or 0)
        if not state.has_steps or state.step is None or told.step is None or not at < before - BACK_LEAST:
            return 0
        if told.step <= state.step - (told.told is not Told.STEP):
            return 0  # it comes again
        hours = -(-(before - at) // HOUR)
        put = at + hours * HOUR
        usual = (state.each_ns or SECOND) * max(told.step - state.step, 1)
        if put - before > max(USUAL_AGAIN * usual, BACK_LEAST) or (self._clock.zone_seconds is None and time.daylight):
            if told.told is Told.STEP:
                count, most = state.went_back or (0, 0)
                state.went_back = [count + 1, max(most, before - at)]
            return 0
        self._clock.behind_ns += hours * HOUR
        state.behind_ns = self._clock.behind_ns
        return hours * HOUR

    def _bar_instant(self, told: Progress, clock: int) -> int:
        """A bar tells whole seconds, and how long a step takes: the instant in that second that fits best."""
        state = self._training.state
        earliest = state.bar_base[0] + (clock - state.bar_base[1]) * SECOND
        before = state.done_before
        if state.heard_at is not None and state.heard_at - earliest > SECOND:  # its clock began later than was said
            count = 0 if before is None or told.step is None else max(told.step - before, 0)
            rate = round((told.seconds or 0) * SECOND)
            each = min(rate, state.each_ns or state.each_before or rate)
            earliest = max(state.heard_at, state.pause_ended or 0) + each * count
            state.bar_base = [earliest, clock]
            return earliest // 1000 * 1000
        if told.seconds is None or before is None or state.step_at is None or told.step is None:
            return earliest
        likely = max(state.step_at, state.pause_ended or 0) + round(told.seconds * SECOND) * (told.step - before)
        return min(max(likely, earliest, state.step_at), earliest + SECOND) // 1000 * 1000  # as steps are told

    def stamp_in(self, text: str) -> int | None:
        """The first date and time that stands in a text."""
        found = _STAMP.search(text)
        if found is None:
            return None
        stamp = f"{found[1]} {found[2]}"
        return zoned_instant(stamp, found[3]) if found[3] else self._clock.instant(stamp)

    def short_stamp_in(self, text: str) -> int | None:
        """The stamp without a year that a text begins with."""
        told = SHORT_STAMP.match(text)
        return None if told is None else self._clock.without_year(told["month"], told["day"], told["clock"])

    def minute_at(self, kind: Alike, written: bytes) -> int | None:
        """The instant of a minute, as lines of one kind write it."""
        text = written.decode()
        if kind.is_short:
            return self._clock.without_year(text[:2], text[2:4], f"{text[5:]}:00")
        stamp = f"{text.replace('T', ' ')}:00"
        return zoned_instant(stamp, kind.zone) if kind.zone else self._clock.instant(stamp)

    def begin_at(self, at: int, counted: list[Any]) -> None:
        """The log began at `at`, as far as the times that its lines tell of steps say so (`counted` by another)."""
        state = self._training.state
        state.is_counted, state.counted = True, counted
        state.began_at = state.heard_at = at
        if counted[3] > 1:
            state.base = 0

    def count(self, told: Progress, line: Line) -> None:
        """A line of a step that nothing dates: of the one speaker, how long its steps took."""
        state, step, seconds = self._training.state, told.step, told.seconds
        if told.told is not Told.STEP or told.framework not in COUNTED or step is None or seconds is None:
            return
        if told.bar_seconds is not None or not 0 <= seconds < MOST_SECONDS:
            return
        if not state.counted:
            state.counted = [round(seconds * SECOND), step, line.stream, 1, seconds]
            return
        total, last, stream, first, each = state.counted
        if stream != line.stream or step == last:
            return
        if first == 1 and last > 1 and total == round(each * SECOND) and step == 2 * last:
            first, total = last, round(each * SECOND) * last  # one line in so many steps
        total += round(seconds * SECOND) * (step - last if step > last else 1)
        state.counted = [total, step, stream, first, each]
