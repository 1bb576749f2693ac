"""Kernel messages from the journal: `journalctl -o json`, from a cursor on.

Rules
- `_TRANSPORT=kernel` without `-b` shows earlier starts of the machine too: a machine that died tells its last words
  when it is back.
- An entry's number in the journal (`i=` of its cursor) is its place; with the journal's own id (`s=`) it is the same
  whoever reads it. An entry without it is passed over.
- Of a long backlog so much is read at once as `LARGEST_ANSWER` holds.
- A cursor that is no longer there makes journalctl begin at the nearest entry, or fail: then it is begun anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.collectors.asked_programs import ProgramHung, TooMuchPrinted, ask
from rerail.collectors.source import SourceDown

COMMAND_SECONDS = 60.0
LARGEST_ANSWER = 64 * 1024 * 1024
"""Of one look; the next goes on behind its last whole entry."""
_PLACE = re.compile(r"s=([0-9a-f]{1,40});i=([0-9a-f]{1,15})(?:;|$)")
_LOST = re.compile(r"[Ff]ailed to seek to cursor|[Ii]nvalid cursor|Failed to seek")


class CursorLost(Exception):  # noqa: N818 - named as the condition it tells
    """The journal no longer holds the entry that was read last."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One message of the kernel."""

    journal: str
    number: int
    at: int
    """Nanoseconds since 1970, by the machine's clock when it was written."""
    text: str
    cursor: str
    host: str = ""


Run = Callable[[Sequence[str]], bytes]
"""Runs a command and gives what it printed. Raises `SourceDown`, `CursorLost`."""


def run_journalctl(words: Sequence[str], *, seconds: float = COMMAND_SECONDS, largest: int = LARGEST_ANSWER) -> bytes:
    """What journalctl prints. Raises `SourceDown`, `CursorLost`."""
    try:
        printed = ask(words, seconds=seconds, largest=largest, settings={"LC_ALL": "C"})
    except FileNotFoundError:
        raise SourceDown(f"{words[0]} is not installed here") from None
    except TooMuchPrinted as error:
        begun = error.begun[: error.begun.rfind(b"\n") + 1]
        if not begun:
            raise SourceDown(f"{error}, and no entry of them is whole") from None
        return begun
    except (OSError, ProgramHung) as error:
        raise SourceDown(f"{words[0]}: {error}"[:300]) from None
    said = printed.complaint
    if printed.code and _LOST.search(said):
        raise CursorLost(said.splitlines()[0][:200])
    if printed.code or (not printed.output and re.search(r"No journal files|not seeing messages|ermission", said)):
        raise SourceDown(f"{words[0]} failed with {printed.code}: {said.splitlines()[0][:200] if said else '?'}")
    return printed.output


def command(cursor: str | None, since: int) -> list[str]:
    """The words that ask for what follows `cursor`, or what was written since `since`, seconds."""
    begin = [f"--after-cursor={cursor}"] if cursor else [f"--since=@{since}"]
    return ["journalctl", "--no-pager", "--all", "-o", "json", *begin, "_TRANSPORT=kernel"]


def read_entry(raw: bytes) -> JournalEntry | None:
    """An entry as `-o json` prints it; None for what is none. A message of bytes is an array of numbers."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    message = told.get("MESSAGE")
    if isinstance(message, list) and all(isinstance(each, int) and 0 <= each < 256 for each in message):
        message = bytes(message).decode("utf-8", "replace")
    cursor, stamp = told.get("__CURSOR"), told.get("__REALTIME_TIMESTAMP")
    place = _PLACE.search(cursor) if isinstance(cursor, str) else None
    if not isinstance(message, str) or place is None or not isinstance(stamp, str) or len(stamp) > 17:
        return None
    if not (stamp.isascii() and stamp.isdigit()):
        return None
    host = told.get("_HOSTNAME")
    return JournalEntry(
        place[1],
        int(place[2], 16),
        int(stamp) * 1000,
        message,
        str(cursor),
        host[:200] if isinstance(host, str) else "",
    )
