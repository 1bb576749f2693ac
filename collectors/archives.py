"""Archives: several files in one, zip or tar, as names and contents.

Rules
- Nothing is written to a disk and no name of a member is ever used as a path. Links and devices are passed over, and
  named.
- How many files, how large each and how large all together is limited, and so is the time; beyond that nothing is read,
  and it is said. Of a zip the files are counted before anything is read; of a tar while it comes.
- An archive in an archive is opened once; one in that is refused by name.
- A broken archive gives what could be read before it broke, and says so.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from rerail.collectors.packed_files import BROKEN, packing_of, unpacking
from rerail.collectors.patience import OutOfPatienceError, Patience

MOST_FILES = 16_384
LARGEST_ALL = 512 * 1024 * 1024
MOST_LEVELS = 2
_HEAD = 1024
_LARGEST_HEADERS = MOST_FILES * 2048
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_ZIP_ENTRY, _ZIP_END = b"PK\x01\x02", b"PK\x05\x06"
_LONGEST_ZIP_END = 22 + 65_535
_BROKEN = (
    *BROKEN, tarfile.TarError, zipfile.BadZipFile, RuntimeError, ValueError, NotImplementedError, struct.error,
)  # fmt: skip
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a link to another member", tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device", tarfile.FIFOTYPE: "a pipe", tarfile.GNUTYPE_SPARSE: "a sparse file",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive; `refused` says why it has no content."""

    name: str
    content: bytes
    refused: str | None = None


class TooManyFilesError(ValueError):
    """An archive of which nothing is read, since it holds more files than are taken."""


@dataclass(slots=True)
class _Budget:
    """What may still be read of an archive and of those in it."""

    patience: Patience
    largest: int
    files: int = MOST_FILES
    size: int = LARGEST_ALL


def is_archive(content: bytes) -> bool:
    """Whether bytes are a zip, or a tar as it is or in gzip, bzip2 or xz."""
    if content.startswith(_ZIP_STARTS):
        return True
    head = content[:_HEAD]
    if packing_of(content) is not None:
        try:
            head = io.BufferedReader(unpacking(content, LARGEST_ALL)).read(_HEAD)
        except _BROKEN:
            return False
    return head[257:262] == b"ustar"


def members(content: bytes, largest: int, patience: Patience | None = None) -> Iterator[Member]:
    """The files of an archive, in its order. Raises TooManyFilesError before the first."""
    return _members(content, _Budget(patience or Patience(None), largest), 1, "")


def _members(content: bytes, budget: _Budget, level: int, inside: str) -> Iterator[Member]:
    is_zip = content.startswith(_ZIP_STARTS)
    if is_zip and (count := _zip_entries(content)) > MOST_FILES:
        raise TooManyFilesError(f"the archive holds {count} files; the most is {MOST_FILES}: none was read")
    reading = _zipped(content, budget) if is_zip else _taped(content, budget)
    count = 0
    try:
        for member in reading:
            count += 1
            budget.files -= 1
            budget.size -= len(member.content)
            if budget.files < 0 or budget.size < 0:
                yield Member(
                    f"{inside}{member.name} and what follows", b"",
                    f"more than {MOST_FILES} files or {LARGEST_ALL} bytes: not read",
                )  # fmt: skip
                return
            if member.refused is None and is_archive(member.content):
                yield from _inner(member, budget, level, inside)
            else:
                yield Member(f"{inside}{member.name}", member.content, member.refused)
    except OutOfPatienceError as error:
        yield Member(f"{inside}…", b"", str(error))
    except _BROKEN as error:
        yield Member(f"{inside}…", b"", f"the archive is broken or cut off: {error or type(error).__name__}")
    else:
        if not count:
            yield Member(f"{inside}…", b"", "the archive holds no file")


def _inner(member: Member, budget: _Budget, level: int, inside: str) -> Iterator[Member]:
    """The files of an archive in an archive."""
    if level == MOST_LEVELS:
        told = f"an archive in an archive in an archive: more than {MOST_LEVELS} are not opened"
        yield Member(f"{inside}{member.name}", b"", told)
        return
    try:
        yield from _members(member.content, budget, level + 1, f"{inside}{member.name}: ")
    except TooManyFilesError as error:
        yield Member(f"{inside}{member.name}", b"", str(error))


def _zip_entries(content: bytes) -> int:
    """How many files a zip tells of at most, counted without reading one."""
    end = content.rfind(_ZIP_END, max(0, len(content) - _LONGEST_ZIP_END))
    size = struct.unpack_from("<I", content, end + 12)[0] if 0 <= end <= len(content) - 22 else len(content)
    return content.count(_ZIP_ENTRY, max(0, end - size) if end >= 0 else 0)


def _zipped(content: bytes, budget: _Budget) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for told in archive.infolist():
            if told.is_dir():
                continue
            if budget.patience.is_over(now=True):
                yield Member(told.filename, b"", "not read: the time was over")
                continue
            if told.file_size > budget.largest:
                yield Member(told.filename, b"", f"larger than {budget.largest} bytes")
                continue
            try:
                with archive.open(told) as file:
                    found = file.read(told.file_size)  # Never more than it says it has.
            except _BROKEN as error:
                yield Member(told.filename, b"", f"cannot be unpacked: {error or type(error).__name__}")
                budget.size -= told.file_size
                continue
            yield Member(told.filename, found)


def _taped(content: bytes, budget: _Budget) -> Iterator[Member]:
    ended: list[Exception] = []

    class Header(tarfile.TarInfo):
        """A header that remembers why the last one was none: the reader passes over a tape that is cut off."""

        @classmethod
        def frombuf(cls, buf: bytes, encoding: str | None, errors: str) -> tarfile.TarInfo:
            try:
                return super().frombuf(buf, encoding, errors)
            except tarfile.HeaderError as error:  # type: ignore[attr-defined]
                ended.append(error)
                raise

    most = LARGEST_ALL + _LARGEST_HEADERS
    packed = unpacking(content, most, budget.patience) if packing_of(content) else None
    file = io.BytesIO(content) if packed is None else io.BufferedReader(packed)
    with tarfile.open(fileobj=file, mode="r|", tarinfo=Header) as archive:
        for told in archive:
            archive.members = []  # type: ignore[attr-defined]
            if told.isdir():
                continue
            if not told.isreg() or told.sparse is not None:
                yield Member(told.name, b"", f"{_KINDS.get(told.type, 'no plain file')}: passed over")
                continue
            if told.size > budget.largest:
                yield Member(told.name, b"", f"larger than {budget.largest} bytes")
                continue
            member = archive.extractfile(told)
            found = b"" if member is None else member.read()
            if len(found) < told.size:
                yield Member(told.name, b"", f"cut off: {len(found)} of its {told.size} bytes are there")
                continue
            yield Member(told.name, found)
    if not ended or type(ended[-1]).__name__ != "EOFHeaderError":
        raise tarfile.ReadError(f"it ends without its end mark ({ended[-1] if ended else 'no header'})")
    if packed is not None and packed.is_cut:
        raise tarfile.ReadError("what it is packed in is cut off")
