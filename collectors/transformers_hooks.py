"""Transformers hooks: steps, evaluations and checkpoints of the Hugging Face `Trainer`, by one callback.

    trainer = Trainer(…, callbacks=[recorder_callback()])

Rules
- transformers is imported when the callback is made: importing this file needs the base install only.
- The Trainer saves while training waits, and says when it is done: the save begins when the Trainer decides on it, or
  when the evaluation before it ends.
- A callback hears of a checkpoint that was loaded only when training begins, so its load has no length.
- Nothing here raises into training.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from rerail.collectors.recorder import Recorder


def recorder_callback(recorder: Recorder | None = None) -> Any:
    """A `TrainerCallback` that states what the Trainer does; without a recorder it makes one of its own."""
    from transformers import TrainerCallback

    made = type("RecorderCallback", (_Observer, TrainerCallback), {})
    return made(recorder or Recorder())


class _Observer:
    """What the callback does; `transformers.TrainerCallback` has these methods."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._began = False
        self._evaluating: AbstractContextManager[None] | None = None
        self._saving: AbstractContextManager[None] | None = None

    def on_train_begin(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        with suppress(Exception):
            target = int(state.max_steps) if state.max_steps and state.max_steps > 0 else None
            if self.recorder.is_first_rank:
                self.recorder.run(
                    name=getattr(args, "run_name", None), framework="transformers", target_step=target,
                    world_size=getattr(args, "world_size", None),
                )  # fmt: skip
            if state.global_step:
                self.recorder.loaded(int(state.global_step), 0.0)

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        if not self._began:
            self._began = True
            self.recorder.ready()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.recorder.step(int(state.global_step))
        self._what_follows(args, state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._what_follows(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _leave(self._evaluating)
        self._evaluating = None
        if control.should_save:
            self._begin_save(args, state)

    def on_save(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        _leave(self._saving)
        self._saving = None

    def on_train_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        if self.recorder.is_first_rank:
            self.recorder.finished()
        self.recorder.close()

    def _what_follows(self, args: Any, state: Any, control: Any) -> None:
        """After a step the Trainer evaluates, then saves."""
        if control.should_evaluate and self._evaluating is None:
            self._evaluating = self.recorder.phase("evaluating")
            self._evaluating.__enter__()
        elif control.should_save and not control.should_evaluate:
            self._begin_save(args, state)

    def _begin_save(self, args: Any, state: Any) -> None:
        if self._saving is None:
            place = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            self._saving = self.recorder.saving(int(state.global_step), location=str(place))
            self._saving.__enter__()


def _leave(block: AbstractContextManager[None] | None) -> None:
    if block is not None:
        block.__exit__(None, None, None)
