"""Ring: records of one process in a memory-mapped file that outlives it.

Rules
- The file is written by exactly one process and read by any number. Pages of a mapped file belong to the kernel, so a
  SIGKILL of the writer loses nothing that was written.
- All blocks are allocated before the file is mapped: a full disk shows when the ring is made, never as a SIGBUS.
- The file appears under its name only when its header is complete.
- A slot has 64 bytes: opening word, tag (`tag()`), 40 bytes of payload, closing word. Slot number *n* carries
  *n + 1* in both words. The opening word is written first and the closing word last, so a torn slot, an overwritten
  one and one not yet written can be told apart.
- Slot numbers come from one atomic counter, so threads and signal handlers may write without a lock: a lock held by
  an interrupted frame would stop the training for ever.
- Text longer than a slot is spread over slots that carry `(number of the first slot, index, count)`; other records
  may lie between them.

The order of stores holds on x86 for readers that look while the writer writes, and everywhere once it is dead.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

MAGIC = b"RERAIL01"
HEADER_BYTES = 4096
SLOT_BYTES = 64
SMALLEST_RING = HEADER_BYTES + 64 * SLOT_BYTES

FIXED = Struct("=8sIIQqqqQ")
"""Magic, header bytes, slot bytes, slots, process id, wall clock at the anchor, monotonic clock at the anchor, start
time of the process in kernel ticks."""

LOST_AT = 128
CLOSED_AT = 136
CLOSED_BY_ERROR = 1
"""Stands in place of an instant where an error ended the writer: how long it then takes belongs to the fault."""

TEXT_LENGTH_AT = 192
TEXT_AT = 196
COUNTER = Struct("=Q")
LENGTH = Struct("=I")

STEP, BEAT, TEXT = 1, 2, 3
STEP_SLOT = Struct("=QQqqq16xQ")
"""Opening word, tag, step, start, end, closing word; instants are monotonic nanoseconds."""

BEAT_SLOT = Struct("=QQqqQQ8xQ")
"""Opening word, tag with a phase code, beat before, beat, armed timeout in µs (0: none), last step, closing word."""

TEXT_SLOT = Struct("=QQQHH28sQ")
"""Opening word, tag with the number of bytes used, first slot, index, count, bytes, closing word."""

_OPENING = Struct("=QQ")
TEXT_BYTES = 28
LONGEST_MESSAGE = TEXT_BYTES * 4096


def tag(kind: int, small: int, iteration: int) -> int:
    """Kind, a small number and the in-process iteration in one word: packing one is faster than packing three."""
    return kind | (small & 0xFFFF) << 16 | (iteration & 0xFFFFFFFF) << 32


@dataclass(frozen=True, slots=True)
class RingHeader:
    """What a ring says about its writer. `about` is the writer's JSON: its identity and how to fold its records."""

    slots: int
    process: int
    process_started: int
    wall_anchor: int
    monotonic_anchor: int
    about: dict[str, object]


@dataclass(frozen=True, slots=True)
class Slot:
    """One whole record as it lies in the ring."""

    number: int
    kind: int
    small: int
    iteration: int
    payload: bytes


class RingWriter:
    """A ring of this process. Raises OSError or ValueError where it cannot be made; after that, it only writes."""

    __slots__ = ("buffer", "mask", "path", "take")

    def __init__(self, path: Path, ring_bytes: int, anchor: tuple[int, int], about: dict[str, object]) -> None:
        slots = 1 << max(6, ((ring_bytes - HEADER_BYTES) // SLOT_BYTES).bit_length() - 1)
        size = HEADER_BYTES + slots * SLOT_BYTES
        text = json.dumps(about, separators=(",", ":")).encode()
        if len(text) > HEADER_BYTES - TEXT_AT:
            raise ValueError("the identity does not fit the header of the ring")
        unfinished = path.with_suffix(".unfinished")
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            buffer = mmap.mmap(descriptor, size)
            wall, monotonic = anchor
            started = process_started(os.getpid()) or 0
            FIXED.pack_into(buffer, 0, MAGIC, HEADER_BYTES, SLOT_BYTES, slots, os.getpid(), wall, monotonic, started)
            LENGTH.pack_into(buffer, TEXT_LENGTH_AT, len(text))
            buffer[TEXT_AT : TEXT_AT + len(text)] = text
            os.rename(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        self.path = path
        self.buffer = buffer
        self.mask = slots - 1
        self.take = itertools.count().__next__

    def write_text(self, message: bytes, iteration: int) -> None:
        """One message, over as many slots as it needs."""
        if len(message) > LONGEST_MESSAGE or len(message) > self.mask * TEXT_BYTES // 2:
            raise ValueError("the message is too long for the ring")
        pieces = [message[at : at + TEXT_BYTES] for at in range(0, len(message), TEXT_BYTES)]
        first = number = self.take()
        for index, piece in enumerate(pieces):
            if index:
                number = self.take()
            TEXT_SLOT.pack_into(
                self.buffer, HEADER_BYTES + (number & self.mask) * SLOT_BYTES,
                number + 1, tag(TEXT, len(piece), iteration), first, index, len(pieces), piece, number + 1,
            )  # fmt: skip

    def count_lost(self, lost: int) -> None:
        """Leave the number of records that were not written where the reader sees it."""
        COUNTER.pack_into(self.buffer, LOST_AT, lost)

    def mark_closed(self, instant: int) -> None:
        """Say that nothing more will come, as of a monotonic instant."""
        COUNTER.pack_into(self.buffer, CLOSED_AT, max(1, instant))


class RingReader:
    """A ring of any process, alive or dead. Raises OSError or ValueError where the file is no whole ring."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < SMALLEST_RING:
                raise ValueError("too small for a ring")
            self._buffer = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        try:
            self.header = self._read_header(size)
        except (struct.error, UnicodeDecodeError) as error:
            self.close()
            raise ValueError(str(error)) from None
        except ValueError:
            self.close()
            raise

    def _read_header(self, size: int) -> RingHeader:
        magic, header_bytes, slot_bytes, slots, process, wall, monotonic, started = FIXED.unpack_from(self._buffer, 0)
        if magic != MAGIC or header_bytes != HEADER_BYTES or slot_bytes != SLOT_BYTES:
            raise ValueError("not a ring, or one of another version")
        if slots < 1 or slots & (slots - 1) or size != HEADER_BYTES + slots * SLOT_BYTES:
            raise ValueError("the header does not fit the size of the file")
        (length,) = LENGTH.unpack_from(self._buffer, TEXT_LENGTH_AT)
        about = json.loads(self._buffer[TEXT_AT : TEXT_AT + min(length, HEADER_BYTES - TEXT_AT)])
        if not isinstance(about, dict):
            raise ValueError("the identity is not an object")
        return RingHeader(slots, process, started, wall, monotonic, about)

    @property
    def lost(self) -> int:
        """Records the writer could not write."""
        return int(COUNTER.unpack_from(self._buffer, LOST_AT)[0])

    @property
    def closed_at(self) -> int | None:
        """The monotonic instant at which the writer said that nothing more will come; None while it has not.

        `CLOSED_BY_ERROR` where an error ended it.
        """
        return int(COUNTER.unpack_from(self._buffer, CLOSED_AT)[0]) or None

    def state(self, number: int) -> int:
        """-1: slot `number` is not whole yet; 0: it is there; 1: it was overwritten by a later one."""
        at = HEADER_BYTES + (number & (self.header.slots - 1)) * SLOT_BYTES
        (opening,) = COUNTER.unpack_from(self._buffer, at)
        (closing,) = COUNTER.unpack_from(self._buffer, at + SLOT_BYTES - 8)
        if opening > number + 1:
            return 1
        return 0 if opening == closing == number + 1 else -1

    def slot(self, number: int) -> Slot | None:
        """Slot `number`, or None where it is not there (any more)."""
        at = HEADER_BYTES + (number & (self.header.slots - 1)) * SLOT_BYTES
        copy = self._buffer[at : at + SLOT_BYTES]
        opening, word = _OPENING.unpack_from(copy, 0)
        (closing,) = COUNTER.unpack_from(copy, SLOT_BYTES - 8)
        # The opening word is read again after the copy: a writer that came round meanwhile has changed it first.
        (opening_after,) = COUNTER.unpack_from(self._buffer, at)
        if not opening == closing == opening_after == number + 1:
            return None
        return Slot(number, word & 0xFFFF, word >> 16 & 0xFFFF, word >> 32, copy[16:56])

    def oldest(self, number: int) -> int:
        """The first slot from `number` on that was not overwritten yet."""
        at = HEADER_BYTES + (number & (self.header.slots - 1)) * SLOT_BYTES
        (opening,) = COUNTER.unpack_from(self._buffer, at)
        if opening <= number + 1:
            return number
        # The slot holds a number a whole number of rounds ahead: the oldest left is within one round of the newest.
        newest_known = opening - 1
        candidate = newest_known - self.header.slots + 1
        while self.state(candidate) == 1:
            candidate += 1
        return candidate

    def close(self) -> None:
        """Give the mapping back."""
        self._buffer.close()


def process_started(process: int) -> int | None:
    """Start of a process in kernel ticks since boot, which tells two users of one process id apart; None if it is gone.

    A zombie is gone: it will never write again.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def process_namespace() -> str:
    """Names the space of process ids this process lives in; ids of another space say nothing here."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
