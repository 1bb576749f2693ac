"""Google's goodput log: what `ml-goodput-measurement` writes for a job, as facts.

    {"job_name": "j", "job_start_time": 1767225600.0}
    {"job_name": "j", "step_count": 0, "step_start_time": 1767225605.0}

A file holds its entries as JSON lines (the library's `…_timeline.jsonl`, or an export of Cloud Logging, whose entries
are under `jsonPayload`), or recorded calls of its calculator, each with the `entries` it was asked about.

Rules
- A run is a job; a recorded call is a run of its own, named after its test. `--run` names the run, and stands before
  the name where the file has several.
- Entries are told in the order of their instants. One that is there twice, word for word, was delivered twice.
- Each job start begins an attempt; so does a step number that comes again without one.
- A step is completed when its successor begins, or the job ends. Where numbers are left out, the steps between share
  the time. A step that is followed by a job start was not seen to end.
- Accelerator initialization is `rendezvous`, training preparation `initializing`, loading data before the first step
  of an attempt `data_wait`, custom events `overhead:<type>`. Loading data under steps blocks nothing: its length is
  kept as a metric, and so is a save or a restore whose stamp is from before the year 2000: how long, but not when.
- The first step of an attempt is told beside, as a metric: where it was the only one, nothing else tells its number.
- `seq` is 16 × the number of the entry + a count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.server.core.codec import EARLIEST_INSTANT, LATEST_INSTANT, FactError, parse_line
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Excluded,
    Fact,
    MarkStage,
    Metric,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    Steps,
)

TOOL = "google-goodput/"
SEQS = 16
SECOND = 1_000_000_000

PAIRED: dict[str, tuple[Phase, str | None]] = {
    "tpu_init": (Phase.RENDEZVOUS, None),
    "training_prep": (Phase.INITIALIZING, None),
    "data_loading": (Phase.DATA_WAIT, None),
    "custom_badput_event": (Phase.OVERHEAD, None),
    "elastic_wait": (Phase.OVERHEAD, None),
    "elastic_reinit": (Phase.OVERHEAD, "elastic_reinitialization"),
}
"""Records that come as `<name>_start_time` and `<name>_end_time`, and the phase each is."""

SLICES = ("active_slices", "available_slices", "total_slices")

SAVE_START, SAVE_LENGTH = "checkpoint_manager_blocking_start_time", "checkpoint_manager_blocking_duration_secs"
RESTORE_START, RESTORE_LENGTH = "checkpoint_manager_start_time", "checkpoint_manager_duration_secs"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log: what it records, when, and the entry itself."""

    at: int
    number: int
    """Of the entry in its log, from 0; its identity."""
    what: str
    payload: Mapping[str, Any]


def read(file: OldFile) -> Iterator[Fact]:
    """The facts of a file."""
    logs: dict[str, _Log] = {}
    for number, line in file.lines:
        if not line.strip():
            continue
        try:
            told = parse_line(line)
            told = told["jsonPayload"] if isinstance(told.get("jsonPayload"), dict) else told
            if "entries" in told:
                log = _call(told, number, file)
                logs[log.name] = log
                continue
            name = told.get("job_name")
            if name is None:
                # Entries of checkpoints carry no job: they are of the one that was told of last.
                name = next(reversed(logs), file.stem)
            log = logs.setdefault(_text("job_name", name), _Log(str(name)))
            log.take(told)
        except FactError as error:
            file.refuse(number, error)
    for name, log in logs.items():
        run = name if file.run is None else file.run if len(logs) == 1 and not log.is_call else f"{file.run}/{name}"
        if log.entries:
            yield from _facts(log, run)
        for remark in log.remarks:
            file.remark(f"{run}: {remark}")


class _Log:
    """The entries of one job."""

    def __init__(self, name: str, *, is_call: bool = False) -> None:
        self.name = name
        self.is_call = is_call
        self.entries: list[Entry] = []
        self.excluded: list[tuple[int, int]] = []
        self.told: list[tuple[int, str, float]] = []
        """`(instant, name, value)` of what the library itself answered."""
        self.remarks: list[str] = []
        self._seen: set[str] = set()
        self._count = 0
        self._last_at: int | None = None

    def take(self, payload: Mapping[str, Any]) -> None:
        """Take one entry. Raises `FactError` for one that cannot be read."""
        number = self._count
        self._count += 1
        written = json.dumps(payload, sort_keys=True)
        if written in self._seen:
            return
        self._seen.add(written)
        what, at = _what_and_when(payload)
        if at is None:
            if self._last_at is None:
                raise FactError(SAVE_START, payload.get(SAVE_START), "an entry without an instant, and none before it")
            at = self._last_at
        else:
            self._last_at = at
        self.entries.append(Entry(at, number, what, payload))

    def ordered(self) -> list[Entry]:
        """By instant; entries of one instant as they were written."""
        return sorted(self.entries, key=lambda entry: (entry.at, entry.number))


def _what_and_when(payload: Mapping[str, Any]) -> tuple[str, int | None]:
    """What an entry records and when; None where the stamp is of a clock that was never set. Raises `FactError`."""
    if "step_start_time" in payload:
        _step(payload, "step_count")
        return "step", _instant(payload, "step_start_time")
    for name in ("job_start", "job_end"):
        if f"{name}_time" in payload:
            return name, _instant(payload, f"{name}_time")
    for name in PAIRED:
        for edge in ("start", "end"):
            if f"{name}_{edge}_time" in payload:
                return f"{name}_{edge}", _instant(payload, f"{name}_{edge}_time")
    if "elastic_slice_counts_timestamp" in payload:
        for name in SLICES:
            _number(payload, name)
        return "slices", _instant(payload, "elastic_slice_counts_timestamp")
    event = payload.get("event_type")
    if event in ("save", "restore", "emergency_restore"):
        begin, length = (SAVE_START, SAVE_LENGTH) if event == "save" else (RESTORE_START, RESTORE_LENGTH)
        _step(payload, "step")
        what = "save" if event == "save" else "restore"
        stamp = _number(payload, begin)
        if stamp * SECOND < EARLIEST_INSTANT:
            _number(payload, length)
            return what, None
        return what, _instant(payload, begin) + _length_us(payload, length) * 1000
    raise FactError("", dict(payload), "records nothing that is known: no step, job, phase or checkpoint")


# --- from entries to facts ---


class _Teller:
    """States the facts of one log."""

    def __init__(self, log: _Log, run: str) -> None:
        self._log = log
        self._common: dict[str, Any] = {"run": run, "emitter": f"{TOOL}{log.name}"[:200]}
        self._count = 0
        self._number = -1
        self.restart = -1
        self.previous: tuple[int, int] | None = None
        """The step that is going on, and when it began."""
        self._open: dict[str, tuple[int, Entry]] = {}

    def _say(self, kind: type[Fact], entry: Entry, **fields: Any) -> Fact:
        self._count = self._count + 1 if self._number == entry.number else 0
        self._number = entry.number
        return kind(**self._common, seq=entry.number * SEQS + self._count, at=entry.at, **fields)

    def _here(self) -> dict[str, int]:
        return {"restart": max(0, self.restart)}

    def tell(self, entry: Entry) -> Iterator[Fact]:
        """The facts of one entry."""
        if entry.what == "job_start":
            self.restart += 1
            self.previous = None
            if self.restart == 0:
                yield self._say(RunStarted, entry, name=self._log.name[:200], labels=(("source", "google-goodput"),))
            yield self._say(AttemptStarted, entry, **self._here())
            yield self._say(RecoveryMark, entry, **self._here(), stage=MarkStage.WORKERS_STARTED)
        elif entry.what == "job_end":
            yield from self._completed(entry, None)
            yield self._say(AttemptEnded, entry, **self._here(), outcome=Outcome.COMPLETED)
            yield self._say(RunEnded, entry, outcome=Outcome.COMPLETED)
        elif entry.what == "step":
            yield from self._step(entry)
        elif entry.what == "slices":
            for name in SLICES:
                yield self._say(Metric, entry, name=f"{TOOL}{name}", value=float(entry.payload[name]))
        elif entry.what in ("save", "restore"):
            yield from self._checkpoint(entry)
        else:
            yield from self._phase(entry)

    def _step(self, entry: Entry) -> Iterator[Fact]:
        step = int(entry.payload["step_count"])
        if self.previous is not None and step <= self.previous[0]:
            self.restart = max(0, self.restart) + 1
            self.previous = None
        if self.previous is None:
            yield self._say(RecoveryMark, entry, **self._here(), rank=0, stage=MarkStage.INITIALIZED)
            yield self._say(Metric, entry, name=f"{TOOL}first_step", value=float(step), step=step)
        yield from self._completed(entry, step)
        self.previous = (step, entry.at)

    def _completed(self, entry: Entry, following: int | None) -> Iterator[Fact]:
        """The step that was going on, now that its successor began or the job ended."""
        if self.previous is None:
            return
        step, began = self.previous
        self.previous = None
        skipped = {} if following is None or following == step + 1 else {"count": following - step}
        length = (entry.at - began) // 1000
        yield self._say(
            Steps, entry, **self._here(), rank=0, first_step=step, start=began, durations_us=(length,), **skipped
        )

    def _phase(self, entry: Entry) -> Iterator[Fact]:
        name, edge = entry.what.rsplit("_", 1)
        phase, custom = PAIRED[name]
        if name == "custom_badput_event":
            custom = _name(entry.payload, "custom_badput_event_type")
        elif name == "elastic_wait":
            kind = str(entry.payload.get("elastic_wait_event_type", "")).lower()
            custom = "elastic_scale_up" if "scale_up" in kind else "elastic_slice_down"
        key = f"{name} {custom or ''}"
        if edge == "start":
            self._open[key] = (max(0, self.restart), entry)
            if name == "data_loading":
                return
            yield self._say(
                PhaseSpan, entry, **self._here(), phase=phase, name=custom, start=entry.at, span=f"{entry.number}"
            )
            return
        began = self._open.pop(key, None)
        if began is None:
            self._log.remarks.append(f"entry {entry.number}: {name} ended and was never told to have begun; left out")
            return
        restart, start = began
        if name == "data_loading" and self.previous is not None:
            yield self._say(Metric, entry, name=f"{TOOL}data_loading_seconds", value=(entry.at - start.at) / SECOND)
            return
        if name == "data_loading":
            yield self._say(PhaseSpan, entry, restart=restart, phase=phase, start=start.at, end=entry.at)
            return
        yield self._say(
            PhaseSpan, entry, restart=restart, phase=phase, name=custom, end=entry.at, span=f"{start.number}"
        )

    def _checkpoint(self, entry: Entry) -> Iterator[Fact]:
        payload, is_save = entry.payload, entry.what == "save"
        begin, length = (SAVE_START, SAVE_LENGTH) if is_save else (RESTORE_START, RESTORE_LENGTH)
        step = int(payload["step"])
        is_local = not str(payload.get("directory", "")).startswith("gs://")
        if float(payload[begin]) * SECOND < EARLIEST_INSTANT:
            self._log.remarks.append(
                f"entry {entry.number}: {begin} {payload[begin]} is before the year 2000: this {entry.what} is kept as "
                "a length without a place in time"
            )
            name = f"{TOOL}{'local_' if is_local else ''}{entry.what}_seconds"
            yield self._say(Metric, entry, name=name, value=float(payload[length]), step=step)
            return
        start = _instant(payload, begin)
        tier = "local" if is_local else "persistent"
        if not is_save:
            yield self._say(CheckpointLoaded, entry, **self._here(), step=step, start=start, end=entry.at, tier=tier)
            return
        common: dict[str, Any] = {**self._here(), "step": step, "tier": tier, "checkpoint": f"{step} {tier}"}
        is_sync = bool(payload.get("synchronous"))
        yield self._say(PhaseSpan, entry, **self._here(), phase=Phase.SAVING, start=start, end=entry.at)
        yield self._say(
            CheckpointMoment, entry, **common, mode="sync" if is_sync else "async",
            stage=CheckpointStage.DURABLE if is_sync else CheckpointStage.CAPTURED,
            blocked_us=(entry.at - start) // 1000,
        )  # fmt: skip


def _facts(log: _Log, run: str) -> Iterator[Fact]:
    teller = _Teller(log, run)
    for entry in log.ordered():
        yield from teller.tell(entry)
    common = {"run": run, "emitter": f"{TOOL}calls"}
    for seq, (start, end) in enumerate(log.excluded):
        yield Excluded(**common, seq=seq, at=end, start=start, end=end, reason="asked for in a recorded call")
    for seq, (at, name, value) in enumerate(log.told, len(log.excluded)):
        yield Metric(**common, seq=seq, at=at, name=f"{TOOL}told_{name}", value=value)


def _call(told: Mapping[str, Any], number: int, file: OldFile) -> _Log:
    """The log of a recorded call, with the windows it left out and what the library answered."""
    entries = told["entries"]
    if not isinstance(entries, list):
        raise FactError("entries", entries, "not a list")
    test = _text("test", told.get("test", f"line {number}"))
    log = _Log(f"{test}.{told.get('seq', number)}"[:180], is_call=True)
    for entry in entries:
        try:
            if not isinstance(entry, dict):
                raise FactError("entries", entry, "not a JSON object")
            log.take(entry)
        except FactError as error:
            file.refuse(number, error)
    if told.get("api") == "get_job_goodput_with_exclusions":
        for window in (told.get("args") or [[]])[0]:
            start, end = (_instant({"args": edge}, "args") for edge in window)
            log.excluded.append((start, end))
    answer = told.get("result")
    if isinstance(answer, list) and answer and isinstance(answer[0], (int, float)) and log.entries:
        at = max([entry.at for entry in log.entries] + [_instant(told, "query_time")])
        log.told.append((at, "goodput_pct", float(answer[0])))
    return log


# --- checks of one field ---


def _number(payload: Mapping[str, Any], field: str) -> float:
    value = payload.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FactError(field, value, "missing" if value is None else "not a number")
    if value != value or value in (float("inf"), float("-inf")):
        raise FactError(field, str(value), "not finite")
    return float(value)


def _instant(payload: Mapping[str, Any], field: str) -> int:
    """Nanoseconds of a stamp in seconds, to the microsecond that such a number holds."""
    value = _number(payload, field)
    at = round(value * 1_000_000) * 1000 if abs(value) < 1e12 else LATEST_INSTANT + 1
    if not EARLIEST_INSTANT <= at <= LATEST_INSTANT:
        raise FactError(field, payload[field], "not an instant in seconds between the years 2000 and 2100")
    return at


def _length_us(payload: Mapping[str, Any], field: str) -> int:
    value = _number(payload, field)
    if not 0 <= value < 1e9:
        raise FactError(field, payload[field], "no length in seconds")
    return round(value * 1_000_000)


def _step(payload: Mapping[str, Any], field: str) -> int:
    value = _number(payload, field)
    if value < 0 or value != int(value) or value > 10**15:
        raise FactError(field, payload[field], "no step number")
    return int(value)


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise FactError(field, value, "no name")
    return value


def _name(payload: Mapping[str, Any], field: str) -> str:
    """A custom event's type, as the library compares it: without regard to case."""
    return _text(field, payload.get(field)).lower()[:180]


FORMAT = ImportFormat(
    name="google-goodput",
    summary="the log of ml-goodput-measurement: its entries as JSON lines, or recorded calls with their entries",
    read=read,
    example="goodput.jsonl",
    tells="attempts, steps, spans and exclusions, as the library logged them",
    cannot_tell="faults: a disruption is a gap in its log, and says no cause; ranks and nodes",
)
