"""Transformers hooks: steps, evaluations and checkpoints of the Hugging Face `Trainer`, by one callback.

    trainer = Trainer(…, callbacks=[recorder_callback()])

Rules
- transformers is imported when the callback is made: importing this file needs the base install only.
- The Trainer saves while training waits, and says when it is done: the save begins when the Trainer decides on it, or
  when the evaluation before it ends.
- A callback hears of a checkpoint that was loaded only when training begins, so its load has no length.
- Waits for data of at least a tenth of a second are stated (`watch_data`), once the first step began. No callback hears
  of batches, so the Trainer's `get_batch_samples` is put behind a watch, for those Trainers that have this callback. A
  Trainer of one's own that fetches batches elsewhere tells no waits; shorter ones count as the step that follows.
- Nothing here raises into training.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from rerail.collectors.recorder import Recorder
from rerail.collectors.torch_hooks import watch_data


def recorder_callback(recorder: Recorder | None = None) -> Any:
    """A `TrainerCallback` that states what the Trainer does; without a recorder it makes one of its own."""
    from transformers import TrainerCallback

    made = type("RecorderCallback", (_Observer, TrainerCallback), {})
    return made(recorder or Recorder())


class _Observer:
    """What the callback does; `transformers.TrainerCallback` has these methods."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.has_begun = False
        """The first step began."""
        self._evaluating: AbstractContextManager[None] | None = None
        self._saving: AbstractContextManager[None] | None = None

    def on_train_begin(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        with suppress(Exception):
            _watch_batches()
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
        if not self.has_begun:
            self.has_begun = True
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


def _watch_batches() -> None:
    """Put the fetching of batches behind a watch, once in a process."""
    from transformers import Trainer

    fetch = Trainer.get_batch_samples
    if hasattr(fetch, "is_watched"):
        return

    @wraps(fetch)
    def watched(trainer: Any, batches: Any, *others: Any, **named: Any) -> Any:
        with suppress(Exception):
            observer = next((each for each in trainer.callback_handler.callbacks if isinstance(each, _Observer)), None)
            if observer is not None and observer.has_begun:
                batches = watch_data(observer.recorder, batches)
        return fetch(trainer, batches, *others, **named)

    watched.is_watched = True  # type: ignore[attr-defined]
    Trainer.get_batch_samples = watched


def _leave(block: AbstractContextManager[None] | None) -> None:
    if block is not None:
        block.__exit__(None, None, None)
