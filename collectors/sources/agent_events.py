"""Agent events: the events that torchelastic's agent hands to its event handler, one JSON object a line.

An event is `{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": …, "metadata": {…}}`; who
records events puts them into an object with `event` and the time, `t` in seconds since 1970. Rendezvous events have a
`message`, a `hostname` and an `error_trace`.

Rules
- `agent_restarts` numbers the attempt. One that another follows has ended; that of the last is told by its workers.
- A worker that failed has `raw_error`, which is what stands in an error file; `<NONE>` there means that it wrote none,
  as one does that is killed. Its rank is the global one.
- torch leaves `timestamp` 0: without a time of who recorded it an event has the place of its line and no instant.
- A line that is no event is skipped: who records them also records metrics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.masking import masked
from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE
from rerail.collectors.sources.error_files import evidence_of_error_file
from rerail.server.core.codec import FactError
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Fact,
    Initiator,
    MarkStage,
    Outcome,
    RecoveryMark,
    RunEnded,
    Scope,
)

PREFIX = "torchelastic.worker.status."
LONGEST_LINE = 1_000_000
FIRST_INSTANT_S, LAST_INSTANT_S = 946_684_800, 4_102_444_800
NO_WORDS = "<NONE>"


def is_agent_events(head: bytes) -> bool:
    """Whether a file that begins so may be one."""
    first = head.lstrip()
    return first[:1] == b"{" and (
        b'"torchelastic.' in first or (b'"node_state"' in first and b'"master_endpoint"' in first)
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """One event."""

    state: str
    source: str
    metadata: Mapping[str, object]
    at: int | None
    message: str = ""
    error_trace: str = ""
    host: str | None = None


def _event(raw: bytes) -> _Event | None:
    """The event of a line; None for a line that is none. Never raises."""
    if len(raw) > LONGEST_LINE or raw.lstrip()[:1] != b"{":
        return None
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    inner = told.get("event") if isinstance(told.get("event"), dict) else told
    name = inner.get("name")
    at = _instant(told.get("t")) or _instant(inner.get("timestamp"))
    if not isinstance(name, str):
        return None
    metadata = inner.get("metadata")
    host = inner.get("hostname")
    if name.startswith(PREFIX) and isinstance(metadata, dict):
        host = metadata.get("hostname")
        return _Event(name.removeprefix(PREFIX), str(inner.get("source"))[:20], metadata, at, host=_node(host))
    message, trace = inner.get("message"), inner.get("error_trace")
    if "node_state" in inner and isinstance(message, str):
        words = trace if isinstance(trace, str) else ""
        return _Event("", "RENDEZVOUS", {}, at, message, words, _node(host))
    return None


def _node(host: object) -> str | None:
    return host[:200] if isinstance(host, str) and host and host != "localhost" else None


def _instant(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return int(seconds * 1_000_000) * 1000 if FIRST_INSTANT_S <= seconds < LAST_INSTANT_S else None


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _first_number(value: object) -> int | None:
    return _number(value[0]) if isinstance(value, list) and value else _number(value)


class _Reader:
    """Follows the events of one agent."""

    def __init__(self, run: str | None, stem: str, emitter: str, fallback_at: int) -> None:
        self._run = run
        self._stem = stem
        self._emitter = emitter
        self._at = fallback_at
        self._attempt: int | None = None
        self._has_failed = False

    def facts(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Fact]:
        """The facts of all lines; `lines` are numbered."""
        for number, raw in lines:
            event = _event(raw)
            if event is None:
                continue
            self._at = event.at if event.at is not None else self._at
            if self._run is None and isinstance(told := event.metadata.get("run_id"), str) and told:
                self._run = told[:200]
            for place, fact in enumerate(self._of(event)):
                yield replace(fact, seq=number * FACTS_PER_BYTE + min(place, FACTS_PER_BYTE - 1))

    def _of(self, event: _Event) -> Iterator[Fact]:
        if event.source == "RENDEZVOUS":
            yield from self._rendezvous(event)
            return
        attempt = _number(event.metadata.get("agent_restarts"))
        if attempt is None:
            return
        common = self._common(event, attempt)
        if self._attempt is None or attempt > self._attempt:
            yield from self._begin(event, attempt)
        if event.source == "WORKER" and event.state == "FAILED":
            yield from self._failed(event, common)
        elif event.source == "WORKER" and event.state == "SUCCEEDED" and not self._has_failed:
            return
        elif event.source == "AGENT" and event.state in ("SUCCEEDED", "FAILED"):
            # torch calls an agent successful that ended as it should, whatever became of its workers.
            outcome = Outcome.FAILED if self._has_failed or event.state == "FAILED" else Outcome.COMPLETED
            reason = "no restart was left" if outcome is Outcome.FAILED else None
            yield AttemptEnded(**common, outcome=outcome, reason=reason)
            yield RunEnded(**{**common, "restart": None}, outcome=outcome, reason=reason)

    def _common(self, event: _Event, attempt: int | None) -> dict[str, object]:
        return {
            "run": self._run or self._stem, "emitter": self._emitter, "seq": 0, "at": self._at, "node": event.host,
            "restart": attempt,
        }  # fmt: skip

    def _begin(self, event: _Event, attempt: int) -> Iterator[Fact]:
        """A new attempt: the one before it is over."""
        if self._attempt is not None:
            common = self._common(event, self._attempt)
            yield RecoveryMark(**common, stage=MarkStage.NOTICED, by="torchrun")
            yield AttemptEnded(**common, outcome=Outcome.FAILED)
        is_restart = self._attempt is not None or attempt > 0
        self._attempt, self._has_failed = attempt, False
        yield AttemptStarted(
            **self._common(event, attempt), launcher="torchrun", scope=Scope.IN_JOB if is_restart else None,
            initiator=Initiator.FAULT if is_restart else None,
        )  # fmt: skip

    def _failed(self, event: _Event, common: dict[str, object]) -> Iterator[Fact]:
        if not self._has_failed:
            self._has_failed = True
            yield RecoveryMark(**common, stage=MarkStage.NOTICED, by="torchrun")
        rank = _number(event.metadata.get("global_rank"))
        raw = event.metadata.get("raw_error")
        if not isinstance(raw, str) or NO_WORDS in raw[:40]:
            return
        local = _first_number(_inner(event.metadata.get("metadata")).get("local_rank"))
        try:
            told = evidence_of_error_file(
                raw.encode(), path="", run=str(common["run"]), emitter=self._emitter, fallback_at=self._at
            )
        except FactError:
            text = masked(raw[:4000]) or "?"
            yield Evidence(**common, source="torchrun", text=text, rank=rank, local_rank=local)
            return
        for fact in told:
            yield replace(
                fact, at=self._at, node=event.host, restart=self._attempt, rank=rank, local_rank=local
            )  # fmt: skip

    def _rendezvous(self, event: _Event) -> Iterator[Fact]:
        """An error while nodes gathered."""
        words = event.error_trace.strip().splitlines()
        if words:
            text = masked(f"{event.message[:2000]}\n{words[-1][:2000]}") or "?"
            yield Evidence(**self._common(event, self._attempt), source="torchrun", text=text, code="rendezvous")


def _inner(value: object) -> Mapping[str, object]:
    """The JSON that torch keeps as text inside an event."""
    try:
        told = json.loads(value) if isinstance(value, str) and len(value) < LONGEST_LINE else value
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def facts_of_agent_events(
    lines: Iterable[tuple[int, bytes]], *, run: str | None, stem: str, emitter: str, fallback_at: int
) -> Iterator[Fact]:
    """The facts of an agent's events. `run`: None where the events say it, else `stem`."""
    yield from _Reader(run, stem, emitter, fallback_at).facts(lines)


def _read(old: OldFile) -> Iterator[Fact]:
    emitter = f"agent-events/{hashlib.sha256(old.path.encode()).hexdigest()[:16]}"
    for fact in facts_of_agent_events(old.lines, run=old.run, stem=old.stem, emitter=emitter, fallback_at=old.at or 0):
        if fact.at > 0:
            yield fact
        else:
            old.refuse(fact.seq // FACTS_PER_BYTE, FactError("t", None, "nothing tells when the event was"))


FORMAT = ImportFormat(
    name="torchrun-events",
    summary="torchelastic's events as JSON lines: attempts, and the errors of workers",
    read=_read,
    example="events.jsonl --run llm",
    tells="attempts, exits, what the agent noticed, and the errors of workers",
    cannot_tell="steps, checkpoints, GPUs; how far a worker had come when it failed",
)
