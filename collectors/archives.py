"""Archives: several files in one, zip or tar, as names and contents.

Rules
- Nothing is written to a disk and no name of a member is ever used as a path. Links and devices are passed over.
- How many files, how large each and how large all together is limited; beyond that nothing is read, and it is said.
- A broken archive gives what could be read before it broke, and says so.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MOST_FILES = 16_384
LARGEST_ALL = 512 * 1024 * 1024
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError,
    NotImplementedError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive; `refused` says why it has no content."""

    name: str
    content: bytes
    refused: str | None = None


def is_archive(content: bytes) -> bool:
    """Whether bytes are a zip, a tar, or a tar in gzip."""
    if content.startswith(_ZIP):
        return zipfile.is_zipfile(io.BytesIO(content))
    head = content[:1024]
    if content.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(content[:65_536], 1024)
        except zlib.error:
            return False
    return head[257:262] == b"ustar"


def members(content: bytes, largest: int) -> Iterator[Member]:
    """The files of an archive, in its order."""
    reading = _zipped(content, largest) if content.startswith(_ZIP) else _taped(content, largest)
    count = size = 0
    try:
        for member in reading:
            count += 1
            size += len(member.content)
            if count > MOST_FILES or size > LARGEST_ALL:
                yield Member("…", b"", f"more than {MOST_FILES} files or {LARGEST_ALL} bytes: the rest was not read")
                return
            yield member
    except _BROKEN as error:
        yield Member("…", b"", f"the archive is broken: {error or type(error).__name__}")


def _zipped(content: bytes, largest: int) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for told in archive.infolist():
            if told.is_dir():
                continue
            with archive.open(told) as file:
                yield _member(told.filename, file.read(largest + 1), largest)


def _taped(content: bytes, largest: int) -> Iterator[Member]:
    mode = "r|gz" if content.startswith(_GZIP) else "r|"
    with tarfile.open(fileobj=io.BytesIO(content), mode=mode) as archive:
        for told in archive:
            file = archive.extractfile(told) if told.isreg() else None
            if file is not None:
                yield _member(told.name, file.read(largest + 1), largest)


def _member(name: str, content: bytes, largest: int) -> Member:
    if len(content) > largest:
        return Member(name, b"", f"larger than {largest} bytes")
    return Member(name, content)
