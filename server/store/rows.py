"""Rows: facts to rows of the log and back, without loss.

Rules
- What every row of a table has stands in columns; the rest is one JSON object in the words of the wire format, so a
  fact that this version does not understand is kept and read back as it came.
- Payloads are ASCII JSON: NUL and odd characters are escapes in it.
- The intake's fast path (`decoding.py`) writes the same rows without building the fact first; a property test holds the
  two together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields

from rerail.server.core import codec
from rerail.server.core.facts import Fact, Heartbeats, Steps, UnknownFact
from rerail.server.store import FactRow, HeartbeatRow, LogRow, StepRow

IDENTITY = ("run", "emitter", "seq", "at")
STEP_COLUMNS = ("first_step", "start", "durations_us", "count")
HEARTBEAT_COLUMNS = ("start", "end", "count", "max_gap_us")


def row_of(fact: Fact) -> LogRow:
    """The row that keeps a fact."""
    wire = codec.encode(fact)
    for name in IDENTITY:
        del wire[name]
    if isinstance(fact, Steps):
        for name in ("kind", *STEP_COLUMNS):
            wire.pop(name, None)
        return StepRow(
            seq=fact.seq,
            at=fact.at,
            first_step=fact.first_step,
            step_count=fact.step_count,
            start=fact.start,
            end=fact.start + 1000 * sum(fact.durations_us),
            is_shared=fact.count is not None,
            durations=codec.pack_durations(fact.durations_us),
            payload=_payload(wire),
        )
    if isinstance(fact, Heartbeats):
        for name in ("kind", *HEARTBEAT_COLUMNS):
            del wire[name]
        return HeartbeatRow(
            seq=fact.seq,
            at=fact.at,
            start=fact.start,
            end=fact.end,
            count=fact.count,
            max_gap_us=fact.max_gap_us,
            payload=_payload(wire),
        )
    kind = fact.stated_kind if isinstance(fact, UnknownFact) else fact.kind
    return FactRow(seq=fact.seq, at=fact.at, kind=kind, payload=_payload(wire))


def _payload(wire: Mapping[str, object]) -> bytes:
    return json.dumps(wire, separators=(",", ":")).encode("ascii") if wire else b""


class FactReader:
    """Makes facts of one run out of rows. Fields that many rows share are decoded once."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._shared: dict[tuple[str, bytes], dict[str, object]] = {}

    def facts(self, emitter: str, rows: Iterable[LogRow]) -> Iterable[Fact]:
        """The facts in rows of one emitter."""
        for row in rows:
            yield self.fact(emitter, row)

    def fact(self, emitter: str, row: LogRow) -> Fact:
        """The fact in one row. Raises `codec.FactError` where the codec no longer takes what it once took."""
        if isinstance(row, StepRow):
            shared = self._fields("steps", emitter, row.payload, _ANY_STEPS)
            return Steps(
                seq=row.seq,
                at=row.at,
                first_step=row.first_step,
                start=row.start,
                durations_us=codec.unpack_durations(row.durations),
                count=row.step_count if row.is_shared else None,
                **shared,  # type: ignore[arg-type]
            )
        if isinstance(row, HeartbeatRow):
            shared = self._fields("heartbeats", emitter, row.payload, _ANY_HEARTBEATS)
            return Heartbeats(
                seq=row.seq,
                at=row.at,
                start=row.start,
                end=row.end,
                count=row.count,
                max_gap_us=row.max_gap_us,
                **shared,  # type: ignore[arg-type]
            )
        wire = json.loads(row.payload) if row.payload else {}
        wire.update(kind=row.kind, run=self._run, emitter=emitter, seq=row.seq, at=row.at)
        fact = codec.decode(wire)
        assert isinstance(fact, Fact)
        return fact

    def _fields(self, kind: str, emitter: str, payload: bytes, columns: Mapping[str, object]) -> dict[str, object]:
        """The checked fields of a payload, with run and emitter, without those that stand in columns."""
        key = (emitter, kind.encode() + payload)
        if (found := self._shared.get(key)) is not None:
            return found
        wire = json.loads(payload) if payload else {}
        own = {name for name in columns if name != "seq"}
        loss = wire.pop("loss", None)
        fact = codec.decode({**wire, **columns, "kind": kind, "run": self._run, "emitter": emitter, "seq": 0})
        found = {
            field.name: getattr(fact, field.name)
            for field in fields(fact)
            if field.name not in own and field.name not in ("seq", "at", "count")
        }
        if loss is not None:
            # One loss per step belongs to this row alone, and the stand-in columns have another number of steps.
            return {**found, "loss": tuple(float(value) for value in loss)}
        if len(self._shared) > 10_000:
            self._shared.clear()
        self._shared[key] = found
        return found


_ANY_STEPS: dict[str, object] = {
    "at": codec.EARLIEST_INSTANT,
    "first_step": 0,
    "start": codec.EARLIEST_INSTANT,
    "durations_us": [0],
}
_ANY_HEARTBEATS: dict[str, object] = {
    "at": codec.EARLIEST_INSTANT,
    "start": codec.EARLIEST_INSTANT,
    "end": codec.EARLIEST_INSTANT,
    "count": 0,
    "max_gap_us": 0,
}
