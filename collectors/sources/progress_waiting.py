"""What waits for a stamp: lines of saves, loads and evaluations without an instant, until the log tells the next.

Rules
- What begins without a stamp begins at the last one; what ends without one waits for the next.
- Where the step that the next stamp is of tells how long it took, what waited was before that; where it tells nothing
  of it, until when training saved is not known.
- Where training did not go on after a save, the next stamp does not tell until when it saved.
- A load behind which a launcher or a watchdog speaks next was over at the stamp before, as far as anybody knows: until
  the next it was not loading, but trained perhaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.progress_lines import Progress, Told
from rerail.collectors.sources.progress_saves import Saves
from rerail.collectors.sources.progress_training import Training

MOST_WAITING = 100
BRING_UP = frozenset({Told.BANNER, Told.LOADING, Told.RESUMING, Told.LOADED, Told.READY, Told.FRESH})


class Waiting:
    """Holds what was told without a stamp, and has it told once there is one."""

    def __init__(self, training: Training, saves: Saves, tell: Callable[[Progress, int], None]) -> None:
        """`tell` takes what was told, and when that was."""
        self._training = training
        self._saves = saves
        self._moment = tell

    def take(self, told: Progress) -> None:
        """What begins without a stamp begins at the last one; what ends waits for the next."""
        state = self._training.state
        is_placed = state.heard_at is not None and not state.bars
        if told.told is Told.SAVE_TOOK:
            self._saves.took(told)
        elif told.told is Told.LOAD_TOOK:
            loaded = next((one for one in reversed(state.waiting) if one[0] == Told.LOADED.value), None)
            if loaded is not None:
                loaded[3] = told.seconds
        elif told.told is Told.LOADING and is_placed and state.heard_at != state.said_at:
            state.loading = [told.step, None]
        elif told.told in (Told.SAVING, Told.LOADING, Told.EVALUATING) and is_placed and state.heard_at is not None:
            self._moment(told, state.heard_at)
        elif told.told not in (Told.STEP, Told.CLOCK, Told.STILL_SAVING) and self._has_room():
            is_stated = told.told is Told.SAVED and is_placed and state.heard_at is not None and not state.begins
            if is_stated and state.heard_at is not None:
                self._saves.durable_by(told, state.heard_at)
            state.waiting.append([told.told.value, told.framework, told.step, told.seconds, is_stated])

    def _has_room(self) -> bool:
        """Beside bars that nothing dates the first are let go for it: the last save is the one that counts."""
        state = self._training.state
        if len(state.waiting) >= MOST_WAITING and state.bars:
            del state.waiting[: MOST_WAITING // 2]
            for bar in state.bars:
                bar[9] = max(0, bar[9] - MOST_WAITING // 2)
        return len(state.waiting) < MOST_WAITING

    def settle(self, at: int, told: Progress | None, *, by_another: bool = False) -> None:
        """What waited for a stamp was before the steps that this one ends, where it tells how long they took.

        Where training did not go on after a save, the stamp does not tell until when it saved: another program begins,
        or a launcher or a watchdog speaks (`by_another`).
        """
        state = self._training.state
        if not state.waiting:
            return
        is_another = by_another or state.begins or (told is not None and told.told in BRING_UP)
        if is_another or any(one[0] in BRING_UP for one in state.waiting):
            state.waiting = [one for one in state.waiting if one[4:5] != [True]]
        if told is not None and told.told is Told.STEP and told.seconds is not None and told.step is not None:
            before = self._training.state.done_before
            for kind, _, step, *_ in state.waiting:
                if kind in (Told.RESUMING, Told.LOADED) and step is not None and step < told.step:
                    before = step
            if before is not None and told.bar_seconds is None and told.step > before:
                at -= round(told.seconds * SECOND) * (told.step - before)
        elif told is not None and told.told is Told.STEP and told.bar_seconds is None:
            # Steps were done before this stamp too, and nobody says how long they took: so is not how long it saved.
            state.waiting = [one for one in state.waiting if one[4:5] != [True] or one[3] is not None]
        before_it = state.heard_at if state.heard_at is not None else at
        at = max(at, before_it)
        waiting, state.waiting = state.waiting, []
        for kind, framework, step, seconds, *_ in waiting:
            is_not_dated = by_another and kind == Told.LOADED.value and seconds is None
            self._moment(Progress(Told(kind), framework, step, seconds), before_it if is_not_dated else at)

    def settle_between(self, waiting: list[list[Any]], before: int, at: int) -> None:
        """What was told between two states of a bar: what begins began behind the first."""
        for kind, framework, step, seconds, *_ in waiting:
            told = Progress(Told(kind), framework, step, seconds)
            self._moment(told, before if told.told in (Told.SAVING, Told.LOADING, Told.EVALUATING) else at)
