"""Formats: what `rerail import FORMAT FILE` can read beside facts themselves, one file of `sources/` each.

Rules
- Who calls a format may judge what its facts say of an end that no line tells (`ends`); a format knows no causes.
- A module of `sources/` with a `FORMAT` is a format; it is found by itself.
- A format reads one file and states facts. `(emitter, seq)` follows from what was written, so that the same file
  imported again, or grown since, states what it stated before under the same identity.
- What cannot be read is refused with its line, its field, its value and why; the rest is stated all the same.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rerail.collectors import sources
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Fact

Ends = Callable[[Sequence[Fact], int, int | None], list[Fact]]
"""What is to be stated of the end of the last attempt of a run that is not written any more: of its facts, the instant
of the import, and when it was written last (None where that is not known)."""


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file to import."""

    path: str
    stem: str
    """Its name without folders and endings, for what has no name of its own."""
    run: str | None
    """The run to import into; None where the file or its name says it."""
    lines: Iterable[tuple[int, bytes]]
    """Its lines, counted from 1; read once, and not together with `content`."""
    content: Callable[[], bytes]
    """All of it, for a format that is not made of lines. Raises OSError where it is larger than any such file."""
    refuse: Callable[[int, FactError], None]
    """Tell of a line that cannot be taken."""
    remark: Callable[[str], None]
    """Tell the person something about the file, in a sentence."""
    at: int | None = None
    """When it was written last, in ns; None where that is not known."""
    zone_seconds: int = 0
    """East of UTC, of stamps that name no zone."""
    now: int | None = None
    """When it is imported, in ns, by which a log that broke off long ago is told; None: it may still be written."""
    ends: Ends | None = None
    """None: nobody judges them."""
    node: str | None = None
    """The machine that a line is of which names none; None where nobody said."""


@dataclass(frozen=True, slots=True)
class OldFolder:
    """A folder to import as one run, or what was named of it."""

    path: str
    run: str
    refuse: Callable[[int, FactError], None]
    remark: Callable[[str], None]
    zone_seconds: int = 0
    now: int | None = None
    """As of `OldFile`."""
    ends: Ends | None = None
    parts: tuple[str, ...] = ()
    """Paths of files and folders in it that are read, where not all of it is."""


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """One format of old records."""

    name: str
    summary: str
    read: Callable[[OldFile], Iterator[Fact]]
    in_folder: Callable[[str], bool] | None = None
    in_subfolders: bool = False
    """The folders in a folder are looked through as well."""
    """Whether a file of that name in a folder is one of them; None: its files are not taken one by one."""
    read_together: Callable[[Sequence[OldFile]], Iterator[Fact]] | None = None
    """Reads the files of one import as one, where what one tells may be about what stands in another."""
    read_folder: Callable[[OldFolder], Iterator[Fact]] | None = None
    """Reads a folder as a whole, where what its files tell belongs together."""
    example: str = "FILE"
    """What follows `rerail import NAME` on a command line that makes sense."""
    tells: str = ""
    """What is stated of it, in a sentence."""
    cannot_tell: str = ""
    """What such records do not hold, in a sentence."""
    options: frozenset[str] = frozenset()
    """Which of `--zone`, `--node` and `--still-running` it heeds; the others hold for every format."""


def formats() -> dict[str, ImportFormat]:
    """Every format by name. A name taken twice is an error."""
    found: dict[str, ImportFormat] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(sources.__path__)):
        told = getattr(importlib.import_module(f"{sources.__name__}.{module}"), "FORMAT", None)
        if told is None:
            continue
        if told.name in found:
            raise RuntimeError(f"two formats are named {told.name}")
        found[told.name] = told
    return found
