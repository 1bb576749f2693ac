"""Uploads: what a file that somebody gives is, and the evidence in it. For the incident page and for imports alike.

Rules
- What a file is follows from its content: a flight recorder dump (pickle or JSON), the process groups beside one, an
  error file of torchelastic, a kernel log, any other log. Its name tells the rank where nothing else does.
- What is packed is looked into, with a limit on what comes out. Nothing of a file is ever run.
- Secrets are masked in every text; what is refused is said in a sentence, and the rest is taken.
- `evidence_of_text` is the reader of plain text; everything else is here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from rerail.collectors.masking import masked
from rerail.collectors.packed_files import foreign_packing_of, opened
from rerail.collectors.patience import PATIENCE_SECONDS, Patience
from rerail.collectors.pictures import looks_like_picture
from rerail.collectors.plain_text import Piece, evidence_of_text, is_kernel_log
from rerail.collectors.sources.encodings import is_binary, text_bytes
from rerail.server.core.codec import EARLIEST_INSTANT, LATEST_INSTANT
from rerail.server.core.flight_recorder.dump import dump_of, is_dump, is_side_car, rank_in, side_car_of
from rerail.server.core.flight_recorder.json_text import looks_like_json, read_json
from rerail.server.core.flight_recorder.pickles import is_old_pickle, is_pickle, read_pickle
from rerail.server.core.flight_recorder.refusal import DumpRefusedError
from rerail.server.core.flight_recorder.summary import (
    DUMP_CODE,
    GROUPS_CODE,
    SOURCE,
    SUMMARY,
    sentence,
    side_car_summary,
    summary,
    summary_text,
)

CUT_OFF = "the {packing} file is cut off: what came out of it was read"
_ENDINGS = (".gz", ".bz2", ".xz")


class Kind(StrEnum):
    """What a file is."""

    FLIGHT_RECORDER = "flight_recorder"
    PROCESS_GROUPS = "process_groups"
    ERROR_FILE = "error_file"
    KERNEL_LOG = "kernel_log"
    LOG = "log"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Understood:
    """What was made of a file."""

    kind: Kind
    pieces: tuple[Piece, ...] = ()
    refused: tuple[str, ...] = ()
    """What could not be taken and why."""
    remarks: tuple[str, ...] = ()
    zone_is_told: bool = True
    """Its instants say their time zone."""


def understood(
    name: str,
    content: bytes,
    rank: int | None = None,
    near: int | None = None,
    patience: Patience | None = None,
) -> Understood:
    """What a file is, and its evidence. `rank` is whose it is, where somebody says so.

    `near`: the instant, in ns, about which stamps that leave the year out lie. `patience`: for this file and what else
    is given with it; of a text what was read until then is taken.
    """
    patience = patience or Patience(PATIENCE_SECONDS)
    try:
        content, layers, is_cut = opened(content, patience)
    except ValueError as error:
        return Understood(Kind.UNKNOWN, refused=(str(error),))
    found = _understood(name, content, rank, near, patience)
    return (
        replace(found, remarks=(*found.remarks, CUT_OFF.format(packing=" in ".join(layers[::-1])))) if is_cut else found
    )


def _understood(name: str, content: bytes, rank: int | None, near: int | None, patience: Patience) -> Understood:
    """What an unpacked file is."""
    content = text_bytes(content)
    if not content.strip(b"\0 \t\r\n\f\v"):
        return Understood(Kind.UNKNOWN, refused=("the file is empty",))
    for _ in range(2):
        for ending in _ENDINGS:
            name = name.removesuffix(ending)
    whose = rank if rank is not None else rank_in(name)
    if is_pickle(content):
        try:
            return _recorded(read_pickle(content), whose)
        except DumpRefusedError as error:
            return Understood(Kind.FLIGHT_RECORDER, refused=(str(error),))
    if is_old_pickle(content):
        return Understood(
            Kind.FLIGHT_RECORDER,
            refused=("a pickle of protocol 0 or 1: a flight recorder writes protocol 2, and nothing else is read",),
        )
    if looks_like_json(content):
        found = _structured(content, whose, rank)
        if found is not None:
            return found
    if looks_like_picture(content) or is_binary(content):
        return Understood(Kind.UNKNOWN, refused=("neither a flight recorder dump nor text",))
    if (packing := foreign_packing_of(content)) is not None:
        return Understood(Kind.UNKNOWN, refused=(f"packed as {packing}, which is not unpacked here",))
    read = evidence_of_text(content, near, patience)
    kind = Kind.KERNEL_LOG if is_kernel_log(read.pieces) else Kind.LOG
    refused = () if read.pieces else ("no line of it tells of a fault",)
    return Understood(kind, tuple(read.pieces), refused, tuple(read.remarks), read.zone_is_told)


def _structured(content: bytes, whose: int | None, rank: int | None) -> Understood | None:
    """What a JSON text is; None for one that is read as a log."""
    try:
        value = read_json(content)
    except DumpRefusedError as error:
        told = content[:4096]
        looks_recorded = b'"entries"' in told or b'"pg_config"' in told or b'"collective_seq_id"' in told
        return Understood(Kind.FLIGHT_RECORDER, refused=(str(error),)) if looks_recorded else None
    try:
        if is_side_car(value):
            told_groups = side_car_of(value)
            owner = told_groups.rank if told_groups.rank is not None else whose
            found = side_car_summary(told_groups, owner or 0)
            piece = Piece(
                SOURCE, sentence(found), GROUPS_CODE, ((SUMMARY, summary_text(found)),), rank=owner, own_words=True
            )
            return Understood(Kind.PROCESS_GROUPS, (piece,))
        if is_dump(value):
            return _recorded(value, whose)
    except DumpRefusedError as error:
        return Understood(Kind.FLIGHT_RECORDER, refused=(str(error),))
    if isinstance(value, dict) and "message" in value and len(value) <= 8:
        return _error_file(value, rank)
    return None


def _recorded(value: object, rank: int | None) -> Understood:
    if is_side_car(value):
        return Understood(Kind.PROCESS_GROUPS, refused=("process groups are read as JSON, not as a pickle",))
    dump = dump_of(value)
    if rank is None:
        return Understood(
            Kind.FLIGHT_RECORDER,
            refused=("a dump does not say whose it is: name the file by its rank (…_rank_3), or tell the rank",),
        )
    told = summary(dump, rank)
    at = told.last_at if told.last_at and EARLIEST_INSTANT <= told.last_at <= LATEST_INSTANT else None
    attributes = ((SUMMARY, summary_text(told)), ("version", told.version or "1"))
    piece = Piece(SOURCE, sentence(told), DUMP_CODE, attributes, rank=rank, at=at, own_words=True)
    remarks = () if told.is_recorded else ("recording was disabled when this dump was made",)
    return Understood(Kind.FLIGHT_RECORDER, (piece,), remarks=remarks)


def _error_file(value: dict[object, object], rank: int | None) -> Understood:
    """The file that torchelastic's `@record` writes: an exception and its stack."""
    told = value["message"]
    stack, at = "", None
    if isinstance(told, dict):
        extra = told.get("extraInfo")
        extra = extra if isinstance(extra, dict) else {}
        stack = str(extra.get("py_callstack") or "")
        stamp = str(extra.get("timestamp") or "")
        if stamp.isascii() and stamp.isdecimal() and len(stamp) <= 10:
            seconds = int(stamp) * 1_000_000_000
            at = seconds if EARLIEST_INSTANT <= seconds <= LATEST_INSTANT else None
        told = told.get("message")
    if not isinstance(told, str) or not told.strip():
        return Understood(Kind.ERROR_FILE, refused=("message: not text, so nothing says what happened",))
    code = told.partition(":")[0].rpartition(".")[2][:100]
    code = code if code.isidentifier() else "error_file"
    # The exception first, its stack behind it: who reads the evidence sees at once what it was.
    text = told if not stack or stack.strip() == told.strip() else f"{told}\n{stack[-6000:]}"
    return Understood(Kind.ERROR_FILE, (Piece("torchrun", masked(text), code, rank=rank, at=at),))
