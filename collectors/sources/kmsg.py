"""Kernel messages from `/dev/kmsg`: records with a sequence number, and what of them was overwritten.

Rules
- A record is `priority,sequence,microseconds,flags[,…];text`, and lines that begin with a space belong to it
  (Documentation/ABI/testing/dev-kmsg of the kernel). The text escapes what cannot be printed as `\\xNN`.
- Sequence numbers count from the machine's start: with the id of that start they are a cursor.
- Microseconds count from the start too, by a clock that stands still while the machine sleeps; the wall clock of the
  start is what is now less what has passed, and is kept while it moves by less than a second.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rerail.collectors.source import SourceDown

DEVICE = Path("/dev/kmsg")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LARGEST_RECORD = 64 * 1024
_HEADER = re.compile(rb"(\d{1,10}),(\d{1,19}),(\d{1,17}),([^,;]{0,20})[^;\n]{0,200};([^\n]*)")
_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One message."""

    sequence: int
    at: int
    """Nanoseconds: since the machine's start from `read_record`, since 1970 from a reader."""
    text: str


def read_record(raw: bytes) -> KernelRecord | None:
    """A record of `/dev/kmsg`; None for what is none."""
    found = _HEADER.match(raw)
    if found is None:
        return None
    text = _ESCAPED.sub(lambda each: bytes([int(each[1], 16)]), found[5][:LARGEST_RECORD])
    return KernelRecord(int(found[2]), int(found[3]) * 1000, text.decode("utf-8", "replace"))


def boot_id() -> str:
    """The id of this start of the machine. Raises `SourceDown`."""
    try:
        return BOOT_ID.read_text().strip()[:36]
    except OSError as error:
        raise SourceDown(f"{BOOT_ID}: {error.strerror}") from None


def booted_at() -> int:
    """When the machine started, by the wall clock, ns; what it slept is left out, as its messages leave it out."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Device:
    """`/dev/kmsg`, opened once. `records` gives every record still there at the first call, then what is new."""

    def __init__(self, path: Path = DEVICE) -> None:
        self.path = path
        self._file: int | None = None

    def close(self) -> None:
        """Close it; the next call begins with the oldest record again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def records(self, most: int) -> Iterator[bytes]:
        """Raw records. Overwritten ones are left out, and show as a gap of sequence numbers. Raises `SourceDown`."""
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            for _ in range(most):
                raw = self._next(self._file)
                if not raw:
                    return
                yield raw
        except OSError as error:
            self.close()
            raise SourceDown(f"{self.path}: {error.strerror or error}") from None

    @staticmethod
    def _next(file: int) -> bytes:
        """One record; empty where there is none now."""
        while True:
            try:
                return os.read(file, LARGEST_RECORD)
            except BlockingIOError:
                return b""
            except OSError as error:
                if error.errno != errno.EPIPE:  # EPIPE: overwritten; the next read gives the oldest that is left
                    raise
