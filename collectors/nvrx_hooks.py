"""NVRx hooks: heartbeats, sections and in-process restarts stated by NVRx's own objects.

    client = observe_client(RankMonitorClient(), recorder)      # heartbeats and sections of ft_launcher's monitor
    client.init_workload_monitoring()

    observe_ping(call_wrapper, recorder)                        # pings of an in-process restart wrapper
    inprocess.Wrapper(initialize=Compose(mine, initialize_hook(recorder)), abort=…, finalize=finalize_hook(recorder))

Its checkpoints are in `nvrx_checkpoints.py`.

Rules
- NVRx's objects are handed in, so this works with every version that has these methods (0.4 … 0.7). Only the plug-ins
  of the in-process wrapper import it, when they are made: the wrapper takes nothing but instances of its own classes.
- NVRx is called first, and its exceptions pass unchanged. A heartbeat is stated only when NVRx took it.
- A heartbeat is a sign of life and not a step.
- The timeout that guards the next heartbeat is read from the client each time it may have changed: NVRx can replace
  the configured one while the job runs.
- What the client is told when its monitoring begins is in force, whoever set it: heartbeat and section time-outs are
  stated as recovery settings of the attempt, by the first rank.
- Sections named like a phase are stated as that phase, every other one as `overhead:<name>`; `step` is no phase.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from rerail.collectors.recorder import Recorder

Client = TypeVar("Client")

SECTION_PHASES = {
    "setup": "initializing",
    "initializing": "initializing",
    "checkpointing": "saving",
    "checkpoint": "saving",
    "saving": "saving",
    "save": "saving",
    "loading": "loading",
    "load": "loading",
    "eval": "evaluating",
    "evaluation": "evaluating",
    "evaluating": "evaluating",
    "data": "data_wait",
    "data_wait": "data_wait",
    "dataloader": "data_wait",
}
INTERRUPTION = re.compile(r"Interruption\.(?P<kind>[A-Z_]{1,40})")
BY_MONITOR = ("SOFT_TIMEOUT", "HARD_TIMEOUT", "UNRESPONSIVE")
"""Interruptions that a monitor of the wrapper asks for: a rank that makes no progress, or does not answer."""
NO_PHASE = frozenset({"step", "training", "train"})


def observe_client(client: Client, recorder: Recorder) -> Client:
    """State the heartbeats and sections of a `RankMonitorClient`. The same object comes back."""
    target: Any = client
    send_heartbeat, start_section = target.send_heartbeat, target.start_section
    end_section, end_all = target.end_section, target.end_all_sections
    initialize = target.init_workload_monitoring
    open_sections: dict[str, Any] = {}

    def observed_initialize(*arguments: Any, **named: Any) -> Any:
        answer = initialize(*arguments, **named)
        recorder.arm(armed_timeout_us(target, "initial"))
        with suppress(Exception):
            told = timeouts_in_force(target)
            if told and not recorder.iteration:  # an in-process restart keeps the settings of its process
                recorder.configured(told)
        return answer

    def observed_heartbeat(*arguments: Any, **named: Any) -> Any:
        answer = send_heartbeat(*arguments, **named)
        recorder.heartbeat()
        recorder.arm(armed_timeout_us(target, "subsequent"))
        return answer

    def observed_start(section: str, *arguments: Any, **named: Any) -> Any:
        answer = start_section(section, *arguments, **named)
        with suppress(Exception):
            phase = section_phase(section)
            if phase is not None and section not in open_sections:
                open_sections[section] = span = recorder.phase(phase)
                span.__enter__()
        return answer

    def observed_end(section: str, *arguments: Any, **named: Any) -> Any:
        try:
            return end_section(section, *arguments, **named)
        finally:
            close(section)

    def observed_end_all(*arguments: Any, **named: Any) -> Any:
        try:
            return end_all(*arguments, **named)
        finally:
            for section in list(open_sections):
                close(section)

    def close(section: str) -> None:
        with suppress(Exception):
            span = open_sections.pop(section, None)
            if span is not None:
                span.__exit__(None, None, None)

    target.init_workload_monitoring, target.send_heartbeat = observed_initialize, observed_heartbeat
    target.start_section, target.end_section, target.end_all_sections = observed_start, observed_end, observed_end_all
    return client


def timeouts_in_force(client: Any) -> dict[str, object]:
    """The time-outs that a client whose monitoring began told, under their names in NVRx's config; in seconds, None is
    off. Empty where it has none to tell."""
    told: dict[str, object] = {}
    beats, parts = getattr(client, "hb_timeouts", None), getattr(client, "section_timeouts", None)
    if beats is not None:
        told["initial_rank_heartbeat_timeout"] = _seconds(beats.initial)
        told["rank_heartbeat_timeout"] = _seconds(beats.subsequent)
    sections = dict(getattr(parts, "section", None) or {})
    if sections:
        told["rank_section_timeouts"] = {str(name): _seconds(length) for name, length in sections.items()}
    if getattr(parts, "out_of_section", None) is not None:
        told["rank_out_of_section_timeout"] = _seconds(parts.out_of_section)
    return told


def _seconds(length: object) -> float | None:
    return None if length is None else float(length)  # type: ignore[arg-type]


def armed_timeout_us(client: Any, which: str) -> int | None:
    """The heartbeat timeout in force (`initial` or `subsequent`), in µs; None where there is none."""
    seconds = getattr(getattr(client, "hb_timeouts", None), which, None)
    try:
        return None if seconds is None else max(1, int(float(seconds) * 1e6))
    except (TypeError, ValueError):
        return None


def section_phase(section: str) -> str | None:
    """The phase a section stands for; None for the training step itself."""
    name = section.strip().lower()
    if name in NO_PHASE:
        return None
    clean = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name)[:100]
    return SECTION_PHASES.get(name, f"overhead:{clean or 'section'}")


def observe_ping(call_wrapper: Any, recorder: Recorder, timeout_seconds: float | None = None) -> None:
    """State every `ping()` of an in-process `CallWrapper`; `timeout_seconds` is the wrapper's soft timeout."""
    ping = call_wrapper.ping
    recorder.arm(None if timeout_seconds is None else int(timeout_seconds * 1e6))

    def observed_ping(*arguments: Any, **named: Any) -> Any:
        answer = ping(*arguments, **named)
        recorder.heartbeat()
        return answer

    call_wrapper.ping = observed_ping


def initialize_hook(recorder: Recorder) -> Callable[[Any], Any]:
    """For `inprocess.Wrapper(initialize=…)`: an in-process attempt begins."""

    def initialize(state: Any) -> Any:
        with suppress(Exception):
            size = getattr(state, "active_world_size", None)
            recorder.iterate(
                int(getattr(state, "iteration", 0) or 0), size if isinstance(size, int) and size > 0 else None
            )
        return state

    return plug_in("initialize", "Initialize", initialize)


def abort_hook(recorder: Recorder) -> Callable[[Any], Any]:
    """For `inprocess.Wrapper(abort=…)`: the interruption is known on this rank."""

    def abort(state: Any) -> Any:
        recorder.mark("noticed", by="nvrx in-process")
        return state

    return plug_in("abort", "Abort", abort)


def finalize_hook(recorder: Recorder) -> Callable[[Any], Any]:
    """For `inprocess.Wrapper(finalize=…)`: the old process group is gone; this rank's own exception is known.

    So is why every rank restarts: the exception that the wrapper raises in it, and is handling now, names the
    interruptions and their ranks. An exception of a rank is told by that rank itself; a time-out and the death of a
    process by nobody else.
    """

    def finalize(state: Any) -> Any:
        with suppress(Exception):
            words = str(sys.exc_info()[1] or "")[:1000]
            kinds = [found["kind"] for found in INTERRUPTION.finditer(words)]
            if any(kind != "EXCEPTION" for kind in kinds):
                first = next((kind for kind in kinds if kind in BY_MONITOR), kinds[0])
                recorder.evidence(words, source="nvrx", code=first.lower())
            if any(kind in BY_MONITOR for kind in kinds):
                recorder.interrupted("monitor")
        error = getattr(state, "fn_exception", None)
        if isinstance(error, BaseException):
            recorder.exception(error)
        recorder.mark("workers_gone", by="nvrx in-process")
        return state

    return plug_in("finalize", "Finalize", finalize)


def plug_in(module: str, kind: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`call` as an instance of the wrapper's own class; the bare function where NVRx is not installed."""
    try:
        base = getattr(importlib.import_module(f"nvidia_resiliency_ext.inprocess.{module}"), kind)
    except (ImportError, AttributeError):
        return call
    made = type(f"Observed{kind}", (base,), {"__call__": lambda _self, state: call(state)})
    instance: Callable[[Any], Any] = made()
    return instance
