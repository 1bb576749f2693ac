"""Torch hooks: steps and checkpoints stated by torch itself, with one line in the training script.

    recorder = Recorder()
    count_steps(recorder, optimizer)             # every optimizer.step() is a completed step
    with observe_checkpoints(recorder):          # torch.distributed.checkpoint.save, async_save and load
        ...
    for batch in watch_data(recorder, loader):   # waits for data that are longer than a tenth of a second
        ...
    observe_compile(recorder)                    # torch.compile, first and again

Rules
- torch is imported inside the functions: importing this file needs the base install only.
- What torch is asked to do is done whatever happens to the recording, and its exceptions pass unchanged.
- What torch compiles while steps go on is `overhead:compile`; while bring-up lasts it is part of that.
- A checkpoint's step is the last number in the last part of its path, else the last step the recorder knows.
- A save is durable when `save` returned, or when the future of `async_save` is done without an exception.
- Rank 0 states the stages of a checkpoint; every rank states the phases that block it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rerail.collectors.recorder import Recorder

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
MOST_WRAPPED = 8


def count_steps(recorder: Recorder, optimizer: torch.optim.Optimizer | None = None) -> Callable[[], None]:
    """Every completed `step()` of `optimizer`, or of any optimizer, is one step. Gives what removes the hook."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def completed(*_: object) -> None:
        recorder.step()

    handle = (
        register_optimizer_step_post_hook(completed)
        if optimizer is None
        else _innermost(optimizer).register_step_post_hook(completed)
    )
    return handle.remove


def _innermost(optimizer: Any) -> Any:
    """Torch's optimizer inside those that wrap it, as Accelerate's does: it steps only where gradients are whole."""
    for _ in range(MOST_WRAPPED):
        if hasattr(optimizer, "_optimizer_step_post_hooks") or not hasattr(optimizer, "optimizer"):
            break
        optimizer = optimizer.optimizer
    return optimizer


def watch_data(recorder: Recorder, loader: Iterable[T], at_least: float = 0.1) -> Iterator[T]:
    """The batches of a loader; a wait for one of at least so many seconds is stated as `data_wait`."""
    batches = iter(loader)
    while True:
        began = time.monotonic()
        try:
            batch = next(batches)
        except StopIteration:
            return
        waited = time.monotonic() - began
        if waited >= at_least:
            recorder.passed("data_wait", waited)
        yield batch


def observe_compile(recorder: Recorder, at_least: float = 0.1) -> Callable[[], None]:
    """State compilations of `torch.compile` of at least so many seconds. Gives what removes the hooks."""
    from torch._dynamo.callback import callback_handler

    began: list[float] = []

    def starts(*_: object) -> None:
        began.append(time.monotonic())

    def ends(*_: object) -> None:
        if began and (took := time.monotonic() - began.pop()) >= at_least and not began:
            recorder.passed("overhead:compile", took)

    callback_handler.register_start_callback(starts)
    callback_handler.register_end_callback(ends)

    def remove() -> None:
        callback_handler.remove_start_callback(starts)
        callback_handler.remove_end_callback(ends)

    return remove


@contextmanager
def observe_checkpoints(recorder: Recorder, *, tier: str | None = None) -> Iterator[None]:
    """State every save, async_save and load that goes through `torch.distributed.checkpoint` inside the block."""
    import torch.distributed.checkpoint as checkpoint

    originals = (checkpoint.save, checkpoint.async_save, checkpoint.load)
    save, async_save, load = originals

    def observed_save(*arguments: Any, **named: Any) -> Any:
        step, place = step_and_place(recorder, arguments, named)
        with recorder.saving(step, tier=tier, location=place):
            return save(*arguments, **named)

    def observed_async_save(*arguments: Any, **named: Any) -> Any:
        step, place = step_and_place(recorder, arguments, named)
        with recorder.capturing(step, tier=tier, location=place):
            response = async_save(*arguments, **named)
        _when_done(response, lambda failed: _say_done(recorder, step, tier, place, failed))
        return response

    def observed_load(*arguments: Any, **named: Any) -> Any:
        step, place = step_and_place(recorder, arguments, named)
        with recorder.loading() as loading:
            loading.step, loading.tier, loading.location = step, tier, place
            return load(*arguments, **named)

    checkpoint.save, checkpoint.async_save, checkpoint.load = observed_save, observed_async_save, observed_load
    try:
        yield
    finally:
        checkpoint.save, checkpoint.async_save, checkpoint.load = originals


def _say_done(recorder: Recorder, step: int, tier: str | None, place: str | None, failed: bool) -> None:
    if recorder.is_first_rank:
        recorder.checkpoint(step, "failed" if failed else "durable", mode="async", tier=tier, location=place)


def _when_done(response: Any, say: Callable[[bool], None]) -> None:
    """Call `say(failed)` when the future, or the response that holds one, is done."""
    future = getattr(response, "upload_completion", response)
    try:
        future.add_done_callback(lambda done: say(done.cancelled() or done.exception() is not None))
    except AttributeError:
        say(True)


def step_and_place(recorder: Recorder, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, str | None]:
    """The step a checkpoint call is about, and where it lies."""
    place = named.get("checkpoint_id")
    if place is None:
        place = next((value for value in arguments if isinstance(value, str) or hasattr(value, "__fspath__")), None)
    text = None if place is None else str(place)
    numbers = re.findall(r"\d+", text.rstrip("/").rpartition("/")[2]) if text else []
    return (int(numbers[-1]) if numbers else recorder.last_step), text
