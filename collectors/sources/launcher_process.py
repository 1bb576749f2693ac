"""Launcher's process: whether the process that a log is of is gone, and nothing more is written to that log.

Rules
- It is gone when its process id is free, or belongs to a process that started at another time. One that was never seen
  is not gone: nothing is known of it.
- Workers may outlive their launcher, and print on. While a process that can be seen holds the log open for writing,
  the log has ended only after a longer silence.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rerail.collectors.ring import process_started

QUIET_SECONDS = 2.0
"""How long a log that nobody holds open must have been silent."""
HELD_OPEN_SECONDS = 60.0
"""The same where somebody does."""
LOOK_AGAIN_SECONDS = 2.0
"""Who holds a log open is looked for no more often."""
_FOR_WRITING = os.O_WRONLY | os.O_RDWR


class LauncherProcess:
    """A launcher by its process id, as it was when this was made."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._started = process_started(number)
        self._was_seen = self._started is not None
        self._looked_at = 0.0
        self._is_held = True

    def gone_at(self, memory: dict[str, Any], now: int) -> int | None:
        """When it was found to be gone, in ns; 0: it went while nobody looked. None: it is there, or never was seen.

        `memory` is plain data of a cursor, changed in place: another instance knows whom the one before it saw.
        """
        if memory.get("number") != self.number:
            memory.clear()
            if self._started is None:
                return None
            memory.update(number=self.number, started=self._started)
        if process_started(self.number) == memory["started"]:
            return None
        if "gone_at" not in memory:
            memory["gone_at"] = now if self._was_seen and self._started == memory["started"] else 0
        return int(memory["gone_at"])

    def is_over(self, log: Path, silent_seconds: float, *, at_once: bool) -> bool:
        """Whether nothing more comes into its log, which was silent for so long. `at_once`: nobody will look again."""
        if silent_seconds > HELD_OPEN_SECONDS:
            return True
        if not at_once and silent_seconds < QUIET_SECONDS:
            return False
        now = time.monotonic()
        if at_once or now - self._looked_at > LOOK_AGAIN_SECONDS:
            self._looked_at = now
            self._is_held = is_held_open(log)
        return not self._is_held


def is_held_open(log: Path) -> bool:
    """Whether a process whose files can be seen from here holds `log` open for writing."""
    name = os.path.realpath(log)
    for process in _numbers("/proc"):
        files = f"/proc/{process}/fd"
        for file in _numbers(files):
            with suppress(OSError, ValueError, IndexError):  # it was closed, or its process ended, just now
                if os.readlink(f"{files}/{file}") != name:
                    continue
                told = Path(f"/proc/{process}/fdinfo/{file}").read_text(encoding="ascii")
                if int(told.partition("flags:")[2].split()[0], 8) & _FOR_WRITING:
                    return True
    return False


def _numbers(folder: str) -> Iterator[str]:
    """The names in a folder that are numbers; nothing where it may not be read, or is not there."""
    try:
        yield from (name for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return
