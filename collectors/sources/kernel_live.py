"""Kernel source: what the kernel of this machine says, as it says it: `/dev/kmsg`, the journal, or a file.

Rules
- Every line is read as an imported kernel log is (`log_lines.py`); what may matter is evidence: XIDs, lost GPUs, kills
  for memory, links that went down. What an XID means is looked up where evidence is shown and judged.
- In a file, or in a journal that was brought together, a line may name its machine: that is the node, since a log
  daemon may collect the lines of many. The name that was given, or that recorders use, is the node where a line names
  none, or names this machine.
- The cursor is the place in the log (`boot` and sequence number, journal cursor, byte of a file): an agent that is
  started anew goes on there.
- Messages that were overwritten before they were read, and those of a start of the machine that is over, are stated
  blind, from the last that was read to the first that is there.
- Nothing is stated while no run is known, and of the first look only what was said within `since_hours`: a machine
  remembers more than concerns this run. How many lines were left out for it is logged.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rerail.collectors.arguments import number_between
from rerail.collectors.identity import identity, settings
from rerail.collectors.live_sources import LiveSource
from rerail.collectors.masking import masked
from rerail.collectors.source import NotConfigured, Polled, Source, SourceDown
from rerail.collectors.sources import journal, kmsg
from rerail.collectors.sources.line_wrappings import unwrapped
from rerail.collectors.sources.log_lines import LocalClock, read_line, read_record
from rerail.collectors.sources.partial_sight import PartialSight
from rerail.collectors.sources.tail import fingerprint, whole_lines
from rerail.collectors.sources.telling import is_telling
from rerail.server.core.codec import EARLIEST_INSTANT, LATEST_INSTANT
from rerail.server.core.facts import Blind, Evidence, Fact

logger = logging.getLogger("rerail.kernel")

MOST_RECORDS = 5_000
MOST_OF_A_RECORD = 16
"""Lines that are taken of one record: they are numbered by its bytes, of which it has more."""
LOOK_SECONDS = 1.0
JOURNAL_SECONDS = 5.0
DOWN_SECONDS = 10.0
UNDATED = "undated lines"
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the kernel, or a gap before it."""

    log: str
    """Which log: a boot, a journal, a file."""
    number: int
    at: int | None
    text: str = ""
    code: str | None = None
    host: str | None = None
    """The machine that the line names."""
    gap_since: int | None = None
    """Nothing between then and `at` could be read; `text` says why."""


class Opening(Protocol):
    """Somewhere the kernel's words can be read. `memory` is plain data and part of the cursor."""

    interval_seconds: float
    left_out: int
    """Lines that may matter and are older than what a first look was asked for; of a journal nobody knows."""

    def read(self, memory: dict[str, Any], since: int) -> Iterator[Said]:
        """What follows; of a first look (`memory` is empty) what was said since `since`, ns. Raises `SourceDown`."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class KmsgOpening:
    """`/dev/kmsg`."""

    interval_seconds = LOOK_SECONDS

    def __init__(
        self,
        device: kmsg.Device | None = None,
        boot: Callable[[], str] = kmsg.boot_id,
        booted_at: Callable[[], int] = kmsg.booted_at,
    ) -> None:
        self._device = device or kmsg.Device()
        self._boot = boot
        self._booted_at = booted_at
        self.left_out = 0
        self._read_to: tuple[str, int] | None = None

    def close(self) -> None:
        """Close the device."""
        self._device.close()

    def read(self, memory: dict[str, Any], since: int) -> Iterator[Said]:
        """Records after the one in `memory`."""
        boot = self._boot()
        began = self._booted_at()
        known = memory.get("boot")
        if known == boot and abs(began - memory["began"]) < SECOND:
            began = memory["began"]
        if known != boot:
            if known is not None:
                yield Said(
                    boot, 0, began, "the machine was started anew; what its kernel said last is gone",
                    gap_since=memory["at"],
                )  # fmt: skip
            memory.update(boot=boot, sequence=-1, at=began)
        memory["began"] = began
        if self._read_to != (boot, memory["sequence"]):  # another cursor than ours: from the oldest record on
            self._device.close()
        is_first = known is None
        for raw in self._device.records(MOST_RECORDS):
            record = kmsg.read_record(raw)
            if record is None or record.sequence <= memory["sequence"]:
                continue
            at = began + record.at
            missing = record.sequence - memory["sequence"] - 1
            if missing and not is_first:
                yield Said(
                    boot, record.sequence, at, f"{missing} messages were overwritten before they were read",
                    gap_since=memory["at"],
                )  # fmt: skip
            is_first = False
            memory.update(sequence=record.sequence, at=at)
            if known is not None or at >= since:
                yield Said(boot, record.sequence, at, record.text)
            else:
                self.left_out += is_telling(record.text)
        self._read_to = (boot, memory["sequence"])


class JournalOpening:
    """The journal, through journalctl."""

    interval_seconds = JOURNAL_SECONDS

    def __init__(self, run: journal.Run = journal.run_journalctl) -> None:
        self._run = run
        self.left_out = 0

    def close(self) -> None:
        """Nothing is kept open."""

    def read(self, memory: dict[str, Any], since: int) -> Iterator[Said]:
        """Entries after the one in `memory`."""
        begin = memory.get("since") or since // SECOND
        memory["since"] = begin
        known = memory.get("cursor")
        lost_since = None
        try:
            printed = self._run(journal.command(known, begin))
        except journal.CursorLost:
            lost_since = memory["at"]
            printed = self._run(journal.command(None, lost_since // SECOND))
        for raw in printed.splitlines():
            entry = journal.read_entry(raw)
            if entry is None:
                continue
            if lost_since is not None:
                yield Said(
                    entry.journal, entry.number, entry.at, "the journal no longer holds what was read last",
                    gap_since=lost_since,
                )  # fmt: skip
                lost_since = None
            memory.update(cursor=entry.cursor, at=entry.at)
            yield Said(entry.journal, entry.number, entry.at, entry.text, host=entry.host or None)


class FileOpening:
    """A file that a log daemon writes (`/var/log/kern.log`). Where a line has no date, that is stated blind."""

    interval_seconds = LOOK_SECONDS

    def __init__(self, path: Path) -> None:
        self._path = path
        self.left_out = 0

    def close(self) -> None:
        """Nothing is kept open."""

    def read(self, memory: dict[str, Any], since: int) -> Iterator[Said]:
        """Whole lines after the byte in `memory`."""
        try:
            mark = fingerprint(self._path)
            status = self._path.stat()
            size = status.st_size
            if mark is None:
                return
            if memory.get("mark") != mark or size < memory["offset"]:
                memory.update(mark=mark, offset=0, from_since=since if "mark" not in memory else 0)
            clock = LocalClock(latest=status.st_mtime_ns)
            for offset, raw, after in whole_lines(self._path, memory["offset"]):
                raw = raw.lstrip(b"\0")
                record = unwrapped(raw)  # `journalctl -o json`, and what else writes a line as a record
                lines = [read_line(raw, clock)] if record is None else read_record(record, clock)
                host = None if record is None else record.host
                memory["offset"] = after
                for place, line in enumerate(lines[:MOST_OF_A_RECORD]):
                    if line.source != "kernel":
                        continue
                    if line.at is not None and line.at < memory["from_since"]:
                        self.left_out += is_telling(line.text)
                        continue
                    yield Said(mark, offset + place, line.at, line.text, line.code, line.node or host)
        except OSError as error:
            raise SourceDown(f"{self._path}: {error.strerror or error}") from None


class KernelSource:
    """The kernel's words that matter, for one run."""

    def __init__(
        self,
        opening: Opening,
        node: str,
        run: Callable[[], str | None],
        *,
        known_as: Iterable[str] = (),
        since_hours: float = 1.0,
        now: Callable[[], float] = time.time,
        is_guessed: bool = False,
    ) -> None:
        """`node` is this machine; `known_as`: what else it is called by log daemons. `is_guessed`: nobody said that
        the file is of this machine, so that once a line names none it is said whose it is taken to be.
        """
        self._is_guessed = is_guessed
        self.name = "kernel"
        self._names = {"localhost", *map(_short, (node, *known_as))}
        self._opening = opening
        self._node = node
        self._run = run
        self._since = since_hours * 3600
        self._now = now
        self._next_at = 0.0
        self._reason: str | None = None

    @property
    def runs(self) -> tuple[str, ...]:
        """The run that is told."""
        run = self._run()
        return () if run is None else (run,)

    def close(self) -> None:
        """Give the log back."""
        self._opening.close()

    def poll(self, cursor: str | None) -> Polled:
        """What was said since. Raises `SourceDown`."""
        now = self._now()
        if now < self._next_at:
            if self._reason is not None:
                raise SourceDown(self._reason)
            return Polled((), cursor or "")
        self._next_at = now + self._opening.interval_seconds
        self._reason = None
        try:
            return self._look(cursor)
        except SourceDown as error:
            self._reason = str(error)
            self._next_at = now + DOWN_SECONDS
            raise

    def finish(self, cursor: str | None) -> Polled:
        """Everything that is there now. Raises `SourceDown`."""
        facts: list[Fact] = []
        while (polled := self._look(cursor)).cursor != cursor:
            facts += polled.facts
            cursor = polled.cursor
        return Polled(tuple(facts), polled.cursor)

    def _look(self, cursor: str | None) -> Polled:
        run = self._run()
        if run is None:
            return Polled((), cursor or "")
        memory = _memory(cursor)
        facts: list[Fact] = []
        for said in self._opening.read(memory, int((self._now() - self._since) * SECOND)):
            facts += self._facts_of(said, run, memory)
        if self._opening.left_out:
            logger.warning(
                "kernel: left out what is older and may matter (lines: %d); --since-hours goes farther back (now %g)",
                self._opening.left_out, self._since / 3600,
            )  # fmt: skip
            self._opening.left_out = 0
        return Polled(tuple(facts), json.dumps(memory, separators=(",", ":"), sort_keys=True))

    def _facts_of(self, said: Said, run: str, memory: dict[str, Any]) -> Iterator[Fact]:
        log = hashlib.sha256(said.log.encode("utf-8", "replace")).hexdigest()[:12]
        emitter = f"kernel/{self._node[:150]}/{log}"
        if said.gap_since is not None and said.at is not None:
            since, until = min(said.gap_since, said.at), said.at
            if since >= EARLIEST_INSTANT and until < LATEST_INSTANT:
                yield Blind(
                    run=run, emitter=f"{emitter}/blind", seq=said.number, at=until, node=self._node,
                    source=f"kernel of {self._node}"[:200], since=since, until=until, reason=said.text,
                )  # fmt: skip
            return
        text, code = said.text, said.code
        if code is None:
            line = read_line(b"<4>" + text.replace("\n", " ").encode("utf-8", "replace"), LocalClock(0))
            if line.source != "kernel" or not is_telling(text):
                return
            code = line.code
        if said.at is None or not EARLIEST_INSTANT <= said.at < LATEST_INSTANT:
            yield from self._sight(memory).cannot_see(UNDATED, f"no date stands before {masked(text)[:200]!r}", (run,))
            return
        yield from self._sight(memory).sees(UNDATED)
        yield Evidence(
            run=run, emitter=emitter, seq=said.number, at=said.at, node=self._node_of(said), source="kernel",
            text=masked(text)[:8000] or "?", code=code,
        )  # fmt: skip

    def _node_of(self, said: Said) -> str:
        if said.host is None and self._is_guessed:
            self._is_guessed = False
            logger.warning(
                "kernel: lines name no machine: taken to be of this one (%s); --node says whose they are", self._node
            )
        return self._node if said.host is None or _short(said.host) in self._names else said.host[:200]

    def _sight(self, memory: dict[str, Any]) -> PartialSight:
        return PartialSight(f"kernel of {self._node}"[:150], memory.setdefault("blind", {}))


def _short(name: str) -> str:
    """A machine's name without its domain; of an address all of it."""
    return name if name.replace(".", "").isdigit() else name.partition(".")[0].lower()


def _memory(cursor: str | None) -> dict[str, Any]:
    """What a cursor holds; one that makes no sense is the beginning."""
    try:
        told = json.loads(cursor) if cursor else {}
    except ValueError:
        return {}
    if not isinstance(told, dict):
        return {}
    words = {"boot": str, "mark": str, "cursor": str}
    numbers = {"boot": ("sequence", "at", "began"), "mark": ("offset", "from_since"), "cursor": ("at", "since")}
    for name, needed in numbers.items():
        if name in told and not (
            isinstance(told[name], words[name]) and all(isinstance(told.get(each), int) for each in needed)
        ):
            return {}
    if not isinstance(told.get("since", 0), int) or not isinstance(told.get("blind", {}), dict):
        return {}
    return told


def kernel_opening(told: str) -> Opening:
    """What `rerail agent --kernel` names: `kmsg`, `journal`, else a file."""
    if told == "kmsg":
        return KmsgOpening()
    return JournalOpening() if told == "journal" else FileOpening(Path(told))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kmsg", action="store_true", help="read /dev/kmsg (default)")
    where.add_argument("--journal", action="store_true", help="ask journalctl")
    where.add_argument("--file", type=Path, help="follow a file that a log daemon writes, such as /var/log/kern.log")
    parser.add_argument(
        "--node",
        help="the name of this machine (default: as recorders name it), or of the one that --file is of where its "
        "lines name none (dmesg -T); a line that names another is of that one",
    )
    parser.add_argument(
        "--since-hours", type=number_between(0), default=1.0, help="how far the first look goes back (default 1)"
    )


def _make(arguments: argparse.Namespace) -> tuple[Source, ...]:
    run = arguments.run_id or settings().run
    if run is None:
        raise NotConfigured("which run is it about? give --run-id or RERAIL_RUN")
    opening: Opening = KmsgOpening()
    if arguments.journal:
        opening = JournalOpening()
    elif arguments.file is not None:
        opening = FileOpening(arguments.file)
    node = arguments.node or identity().node
    known_as = () if arguments.node else (socket.gethostname(),)
    is_guessed = arguments.file is not None and not arguments.node
    return (
        KernelSource(
            opening, node, lambda: run, known_as=known_as, since_hours=arguments.since_hours, is_guessed=is_guessed
        ),
    )


SOURCE = LiveSource(
    name="kernel",
    summary="XIDs, lost GPUs, kills for memory and lost links, from the kernel of this machine",
    description="Follows the kernel's messages, from where the last call stopped (docs/prometheus.md).",
    add_arguments=_add_arguments,
    make=_make,
)
