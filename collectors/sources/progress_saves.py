"""Saves: when a checkpoint was begun, captured and durable, and how long training waited for it.

Rules
- A save that says that it is done is durable then. Where that line has no instant, it is durable at the stamp before at
  least, which holds whatever follows; the next stamp tells, in a second statement, until when training waited for it.
- Where steps were done between the two lines of a save, training did not wait for it: how long it blocked is unknown.
- A save that only begins is durable when training goes on or is done, where the framework saves while training waits.
- A save that only says it was scheduled is captured; one that is loaded later was durable by then.
- MaxText's checkpointer waits for the save before, where another one begins: those before it are durable then.
- What a framework tells of how long training waited for a save is both its `saving` and what it blocked; where it tells
  neither, both are unknown.
"""

from __future__ import annotations

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.progress_attempts import OwnAttempts
from rerail.collectors.sources.progress_lines import Progress, Told
from rerail.collectors.sources.progress_training import Training
from rerail.server.core.facts import CheckpointMoment, CheckpointStage, Phase, PhaseSpan

MOST_CAPTURED = 16
"""Captured checkpoints that are remembered until something says that they are durable."""
MOST_AHEAD = 2
"""A save may hold so many steps more than were told: MaxText tells a step when the next one is under way."""
SAVES_WHILE_WAITING = frozenset({"transformers", "lightning"})
ONE_SAVE_AT_A_TIME = frozenset({"maxtext"})
"""Whose checkpointer waits for the save before, where another one begins."""


class Saves:
    """States what the lines of saves tell."""

    def __init__(self, training: Training, own: OwnAttempts) -> None:
        self._training = training
        self._attempts = training.attempts
        self._own = own

    def begins(self, told: Progress, at: int) -> None:
        """A save begins, and training waits for it as far as is known."""
        state = self._training.state
        self.training_went_on(at)
        step = told.step if told.step is not None else state.step
        self._own.begin_first(at)
        state.pause(at)
        if step is not None and not (state.saving and state.saving[0] == step):
            state.saving = [step, at, told.framework]
            self._training.say(CheckpointMoment, at, step=step, stage=CheckpointStage.STARTED)

    def stalled(self, told: Progress, at: int) -> None:
        """Training waited for a save until now, and its line says how long; what follows says whether it is written."""
        state = self._training.state
        if told.step is None or told.seconds is None:
            return
        self._own.begin_first(at)
        length = round(told.seconds * SECOND)
        begun = max(at - length, state.step_at or 0)  # its stamp has whole seconds
        at = begun + length
        self._training.say(PhaseSpan, at, phase=Phase.SAVING, start=begun, end=at)
        self._training.say(
            CheckpointMoment, begun, step=told.step, stage=CheckpointStage.STARTED, blocked_us=(at - begun) // 1000
        )
        state.pause_began, state.pause_ended = begun, at
        state.stalled = told.step

    def still_goes_on(self, told: Progress, at: int) -> None:
        """It saved until now at least: how long it does is not told."""
        state = self._training.state
        if not state.saving or told.step != state.saving[0]:
            return
        begun = max(state.saving[1], state.pause_ended or 0)
        if begun < at:
            self._training.say(PhaseSpan, at, phase=Phase.SAVING, start=begun, end=at)
            state.pause_ended = at

    def ends(self, told: Progress, at: int) -> None:
        """A save was scheduled, or is written: training goes on."""
        state = self._training.state
        self._own.begin_first(at)
        begun = state.saving[1] if state.saving else None
        step = told.step if told.step is not None else state.saving[0] if state.saving else state.step
        if begun is not None and state.saving[0] != step:
            begun = None
        is_behind = begun is not None and told.framework == "any" and state.has_steps and (state.step_at or 0) > begun
        if is_behind:
            begun, state.saving = None, []
        elif begun is None and told.seconds is not None:
            begun = at - round(told.seconds * SECOND)
        is_captured = told.told is Told.SCHEDULED or (told.framework == "torchtitan" and state.is_async)
        blocked = None
        if begun is not None and at >= begun:
            blocked = (at - begun) // 1000
            self._training.say(PhaseSpan, at, phase=Phase.SAVING, start=begun, end=at)
            state.pause_began, state.pause_ended = begun, at
            state.saving = []
        if step is None:
            return
        stage = CheckpointStage.CAPTURED if is_captured else CheckpointStage.DURABLE
        if told.framework in ONE_SAVE_AT_A_TIME:
            self._follows(step, at)
        before = state.captured
        captured = [one for one in before if one != step]
        state.stalled = None if told.told is Told.SCHEDULED else state.stalled
        state.captured = [*captured, step][-MOST_CAPTURED:] if is_captured else captured
        is_sync = blocked is not None or (state.stalled == step and step not in before)
        mode = "async" if is_captured else "sync" if is_sync else None
        if told.framework == "nemo":
            state.saved = [*(one for one in state.saved if one != step), step][-MOST_CAPTURED:]
        self._training.say(CheckpointMoment, at, step=step, stage=stage, mode=mode, blocked_us=blocked)

    def _follows(self, step: int, at: int) -> None:
        """A save of MaxText's checkpointer: those before it are over, and its steps are done, told or not."""
        state = self._training.state
        for before in [one for one in state.captured if one < step]:
            self._say_durable(before, at)
        state.captured = [one for one in state.captured if one >= step]
        if state.has_steps and state.step is not None and state.step < step <= state.step + MOST_AHEAD:
            state.ahead = [step, at, self._attempts.offset]

    def durable_by(self, told: Progress, at: int) -> None:
        """A save is over, and no stamp says since when: it is durable though nothing more should follow."""
        state = self._training.state
        step = told.step if told.step is not None else state.saving[0] if state.saving else state.step
        if step is None or (told.framework == "torchtitan" and state.is_async):
            return
        self._own.begin_first(at)
        self._say_durable(step, at)

    def took(self, told: Progress) -> None:
        """How long training waited for saves that no stamp ends: they are over so long after they began."""
        state = self._training.state
        if not state.saving or state.bars or told.seconds is None:
            return
        ended = [one for one in state.waiting if one[0] in (Told.SAVED, Told.SCHEDULED)]
        state.waiting = [one for one in state.waiting if one not in ended]
        at = state.saving[1] + round(told.seconds * SECOND)
        for kind, framework, step, *_ in ended:
            self.ends(Progress(Told(kind), framework, step), at)

    def training_went_on(self, at: int) -> None:
        """A save that nothing ends, of a framework that waits for it: training went on, so it was over."""
        state = self._training.state
        if not state.saving or state.saving[2] not in SAVES_WHILE_WAITING:
            return
        step, begun, _ = state.saving
        state.saving = []
        self._say_durable(step, at)
        state.pause_ended = max(begun, state.pause_ended or 0)

    def was_durable(self, step: int, at: int) -> None:
        """What can be loaded was written, though nothing before said so."""
        state = self._training.state
        if step in state.captured:
            state.captured = [one for one in state.captured if one != step]
            self._say_durable(step, at)

    def _say_durable(self, step: int, at: int) -> None:
        self._training.say(CheckpointMoment, at, step=step, stage=CheckpointStage.DURABLE)
