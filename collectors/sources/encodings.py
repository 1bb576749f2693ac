"""Encodings: the bytes of a text file as UTF-8, whatever its byte order mark says it is.

PowerShell's `>` and `Out-File` write UTF-16 with a mark, Windows' editors UTF-8 with one. A file without a mark is
taken as it is. Offsets are those of what is read here, so that who counts lines must read through here, too.
"""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO

PIECE = 1 << 20
BINARY_HEAD = 65_536
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Longer marks first: that of UTF-32 begins with that of UTF-16."""


def _mark_of(head: bytes) -> tuple[int, str] | None:
    return next(((len(mark), name) for mark, name in _MARKS if head.startswith(mark)), None)


def text_bytes(content: bytes) -> bytes:
    """A file's bytes as UTF-8 without a mark; those of a file that has none as they are. Never raises."""
    told = _mark_of(content[:4])
    if told is None:
        return content
    length, name = told
    return content[length:] if name == "utf-8" else content[length:].decode(name, "replace").encode()


def is_binary(content: bytes) -> bool:
    """Whether bytes hold what no text holds, near their beginning."""
    return b"\0" in content[:BINARY_HEAD]


def text_stream(file: BinaryIO) -> BinaryIO:
    """An open file as `text_bytes` would have it, without reading it whole. Raises OSError where it cannot be read."""
    head = file.peek(4)[:4] if hasattr(file, "peek") else b""
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
