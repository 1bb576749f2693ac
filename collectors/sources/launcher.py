"""Launcher source: follows the output of `ft_launcher` or `torchrun`, NVRx's cycle files and per-attempt logs.

Rules
- The launcher's output tells attempts, recovery marks, exits and what the monitors saw. With NVRx's per-cycle logs it
  holds no worker output; the tracebacks are then in those logs, one file an attempt, without any stamp: they are
  placed at the instant the end of their attempt was noticed, and read only once that is known.
- Facts of a line have `seq` = its first byte × 16 + a count, and an emitter named after the file. So reading a file
  again states the same facts.
- Cycle files alone state when attempts formed; beside a log they only tell where the per-cycle logs are.
- A log that cannot be read is `SourceDown`.
- Where the launcher's process was seen and is gone (`launcher_process.py`), nothing more is written, and no line tells
  how it ended: the run ended when that was. It failed where the last word of the log is a failure; else how it ended
  is unknown. Inside a scheduler's job only the attempt ended: the job may come again.
- Where a scheduler, a cloud or a coordinator said that it ends the job (`last_words.py`), and nothing came since, the
  attempt has ended. Evidence that only accuses ends nothing while a log may still grow: an import judges that.

`finish` is for logs that will not grow: what waits for a stamp gets the last there was.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rerail.collectors.identity import inherited
from rerail.collectors.source import Polled, SourceDown
from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE, AttemptState
from rerail.collectors.sources.attempts import GONE_UNTOLD, Attempts
from rerail.collectors.sources.cycle_info import BrokenFile, CycleInfo, broken_fact, cycle_facts, read_cycle_infos
from rerail.collectors.sources.encodings import nul_words
from rerail.collectors.sources.launcher_log import LauncherLog
from rerail.collectors.sources.launcher_process import LauncherProcess
from rerail.collectors.sources.left_off import LEAST_SILENCE_NS
from rerail.collectors.sources.line_wrappings import Pieces
from rerail.collectors.sources.log_lines import LocalClock
from rerail.collectors.sources.log_reader import BlockReader
from rerail.collectors.sources.progress import ProgressLog
from rerail.collectors.sources.progress_state import ProgressState
from rerail.collectors.sources.tail import (
    LONGEST_LINE,
    broken_lines,
    fingerprint,
    last_bytes,
    last_part,
    moved_from,
    nul_count,
    shown_alone,
    whole_block,
)
from rerail.collectors.sources.tracebacks import Tracebacks
from rerail.server.core.facts import Evidence, Fact, RunEnded

logger = logging.getLogger("rerail.launcher")

ATTEMPT_IN_PATH = re.compile(r"(?:cycle|attempt)[_-]?(\d{1,6})")
LOCAL_RANK_IN_PATH = re.compile(r"attempt_\d+/(\d{1,6})/std(?:out|err)\.log$")
BROKEN_AFTER_NS = 30 * 1_000_000_000
"""A file that was not finished for so long will not be."""

HELD_SECONDS = 15.0
"""How long evidence waits for a stamp while the log is silent, before the file's own time is taken; and steps of the
last instant for what tells how long they took."""

GRACE_SECONDS = 90.0
"""How long a log must be silent behind a line that says that the job is ended: Slurm waits 30 s before it kills."""


class LauncherSource:
    """One launcher's output. Give `log`, or `cycle_info`, or both."""

    def __init__(
        self,
        *,
        node: str | None,
        run: str | None = None,
        log: Path | None = None,
        cycle_info: Path | None = None,
        app_logs: str | None = None,
        command: tuple[str, ...] = (),
        process: LauncherProcess | None = None,
        job: str | None = None,
        requeue: int | None = None,
        zone_seconds: int | None = None,
        node_is_told: bool = True,
        read_on: str | None = None,
    ) -> None:
        """`node`: the machine of what the log tells, None where that is not known; `node_is_told`: a person said so,
        and it is not only where the log is read. `read_on`: that machine, for the emitter's name (default: `node`)."""
        if log is None and cycle_info is None:
            raise ValueError("a launcher source needs a log or a directory of cycle files")
        self.name = f"launcher {log or cycle_info}"
        self._node = node
        self._node_is_told = node_is_told
        self._read_on = (read_on or node or "unknown")[:120]
        self._run = run
        self._log = log
        self._cycle_info = cycle_info
        self._app_logs = app_logs
        self._command = command
        self._process = process
        self._job = job
        self._requeue = requeue
        self._zone_seconds = zone_seconds
        self._reader: BlockReader | None = None
        self._said_of: set[Path] = set()
        self._read_to: tuple[str, int] | None = None
        """Of which log it has read how much."""

    @property
    def lines_looked_at(self) -> int:
        """How many lines of the log were read one by one, since it was first read or found replaced."""
        return 0 if self._reader is None else self._reader.lines_looked_at

    def poll(self, cursor: str | None) -> Polled:
        """What was printed since. Raises `SourceDown`."""
        return self._poll(cursor, is_whole=False)

    def leave(self, cursor: str | None) -> Polled:
        """The same, with what is held back for what may follow: nobody may look again. Raises `SourceDown`."""
        return self._poll(cursor, is_whole=False, is_leaving=True)

    def finish(self, cursor: str | None) -> Polled:
        """The same, for files that will not grow: their last lines are complete."""
        return self._poll(cursor, is_whole=True)

    def _poll(self, cursor: str | None, *, is_whole: bool, is_leaving: bool = False) -> Polled:
        memory = _memory(cursor)
        facts: list[Fact] = []
        try:
            infos, broken = read_cycle_infos(self._cycle_info) if self._cycle_info is not None else ((), ())
            facts += self._broken(broken, memory, is_whole)
            if self._log is not None:
                facts += self._read_log(self._log, memory, is_whole, is_leaving)
                for path in self._worker_logs(infos):
                    facts += self._read_worker_log(path, memory, is_whole)
            else:
                facts += self._read_cycle_infos(infos, memory)
        except OSError as error:
            raise SourceDown(f"{error.filename or self.name}: {error.strerror or error}") from None
        return Polled(tuple(facts), json.dumps(memory, separators=(",", ":"), sort_keys=True))

    # --- the launcher's own output ---------------------------------------------------------------------------------

    def _read_log(self, path: Path, memory: dict[str, Any], is_whole: bool, is_leaving: bool) -> list[Fact]:
        gone_at = None  # asked before reading: what a gone process wrote is all there
        if self._process is not None:
            gone_at = self._process.gone_at(memory["process"], time.time_ns())
        mark, before = fingerprint(path), memory["log"].get("mark")
        if mark is None:
            is_over = gone_at is not None and not is_whole and self._is_over(path, memory, "", 0, at_once=is_leaving)
            return self._end_of_silence(gone_at, memory) if is_over else []
        facts: list[Fact] = []
        if before not in (None, mark) and (moved := moved_from(path, before)) is not None:
            while memory["log"]["offset"] < (reached := whole_block(moved, memory["log"]["offset"])[1]):
                facts += self._read_file(moved, before, memory, is_whole=False)
                if memory["log"]["offset"] < reached:
                    break
            memory["log"] = _gone_on_with(memory["log"], mark)
        return facts + self._read_file(path, mark, memory, is_whole=is_whole, is_leaving=is_leaving, gone_at=gone_at)

    def _read_file(
        self, path: Path, mark: str, memory: dict[str, Any], *, is_whole: bool, is_leaving: bool = False,
        gone_at: int | None = None,
    ) -> list[Fact]:  # fmt: skip
        status = path.stat()
        kept = _kept(memory["log"], mark, status.st_size)
        clock = LocalClock(kept.get("zone", self._zone_seconds), latest=status.st_mtime_ns, near=kept.get("near"))
        state = AttemptState.from_plain(kept.get("state", {}))
        attempts = self._attempts(state, f"launcher/{self._read_on}/{mark}")
        progress = ProgressLog(attempts, clock, ProgressState.from_plain(kept.get("progress", {})))
        log = LauncherLog(
            attempts, clock, Tracebacks(kept.get("tracebacks")), kept.get("block", ""), Pieces(kept.get("pieces")),
            progress,
        )  # fmt: skip
        if kept["offset"] == 0 and self._command:
            nodes = inherited().get("PET_NNODES")  # torchrun takes its settings from there where no flag says them
            is_told = nodes is None or any(word.startswith("--nnodes") for word in self._command)
            log.settings.argument_words(self._command if is_told else (*self._command, f"--nnodes={nodes}"))
        offset = begin = kept["offset"]
        while (look := whole_block(path, offset))[0]:
            block, following = look
            progress.instants.read_at = None if is_whole else status.st_mtime_ns
            self._reader_of(mark, offset, log, progress, status.st_mtime_ns).take(block, offset, broken_lines(block))
            offset = following
            if not path.stat().st_size > offset + LONGEST_LINE:
                progress.bars.was_read_to_its_end()
            self._say_how_dated(path, progress)
            self._read_to = (mark, offset)
            if not is_whole:
                break
        self._read_to = (mark, offset)
        if is_whole:
            if rest := last_part(path, offset):
                log.take(rest if b"\0" not in rest else b"\0" + shown_alone(rest), offset)
                offset += len(rest)
            progress.bars.date_end(status.st_mtime_ns)
            progress.steps.flush_all()
            attempts.finish()
            progress.own.end_where_done()
            if attempts.waits_for_relaunch:
                attempts.next_where_printed(last_bytes(path, offset), offset)
        else:
            silent_seconds = time.time() - status.st_mtime
            is_read = offset == begin or is_leaving
            is_over = gone_at is not None and is_read and self._is_over(path, memory, mark, offset, at_once=is_leaving)
            is_silent = offset == begin and silent_seconds > HELD_SECONDS
            if is_silent or is_over or is_leaving:
                _settle(attempts, progress, written_at=status.st_mtime_ns)
            if (is_silent or is_over) and attempts.waits_for_relaunch:
                attempts.next_where_printed(last_bytes(path, offset), offset)
                progress.steps.flush_all()
            if is_over or (is_silent and silent_seconds > GRACE_SECONDS):
                attempts.end_where_told(progress.state.step_offset)
                progress.own.end_where_done()
            if offset and (is_over or (is_silent and silent_seconds > LEAST_SILENCE_NS / 1e9)):
                attempts.end_of_error_alone(offset - 1)
            kept["accused"] = _accused(attempts, kept.get("accused"))
            if is_over:
                at = gone_at or (status.st_mtime_ns if progress.state.has_steps else time.time_ns())
                _end_with_launcher(attempts, progress, kept["accused"], offset, at)
                memory["process"]["told"] = [mark, offset]
        progress.steps.flush()
        if nuls := nul_count(path, begin, offset):
            logger.warning("%s: %s", path, nul_words(nuls))
        memory["log"] = {
            "mark": mark, "offset": offset, "zone": clock.zone_seconds, "near": clock.near,
            "state": state.to_plain(), "tracebacks": log.tracebacks.open, "block": log.block,
            "progress": asdict(progress.state),
            "pieces": log.pieces.waiting, "accused": kept.get("accused"),
        }  # fmt: skip
        return attempts.places.with_nodes(attempts.facts)

    def _is_over(self, path: Path, memory: dict[str, Any], mark: str, offset: int, *, at_once: bool) -> bool:
        """Whether nothing more comes into the log of a launcher that is gone, and that was not told of it yet."""
        if self._process is None or memory["process"].get("told") == [mark, offset]:
            return False
        return self._process.is_over(path, time.time() - path.stat().st_mtime, at_once=at_once)

    def _end_of_silence(self, gone_at: int | None, memory: dict[str, Any]) -> list[Fact]:
        """The launcher is gone and printed no line: what recorders told of ended then, where a person names the run."""
        memory["process"]["told"] = ["", 0]
        if self._run is None or self._job is not None:
            return []
        known = memory["process"]
        emitter = f"launcher/{self._read_on}/silent/{known['number']}-{known['started']}"
        at = gone_at or time.time_ns()
        return [RunEnded(run=self._run, emitter=emitter, seq=0, at=at, outcome=None, reason=GONE_UNTOLD)]

    def _say_how_dated(self, path: Path, progress: ProgressLog) -> None:
        is_due = progress.instants.dates_by_reading and (progress.state.has_steps or progress.state.undated)
        if is_due and path not in self._said_of:
            self._said_of.add(path)
            logger.warning("%s: no line of it tells a time; what it says is dated by when it was read", path)

    def _reader_of(
        self, mark: str, begin: int, log: LauncherLog, progress: ProgressLog, written_at: int
    ) -> BlockReader:  # fmt: skip
        """What reads from byte `begin` on: the one that read up to there, which knows how the log is written."""
        if self._reader is None or self._read_to != (mark, begin):
            self._reader = BlockReader(log, progress, fallback_at=written_at)
        else:
            self._reader.goes_on_with(log, progress)
        return self._reader

    def _attempts(self, state: AttemptState, emitter: str) -> Attempts:
        attempts = Attempts(
            state,
            emitter=emitter,
            node=self._node,
            run=self._run or (self._log or self._cycle_info or Path("unnamed")).stem[:200] or "unnamed",
            run_is_told=self._run is not None,
            job=self._job,
            requeue=self._requeue,
            node_is_told=self._node_is_told,
        )
        attempts.is_followed = True
        return attempts

    # --- logs of the workers ---------------------------------------------------------------------------------------

    def _worker_logs(self, infos: tuple[CycleInfo, ...]) -> list[Path]:
        paths = {Path(name) for name in glob.glob(self._app_logs, recursive=True)} if self._app_logs else set()
        paths.update(info.log_file for info in infos if info.log_file is not None and info.log_file.is_file())
        return sorted(path for path in paths if ATTEMPT_IN_PATH.search(str(path)) and path != self._log)

    def _read_worker_log(self, path: Path, memory: dict[str, Any], is_whole: bool) -> list[Fact]:
        attempt = int(ATTEMPT_IN_PATH.findall(str(path))[-1])
        launcher = AttemptState.from_plain(memory["log"].get("state", {}))
        noticed_at = launcher.noticed_at.get(str(attempt))
        mark = fingerprint(path)
        if noticed_at is None or mark is None:
            return []
        kept = _kept(memory["workers"].get(str(path), {}), mark, path.stat().st_size)
        state = AttemptState(
            attempt=attempt, is_started=True, launcher=launcher.launcher, run=launcher.run,
            ranks_per_node=launcher.ranks_per_node, node_count=launcher.node_count, group_rank=launcher.group_rank,
            evidence_count=kept.get("evidence", 0), last_at=noticed_at, iterations=kept.get("iterations", {}),
        )  # fmt: skip
        attempts = self._attempts(state, f"launcher/{self._read_on}/{mark}")
        local = LOCAL_RANK_IN_PATH.search(str(path))
        clock = LocalClock(self._zone_seconds, latest=path.stat().st_mtime_ns)
        log = LauncherLog(attempts, clock, Tracebacks(kept.get("tracebacks")))
        log.prefix = b"[default%d]:" % int(local[1]) if local else b""
        offset = kept["offset"]
        reader = BlockReader(log, ProgressLog(attempts, clock), fallback_at=noticed_at, is_of_workers=True)
        while (look := whole_block(path, offset))[0]:
            block, following = look
            reader.take(block, offset, broken_lines(block))
            offset = following
            if not is_whole:
                break
        if is_whole and (rest := last_part(path, offset)):
            log.take_worker(rest, offset)
            offset += len(rest)
        attempts.heard(noticed_at)
        memory["workers"][str(path)] = {
            "mark": mark, "offset": offset, "tracebacks": log.tracebacks.open, "evidence": state.evidence_count,
            "iterations": state.iterations,
        }  # fmt: skip
        return attempts.places.with_nodes(attempts.facts)

    def _broken(self, broken: tuple[BrokenFile, ...], memory: dict[str, Any], is_whole: bool) -> list[Fact]:
        """Files that stay half-written, each stated once."""
        facts: list[Fact] = []
        for file in broken:
            if not is_whole and time.time_ns() - file.changed_at < BROKEN_AFTER_NS:
                continue
            run = self._run or AttemptState.from_plain(memory["log"].get("state", {})).run or "unnamed"
            fact = broken_fact(file, run=run, node=self._node)
            if fact.emitter not in memory["cycles"]:
                memory["cycles"].append(fact.emitter)
                facts.append(fact)
        return facts

    # --- cycle files alone -----------------------------------------------------------------------------------------

    def _read_cycle_infos(self, infos: tuple[CycleInfo, ...], memory: dict[str, Any]) -> list[Fact]:
        facts: list[Fact] = []
        for info in infos:
            emitter = f"cycle_info/{self._read_on}/{info.job or 'x'}.{info.requeue or 0}"[:200]
            for fact in cycle_facts(info, run=self._run or "unnamed", emitter=emitter, node=self._node):
                key = f"{emitter} {fact.seq}"
                if key not in memory["cycles"]:
                    memory["cycles"].append(key)
                    facts.append(fact)
        return facts


def _memory(cursor: str | None) -> dict[str, Any]:
    """What a cursor holds; one that makes no sense is the beginning."""
    empty: dict[str, Any] = {"log": {}, "workers": {}, "cycles": [], "process": {}}
    try:
        told = json.loads(cursor) if cursor else {}
    except ValueError:
        return empty
    return {**empty, **told} if isinstance(told, dict) else empty


def _gone_on_with(before: dict[str, Any], mark: str) -> dict[str, Any]:
    """What is remembered at the beginning of a log that goes on with a rotated one: everything but its places."""
    state = {**before.get("state", {}), "used": [], "last_late": -1, "open_from": None, "told_over": []}
    progress = {**before.get("progress", {}), "step_offset": 0, "together": [], "bars": []}
    return {**before, "mark": mark, "offset": 0, "state": state, "progress": progress}


def _kept(of_file: dict[str, Any], mark: str, size: int) -> dict[str, Any]:
    """What is remembered of a file; nothing where another one took its place, or it shrank."""
    is_same = of_file.get("mark") == mark and of_file.get("offset", 0) <= size
    return of_file if is_same else {"mark": mark, "offset": 0}


def _settle(attempts: Attempts, progress: ProgressLog, *, written_at: int) -> None:
    """Nothing follows for now: what waits for a stamp was when the log was written last."""
    progress.bars.date_end(written_at)
    if attempts.state.held:
        attempts.heard(written_at)
    progress.steps.flush_all()


def _accused(attempts: Attempts, before: list[int] | None) -> list[int] | None:
    """`[attempt, seq]` of the last evidence that accuses: a traceback, or a word of the kernel."""
    for fact in attempts.facts:
        if isinstance(fact, Evidence) and (fact.source == "kernel" or "frame" in dict(fact.attributes)):
            before = [fact.restart or 0, fact.seq]
    return before


def _end_with_launcher(
    attempts: Attempts, progress: ProgressLog, accused: list[int] | None, offset: int, gone_at: int
) -> None:
    """The launcher went at `gone_at`, and nothing more comes into its log, which is `offset` bytes long."""
    state = progress.state
    behind_steps = (state.step_offset + 1) * FACTS_PER_BYTE if state.has_steps else 0
    is_accused = accused is not None and accused[0] == attempts.state.attempt and accused[1] >= behind_steps
    heard_at = attempts.state.last_at if attempts.state.last_at is not None else state.step_at
    attempts.end_with_launcher(max(0, offset - 1), heard_at, max(heard_at or 0, gone_at), is_accused=is_accused)


def command_of(process: int) -> tuple[str, ...]:
    """The command line of a process that is there; empty where it is not."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in words if word)
