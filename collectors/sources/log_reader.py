"""Log reader: the facts of a whole log, without looking at most of its lines.

Rules
- The file is read in blocks. Only lines that hold a literal word (`telling.LITERALS`) are looked at, by the same
  grammar that follows a growing log (`launcher_log.py`); the words are searched in shapes, which
  are lines without digits, and of which most logs have few.
- Where lines belong together every line is read: inside a traceback, inside a block of settings, and until the stamp
  for which evidence waits. That is bounded; a traceback that never ends is given up.
- Lines of progress (`progress.py`) are looked at too, those of the one speaker whose steps count.
- A line whose shape (itself without digits) said nothing once says nothing again; a shape that was kept often enough
  is only counted. So a storm costs little more than a search.
- Memory is bounded by the block, the longest line, and what is kept of an attempt (`evidence_limits.py`).
- Offsets are bytes of the file, so that reading it again states the same facts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from rerail.collectors.patience import Patience
from rerail.collectors.sources.attempt_state import AttemptState
from rerail.collectors.sources.attempts import Attempts
from rerail.collectors.sources.evidence_limits import MOST_WAITING
from rerail.collectors.sources.going_on import Hints, hints_before
from rerail.collectors.sources.launcher_log import LauncherLog
from rerail.collectors.sources.line_wrappings import cut_records, is_piece, is_spelled, with_its_rest
from rerail.collectors.sources.log_lines import LocalClock
from rerail.collectors.sources.progress import ProgressLog
from rerail.collectors.sources.progress_lines import SIGNS, may_tell
from rerail.collectors.sources.tail import LOOKED_BACK, parted_bars, shown
from rerail.collectors.sources.telling import LITERALS, is_telling
from rerail.collectors.sources.tracebacks import HEAD, Tracebacks
from rerail.server.core.facts import Fact

HEAD_BYTES = HEAD.encode()
LONGEST_FIRST = 4096
BLOCK_BYTES = 4 * 1024 * 1024
MOST_SHAPES = 20_000
MOST_HEADS = 2_000
"""Tracebacks that are followed to their end; of more only the lines that tell something by themselves are read."""
OFTEN = 64
"""A shape that was kept so often is only counted from then on."""
BAR_WITHIN, BARS_TOGETHER = 16, 64
"""A line with a bar in its first bytes comes in between: about so many of them count as one line."""
LINES_TOGETHER = 3_000
"""So many lines are read one by one after the last that began something; then what is open is given up."""
AGAIN_BYTES = 64 * 1024 * 1024
_DIGITS = b"0123456789"
_BEHIND = re.compile(rb"last enqueued (?:NCCL )?work: (\d{1,12})")
_TIMED_OUT = re.compile(rb"\[Rank (\d{1,7})\] (?:Watchdog caught collective|Timeout at NCCL)")
_PRINTER = re.compile(rb"\[rank(\d{1,7})\]:")
_GRAMMAR = re.compile(
    r"exitcode|Worker group|closing signal|Stopping workers|Event: \w|endezvous|attempts? (?:left|to join)|_ex: "
    r"|has joined|death signal|launch configs|torchrun|ft_launcher|NestedRestarter|TORCHELASTIC_ENABLE|finished|Agent "
    r"|heartbeat|has been open|out of section|ChildFailedError|Starting worker|Joining cluster|restart_count=|EARLY"
    r"|RankMonitorState|# EXIT|must not be|raining (?:done|complete|finished|is|was|has|run|ended|[CFD])"
    r"|spawned with command|num_local_procs=|Root Cause \(first|(?:inish|omplet)ed training|one (?:training|waiting)"
    r"|RAINING|starting workers for|LSF System <|launch\.py:"
)


@dataclass(slots=True)
class Read:
    """What a log came to."""

    facts: list[Fact]
    bytes: int = 0
    lines_looked_at: int = 0
    lines_counted: int = 0
    """Lines of a kind of which enough was kept."""
    steps_undated: int = 0
    """Lines of steps that nothing dates."""
    counted: tuple[Any, ...] = ()
    """What lines of steps that nothing dates tell of the time they took (`ProgressState.counted`)."""
    counted_ns: int = 0
    """How long the steps took in all, by whose lines everything is dated; 0 where instants are told."""
    bars_dated_back: int = 0
    """Lines of bars that are dated by their clock, from when the file was written last."""
    digest: str = ""
    is_stamped: bool = False
    """Some line of it tells when it was."""
    zone_is_told: bool = False
    """Every stamp that was read says its time zone, or the log says it of them all."""
    off_clocks: tuple[str, ...] = ()
    """Whose clocks stood otherwise than the others', in words."""
    behind_ns: int = 0
    """By so much its stamps went back, by whole hours, where steps went on: its clock was set to another zone."""
    went_back: tuple[int, ...] = ()
    """How often they went back otherwise where steps went on, and by how many ns at most."""
    nuls: int = 0
    """Zero bytes, which no line is shown with."""
    stopped_at: int | None = None
    """The byte at which the time for reading was over; None where it was read whole."""

    def how_dated(self) -> str:
        """How that was dated of which no line tells an instant, and how good that is; empty where there is nothing."""
        if self.counted_ns:
            return (
                f"no line tells when it was: steps took the {self.counted_ns / 1e9:,.0f} s that their lines tell, "
                "counted back from when the file was written last; when they were is off by what came behind the last "
                "of them, and what stood still in between (saves, loads, restarts) took no time that is known"
            )
        if self.bars_dated_back:
            bars = f"{self.bars_dated_back} line{'s' if self.bars_dated_back > 1 else ''}"
            return f"{bars} of bars dated by the clock of the bar, counted back from when the file was written last"
        return ""


class _Shapes:
    """What is known of lines by their shape."""

    def __init__(self) -> None:
        self._silent: set[bytes] = set()
        self._kept: dict[bytes, int] = {}
        self._steps: dict[bytes, bool] = {}
        self._least: int | None = None
        self._timed_out: set[int] = set()
        self._heads = 0
        self.counted = 0

    def wants(self, line: bytes, shape: bytes) -> bool:
        """Whether a line must be read."""
        if is_piece(line) or is_spelled(line):
            return True
        if shape in self._silent:
            return False
        count = self._kept.get(shape)
        if count is None:
            text = line[:8000].decode("utf-8", "replace")
            if HEAD in text:
                self._heads += 1
                self.counted += self._heads > MOST_HEADS
                return self._heads <= MOST_HEADS
            if _GRAMMAR.search(text) is not None:
                return True
            if not is_telling(text) and b"cpp:" not in line and b" NVRM" not in line:
                if len(self._silent) < MOST_SHAPES:
                    self._silent.add(shape)
                return False
            count = 0
        if len(self._kept) < MOST_SHAPES or shape in self._kept:
            self._kept[shape] = count + 1
        if count >= OFTEN and not self._is_behind(line) and not self._is_first_to_time_out(line):
            self.counted += 1
            return False
        return True

    def may_tell_of_steps(self, line: bytes, shape: bytes) -> bool:
        """Whether a line that is not wanted for what it tells may still be one of progress."""
        known = self._steps.get(shape)
        if known is None:
            known = may_tell(line)
            if len(line) <= 400 and len(self._steps) < MOST_SHAPES:
                self._steps[shape] = known
        return known

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

    def _is_first_to_time_out(self, line: bytes) -> bool:
        """The first word of a rank's watchdog, past those that were kept because there were few."""
        told = _TIMED_OUT.search(line) if len(self._timed_out) < MOST_WAITING else None
        if told is None:
            return False
        rank = int((_PRINTER.match(line) or told)[1])
        is_first = rank not in self._timed_out
        self._timed_out.add(rank)
        return is_first


def _shape(line: bytes) -> bytes:
    """A line without its digits, as far as lines are compared."""
    return line[:400].translate(None, _DIGITS)


def _hits(block: bytes, begin: int, quiet: set[bytes], progress: ProgressLog) -> tuple[list[int], set[int]]:
    """Where the lines of a block begin that hold a literal or tell of progress, in order; `quiet` are the other shapes.

    Those before byte `begin` are left out. Also which of them hold no literal.

    Most lines of a log differ by their digits alone: without them a block is a handful of shapes, and only new shapes
    are searched. Where shapes are many, the block is searched as it is.
    """
    if begin:
        starts, of_steps = _hits(block[begin:], 0, quiet, progress)
        return [begin + start for start in starts], {begin + start for start in of_steps}
    cut = cut_records(block)
    if cut:
        return sorted({*_searched(block, progress), *cut}), set()
    shapes = block.translate(None, _DIGITS).split(b"\n")
    fresh = set(shapes) - quiet
    if not fresh:
        return [], set()
    if len(fresh) > 64 and len(fresh) * 4 > len(shapes):
        return _searched(block, progress), set()
    loud = {shape for shape in fresh if any(literal in shape for literal in LITERALS)}
    steps = {shape for shape in fresh - loud if may_tell(shape)}
    if len(quiet) < MOST_SHAPES:
        quiet |= fresh - loud - steps
    if not loud and not steps:
        return [], set()
    starts, of_steps, at = [], set(), 0
    for shape, line in zip(shapes, block.split(b"\n"), strict=True):
        if shape in loud:
            starts.append(at)
        elif shape in steps and progress.speaker.wants(line):
            starts.append(at)
            of_steps.add(at)
        at += len(line) + 1
    return starts, of_steps


def _searched(block: bytes, progress: ProgressLog) -> list[int]:
    starts = {begin for begin, _ in _lines_with(block, LITERALS)}
    starts |= {begin for begin, end in _lines_with(block, SIGNS) if progress.speaker.wants(block[begin:end])}
    return sorted(starts)


def _lines_with(block: bytes, words: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """Where lines begin and end that hold one of the words; a line with several comes several times."""
    for word in words:
        at = block.find(word)
        while at >= 0:
            end = block.find(b"\n", at)
            yield block.rfind(b"\n", 0, at) + 1, len(block) if end < 0 else end
            at = block.find(word, end) if end >= 0 else -1


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
    latest: int | None = None,
    near: int | None = None,
    restart: int | None = None,
    written_at: int | None = None,
    prefix: bytes = b"",
    worker_only: bool = False,
    tell: Callable[[int], None] | None = None,
    patience: Patience | None = None,
    is_dated: Callable[[], None] | None = None,
) -> Read:
    """The facts of a whole log, or of what could be read of it within `patience`.

    `year`, `latest` and `near` date stamps without a year (`LocalClock`). `fallback_at` is the instant of evidence in a
    log without any stamp; `restart` says which attempt the whole log is of, where its place tells; `written_at` is when
    the file was written last, which dates the bars at its end where no line does; `prefix` is put before every line
    (`[default1]:` for the log of local rank 1); `worker_only`: no line of it is a launcher's. `tell` hears how many
    bytes were read; `is_dated` is called once an instant was told: the file is not read twice then.
    """
    options = _Options(
        emitter, run, node, fallback_at, zone_seconds, (year, latest, near), restart, written_at, prefix, worker_only,
        tell, patience or Patience(None), is_dated,
    )  # fmt: skip
    read = _read(file, options, None)
    has_time = not options.patience.is_over(now=True)
    if has_time and read.counted and not read.is_stamped and written_at is not None and file.seekable():
        total = read.counted[0]
        if read.bytes < AGAIN_BYTES and 0 < total < written_at:
            file.seek(0)
            again = _read(file, options, None, begins_at=written_at - total, counted=read.counted)
            again.is_stamped, again.zone_is_told, again.counted_ns = False, False, total
            return again
    if has_time and not read.is_stamped and fallback_at is not None and read.bytes < AGAIN_BYTES and file.seekable():
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
    year: tuple[int | None, int | None, int | None]
    """`year`, `latest` and `near` of a `LocalClock`."""
    restart: int | None
    written_at: int | None
    prefix: bytes
    worker_only: bool
    tell: Callable[[int], None] | None
    patience: Patience
    is_dated: Callable[[], None] | None


class BlockReader:
    """Reads a log block by block, as it lies on disk: of one that is whole, and of one that grows.

    A block holds whole lines, and follows the one before. What is remembered from one to the next saves work, and tells
    whether a process went on after an error; another instance that goes on with the log begins that anew.
    """

    def __init__(
        self, log: LauncherLog, progress: ProgressLog, *, fallback_at: int | None = None, is_of_workers: bool = False,
        patience: Patience | None = None,
    ) -> None:  # fmt: skip
        """`fallback_at` is the instant of evidence for which no stamp comes; `is_of_workers`: no launcher speaks."""
        self.lines_looked_at = 0
        self._log = log
        self._attempts = log.attempts
        self._progress = progress
        self._fallback_at = fallback_at
        self._is_of_workers = is_of_workers
        self._take = log.take_worker if is_of_workers else log.take
        self._patience = patience or Patience(None)
        self._shapes = _Shapes()
        self._quiet: set[bytes] = set()
        self._together = LINES_TOGETHER
        self._hints = Hints()
        self.ended_with = b""
        """The last bytes that were taken."""

    @property
    def lines_counted(self) -> int:
        """Lines of a kind of which enough was kept."""
        return self._shapes.counted

    def goes_on_with(self, log: LauncherLog, progress: ProgressLog) -> None:
        """The log is gone on with where another ended, made of what a cursor held of it."""
        progress.knows_what(self._progress)
        log.knows_what(self._log)
        self._log, self._progress, self._attempts = log, progress, log.attempts
        self._take = log.take_worker if self._is_of_workers else log.take

    def _is_inside(self) -> bool:
        """The next line belongs to those before it."""
        log = self._log
        return bool(log.tracebacks.open or log.block or log.pieces.waiting)

    def take(self, block: bytes, offset: int, also: Sequence[int] = ()) -> int:
        """Take a block that begins at byte `offset`; how many of its bytes were read before patience was over.

        `also`: where lines begin that are to be read whatever they hold, in order.
        """
        self._progress.look_ahead(block)
        done = self._take_block(block, offset, also)
        self.ended_with = (self.ended_with + block[-LOOKED_BACK:])[-LOOKED_BACK:]
        return done

    def _take_block(self, block: bytes, offset: int, also: Sequence[int]) -> int:
        log, progress, state, shapes = self._log, self._progress, self._attempts.state, self._shapes
        asked = frozenset(also)
        index = at = 0
        if not also and not self._is_of_workers and not (self._is_inside() or state.held or log.going_on.waiting):
            at = progress.alike.take_alike(block, 0, offset)
        hits, of_steps = _hits(block, at, self._quiet, progress)
        if also:
            hits, of_steps = sorted(asked.union(hits)), of_steps - asked
        starts = [0, *hits] if offset == 0 else hits
        while not self._patience.is_over():
            if self._is_inside() or state.held:
                if self._together <= 0:
                    self.give_up()
                    continue
                is_bar = block.find(b"%|", at, at + BAR_WITHIN) >= 0
                self._together -= not is_bar or (offset + at) % BARS_TOGETHER == 0
                if index < len(starts) and starts[index] <= at:
                    index += 1
                    is_hit = True
                else:
                    is_hit = False
            else:
                while index < len(starts) and starts[index] < at:
                    index += 1
                begins = starts[index] if index < len(starts) else len(block)
                hint = self._hints.next(block, at, begins) if log.going_on.waiting else None
                if hint is not None:
                    at = hint
                    is_hit = False
                elif index < len(starts):
                    at = starts[index]
                    index += 1
                    is_hit = True
                else:
                    return len(block)
            if at >= len(block):
                return len(block)
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            line = shown(block, at, end)
            at_line, at = at, end + 1
            is_inside = self._is_inside()
            if at_line in of_steps and not (is_inside or state.held or log.going_on.waiting or self._is_of_workers):
                after = progress.alike.take_alike(block, at_line, offset)
                if after > at_line:
                    at = after
                    continue
                if progress.alike.take_quickly(line, offset + at_line):
                    continue
            if is_inside or not is_hit or at_line in asked:
                is_wanted = True
            else:
                shape = _shape(line)
                is_wanted = shapes.wants(line, shape) or bool(state.held)
                if not is_wanted and shapes.may_tell_of_steps(line, shape):  # of another speaker it may show going on
                    is_wanted = bool(log.going_on.waiting) or progress.speaker.wants(line)
            is_first = offset + at_line == 0 and len(line) < LONGEST_FIRST  # it tells when the log begins
            if not is_wanted and not is_first:
                continue
            self.lines_looked_at += 1
            is_of_kernel = b"kernel" in line or b"NVRM" in line
            if is_hit and (HEAD_BYTES in line or (is_of_kernel and not log.going_on.numbers)):
                ahead = b"" if at_line >= LOOKED_BACK else self.ended_with
                _look_back(log, ahead + block[: at_line + len(line)] if ahead else block, at_line + len(ahead))
            if is_of_kernel and b"Xid (" in line:
                line = with_its_rest(line, _next_line(block, at))
            before = log.told()
            if at_line in asked and block.find(b"\0", at_line, end) >= 0:
                line = b"\0" + line  # shown without them, it would not say so any more
            self._take(line, offset + at_line)
            if progress.state.bars:
                progress.bars.peek(_next_line(block, at))
            if log.told() > before:
                self._together = LINES_TOGETHER
        return at

    def give_up(self) -> None:
        """Nothing more will come of what is open."""
        log, state = self._log, self._attempts.state
        log.tracebacks.open.clear()
        log.pieces.waiting.clear()
        log.end_report()
        log.block = ""
        if state.held:
            at = state.last_at if state.last_at is not None else self._fallback_at
            self._attempts.heard(0 if at is None else at)


def _read(
    file: BinaryIO, options: _Options, last_at: int | None, *, begins_at: int | None = None,
    counted: Sequence[Any] = (),
) -> Read:  # fmt: skip
    state = AttemptState(attempt=options.restart or 0, last_at=last_at)
    attempts = Attempts(state, emitter=options.emitter, node=options.node, run=options.run, run_is_told=True)
    year, latest, near = options.year
    clock = LocalClock(options.zone_seconds, year, latest=latest, near=near)
    progress = ProgressLog(attempts, clock)
    log = LauncherLog(attempts, clock, Tracebacks(), progress=None if options.worker_only else progress)
    log.prefix = options.prefix
    if begins_at is not None:
        progress.instants.begin_at(begins_at, list(counted))
    fallback_at, patience = options.fallback_at, options.patience
    reader = BlockReader(
        log, progress, fallback_at=fallback_at, is_of_workers=options.worker_only, patience=patience
    )  # fmt: skip
    read = Read(attempts.facts)
    digest = hashlib.sha256()
    for offset, block in _blocks(file):
        digest.update(block)
        read.bytes += len(block)
        read.nuls += block.count(0)
        block = parted_bars(block)
        done = reader.take(block, offset)
        if options.is_dated is not None and state.last_at is not None:
            options.is_dated()
        if options.tell is not None:
            options.tell(read.bytes)
        if patience.is_over(now=True):
            read.stopped_at = offset + done
            break
    if progress.state.bars and options.written_at is not None:
        before_it = progress.state.dated_back
        progress.bars.date_end(options.written_at)
        read.bars_dated_back = progress.state.dated_back - before_it
    progress.steps.tell_ahead()
    progress.steps.flush_all()
    read.behind_ns, read.went_back = progress.state.behind_ns, tuple(progress.state.went_back)
    read.steps_undated, read.counted = progress.state.undated, tuple(progress.state.counted)
    read.is_stamped = state.last_at is not None and state.last_at != fallback_at
    reader.give_up()
    if not options.worker_only:
        attempts.next_where_printed(reader.ended_with, read.bytes)
        log.end_as_reported(progress.state.step_offset)
        progress.own.end_where_done()
        progress.own.end_where_it_broke()
    read.zone_is_told = read.is_stamped and (clock.is_calibrated or not log.zones_untold)
    read.lines_looked_at, read.lines_counted = reader.lines_looked_at, reader.lines_counted
    read.digest = digest.hexdigest()
    if last_at is None and begins_at is None:
        read.off_clocks = tuple(sorted({each.said for each in log.writers.set_right(attempts.facts)}))
    read.facts = attempts.places.with_ranks(attempts.facts)
    return read


def _next_line(block: bytes, at: int) -> bytes:
    """The first line from `at` on that is not empty; empty where the block ends before."""
    while block.startswith((b"\n", b"\r\n"), at):
        at = block.index(b"\n", at) + 1
    end = block.find(b"\n", at)
    return shown(block, at, len(block) if end < 0 else end)


def _look_back(log: LauncherLog, block: bytes, at: int) -> None:
    """Tell what stands before a traceback: the line before it, and how far its process had come."""
    end = block.rfind(b"\n", 0, at)
    log.before = shown(block, block.rfind(b"\n", 0, end) + 1, end) if end > 0 else b""
    if log.looks_back <= 0:
        return
    log.looks_back -= 1
    for start in hints_before(block, at, LOOKED_BACK):
        log.passes(shown(block, start, block.find(b"\n", start)))
