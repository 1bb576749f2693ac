"""Folders: everything that one run left behind, joined into that run: `rerail import logs FOLDER --run ID`.

Read are logs of launchers and workers, error files, flight recorder dumps, what schedulers printed (`run_files.py`).

Rules
- The launcher numbers attempts, and what workers wrote without stamps is placed where it noticed their end.
- A log that tells its attempts itself, and begins when the one before it is over, goes on with their numbers: of a run
  that was submitted again each submission has its own file.
- A log whose first step follows the last one of another within the time of a few steps goes on with it: it was
  rotated. The step between them took the time between them.
- The last attempt of a log behind which another log begins anew ended as that log alone says (`OldFolder.ends`).
- Of several logs that tell the same steps at the same time (one a rank) the one that tells most is taken for steps,
  checkpoints and attempts; the evidence of all of them counts.
- How the last attempt ended that no line ends, who asks for the folder judges (`OldFolder.ends`).
- Where no file tells of any attempt, and some tell how a program broke, each place of an attempt (`attempt_1/0/…`) is
  one, else the whole is: it was there when its first words were written, and failed with its last. A later place in
  which nothing broke is an attempt too, which began when the one before it failed.
- Identity follows from the place within the folder: the same folder imported again, from wherever it lies, adds
  nothing.
- A folder that is not written any more, and tells no end, ended with its last word (`left_off.py`).
- Where no line of any file carries a stamp, what a file tells was when it was written last, and that is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rerail.collectors.formats import OldFolder
from rerail.collectors.sources.given_files import Scratch, left_out_words
from rerail.collectors.sources.left_off import STILL_RUNNING, is_open, left_off, said, said_of_ends
from rerail.collectors.sources.run_files import RUN, UNKNOWN_INSTANT, FileRead, RunFiles, read_run_files
from rerail.server.core.codec import FactError
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    Evidence,
    Exit,
    Fact,
    Outcome,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    Scope,
    Steps,
)

PROGRESS = (AttemptStarted, CheckpointLoaded, CheckpointMoment, PhaseSpan, RecoveryMark, RunStarted, RunEnded, Steps)
END_SEQ, BETWEEN_SEQ = 2**52, 2**52 + 1
"""Behind the numbers that lines have: of an end that was judged, and of steps between two files."""
PAUSE_STEPS = 3
"""A process that writes on in another file has done its next step within so many."""
BESIDE_NS = 1800 * 10**9
"""A file that was written so long before or after what the others tell of is of another time, or a copy."""
NO_PROGRAM = frozenset({"kernel", "slurm", "kubernetes", "flight_recorder", "dcgm"})
"""Sources whose words are not a program's own."""


def read_folder(folder: OldFolder) -> Iterator[Fact]:
    """The facts of all files, of one run; jobs of several runs that a scheduler tells of are runs of their own."""
    found = read_run_files(list(folder.parts) or [folder.path], zone_seconds=folder.zone_seconds, dates_by_file=True)
    named = _names(found, folder.path)
    taken = []
    for file in found.files:
        if file.kind == "skipped":
            folder.remark(f"{_within(file.path, folder.path)}: {file.reason}")
        else:
            taken.append(file)
            if file.remark is not None:
                folder.remark(f"{_within(file.path, folder.path)}: {file.remark}")
    if found.left_out:
        folder.remark(left_out_words(found.left_out))
    if not taken:
        folder.refuse(1, FactError("path", folder.path, "holds no file that is read"))
        return
    folder.remark(f"{len(taken)} file{'s' * (len(taken) > 1)} read as one run")
    if moved := _dated_as_the_others(found):
        first = _within(moved[0], folder.path)
        folder.remark(f"no line of {first} dates it, and it was written at another time than the others tell of: when "
                      "it was is not known, and it is placed before them")  # fmt: skip
    guessed = [path for path in found.dated_by_file if path not in moved]
    if guessed:
        first = _within(guessed[0], folder.path)
        folder.remark(f"no line of {first} dates it: it is taken to be of when it was written last")
    facts = joined(_with_ends(found.facts, folder))
    if ends := _judged_ends(facts, taken, found.scratch, folder):
        folder.remark(said_of_ends(ends))
        facts += ends
    if folder.ends is None or len({fact.restart or 0 for fact in facts if isinstance(fact, Evidence)}) > 1:
        facts = with_attempts(facts, found.placed_attempts)
    end = _left_off(facts, taken, found.scratch, folder.now)
    if end is not None and folder.now is not None:
        facts.append(end)
        folder.remark(said(end, folder.now))
    elif folder.now is not None and is_open([fact for fact in facts if fact.run == RUN]):
        folder.remark(STILL_RUNNING)
    for fact in facts:
        if fact.at <= UNKNOWN_INSTANT:
            text = fact.text if isinstance(fact, Evidence) else fact.kind
            folder.refuse(1, FactError("at", text[:80], "no file of the folder tells when this was"))
            continue
        run = folder.run if fact.run == RUN else fact.run
        yield replace(fact, run=run, emitter=named.get(fact.emitter, fact.emitter))


def _dated_as_the_others(found: RunFiles) -> list[str]:
    """Place what nothing dates before the stamps of the other files, if it was written long after or before them
    (a copy); the paths of those files."""
    guessed = {emitter for emitter, path in found.paths.items() if path in found.dated_by_file}
    told = [fact.at for fact in found.facts if fact.emitter not in guessed and fact.at > UNKNOWN_INSTANT]
    if not told or not guessed:
        return []
    first, last = min(told), max(told)
    moved = set()
    for place, fact in enumerate(found.facts):
        if fact.emitter in guessed and not first - BESIDE_NS <= fact.at <= last + BESIDE_NS:
            found.facts[place] = replace(fact, at=first - BESIDE_NS)
            moved.add(found.paths[fact.emitter])
    return [path for path in found.dated_by_file if path in moved]


def _left_off(facts: Sequence[Fact], files: Sequence[FileRead], scratch: Scratch, now: int | None) -> RunEnded | None:
    """Where what the folder tells of its run ends, for one that is not written any more; None where that is told."""
    told = [fact for fact in facts if fact.run == RUN and fact.at > UNKNOWN_INSTANT]
    if now is None or not told:
        return None
    seq = max(fact.at for fact in told) // 10**9
    return left_off(told, now=now, written_at=_written_at(files, scratch), seq=seq, run=RUN, emitter="folder")


def _judged_ends(facts: Sequence[Fact], files: Sequence[FileRead], scratch: Scratch, folder: OldFolder) -> list[Fact]:
    """What who asks for the folder judges of the end of its run's last attempt."""
    told = [fact for fact in facts if fact.run == RUN and fact.at > UNKNOWN_INSTANT]
    if folder.ends is None or folder.now is None or not told:
        return []
    return folder.ends(told, folder.now, _written_at(files, scratch))


def _written_at(files: Sequence[FileRead], scratch: Scratch) -> int | None:
    """When the last of the files was written, in ns; None where no file tells."""
    written = []
    for file in files:
        with suppress(OSError):
            written.append(scratch.real(file.path).stat().st_mtime_ns)
    return max(written, default=None)


def joined(facts: Sequence[Fact]) -> list[Fact]:
    """The facts of all files, those that tell of the same training only once, and attempts numbered through."""
    tellers = _tellers(_by_emitter(facts))
    left_out: set[str] = set()
    shifts: dict[str, int] = {}
    resubmitted: set[str] = set()
    begun_again: set[str] = set()
    """Logs that go on with another one that was rotated away: in them nothing began."""
    between: list[Fact] = []
    over_at, numbers = 0, 0
    last: _Teller | None = None
    for emitter, own in sorted(tellers.items(), key=lambda entry: (entry[1].began, -entry[1].steps)):
        rivals = [other for name, other in tellers.items() if name != emitter and name not in left_out]
        if any(own.is_said_by(other) for other in rivals):
            left_out.add(emitter)
            continue
        if own.tells_attempts:
            goes_on = last is not None and own.goes_on_with(last)
            if own.began >= over_at and numbers:
                shifts[emitter] = numbers - goes_on
                resubmitted |= set() if goes_on else {emitter}
            if last is not None and goes_on:
                left_out_here = own.low - last.high - 1
                between += own.steps_between(last, emitter, shifts.get(emitter, 0)) if left_out_here else []
                begun_again.add(emitter)
            over_at = max(over_at, own.ended)
            numbers = max(numbers, shifts.get(emitter, 0) + own.attempts)
            last = own
    kept = (
        fact
        for fact in facts
        if not (fact.emitter in left_out and (isinstance(fact, PROGRESS) or fact.seq == END_SEQ))
        and not (fact.emitter in begun_again and not fact.restart and isinstance(fact, (AttemptStarted, RecoveryMark)))
    )
    return [
        *(_of_its_attempt(fact, shifts.get(fact.emitter, 0), fact.emitter in resubmitted) for fact in kept),
        *between,
    ]


def with_attempts(facts: Sequence[Fact], placed: Set[int] = frozenset()) -> list[Fact]:
    """The facts, and the attempts that only what broke in them, or that they have a place (`placed`), tells of."""
    told = [fact for fact in facts if fact.run == RUN and fact.at > UNKNOWN_INSTANT]
    broke = [fact for fact in told if isinstance(fact, Evidence) and fact.source not in NO_PROGRAM]
    if not broke or any(isinstance(fact, (AttemptEnded, Exit, *PROGRESS)) for fact in told):
        return list(facts)
    founded: list[Fact] = []
    for number in sorted({fact.restart or 0 for fact in broke}):
        own = [fact.at for fact in broke if (fact.restart or 0) == number]
        where = {"run": RUN, "emitter": "folder", "restart": number}
        founded += [
            AttemptStarted(**where, seq=2 * number, at=min(own)),
            AttemptEnded(**where, seq=2 * number + 1, at=max(own), outcome=Outcome.FAILED),
        ]  # type: ignore[arg-type]
    last = max(fact.restart or 0 for fact in broke)
    began = max(fact.at for fact in broke if (fact.restart or 0) == last)
    founded += [
        AttemptStarted(run=RUN, emitter="folder", seq=2 * number, at=began, restart=number)
        for number in sorted(placed)
        if number > last
    ]
    return [*facts, *founded]


class _Teller:
    """A log that tells steps: when, which, and whether it numbers attempts by itself."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        told = [fact for fact in facts if isinstance(fact, Steps)]
        self.steps = sum(fact.step_count for fact in told)
        self.began = min(fact.start for fact in told)
        self.ended = max(fact.start + sum(fact.durations_us) * 1000 for fact in told)
        self.low = min(fact.first_step for fact in told)
        self.high = max(fact.first_step + fact.step_count - 1 for fact in told)
        self.every = max(fact.every or 1 for fact in told)
        self.is_over = any(isinstance(fact, (AttemptEnded, RunEnded)) for fact in facts)
        begun = [fact for fact in facts if isinstance(fact, AttemptStarted)]
        self.attempts = 1 + max((fact.restart or 0 for fact in facts), default=0)
        self.tells_attempts = bool(begun) and not any(
            isinstance(fact, Exit) or (isinstance(fact, AttemptStarted) and fact.launcher) for fact in facts
        )

    def goes_on_with(self, before: _Teller) -> bool:
        """The same process wrote on into another file: the next steps, without a pause."""
        each = (before.ended - before.began) // max(1, before.high - before.low + 1)
        follows = 0 < self.low - before.high <= 1 + self.every
        return follows and not before.is_over and 0 <= self.began - before.ended <= PAUSE_STEPS * max(1, each)

    def steps_between(self, before: _Teller, emitter: str, restart: int) -> list[Fact]:
        """The steps that the first line of a log ends, which only the last line before it dates."""
        length = max(0, self.began - before.ended) // 1000
        return [
            Steps(
                run=RUN, emitter=emitter, seq=BETWEEN_SEQ, at=self.began, restart=restart, first_step=before.high + 1,
                start=before.ended, durations_us=(length,), count=self.low - before.high - 1,
            )
        ]  # fmt: skip

    def is_said_by(self, other: _Teller) -> bool:
        """The other log tells of the same steps at the same time, and of more of them."""
        at_once = self.began < other.ended and other.began < self.ended
        return at_once and self.low <= other.high and other.low <= self.high and self.steps <= other.steps


def _by_emitter(facts: Sequence[Fact]) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(fact.emitter, []).append(fact)
    return found


def _tellers(by_emitter: Mapping[str, Sequence[Fact]]) -> dict[str, _Teller]:
    return {
        emitter: _Teller(own)
        for emitter, own in by_emitter.items()
        if any(isinstance(fact, Steps) for fact in own)
    }  # fmt: skip


def _of_its_attempt(fact: Fact, by: int, is_resubmitted: bool) -> Fact:
    """A fact with its attempt counted on; the first attempt of another submission began with it."""
    if is_resubmitted and isinstance(fact, AttemptStarted) and not fact.restart and fact.scope is None:
        fact = replace(fact, scope=Scope.RESUBMIT)
    return replace(fact, restart=fact.restart + by) if by and fact.restart is not None else fact


def _with_ends(facts: Sequence[Fact], folder: OldFolder) -> list[Fact]:
    """The facts, and how the last attempt of each log ended that does not say so, where later ones follow in another
    log: as of that log alone."""
    if folder.ends is None or folder.now is None:
        return list(facts)
    by_emitter = _by_emitter(facts)
    tellers = {emitter: own for emitter, own in _tellers(by_emitter).items() if own.tells_attempts}
    latest = max((own.began for own in tellers.values()), default=0)
    ends: list[Fact] = []
    for emitter, teller in tellers.items():
        if teller.ended >= latest:
            continue
        for end in folder.ends(by_emitter[emitter], folder.now, None):
            if isinstance(end, AttemptEnded):
                ends.append(replace(end, emitter=emitter, seq=END_SEQ))
    return [*facts, *ends]


def _within(path: str, folder: str) -> str:
    if path.startswith(f"{folder}: "):
        return path[len(folder) + 2 :]  # of an archive
    try:
        return str(Path(path).relative_to(folder))
    except ValueError:
        return path


def _names(found: RunFiles, folder: str) -> dict[str, str]:
    """Emitters by the place of their file within the folder."""
    named = {}
    for emitter, path in found.paths.items():
        kind = emitter.partition("/")[0]
        if kind in ("log", "file"):
            place = _within(path, folder)
            named[emitter] = f"{kind}/{Path(place).name[:80]}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    return named
