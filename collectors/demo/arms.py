"""Arms of the demonstration: one training, one fault schedule, five ways to come back.

Rules
- Everything but what the arm is about is equal: steps, step time, checkpoint interval, faults, ranks, machine.
- The hang is found by what the arm has: a monitor's heartbeat time-out (10 s), the wrapper's hard time-out (15 s), or
  the collective's own time-out (15 s).
- Arms run one after the other; two at once would measure each other.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.collectors.demo.runner import Demo

ARMS: dict[str, dict[str, object]] = {
    "ft_launcher-sync": {"launcher": "ft_launcher", "checkpoints": "sync"},
    "ft_launcher-async": {"launcher": "ft_launcher", "checkpoints": "async"},
    "in_process-async": {"launcher": "ft_launcher", "checkpoints": "async", "in_process": True},
    "torchrun-async": {"launcher": "torchrun", "checkpoints": "async"},
    "whole_job-async": {"launcher": "torchrun", "checkpoints": "async", "whole_job": True},
}
"""What each arm differs in."""


def arm(name: str, demo: Demo) -> Demo:
    """A demonstration as one arm. Raises KeyError for a name that is none."""
    differs = ARMS[name]
    return replace(demo, directory=demo.directory / name, run=f"{demo.run}-{name}", arm=name, **differs)  # type: ignore[arg-type]
