"""`rerail classify`: why runs stopped, read from logs and dumps alone: no server, no database.

Rules
- All paths of one command are one run, and its files are judged together; `--each` judges every path by itself.
- The verdicts are those of the pages: the files become facts, which go through the same fold and the same rules.
- `--json` has a stable shape (docs/verdicts.md). Exit codes: 0 read and judged, also where nothing had stopped; 1 no
  path could be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from rerail.collectors.sources.given_files import left_out_words
from rerail.collectors.sources.run_files import RUN, UNKNOWN_INSTANT, RunFiles, open_log, read_run_files
from rerail.server.commands.zones import zone_seconds
from rerail.server.core.attempt_record import TimedEvidence, WorkerExit
from rerail.server.core.cause_rules import Case, Weight
from rerail.server.core.causes import UNKNOWN, judge, judged_signs
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Fact,
    NodeCondition,
    NodeState,
    Outcome,
    SchedulerState,
    Steps,
)
from rerail.server.core.flight_recorder.analysis import is_dump
from rerail.server.core.flight_recorder.dump_sets import dump_sets, nearest_set
from rerail.server.core.flight_recorder.ranks import packed
from rerail.server.core.flight_recorder.summary import DUMP_CODE
from rerail.server.core.fold import RunFold
from rerail.server.core.report import iso
from rerail.server.core.steps import StatedSteps, StepBlock, StepStream, merged_blocks, stated_ends
from rerail.server.core.view import Attempt, CausalRole, EvidenceLine, RunState, Verdict
from rerail.server.core.words import interruptions_and_relaunches
from rerail.server.errors import RerailError

SHAPE = 1
A_SECOND = 1_000_000_000
BESIDE_NS = 1800 * A_SECOND
"""So far from the evidence of an attempt a line of another log may be to belong to it: a collective waits ten minutes
for a link that went down, or longer."""
SHOWN_LINES = 6
SHOWN_GROUPS = 10
JSON_LINES = 50
SILENT = (
    "Its workers left no error file and no last words, and another attempt followed: so it is where a signal ends a "
    "process. The launcher's log names the signal and the rank."
)
LONGEST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Interruption:
    """One interruption that the files tell of."""

    attempt: int | None
    restart: int | None
    iteration: int | None
    verdict: Verdict
    trace: tuple[EvidenceLine, ...]
    at: int | None
    relaunch_of: int | None = None
    """The attempt whose interruption this one, which died before ground was regained, belongs to."""
    run: str | None = None
    """Where a scheduler's file tells of several; None for the run that the files are of."""
    job: str | None = None


def classify(parsed: argparse.Namespace) -> int:
    """Judge every path, together or each by itself."""
    groups = [[path] for path in parsed.paths] if parsed.each else [list(parsed.paths)]
    answers = []
    zone = zone_seconds(getattr(parsed, "zone", None))
    for group in groups:
        progress = _Progress()
        files = read_run_files(
            group, tell=progress.show, seconds=parsed.time_limit, zone_seconds=zone
        )  # fmt: skip
        progress.end()
        answers.append((group, files, interruptions(files)))
    if all(each.kind == "skipped" for _, files, _ in answers for each in files.files):
        reasons = "; ".join(f"{each.path}: {each.reason}" for _, files, _ in answers for each in files.files[:5])
        left_out = sum(files.left_out for _, files, _ in answers)
        reasons = reasons or (left_out_words(left_out) if left_out else "no file there")
        raise RerailError(f"nothing could be read: {reasons}")
    if parsed.json:
        shown = [_answer(group, files, found) for group, files, found in answers]
        told = {"version": SHAPE, "runs": shown} if parsed.each else {"version": SHAPE, **shown[0]}
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    for group, files, found in answers:
        _print(group, files, found)
    return 0


def interruptions(files: RunFiles) -> list[Interruption]:
    """What stopped, in order, and why; run by run, where a scheduler's file tells of several."""
    runs: dict[str, list[Fact]] = {}
    for fact in files.facts:
        runs.setdefault(fact.run, []).append(fact)
    found = []
    for run in sorted(runs, key=lambda name: (name != RUN, min(fact.at for fact in runs[name]), name)):
        found += of_run(run, runs[run], files.placed_attempts if run == RUN else set())
    return found


def of_run(run: str, facts: Sequence[Fact], placed: set[int]) -> list[Interruption]:
    """What stopped of one run; `placed` are the attempts that have a place of their own."""
    fold = RunFold(run)
    fold.add(facts)
    view = fold.view(max(fact.at for fact in facts) + A_SECOND)
    named = None if run == RUN else run
    relaunches = {number: each.attempts[0] for each in view.incidents for number in each.attempts[1:]}
    found = [
        Interruption(
            attempt.number, attempt.restart, attempt.iteration, verdict, trace, attempt.noticed_at or attempt.ended_at,
            relaunches.get(attempt.number), named, attempt.job,
        )
        for attempt, verdict, trace in fold.endings()
    ]  # fmt: skip
    if found:
        return [*found, *_of_the_open(run, facts, view.attempts)]
    has_completed = any(isinstance(fact, AttemptEnded) and fact.outcome is Outcome.COMPLETED for fact in facts)
    if has_completed or (view.attempts and view.state is RunState.ENDED):
        return []
    alone = (
        judged_alone(of_one, restart, named)
        for restart, of_attempt in _by_attempt(facts).items()
        for of_one in _of_one_hang(of_attempt)
    )
    return _with_silent_attempts([each for each in alone if each is not None], placed)


def _of_the_open(run: str, facts: Sequence[Fact], attempts: Sequence[Attempt]) -> list[Interruption]:
    """What is told of the last attempt, where others ended before and no line says that it did: its log breaks off."""
    last = attempts[-1] if attempts else None
    if last is None or last.restart is None or last.iteration or last.outcome is not None or last.is_interrupted:
        return []
    told = [fact for fact in facts if isinstance(fact, (Evidence, Exit, Steps)) and fact.restart == last.restart]
    alone = judged_alone(told, last.restart, None if run == RUN else run)
    return [] if alone is None else [replace(alone, attempt=last.number, job=last.job)]


def _by_attempt(facts: Sequence[Fact]) -> dict[int | None, list[Fact]]:
    """Restart → what is told of that attempt, with the beginnings of all.

    What names no attempt (a kernel's log beside that of the workers) goes with the attempt that is nearest in time, and
    stays by itself where none is within `BESIDE_NS`.
    """
    told: dict[int, list[int]] = {}
    for fact in facts:
        if isinstance(fact, (Evidence, Exit)) and fact.restart is not None:
            told.setdefault(fact.restart, []).append(fact.at)
    spans = {restart: (min(instants), max(instants)) for restart, instants in told.items()}
    found: dict[int | None, list[Fact]] = {}
    for fact in facts:
        if isinstance(fact, AttemptStarted):
            continue
        restart = fact.restart
        if restart is None and spans and isinstance(fact, (Evidence, Exit)):
            restart = _nearest(fact.at, spans)
        found.setdefault(restart, []).append(fact)
    started = [fact for fact in facts if isinstance(fact, AttemptStarted)]
    with_evidence = sorted(
        (each for each in found.items() if any(isinstance(fact, Evidence) for fact in each[1])),
        key=lambda each: -1 if each[0] is None else each[0],
    )
    steps = [fact for fact in facts if isinstance(fact, Steps)]
    return {  # what is told beside all attempts was survived where any of them stepped on
        restart: [*started, *(steps if restart is None else ()), *of_attempt] for restart, of_attempt in with_evidence
    }


def _nearest(at: int, spans: dict[int, tuple[int, int]]) -> int | None:
    """The attempt whose evidence lies nearest; None where it is too far, or nothing says when either was."""
    if at <= UNKNOWN_INSTANT or all(last <= UNKNOWN_INSTANT for _, last in spans.values()):
        return next(iter(spans)) if len(spans) == 1 else None
    away = {restart: max(first - at, at - last, 0) for restart, (first, last) in spans.items()}
    restart = min(away, key=lambda each: (away[each], each))
    return restart if away[restart] <= BESIDE_NS else None


def dump_groups(files: RunFiles) -> tuple[tuple[Evidence, ...], ...]:
    """The flight recorder dumps of all files, those of one hang together."""
    return dump_sets([fact for fact in files.facts if isinstance(fact, Evidence) and is_dump(fact)])


def _of_one_hang(facts: Sequence[Fact]) -> list[list[Fact]]:
    """Facts without the dumps of other hangs, once for each hang; what is told beside goes with the nearest."""
    sets = dump_sets([fact for fact in facts if isinstance(fact, Evidence) and is_dump(fact)])
    if len(sets) < 2:
        return [list(facts)]
    others = [fact for fact in facts if not (isinstance(fact, Evidence) and is_dump(fact))]
    told = [fact.at for fact in others if isinstance(fact, (Evidence, Exit)) and fact.at > UNKNOWN_INSTANT]
    owner = nearest_set(sets, min(told, default=None))
    return [[*found, *(others if index == owner else ())] for index, found in enumerate(sets)]


def _with_silent_attempts(found: list[Interruption], placed: set[int]) -> list[Interruption]:
    """Attempts that only their places tell of. One that another follows has ended, also where it left no word."""
    told = {each.restart for each in found}
    last = max(placed, default=0)
    silent = [
        Interruption(number, number, None, replace(UNKNOWN, sentence=SILENT), (), None)
        for number in sorted(placed - told)
        if number < last
    ]
    attempts = sorted((*silent, *(each for each in found if each.restart is not None)), key=lambda each: each.restart)
    first = attempts[0].attempt if attempts else None
    relaunches = [attempts[0], *(replace(each, relaunch_of=first) for each in attempts[1:])] if attempts else []
    return [*(each for each in found if each.restart is None), *relaunches]


def judged_alone(facts: Sequence[Fact], restart: int | None = None, run: str | None = None) -> Interruption | None:
    """What facts that tell of no attempt's beginning or end say by themselves; None where they accuse nobody."""
    evidence = sorted(
        (TimedEvidence(fact.at, fact) for fact in facts if isinstance(fact, Evidence)), key=TimedEvidence.order
    )
    exits = sorted(
        WorkerExit(
            fact.at, -1 if fact.rank is None else fact.rank, fact.exit_code, bool(fact.oom_killed), fact.node or ""
        )
        for fact in facts
        if isinstance(fact, Exit)
    )
    lost = sorted(
        (fact.at, fact.node or "") for fact in facts if isinstance(fact, NodeState) and fact.state is NodeCondition.LOST
    )
    states = sorted((fact.at, fact.state.lower()) for fact in facts if isinstance(fact, SchedulerState))
    size = next((fact.world_size for fact in facts if isinstance(fact, AttemptStarted) and fact.world_size), None)
    blocks = _blocks(facts)
    others = [item.at for item in evidence if not is_dump(item.evidence) and item.at > UNKNOWN_INSTANT]
    case = Case(
        evidence, exits, (), None, None, (), lost, states, None, False, None, world_size=size,
        last_step_at=blocks[-1].end if blocks else None, ended_at=max(others, default=None), blocks=blocks,
    )  # fmt: skip
    verdict, trace = judge(case)
    signs = judged_signs(case)
    accuses = [sign for sign in signs if sign.accuses and sign.reading.weight >= Weight.ECHO]
    if verdict.cause == "unknown" and not accuses and not exits:
        return None
    at = next((line.at for line in trace if line.role is CausalRole.INITIATING), None)
    job = next((fact.job for fact in facts if fact.job is not None), None)
    return Interruption(restart, restart, None, verdict, trace, at, None, run, job)


def _blocks(facts: Sequence[Fact]) -> list[StepBlock]:
    """The completed steps that facts tell."""
    streams: dict[str, StepStream] = {}
    for fact in facts:
        if isinstance(fact, Steps):
            ends = stated_ends(fact.start, fact.durations_us, fact.count)
            stated = StatedSteps(fact.start, fact.first_step, ends, (fact.emitter, fact.seq))
            streams.setdefault(fact.emitter, StepStream()).add(stated)
    return merged_blocks([streams[emitter] for emitter in sorted(streams)]) if streams else []


# --- showing ---


def _resting(found: Interruption) -> list[EvidenceLine]:
    first = [line for line in found.trace if line.role is CausalRole.INITIATING]
    return first + [line for line in found.trace if line.role is not CausalRole.INITIATING]


def _answer(group: Sequence[str], files: RunFiles, found: Sequence[Interruption]) -> dict[str, object]:
    places = _places(files, [line for each in found for line in _resting(each)[:JSON_LINES]])
    return {
        "paths": list(group),
        "dump_groups": [_dump_group_answer(files, found) for found in dump_groups(files)],
        "counts": {
            "interruptions": sum(each.relaunch_of is None for each in found),
            "failed_relaunches": sum(each.relaunch_of is not None for each in found),
        },
        "interruptions": [_interruption_answer(each, files, places) for each in found],
        "files": [
            {"path": file.path, "kind": file.kind, "bytes": file.bytes, "facts": file.facts,
             "lines_counted": file.lines_counted, "reason": file.reason, "remark": file.remark}
            for file in files.files
            if file.kind != "skipped"
        ],
        "skipped": [{"path": file.path, "reason": file.reason} for file in files.files if file.kind == "skipped"],
        "left_out": files.left_out,
    }  # fmt: skip


def _interruption_answer(found: Interruption, files: RunFiles, places: dict[tuple[str, int], int]) -> dict[str, object]:
    verdict = found.verdict
    lines = _resting(found)[:JSON_LINES]
    return {
        "run": found.run,
        "job": found.job,
        "attempt": found.attempt,
        "restart": found.restart,
        "iteration": found.iteration,
        "relaunch_of": found.relaunch_of,
        "at": _instant(found.at),
        "cause": verdict.cause,
        "domain": verdict.domain.value,
        "confidence": verdict.confidence,
        "culprit_rank": verdict.culprit_rank,
        "culprit_node": verdict.culprit_node,
        "verdict": verdict.sentence,
        "advice": verdict.advice,
        "missing_evidence": verdict.missing_evidence,
        "traits": dict(verdict.traits),
        "evidence": [
            {
                "file": _path(files, line), "line": _line_number(files, line, places), "at": _instant(line.at),
                "role": line.role.value, "source": line.source, "rank": line.rank, "node": line.node,
                "code": line.code, "text": line.text, "meaning": line.meaning,
            }
            for line in lines
        ],
    }  # fmt: skip


def _instant(at: int | None) -> str | None:
    return None if at is None or at <= UNKNOWN_INSTANT else iso(at)


def _path(files: RunFiles, line: EvidenceLine) -> str | None:
    return files.paths.get(line.emitter or "")


def _line_number(files: RunFiles, line: EvidenceLine, places: dict[tuple[str, int], int]) -> int | None:
    if line.emitter is None or line.seq is None:
        return None
    told = files.offset_of(line.emitter, line.seq)
    return None if told is None else places.get(told)


def _places(files: RunFiles, lines: Sequence[EvidenceLine]) -> dict[tuple[str, int], int]:
    """`(path, byte)` → line number, for the lines that are shown."""
    wanted: dict[str, set[int]] = {}
    for line in lines:
        if line.emitter is not None and line.seq is not None:
            told = files.offset_of(line.emitter, line.seq)
            if told is not None:
                wanted.setdefault(told[0], set()).add(told[1])
    places: dict[tuple[str, int], int] = {}
    for path, offsets in wanted.items():
        number = 1
        with open_log(files.scratch.real(path)) as file:
            for before, offset in pairwise([0, *sorted(offsets)]):
                left = offset - before
                while left > 0 and (data := file.read(min(left, 1 << 22))):
                    number += data.count(b"\n")
                    left -= len(data)
                places[path, offset] = number
    return places


def _print(group: Sequence[str], files: RunFiles, found: Sequence[Interruption]) -> None:
    read = [file for file in files.files if file.kind != "skipped"]
    name = ", ".join(group[:3]) + ("" if len(group) <= 3 else f" and {len(group) - 3} more")
    print(f"{name}: {len(read)} file{'s' * (len(read) != 1)} read, {_count(found)}")
    _print_dump_groups(files)
    places = _places(files, [line for each in found for line in _resting(each)[:SHOWN_LINES]])
    for each in found:
        _print_interruption(each, files, places)
    complaints = [file for file in files.files if file.reason is not None]
    for file in complaints[:10]:
        extent = "not read" if file.kind == "skipped" else "not all read"
        print(f"  {extent}: {file.path}: {file.reason}", file=sys.stderr)
    for file in [file for file in files.files if file.remark is not None][:10]:
        print(f"  {file.path}: {file.remark}", file=sys.stderr)
    if files.left_out:
        print(f"  {left_out_words(files.left_out)} (a file that is named itself is read)", file=sys.stderr)
    if len(complaints) > 10:
        print(f"  … and {len(complaints) - 10} more files like these", file=sys.stderr)


def _dump_group_answer(files: RunFiles, found: Sequence[Evidence]) -> dict[str, object]:
    dumps = [fact for fact in found if fact.code == DUMP_CODE]
    ranks = sorted({fact.rank for fact in dumps if fact.rank is not None})
    return {
        "ranks": packed(ranks),
        "files": sorted({files.paths[fact.emitter] for fact in found if fact.emitter in files.paths}),
        "last_operation_at": _instant(max((fact.at for fact in dumps), default=None)),
    }


def _print_dump_groups(files: RunFiles) -> None:
    """Which dumps were judged together, where they are of several hangs."""
    groups = dump_groups(files)
    if len(groups) < 2:
        return
    print(f"  the dumps are of {len(groups)} hangs that can be told apart, each judged by itself:")
    for number, found in enumerate(groups[:SHOWN_GROUPS], 1):
        told = _dump_group_answer(files, found)
        names = [Path(path).name for path in told["files"]]  # type: ignore[attr-defined]
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        at = told["last_operation_at"] or "not told"
        print(f"    {number}: ranks {told['ranks'] or 'not told'}, last operation {at}: {', '.join(names[:2])}{more}")


def _count(found: Sequence[Interruption]) -> str:
    relaunches = sum(each.relaunch_of is not None for each in found)
    return interruptions_and_relaunches(len(found) - relaunches, relaunches)


def _print_interruption(found: Interruption, files: RunFiles, places: dict[tuple[str, int], int]) -> None:
    verdict = found.verdict
    where = "" if found.attempt is None else f"attempt {found.attempt}: "
    if found.relaunch_of is not None:
        where = f"attempt {found.attempt}, failed relaunch after attempt {found.relaunch_of}: "
    where = f"{found.run}, {where}" if found.run is not None else where
    print(f"\n  {where}{verdict.cause} ({verdict.domain.value}, {verdict.confidence:.0%} sure)")
    print(f"    {_plain(verdict.sentence)}")
    rank = "not known" if verdict.culprit_rank is None else str(verdict.culprit_rank)
    print(
        f"    culprit rank {rank}, node {verdict.culprit_node or 'not known'}, at {_instant(found.at) or 'no instant'}"
    )
    lines = _resting(found)
    for line in lines[:SHOWN_LINES]:
        number = _line_number(files, line, places)
        path = _path(files, line)
        place = f"{path}:{number}" if path and number else path or line.source
        print(f"    [{line.role.value}] {place}: {_plain(line.text)}")
        if line.meaning:
            print(f"        {_plain(line.meaning)}")
    if len(lines) > SHOWN_LINES:
        print(f"    … and {len(lines) - SHOWN_LINES} more pieces of evidence; --json shows up to {JSON_LINES}")
    if verdict.advice:
        print(f"    do: {verdict.advice}")
    if verdict.missing_evidence:
        print(f"    would settle it: {_plain(verdict.missing_evidence)}")


def _plain(text: str) -> str:
    """One line without anything a terminal would obey."""
    words = "".join(letter if letter.isprintable() else " " for letter in text[: LONGEST_SHOWN + 1])
    return words if len(words) <= LONGEST_SHOWN else words[:LONGEST_SHOWN] + "…"


class _Progress:
    """How much was read, on a terminal's last line; silent where standard error is none."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._has_shown = False

    def show(self, path: str, done: int) -> None:
        if self._is_shown and done > (1 << 24):
            print(f"\r{done / 1e6:10.0f} MB of {path[-60:]}", end="", file=sys.stderr, flush=True)
            self._has_shown = True

    def end(self) -> None:
        if self._has_shown:
            print(file=sys.stderr)
