"""Encodings: the bytes of a text file as UTF-8, whatever its byte order mark says it is.

Rules
- PowerShell's `>` and `Out-File` write UTF-16 with a mark, Windows' editors UTF-8 with one. UTF-16 without a mark shows
  by a zero byte in every other place. What is neither is taken as it is.
- Offsets are those of what is read here, so that who counts lines must read through here, too.
- Zero bytes do not make a log a binary file: a machine that crashes leaves them where what was written last never
  reached the disk. They are left out, and counted. What has other control characters all over is binary.
"""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO

PIECE = 1 << 20
BINARY_HEAD = 65_536
UNMARKED_HEAD = 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Longer marks first: that of UTF-32 begins with that of UTF-16."""
_LEAST_UNMARKED = 16
_PICKLE = 0x80
"""How a dump begins, which is full of zero bytes; no character of UTF-16 in a log's first line does."""
_CONTROL = bytes(sorted({*range(32), 127} - {*b"\0\t\n\r\f\v\b\x1b\x07"}))
"""What no terminal and no log writes."""
_MOST_CONTROL = 0.02


def _mark_of(head: bytes) -> tuple[int, str] | None:
    marked = next(((len(mark), name) for mark, name in _MARKS if head.startswith(mark)), None)
    if marked is not None or len(head) < _LEAST_UNMARKED or head[0] == _PICKLE:
        return marked
    head = head[: len(head) // 2 * 2]
    low, high = head[::2], head[1::2]
    for name, plain, zero in (("utf-16-le", low, high), ("utf-16-be", high, low)):
        # Text of any script has blanks, digits and ends of lines, which a zero byte goes with; plain text has none.
        if zero.count(0) * 4 >= len(zero) and plain.count(0) * 50 <= len(plain):
            return 0, name
    return None


def text_bytes(content: bytes) -> bytes:
    """A file's bytes as UTF-8 without a mark; those of a file that has none as they are. Never raises."""
    told = _mark_of(content[:UNMARKED_HEAD])
    if told is None:
        return content
    length, name = told
    return content[length:] if name == "utf-8" else content[length:].decode(name, "replace").encode()


def without_nul(content: bytes) -> tuple[bytes, int]:
    """Bytes without zero bytes, and how many there were."""
    count = content.count(0)
    return (content.replace(b"\0", b"") if count else content), count


def nul_words(count: int) -> str:
    """What to say of zero bytes that were left out."""
    return f"{count} NUL {'byte was' if count == 1 else 'bytes were'} left out (a machine that crashed leaves them)"


def is_binary(content: bytes) -> bool:
    """Whether bytes hold, near their beginning, zero bytes and what else no text holds.

    Bytes without any zero byte are taken for text of some encoding.
    """
    head = content.lstrip(b"\0")[:BINARY_HEAD]
    count = head.count(0)
    if not count:
        return False
    head = head.replace(b"\0", b"")
    if len(head) - len(head.translate(None, _CONTROL)) > len(head) * _MOST_CONTROL:
        return True
    # Letters of other alphabets are whole in UTF-8 or stand one by one; what is mostly neither is no text.
    odd = head.decode("utf-8", "replace").count("\ufffd")
    return odd > max(4, len(head) // 10)


def text_stream(file: BinaryIO) -> BinaryIO:
    """An open file as `text_bytes` would have it, without reading it whole. Raises OSError where it cannot be read."""
    head = file.peek(UNMARKED_HEAD)[:UNMARKED_HEAD] if hasattr(file, "peek") else b""
    told = _mark_of(head)
    if told is None:
        return file
    file.read(told[0])
    if told[1] == "utf-8":
        return io.BufferedReader(_Behind(file, None, told[0]))  # type: ignore[return-value]
    return io.BufferedReader(_Behind(file, told[1], told[0]))  # type: ignore[return-value]


class _Behind(io.RawIOBase):
    """What stands behind a byte order mark, as UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str | None, mark_length: int) -> None:
        self._file = file
        self._encoding = encoding
        self._mark_length = mark_length
        self._decoder = self._new_decoder()
        self._rest = b""
        self._at = 0
        self._is_over = False

    def _new_decoder(self) -> codecs.IncrementalDecoder | None:
        return codecs.getincrementaldecoder(self._encoding)("replace") if self._encoding else None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Only back to the beginning, and nowhere."""
        if (offset, whence) == (0, io.SEEK_CUR):
            return self._at
        if (offset, whence) != (0, io.SEEK_SET):
            raise io.UnsupportedOperation("a recoded file is read from its beginning")
        self._file.seek(self._mark_length)
        self._decoder, self._rest, self._at, self._is_over = self._new_decoder(), b"", 0, False
        return 0

    def readinto(self, buffer, /) -> int:  # type: ignore[no-untyped-def]
        while not self._rest and not self._is_over:
            data = self._file.read(PIECE)
            self._is_over = not data
            self._rest = data if self._decoder is None else self._decoder.decode(data, not data).encode()
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        self._at += len(taken)
        return len(taken)

    def close(self) -> None:
        self._file.close()
        super().close()
