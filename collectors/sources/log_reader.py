"""Log reader: the facts of a whole log, without looking at most of its lines.

Rules
- The file is read in blocks. Only lines that hold a literal word (`telling.LITERALS`) are looked at, by the same
  grammar that follows a growing log (`launcher_log.py`); the words are searched in shapes, which
  are lines without digits, and of which most logs have few.
- Where lines belong together every line is read: inside a traceback, inside a block of settings, and until the stamp
  for which evidence waits. That is bounded; a traceback that never ends is given up.
- A line whose shape (itself without digits) said nothing once says nothing again; a shape that was kept often enough
  is only counted. So a storm costs little more than a search.
- Memory is bounded by the block, the longest line, and what is kept of an attempt (`attempts.py`).
- Offsets are bytes of the file, so that reading it again states the same facts.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from rerail.collectors.sources.attempts import Attempts, AttemptState
from rerail.collectors.sources.launcher_log import LauncherLog
from rerail.collectors.sources.log_lines import LocalClock
from rerail.collectors.sources.tail import LONGEST_LINE
from rerail.collectors.sources.telling import LITERALS, is_telling
from rerail.collectors.sources.tracebacks import HEAD, Tracebacks
from rerail.server.core.facts import Evidence, Fact

BLOCK_BYTES = 4 * 1024 * 1024
MOST_SHAPES = 20_000
OFTEN = 64
"""A shape that was kept so often is only counted from then on."""
LINES_TOGETHER = 3_000
"""So many lines are read one by one after the last that began something; then what is open is given up."""
AGAIN_BYTES = 64 * 1024 * 1024
_DIGITS = b"0123456789"
_BEHIND = re.compile(rb"last enqueued (?:NCCL )?work: (\d{1,12})")
_GRAMMAR = re.compile(
    r"exitcode|Worker group|closing signal|Stopping workers|Event: \w|endezvous|attempts? (?:left|to join)|_ex: "
    r"|has joined|death signal|launch configs|torchrun|ft_launcher|NestedRestarter|TORCHELASTIC_ENABLE|finished|Agent "
    r"|heartbeat|has been open|out of section|ChildFailedError|Starting worker|Joining cluster|restart_count=|EARLY"
    r"|RankMonitorState"
)


@dataclass(slots=True)
class Read:
    """What a log came to."""

    facts: list[Fact]
    bytes: int = 0
    lines_looked_at: int = 0
    lines_counted: int = 0
    """Lines of a kind of which enough was kept."""
    digest: str = ""
    is_stamped: bool = False
    """Some line of it tells when it was."""


class _Shapes:
    """What is known of lines by their shape."""

    def __init__(self) -> None:
        self._silent: set[bytes] = set()
        self._kept: dict[bytes, int] = {}
        self._least: int | None = None
        self.counted = 0

    def wants(self, line: bytes) -> bool:
        """Whether a line must be read."""
        shape = line[:400].translate(None, _DIGITS)
        if shape in self._silent:
            return False
        count = self._kept.get(shape)
        if count is None:
            text = line[:8000].decode("utf-8", "replace")
            if HEAD in text or _GRAMMAR.search(text) is not None:
                return True
            if not is_telling(text) and b"cpp:" not in line and b" NVRM" not in line:
                if len(self._silent) < MOST_SHAPES:
                    self._silent.add(shape)
                return False
            count = 0
        if len(self._kept) < MOST_SHAPES or shape in self._kept:
            self._kept[shape] = count + 1
        if count >= OFTEN and not self._is_behind(line):
            self.counted += 1
            return False
        return True

    def _is_behind(self, line: bytes) -> bool:
        """A rank that had issued less than every rank before it."""
        told = _BEHIND.search(line)
        if told is None:
            return False
        work = int(told[1])
        if self._least is None or work < self._least:
            self._least = work
            return True
        return False


def _hits(block: bytes, quiet: set[bytes]) -> list[int]:
    """Where the lines of a block begin that hold a literal, in order; `quiet` are shapes that hold none.

    Most lines of a log differ by their digits alone: without them a block is a handful of shapes, and only new shapes
    are searched. Where shapes are many, the block is searched as it is.
    """
    shapes = block.translate(None, _DIGITS).split(b"\n")
    fresh = set(shapes) - quiet
    if not fresh:
        return []
    if len(fresh) > 64 and len(fresh) * 4 > len(shapes):
        return _searched(block)
    loud = {shape for shape in fresh if any(literal in shape for literal in LITERALS)}
    if len(quiet) < MOST_SHAPES:
        quiet |= fresh - loud
    if not loud:
        return []
    starts, at = [], 0
    for shape, line in zip(shapes, block.split(b"\n"), strict=True):
        if shape in loud:
            starts.append(at)
        at += len(line) + 1
    return starts


def _searched(block: bytes) -> list[int]:
    starts: set[int] = set()
    for literal in LITERALS:
        at = block.find(literal)
        while at >= 0:
            starts.add(block.rfind(b"\n", 0, at) + 1)
            end = block.find(b"\n", at)
            if end < 0:
                break
            at = block.find(literal, end)
    return sorted(starts)


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """`(first byte, whole lines)`; a line longer than a block is cut."""
    offset, rest = 0, b""
    while data := file.read(BLOCK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) < 2 * BLOCK_BYTES:
            rest = data
            continue
        end = end or len(data)
        yield offset, data[:end]
        offset, rest = offset + end, data[end:]
    if rest:
        yield offset, rest


def read_log(
    file: BinaryIO,
    *,
    emitter: str,
    run: str,
    node: str | None = None,
    fallback_at: int | None = None,
    zone_seconds: int | None = 0,
    year: int | None = None,
    restart: int | None = None,
    prefix: bytes = b"",
    worker_only: bool = False,
    tell: Callable[[int], None] | None = None,
) -> Read:
    """The facts of a whole log.

    `fallback_at` is the instant of evidence in a log without any stamp; `restart` says which attempt the whole log is
    of, where its place tells; `prefix` is put before every line (`[default1]:` for the log of local rank 1);
    `worker_only`: no line of it is a launcher's. `tell` hears how many bytes were read.
    """
    options = _Options(emitter, run, node, fallback_at, zone_seconds, year, restart, prefix, worker_only, tell)
    read = _read(file, options, None)
    if not read.is_stamped and fallback_at is not None and read.bytes < AGAIN_BYTES and file.seekable():
        # Lines of the in-process wrapper are moments, and need an instant: in a log without any, all are one.
        file.seek(0)
        read = _read(file, options, fallback_at)
    return read


@dataclass(frozen=True, slots=True)
class _Options:
    """What `read_log` was asked."""

    emitter: str
    run: str
    node: str | None
    fallback_at: int | None
    zone_seconds: int | None
    year: int | None
    restart: int | None
    prefix: bytes
    worker_only: bool
    tell: Callable[[int], None] | None


def _read(file: BinaryIO, options: _Options, last_at: int | None) -> Read:
    state = AttemptState(attempt=options.restart or 0, last_at=last_at)
    attempts = Attempts(state, emitter=options.emitter, node=options.node or "", run=options.run, run_is_told=True)
    log = LauncherLog(attempts, LocalClock(options.zone_seconds, options.year), Tracebacks())
    take = log.take_worker if options.worker_only else log.take
    fallback_at = options.fallback_at
    shapes = _Shapes()
    quiet: set[bytes] = set()
    read = Read(attempts.facts)
    digest = hashlib.sha256()
    together = 0
    for offset, block in _blocks(file):
        digest.update(block)
        read.bytes += len(block)
        starts = [0, *_hits(block, quiet)] if offset == 0 else _hits(block, quiet)
        index = at = 0
        while True:
            if log.tracebacks.open or state.held or log.block:
                if together <= 0:
                    _give_up(log, attempts, state, fallback_at)
                    continue
                together -= 1
                if index < len(starts) and starts[index] <= at:
                    index += 1
                    is_hit = True
                else:
                    is_hit = False
            else:
                while index < len(starts) and starts[index] < at:
                    index += 1
                if index >= len(starts):
                    break
                at = starts[index]
                index += 1
                is_hit = True
            if at >= len(block):
                break
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            line = block[at : min(end, at + LONGEST_LINE)]
            at_line, at = at, end + 1
            is_open = bool(log.tracebacks.open) or bool(log.block)
            if not is_open and is_hit and not shapes.wants(line) and not state.held:
                continue
            read.lines_looked_at += 1
            before = len(attempts.facts) + len(state.held) + len(log.tracebacks.open)
            take(options.prefix + line, offset + at_line)
            if len(attempts.facts) + len(state.held) + len(log.tracebacks.open) > before:
                together = LINES_TOGETHER
        if options.tell is not None:
            options.tell(read.bytes)
    read.is_stamped = state.last_at is not None and state.last_at != fallback_at
    _give_up(log, attempts, state, fallback_at)
    read.lines_counted = shapes.counted
    read.digest = digest.hexdigest()
    read.facts = [_placed(fact, options.node) for fact in attempts.facts]
    return read


def _give_up(log: LauncherLog, attempts: Attempts, state: AttemptState, fallback_at: int | None = None) -> None:
    """Nothing more will come of what is open."""
    log.tracebacks.open.clear()
    log.block = ""
    if state.held:
        at = state.last_at if state.last_at is not None else fallback_at
        if at is None:
            at = 0
        attempts.heard(at)


def _placed(fact: Fact, node: str | None) -> Fact:
    return replace(fact, node=node) if fact.node == "" else fact


def evidence_of_text(
    data: bytes | BinaryIO,
    *,
    run: str,
    emitter: str,
    fallback_at: int,
    job: str | None = None,
    requeue: int | None = None,
    restart: int | None = None,
    iteration: int | None = None,
    node: str | None = None,
    artefact: str | None = None,
) -> list[Evidence]:
    """The evidence that a log or any other text holds, of whatever kind it is, for one attempt whose key is given.

    The text is masked. Evidence has the stamp of its line where it carries one, else `fallback_at`; `seq` follows from
    its place in the text, so that the same text gives the same facts. Never raises on any bytes.
    """
    file = io.BytesIO(data) if isinstance(data, bytes) else data
    read = read_log(file, emitter=emitter, run=run, node=node, fallback_at=fallback_at)
    found = []
    for fact in read.facts:
        if isinstance(fact, Evidence):
            at = fact.at if fact.at > 0 else fallback_at
            found.append(
                replace(
                    fact, at=at, job=job, requeue=requeue, restart=restart, iteration=iteration, artefact=artefact
                )
            )  # fmt: skip
    return found
