"""Knobs: the settings that decide what an interruption costs, one name and one unit each.

Rules
- A value is a number in the knob's unit, a word, or `off`: a time-out that is switched off is known to be off.
- Where a value comes from is part of it: *stated* by somebody, the *default* of a release, or *unknown*. Unknown is
  None, and is neither off nor equal to anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Value = int | float | str

OFF = "off"


class Standing(StrEnum):
    """How a value is known."""

    STATED = "stated"
    DEFAULT = "default"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting."""

    name: str
    title: str
    unit: str
    """`s`, `steps`, or empty: a count or a word."""
    group: str
    meaning: str


KNOBS = (
    Knob("checkpoint_interval_steps", "checkpoint interval", "steps", "checkpoints", "Steps between two saves."),
    Knob("checkpoint_interval_seconds", "checkpoint interval, by time", "s", "checkpoints", "Time between two saves."),
    Knob("checkpoint_mode", "checkpoint mode", "", "checkpoints", "Whether training waits for the write."),
    Knob("checkpoint_tier", "checkpoint tier", "", "checkpoints", "Where a save lies: memory, local disk, global."),
    Knob("restart_scope", "restart scope", "", "restarts", "What is begun again after a fault."),
    Knob("max_restarts", "restarts by the launcher", "", "restarts", "Restarts before the launcher gives up."),
    Knob("max_in_process_restarts", "in-process restart limit", "", "restarts", "Within one process; off: no limit."),
    Knob("max_no_progress", "restarts without progress", "", "restarts", "Restarts without a step gained, at most."),
    Knob("spares", "spare nodes", "", "restarts", "Nodes that stand by."),
    Knob("monitor_interval", "monitor interval", "s", "detection", "How often the launcher looks at its workers."),
    Knob("check_interval", "workload check interval", "s", "detection", "How often heartbeats are looked at."),
    Knob("initial_heartbeat_timeout", "first heartbeat time-out", "s", "detection", "For the first sign of life."),
    Knob("heartbeat_timeout", "rank heartbeat time-out", "s", "detection", "For every later sign of life."),
    Knob("section_timeouts", "section time-outs", "s", "detection", "For a named part of the training loop."),
    Knob("out_of_section_timeout", "out-of-section time-out", "s", "detection", "For the time between sections."),
    Knob("soft_timeout", "soft time-out", "s", "detection", "In process: then the main thread is interrupted."),
    Knob("hard_timeout", "hard time-out", "s", "detection", "In process: then the process is killed."),
    Knob("barrier_timeout", "barrier time-out", "s", "detection", "In process: for all ranks to come back."),
    Knob("in_process_heartbeat_timeout", "in-process heartbeat time-out", "s", "detection", "For the monitor's peer."),
    Knob("collective_timeout", "collective time-out", "s", "detection", "After which a collective gives up."),
    Knob("nccl_heartbeat_timeout", "NCCL watchdog time-out", "s", "detection", "For the watchdog thread itself."),
    Knob("rendezvous_timeout", "rendezvous time-out", "s", "restarts", "For all nodes to come together."),
    Knob("scheduler_limit", "scheduler limit", "s", "restarts", "After which the scheduler ends the job."),
)

KNOB = {knob.name: knob for knob in KNOBS}


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob's value and how it is known."""

    name: str
    value: Value | None
    standing: Standing
    source: str = ""
    """The setting as it was told, or the release whose default this is; empty where nothing is known."""

    @property
    def knob(self) -> Knob:
        """What it is a value of."""
        return KNOB[self.name]

    @property
    def is_known(self) -> bool:
        """It has a value."""
        return self.value is not None

    @property
    def seconds(self) -> float | None:
        """As a number of seconds; None where it is unknown, off, or no time."""
        if self.knob.unit != "s" or isinstance(self.value, str) or self.value is None:
            return None
        return float(self.value)


@dataclass(frozen=True, slots=True)
class RecoveryConfig:
    """The settings in force during an attempt, a value for every knob, in the order of `KNOBS`."""

    fingerprint: str | None
    """Equal for equal known values; None where no knob is known."""
    settings: tuple[Setting, ...]
    launcher: str | None = None
    release: str | None = None
    """Of the launcher's package, as far as told: `0.6`, `0.7.0`."""
    others: tuple[tuple[str, str], ...] = ()
    """Settings that were told and decide nothing here: paths, addresses, names."""
    refused: tuple[tuple[str, str, str], ...] = ()
    """`(setting, value, why)` of what could not be read; the knob stays unknown."""
    remarks: tuple[str, ...] = ()
    """What must be said aloud, in sentences."""

    def setting(self, name: str) -> Setting:
        """The value of a knob. Raises KeyError."""
        for each in self.settings:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def known(self) -> tuple[Setting, ...]:
        """Those with a value."""
        return tuple(each for each in self.settings if each.is_known)
