"""Packed files that somebody gives, gzip, bzip2 or xz: unpacked, with limits on what comes out and how long it takes.

What is packed in another way is known by how it begins, so that it is refused by name and not taken for text.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

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
_UNPACKERS = {
    "zstd": "zstd -d", "lz4": "lz4 -d", "7z": "7z x", "rar": "unrar x", "compress": "uncompress", "lzma": "unlzma",
    "lzip": "lzip -d",
}  # fmt: skip
BROKEN = (zlib.error, lzma.LZMAError, EOFError, OSError)
"""What the readers of packed bytes raise."""


def packing_of(content: bytes) -> str | None:
    """How bytes are packed, of the ways that are unpacked here: gzip, bzip2 or xz."""
    return next((name for start, name in _STARTS.items() if content.startswith(start)), None)


def foreign_packing_of(content: bytes) -> str | None:
    """How bytes are packed, of the ways that are not unpacked as one file."""
    return next((name for start, name in _FOREIGN.items() if content.startswith(start)), None)


class BrokenPackingError(OSError):
    """Packed bytes of which nothing comes out."""


class UnpackedStream(io.RawIOBase):
    """What comes out of a packed file, member after member, as far as it goes.

    Raises BrokenPackingError where nothing comes out, ValueError past `largest`, OutOfPatienceError.
    """

    def __init__(
        self,
        file: BinaryIO,
        packing: str,
        *,
        largest: int | None = None,
        patience: Patience | None = None,
        on_cut: Callable[[], object] = lambda: None,
    ) -> None:
        self._file = file
        self._packing = packing
        self._largest = largest
        self._patience = patience or Patience(None)
        self._on_cut = on_cut
        self._begin()

    def _begin(self) -> None:
        self._fed = b""
        self._stream: _Stream | None = None
        self._rest = b""
        self._is_over = False
        self._at = 0
        self.length = 0
        """How much came out."""
        self.is_cut = False
        """The bytes ended, or broke, behind the first byte that came out."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Only from the beginning, and nowhere."""
        if (offset, whence) == (0, io.SEEK_CUR):
            return self._at
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a packed file is read from its beginning")
        self._file.seek(0)
        self._begin()
        while self._at < offset and self.read(min(_STEP, offset - self._at)):
            pass
        return self._at

    def readinto(self, buffer, /) -> int:  # type: ignore[no-untyped-def]
        while not self._rest and not self._is_over:
            self._rest = self._next()
            self.length += len(self._rest)
            if self._largest is not None and self.length > self._largest:
                raise ValueError(f"more than {self._largest} bytes come out of it")
            if self._patience.is_over(now=True):
                raise OutOfPatienceError(f"it could not be unpacked within {self._patience.seconds or 0:g} s")
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        self._at += len(taken)
        return len(taken)

    def _next(self) -> bytes:
        """What comes out next, maybe nothing yet."""
        try:
            if self._stream is None:
                # Tapes and discs fill up with zero bytes.
                while not (fed := self._feed().lstrip(b"\0")) and self._fed:
                    self._fed = b""
                self._fed = fed
                if not fed:
                    self._is_over = True
                    return b""
                self._stream = _STREAMS[self._packing]()
            fed = b""
            if self._stream.wants_more:
                fed, self._fed = self._feed(), b""
                if not fed:
                    raise EOFError("it is cut off before anything comes out of it")
            part = self._stream.take(fed)
        except BROKEN as error:
            if not self.length:
                raise BrokenPackingError(str(error) or type(error).__name__) from None
            self._is_over = self.is_cut = True
            self._on_cut()
            return b""
        if self._stream.is_over:
            self._fed = self._stream.unused
            self._stream = None
        return part

    def _feed(self) -> bytes:
        if not self._fed:
            self._fed = self._file.read(_FED)
        return self._fed

    def close(self) -> None:
        self._file.close()
        super().close()


def unpack_first(head: bytes) -> str | None:
    """What to say of a file that begins so and is packed in a way that is not read; None for all others.

    A zip is no one file, and is left to who opens archives.
    """
    packing = foreign_packing_of(head)
    if packing is None or packing == "zip":
        return None
    command = _UNPACKERS.get(packing)
    return f"compressed with {packing}: unpack it first" + (f" ({command})" if command else "")


def open_packed(
    path: Path, on_cut: Callable[[str], object] = lambda _: None, opened: io.BufferedReader | None = None
) -> BinaryIO:
    """A file as it is, or what comes out of it where it is packed. `on_cut` hears how, where it is cut off. `opened`:
    the file, where it is open already.

    Raises OSError, also while it is read, and for a file that is packed in a way that is not read here.
    """
    file = path.open("rb") if opened is None else opened
    head = file.peek(8)[:8]
    packing = packing_of(head)
    if packing is None:
        if (said := unpack_first(head)) is not None:
            file.close()
            raise OSError(said)
        return file
    return io.BufferedReader(UnpackedStream(file, packing, on_cut=lambda: on_cut(packing)), _FED)  # type: ignore[return-value]


class _Stream:
    """One member of a packed file, with the one interface that Python's decompressors do not share."""

    wants_more = True
    is_over = False
    unused = b""
    """What was fed and belongs to what follows."""

    def take(self, fed: bytes) -> bytes:
        """What comes out of these bytes, at most so much at once."""
        raise NotImplementedError


class _Gzip(_Stream):
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def take(self, fed: bytes) -> bytes:
        part = self._stream.decompress(self._stream.unconsumed_tail + fed, _STEP)
        self.wants_more = not self._stream.unconsumed_tail and len(part) < _STEP
        self.is_over, self.unused = self._stream.eof, self._stream.unused_data
        return part


class _Other(_Stream):
    def __init__(self, stream: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._stream = stream

    def take(self, fed: bytes) -> bytes:
        part = self._stream.decompress(fed, _STEP)
        self.wants_more = self._stream.needs_input
        self.is_over, self.unused = self._stream.eof, self._stream.unused_data
        return part


_STREAMS: dict[str, Callable[[], _Stream]] = {
    "gzip": _Gzip,
    "bzip2": lambda: _Other(bz2.BZ2Decompressor()),
    "xz": lambda: _Other(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ_MEMORY)),
}


_PACKERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.compressobj(6, wbits=31),
    "bzip2": lambda: bz2.BZ2Compressor(1),
    "xz": lambda: lzma.LZMACompressor(preset=0),
}


def unpacking(content: bytes, largest: int, patience: Patience | None = None) -> UnpackedStream:
    """A stream of what comes out of these bytes, which are packed."""
    return UnpackedStream(io.BytesIO(content), packing_of(content) or "gzip", largest=largest, patience=patience)


def unpacked(content: bytes, patience: Patience | None = None) -> tuple[bytes, bool]:
    """What all members of a packed file hold, and whether it is cut off, as where a machine died while it wrote.

    Raises ValueError where nothing comes out, or more than the limit; OutOfPatienceError, too.
    """
    stream = unpacking(content, LARGEST_UNPACKED, patience)
    found = bytearray()
    try:
        while part := stream.read(_STEP):
            found += part
    except BrokenPackingError as error:
        raise ValueError(str(error)) from None
    return bytes(found), stream.is_cut


def packed(content: bytes, packing: str, patience: Patience | None = None) -> bytes:
    """The content packed again in the same way, quickly; the same content gives the same bytes.

    Raises OutOfPatienceError.
    """
    patience = patience or Patience(None)
    packer = _PACKERS[packing]()
    parts = []
    for at in range(0, len(content), _STEP):
        if patience.is_over(now=True):
            raise OutOfPatienceError(f"it could not be packed again within {patience.seconds or 0:g} s")
        parts.append(packer.compress(content[at : at + _STEP]))
    return b"".join([*parts, packer.flush()])


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
