"""Packed files that somebody gives, gzip, bzip2 or xz: unpacked, with limits on what comes out and how long it takes.

What is packed in another way is known by how it begins, so that it is refused by name and not taken for text.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable

from rerail.collectors.patience import OutOfPatienceError, Patience

LARGEST_UNPACKED = 256 * 1024 * 1024
MOST_LAYERS = 2
"""Packed once, and once more inside of that: what is packed oftener is refused."""
MOST_XZ_MEMORY = 128 * 1024 * 1024
"""The window of xz may take so much; its highest preset takes half of it."""
_STEP = 1 << 20
_FED = 1 << 16
_STARTS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_FOREIGN = {
    b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "rar",
    b"\x1f\x9d": "compress", b"\x5d\x00\x00\x80": "lzma", b"\x5d\x00\x00\x00\x04": "lzma", b"LZIP": "lzip",
    b"PK\x03\x04": "zip", b"PK\x05\x06": "zip",
}  # fmt: skip
BROKEN = (zlib.error, lzma.LZMAError, EOFError, OSError)
"""What the readers of packed bytes raise."""


def packing_of(content: bytes) -> str | None:
    """How bytes are packed, of the ways that are unpacked here: gzip, bzip2 or xz."""
    return next((name for start, name in _STARTS.items() if content.startswith(start)), None)


def foreign_packing_of(content: bytes) -> str | None:
    """How bytes are packed, of the ways that are not unpacked as one file."""
    return next((name for start, name in _FOREIGN.items() if content.startswith(start)), None)


class UnpackedStream(io.RawIOBase):
    """What comes out of packed bytes, member after member. Raises ValueError past `largest`, and one of `BROKEN`."""

    def __init__(self, content: bytes, largest: int, patience: Patience | None = None) -> None:
        self._content = memoryview(content)
        self._at = 0
        self._largest = largest
        self._patience = patience or Patience(None)
        self._packing = packing_of(content)
        self._stream: _Stream | None = None
        self._rest = b""
        self.length = 0
        """How much came out."""
        self.is_cut = False
        """The bytes ended, or broke, inside of a member behind the first byte that came out."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer, /) -> int:  # type: ignore[no-untyped-def]
        while not self._rest:
            part = self._next()
            if part is None:
                return 0
            self.length += len(part)
            if self.length > self._largest:
                raise ValueError(f"more than {self._largest} bytes come out of it")
            if self._patience.is_over(now=True):
                raise OutOfPatienceError(f"it could not be unpacked within {self._patience.seconds:g} s")
            self._rest = part
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)

    def _next(self) -> bytes | None:
        """What comes out next, maybe nothing yet; None at the end."""
        if self._stream is None:
            while self._at < len(self._content) and not self._content[self._at]:
                self._at += 1  # Tapes and discs fill up with zero bytes.
            if self._at >= len(self._content):
                return None
            self._stream = _STREAMS[self._packing or "gzip"]()
        try:
            fed = b""
            if self._stream.wants_more:
                fed = bytes(self._content[self._at : self._at + _FED])
                self._at += len(fed)
                if not fed:
                    return self._break(EOFError("it is cut off before anything comes out of it"))
            part = self._stream.take(fed)
        except BROKEN as error:
            return self._break(error)
        if self._stream.is_over:
            self._at -= self._stream.unused
            self._stream = None
        return part

    def _break(self, error: Exception) -> None:
        if not self.length:
            raise error
        self.is_cut = True
        self._content = memoryview(b"")
        self._stream, self._at = None, 0


class _Stream:
    """One member of a packed file, with the one interface that Python's decompressors do not share."""

    wants_more = True
    is_over = False
    unused = 0
    """Bytes that were fed and belong to what follows."""

    def take(self, fed: bytes) -> bytes:
        """What comes out of these bytes, at most so much at once."""
        raise NotImplementedError


class _Gzip(_Stream):
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def take(self, fed: bytes) -> bytes:
        part = self._stream.decompress(self._stream.unconsumed_tail + fed, _STEP)
        self.wants_more = not self._stream.unconsumed_tail and len(part) < _STEP
        self.is_over, self.unused = self._stream.eof, len(self._stream.unused_data)
        return part


class _Other(_Stream):
    def __init__(self, stream: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._stream = stream

    def take(self, fed: bytes) -> bytes:
        part = self._stream.decompress(fed, _STEP)
        self.wants_more = self._stream.needs_input
        self.is_over, self.unused = self._stream.eof, len(self._stream.unused_data)
        return part


_STREAMS: dict[str, Callable[[], _Stream]] = {
    "gzip": _Gzip,
    "bzip2": lambda: _Other(bz2.BZ2Decompressor()),
    "xz": lambda: _Other(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ_MEMORY)),
}


def unpacked(content: bytes, patience: Patience | None = None) -> tuple[bytes, bool]:
    """What all members of a packed file hold, and whether it is cut off, as where a machine died while it wrote.

    Raises ValueError where nothing comes out, or more than the limit; OutOfPatienceError, too.
    """
    stream = UnpackedStream(content, LARGEST_UNPACKED, patience)
    found = bytearray()
    try:
        while part := stream.read(_STEP):
            found += part
    except BROKEN as error:
        raise ValueError(str(error) or type(error).__name__) from None
    return bytes(found), stream.is_cut


def packed(content: bytes, packing: str) -> bytes:
    """The content packed again in the same way; the same content gives the same bytes."""
    if packing == "gzip":
        return gzip.compress(content, mtime=0)
    return bz2.compress(content) if packing == "bzip2" else lzma.compress(content)


def opened(content: bytes, patience: Patience | None = None) -> tuple[bytes, list[str], bool]:
    """What a file holds under all its layers, the layers from the outside, and whether one is cut off.

    What is not packed is given as it is. Raises ValueError like `unpacked`, and for more than `MOST_LAYERS` layers.
    """
    layers: list[str] = []
    is_cut = False
    while packing := packing_of(content):
        if len(layers) == MOST_LAYERS:
            raise ValueError(f"it is packed more than {MOST_LAYERS} times, one in the other")
        try:
            content, is_cut_here = unpacked(content, patience)
        except OutOfPatienceError:
            raise
        except ValueError as error:
            raise ValueError(f"it is {packing} that cannot be unpacked: {error}") from None
        layers.append(packing)
        is_cut |= is_cut_here
    return content, layers, is_cut
