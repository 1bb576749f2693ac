"""one-logger: the spans and events that NVIDIA's training telemetry exports to a file, one JSON object a line.

`FileExporter` of `nv-one-logger-core` 2.3 writes `start`, `stop` and `complete` records of spans and `event` records
within them, each with the `count` of its process. One file is one process.

Rules
- Spans become phases: initialization of the distributed code, data loader, model and optimizer; loading; saving, as far
  as training waited (the whole of a sync save, the scheduling of an async one); validation and testing.
- A save that succeeded is durable at its event; the end of an asynchronous save's own span is its capture.
- Steps come from `training_single_iteration` where it is exported, which by default it is not; else from
  `training_metrics_update`, which tells so many iterations and their total time. Iterations count from 0 there.
- Nothing tells which restart a process is of: a folder of files is numbered by time, and processes that ran at the same
  time are ranks of one attempt. A file alone says nothing of it.
- Where its application span ended the attempt ended well; else whatever is told elsewhere says how.
- The launcher of NVRx 0.5 (`NVRX_TELEMETRY_EXPORTER=file`) writes `ft.…` events: the moments of restarts, each with its
  cycle, which it counts on at the failure: what is told of a failure and of the workers' end is of the attempt before.
  Its session tag is Slurm's job; how the last attempt ended it does not tell. Other releases write none.
- A span that was begun and not ended is open: the process was in it when it stopped writing.
- A line that is no record is refused with its field; a record of a name that is not known is skipped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.collectors.formats import ImportFormat, OldFile, OldFolder
from rerail.server.core.codec import EARLIEST_INSTANT, LARGEST_STEP, LATEST_INSTANT, FactError
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Fact,
    Initiator,
    MarkStage,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    Scope,
    Steps,
)

MILLISECOND = 1_000_000
LONGEST_LINE = 1_000_000
LONGEST_STEPS_S = 10_000_000.0
FACTS_PER_RECORD = 8
PHASES = {
    "distributed_code_initialization": Phase.INITIALIZING,
    "data_loader_initialization": Phase.INITIALIZING,
    "model_initialization": Phase.INITIALIZING,
    "optimizer_initialization": Phase.INITIALIZING,
    "validation_loop": Phase.EVALUATING,
    "testing_loop": Phase.EVALUATING,
    "checkpoint_save_sync": Phase.SAVING,
    "checkpoint_save_async": Phase.SAVING,
    "checkpoint_load": Phase.LOADING,
    "data_loading": Phase.DATA_WAIT,
}
"""Names of spans → phases. The names in capitals in their documents (`CHECKPOINT_LOAD`) are these."""
SAVES = {"checkpoint_save_sync": "sync", "checkpoint_save_async": "async"}
OPEN_SPANS = 1_000
LAUNCHER_EVENTS = {
    "ft.rendezvous_started": MarkStage.RENDEZVOUS_STARTED,
    "ft.rendezvous_completed": MarkStage.RENDEZVOUS_COMPLETED,
    "ft.worker_start_completed": MarkStage.WORKERS_STARTED,
    "ft.failure_detected": MarkStage.NOTICED,
    "ft.worker_terminated": MarkStage.WORKERS_GONE,
}
OF_THE_ATTEMPT_BEFORE = frozenset({MarkStage.NOTICED, MarkStage.WORKERS_GONE})
MOST_CYCLES = 1_000_000


class _Process:
    """What one file has told so far."""

    def __init__(self, old: OldFile) -> None:
        self._old = old
        self._run = old.run
        self._mark = hashlib.sha256(old.stem.encode()).hexdigest()[:16]
        self._rank: int | None = None
        self._node: str | None = None
        self._world: int | None = None
        self._started: int | None = None
        self._open: dict[str, tuple[str, int, Mapping[str, Any]]] = {}
        self._loads: list[tuple[int, int]] = []
        self._begin: int | None = None
        self._step = 0
        self._has_single = False
        self._stepped_until: int | None = None
        self._total_s = 0.0
        self._target: int | None = None
        self._seq = 0
        self._job: str | None = None
        self._is_launcher = False
        self._last_cycle = -1

    def take(self, record: Mapping[str, Any], line: int) -> Iterator[Fact]:
        """The facts of one record. Raises `FactError`."""
        kind = record.get("type")
        count = record.get("count")
        self._seq = (count if isinstance(count, int) and 0 <= count < 2**40 else line) * FACTS_PER_RECORD
        if kind == "event":
            yield from self._event(_mapping(record.get("event")))
            return
        if kind not in ("start", "stop", "complete"):
            raise FactError("type", kind, "not start, stop, complete or event")
        name, own = str(record.get("name")), str(record.get("id"))
        attributes = _mapping(record.get("attributes"))
        if kind == "start":
            at = _instant(record, "start_event")
            if len(self._open) < OPEN_SPANS:
                self._open[own] = (name, at, attributes)
            yield from self._begun(name, own, at, attributes)
        else:
            until = _instant(record, "stop_event")
            known = self._open.pop(own, None)
            since = known[1] if known is not None else _instant(record, "start_event")
            yield from self._over(name, since, until, attributes)

    def _begun(self, name: str, own: str, at: int, attributes: Mapping[str, Any]) -> Iterator[Fact]:
        if name == "application":
            self._mark = hashlib.sha256(own.encode()).hexdigest()[:16]
            self._started = at
            if attributes.get("application_name") == "nvrx":
                self._is_launcher = True
                tag = _name(attributes.get("session_tag"))
                self._job = tag if tag is not None and tag.isascii() and tag.isdigit() else None
                self._run = self._run or _name(attributes.get("slurm_job_name"))
        elif name == "training_loop":
            self._step = _whole(attributes, "train_iterations_start") or 0
            self._target = _whole(attributes, "train_iterations_target")
            self._begin = self._stepped_until = at
            if self._target:
                yield self._fact(RunStarted, at, target_step=self._target, world_size=self._world)
            yield from self._loaded()
            yield self._fact(RecoveryMark, at, stage=MarkStage.INITIALIZED, by="one-logger")
        elif name in SAVES and (step := _whole(attributes, "current_iteration")) is not None:
            yield self._fact(CheckpointMoment, at, step=step, stage=CheckpointStage.STARTED, mode=SAVES[name])

    def _over(self, name: str, since: int, until: int, attributes: Mapping[str, Any]) -> Iterator[Fact]:
        if until < since:
            raise FactError("stop_event", until, "before its start")
        if name == "application" and not self._is_launcher:
            yield self._fact(AttemptEnded, until, outcome=Outcome.COMPLETED)
            if self._target is not None and self._step >= self._target:
                yield self._fact(RunEnded, until, outcome=Outcome.COMPLETED)
        elif name == "checkpoint_load":
            self._loads.append((since, until))
        elif name == "training_single_iteration":
            self._has_single = True
            yield from self._steps(1, since, until)
        elif name in PHASES and until > since:
            yield self._fact(PhaseSpan, until, phase=PHASES[name], start=since, end=until)
        if name == "checkpoint_save_async" and (step := _whole(attributes, "current_iteration")) is not None:
            yield self._fact(CheckpointMoment, until, step=step, stage=CheckpointStage.CAPTURED, mode="async",
                             blocked_us=(until - since) // 1000)  # fmt: skip

    def _event(self, event: Mapping[str, Any]) -> Iterator[Fact]:
        name, attributes = event.get("name"), _mapping(event.get("attributes"))
        if name == "one_logger_initialization":
            yield from self._introduced(attributes, _at(attributes, "event"))
        elif name == "save_checkpoint_success" and (step := _whole(attributes, "current_iteration")) is not None:
            at = _at(attributes, "event")
            mode = attributes.get("checkpoint_strategy")
            yield self._fact(CheckpointMoment, at, step=step, stage=CheckpointStage.DURABLE,
                             mode=mode if mode in ("sync", "async") else None)  # fmt: skip
        elif isinstance(name, str) and (stage := LAUNCHER_EVENTS.get(name)) is not None:
            yield from self._of_launcher(stage, attributes, _at(attributes, "event"))
        elif name == "training_metrics_update" and not self._has_single:
            yield from self._updated(attributes, _at(attributes, "event"))

    def _of_launcher(self, stage: MarkStage, attributes: Mapping[str, Any], at: int) -> Iterator[Fact]:
        """A moment of a restart, as NVRx's launcher tells it."""
        cycle = _whole(attributes, "cycle")
        if cycle is None or cycle > MOST_CYCLES:
            raise FactError("event.cycle", attributes.get("cycle"), f"not a count up to {MOST_CYCLES}")
        attempt = max(0, cycle - 1) if stage in OF_THE_ATTEMPT_BEFORE else cycle
        if stage is MarkStage.RENDEZVOUS_STARTED and cycle > self._last_cycle:
            self._last_cycle = cycle
            yield self._fact(
                AttemptStarted, at, restart=attempt, launcher="ft_launcher", scope=Scope.IN_JOB if cycle else None,
                initiator=Initiator.FAULT if cycle else None,
            )  # fmt: skip
        yield self._fact(RecoveryMark, at, restart=attempt, stage=stage, by="ft_launcher")
        if stage is MarkStage.WORKERS_GONE and cycle > 0:
            yield self._fact(AttemptEnded, at, restart=attempt, outcome=Outcome.FAILED)

    def _introduced(self, attributes: Mapping[str, Any], at: int) -> Iterator[Fact]:
        self._rank = _whole(attributes, "rank")
        self._world = _whole(attributes, "world_size")
        self._node = _name(attributes.get("node_name"))
        self._run = self._run or _name(attributes.get("session_tag"))
        begun = self._started if self._started is not None else at
        yield self._fact(AttemptStarted, begun, world_size=self._world or None)

    def _updated(self, attributes: Mapping[str, Any], at: int) -> Iterator[Fact]:
        done = _whole(attributes, "current_iteration")
        total = attributes.get("total_iteration_time_sec")
        if done is None or self._begin is None or not isinstance(total, (int, float)):
            return
        count = done + 1 - self._step
        took = float(total) - self._total_s
        if count > 0 and 0 < took < LONGEST_STEPS_S:
            self._total_s = float(total)
            start = max(at - round(took * 1e9), self._stepped_until or 0)
            yield from self._steps(count, start, at)

    def _steps(self, count: int, start: int, end: int) -> Iterator[Fact]:
        if end <= start or not 0 <= self._step + count <= LARGEST_STEP:
            return
        first, self._step, self._stepped_until = self._step + 1, self._step + count, end
        length = (end - start) // 1000
        yield self._fact(Steps, end, first_step=first, start=start, durations_us=(length,),
                         count=None if count == 1 else count)  # fmt: skip

    def _loaded(self) -> Iterator[Fact]:
        """A load tells no step; the loop that begins after it tells where training goes on."""
        for since, until in self._loads[-1:]:
            yield self._fact(CheckpointLoaded, until, step=self._step, start=since, end=until)
        self._loads = []

    def still_open(self) -> Iterator[Fact]:
        """Phases that the process was in when it stopped writing."""
        self._seq += FACTS_PER_RECORD
        for own, (name, at, _) in list(self._open.items())[:FACTS_PER_RECORD]:
            if name in PHASES:
                yield self._fact(PhaseSpan, at, phase=PHASES[name], start=at, span=own[:200] or "open")

    def _fact(self, kind: type[Fact], at: int, **told: Any) -> Fact:
        seq, self._seq = self._seq, self._seq + 1
        run = self._run or self._old.stem[:200] or "one-logger"
        where = {"rank": self._rank, "node": self._node} if kind not in (RunStarted, RunEnded) else {}
        return kind(
            run=run, emitter=f"one-logger/{self._mark}", seq=seq, at=at, job=self._job, **where, **told
        )  # fmt: skip


def read(old: OldFile) -> Iterator[Fact]:
    """The facts of one process's file."""
    process = _Process(old)
    for line, raw in old.lines:
        if not raw.strip():
            continue
        try:
            yield from process.take(_record(raw), line)
        except FactError as error:
            old.refuse(line, error)
    yield from process.still_open()


def read_folder(folder: OldFolder) -> Iterator[Fact]:
    """The facts of all processes of a folder, numbered by attempts."""
    processes: list[list[Fact]] = []
    for path in sorted(Path(folder.path).iterdir()):
        if not path.is_file() or not belongs(path.name):
            continue
        with path.open("rb") as lines:
            old = OldFile(
                path=str(path), stem=path.stem, run=folder.run, lines=enumerate(lines, 1), content=path.read_bytes,
                refuse=folder.refuse, remark=folder.remark,
            )  # fmt: skip
            if found := list(read(old)):
                processes.append(found)
    if not processes:
        folder.refuse(1, FactError("path", folder.path, "holds no file of one-logger"))
    processes.sort(key=lambda facts: facts[0].at)
    number, over_at = -1, 0
    for facts in processes:
        if any(fact.restart is not None for fact in facts):
            yield from facts  # a launcher's: it lives through all attempts, and counts them itself
            continue
        number += facts[0].at >= over_at
        over_at = max(over_at, max(fact.at for fact in facts))
        yield from (replace(fact, restart=number) for fact in facts)


def belongs(name: str) -> bool:
    """Whether a file of that name may be one."""
    return name.endswith((".json", ".jsonl"))


def _record(raw: bytes) -> Mapping[str, Any]:
    if len(raw) > LONGEST_LINE:
        raise FactError("", f"{len(raw)} bytes", f"longer than {LONGEST_LINE} bytes")
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        raise FactError("", raw[:80].decode("utf-8", "replace"), "not JSON") from None
    if not isinstance(told, dict):
        raise FactError("", str(told)[:80], "not an object")
    return told


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(attributes: Mapping[str, Any], name: str) -> int | None:
    value = attributes.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_STEP
    return value if is_whole else None


def _name(value: object) -> str | None:
    text = "".join(letter for letter in value[:200] if letter.isprintable()) if isinstance(value, str) else ""
    return text or None


def _instant(record: Mapping[str, Any], which: str) -> int:
    return _at(_mapping(_mapping(record.get(which)).get("attributes")), which)


def _at(attributes: Mapping[str, Any], which: str) -> int:
    stamp = attributes.get("timestamp_msec")
    if not isinstance(stamp, (int, float)) or isinstance(stamp, bool) or not abs(stamp) < 1e14:
        raise FactError(f"{which}.timestamp_msec", stamp, "not milliseconds since 1970")
    at = round(stamp * MILLISECOND)
    if not EARLIEST_INSTANT <= at < LATEST_INSTANT:
        raise FactError(f"{which}.timestamp_msec", stamp, "no instant of our time")
    return at


FORMAT = ImportFormat(
    name="one-logger",
    summary="spans and events that NVIDIA's one-logger (training telemetry) wrote to a file",
    read=read,
    read_folder=read_folder,
    example="telemetry/ --run llm",
    tells="steps, checkpoints, loads, evaluations and phases, as NVIDIA's telemetry spans told them",
    cannot_tell="attempts that wrote no telemetry, causes, GPUs, nodes",
)
