"""Nesting: time-outs that guard each other must lie inside one another, or the wrong one fires.

Rules
- section < collective < rank heartbeat < scheduler limit; soft < hard < barrier. Of a chain each is compared with all
  that must be longer; what is off or unknown violates nothing.
- Equal is a violation too: which of two fires first would be chance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations

from rerail.server.core.recovery_configs.knobs import KNOB, RecoveryConfig
from rerail.server.core.words import duration

NANOSECONDS = 1_000_000_000

CHAINS = (
    ("section_timeouts", "collective_timeout", "heartbeat_timeout", "scheduler_limit"),
    ("soft_timeout", "hard_timeout", "barrier_timeout"),
)

CONSEQUENCES = {
    ("section_timeouts", "collective_timeout"): "a collective gives up before the section that waits in it is noticed",
    ("section_timeouts", "heartbeat_timeout"): "the rank is killed before anybody can say which section it was in",
    ("collective_timeout", "heartbeat_timeout"): "ranks that only wait are killed before the collective can say who "
    "did not come",
    ("heartbeat_timeout", "scheduler_limit"): "the scheduler ends the job before a hang is noticed",
    ("collective_timeout", "scheduler_limit"): "the scheduler ends the job before a collective gives up",
    ("section_timeouts", "scheduler_limit"): "the scheduler ends the job before a section is noticed",
    ("soft_timeout", "hard_timeout"): "the process is killed before it can be interrupted and saved",
    ("hard_timeout", "barrier_timeout"): "healthy ranks give up waiting before the hung one is killed",
    ("soft_timeout", "barrier_timeout"): "healthy ranks give up waiting before the hung one is interrupted",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """Two time-outs in the wrong order."""

    inner: str
    outer: str
    inner_seconds: float
    outer_seconds: float
    sentence: str


def violations(config: RecoveryConfig) -> tuple[Violation, ...]:
    """Every pair in the wrong order."""
    found = []
    for chain in CHAINS:
        known = [(name, length) for name in chain if (length := _longest(config, name)) is not None]
        for (inner, short), (outer, long) in combinations(known, 2):
            if short >= long:
                found.append(Violation(inner, outer, short, long, _sentence(inner, outer, short, long)))
    return tuple(found)


def _longest(config: RecoveryConfig, name: str) -> float | None:
    setting = config.setting(name)
    if name == "section_timeouts" and isinstance(setting.value, str):
        lengths = [float(part) for part in re.findall(r" (\d+(?:\.\d+)?)(?:,|$)", setting.value)]
        return max(lengths, default=None)
    return setting.seconds


def _sentence(inner: str, outer: str, short: float, long: float) -> str:
    longest = "longest section time-out" if inner == "section_timeouts" else KNOB[inner].title
    return (
        f"The {longest} ({duration(round(short * NANOSECONDS))}) is not shorter than the {KNOB[outer].title} "
        f"({duration(round(long * NANOSECONDS))}): {CONSEQUENCES[inner, outer]}."
    )
