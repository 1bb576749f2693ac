"""Logs of the past into a run: `rerail import logs FILE --run ID`, and `kernel` for a machine's kernel log.

A launcher's log states attempts, marks, exits and evidence; a training log its steps, saves and loads too
(`progress.py`), and its attempts where no launcher speaks in it. Of a kernel log only what
the kernel said is taken, and lines whose stamps count from the machine's start are refused: they tell no instant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE
from rerail.collectors.sources.encodings import nul_words
from rerail.collectors.sources.folders import read_folder
from rerail.collectors.sources.left_off import STILL_RUNNING, is_open, left_off, said, said_of_ends
from rerail.collectors.sources.log_reader import AGAIN_BYTES, Read, read_log
from rerail.server.core.codec import FactError
from rerail.server.core.facts import (
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Evidence,
    Fact,
    Steps,
)

NO_STEPS = (
    "no steps told: no line says that a step is done, in words that are read (docs/training_logs.md lists them); how "
    "long it trained is unknown"
)


class LinesFile:
    """Lines as a file that is read in blocks, and once more from its beginning where it is not large."""

    def __init__(self, old: OldFile) -> None:
        self._lines: Iterator[tuple[int, bytes]] = iter(old.lines)
        self._kept: list[bytes] | None = []
        self._size = 0

    def seekable(self) -> bool:
        """Whether all of it is still there."""
        return self._kept is not None

    def seek(self, offset: int) -> None:
        """Begin anew; lines that were not read yet come no more."""
        assert offset == 0
        self._lines = enumerate(self._kept or (), 1)
        self._kept = None

    def let_go(self) -> None:
        """It is not read again."""
        self._kept = None

    def read(self, size: int = -1) -> bytes:
        """Whole lines of at least `size` bytes, or what is left."""
        parts, length = [], 0
        for _, line in self._lines:
            parts.append(line)
            length += len(line)
            if 0 <= size <= length:
                break
        data = b"".join(parts)
        self._size += length
        if self._kept is not None:
            self._kept.append(data)
        if self._size >= AGAIN_BYTES:
            self.let_go()
        return data


def place_of(old: OldFile) -> str:
    """A short name for where a file lies: the same file gives the same, however its path is spelled."""
    path = Path(old.path)
    place = str(path.resolve()) if path.exists() else old.path  # of an archive it is a name within
    return f"{old.stem[:80]}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def _whole(old: OldFile, kind: str, fallback_at: int | None = None) -> Read:
    lines = LinesFile(old)
    return read_log(
        lines,  # type: ignore[arg-type]
        emitter=f"{kind}/{place_of(old)}", run=old.run or old.stem, node=old.node,
        zone_seconds=old.zone_seconds, latest=old.at, written_at=old.at, is_dated=lines.let_go,
        fallback_at=fallback_at,
    )  # fmt: skip


def _logs(old: OldFile) -> Iterator[Fact]:
    read = _whole(old, "log", old.at)
    if read.nuls:
        old.remark(nul_words(read.nuls))
    for said_of in read.off_clocks:
        old.remark(said_of)
    if read.behind_ns:
        old.remark(
            f"its stamps go back by {read.behind_ns // 3_600_000_000_000} h where steps go on: taken for the same "
            "clock in another zone, what follows is dated so much later than it says"
        )
    if read.went_back:
        count, most = read.went_back
        old.remark(
            f"its stamps go back {_count(count, 'time')} where steps go on, by {most / 1e9:,.0f} s at most, which is "
            "no zone: how long those steps took, and when the rest was, is as those stamps say"
        )
    if read.facts and not read.is_stamped and all(fact.at == old.at for fact in read.facts):
        old.remark("no line of it tells an instant: it is taken to be of when it was written last")
    if old.ends is not None and old.now is not None and read.facts:
        ends = old.ends(read.facts, old.now, old.at)
        if ends:
            old.remark(said_of_ends(ends))
        read.facts = [*read.facts, *(replace(each, emitter=f"{read.facts[0].emitter}/end") for each in ends)]
    if not read.is_stamped and (beside := _folder_beside(old.path)):
        old.remark(f"more of the same run may lie in {beside}, beside it: `rerail import logs {beside} --run ID`")
    yield from _dated(old, read)
    still_running = ""
    if old.now is not None and read.facts:
        run, emitter = read.facts[0].run, read.facts[0].emitter
        seq = (read.bytes - 1) * FACTS_PER_BYTE + FACTS_PER_BYTE - 2  # where the last line ends no line begins
        end = left_off(read.facts, now=old.now, written_at=old.at, seq=seq, run=run, emitter=emitter)
        if end is not None:
            yield end
            old.remark(said(end, old.now))
        elif is_open(read.facts):
            still_running = STILL_RUNNING
    if told := _what_of_training(read):
        old.remark(told)
    untold = sum(fact.down_untold is True for fact in read.facts if isinstance(fact, AttemptStarted))
    if untold:
        restarts = "the restart is" if untold == 1 else f"{untold} restarts are"
        old.remark(f"{restarts} dated by nothing in the log: how long the run was down is unknown, not 0")
    if still_running:
        old.remark(still_running)


def _folder_beside(path: str) -> str | None:
    """A folder that is named as the log is: there launchers put what their workers printed."""
    log = Path(path)
    places = [log.with_suffix(".d"), log.with_suffix("")]
    return next((str(place) for place in places if place != log and place.is_dir() and any(place.iterdir())), None)


def _count(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _what_of_training(read: Read) -> str:
    """What a log told of training, and what it did not, in a sentence; empty where it told of none."""
    steps = sum(fact.step_count for fact in read.facts if isinstance(fact, Steps))
    undated = f"{read.steps_undated} lines of steps tell no instant (kubectl logs --timestamps, or `| ts '%.s'`)"
    if dated := read.how_dated():
        undated = f"{undated}; {dated}" if read.steps_undated else dated
    if not steps and (read.steps_undated or read.bars_dated_back):
        return f"no steps: {undated}"
    if not steps:
        return NO_STEPS
    attempts = len({fact.restart for fact in read.facts if isinstance(fact, (AttemptStarted, Steps))})
    saves = len(
        {
            (fact.restart, fact.step)
            for fact in read.facts
            if isinstance(fact, CheckpointMoment) and fact.stage == CheckpointStage.DURABLE
        }
    )
    loads = len({(fact.restart, fact.step) for fact in read.facts if isinstance(fact, CheckpointLoaded)})
    known = (
        f"{_count(attempts, 'attempt')}, {_count(steps, 'step')}, {_count(saves, 'durable checkpoint')} and "
        f"{_count(loads, 'load')} told"
    )
    return f"{known}; a log does not tell GPUs, heartbeats and waits for data" + (
        f"; {undated}" if read.steps_undated or read.bars_dated_back or read.counted_ns else ""
    )


def read_kernel(old: OldFile) -> Iterator[Fact]:
    """What the kernel said."""
    read = _whole(old, "kernel")
    read.facts = [fact for fact in read.facts if isinstance(fact, Evidence) and fact.source == "kernel"]
    if unnamed := sum(fact.node is None for fact in read.facts if isinstance(fact, Evidence)):
        old.remark(f"{_count(unnamed, 'line')} that matter{'s' * (unnamed == 1)} name{'s' * (unnamed == 1)} no machine "
                   "(`dmesg -T`): --node NAME says whose they are")  # fmt: skip
    yield from _dated(old, read)


def _dated(old: OldFile, read: Read) -> Iterator[Fact]:
    for fact in read.facts:
        if fact.at > 0:
            yield fact
        else:
            text = fact.text if isinstance(fact, Evidence) else fact.kind
            old.refuse(1, FactError("at", text[:80], "no line of the file tells when this was (dmesg -T, journalctl)"))
    if read.lines_counted:
        old.remark(f"{read.lines_counted} lines of kinds that were kept often enough were only counted")


FORMAT = ImportFormat(
    name="logs",
    summary="a log of a launcher, of workers, or of any framework; or a folder of all that one run left behind",
    read=_logs,
    read_folder=read_folder,
    example="train.log --run llm --zone Asia/Seoul",
    tells="attempts, exits, evidence of faults, and of training logs steps, saves, loads and evaluations",
    cannot_tell="GPUs, heartbeats, waits for data; instants where no line carries one, but for those that can be "
    "counted on from another, or back from when the file was written last (it says so)",
    options=frozenset({"--zone", "--still-running"}),
)
