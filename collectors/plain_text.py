"""Plain text: the telling lines of a log that somebody gives, as pieces of evidence.

Rules
- Text is read by the reader of all logs (`sources/log_reader.py`): tracebacks, launchers' and kernels' lines, whatever
  stands before them; the rank is the one a line names.
- Instants are not told: stamps of logs are in a zone that they do not name, and who gives the file knows when the
  incident was. Order is kept.
- A storm of like lines is kept a few times; the rest is counted.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.collectors.patience import Patience
from rerail.collectors.sources.encodings import nul_words
from rerail.collectors.sources.log_reader import read_log
from rerail.server.core.facts import Evidence, Pairs

KERNEL = "kernel"
UNTOLD = 1
"""Stands for the instant of lines that carry none, while a text is read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of evidence in a file, before anybody says of which run."""

    source: str
    text: str
    code: str | None = None
    attributes: Pairs = ()
    rank: int | None = None
    node: str | None = None
    at: int | None = None
    """When, in ns; None where the file does not say."""
    own_words: bool = False
    """The text is ours, not the file's."""


@dataclass(frozen=True, slots=True)
class TextRead:
    """What a text came to."""

    pieces: list[Piece]
    """The telling lines, in its order."""
    remarks: list[str]
    """What a person should know about the reading of it."""
    zone_is_told: bool
    """Its stamps say their time zone."""


def evidence_of_text(content: bytes, near: int | None = None, patience: Patience | None = None) -> TextRead:
    """The telling lines of a text, read within `patience`.

    `near`: the instant, in ns, about which stamps that leave the year out lie.
    """
    patience = patience or Patience(None)
    read = read_log(io.BytesIO(content), emitter="text", run="text", fallback_at=UNTOLD, near=near, patience=patience)
    pieces = [
        Piece(
            fact.source, fact.text, fact.code, fact.attributes, fact.rank, fact.node,
            fact.at if fact.at > UNTOLD else None,
        )
        for fact in read.facts
        if isinstance(fact, Evidence)
    ]  # fmt: skip
    remarks = [f"{read.lines_counted} more lines say the same or did not fit"] if read.lines_counted else []
    if read.nuls:
        remarks.append(nul_words(read.nuls))
    if read.stopped_at is not None:
        remarks.append(
            f"reading stopped after {patience.seconds or 0:g} s at byte {read.stopped_at} of {len(content)}: nothing "
            "behind it counts; give the part around the failure as a file of its own"
        )
    return TextRead(pieces, remarks, read.zone_is_told)


def is_kernel_log(pieces: Sequence[Piece]) -> bool:
    """Whether most of what a text tells comes from a kernel."""
    return sum(piece.source == KERNEL for piece in pieces) * 2 > len(pieces)
