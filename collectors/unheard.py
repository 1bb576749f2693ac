"""Unheard: a rank that cannot make its ring says so by a file that needs no room.

Rules
- Everything that must arrive is in the name, since an empty file can be made on a full disk. The reason is in the file,
  where there is room for it.
- The rank renews the file as long as it tries; one that was not renewed for `FORGOTTEN_NS` belongs to a dead process.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

FORGOTTEN_NS = 300 * 10**9
MOST_FILES = 1024
"""Where no agent ever comes to remove them, their number is bounded."""

SOURCE = "recorder of "
"""What the source of such a blindness begins with."""

_NAME = re.compile(r"rank(x|\d+)-(\d+)-[0-9a-f]+-(\d{19})\.unheard")


class Unheard:
    """The file of this process. Raises OSError where it cannot even be made."""

    def __init__(self, directory: Path, rank: str, mark: str, reason: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if len(os.listdir(directory)) >= MOST_FILES:
            raise OSError(f"{MOST_FILES} files wait in {directory} and no agent reads them")
        self._path = directory / f"rank{rank}-{os.getpid()}-{mark}-{time.time_ns()}.unheard"
        self._path.touch(0o600)
        with suppress(OSError):
            self._path.write_text(reason)

    def renew(self) -> None:
        """Still without a ring."""
        os.utime(self._path)

    def end(self) -> None:
        """Heard from now on, or gone."""
        self._path.unlink(missing_ok=True)


def unheard_in(directory: Path) -> dict[str, tuple[int, str]]:
    """`(since, why)` of every rank that has no ring, by the name of the source that cannot see. Removes what is old."""
    found = {}
    for path in directory.glob("*.unheard"):
        parts = _NAME.fullmatch(path.name)
        with suppress(OSError):
            if parts is None or time.time_ns() - path.stat().st_mtime_ns > FORGOTTEN_NS:
                path.unlink()
                continue
            rank, process, since = parts.groups()
            reason = path.read_text(errors="replace").strip()[:500] or "its ring cannot be made: is the disk full?"
            who = f"pid {process}" if rank == "x" else f"rank {rank} (pid {process})"
            found[SOURCE + who] = (int(since), reason)
    return found
