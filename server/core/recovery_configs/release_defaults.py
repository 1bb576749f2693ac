"""Release defaults: what holds where nobody said anything, of releases that were looked at.

Rules
- A default is one of a release: of a launcher whose release is not known only what all of its releases share is taken.
- What could not be looked up stays unknown.
- Looked up: the settings objects of nvidia-resiliency-ext 0.4.1, 0.5.0, 0.6.0 and a development tree of 0.7, made
  without arguments, and torchrun of torch 2.13.
"""

from __future__ import annotations

from rerail.server.core.recovery_configs.knobs import OFF, Value

Release = tuple[int, int]

FT_LAUNCHER: dict[Release, dict[str, Value]] = {
    (0, 4): {"initial_heartbeat_timeout": 3600, "heartbeat_timeout": 2700, "max_no_progress": OFF},
    (0, 5): {"initial_heartbeat_timeout": 3600, "heartbeat_timeout": 2700, "max_no_progress": OFF},
    (0, 6): {"initial_heartbeat_timeout": OFF, "heartbeat_timeout": OFF, "max_no_progress": 2},
    (0, 7): {"initial_heartbeat_timeout": OFF, "heartbeat_timeout": OFF, "max_no_progress": 3},
}
EVERY_FT_LAUNCHER: dict[str, Value] = {
    "section_timeouts": OFF,
    "out_of_section_timeout": OFF,
    "check_interval": 5,
}
EVERY_LAUNCHER: dict[str, Value] = {"max_restarts": 0}
TORCHRUN: dict[str, Value] = {"monitor_interval": 0.1, "heartbeat_timeout": OFF, "section_timeouts": OFF}
WRAPPER: dict[str, Value] = {
    "soft_timeout": 60,
    "hard_timeout": 90,
    "barrier_timeout": 120,
    "in_process_heartbeat_timeout": 30,
    "max_in_process_restarts": OFF,
}
"""Of the in-process wrapper, the same in every release that was looked at."""

IN_PROCESS_KNOBS = frozenset(WRAPPER)


def release_of(text: str | None) -> Release | None:
    """`0.6.0` → (0, 6); None where that is no release."""
    parts = (text or "").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


def defaults(launcher: str | None, release: Release | None, has_wrapper: bool) -> dict[str, tuple[Value, str]]:
    """`(value, whose default)` by knob."""
    found: dict[str, tuple[Value, str]] = {}
    named = "" if release is None else f" {release[0]}.{release[1]}"
    if launcher == "ft_launcher":
        for name, value in {**EVERY_LAUNCHER, **EVERY_FT_LAUNCHER}.items():
            found[name] = (value, "ft_launcher")
        known = FT_LAUNCHER.get(release) if release is not None else None
        for name, value in (known or {}).items():
            found[name] = (value, f"ft_launcher{named}")
    elif launcher == "torchrun":
        for name, value in {**EVERY_LAUNCHER, **TORCHRUN}.items():
            found[name] = (value, "torchrun")
    if has_wrapper:
        for name, value in WRAPPER.items():
            found[name] = (value, "inprocess.Wrapper")
    return found
