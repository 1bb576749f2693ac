"""Given files: which files of the paths that a person names are read, and where their bytes lie.

Rules
- What is named itself is read, whatever it is: a pipe (`<(kubectl logs …)`) until its writer ends or the time for one
  log is over; `-` is the standard input. In a folder only regular files are opened; a pipe, socket or device is named
  with the reason.
- A zip or tar stands for the files in it, under the limits of `archives.py`: the one reader that the pages have. In a
  folder those are known by their names: many other formats are zips too.
- In a folder or an archive, source text, documents and settings are no evidence (`is_source`): a program that handles
  an error names it as a log does. They are left out and counted. What their content shows to be a scheduler's record,
  an error file or a dump is read all the same.
- What comes out of a pipe or an archive lies in a temporary folder, as long as `Scratch` lives. Names of members are
  made harmless before they become paths.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rerail.collectors.archives import LARGEST_ALL, Member, TooManyFilesError, members
from rerail.collectors.packed_files import open_packed
from rerail.collectors.patience import Patience

MOST_FILES = 50_000
LARGEST_MEMBER = 256 * 1024 * 1024
LARGEST_PIPE = 4 * 1024**3
_AT_ONCE = 1 << 20
_WAIT_SECONDS = 0.5
STANDARD_INPUT = "standard input"
LEFT_OUT = "source and settings"

_SOURCE_ENDINGS = """
.py .pyi .pyx .ipynb .sh .bash .zsh .fish .csh .sbatch .slurm .pbs .lsf .c .cc .cpp .cxx .cu .cuh .h .hh .hpp .go .rs
.java .js .ts .jsx .tsx .css .lua .r .jl .pl .rb .md .rst .tex .adoc .yaml .yml .toml .cfg .ini .conf .env .properties
.tf .patch .diff .lock .cmake .mk .gin .jinja .j2 .tpl .proto .gitignore
"""
_NAMES_OF_SOURCES = """
makefile dockerfile readme license licence notice authors changelog contributing requirements.txt constraints.txt
readme.txt license.txt changes.txt cmakelists.txt jenkinsfile .gitignore .gitattributes .dockerignore .bashrc
.editorconfig .env
"""
_FOLDERS_OF_SOURCES = """
.git .hg .svn site-packages dist-packages node_modules __pycache__ .ipynb_checkpoints .venv venv .tox .mypy_cache
.pytest_cache .ruff_cache .idea .vscode .github
"""
_SOURCES = frozenset(_SOURCE_ENDINGS.split())
_SOURCE_NAMES = frozenset(_NAMES_OF_SOURCES.split())
_SOURCE_FOLDERS = frozenset(_FOLDERS_OF_SOURCES.split())
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_ZIPS_OF_OTHERS = (
    ".pt", ".pth", ".ckpt", ".npz", ".whl", ".jar", ".distcp", ".keras", ".docx", ".xlsx", ".pptx", ".nemo",
)  # fmt: skip
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_HARMLESS = re.compile(r"[^\w.@=+-]", re.ASCII)


def is_source(name: str) -> bool:
    """Whether a file's place says that it is source text, a document or settings, and no log."""
    parts = PurePosixPath(name.replace(os.sep, "/")).parts
    last = parts[-1].lower() if parts else ""
    if PurePosixPath(last).suffix in _SOURCES or last in _SOURCE_NAMES:
        return True
    folders = parts[:-1]
    return any(folder in _SOURCE_FOLDERS for folder in folders) or ("wandb" in folders and "code" in folders)


def left_out_words(count: int) -> str:
    """What a person is told of files that were left out."""
    return f"{count} file{'s' * (count != 1)} left out: {LEFT_OUT}"


@dataclass(slots=True, weakref_slot=True, eq=False)
class Scratch:
    """Where what comes out of pipes and archives lies, and what a person calls it. It goes when nobody needs it."""

    names: dict[str, str] = field(default_factory=dict)
    """Path → what a person calls it."""
    _folder: str | None = None
    _count: int = 0

    def place(self, shown: str, parts: Iterable[str] = ()) -> Path:
        """A new path, below a folder of its own, that ends in `parts`, made harmless."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="rerail-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._count += 1
        safe = [_HARMLESS.sub("_", part)[:120] for part in parts]
        safe = [part for part in safe if part.strip(".")] or ["file"]
        path = Path(self._folder, f"in{self._count}", *safe[-12:])
        path.parent.mkdir(parents=True, exist_ok=True)
        self.names[str(path)] = shown
        return path

    def shown(self, path: str) -> str:
        """What a person calls a path."""
        return self.names.get(path, path)

    def real(self, shown: str) -> Path:
        """Where the bytes of it lie."""
        return next((Path(path) for path, name in self.names.items() if name == shown), Path(shown))


@dataclass(frozen=True, slots=True)
class Given:
    """A file to read, or why it is not."""

    path: Path
    is_named: bool
    """A person named it; else it lies in a folder or an archive."""
    refused: str | None = None
    cut: str | None = None
    """Why not all of it is there."""


def given_files(paths: Iterable[str], scratch: Scratch, seconds: float | None = None) -> Iterator[Given]:
    """Every file of these paths, folders walked in order of names; links to elsewhere are not followed.

    `seconds`: the longest that a pipe or an archive may take.
    """
    for name in paths:
        if name != "-" and Path(name).is_dir():
            yield from _of_folder(Path(name), scratch, seconds)
        else:
            yield from _named(name, scratch, seconds)


def _named(name: str, scratch: Scratch, seconds: float | None) -> Iterator[Given]:
    path = Path("/dev/stdin") if name == "-" else Path(name)
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        yield Given(path, is_named=True, refused=error.strerror or str(error))
        return
    if not is_file:
        shown = STANDARD_INPUT if name == "-" else name
        piped = scratch.place(shown, (path.name,))
        try:
            cut = _poured(path, piped, seconds)
        except OSError as error:
            yield Given(piped, is_named=True, refused=error.strerror or str(error))
            return
        yield Given(piped, is_named=True, cut=cut)
        return
    yield from _opened(path, scratch, seconds, is_named=True)


def _of_folder(folder: Path, scratch: Scratch, seconds: float | None) -> Iterator[Given]:
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for each in sorted(names):
            count += 1
            if count > MOST_FILES:
                return
            path = Path(place, each)
            try:
                mode = path.lstat().st_mode
            except OSError as error:
                yield Given(path, is_named=False, refused=error.strerror or str(error))
                continue
            if stat.S_ISLNK(mode):
                continue
            if not stat.S_ISREG(mode):
                yield Given(path, is_named=False, refused=f"{_kind(mode)}: in a folder only files are read")
            else:
                yield from _opened(path, scratch, seconds, is_named=False)


def _kind(mode: int) -> str:
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def _opened(path: Path, scratch: Scratch, seconds: float | None, *, is_named: bool) -> Iterator[Given]:
    """A file, or those in it where it is an archive."""
    if not is_an_archive(path, is_named=is_named):
        yield Given(path, is_named)
        return
    status = path.stat()
    if status.st_size > LARGEST_ALL:
        yield Given(path, is_named, refused=f"an archive of more than {LARGEST_ALL} bytes")
        return
    try:
        content = path.read_bytes()
        for member in members(content, LARGEST_MEMBER, Patience(seconds)):
            yield _member(member, path, scratch, status.st_mtime_ns)
    except (OSError, TooManyFilesError) as error:
        yield Given(path, is_named, refused=str(getattr(error, "strerror", None) or error))


def _member(member: Member, archive: Path, scratch: Scratch, written_at: int) -> Given:
    parts = PurePosixPath(member.name.replace("\\", "/").replace(": ", "/")).parts
    place = scratch.place(f"{archive}: {member.name}", parts)
    if member.refused is not None:
        return Given(place, is_named=False, refused=member.refused)
    place.write_bytes(member.content)
    os.utime(place, ns=(written_at, written_at))
    return Given(place, is_named=False)


def is_an_archive(path: Path, *, is_named: bool = True) -> bool:
    """Whether a regular file stands for the files in it: a zip or a tar, by its name where nobody named it."""
    name = path.name.lower()
    if not is_named and not name.endswith(_ARCHIVES):
        return False
    if path.suffix.lower() in _ZIPS_OF_OTHERS:
        return False
    with suppress(OSError, EOFError), open_packed(path) as file:
        head = file.read(512)
        return head.startswith(_ZIP_STARTS) or head[257:262] == b"ustar"
    return False


def _poured(path: Path, into: Path, seconds: float | None) -> str | None:
    """Write what comes out of a pipe into a file; why not all of it came, None where it did. Raises OSError."""
    patience = Patience(seconds)
    size = 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        with into.open("wb") as file:
            while not patience.is_over(now=True):
                if not ready.poll(_WAIT_SECONDS * 1000):
                    continue
                try:
                    data = os.read(descriptor, _AT_ONCE)
                except BlockingIOError:
                    continue
                if not data:
                    return None
                file.write(data)
                size += len(data)
                if size > LARGEST_PIPE:
                    return f"more than {LARGEST_PIPE} bytes came out of it: the rest was not read"
    finally:
        os.close(descriptor)
    return f"its writer did not end within {patience.seconds or 0:g} s: what came until then was read"
