"""Line wrappings: what a container's runtime, a journal or a JSON logger makes of a line, undone.

| who | what a line becomes |
|---|---|
| Docker's json-file driver | `{"log":"…\\n","stream":"stderr","time":"…"}`; of a long line the last piece has `\\n` |
| CRI (containerd, CRI-O) | `2026-11-29T12:00:00.123Z stderr F …`; of a long line all pieces but the last have `P` |
| `journalctl -o json` | `{"MESSAGE":"…","_HOSTNAME":"…","__REALTIME_TIMESTAMP":"…"}` |
| a JSON logger | `{"level":"error","message":"…","timestamp":"…"}`; a whole traceback may stand in one of them |
| a progress bar | `10%|█ | 5/50 [00:01<00:10]` again and again, each after a carriage return, without a newline |

Rules
- Pieces wait until the last one came, each in its stream; what waits is bounded and is plain data (a cursor holds it).
- After carriage returns the last text counts: it is what a terminal shows.
- Nothing here raises on any bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rerail.collectors.sources.tail import LONGEST_LINE

MOST_STREAMS = 256
MOST_LINES = 2_000
"""Lines of one record."""

_CRI = re.compile(rb"^(?P<stamp>\d{4}-\d\d-\d\dT[\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)) (?P<stream>std(?:out|err)) P ")
_CRI_ANY = re.compile(rb"^\d{4}-\d\d-\d\dT[\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d) (?P<stream>std(?:out|err)) F ")
_CRI_LINE = re.compile(rb"^\d{4}-\d\d-\d\dT[\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d) std(?:out|err) [FP] ")
_CRI_CUT = re.compile(rb"(?m)" + _CRI_LINE.pattern.replace(b"[FP]", b"P"))
_BAR = re.compile(
    r"^.{0,200}?\d{1,3}(?:\.\d{1,3})?%\|[^|\n]{0,400}\| {0,3}[\d.kMGT]{1,20}/[\d.kMGT?]{1,20} "
    r"\[[^\]\n]{0,300}\](?P<behind>.{0,65536})$"
)
_TEXTS = ("log", "MESSAGE", "textPayload", "message", "msg")
_INSTANTS = ("time", "timestamp", "@timestamp", "ts", "asctime")
_HOSTS = ("hostname", "host", "node", "node_name")
_RANKS = ("rank", "global_rank")
"""What a logger of records calls the machine and the rank that speaks."""
_LEVELS = ("level", "severity", "levelname", "log.level")
_STACKS = ("exc_info", "exception", "stack_trace", "stacktrace", "traceback")
_HEAD = re.compile(rb'^\s{0,8}\{[^\n]{0,16000}?"(?:log|MESSAGE|textPayload|message|msg)" ?: ?["\[]')
_CUT_RECORD = re.compile(rb'(?<!\\n)", ?"stream": ?"std(?:out|err)"')
_SPELLED = re.compile(rb'"MESSAGE" ?: ?\[')
_REST_OF_KERNEL = re.compile(rb"^ (?P<rest>[a-z][\w ,'()-]{2,300}\.?)\r?$")
_KERNEL_SAYS = re.compile(rb"^.{0,160}?\bkernel: (?:\[ {0,12}\d{1,9}\.\d{1,9}\] ?)?")


def with_its_rest(line: bytes, following: bytes) -> bytes:
    """A line of a kernel log with what stands of it on the next, where that goes on with its sentence.

    A message with a newline in it goes on behind one blank (`dmesg`), or as another message of the kernel, where a log
    daemon made two of it: then the first ends with a comma or an equals sign.
    """
    if (rest := _REST_OF_KERNEL.match(following)) is not None and not line.rstrip().endswith(b"."):
        return line.rstrip() + b" " + rest["rest"]
    if line.rstrip().endswith((b"=", b",")):
        own, other = _KERNEL_SAYS.match(line), _KERNEL_SAYS.match(following)
        if own is not None and other is not None and b"NVRM:" not in following:
            return line.rstrip() + following[other.end() :].rstrip()
    return line


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """What a record says, and what it says about it."""

    lines: tuple[str, ...]
    stamp: str | None = None
    """As it is written, with its zone; None where there is none."""
    microseconds: int | None = None
    """Since 1970, where that is how it is told."""
    host: str | None = None
    rank: int | None = None
    level: str = ""
    stream: str = ""
    is_kernel: bool = False
    is_whole: bool = True
    """False for a piece that others follow."""


def is_wrapped(head: bytes) -> bool:
    """Whether a file that begins so is a log of which every line is a JSON record."""
    first = head.lstrip(b" \r\n").partition(b"\n")[0]
    if first[:1] != b"{" or _HEAD.match(first) is None:
        return False
    if len(first) >= len(head) - 1 and not first.rstrip().endswith(b"}"):  # its end is not seen
        return first.startswith((b'{"log":', b'{"MESSAGE":'))
    try:
        told = json.loads(first)
    except (ValueError, RecursionError):
        return False
    has_text = any(isinstance(told.get(name), str | list) for name in _TEXTS)
    return has_text and any(name in told for name in (*_INSTANTS, *_LEVELS, "stream", "__REALTIME_TIMESTAMP"))


def may_be_record(raw: bytes) -> bool:
    """Whether a line may be a record that holds a line."""
    return raw[:1] == b"{" and _HEAD.match(raw) is not None


def unwrapped(raw: bytes) -> Unwrapped | None:
    """What a JSON record of a log says; None for a line that is none."""
    if not may_be_record(raw):
        return None
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    text = next((_text(told[name]) for name in _TEXTS if name in told), None)
    if text is None:
        return None
    if "log" in told and "stream" in told:
        return Unwrapped(
            (text.rstrip("\r\n"),), _words(told.get("time")), stream=_words(told["stream"]) or "",
            is_whole=text.endswith("\n") or len(text) < 8192,
        )  # fmt: skip
    for name in _STACKS:
        stack = told.get(name)
        if isinstance(stack, str) and stack.strip():
            text = f"{text}\n{stack}"
    lines = tuple(line.rstrip("\r") for line in text.split("\n")[:MOST_LINES])
    if "MESSAGE" in told:
        micro = _words(told.get("__REALTIME_TIMESTAMP")) or ""
        return Unwrapped(
            lines, None, int(micro) if micro.isascii() and micro.isdigit() and len(micro) < 18 else None,
            _words(told.get("_HOSTNAME")), stream=_words(told.get("_PID")) or "",
            is_kernel=told.get("_TRANSPORT") == "kernel",
        )  # fmt: skip
    stamp = next((_words(told[name]) for name in _INSTANTS if name in told), None)
    level = next((_words(told[name]) or "" for name in _LEVELS if name in told), "")
    host = next((_words(told[name]) for name in _HOSTS if name in told), None)
    rank = next((told[name] for name in _RANKS if name in told), None)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < 10_000_000:
        rank = int(rank) if isinstance(rank, str) and re.fullmatch(r"[0-9]{1,7}", rank) else None
    return Unwrapped(lines, stamp, host=host, rank=rank, level=level.upper()[:20])


def _words(value: object) -> str | None:
    return value[:200] if isinstance(value, str) else None


def _text(value: object) -> str | None:
    """The words of a record; a journal writes those that are no UTF-8 as a list of bytes."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) <= LONGEST_LINE:
        try:
            return bytes(value).decode("utf-8", "replace")
        except (ValueError, TypeError):
            return None
    return None


def is_piece(raw: bytes) -> bool:
    """Whether a line is a piece of one, which others follow."""
    return (b" P " in raw[:60] and _CRI.match(raw) is not None) or (
        raw[:1] == b"{" and len(raw) > 8192 and _CUT_RECORD.search(raw) is not None
    )


def is_spelled(raw: bytes) -> bool:
    """Whether a record lists its words byte by byte, so that none can be seen in it: a journal does, of what is not
    plain UTF-8 text."""
    return raw[:1] == b"{" and _SPELLED.search(raw) is not None


def cut_records(block: bytes) -> list[int]:
    """Where the lines of a block begin that are pieces of longer ones; most logs have none."""
    if _CRI_LINE.match(block) is not None:
        return [cut.start() for cut in _CRI_CUT.finditer(block)]
    if b'"stream":' not in block:
        return []
    return [block.rfind(b"\n", 0, cut.start()) + 1 for cut in _CUT_RECORD.finditer(block)]


class Pieces:
    """Lines that come in pieces. `waiting` maps a stream to what came of its line so far."""

    def __init__(self, waiting: Mapping[str, str] | None = None) -> None:
        self.waiting = dict(waiting or {})

    def cri(self, raw: bytes) -> bytes | None:
        """The line with its earlier pieces in front; None while more must come."""
        if b" P " in raw[:60] and (piece := _CRI.match(raw)):
            return self._wait(piece["stream"].decode(), raw[piece.end() :].rstrip(b"\r\n").decode("utf-8", "replace"))
        if self.waiting and (whole := _CRI_ANY.match(raw)):
            before = self.waiting.pop(whole["stream"].decode(), "")
            return raw[: whole.end()] + before.encode() + raw[whole.end() :]
        return raw

    def docker(self, record: Unwrapped) -> Unwrapped | None:
        """The record with its earlier pieces in front; None while more must come."""
        text = record.lines[0]
        key = f"docker {record.stream}"
        if not record.is_whole:
            self._wait(key, text)
            return None
        before = self.waiting.pop(key, "")
        return Unwrapped((before + text,), record.stamp, stream=record.stream) if before else record

    def _wait(self, stream: str, text: str) -> None:
        if stream not in self.waiting and len(self.waiting) >= MOST_STREAMS:
            self.waiting.clear()
        self.waiting[stream] = (self.waiting.get(stream, "") + text)[-LONGEST_LINE:]


def begins_later(raw: bytes) -> int:
    """Where, in a line, the text begins that stands behind its last carriage return; 0 without one."""
    end = len(raw.rstrip(b"\r\n"))
    return raw.rfind(b"\r", 0, end) + 1


def behind_the_bar(text: str) -> str:
    """A line without the progress bar in front of it, where something stands behind one."""
    if "%|" not in text:
        return text
    bar = _BAR.match(text)
    return bar["behind"].lstrip(" ") if bar is not None and bar["behind"].strip() else text
