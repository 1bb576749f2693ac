"""Glance: what the rings of a node hold and its sources see, looked at and left as it is.

An agent that runs beside it, or starts later, states all of it again under the same identity: nothing is read up, no
ring of a process that is gone is removed, and what a recorder wrote over is not known here either. What an agent says
itself (clocks, that a process is gone) is no part of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.collectors.source import NotConfigured, Source, SourceDown
from rerail.server.core.facts import Fact


def rings_of(directory: Path) -> list[Path]:
    """The rings that recorders wrote under a directory, in order of their names."""
    return sorted((directory / "rings").glob("*.ring"))


def glance(rings: Sequence[Path], sources: Sequence[Source], remark: Callable[[str], object]) -> list[Fact]:
    """Every fact of these rings and sources. What cannot be read is remarked on, in a sentence."""
    facts: list[Fact] = []
    for path in rings:
        try:
            reader = RingReader(path)
        except (OSError, ValueError, KeyError) as error:
            remark(f"{path} is not a ring that can be read: {error}")
            continue
        try:
            facts += RingFacts(reader).read(RingPlace(), time.monotonic_ns()).facts
        finally:
            reader.close()
    for source in sources:
        try:
            facts += source.finish(None).facts
        except (NotConfigured, SourceDown) as error:
            remark(f"{source.name} cannot see: {error}")
    return facts


def run_in(rings: Sequence[Path]) -> str | None:
    """The run of the newest of these rings; None where none says."""
    for path in sorted(rings, key=lambda ring: ring.stat().st_mtime_ns, reverse=True):
        try:
            reader = RingReader(path)
        except (OSError, ValueError, KeyError):
            continue
        run = RingFacts(reader).identity.get("run")
        reader.close()
        if run:
            return str(run)
    return None
