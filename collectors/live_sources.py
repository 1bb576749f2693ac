"""Live sources: what `rerail collect SOURCE` can follow, one file of `sources/` each.

Rules
- A module of `sources/` with a `SOURCE` is one; it is found by itself, as formats are (`formats.py`).
- `SOURCE` says which words the command line takes and makes of them what is polled (`source.py`). Where to send, which
  run, `--once`, `--stdout` and `--dir` are the same for all and added here.
- What cannot be made of what was told is `NotConfigured`, with the words to give.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.collectors import sources
from rerail.collectors.source import Source


@dataclass(frozen=True, slots=True)
class LiveSource:
    """One source of `rerail collect`."""

    name: str
    summary: str
    """What it tells of, for `rerail collect --help`."""
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    make: Callable[[argparse.Namespace], Sequence[Source]]
    """What is polled, usually one. Raises `NotConfigured`, `SourceDown`."""
    folder: str | None = None
    """Under which name it keeps what cannot be sent yet, where that is not its own."""
    shows: Callable[[argparse.Namespace], str | None] = lambda _: None
    """A text that was asked for instead of facts."""
    nothing: str = "0 facts stated"
    """What to say where it stated nothing."""


def live_sources() -> dict[str, LiveSource]:
    """Every live source by name. A name taken twice is an error."""
    found: dict[str, LiveSource] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(sources.__path__)):
        loaded = importlib.import_module(f"{sources.__name__}.{module}")
        for told in (each for each in vars(loaded).values() if isinstance(each, LiveSource)):
            if found.setdefault(told.name, told) is not told:
                raise RuntimeError(f"two sources are named {told.name}")
    return found


def add_parser(parsers: Any, source: LiveSource) -> argparse.ArgumentParser:
    """The parser of one source: its own words, and those that all share."""
    parser: argparse.ArgumentParser = parsers.add_parser(
        source.name, help=source.summary, description=source.description
    )
    source.add_arguments(parser)
    parser.add_argument("--run-id", "--run", dest="run_id", help="the run (default: RERAIL_RUN, else what names it)")
    parser.add_argument("--dir", type=Path, help="where to keep what cannot be sent yet, and how far it was read")
    parser.add_argument("--once", action="store_true", help="look once and stop; with --stdout from the beginning")
    return parser
