"""Run files: every log, error file and dump of one run, read together.

Rules
- What a file is, its content tells, and where its place says more (`attempt_1/0/stderr.log`, `app_cycle2.log`), that.
- Launchers' logs are read first: they tell when an attempt's end was noticed. Worker logs without stamps are placed
  there; a kernel log whose stamps count from the machine's start is placed at the only, or the last, such end.
- Cycle files of NVRx's launcher tell attempts where no log of it lies beside them, which tells more.
- A file that cannot be read, or whose kind is not known, is told with the reason and never stops the others.
- What schedulers tell (Slurm's commands, objects of Kubernetes) is read together, whatever file it is in. Where it is
  of one job it belongs to the run of the logs; several jobs are a run each, named after the job.
- Text is masked. Nothing here executes, unpickles or follows what a file says.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from rerail.collectors.long_lines import lines_of
from rerail.collectors.packed_files import open_packed
from rerail.collectors.patience import Patience
from rerail.collectors.sources.agent_events import facts_of_agent_events, is_agent_events
from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE
from rerail.collectors.sources.cycle_info import CycleInfo, cycle_facts, read_cycle_info
from rerail.collectors.sources.encodings import is_binary, nul_words, text_stream
from rerail.collectors.sources.error_files import PLACE, evidence_of_error_file, is_error_file
from rerail.collectors.sources.flight_recorder import with_attempt
from rerail.collectors.sources.given_files import Scratch, given_files, is_source
from rerail.collectors.sources.kube_files import is_kubernetes
from rerail.collectors.sources.line_wrappings import is_wrapped
from rerail.collectors.sources.log_reader import read_log
from rerail.collectors.sources.scheduler_files import SchedulerFiles
from rerail.collectors.sources.slurm_output import is_slurm
from rerail.collectors.uploads import CUT_OFF, Kind, understood
from rerail.server.core.codec import FactError
from rerail.server.core.facts import AttemptStarted, Evidence, Exit, Fact, MarkStage, RecoveryMark

RUN = "classified"
UNKNOWN_INSTANT = 1
"""Where no file of a run carries a stamp: order is all that is known."""
HEAD_BYTES = 16 * 1024
MOST_SCHEDULER_BYTES = 256 * 1024 * 1024
ATTEMPT_IN_PATH = re.compile(r"(?:cycle|attempt)[_-]?(\d{1,6})(?=\D|$)")
LOCAL_RANK_IN_PATH = re.compile(r"attempt_\d{1,6}/(\d{1,6})/")
RANK_IN_NAME = re.compile(r"(?:^|[._-])rank[_-]?(\d{1,7})(?=[._-]|$)")
LAUNCHER_SAYS = re.compile(
    rb"ft_launcher|torchrun|torch/distributed/elastic|torch\.distributed\.elastic|rendezvous|Worker group"
)
CYCLE_FILE = re.compile(rb'"cycle_(?:start_time|number)"')


@dataclass(frozen=True, slots=True)
class FileRead:
    """What became of one file."""

    path: str
    kind: str
    """`log`, `error file`, `flight recorder`, `cycle file`, `kubernetes`, `slurm`, or `skipped`."""
    facts: int = 0
    bytes: int = 0
    lines_counted: int = 0
    reason: str | None = None
    """Why it, or a part of it, was not read."""
    remark: str | None = None
    """What else a person should know about the reading of it."""


@dataclass(slots=True)
class RunFiles:
    """The facts of a run's files, and where each came from."""

    facts: list[Fact] = field(default_factory=list)
    files: list[FileRead] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    """Emitter → path."""
    dated_by_file: list[str] = field(default_factory=list)
    """Files of which nothing told when it was, but when they were written last."""
    dumps: dict[str, tuple[str, int]] = field(default_factory=dict)
    """SHA-256 of each dump → its name, and the rank that the name says."""
    scratch: Scratch = field(default_factory=Scratch)
    """Where what came out of pipes and archives lies."""
    left_out: int = 0
    """Files of folders and archives that are source text, documents or settings."""
    placed_attempts: set[int] = field(default_factory=set)
    """Attempts that have a place of their own (`attempt_1/0/stdout.log`), whatever their files tell."""

    def offset_of(self, emitter: str, seq: int) -> tuple[str, int] | None:
        """The path and the byte of the line a fact was read from; None for facts that no log line told."""
        path = self.paths.get(emitter)
        return None if path is None or not emitter.startswith("log/") else (path, seq // FACTS_PER_BYTE)


def open_log(path: Path, on_cut: Callable[[str], object] = lambda _: None) -> BinaryIO:
    """A file's bytes, unpacked where it is packed, and as UTF-8 whatever its mark says. Raises OSError, also for what
    is no regular file: to open a pipe may take for ever.

    `on_cut` hears how it is packed where it is cut off.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("no regular file")
    return text_stream(open_packed(path, on_cut))


def kind_of(path: Path, head: bytes) -> str:
    """What a file is, by how it begins."""
    if is_agent_events(head):
        return "agent events"
    if is_kubernetes(head):
        return "kubernetes"
    if is_slurm(head):
        return "slurm"
    if is_wrapped(head):
        return "log"
    if is_error_file(head):
        return "error file"
    if head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05") or (
        head.lstrip()[:1] == b"{" and (b'"pg_config"' in head or b'"comm_lib_version"' in head or b'"entries"' in head)
    ):
        return "flight recorder"
    if head.lstrip()[:1] in (b"{", b"[") and CYCLE_FILE.search(head):
        return "cycle file"
    if path.suffix in (".jsonl", ".json") or (head.lstrip()[:2] == b'{"' and b"Traceback" not in head):
        return "records"
    if is_binary(head):
        return "binary"
    return "log"


def read_run_files(
    paths: Sequence[str],
    *,
    tell: Callable[[str, int], None] | None = None,
    zone_seconds: int = 0,
    dates_by_file: bool = False,
    seconds: float | None = None,
) -> RunFiles:
    """Read every file. `tell` hears each path and how many of its bytes were read; `seconds`: the longest that one log
    may take, of which what was read until then counts.

    `zone_seconds`: east of UTC, of stamps that name no zone. `dates_by_file`: what no line of any file dates was when
    its file was written last; else it is at `UNKNOWN_INSTANT`, but for what the clock of a bar, or the times that steps
    took, count back from when the file was written last.
    """
    run = RunFiles()
    locals_seen: set[int] = set()
    later: list[tuple[int, Path, str, bytes]] = []
    cuts: dict[str, str] = {}
    for given in given_files(paths, run.scratch, seconds):
        path = given.path
        if given.refused is not None:
            run.files.append(FileRead(str(path), "skipped", reason=given.refused))
            continue
        if given.cut is not None:
            cuts[str(path)] = given.cut
        if place := PLACE.search(str(path).replace(os.sep, "/")):
            run.placed_attempts.add(int(place["attempt"]))
            locals_seen.add(int(place["local"]))
        try:
            with open_log(path) as file:
                head = file.read(HEAD_BYTES)
        except OSError as error:
            run.files.append(FileRead(str(path), "skipped", reason=str(getattr(error, "strerror", None) or error)))
            continue
        kind = kind_of(path, head)
        if not given.is_named and kind in ("log", "records") and (is_source(_inside(path, paths)) or head[:2] == b"#!"):
            run.left_out += 1
        elif not head:
            run.files.append(FileRead(str(path), "skipped", reason="empty"))
        elif len(head) < HEAD_BYTES and not head.strip(b"\0"):
            run.files.append(FileRead(str(path), "skipped", reason="nothing but NUL bytes"))
        elif kind == "binary" or (kind == "records" and path.suffix != ".json"):
            run.files.append(FileRead(str(path), "skipped", reason=f"{kind}: holds no evidence that is read here"))
        else:
            later.append((_turn(path, kind, head), path, kind, head))
    ends: dict[int, int] = {}
    last_stamp: int | None = None
    cycle_files = [path for _, path, kind, _ in later if kind == "cycle file"]
    _read_cycle_files(cycle_files, run, ends, has_launcher=any(turn == 0 for turn, *_ in later))
    later = [each for each in later if each[2] != "cycle file"]
    schedulers = SchedulerFiles(RUN)
    for _, path, kind, _ in sorted(later, key=lambda entry: (entry[0], str(entry[1]))):
        if kind in ("kubernetes", "slurm"):
            run.files.append(_read_scheduler(path, kind, schedulers))
            continue
        fallback = _fallback(path, ends, last_stamp)
        is_guessed = fallback == UNKNOWN_INSTANT and dates_by_file
        if is_guessed:
            fallback = path.stat().st_mtime_ns
        before = len(run.facts)
        written_at = fallback if is_guessed else path.stat().st_mtime_ns if fallback == UNKNOWN_INSTANT else None
        run.files.append(_read(path, kind, run, fallback, tell, zone_seconds, seconds, written_at))
        if is_guessed and any(fact.at == fallback for fact in run.facts[before:]):
            run.dated_by_file.append(str(path))
        for fact in run.facts[before:]:
            if (isinstance(fact, RecoveryMark) and fact.stage is MarkStage.NOTICED) or isinstance(fact, Exit):
                ends.setdefault(fact.restart or 0, fact.at)
            if kind == "error file" and fact.restart is not None and fact.at not in (fallback, UNKNOWN_INSTANT):
                ends.setdefault(fact.restart, fact.at)
            if fact.at != fallback and fact.at > UNKNOWN_INSTANT:
                last_stamp = max(fact.at, last_stamp or 0)
    _place_ranks(run, locals_seen)
    _place_nodes(run)
    for scheduler, found in schedulers.facts().items():
        run.facts += found
        files = [file.path for file in run.files if file.kind == scheduler]
        if len(files) == 1:
            run.paths.update((fact.emitter, files[0]) for fact in found)
            run.files = [replace(file, facts=len(found)) if file.kind == scheduler else file for file in run.files]
    shown = run.scratch.shown
    run.files = [
        replace(file, path=shown(file.path), reason=cuts.get(file.path) or file.reason) for file in run.files
    ]  # fmt: skip
    run.paths = {emitter: shown(path) for emitter, path in run.paths.items()}
    run.dated_by_file = [shown(path) for path in run.dated_by_file]
    return run


def _inside(path: Path, paths: Sequence[str]) -> str:
    """The place of a file within the folder that was named: folders above that say nothing of it."""
    for folder in paths:
        with suppress(ValueError):
            return str(path.relative_to(folder))
    return str(path)


def _place_ranks(run: RunFiles, locals_seen: set[int]) -> None:
    """Of what lies in the place of a local rank, the rank: the same, as long as nothing tells of more than one node."""
    if not locals_seen:
        return
    placed = {emitter for emitter, path in run.paths.items() if PLACE.search(path.replace(os.sep, "/"))}
    most = max(locals_seen)
    has_more_nodes = any(
        (isinstance(fact, (Evidence, Exit)) and fact.emitter not in placed and (fact.rank or 0) > most)
        or (isinstance(fact, AttemptStarted) and (fact.world_size or 0) > most + 1)
        for fact in run.facts
    )  # fmt: skip
    for place, fact in enumerate(run.facts):
        if not isinstance(fact, Evidence) or fact.emitter not in placed or fact.local_rank is None:
            continue
        if has_more_nodes and fact.emitter.startswith("file/"):
            run.facts[place] = replace(fact, rank=None)
        elif not has_more_nodes and fact.rank is None:
            run.facts[place] = replace(fact, rank=fact.local_rank)


def _place_nodes(run: RunFiles) -> None:
    """A log that is named as the machines of other files are (`gpu-17.log` beside one of `gpu-18`) is of its name's."""
    told: dict[str, set[str]] = {}
    for fact in run.facts:
        if isinstance(fact, Evidence) and fact.emitter in run.paths:
            told.setdefault(fact.emitter, set()).update({fact.node} if fact.node else ())
    shapes = {_shape(node) for nodes in told.values() for node in nodes}
    named = {
        emitter: stem
        for emitter, path in run.paths.items()
        if not told.get(emitter) and any(map(str.isdigit, stem := Path(path).name.partition(".")[0]))
        and _shape(stem) in shapes
    }  # fmt: skip
    for place, fact in enumerate(run.facts):
        if isinstance(fact, Evidence) and fact.node is None and fact.emitter in named:
            run.facts[place] = replace(fact, node=named[fact.emitter])


def _shape(name: str) -> str:
    return re.sub(r"\d{1,40}", "#", name)


def _read_cycle_files(paths: Sequence[Path], run: RunFiles, ends: dict[int, int], *, has_launcher: bool) -> None:
    """The attempts that the files tell, and when they ended.

    Of the last one the end is left out: whether the run was over then, and well, no such file tells.
    """
    told = [(path, None if has_launcher else read_cycle_info(path)) for path in paths]
    last = max((_order(info) for _, info in told if isinstance(info, CycleInfo)), default=None)
    for path, info in told:
        if not isinstance(info, CycleInfo):
            reason = "the launcher's log beside it tells more" if has_launcher else "cycle file: no whole answer"
            if not has_launcher and path.name.endswith(".current"):
                reason = "cycle file: a copy of the newest, which is read"
            run.files.append(FileRead(str(path), "skipped", reason=reason))
            continue
        emitter = f"file/{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
        found = cycle_facts(
            replace(info, end=None) if _order(info) == last else info, run=RUN, emitter=emitter, node=None
        )
        run.facts += found
        run.paths[emitter] = str(path)
        run.files.append(FileRead(str(path), "cycle file", len(found), path.stat().st_size))
        if info.end is not None:
            ends[info.cycle] = info.end


def _order(info: CycleInfo) -> tuple[int, int]:
    return info.requeue or 0, info.cycle


def _read_scheduler(path: Path, kind: str, schedulers: SchedulerFiles) -> FileRead:
    try:
        with open_log(path) as file:
            data = file.read(MOST_SCHEDULER_BYTES + 1)
    except (OSError, EOFError) as error:
        return FileRead(str(path), "skipped", reason=str(error))
    if len(data) > MOST_SCHEDULER_BYTES:
        return FileRead(str(path), "skipped", reason=f"larger than {MOST_SCHEDULER_BYTES} bytes")
    refused = schedulers.add(kind, data)
    if refused and not schedulers.took_last:
        return FileRead(str(path), "skipped", reason=refused[0])
    reason = f"{len(refused)} rows refused, the first: {refused[0]}" if refused else None
    return FileRead(str(path), kind, bytes=len(data), reason=reason)


def _turn(path: Path, kind: str, head: bytes) -> int:
    """Launchers' logs first, then error files, which carry instants, then what lies in a place, then the rest."""
    is_of_worker = LOCAL_RANK_IN_PATH.search(path.as_posix()) is not None
    if kind == "log" and not (is_of_worker or ATTEMPT_IN_PATH.search(path.name)) and LAUNCHER_SAYS.search(head):
        return 0
    if kind == "error file":
        return 1
    return 2 if ATTEMPT_IN_PATH.search(str(path)) else 3


def _fallback(path: Path, ends: dict[int, int], last_stamp: int | None) -> int:
    """The instant of what has none: the end of its attempt, else the last end, else the last stamp."""
    attempt = ATTEMPT_IN_PATH.findall(str(path))
    if attempt and int(attempt[-1]) in ends:
        return ends[int(attempt[-1])]
    if ends:
        return ends[max(ends)]
    return last_stamp if last_stamp is not None else UNKNOWN_INSTANT


def _read(
    path: Path,
    kind: str,
    run: RunFiles,
    fallback: int,
    tell: Callable[[str, int], None] | None,
    zone_seconds: int,
    seconds: float | None,
    written_at: int | None,
) -> FileRead:
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    emitter = f"{'log' if kind == 'log' else 'file'}/{mark}"
    run.paths[emitter] = str(path)
    try:
        if kind == "log":
            return _read_log(path, emitter, run, fallback, tell, zone_seconds, seconds, written_at)
        if kind == "agent events":
            with open_log(path) as file:
                passed: list[str] = []
                lines = lines_of(file, lambda line, error: passed.append(f"{line}: {error}"))
                found = list(
                    facts_of_agent_events(lines, run=RUN, stem=RUN, emitter=emitter, fallback_at=fallback)
                )  # fmt: skip
                run.facts += found
                remark = f"{len(passed)} lines passed over, the first {passed[0]}" if passed else None
                return FileRead(str(path), kind, len(found), path.stat().st_size, remark=remark)
        with open_log(path) as file:
            data = file.read(64 * 1024 * 1024)
        if kind == "error file":
            found = evidence_of_error_file(data, path=str(path), run=RUN, emitter=emitter, fallback_at=fallback)
        else:
            found, kind = _dump(path, data, emitter, fallback, run.dumps)
            if not found:
                return FileRead(str(path), "skipped", reason=kind)
        run.facts += found
        return FileRead(str(path), kind, len(found), len(data))
    except (FactError, OSError, EOFError) as error:
        return FileRead(str(path), "skipped", reason=str(error))


def _dump(
    path: Path, data: bytes, emitter: str, fallback: int, known: dict[str, tuple[str, int]]
) -> tuple[list[Evidence], str]:
    """The evidence of a flight recorder dump or its side-car; without any, why. `known` are those that were read."""
    told = understood(str(path), data)
    if told.kind not in (Kind.FLIGHT_RECORDER, Kind.PROCESS_GROUPS):
        return [], "records: holds no evidence that is read here"
    if told.kind is Kind.FLIGHT_RECORDER and told.pieces and told.pieces[0].rank is not None:
        rank = told.pieces[0].rank
        name, owner = known.setdefault(hashlib.sha256(data).hexdigest(), (path.name, rank))
        if owner != rank:
            return [], f"it is byte for byte {name}, a copy, and nothing that rank {rank} wrote"
    found = [
        Evidence(
            run=RUN, emitter=emitter, seq=seq, at=piece.at or fallback, source=piece.source, text=piece.text,
            code=piece.code, rank=piece.rank, node=piece.node, attributes=with_attempt(piece.attributes, str(path)),
        )
        for seq, piece in enumerate(told.pieces)
    ]  # fmt: skip
    return found, "flight recorder" if found else "; ".join([*told.refused, "no dump"])


def _read_log(
    path: Path,
    emitter: str,
    run: RunFiles,
    fallback: int,
    tell: Callable[[str, int], None] | None,
    zone_seconds: int,
    seconds: float | None,
    written_at: int | None,
) -> FileRead:
    place = str(path).replace(os.sep, "/")
    attempt = ATTEMPT_IN_PATH.findall(place)
    local = LOCAL_RANK_IN_PATH.search(place)
    named = RANK_IN_NAME.search(path.name)
    prefix = b"[default%d]:" % int(local[1]) if local else b"%d: " % int(named[1]) if named else b""
    cut: list[str] = []
    with open_log(path, cut.append) as file:
        read = read_log(
            file, emitter=emitter, run=RUN, fallback_at=fallback, zone_seconds=zone_seconds,
            latest=path.stat().st_mtime_ns, prefix=prefix,
            restart=int(attempt[-1]) if attempt else None, worker_only=bool(attempt),
            tell=None if tell is None else lambda done: tell(str(path), done), patience=Patience(seconds),
            written_at=written_at,
        )  # fmt: skip
    facts = read.facts
    if attempt:  # the log of one attempt's workers tells of no other
        facts = [fact for fact in facts if not isinstance(fact, AttemptStarted) or fact.iteration]
    elif not any(isinstance(fact, (RecoveryMark, AttemptStarted, Exit)) for fact in facts):
        facts = [_keyless(fact) for fact in facts]
    run.facts += facts
    reason = None
    remarks = [CUT_OFF.format(packing=cut[0])] if cut else []
    remarks += [nul_words(read.nuls)] if read.nuls else []
    remarks += [dated] if (dated := read.how_dated()) else []
    remarks += read.off_clocks
    if read.stopped_at is not None:
        reason = f"reading stopped after {seconds:g} s at byte {read.stopped_at}: nothing behind it was read"
    return FileRead(str(path), "log", len(facts), read.bytes, read.lines_counted, reason, "; ".join(remarks) or None)


def _keyless(fact: Fact) -> Fact:
    """A log without any attempt of its own belongs to whichever was alive at its instants."""
    return replace(fact, restart=None)
