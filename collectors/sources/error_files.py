"""Error files: what torchelastic writes for a worker that raised (`error.json`, beside its `stderr.log`).

Rules
- The message may be an object with `message` and `extraInfo` (traceback, time in seconds as text), or plain text.
- Workers that were killed, crashed or called `sys.exit` write none: a missing file says nothing.
- Where the file lies tells the attempt and the local rank: `…/attempt_<restart>/<local rank>/error.json`.
- The rank is the local rank, as long as nothing says that there is more than one node.
- A file is at most 1 MB; anything that is no such file is refused with the reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.masking import masked
from rerail.collectors.sources.tracebacks import Ended, Tracebacks
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Evidence

MOST_BYTES = 1_000_000
PLACE = re.compile(r"attempt_(?P<attempt>\d{1,6})/(?P<local>\d{1,6})/")
_TYPE = re.compile(r"^([A-Za-z_][\w.]{0,200})(?:: |:?$)")
FIRST_INSTANT_S, LAST_INSTANT_S = 946_684_800, 4_102_444_800


@dataclass(frozen=True, slots=True)
class ErrorFile:
    """What an error file tells."""

    message: str
    callstack: str
    at: int | None


def error_file(data: bytes) -> ErrorFile:
    """What the bytes of an error file tell. Raises FactError where they are none."""
    if len(data) > MOST_BYTES:
        raise FactError("error file", str(len(data)), f"longer than {MOST_BYTES} bytes")
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        raise FactError("error file", repr(data[:40]), "no JSON") from None
    message = told.get("message") if isinstance(told, dict) else None
    if isinstance(message, str):
        return ErrorFile(message, "", None)
    if not isinstance(message, dict) or not isinstance(message.get("message"), str):
        raise FactError("message", repr(message)[:80], "neither text nor an object with a message")
    extra = message.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    callstack = extra.get("py_callstack")
    return ErrorFile(message["message"], callstack if isinstance(callstack, str) else "", _instant(extra))


def _instant(extra: dict[str, object]) -> int | None:
    told = extra.get("timestamp")
    try:
        seconds = int(str(told)[:20])
    except ValueError:
        return None
    return seconds * 1_000_000_000 if FIRST_INSTANT_S <= seconds < LAST_INSTANT_S else None


def is_error_file(head: bytes) -> bool:
    """Whether a file that begins so may be one."""
    return head.lstrip()[:1] == b"{" and b'"message"' in head[:4000]


def evidence_of_error_file(
    data: bytes, *, path: str, run: str, emitter: str, fallback_at: int, node: str | None = None
) -> list[Evidence]:
    """The exceptions of an error file, the first of a chain first. Raises FactError where it is none."""
    told = error_file(data)
    place = PLACE.search(path.replace("\\", "/"))
    at = told.at if told.at is not None else fallback_at
    found = []
    for seq, ended in enumerate(_ends(told)):
        attributes = {"frame": ended.frame, "own_frame": ended.own_frame, "through": ended.through}
        named = _TYPE.match(ended.last)
        found.append(
            Evidence(
                run=run, emitter=emitter, seq=seq, at=at, node=node, source="torchrun", text=masked(ended.last) or "?",
                code=named[1].rpartition(".")[2][:200] if named else None,
                restart=int(place["attempt"]) if place else None, rank=int(place["local"]) if place else None,
                local_rank=int(place["local"]) if place else None,
                attributes=tuple(sorted((name, masked(value)) for name, value in attributes.items() if value)),
            )
        )  # fmt: skip
    return found


def _ends(told: ErrorFile) -> list[Ended]:
    tracebacks = Tracebacks()
    ends = []
    for line in told.callstack[:MOST_BYTES].splitlines()[:20_000]:
        if ended := tracebacks.take("", line):
            ends.append(ended)
    return ends[:20] or [Ended(told.message[:4000], "", "", "")]


def _read(old: OldFile) -> Iterator[Evidence]:
    data = old.content()
    try:
        yield from evidence_of_error_file(
            data,
            path=old.path,
            run=old.run or old.stem,
            emitter=f"error-file/{hashlib.sha256(old.path.encode()).hexdigest()[:16]}",
            fallback_at=0,
        )
    except FactError as error:
        old.refuse(1, error)


FORMAT = ImportFormat(
    name="error-file",
    summary="a torchelastic error.json; its place (attempt_N/R/) tells attempt and local rank",
    read=_read,
    example="logs/attempt_0/3/error.json --run llm",
    tells="the exception of one worker, its traceback and when it was raised",
    cannot_tell="anything of the attempt around it: import the launcher's log too, or the whole folder as logs",
)
