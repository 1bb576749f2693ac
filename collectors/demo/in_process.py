"""In-process restarts of the demonstration: the same interpreter trains on after an exception.

Rules
- NVRx's wrapper goes around the training. What it can mend (an exception) stays in the process; a rank that is killed,
  or hangs where nothing can interrupt it, is killed by the wrapper's monitor and left to the launcher.
- Nobody aborts a gloo group: the wrapper's own abort knows NCCL only. A rank that waits for its peer is woken by the
  group's time-out, so that one is short (`COLLECTIVE_TIMEOUT`) and lies below the wrapper's. On GPUs the abort does,
  and recovery is faster than here by about that much.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from rerail.collectors.nvrx_hooks import abort_hook, finalize_hook, initialize_hook
from rerail.collectors.recorder import Recorder

SETTINGS: Mapping[str, object] = {
    "restart_scope": "in_process",
    "soft_timeout": 16.0,
    "hard_timeout": 24.0,
    "barrier_timeout": 60.0,
    "heartbeat_timeout": 30.0,
}
"""Arguments of the wrapper, in seconds; the recorder states them as settings."""

COLLECTIVE_TIMEOUT = 8.0
"""Of the gloo groups, in seconds."""

PORT = 29_400
"""Of the wrapper's own store; every attempt of the launcher takes the next one."""


def restarting(recorder: Recorder, training: Callable[..., None], attempt: int) -> None:
    """Call `training(iteration=…)` until it comes to its end."""
    import torch.distributed as distributed
    from nvidia_resiliency_ext import inprocess

    class CloseGroups(inprocess.finalize.Finalize):
        """Every process group of this process is destroyed, before it forms the next ones."""

        def __call__(self, state: Any) -> Any:
            if distributed.is_available() and distributed.is_initialized():
                distributed.destroy_process_group()
            return state

    def seconds(name: str) -> datetime.timedelta:
        return datetime.timedelta(seconds=float(str(SETTINGS[name])))

    wrapper = inprocess.Wrapper(
        store_kwargs={"port": PORT + attempt},
        initialize=initialize_hook(recorder),
        abort=abort_hook(recorder),
        finalize=inprocess.Compose(CloseGroups(), finalize_hook(recorder)),
        soft_timeout=seconds("soft_timeout"),
        hard_timeout=seconds("hard_timeout"),
        barrier_timeout=seconds("barrier_timeout"),
        heartbeat_timeout=seconds("heartbeat_timeout"),
    )

    def once(call: inprocess.CallWrapper = None) -> None:
        training(iteration=call.iteration)

    once.__annotations__["call"] = inprocess.CallWrapper  # the wrapper looks for the class itself
    wrapper(once)()
