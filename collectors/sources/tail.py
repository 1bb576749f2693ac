"""Tail: whole lines of a growing file, each with the byte it begins at.

Rules
- Only lines that end in a newline are given, until `finish` asks for what is left.
- A file is the same as before while its first line is the same; one that shrank, or begins otherwise, is another.
- What is read at once is limited; the rest comes with the next look.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 8 * 1024 * 1024
LONGEST_LINE = 64 * 1024


def fingerprint(path: Path) -> str | None:
    """What tells this file from another of the same name: its place and its first line. None: no whole line yet."""
    with path.open("rb") as file:
        first = file.readline(4096)
    if not first.endswith(b"\n") and len(first) < 4096:
        return None
    return hashlib.sha256(os.fsencode(path.resolve()) + b"\0" + first).hexdigest()[:16]


def whole_lines(path: Path, offset: int, *, most_bytes: int = MOST_BYTES) -> Iterator[tuple[int, bytes, int]]:
    """`(first byte, line, first byte of what follows)` from `offset` on. Raises OSError."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(most_bytes)
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield offset + start, data[start : min(end, start + LONGEST_LINE)], offset + end + 1
        start = end + 1
    if start == 0 and len(data) == most_bytes:
        # One line fills the whole buffer: it is no log line, and waiting for its end would stop the source.
        yield offset, data[:LONGEST_LINE], offset + len(data)


def last_part(path: Path, offset: int) -> bytes:
    """What stands after the last newline. Raises OSError."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(LONGEST_LINE)
