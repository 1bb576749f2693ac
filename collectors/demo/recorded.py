"""Recorded demonstrations: facts of real runs, so that no page is empty before the first run of one's own.

Rules
- They were recorded by `rerail demo --record` and are what an agent sent: every line as it was.
- `load_recordings` gives them as they were recorded, `shifted` moves all instants of one by the same amount, so that
  durations, order and every figure stay what they were.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from importlib.resources import files

INSTANTS = ("at", "start", "end", "since", "until")
"""Fields that hold nanoseconds since 1970; every other number stays."""


def load_recordings() -> Iterator[tuple[str, list[bytes]]]:
    """`(name, lines)` of each recording, in order of name; lines end in a newline."""
    directory = files("rerail.collectors.demo").joinpath("recordings")
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".jsonl.gz"):
            yield entry.name.removesuffix(".jsonl.gz"), gzip.decompress(entry.read_bytes()).splitlines(keepends=True)


def load_arms() -> Iterator[tuple[str, list[bytes]]]:
    """The recorded arms of `rerail demo --compare`: one training under one fault schedule, recovered in five ways."""
    directory = files("rerail.collectors.demo").joinpath("recordings").joinpath("arms")
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".jsonl.gz"):
            yield entry.name.removesuffix(".jsonl.gz"), gzip.decompress(entry.read_bytes()).splitlines(keepends=True)


def last_instant(lines: Iterable[bytes]) -> int:
    """The latest instant any line holds. Raises ValueError where none does."""
    return max(value for line in lines for value in _instants(json.loads(line)).values())


def shifted(lines: Iterable[bytes], end: int, *, run: str | None = None) -> list[bytes]:
    """The same story, its last instant at `end` (ns since 1970); under the name `run` where that is given."""
    kept = list(lines)
    difference = end - last_instant(kept)
    moved = []
    for line in kept:
        fact = json.loads(line)
        fact.update({name: value + difference for name, value in _instants(fact).items()})
        if run is not None:
            fact["run"] = run
        moved.append(json.dumps(fact, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return moved


def _instants(fact: dict[str, object]) -> dict[str, int]:
    return {name: value for name in INSTANTS if isinstance(value := fact.get(name), int)}
