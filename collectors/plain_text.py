"""Plain text: the telling lines of a log that somebody gives, as pieces of evidence.

Rules
- A line is telling if it ends a traceback, tells of an XID, or holds one of the words that launchers' logs are searched
  for. Everything else is left where it is.
- The rank is read off the line where it names one (`[rank3]:`). Instants are not read: who gives the file knows when
  the incident was.
- A storm of equal lines is told once per rank; beyond `MOST_PIECES` the rest is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.collectors.masking import masked
from rerail.collectors.sources.torchrun_lines import NOT_TELLING, TELLING
from rerail.collectors.sources.tracebacks import LONGEST_LINE, Tracebacks
from rerail.server.core.facts import Pairs
from rerail.server.core.xids import CODE_PREFIX, xids_in

MOST_PIECES = 400
KERNEL = "kernel"
_RANK = re.compile(r"^.{0,120}?\[(?:rank|default)(\d{1,7})\]:? ?")
_KERNEL_LINE = re.compile(
    r"NVRM: |Out of memory: Killed process|oom-kill:|oom_reaper|invoked oom-killer|Memory cgroup out of memory"
)
_NUMBERS = re.compile(r"0x[0-9A-Fa-f]+|\d+")


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


def evidence_of_text(_name: str, content: bytes) -> tuple[list[Piece], list[str]]:
    """The telling lines of a text, in its order; and what a person should know about the reading of it."""
    pieces: list[Piece] = []
    remarks: list[str] = []
    seen: set[tuple[int | None, str]] = set()
    tracebacks = Tracebacks()
    left_out = 0
    for raw in content.splitlines():
        line = raw[:LONGEST_LINE].decode("utf-8", "replace").rstrip()
        found = _RANK.match(line)
        stream = found.group(0) if found else ""
        rank = int(found.group(1)) if found else None
        text = line[len(stream) :] if found else line
        ended = tracebacks.take(stream, text)
        piece = _traceback_piece(ended, rank) if ended is not None else _piece(line, text, rank, tracebacks, stream)
        if piece is None:
            continue
        key = (piece.rank, _NUMBERS.sub("0", piece.text))
        if key in seen or len(pieces) >= MOST_PIECES:
            left_out += 1
            continue
        seen.add(key)
        pieces.append(piece)
    if left_out:
        remarks.append(f"{left_out} more lines say the same or did not fit")
    return pieces, remarks


def is_kernel_log(pieces: Sequence[Piece]) -> bool:
    """Whether most of what a text tells comes from a kernel."""
    return sum(piece.source == KERNEL for piece in pieces) * 2 > len(pieces)


def _traceback_piece(ended: tuple[str, str], rank: int | None) -> Piece:
    last, frame = ended
    code = last.partition(":")[0].rpartition(".")[2][:100] or None
    attributes = (("frame", masked(frame)),) if frame else ()
    return Piece("stderr", masked(last), code, attributes, rank)


def _piece(line: str, text: str, rank: int | None, tracebacks: Tracebacks, stream: str) -> Piece | None:
    if _KERNEL_LINE.search(line):
        told = next(xids_in(line), None)
        return Piece(KERNEL, masked(line), None if told is None else f"{CODE_PREFIX}{told.code}")
    if tracebacks.inside(stream) or not TELLING.search(text) or NOT_TELLING.search(text):
        return None
    return Piece("stderr", masked(text), None, (), rank)
