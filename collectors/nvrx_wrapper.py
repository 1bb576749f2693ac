"""NVRx's in-process wrapper, observed whole: one call gives it every plug-in and states its time-outs.

    wrapper = inprocess.Wrapper(**observed_arguments(recorder, soft_timeout=timedelta(seconds=60), health_check=mine))

Rules
- What the caller gives stays in force: the recorder's plug-ins stand beside it, never instead of it, and never raise.
- Each in-process attempt is stated with its number and world size; abort and the end of the old workers are marks; a
  health check that fails is evidence, one that is slow a span; a rank that goes on as another one, or waits in
  reserve, is said.
- Time-outs that the caller gives are recovery settings of the process. Those that it leaves out have the defaults of
  the release, which the server knows by its version.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rerail.collectors.nvrx_hooks import abort_hook, finalize_hook, initialize_hook, plug_in
from rerail.collectors.recorder import Recorder

PACKAGE = "nvidia_resiliency_ext.inprocess"
TIMEOUTS = ("soft_timeout", "hard_timeout", "heartbeat_timeout", "barrier_timeout", "max_iterations")
SLOW_CHECK_SECONDS = 0.1


def observed_arguments(recorder: Recorder, **arguments: Any) -> dict[str, Any]:
    """Arguments for `inprocess.Wrapper`, with the recorder's plug-ins beside those of the caller.

    Raises ImportError where NVRx is not installed.
    """
    inprocess = importlib.import_module(PACKAGE)
    defaults = inprocess.Wrapper.__init__.__kwdefaults__ or {}

    def beside(name: str, first: Any = None, last: Any = None) -> Any:
        """The caller's plug-in between ours; `Compose` calls the last of its arguments first."""
        given = arguments.get(name, defaults.get(name))
        all_of_them = [each for each in (last, given, first) if each is not None]
        return all_of_them[0] if len(all_of_them) == 1 else inprocess.Compose(*all_of_them)

    observed = {
        **arguments,
        "initialize": beside("initialize", first=initialize_hook(recorder)),
        "abort": beside("abort", first=abort_hook(recorder)),
        "finalize": beside("finalize", last=finalize_hook(recorder)),
    }
    check = arguments.get("health_check", defaults.get("health_check"))
    if check is not None:
        observed["health_check"] = _observed_check(recorder, check)
    assignment = arguments.get("rank_assignment", defaults.get("rank_assignment"))
    if assignment is not None:
        observed["rank_assignment"] = _observed_assignment(recorder, assignment)
    with suppress(Exception):
        recorder.configured(_settings(arguments), versions=_release())
    return observed


def _settings(arguments: dict[str, Any]) -> dict[str, object]:
    """The time-outs that were given, in seconds."""
    told: dict[str, object] = {"restart_scope": "in_process"}
    for name in TIMEOUTS:
        value = arguments.get(name)
        if value is not None:
            told[name] = value.total_seconds() if isinstance(value, timedelta) else value
    return told


def _release() -> dict[str, str]:
    try:
        return {"nvidia-resiliency-ext": version("nvidia-resiliency-ext")}
    except PackageNotFoundError:
        return {}


def _observed_check(recorder: Recorder, check: Callable[[Any], Any]) -> Any:
    def observed(state: Any) -> Any:
        began = time.monotonic()
        try:
            return check(state)
        except Exception as error:
            recorder.evidence(
                f"health check failed: {type(error).__name__}: {error}", source="nvrx", code="health_check"
            )
            raise
        finally:
            if (took := time.monotonic() - began) >= SLOW_CHECK_SECONDS:
                recorder.passed("overhead:health_check", took)

    return plug_in("health_check", "HealthCheck", observed)


def _observed_assignment(recorder: Recorder, assignment: Callable[[Any], Any]) -> Any:
    def observed(context: Any) -> Any:
        before = _place(context)
        found = assignment(context)
        with suppress(Exception):
            after = _place(found)
            if before[0] is not None and after != before:
                recorder.evidence(_moved(before, after), source="nvrx", code="rank_assignment")
        return found

    return plug_in("rank_assignment", "RankAssignment", observed)


def _place(context: Any) -> tuple[int | None, int | None, str]:
    """Active rank, active world size and mode of an assignment; no rank before the first one."""
    state = context.state
    mode = getattr(state.mode, "name", str(state.mode))
    return state.active_rank, state.active_world_size, mode


def _moved(before: tuple[int | None, int | None, str], after: tuple[int | None, int | None, str]) -> str:
    rank, size, mode = after
    if mode == "ACTIVE":
        return f"in-process: what was rank {before[0]} of {before[1]} goes on as rank {rank} of {size}"
    return f"in-process: what was rank {before[0]} of {before[1]} is {mode.lower()} now"
