"""AWS's NVRx test case (`awsome-distributed-training`, `3.test_cases/pytorch/nvrx`): its logs and results, as facts.

    [Rank 0] 2026-03-17 19:19:04,123 - __main__ - INFO - Step 510, Loss: 3.1416, Wall: 190s, Restarts: 1

Rules
- Every rank speaks for itself. A line says that its step is done; the steps since the line before share the time.
- A restart line begins an attempt: in process counts iterations, in job restarts of the launcher, of the container
  requeues. What lies between the fault and it (the case's *shutdown*) is seen by nobody: it is told as nothing.
- A recovery line tells how long each part of the start-up was that ends with it; they are laid back to back before it.
- An injected fault strikes after its step: the step is done. Its line is evidence.
- Checkpoints are told by rank 0. An asynchronous one is captured; when it was durable is not logged.
- `results.json` and `cumulative_metrics.json` hold no instants but the job's start: their figures are kept as told, as
  metrics, so that what the case prints of itself can stand beside what its definition gives. `--run` joins them to a
  log.
- Stamps of logs have no zone: that of this machine is taken.
- `seq` is 16 × the number of the line + a count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.sources.log_lines import LocalClock
from rerail.server.core.codec import EARLIEST_INSTANT, LATEST_INSTANT, LONGEST_TEXT, FactError
from rerail.server.core.facts import (
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Evidence,
    Fact,
    Initiator,
    MarkStage,
    Metric,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    Scope,
    Steps,
)

TOOL = "aws-nvrx/"
SEQS = 16
SECOND = 1_000_000_000

_LINE = re.compile(
    r"^(?:\[Rank (?P<rank>\d{1,7})\] )?(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - \S+ - [A-Z]+ - (?P<text>.*)$"
)
_SECONDS = r"([\d.]+)s"
_RECOVERY = re.compile(
    rf"Recovery overhead \[[^\]]*\]: shutdown={_SECONDS}, startup={_SECONDS} "
    rf"\(NCCL: {_SECONDS}, Model: {_SECONDS}, Ckpt: {_SECONDS}, DL: {_SECONDS}\), total={_SECONDS}, "
    r"resumed from step (\d+)"
)
_PRINTED = re.compile(r"Training Goodput: ([\d.]+)%\s+Infra Goodput: ([\d.]+)%")
_WASTED = re.compile(rf"Wasted steps: (\d+) \({_SECONDS}\), Shutdown: {_SECONDS}, Startup: {_SECONDS}")

KINDS = {"IN-PROCESS": ("iteration", Scope.IN_PROCESS), "IN-JOB": ("restart", Scope.IN_JOB),
         "CONTAINER": ("requeue", Scope.REQUEUE)}  # fmt: skip

LARGEST_RESULTS = 64 * 1024 * 1024
FIGURES = (
    "training_goodput_pct", "infra_goodput_pct", "training_efficiency_pct", "job_wall_time_seconds", "wasted_steps",
    "cumulative_training_time_seconds", "wasted_time_seconds", "total_shutdown_time_seconds", "total_faults",
    "total_startup_time_seconds", "total_checkpoint_time_seconds", "useful_training_time_seconds", "steps_completed",
    "setup_time_seconds", "avg_step_time_seconds", "injob_restarts", "container_restarts", "inprocess_restarts",
)  # fmt: skip
"""Numbers of its result files that are kept as told."""


def read(file: OldFile) -> Iterator[Fact]:
    """The facts of a log, or of a file of results."""
    lines = iter(file.lines)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    if first[1].lstrip().startswith(b"{"):
        body = bytearray(first[1])
        for _, line in lines:
            body += line
            if len(body) > LARGEST_RESULTS:
                file.refuse(first[0], FactError("", "{…", f"results of more than {LARGEST_RESULTS} bytes"))
                return
        yield from _results(file, bytes(body), first[0])
        return
    log = _Log(file)
    yield from log.facts([first])
    yield from log.facts(lines)
    if not log.lines:
        file.refuse(first[0], FactError("", first[1].decode("utf-8", "replace").strip(), "no line of this test case"))


# --- results ---


def _results(file: OldFile, body: bytes, line: int) -> Iterator[Fact]:
    try:
        told = json.loads(body)
        if not isinstance(told, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        file.refuse(line, FactError("", body.decode("utf-8", "replace").strip(), f"not a JSON object: {error}"))
        return
    folder = Path(file.path).resolve().parent.name if file.path != "-" else ""
    run = file.run or folder or file.stem
    start = told.get("job_start_time")
    started_at = None
    if start is not None:
        try:
            started_at = _instant("job_start_time", start)
        except FactError as error:
            file.refuse(line, error)
    at = started_at
    if at is None:
        at = Path(file.path).stat().st_mtime_ns if Path(file.path).is_file() else EARLIEST_INSTANT
        file.remark("tells no instant: its figures are kept as of the time the file was written")
    common: dict[str, Any] = {"run": run, "emitter": f"{TOOL}{file.stem}"[:200], "at": at}
    labels = tuple(
        sorted((name, str(told[name])[:200]) for name in ("experiment_type", "mode") if isinstance(told.get(name), str))
    )
    yield RunStarted(**common, seq=0, labels=(*labels, ("source", "aws-nvrx")))
    wall = told.get("job_wall_time_seconds")
    if started_at is not None:
        counts = {"requeue": 0, "restart": 0, "iteration": 0}
        yield AttemptStarted(**common, **counts, seq=1)
        if isinstance(wall, (int, float)) and told.get("termination_reason") is not None:
            is_done = str(told["termination_reason"]).lower() in ("completed", "max_steps", "finished", "success")
            ended = {**common, "at": started_at + round(wall * 1_000_000) * 1000}
            outcome = Outcome.COMPLETED if is_done else Outcome.STOPPED
            yield RunEnded(**ended, seq=2, outcome=outcome, reason=str(told["termination_reason"])[:LONGEST_TEXT])
    for seq, name in enumerate(FIGURES, 3):
        value = told.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e18:
            file.refuse(line, FactError(name, value, "not a number"))
            continue
        yield Metric(**common, seq=seq, name=f"{TOOL}{name}", value=float(value))


def _instant(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e12:
        raise FactError(field, value, "not an instant in seconds")
    at = round(value * 1_000_000) * 1000
    if not EARLIEST_INSTANT <= at <= LATEST_INSTANT:
        raise FactError(field, value, "not an instant in seconds between the years 2000 and 2100")
    return at


# --- the log ---


@dataclass(slots=True)
class _Rank:
    """What is going on in one rank."""

    requeue: int = 0
    restart: int = 0
    iteration: int = 0
    is_known: bool = False
    since: tuple[int, int] | None = None
    """The last step that was told done, and when."""
    loaded: int | None = None
    """The step of a checkpoint that was read and not told of yet."""
    saving: int | None = None

    def key(self) -> dict[str, int]:
        """Where in the run it is."""
        return {"requeue": self.requeue, "restart": self.restart, "iteration": self.iteration}


class _Log:
    """Reads the lines of one log."""

    def __init__(self, file: OldFile) -> None:
        self._run = file.run or file.stem
        self._clock = LocalClock()
        self._ranks: dict[int, _Rank] = {}
        self._stem = file.stem
        self._is_over = False
        self.lines = 0
        self._number = self._count = 0
        self._at = 0
        self._rank = 0

    def facts(self, lines: Any) -> Iterator[Fact]:
        """The facts of some lines; those that are not of the test case are passed over."""
        for number, raw in lines:
            match = _LINE.match(raw.decode("utf-8", "replace").rstrip("\r\n"))
            at = None if match is None else self._clock.instant(match["stamp"])
            if match is None or at is None:
                continue
            self.lines += 1
            self._number, self._count, self._at = number, 0, at
            self._rank = int(match["rank"] or 0)
            text = match["text"]
            rank = self._ranks.setdefault(self._rank, _Rank())
            if not rank.is_known:
                rank.is_known = True
                if not text.startswith(tuple(f"{kind} RESTART" for kind in KINDS)):
                    yield self._say(AttemptStarted, rank)
            for pattern, tell in _TELL:
                found = pattern.match(text)
                if found is not None:
                    yield from tell(self, rank, found)
                    break

    def _say(self, kind: type[Fact], rank: _Rank | None, **fields: Any) -> Fact:
        seq = self._number * SEQS + self._count
        self._count += 1
        of_rank = {} if rank is None else {**rank.key(), "rank": self._rank}
        emitter = f"{TOOL}{self._stem}"[:150] + f"/rank/{self._rank}"
        return kind(**{"run": self._run, "emitter": emitter, "seq": seq, "at": self._at, **of_rank, **fields})

    def _restarted(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        field, scope = KINDS[found[1]]
        setattr(rank, field, int(found[2]))
        # What is restarted inside begins to count anew.
        rank.iteration = 0 if field != "iteration" else rank.iteration
        rank.restart = 0 if field == "requeue" else rank.restart
        rank.since = rank.loaded = rank.saving = None
        yield self._say(AttemptStarted, rank, scope=scope, initiator=Initiator.FAULT)

    def _distributed(self, rank: _Rank, _found: re.Match[str]) -> Iterator[Fact]:
        yield self._say(RecoveryMark, rank, stage=MarkStage.RENDEZVOUS_COMPLETED)

    def _loaded(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        rank.loaded = int(found[1])
        yield from ()

    def _recovered(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        _, _, nccl, model, load, data, _ = (round(float(found[group]) * 1_000_000) * 1000 for group in range(1, 8))
        at = self._at - nccl - model - load - data
        yield self._say(PhaseSpan, rank, phase=Phase.RENDEZVOUS, start=at, end=at + nccl)
        yield self._say(PhaseSpan, rank, phase=Phase.INITIALIZING, start=at + nccl, end=at + nccl + model)
        step = int(found[8])
        begun = at + nccl + model
        yield self._say(CheckpointLoaded, rank, step=step, start=begun, end=begun + load)
        yield self._say(PhaseSpan, rank, phase=Phase.INITIALIZING, start=self._at - data, end=self._at)
        rank.loaded = None

    def _begins(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        if rank.loaded is not None:
            yield self._say(CheckpointLoaded, rank, step=rank.loaded, start=self._at, end=self._at)
            rank.loaded = None
        yield self._say(RecoveryMark, rank, stage=MarkStage.INITIALIZED)
        rank.since = (int(found[1]), self._at)

    def _stepped(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        yield from self._done(rank, int(found[1]))

    def _done(self, rank: _Rank, step: int) -> Iterator[Fact]:
        """Steps up to one are done."""
        if rank.since is not None and step > rank.since[0]:
            before, began = rank.since
            length = max(0, self._at - began) // 1000
            yield self._say(
                Steps, rank, first_step=before + 1, start=began, durations_us=(length,), count=step - before
            )
        rank.since = (step, self._at)

    def _saves(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        rank.saving = int(found[1])
        if self._rank == 0:
            yield self._say(CheckpointMoment, rank, step=rank.saving, stage=CheckpointStage.STARTED)

    def _saved(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        length = round(float(found[2]) * 1_000_000)
        yield self._say(PhaseSpan, rank, phase=Phase.SAVING, start=self._at - length * 1000, end=self._at)
        if rank.saving is not None and self._rank == 0:
            is_async = found[1].startswith("Async")
            stage = CheckpointStage.CAPTURED if is_async else CheckpointStage.DURABLE
            mode = "async" if is_async else "sync"
            yield self._say(CheckpointMoment, rank, step=rank.saving, stage=stage, mode=mode, blocked_us=length)
        rank.saving = None

    def _struck(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        yield from self._done(rank, int(found[1]))
        yield self._say(Evidence, rank, source="stderr", text=found[0][:LONGEST_TEXT], code=found[2][:200])

    def _failed(self, rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        yield self._say(Evidence, rank, source="stderr", text=found[0][:LONGEST_TEXT])

    def _over(self, _rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        if not self._is_over:
            self._is_over = True
            outcome = Outcome.STOPPED if found[0].startswith("Training time limit") else Outcome.COMPLETED
            yield self._say(RunEnded, None, outcome=outcome, reason=found[0][:200])

    def _printed(self, _rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        yield from self._figures({"training_goodput_pct": found[1], "infra_goodput_pct": found[2]})

    def _wasted(self, _rank: _Rank, found: re.Match[str]) -> Iterator[Fact]:
        names = ("wasted_steps", "wasted_time_seconds", "total_shutdown_time_seconds", "total_startup_time_seconds")
        yield from self._figures({name: found[group] for group, name in enumerate(names, 1)})

    def _figures(self, told: Mapping[str, str]) -> Iterator[Fact]:
        """What the case printed of itself; every rank prints the same, and rank 0 is taken."""
        if self._rank == 0:
            for name, value in told.items():
                yield self._say(Metric, None, name=f"{TOOL}{name}", value=float(value))


_Tell = Callable[[_Log, _Rank, re.Match[str]], Iterator[Fact]]

_TELL: tuple[tuple[re.Pattern[str], _Tell], ...] = (
    (re.compile(r"Step (\d+), Loss: "), _Log._stepped),
    (re.compile(r"(IN-PROCESS|IN-JOB|CONTAINER) RESTART #(\d+)"), _Log._restarted),
    (re.compile(r"Distributed initialized: "), _Log._distributed),
    (re.compile(r"Loaded (?:DCP )?checkpoint from step (\d+)"), _Log._loaded),
    (_RECOVERY, _Log._recovered),
    (re.compile(r"Starting training from step (\d+)"), _Log._begins),
    (re.compile(r"Saving checkpoint at step (\d+)"), _Log._saves),
    (re.compile(rf"((?:Async|Sync|Local|Standard)? ?[Cc]heckpoint (?:saved|scheduled)) in {_SECONDS}"), _Log._saved),
    (re.compile(r"INJECTING FAULT at step (\d+)! type=(\w+).*"), _Log._struck),
    (re.compile(r"Failed to load DCP checkpoint: .*"), _Log._failed),
    (re.compile(r"(?:Training time limit reached|TRAINING SUMMARY).*"), _Log._over),
    (_PRINTED, _Log._printed),
    (_WASTED, _Log._wasted),
)
"""What a line's text may be, and what it tells."""


FORMAT = ImportFormat(
    name="aws-nvrx",
    summary="the logs, results.json and cumulative_metrics.json of AWS's NVRx test case",
    read=read,
    example="results/ --run llm",
    tells="attempts, steps, rollbacks and the figures that the test case computed itself",
    cannot_tell="causes beyond the fault that it injected, GPUs, nodes",
)
