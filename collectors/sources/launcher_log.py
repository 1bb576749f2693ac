"""Launcher log: turns each line of a launcher's output into moments of attempts.

This is the table of what means what; `attempts.py` knows what follows from it, `nvrx_lines.py` and
`torchrun_lines.py` know the words, `launcher_settings.py` what was asked of the launcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rerail.collectors.masking import masked
from rerail.collectors.sources import deepspeed_lines as deepspeed
from rerail.collectors.sources import lsf_lines as lsf
from rerail.collectors.sources import nvrx_lines as nvrx
from rerail.collectors.sources import torchrun_lines as torchrun
from rerail.collectors.sources.attempts import Attempts
from rerail.collectors.sources.going_on import GoingOn, is_announced, is_done, number_in
from rerail.collectors.sources.launcher_settings import LauncherSettings
from rerail.collectors.sources.line_prefixes import Labels
from rerail.collectors.sources.line_wrappings import Pieces, unwrapped
from rerail.collectors.sources.log_lines import (
    Line,
    LocalClock,
    read_line,
    read_record,
    universal_instant,
    why_broken,
)
from rerail.collectors.sources.progress import ProgressLog
from rerail.collectors.sources.telling import is_telling, may_be_telling
from rerail.collectors.sources.tracebacks import HEAD, Tracebacks
from rerail.collectors.sources.writers_clocks import WritersClocks, cancelled_at
from rerail.server.core.facts import TRAINING_DONE, Exit, Initiator, MarkStage, Outcome

COMMAND_LINE = re.compile(
    r"^(?:# CMD:|\++) (?P<command>.*(?:ft_launcher|fault_tolerance\.launcher|torchrun|torch\.distributed).*)$"
)
EXIT_LINE = re.compile(r"^# EXIT rc=(?P<codes>.{1,10000})")
EXIT_CODE = re.compile(r"(?<![\w.])-?\d{1,5}(?![\w.])")
A_SECOND = 1_000_000_000
SRUN_PLACE = re.compile(
    r"\bsrun: error: (?P<node>[\w.-]{1,120}): task (?P<rank>\d{1,7}): (?:Exited|Terminated|Killed|Segm|Abort|Bus)"
)
MPI_PLACE = re.compile(
    r"process rank (?P<rank>\d{1,7}) with PID \d{1,10} on node (?P<node>[\w-][\w.-]{0,119}) (?:exited|was)"
)
LOOPBACK = re.compile(r"localhost\b|127\.|::1$")
NEAR_NS = 40 * 60 * A_SECOND
"""So long after the last stamp of a log that of another writer may be; the next time zones are farther apart."""
SERIOUS = frozenset({"ERROR", "CRITICAL", "FATAL", "WARNING"})


class LauncherLog:
    """Reads the lines of one launcher's output, in order."""

    def __init__(
        self,
        attempts: Attempts,
        clock: LocalClock,
        tracebacks: Tracebacks,
        block: str = "",
        pieces: Pieces | None = None,
        progress: ProgressLog | None = None,
    ) -> None:
        self.attempts = attempts
        self.progress = progress
        self.settings = LauncherSettings(attempts.state)
        self.pieces = pieces or Pieces()
        """Lines of which more must come. Part of the cursor."""
        self.labels = Labels()
        self.going_on = GoingOn()
        self.before = b""
        """The physical line before the one that is taken."""
        self.looks_back = 4
        """So often a reader may still look back before a traceback."""
        self._is_announced = False
        self._offset = 0
        self.prefix = b""
        """What the place of the log says of every line, as if it stood before it."""
        self.clock = clock
        self.tracebacks = tracebacks
        self.block = block
        """`config` or `result` inside a block of settings that is printed line by line; `table`, with the rank and
        local rank of its last entry, in the final one; `lsf`, with what it told so far, in LSF's report. Part of the
        cursor."""
        self.reported_first: int | None = None
        """The exit code of the job, where a scheduler's report of its end stands before its output."""
        self.writers = WritersClocks()
        self.zones_untold = 0
        """Lines whose stamp does not say its time zone."""

    def knows_what(self, before: LauncherLog) -> None:
        """The same log was read up to here by `before`: who speaks in it, and who had an error, is known."""
        self.labels, self.going_on = before.labels, before.going_on
        self.before, self.looks_back, self._is_announced = before.before, before.looks_back, before._is_announced

    def told(self) -> int:
        """How much was stated so far or is open: it grows where a line said something."""
        open_ones = len(self.tracebacks.open) + len(self.pieces.waiting) + bool(self.block)
        return len(self.attempts.facts) + len(self.attempts.state.held) + open_ones

    def _lines(self, raw: bytes, offset: int) -> Iterator[Line]:
        """What a physical line holds: nothing where more of it must come, several where it is a record of several."""
        self.attempts.at_line(offset)
        self._offset = offset
        if broken := why_broken(raw):
            self.attempts.unreadable(broken)
        raw = raw.replace(b"\0", b"")
        whole = self.pieces.cri(raw)
        if whole is None:
            return
        record = unwrapped(whole)
        lines: list[Line] = []
        if record is None:
            lines = [read_line(self.prefix + whole, self.clock, self.labels)]
        elif (record := self.pieces.docker(record)) is not None:
            lines = read_record(record, self.clock, self.labels, self.prefix.decode())
        for line in lines:
            self.zones_untold += line.at is not None and not line.is_zoned
            self.writers.heard(line, offset, len(self.attempts.facts), self.clock)
            yield line
        self.before = raw

    def passes(self, raw: bytes) -> None:
        """A line that is only looked at for how far its process has come."""
        line = read_line(self.prefix + raw, self.clock, self.labels)
        number = number_in(line.text)
        if number is not None:
            self.going_on.passed(line.stream, number)

    def take_worker(self, raw: bytes, offset: int) -> None:
        """One line of a log that holds the output of workers alone."""
        for line in self._lines(raw, offset):
            if not self._goes_on(line):
                self._take_worker(line)

    def take(self, raw: bytes, offset: int) -> None:
        """One line that begins at byte `offset`."""
        for line in self._lines(raw, offset):
            behind = self.clock.behind_ns
            is_progress = self.progress is not None and self.progress.take(raw, line)
            if self.clock.behind_ns > behind and line.at is not None:  # its stamp went back: it is of another zone
                line = replace(line, at=line.at + self.clock.behind_ns - behind)
            if self._goes_on(line):
                continue
            if not is_progress or (may_be_telling(raw) and is_telling(line.text)):
                self._take(line)
            elif line.at is not None:
                self.block = ""
                self.attempts.heard(line.at)

    def _goes_on(self, line: Line) -> bool:
        """Whether a line says that errors before it were not the end; it is evidence then, and nothing else."""
        attempt = self.attempts.state.attempt
        code = None
        if "raining" in line.text or "RAINING" in line.text:
            code = TRAINING_DONE if self.attempts.state.evidence_count and is_done(line.text) else None
        if code is None and self.going_on.waiting:
            code = self.going_on.takes(line, self._offset, attempt)
        if code is None:
            return False
        if line.at is not None:
            self.attempts.heard(line.at)
        self.attempts.evidence(
            line.at, "log", line.text[:1000], rank=line.rank, local_rank=line.local_rank, code=code, node=line.host,
            is_always_kept=True,
        )  # fmt: skip
        return True

    def _erred(self, line: Line, is_announced: bool) -> None:
        attempt = self.attempts.state.attempt
        self.going_on.erred(line.stream, self._offset, attempt, is_announced=is_announced)

    def _take_worker(self, line: Line) -> None:
        if line.speaker == "cpp":
            self._cpp(line)
        elif line.at is None or line.speaker in ("logger", "plain", "rank") or nvrx.IN_PROCESS.match(line.text):
            self._plain(line)

    def _take(self, line: Line) -> None:
        if self.block and self._in_block(line):
            return
        if event := nvrx.profiling(line.text):
            self.clock.calibrate(_stamp_of(line.raw) or event.time, event.time)
            at = universal_instant(event.time)
            if at is not None:
                self.attempts.heard(at)
                self.settings.learn(line)
                self._profiling(event, at)
            return
        if line.at is not None:
            if line.speaker == "torchrun" and (torchrun.CLOSING.match(line.text) or torchrun.EXIT.search(line.text)):
                self.settings.learn(line)
                self.attempts.next_where_untold(line.at, is_launchers=True)
            if line.speaker == "cpp":
                self.attempts.next_where_untold(line.at - A_SECOND)
            self.attempts.heard(line.at)
            if line.speaker == "cpp":
                self._cpp(line)
            elif line.speaker in ("logger", "plain", "rank"):
                self._plain(line)
            else:
                self.settings.learn(line)
                self._stamped(line, line.at)
        elif line.speaker == "torchrun" and self.attempts.state.last_at is not None:
            self.settings.learn(line)
            self._stamped(line, self.attempts.state.last_at)
        else:
            self._plain(line)

    # --- lines with a stamp ----------------------------------------------------------------------------------------

    def _profiling(self, event: nvrx.Profiling, at: int) -> None:
        attempts = self.attempts
        if event.group_rank is not None:
            attempts.places.place_node(event.node, event.group_rank)
        marks = {
            "rendezvous_started": MarkStage.RENDEZVOUS_STARTED,
            "rendezvous_completed": MarkStage.RENDEZVOUS_COMPLETED,
            "worker_start_completed": MarkStage.WORKERS_STARTED,
            "failure_detected": MarkStage.NOTICED,
            "worker_terminated": MarkStage.WORKERS_GONE,
        }
        stage = marks.get(event.event)
        if stage is None:
            return
        attempts.mark(stage, at, "ft_launcher", attempt=event.attempt)
        if stage is MarkStage.WORKERS_GONE and event.attempt == attempts.state.attempt:
            attempts.end(at, Outcome.FAILED)

    def _stamped(self, line: Line, at: int) -> None:
        attempts, text = self.attempts, line.text
        by = attempts.state.launcher or "torchrun"
        if text.startswith(nvrx.CONFIG_BLOCK):
            self.block = "config"
        elif match := nvrx.MONITOR_TIMEOUT.match(text):
            attempts.evidence(
                at, "nvrx", match["text"], rank=line.rank, local_rank=line.local_rank, code="monitor_timeout",
            )  # fmt: skip
            attempts.mark(MarkStage.NOTICED, at, "rank monitor", match["text"])
        elif match := torchrun.EXIT.search(text):
            self._exit(match, at, line)
        elif match := nvrx.GROUP.search(text):
            attempt = int(match["most"]) - int(match["left"])
            attempts.state.restarts_left = int(match["left"]) - 1
            attempts.state.most_restarts = int(match["most"])
            attempts.mark(MarkStage.NOTICED, at, by, text[:1000], attempt)
        elif match := nvrx.GROUP_SPENT.search(text):
            attempts.state.restarts_left, attempts.state.most_restarts = 0, int(match["most"])
            attempts.mark(MarkStage.NOTICED, at, by, text[:1000])
            attempts.end_run(at, Outcome.FAILED, attempts.why_over("no restart was left"))
        elif nvrx.ANY_GROUP.search(text) or nvrx.PEER.search(text):
            attempts.mark(MarkStage.NOTICED, at, by, text[:1000])
        elif nvrx.STOPPING.match(text) or torchrun.STOPPING.search(text) or torchrun.CLOSING.match(text):
            if torchrun.CLOSING.match(text) and not attempts.has_ended():
                attempts.mark(MarkStage.NOTICED, at, by)
            if attempts.state.noticed_at.get(str(attempts.state.attempt)):
                attempts.mark(MarkStage.ABORTING, at, by)
        elif match := nvrx.JOINING.search(text):
            attempts.state.run = match["run"][:200] or None
            self._rendezvous_begins(at, by)
        elif torchrun.RENDEZVOUS.search(text):
            self._rendezvous_begins(at, by)
        elif nvrx.ENTRYPOINT in text:
            if attempts.has_ended():
                self._rendezvous_begins(at, by)  # the launcher itself was started again
        elif match := nvrx.JOINED.search(text):
            if attempts.has_ended() and MarkStage.RENDEZVOUS_COMPLETED.value in attempts.state.told:
                self._rendezvous_begins(at, by)  # another round, and the line that it begins with is not there
            attempts.state.node_count = int(match["size"])
            attempts.places.place_node(match["node"], int(match["rank"]))
            attempts.mark(MarkStage.RENDEZVOUS_COMPLETED, at, by)
        elif torchrun.RENDEZVOUS_DONE.search(text):
            attempts.mark(MarkStage.RENDEZVOUS_COMPLETED, at, by)
            self.block = "result"
        elif text.startswith(nvrx.STARTED_04) or torchrun.STARTED.search(text):
            attempts.mark(MarkStage.WORKERS_STARTED, at, by)
        elif match := nvrx.NESTED.search(text):
            self._nested(match, at)
        elif match := nvrx.IN_PROCESS.match(text):
            self._in_process(match, at, has_restart_line=True)
        elif torchrun.GROUP_FAILED.search(text):
            attempts.end_run(at, Outcome.FAILED, attempts.why_over("no restart was left"))
        elif torchrun.GROUP_SUCCEEDED.search(text):
            attempts.end(at, Outcome.COMPLETED)
        elif torchrun.DONE.search(text):
            if attempts.state.told and "ended" in attempts.state.told:
                attempts.end_run(at, Outcome.COMPLETED)
        elif match := torchrun.DEATH_SIGNAL.search(text):
            attempts.evidence(at, by if by != "ft_launcher" else "nvrx", text, code="death_signal")
            is_interrupt = match["signal"] in torchrun.INTERRUPTS
            attempts.end_by_signal(at, masked(text)[:1000], is_interrupt=is_interrupt)
        else:
            self._rest(line, at)

    def _rest(self, line: Line, at: int) -> None:
        """Final lines of ft_launcher, and whatever else may be evidence."""
        attempts, text = self.attempts, line.text
        for match in nvrx.RANK_FAILURE.finditer(text):
            attempts.exit(at, int(match["local"]), int(match["code"]), int(match["pid"]), int(match["rank"]))
        if nvrx.TELLING.search(text) or (line.level in SERIOUS and is_telling(text)):
            source = "torchrun" if line.speaker == "torchrun" else "nvrx"
            attempts.evidence(at, source, text, rank=line.rank, local_rank=line.local_rank, node=line.host)
        if match := nvrx.NO_RESTART.search(text) or nvrx.EARLY_END.search(text):
            attempts.state.last_words = masked(match.group())[:300]
        if nvrx.NO_RESTART.search(text) and line.speaker == "nvrx":
            attempts.end_run(at, Outcome.FAILED, attempts.why_over(""))
        if nvrx.AGENT_OK in text:
            attempts.end_run(at, Outcome.COMPLETED)
        elif match := nvrx.AGENT_EXIT.search(text):
            code = int(match["code"])
            outcome = Outcome.FAILED if code else Outcome.COMPLETED
            words = attempts.why_over(f"the launcher ended with exit code {code}") if code else None
            attempts.end_run(at, outcome, words)

    def _exit(self, match: re.Match[str], at: int, line: Line) -> None:
        attempts = self.attempts
        local, code, process = int(match["local"]), int(match["code"]), int(match["pid"])
        state = attempts.state
        if str(process) in state.exits or str(process) in state.past_processes:
            return
        rank = attempts.places.rank_of(local, line.process)
        attempts.exit(at, local, code, process, rank)
        attempts.evidence(
            at, "torchrun", line.text, rank=rank, local_rank=local, code=f"exitcode {code}", node=line.host
        )
        attempts.mark(MarkStage.NOTICED, at, state.launcher or "torchrun", line.text[:1000])

    def _rendezvous_begins(self, at: int, by: str) -> None:
        attempts = self.attempts
        if attempts.has_ended():
            attempts.mark(MarkStage.WORKERS_GONE, at, by)
            attempts.end(at, Outcome.FAILED)
        attempts.begin(at)
        attempts.mark(MarkStage.RENDEZVOUS_STARTED, at, by)

    def _nested(self, match: re.Match[str], at: int) -> None:
        """`completed` is the first heartbeat after a restart, `initialize` the first of the run."""
        if match["layer"] == "InJob" and (match["state"], match["stage"]) in (
            ("initialize", None), ("handling", "completed"),
        ):  # fmt: skip
            self.attempts.mark(MarkStage.INITIALIZED, at, "nvrx")

    def _in_process(self, match: re.Match[str], at: int, *, has_restart_line: bool) -> None:
        said = match["said"]
        by_monitor = any(word in said for word in nvrx.MONITOR_INTERRUPTIONS)
        initiator = Initiator.MONITOR if by_monitor else Initiator.FAULT
        self.attempts.in_process(at, int(match["rank"]), match["kind"], said, initiator, has_restart_line)

    def _cpp(self, line: Line) -> None:
        if line.level in ("ERROR", "FATAL") or is_telling(line.text):
            self.attempts.evidence(
                line.at, "stderr", f"{line.file}: {line.text}"[:4000], rank=line.rank, local_rank=line.local_rank,
                node=line.host,
            )  # fmt: skip

    # --- lines without a stamp -------------------------------------------------------------------------------------

    def _plain(self, line: Line) -> None:
        attempts = self.attempts
        if match := COMMAND_LINE.match(line.raw):
            self.settings.arguments(match["command"])
        elif lsf.HEAD.match(line.text):
            self.block = "lsf"
        elif match := EXIT_LINE.match(line.raw):
            self._command_ended(match["codes"])
        elif match := nvrx.IN_PROCESS.match(line.text):
            at = attempts.state.last_at
            if at is not None:
                self._in_process(match, at, has_restart_line=False)
        elif torchrun.CHILD_FAILED.match(line.text):
            self.tracebacks.take(line.stream, line.text)
            self.block = "table"
        elif torchrun.ROOT_CAUSE.match(line.text):
            self.block = "table"  # what stood above it is cut off
        elif ended := self.tracebacks.take(line.stream, line.text):
            self._erred(line, self._is_announced)
            if not torchrun.NOT_TELLING.search(ended.last):
                prefix = f"{line.stream[line.stream.index('[rank') :]}: " if "[rank" in line.stream else ""
                attempts.evidence(
                    None, "stderr", prefix + ended.last, rank=line.rank, local_rank=line.local_rank,
                    code=ended.last.partition(":")[0].rpartition(".")[2][:200], frame=ended.frame,
                    own_frame=ended.own_frame, through=ended.through, node=line.host,
                )  # fmt: skip
        elif self.tracebacks.inside(line.stream):
            if HEAD in line.text:
                told_before = read_line(self.prefix + self.before, self.clock, self.labels)
                announced = line.text.partition(HEAD)[0] + "\n" + (told_before.level or "") + " " + told_before.text
                self._is_announced = is_announced(announced)
        elif deepspeed.SPEAKS in line.text and line.at is not None and deepspeed.take(line, line.at, attempts):
            self.block = ""
        elif is_telling(line.text):
            placed = self._learn_place(line.text)
            if line.source != "kernel":
                self._erred(line, is_announced=True)
            else:
                self.going_on.told_of_machine(self._offset, self.attempts.state.attempt)
            attempts.evidence(
                line.at if line.at is not None else self._cancelled_at(line.text),
                line.source,
                line.text[:4000],
                rank=line.rank if placed is None else placed[0],
                local_rank=line.local_rank if line.local_rank is not None else deepspeed.local_rank(line, attempts),
                code=line.code,
                node=placed[1] if placed else line.node if line.source == "kernel" and line.node else line.host,
            )

    def _learn_place(self, text: str) -> tuple[int, str] | None:
        """The rank that ended and its machine, as srun says; None for other lines. mpirun's are only learned from.

        Tasks of srun are ranks unless a launcher speaks: then they are launchers.
        """
        if match := MPI_PLACE.search(text):
            self.attempts.places.place_rank(int(match["rank"]), match["node"])
            return None
        match = SRUN_PLACE.search(text) if self.attempts.state.launcher is None else None
        if match is None:
            return None
        self.attempts.places.place_rank(int(match["rank"]), match["node"])
        return int(match["rank"]), match["node"]

    def _cancelled_at(self, text: str) -> int | None:
        """When Slurm says that it cancelled a step, in a log whose own stamps come shortly before; None where they do
        not: another time zone may be behind it."""
        at, last = cancelled_at(text, self.clock), self.attempts.state.last_at
        if at is None or last is None or not 0 <= at - last < NEAR_NS:
            return None
        self.attempts.heard(at)
        return at

    def _command_ended(self, told: str) -> None:
        """A wrapper's last line: how the commands ended that it had started."""
        state = self.attempts.state
        codes = [int(code) for code in EXIT_CODE.findall(told)[:10_000]]
        if state.last_at is None or not state.is_started or not codes:
            return
        failed = next((code for code in codes if code), 0)
        if not failed and state.iterations:
            return  # restarts inside a process: which of them ended well is not told
        words = self.attempts.why_over(f"the command ended with exit code {failed}") if failed else None
        self.attempts.end_run(state.last_at, Outcome.FAILED if failed else Outcome.COMPLETED, words)

    # --- blocks ----------------------------------------------------------------------------------------------------

    def _in_block(self, line: Line) -> bool:
        """Take a line of a block; False ends the block, and the line is read like any other."""
        if self.block.startswith("table"):
            return self._in_table(line)
        if self.block.startswith("lsf"):
            return self._in_report(line)
        if not self.settings.take(self.block, line):
            self.block = ""
            return False
        if line.at is not None:
            self.attempts.heard(line.at)
        return True

    def _in_report(self, line: Line) -> bool:
        """LSF's report of a job that is over: how it ended, and whether the job's output is what stands before it."""
        attempts, state = self.attempts, self.attempts.state
        _, at, code = (*self.block.split(" "), "", "")[:3]
        text = line.text.strip()
        if match := lsf.TERMINATED_AT.match(text):
            stamp = lsf.stamp(match)
            ended = None if stamp is None else self.clock.instant(stamp)
            if ended is not None and state.last_at is not None and 0 <= ended - state.last_at < NEAR_NS:
                at = str(ended)
        elif lsf.TERM.match(text):
            attempts.evidence(int(at) if at else state.last_at, "log", text[:1000])
        elif match := lsf.EXIT.match(text):
            code = match["code"] or f"-{match['signal']}"
        elif lsf.COMPLETED.match(text):
            code = "0"
        elif match := lsf.ENDS.match(text):
            self.block = ""
            if code:
                self._job_ended(int(code), int(at) if at else state.last_at, comes_first=match["where"] == "follows")
            return True
        self.block = f"lsf {at} {code}"
        return True

    def end_report(self) -> None:
        """LSF's report breaks off before its last line: what it told holds, of the output that stands above it."""
        told, at, code = (*self.block.split(" "), "", "")[:3]
        if told == "lsf" and code:
            self._job_ended(int(code), int(at) if at else self.attempts.state.last_at, comes_first=False)

    def _job_ended(self, code: int, at: int | None, *, comes_first: bool) -> None:
        """A scheduler's report gives the exit code of the job, a signal as a negative one."""
        attempts, state = self.attempts, self.attempts.state
        words = attempts.why_over(f"the job ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}")
        outcome = Outcome.FAILED if code else Outcome.COMPLETED
        if state.told_over and code:
            outcome, words = Outcome(state.told_over[0]), str(state.told_over[1])
        if comes_first:
            state.told_over = [outcome.value, words, self._offset, False]
            self.reported_first = code
            return
        if at is None or state.is_over:
            return
        if not state.is_started:
            attempts.enter(at, state.attempt)
        self._job_left(code, at)
        attempts.end_run(at, outcome, words if code else None)
        state.is_job_over = True

    def _job_left(self, code: int, at: int) -> None:
        if code and not self.attempts.state.exits:
            self.attempts.state_fact(Exit, at, exit_code=code, signal=-code if code < 0 else None)

    def end_as_reported(self, step_offset: int) -> None:
        """The log is read whole: what a report before it said of its end holds now."""
        at = self.attempts.state.last_at
        if self.reported_first is not None and at is not None and not self.attempts.state.is_over:
            self._job_left(self.reported_first, at)
            self.attempts.end_where_told(step_offset)

    def _in_table(self, line: Line) -> bool:
        """The final table of torchrun: every rank of the last attempt, and that there is none after it."""
        attempts = self.attempts
        if line.speaker not in ("plain", "logger", "rank"):
            self.block = ""
            return False
        at = attempts.state.last_at
        at = line.at if at is None else at
        if (match := torchrun.TABLE_TIME.match(line.text)) and at is None:
            at = self.clock.instant(f"{match['day']} {match['clock']}")
            if at is not None:
                attempts.heard(at)  # nothing else of this log tells when it was
        elif match := torchrun.TABLE_HOST.match(line.text):
            is_a_name = not LOOPBACK.match(match["host"])
            self.block = f"table@{match['host']}" if is_a_name else "table"
        if at is None:
            return True
        if match := torchrun.TABLE_RANK.match(line.text):
            self.block = f"{self.block.split()[0]} {match['rank']} {match['local']}"
        elif (match := torchrun.TABLE_EXIT.match(line.text)) and " " in self.block:
            self._in_table_exited(match, at, line)
        elif (match := torchrun.TABLE_RAISED.match(line.text)) and " " in self.block:
            place, *numbers = self.block.split()
            rank, local = map(int, numbers)
            attempts.evidence(
                at, "torchrun", match["last"], rank=rank, local_rank=local, code=match["type"].rpartition(".")[2],
                node=place.partition("@")[2] or line.host,
            )  # fmt: skip
        elif line.text.startswith("====") and attempts.state.exits and " " in self.block:
            attempts.end_run(at, Outcome.FAILED, attempts.why_over("no restart was left"))
            self.block = ""
        return True

    def _in_table_exited(self, match: re.Match[str], at: int, line: Line) -> None:
        """A rank of the final table. Its exit is evidence where no line told of it before: it names the process."""
        attempts = self.attempts
        place, *numbers = self.block.split()
        rank, local = map(int, numbers)
        code, process = int(match["code"]), int(match["pid"])
        is_known = str(process) in attempts.state.exits or str(process) in attempts.state.past_processes
        attempts.places.pair(rank, local)
        node = place.partition("@")[2] or line.host
        attempts.exit(at, local, code, process, rank, node)
        if not is_known or (attempts.is_followed and node):
            attempts.evidence(
                at, "torchrun", line.text.strip(), rank=rank, local_rank=local, code=f"exitcode {code}", node=node,
            )  # fmt: skip


def _stamp_of(text: str) -> str | None:
    """The local stamp a profiling line begins with."""
    match = re.match(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ", text)
    return match[1] if match else None
