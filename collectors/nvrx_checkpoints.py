"""NVRx checkpoints: asynchronous and local ones, stated by NVRx's own objects.

    saver = observe_async_checkpoint(TorchAsyncCheckpoint(persistent_queue=False), recorder)
    queue = observe_async_checkpoint(AsyncCallsQueue(), recorder)
    manager = observe_async_checkpoint(LocalCheckpointManager("/ssd/ckpt"), recorder)    # tier `local`

Rules
- NVRx's objects are handed in: nothing is imported, and every version works that has these methods (0.4 … 0.7).
- What NVRx is asked to do is done whatever happens to the recording, and its exceptions pass unchanged.
- A checkpoint is `started` when it is asked for, `captured` when training goes on, and `durable` when NVRx ran what it
  runs after all ranks have written. NVRx says so only when it is asked (`finalize_async_save`,
  `maybe_finalize_async_calls`): a checkpoint that nobody finalises stays captured.
- NVRx takes a writer for done whose process died. One that left an exit code other than 0 is `failed`; of a persistent
  writer that cannot be seen.
- Its step is the iteration that a local manager is told; else the last number in the name of its file, else the last
  step the recorder knows.
- Training that waits for a writer (`blocking=True`) is `saving`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from rerail.collectors.recorder import Recorder
from rerail.collectors.torch_hooks import step_and_place

Saver = TypeVar("Saver")


def observe_async_checkpoint(saver: Saver, recorder: Recorder, *, tier: str | None = None) -> Saver:
    """State the checkpoints of a `TorchAsyncCheckpoint`, an `AsyncCallsQueue` or a `LocalCheckpointManager`.

    The same object comes back. Raises TypeError for an object that is none of these.
    """
    target: Any = saver
    if hasattr(target, "async_save") and hasattr(target, "_async_calls_queue"):
        _observe_saver(target, recorder, tier)
    elif hasattr(target, "schedule_async_request") and hasattr(target, "maybe_finalize_async_calls"):
        _observe_queue(target, _Saves(recorder, tier))
    elif hasattr(target, "find_latest") and hasattr(target, "save") and hasattr(target, "load"):
        _observe_manager(target, recorder, tier or "local")
    else:
        raise TypeError(f"saver: {type(saver).__name__} is no checkpointing object of NVRx that is known")
    return saver


class _Saves:
    """What is being saved through one queue."""

    def __init__(self, recorder: Recorder, tier: str | None) -> None:
        self.recorder = recorder
        self.tier = tier
        self.asked: tuple[int, str | None] | None = None
        """Step and place of the save whose capture is stated already, while it lasts."""

    def say_done(self, step: int, place: str | None, has_failed: bool) -> None:
        """On rank 0: what became of a checkpoint."""
        if self.recorder.is_first_rank:
            stage = "failed" if has_failed else "durable"
            self.recorder.checkpoint(step, stage, mode="async", tier=self.tier, location=place)


def _observe_saver(saver: Any, recorder: Recorder, tier: str | None) -> None:
    saves = _Saves(recorder, tier)
    async_save = saver.async_save

    def observed_save(state: Any, *arguments: Any, **named: Any) -> Any:
        step, place = step_and_place(recorder, arguments, {"checkpoint_id": named.get("f")})
        with recorder.capturing(step, tier=tier, location=place):
            saves.asked = (step, place)
            try:
                return async_save(state, *arguments, **named)
            finally:
                saves.asked = None

    _observe_queue(saver._async_calls_queue, saves)
    saver.async_save = observed_save


def _observe_queue(queue: Any, saves: _Saves) -> None:
    schedule, finalize, recorder = queue.schedule_async_request, queue.maybe_finalize_async_calls, saves.recorder

    def observed_schedule(request: Any, *arguments: Any, **named: Any) -> Any:
        if any(getattr(call, "states_checkpoint", False) for call in getattr(request, "finalize_fns", ())):
            with recorder.phase("saving"):  # a local manager states this checkpoint
                return schedule(request, *arguments, **named)
        step, place = saves.asked or _of_request(recorder, request)
        writer: list[Any] = []
        guarded = _guarded(
            request, lambda failed: saves.say_done(step, place, failed or _has_died(writer[0] if writer else None))
        )
        with nullcontext() if saves.asked else recorder.capturing(step, tier=saves.tier, location=place):
            answer = schedule(guarded, *arguments, **named)
        with suppress(Exception):
            writer.append(queue.async_calls[-1].async_caller.process)
        return answer

    def observed_finalize(blocking: bool = False, *arguments: Any, **named: Any) -> Any:
        waits = False
        with suppress(Exception):
            waits = bool(blocking) and queue.get_num_unfinalized_calls() > 0
        with recorder.phase("saving") if waits else nullcontext():
            return finalize(blocking, *arguments, **named)

    queue.schedule_async_request, queue.maybe_finalize_async_calls = observed_schedule, observed_finalize


def _observe_manager(manager: Any, recorder: Recorder, tier: str) -> None:
    save, load = manager.save, manager.load
    saves = _Saves(recorder, tier)

    def place() -> str | None:
        with suppress(Exception):
            return str(manager.local_ckpt_dir)
        return None

    def observed_save(state: Any, iteration: int, is_async: bool = False, **named: Any) -> Any:
        where = place()
        blocked = recorder.capturing if is_async else recorder.saving
        with blocked(iteration, tier=tier, location=where):
            request = save(state, iteration, is_async=is_async, **named)
        if not is_async or request is None:
            return request
        return _guarded(request, lambda failed: saves.say_done(iteration, where, failed))

    def observed_load(*arguments: Any, **named: Any) -> Any:
        with recorder.loading() as loading:
            loading.tier, loading.location = tier, place()
            with suppress(Exception):
                loading.step = int(manager.latest_iteration) if manager.latest_iteration >= 0 else None
            return load(*arguments, **named)

    manager.save, manager.load = observed_save, observed_load


def _guarded(request: Any, say: Callable[[bool], None]) -> Any:
    """The request, with a word about what became of it after all that is to be done when it is written."""
    try:
        calls = list(request.finalize_fns)

        def finalized() -> None:
            try:
                for call in calls:
                    call()
            except BaseException:
                say(True)
                raise
            say(False)

        finalized.states_checkpoint = True  # type: ignore[attr-defined]
        return request._replace(finalize_fns=[finalized])
    except Exception:
        return request


def _of_request(recorder: Recorder, request: Any) -> tuple[int, str | None]:
    """Step and place of a request that came to a queue directly."""
    with suppress(Exception):
        return step_and_place(recorder, tuple(request.async_fn_args), {})
    return recorder.last_step, None


def _has_died(writer: Any) -> bool:
    """Whether the process that wrote ended with an error; one that goes on or cannot be seen did not."""
    with suppress(Exception):
        return writer.exitcode not in (None, 0)
    return False
