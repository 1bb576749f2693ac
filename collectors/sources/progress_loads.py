"""Loads: which checkpoint an attempt goes on from, and how long it took to load.

Rules
- A load lasts from the line that it begins with to the one it ends with, where the program itself had told the time
  since its last step, or for as long as it says. Otherwise how long it took is not known, and the time before it stays
  unexplained.
- What only names a checkpoint to go on from begins a load, which the first step ends at the latest.
- Training does not go forward by loading: a later step is weights of another run, or a remark. An earlier one is a
  restart.
- What starts from step 0 loads nothing.
- A load of no framework's words that name no step, amid training, is one of this training only where a step comes again
  behind it; where training goes on, it was of something else.
"""

from __future__ import annotations

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.progress_attempts import OwnAttempts
from rerail.collectors.sources.progress_lines import Progress
from rerail.collectors.sources.progress_saves import Saves
from rerail.collectors.sources.progress_training import Training
from rerail.server.core.facts import CheckpointLoaded, Phase, PhaseSpan

TELLS_NO_STEP = frozenset({"nemo", "lightning", "any"})
"""Who may tell of a load and not of what: the first step tells."""


class Loads:
    """States what the lines of loads tell."""

    def __init__(self, training: Training, own: OwnAttempts, saves: Saves) -> None:
        self._training = training
        self._own = own
        self._saves = saves

    def begins(self, told: Progress, at: int) -> None:
        """A load begins. Of many ranks that say so in words of their own the first counts."""
        loading = self._training.state.loading
        is_said = told.framework == "any" and len(loading) == 2 and loading[0] == told.step and loading[1] is not None
        if not is_said:
            self._training.state.loading = [told.step, at]

    def resuming(self, told: Progress, at: int) -> None:
        """It says which checkpoint it goes on from: the load begins, and may be told of no more."""
        state, step = self._training.state, told.step
        if step is None or (state.has_steps and step > (state.step or 0)):
            return  # weights of another run, or a remark: training does not go forward by loading
        if state.has_steps:
            self._own.come_again(step, at, told)
            state = self._training.state
        elif state.base == step:
            return  # it is loaded already, or another rank said so
        self._own.begin_first(at)
        self._saves.was_durable(step, at)
        state.loading, state.base = [step, at], step

    def ends(self, told: Progress, at: int) -> None:
        """A checkpoint is loaded."""
        state = self._training.state
        step = told.step if told.step is not None else state.loading[0] if state.loading else None
        begun = state.loading[1] if state.loading else None
        if told.framework == "any" and step is None and state.has_steps:
            state.loading = [] if begun is None else [None, begun, at]
            return
        state.loading = []
        if told.seconds is not None:
            begun = max(at - round(told.seconds * SECOND), begun or 0)
        if step is None and (begun is None or told.framework not in TELLS_NO_STEP):
            return
        if state.has_steps:
            if step is not None and step > (state.step or 0):
                return  # weights of another run, or a remark: training does not go forward by loading
            self._own.come_again(step, at if begun is None else begun, told)
            state = self._training.state
            state.loading = []
        elif step is not None and state.base == step and (begun is None or state.loaded):
            return  # every rank says so
        begun = at if begun is None else min(begun, at)
        self._own.begin_first(begun)
        if step is None:
            self._training.say(PhaseSpan, at, phase=Phase.LOADING, start=begun, end=at)
            state.loaded, state.since = [begun, at], at
            return
        self._saves.was_durable(step, begun)
        self._training.say(CheckpointLoaded, at, step=step, start=begun, end=at)
        state.base, state.since = step, at

    def is_over_by(self, step: int) -> None:
        """The first step of an attempt that told of a load, and not of its end or not of its step."""
        state = self._training.state
        if len(state.loading) == 3:
            state.loaded, state.loading = state.loading[1:], []
            self._training.say(
                PhaseSpan, state.loaded[1], phase=Phase.LOADING, start=state.loaded[0], end=state.loaded[1]
            )
            state.since = state.loaded[1]
        if state.loading and None not in state.loading and state.base == state.loading[0]:
            at = state.loading[1]
            if state.base > 0:  # "starting from step 0" loads nothing
                self._training.say(CheckpointLoaded, at, step=state.base, start=at, end=at)
            state.loading = []
        if state.loaded and state.base is None and state.every == 1 and state.each_before is not None:
            state.base = step - 1
        if state.loaded and state.base:
            begun, at = state.loaded
            state.loaded = []
            self._training.say(CheckpointLoaded, at, step=state.base, start=begun, end=at)
