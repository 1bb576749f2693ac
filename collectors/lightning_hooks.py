"""Lightning hooks: steps, validation and checkpoints of a Lightning `Trainer`, by one callback. NeMo trains through it.

    trainer = Trainer(…, callbacks=[recorder_callback()])

Rules
- `lightning.pytorch`, else `pytorch_lightning`, is imported when the callback is made: importing this file needs the
  base install only.
- A step is a change of `trainer.global_step`, so gradient accumulation counts as the trainer counts it.
- A save through an asynchronous `CheckpointIO` is captured when the trainer goes on; when it is durable nobody says.
- A callback hears of a checkpoint that was loaded only when training begins, so its load has no length.
- The trainer is called first, its exceptions pass unchanged, and nothing here raises into training.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, suppress
from typing import Any

from rerail.collectors.recorder import Recorder


def recorder_callback(recorder: Recorder | None = None) -> Any:
    """A Lightning `Callback` that states what the trainer does; without a recorder it makes one of its own.

    Raises ImportError where neither `lightning` nor `pytorch_lightning` is installed.
    """
    try:
        base = importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        base = importlib.import_module("pytorch_lightning").Callback
    made = type("RecorderCallback", (_Observer, base), {})
    return made(recorder or Recorder())


class _Observer:
    """What the callback does; `lightning.pytorch.Callback` has these methods."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._step = 0
        self._validating: AbstractContextManager[None] | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 - called by these names
        """Lightning calls this before it fits: from here on its saves are seen."""
        if stage == "fit":
            with suppress(Exception):
                _observe_saves(trainer, self.recorder)

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        with suppress(Exception):
            self._step = int(trainer.global_step)
            most = getattr(trainer, "max_steps", None)
            if self.recorder.is_first_rank:
                self.recorder.run(
                    framework="lightning", target_step=most if most and most > 0 else None,
                    world_size=getattr(trainer, "world_size", None),
                )  # fmt: skip
            if self._step:
                place = getattr(trainer, "ckpt_path", None)
                self.recorder.loaded(self._step, 0.0, location=None if place is None else str(place))
        self.recorder.ready()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        step = int(trainer.global_step)
        if step > self._step:
            self._step = step
            self.recorder.step(step)

    def on_validation_start(self, trainer: Any, _module: Any) -> None:
        if not getattr(trainer, "sanity_checking", False) and self._validating is None:
            self._validating = self.recorder.phase("evaluating")
            self._validating.__enter__()

    def on_validation_end(self, _trainer: Any, _module: Any) -> None:
        if self._validating is not None:
            self._validating.__exit__(None, None, None)
            self._validating = None

    def on_exception(self, _trainer: Any, _module: Any, exception: BaseException) -> None:
        self.recorder.exception(exception)
        self.recorder.close()

    def on_train_end(self, _trainer: Any, _module: Any) -> None:
        if self.recorder.is_first_rank:
            self.recorder.finished()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 - called by these names
        self.recorder.close()


def _observe_saves(trainer: Any, recorder: Recorder) -> None:
    save = trainer.save_checkpoint

    def observed(filepath: Any, *arguments: Any, **named: Any) -> Any:
        inner = getattr(trainer.strategy, "checkpoint_io", None)
        is_async = "Async" in type(inner).__name__
        block = recorder.capturing if is_async else recorder.saving
        with block(int(trainer.global_step), location=str(filepath)):
            return save(filepath, *arguments, **named)

    trainer.save_checkpoint = observed
