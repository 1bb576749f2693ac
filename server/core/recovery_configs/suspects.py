"""Suspects: config changes before a fault that touch a knob which its cause points at.

Rules
- Which knobs a cause points at is told here, with what the one has to do with the other. A cause that no setting of the
  recovery can bring about or hasten points at none.
- Near is a week, or whatever came with the attempt that failed, however long that lived.
- That it came before is no proof: what is given is a reason to look, and says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rerail.server.core.recovery_configs.changes import ConfigChange, KnobChange
from rerail.server.core.recovery_configs.knobs import KNOBS
from rerail.server.core.words import duration

NEAR_NS = 7 * 86_400 * 10**9

_WAITING = (
    "heartbeat_timeout", "initial_heartbeat_timeout", "section_timeouts", "out_of_section_timeout", "soft_timeout",
    "hard_timeout", "barrier_timeout", "in_process_heartbeat_timeout", "collective_timeout", "nccl_heartbeat_timeout",
    "monitor_interval", "check_interval",
)  # fmt: skip
_SAVING = ("checkpoint_interval_steps", "checkpoint_interval_seconds", "checkpoint_mode", "checkpoint_tier")
_COLLECTIVES = ("collective_timeout", "nccl_heartbeat_timeout")
_KILLING = ("hard_timeout", "soft_timeout", "in_process_heartbeat_timeout", "heartbeat_timeout")
_PLACES = ("spares", "restart_scope", "rendezvous_timeout")
_BUDGET = ("max_restarts", "max_in_process_restarts", "max_no_progress")


@dataclass(frozen=True, slots=True)
class Pointing:
    """What a cause has to do with knobs."""

    knobs: tuple[str, ...]
    why: str


POINTS: Mapping[str, Pointing] = MappingProxyType(
    {
        "hang": Pointing(_WAITING, "it decides when ranks that wait are taken for hanging"),
        "nccl_timeout": Pointing(_WAITING, "it decides how long a collective may wait"),
        "collective_mismatch": Pointing(_COLLECTIVES, "it decides how long ranks wait for one that never comes"),
        "nccl_error": Pointing(_COLLECTIVES, "it decides when a collective is given up"),
        "network": Pointing((*_COLLECTIVES, "rendezvous_timeout"), "it decides how long a slow network is waited for"),
        "monitor_broken": Pointing(_WAITING, "the monitor acts on it"),
        "sigkill": Pointing(_KILLING, "ranks are killed when it runs out"),
        "sigterm": Pointing(_KILLING, "ranks are ended when it runs out"),
        "rendezvous": Pointing((*_PLACES, "max_restarts"), "it decides which nodes are waited for, and how long"),
        "node_lost": Pointing(_PLACES, "it decides what becomes of a run that loses a node"),
        "gpu_hardware": Pointing(("spares", "restart_scope"), "it decides whether the same machine is taken again"),
        "retry_budget": Pointing(_BUDGET, "it is the budget that was spent"),
        "time_limit": Pointing(("scheduler_limit",), "it is the limit that was reached"),
        "preemption": Pointing(("scheduler_limit",), "it decides how long the scheduler lets a job run"),
        "checkpoint_io": Pointing(_SAVING, "it decides how often, how and where is saved"),
        "checkpoint_corrupt": Pointing(_SAVING, "it decides how and where is saved"),
        "host_oom": Pointing(_SAVING, "saves that wait in memory take it from training"),
        "gpu_oom": Pointing(("checkpoint_mode", "checkpoint_tier"), "saves that wait in memory take it from training"),
        "configuration": Pointing(tuple(knob.name for knob in KNOBS), "a setting itself is what failed"),
    }
)
"""Cause class → the knobs it points at."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A change that is worth a look."""

    change: ConfigChange
    knobs: tuple[KnobChange, ...]
    """Those of its knobs that the cause points at."""
    reason: str


def suspects(
    found: Iterable[ConfigChange], cause: str, run_id: str, attempts: Collection[int], at: int
) -> tuple[Suspect, ...]:
    """Changes before a fault of `cause` that began at `at` and interrupted `attempts` of a run, the newest first."""
    pointing = POINTS.get(cause)
    if pointing is None:
        return ()
    first = min(attempts, default=None)
    named = []
    for change in found:
        touched = tuple(each for each in (*change.knobs, *change.told_apart) if each.name in pointing.knobs)
        came_with_it = change.run_id == run_id and change.attempt == first
        if not touched or change.at > at or (at - change.at > NEAR_NS and not came_with_it):
            continue
        when = f"{duration(at - change.at)} before the fault"
        if came_with_it:
            when = f"with the attempt that failed, {when}"
        titles = " and ".join(each.old.knob.title for each in touched)
        named.append(Suspect(change, touched, f"{titles}: {pointing.why}. It came {when}."))
    return tuple(sorted(named, key=lambda each: (-each.change.at, each.change.change_id)))
