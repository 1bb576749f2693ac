"""Progress: the facts about steps, checkpoints and evaluations that a training log states by itself, in order.

A line is read here, dated, and given to the part that knows what follows from it:

| the question | where |
|---|---|
| what do the words of a line tell? | `progress_lines.py` |
| when was a line written? | `progress_instants.py` |
| when was a bar without a stamp drawn? | `progress_bars.py` |
| what becomes of other lines without a stamp? | `progress_waiting.py` |
| whose lines count, of many ranks? | `progress_speaker.py` |
| how long did a step take, what is stated together? | `progress_steps.py` |
| why is this save durable then, what did it block? | `progress_saves.py` |
| which checkpoint was loaded, and for how long? | `progress_loads.py` |
| why did the attempt begin, or end, there? | `progress_attempts.py` |
| how are thousands of lines of steps read at once? | `progress_alike.py`, `alike_lines.py` |
| what is remembered from one line to the next? | `progress_state.py` |
| what do these parts share? | `progress_training.py` |

Rules
- What a line says is dated first. What waited for a stamp, and the silence before it, are settled before that is told.
- Words of another library beside those of a framework count where the framework says nothing of saves itself.
- A step is the number of steps done, and so is the number of a checkpoint, whatever its framework counts from.
- The state is plain data and part of the cursor, so that another instance can go on.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.attempts import Attempts
from rerail.collectors.sources.going_on import is_done
from rerail.collectors.sources.log_lines import Line, LocalClock
from rerail.collectors.sources.progress_alike import AlikeSteps
from rerail.collectors.sources.progress_attempts import OwnAttempts
from rerail.collectors.sources.progress_bars import Bars
from rerail.collectors.sources.progress_instants import RECEIVED, STAMP_WITHIN, Instants
from rerail.collectors.sources.progress_lines import Progress, Told, may_tell, read_progress, total_of_trainer
from rerail.collectors.sources.progress_loads import Loads
from rerail.collectors.sources.progress_saves import Saves
from rerail.collectors.sources.progress_speaker import Speaker
from rerail.collectors.sources.progress_state import ProgressState
from rerail.collectors.sources.progress_steps import DoneSteps
from rerail.collectors.sources.progress_training import Training
from rerail.collectors.sources.progress_waiting import Waiting
from rerail.server.core.codec import LARGEST_STEP
from rerail.server.core.facts import Outcome, Phase, PhaseSpan

NOT_OF_TRAINING = frozenset({"cpp", "torchrun", "nvrx", "monitor"})
"""Whose lines come whether training goes on or not: watchdogs and launchers."""
OF_SAVES = frozenset({Told.SAVING, Told.SCHEDULED, Told.SAVED, Told.STALLED})
LOADS = frozenset({Told.LOADING, Told.RESUMING, Told.LOADED})
SOONER = 5
"""Steps that took this part of the usual time were not done but loaded."""
_BEGINS_WITH_BAR = re.compile(rb"\s{0,8}\d{1,3}%\|")
_TORCHRUN_ENDS = re.compile(rb"\] (?:Sending process \d{1,9} closing signal|failed \(exitcode: )")
"""All that torchrun tells at its usual log level, where an attempt ends: the log shows since when it was there."""
_TIME_OF_DAY = re.compile(rb"(?<![\d:])\d\d:\d\d:\d\d(?![\d:])|^\d{9,10}\.\d{1,9} ", re.MULTILINE)


class ProgressLog:
    """Reads progress lines, in the order of the log, and states what they tell through `attempts`."""

    def __init__(self, attempts: Attempts, clock: LocalClock, state: ProgressState | None = None) -> None:
        self.attempts = attempts
        self.training = training = Training(attempts, state or ProgressState())
        self.instants = Instants(training, clock)
        self.speaker = Speaker(training)
        self.steps = DoneSteps(training)
        self.own = OwnAttempts(training, self.steps)
        self.saves = Saves(training, self.own)
        self.loads = Loads(training, self.own, self.saves)
        self.waiting = Waiting(training, self.saves, self._moment)
        self.bars = Bars(training, self.instants, self.steps, self.own, self.waiting, self._step, self._moment)
        self.alike = AlikeSteps(training, self.instants, self.speaker, self.own, self._tell)
        self._raw = b""

    @property
    def state(self) -> ProgressState:
        """What is known at this place of the log. Another attempt puts another in its place."""
        return self.training.state

    def knows_what(self, before: ProgressLog) -> None:
        """The same log was read up to here by `before`: how its step lines are written is known."""
        self.speaker.prefix = before.speaker.prefix
        self.alike.knows_what(before.alike)

    def look_ahead(self, block: bytes) -> None:
        """Learn from whole lines, before they are taken, whether they tell times, and which bar is that of training."""
        if self.instants.read_at is not None and not self.state.is_clocked:
            self.state.is_clocked = _TIME_OF_DAY.search(block) is not None
        if self.state.bar_total is None and not self.state.has_steps:
            self.state.bar_total = total_of_trainer(block)

    def take(self, raw: bytes, line: Line) -> bool:
        """One line; whether it told something of progress."""
        self._raw = raw
        found: list[tuple[Progress, str]] = []
        is_of_a_terminal = False
        if may_tell(raw) and not self.speaker.tells_no_instants:
            is_of_a_terminal = (b"%|" in raw or b"\r" in raw[:-2]) and raw[:1] != b"{"
            found = read_progress(
                raw.decode("utf-8", "replace").rstrip() if is_of_a_terminal else line.raw or line.text
            )
        is_in_between = line.rank is not None and _BEGINS_WITH_BAR.match(raw) is not None
        if line.at is not None and found and not line.is_zoned and self._is_of_speaker(line):
            line = replace(line, at=line.at + self.instants.goes_back(found[0][0], line.at))
        # Who is named behind a bar did not draw it.
        drawn = replace(line, rank=None, stream="") if is_in_between else line
        if line.at is not None:
            self.bars.date_back(line.at)
            self.waiting.settle(line.at, found[0][0] if found else None, by_another=line.speaker in NOT_OF_TRAINING)
            self.own.hear(line.at)
            is_end = line.speaker == "torchrun" and _TORCHRUN_ENDS.search(raw) is not None
            if is_end and (self.state.began_at or line.at) < line.at:
                self.own.begin_first(line.at)
        if b"async_mode" in raw:
            self.state.is_async = b"disabled" not in raw
        stamp = None
        if line.at is None and (self.training.tells_attempts or found):
            parts = [part for _, part in found] or (
                [line.raw[:STAMP_WITHIN]] if line.speaker in ("plain", "rank") else []
            )
            stamp = next((at for part in parts if (at := self.instants.stamp_in(part)) is not None), None)
            if stamp is not None and found and self._is_of_speaker(line):
                stamp += self.instants.goes_back(found[0][0], stamp)
            if stamp is None and self.instants.dates_by_reading and any(told.bar_seconds is None for told, _ in found):
                stamp = self.instants.read_at
            if stamp is not None:
                self.bars.date_back(stamp)
            if stamp is not None and not found:
                self.waiting.settle(stamp, None)
                self.own.hear(stamp)
                self.attempts.heard(stamp)
        for told, _ in found:
            speaks = line if told.bar_seconds is None else drawn
            if self.bars.is_reset(told):
                continue
            if told.of_epoch is not None:
                self.bars.wait_for_name(told, speaks)
                continue
            self.bars.name_those_before(told)
            at = self.instants.instant_of(raw, speaks, told, stamp)
            if at is None:
                self.state.undated += told.told is Told.STEP
                self.instants.count(told, line)
            elif line.at is None:
                self.waiting.settle(at, told)
                if self.training.tells_attempts:
                    self.own.hear(at)
                    self.attempts.heard(at)
            is_untold = at is not None and line.at is None and stamp is None
            self.training.is_counted_on = is_untold and not RECEIVED.match(raw)
            self.own.follow_launcher()
            if at is None and told.told is Told.STEP and told.bar_seconds is not None:
                self.bars.wait(told, speaks)
                continue
            self._tell(told, at, speaks)
            is_dated = at is not None and not self.training.is_counted_on and not self.state.bar_base
            if is_dated and told.bar_seconds is not None and told.epoch is None and speaks.stream == self.state.stream:
                self.state.bar_base = [at, told.bar_seconds]
            if told.told is Told.STEP and speaks.stream == self.state.stream:
                if told.rule is not None:
                    self.alike.reads_by(told.rule, line)
                elif at is not None and line.at is None and stamp is None and told.epoch is None:
                    self.alike.learn_bar(raw, line)
        self.training.is_counted_on = False
        if b"raining" in raw and not found and is_done(line.text):
            self.own.is_done(line.at if line.at is not None else stamp, line.text)
        return bool(found) and not is_of_a_terminal  # what stands behind a bar is still to be read

    def _tell(self, told: Progress, at: int | None, line: Line) -> None:
        saving, loading = self.state.saving, self.state.loading
        self._tell_of(told, at, line)
        if self.state.saving is not saving:
            self.state.saving_by = line.stream
        if self.state.loading is not loading:
            self.state.loading_by = line.stream

    def _tell_of(self, told: Progress, at: int | None, line: Line) -> None:
        told = self._counted_from_one(told)
        state = self.state
        if state.framework is None or state.framework == "any":
            state.framework = told.framework
        if told.framework == "any" and state.framework != "any" and told.told is not Told.STEP:
            if told.told not in OF_SAVES or state.tells_saves or not state.has_steps:
                return  # the framework says so in its own words
        elif told.told in OF_SAVES and told.framework != "any":
            state.tells_saves = True
        if told.step is not None and told.step > LARGEST_STEP:
            return
        if told.framework == "any" and told.step is None and not self._is_begun_by(line, told.told):
            return
        if told.told in LOADS:
            self.own.goes_on()
        if at is not None and told.told not in (Told.BANNER, Told.FITTING):
            self.own.begin_where_due(at)
            state = self.state
        if told.told is Told.BANNER:
            self.own.banner(told, at)
        elif told.told is Told.TARGET:
            state.bar_total = told.total
        elif told.told is Told.FITTING:
            self.own.fitting()
        elif told.told is Told.FRESH:
            state.base = 0 if not state.has_steps else state.base
        elif told.told is Told.FINISHED and not self._waits(told, at):
            self._finished(at if at is not None else state.heard_at)
        elif at is None or told.told is Told.FINISHED:
            self.waiting.take(told)
        elif told.told is Told.STEP:
            self._step(told, at, line)
        else:
            state.said_at = at
            self._moment(told, at)

    def _waits(self, told: Progress, at: int | None) -> bool:
        """Whether the trainer said that it is done before the steps are known that it did: Lightning draws a bar of
        rich once more behind that, and where the log goes to a file only there."""
        state = self.state
        is_due = not state.has_steps or state.begins
        return (at is None and bool(state.bars or is_due)) or (is_due and told.framework == "lightning")

    def _is_of_speaker(self, line: Line) -> bool:
        return self.state.speaker is not None and line.stream == self.state.stream

    def _is_begun_by(self, line: Line, told: Told) -> bool:
        """Whether words that name no number may count: what they end was begun in their stream."""
        state = self.state
        if told is Told.SAVED:
            return bool(state.saving) and state.saving_by == line.stream
        return told is not Told.LOADED or (bool(state.loading) and state.loading_by == line.stream)

    def _counted_from_one(self, told: Progress) -> Progress:
        """What names a checkpoint by a number, with the steps that are done in it."""
        state = self.state
        if told.step is None:
            return told
        if told.framework == "orbax":  # MaxText names it by the last step, which it counts from 0
            is_maxtext = state.framework in (None, "maxtext")
            return replace(told, framework="maxtext" if is_maxtext else "any", step=told.step + is_maxtext)
        if told.or_next or (told.framework == "lightning" and state.framework == "nemo"):
            known = [state.step] if told.or_next else state.saved
            return told if told.step in known and told.step + 1 not in known else replace(told, step=told.step + 1)
        return told

    def _moment(self, told: Progress, at: int) -> None:
        if told.told in LOADS:
            self.own.goes_on()
        state = self.state
        match told.told:
            case Told.BANNER:
                self.own.banner(told, at)
            case Told.READY:
                self.own.ready(at)
            case Told.SAVING:
                self.saves.begins(told, at)
            case Told.SCHEDULED | Told.SAVED:
                self.saves.ends(told, at)
            case Told.STALLED:
                self.saves.stalled(told, at)
            case Told.STILL_SAVING:
                self.saves.still_goes_on(told, at)
            case Told.LOADING:
                self.loads.begins(told, at)
            case Told.RESUMING:
                self.loads.resuming(told, at)
            case Told.LOADED:
                self.loads.ends(told, at)
            case Told.FINISHED:
                self._finished(at)
            case Told.EVALUATING:
                state.pause(at)
                state.evaluating = at
            case Told.EVALUATED:
                if state.evaluating is not None and at > state.evaluating:
                    self.training.say(PhaseSpan, at, phase=Phase.EVALUATING, start=state.evaluating, end=at)
                    state.pause_ended = at
                state.evaluating = None

    def _step(self, told: Progress, at: int, line: Line) -> None:
        state, step = self.state, told.step
        if step is None or (told.total is not None and not self.bars.is_of_training(told)):
            return
        if not self.speaker.is_heard(line, self._raw):
            return
        is_another_job = self.attempts.state.is_job_over and self.training.tells_attempts
        if state.has_steps and state.step is not None and (step < state.step or is_another_job):
            if not is_another_job and self.speaker.is_of_another(told, step, at):
                return
            self.own.come_again(step, at, told)
            state = self.state
            self.speaker.goes_on(line)
        self.own.begin_first(at)
        if state.has_steps and step == state.step:
            return
        state.done = []
        if state.has_steps and state.loading and state.loading[0] is None:
            state.loading = []  # training goes on: what was loaded was something else
        if not state.has_steps:
            if told.epoch is not None and state.base is None and step == told.epoch * (told.total or 0) + 1:
                state.base = step - 1  # an epoch begins with it, and its bar's clock then
                state.since = max(state.since or 0, at - (told.bar_seconds or 0) * SECOND)
            elif told.epoch is None and state.base is None and told.total is not None:
                state.base = state.unclaimed.get(str(told.total))
            self.loads.is_over_by(step)
        if self._jumps(told, step):
            state.base, state.step = step - 1, step - 1
        self.saves.training_went_on(at)
        self.steps.done(told, at, step)
        if not state.has_steps:
            self.own.mark_ready()
        state.step, state.step_at, state.has_steps, state.step_offset = step, at, True, self.attempts.offset
        state.silence, state.heard_at = [], at

    def _jumps(self, told: Progress, step: int) -> bool:
        """Whether a bar of Transformers passes over steps that were loaded: behind a restart its first state that
        counts any comes far too soon to have done them all. It is drawn when the first of its own is done."""
        state = self.state
        is_first = state.step == 0 or (not state.has_steps and not state.base)
        if told.framework != "transformers" or told.seconds is None or not is_first or step <= 1:
            return False
        usual = state.each_before
        return usual is not None and told.seconds * SECOND * SOONER < usual

    def _finished(self, at: int | None) -> None:
        state = self.state
        if at is None:
            return
        if state.pause_ended is not None and 0 < state.pause_ended - at < SECOND:
            at = state.pause_ended  # a save took so many milliseconds; the stamp is of whole seconds
        self.saves.training_went_on(at)
        self.steps.tell_ahead()
        self.steps.flush_all()
        if state.has_steps and self.training.tells_attempts:
            self.attempts.end_run(at, Outcome.COMPLETED)
