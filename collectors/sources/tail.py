"""Tail: whole lines of a growing file, each with the byte it begins at.

Rules
- Only lines that end in a newline are given, until `finish` asks for what is left.
- A file is the same as before while its first line is the same; one that shrank, or begins otherwise, is another.
- What is read at once is limited; the rest comes with the next look.
- A bar that is drawn over itself is one line for each of its states, though only carriage returns part them; where
  whoever received the output put something in front of the line, it is one line, of which the last state counts.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rerail.collectors.masking import TERMINAL_SEQUENCE
from rerail.collectors.packed_files import unpack_first

MOST_BYTES = 8 * 1024 * 1024
MOST_MOVED = 100
"""So many files beside a log are looked at for the one that was moved away from its place."""
LONGEST_LINE = 64 * 1024
LOOKED_BACK = 16 * 1024
"""So many bytes are searched before a traceback for how far its process had come, and before the end for a relaunch."""
_SEQUENCE = re.compile(TERMINAL_SEQUENCE.encode())
"""Of a long line the sequences that colour a terminal go first, or nothing else of it would be seen."""

_DRAWN_OVER = re.compile(rb"^([^\r\n]*)\r[^\n]*", re.MULTILINE)
_STATE = re.compile(rb"\r(?=[^\r\n%|]{0,100}%\||Training: {1,8}\||(?:\x1b\[2K)?Epoch \d{1,9}/\d)")
_IS_BAR = re.compile(rb"%\||^(?:\x1b\[2K)?(?:Training: {1,8}\||Epoch \d{1,9}/\d)")
_BARS = (b"%|", b"Training: ", b"\x1b[2KEpoch ")
"""One of them stands in every block with a bar that is drawn over itself."""


def parted_bars(data: bytes) -> bytes:
    """Lines with a newline in place of each carriage return that a state of a progress bar follows."""
    if b"\r" not in data or not any(sign in data for sign in _BARS):
        return data
    return _DRAWN_OVER.sub(_parted, data)


def _parted(line: re.Match[bytes]) -> bytes:
    begins = line[1]
    is_free = _IS_BAR.search(begins) is not None or not _SEQUENCE.sub(b"", begins).strip()
    return _STATE.sub(b"\n", line[0]) if is_free else line[0]


def fingerprint(path: Path, place: Path | None = None) -> str | None:
    """What tells this file from another of the same name: its place and its first line. None: no whole line yet.

    `place`: where it was before somebody moved it. Raises OSError, also for what is no file that lines are added to: to
    open a pipe may take for ever.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "no regular file: only those can be followed", str(path))
    with path.open("rb") as file:
        first = file.readline(4096)
    if (said := unpack_first(first)) is not None:
        raise OSError(errno.EINVAL, said, str(path))
    if not first.endswith(b"\n") and len(first) < 4096:
        return None
    return hashlib.sha256(os.fsencode((place or path).resolve()) + b"\0" + first).hexdigest()[:16]


def whole_lines(path: Path, offset: int, *, most_bytes: int = MOST_BYTES) -> Iterator[tuple[int, bytes, int]]:
    """`(first byte, line, first byte of what follows)` from `offset` on. Raises OSError.

    A line that held zero bytes is given without them, behind a single one: whoever follows a file says so.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(most_bytes)
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        line = shown(data, start, end)
        yield offset + start, b"\0" + line if data.find(b"\0", start, end) >= 0 else line, offset + end + 1
        start = end + 1
    if start == 0 and len(data) == most_bytes:
        # One line fills the whole buffer: it is no log line, and waiting for its end would stop the source.
        yield offset, data[:LONGEST_LINE], offset + len(data)


def whole_block(path: Path, offset: int, *, most_bytes: int = MOST_BYTES) -> tuple[bytes, int]:
    """`(whole lines, first byte of what follows)` from `offset` on, as they stand there. Raises OSError."""
    with path.open("rb") as file:
        file.seek(offset)
        data = parted_bars(file.read(most_bytes))
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) == most_bytes:
        # One line fills the whole buffer: it is no log line, and waiting for its end would stop the source.
        return data[:LONGEST_LINE], offset + len(data)
    return data[:end], offset + end


def broken_lines(block: bytes) -> list[int]:
    """Where lines of a block begin that are no text: with zero bytes, not UTF-8, or longer than `LONGEST_LINE`."""
    is_sound = block.isascii() or _is_text(block)
    if is_sound and b"\0" not in block and max(map(len, block.split(b"\n"))) < LONGEST_LINE:
        return []
    starts, at = [], 0
    for line in block.split(b"\n"):
        if len(line) >= LONGEST_LINE or b"\0" in line or not (is_sound or line.isascii() or _is_text(line)):
            starts.append(at)
        at += len(line) + 1
    return starts


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(data: bytes, start: int, end: int) -> bytes:
    """Of a line its text, at most `LONGEST_LINE` bytes: behind carriage returns the last one, and before it the last
    state of a progress bar that stands in it.
    """
    last = end
    while last > start and data[last - 1] == 13:
        last -= 1
    text = max(start, data.rfind(b"\r", start, last) + 1)
    bar = data.rfind(b"%|", start, text) if text > start else -1
    if bar >= 0 and last - bar < LONGEST_LINE // 2:
        text = data.rfind(b"\r", start, bar) + 1 or start
    if data.find(b"\0", text, end if end - text <= LONGEST_LINE else text + LONGEST_LINE) >= 0:
        # Where a machine crashed, what never reached the disk reads as zero bytes.
        return shown_alone(data[text:end].replace(b"\0", b""))
    if end - text > LONGEST_LINE and data.find(b"\x1b", text, text + LONGEST_LINE) >= 0:
        return _SEQUENCE.sub(b"", data[text:end])[:LONGEST_LINE]
    return data[text : min(end, text + LONGEST_LINE)]


def shown_alone(line: bytes) -> bytes:
    """The same of a line without a newline."""
    return shown(line, 0, len(line))


def nul_count(path: Path, start: int, end: int) -> int:
    """How many zero bytes stand between two offsets. Raises OSError."""
    count = 0
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (data := file.read(min(MOST_BYTES, end - start))):
            count += data.count(0)
            start += len(data)
    return count


def moved_from(path: Path, mark: str) -> Path | None:
    """The file that was at `path` when its fingerprint was `mark`, as it lies beside it now: logs are rotated so
    (`train.log.1`, `train.log-20261129`). None where it is not there, or was packed."""
    for other in sorted(path.parent.glob(f"{glob.escape(path.name)}[.-]*"))[:MOST_MOVED]:
        with suppress(OSError):
            if fingerprint(other, path) == mark:
                return other
    return None


def last_part(path: Path, offset: int) -> bytes:
    """What stands after the last newline. Raises OSError."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(LONGEST_LINE)


def last_bytes(path: Path, end: int) -> bytes:
    """The `LOOKED_BACK` bytes before byte `end`, or what there is of them. Raises OSError."""
    with path.open("rb") as file:
        begin = max(0, end - LOOKED_BACK)
        file.seek(begin)
        return file.read(end - begin)
