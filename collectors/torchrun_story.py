"""Torchrun story: what an agent of torchelastic lives through, told as facts while it happens.

Rules
- An attempt is a restart count. `RENDEZVOUS` tells it, and so does the environment of the workers that start.
- A worker that failed is told by the agent's own log record, the only thing that names it where a restart is left; then
  every worker is gone, since the agent ends the others first. It names the first that failed. The others of an attempt
  that a restart follows are not named by anything.
- Error files are read when the workers are gone, of every local rank. A rank without one that failed and has a file
  for its `stderr` is looked up there.
- Torchelastic calls an agent successful that ended as it should: how a run ended is what its workers say.
- Where nodes come or go the workers start anew under the same count: that is told as evidence, not as an attempt.
- Inside a scheduler's job a failed run may come again, so it is not over.
- Nothing here reads a clock or the environment; events that make no sense are passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rerail.collectors.masking import masked
from rerail.collectors.plain_text import evidence_of_text
from rerail.collectors.sources.error_files import MOST_BYTES, evidence_of_error_file
from rerail.collectors.sources.torchrun_lines import INTERRUPTS
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Initiator, MarkStage, Outcome, Pairs, Scope

BY = "torchrun"
PREFIX = "torchelastic.worker.status."
LONGEST_TEXT = 12_000
MOST_PIECES = 40
"""Pieces of evidence of one rank of one attempt."""

STDERR_TAIL = 256 * 1024
_SIGNAL = re.compile(r"got signal: (?:Signals\.)?(\w{1,12})")
_NO_FILE = frozenset({"", "/dev/null"})

Say = Callable[[str, int, Mapping[str, object]], None]
"""Takes the kind of a fact, its instant in ns and its fields."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of one node that are about to start, by local rank."""

    restart: int
    world_size: int | None
    group_rank: int | None
    nodes: int | None
    ranks: Mapping[int, int]
    """Local rank → rank."""
    error_files: Mapping[int, str] = field(default_factory=dict)
    stderr_files: Mapping[int, str] = field(default_factory=dict)


class TorchrunStory:
    """Turns what is seen inside one agent into facts. Called in the order of things, from one thread at a time."""

    def __init__(
        self, say: Say, *, node: str, job: str | None = None, versions: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._say = say
        self._node = node
        self._job = job
        self._versions = dict(versions or {})
        self.config: dict[str, object] = {}
        """Recovery settings, to be filled in before the first workers are told."""
        self._attempt: int | None = None
        self._began_at = 0
        self._workers: Workers | None = None
        self._gathering_since: int | None = None
        self._is_gathering_told = False
        self._are_started = False
        self._is_start_told = False
        self._closing_at: int | None = None
        self._gone_at: int | None = None
        self._has_failed = False
        self._is_gone_told = False
        self._exits: dict[int, int] = {}
        """Rank → exit code, of the current attempt."""
        self._told_processes: set[int] = set()
        self._is_ended = True
        self._is_over = False

    # --- what torchelastic says --------------------------------------------------------------------------------------

    def gathering(self, at: int) -> None:
        """This node waits for the others from now on.

        Where no failure was heard, it may be a restart or new nodes: nothing is said until torch tells the count.
        """
        if self._gathering_since is not None:
            return
        self._gathering_since = at
        self._tell_gone(at)
        if self._attempt is None or self._has_failed:
            self._mark(MarkStage.RENDEZVOUS_STARTED, at, 0 if self._attempt is None else self._attempt + 1)
            self._is_gathering_told = True

    def event(self, event: Mapping[str, object], at: int) -> None:
        """An event of the agent or one of its workers, as torchelastic serialises it."""
        name, told = event.get("name"), event.get("metadata")
        if not isinstance(name, str) or not name.startswith(PREFIX) or not isinstance(told, Mapping):
            return
        state, is_worker = name.removeprefix(PREFIX), event.get("source") == "WORKER"
        if state == "RENDEZVOUS":
            self._gathered(told, at)
        elif state == "START" and is_worker:
            self._started(at)
        elif is_worker and state in ("FAILED", "SUCCEEDED", "TERMINATED"):
            self._worker_ended(state, told, at)
        elif not is_worker and state in ("FAILED", "SUCCEEDED"):
            self._over(state, told, at)

    def workers(self, workers: Workers, at: int) -> None:
        """The workers of this node are about to start."""
        self._enter(workers.restart, at)
        is_first = self._workers is None or self._workers.restart != workers.restart
        self._workers = workers
        if not is_first:
            return
        began = self._gathering_since if self._gathering_since is not None else at
        self._tell(
            "attempt_started", began,
            launcher=BY, world_size=workers.world_size,
            scope=Scope.IN_JOB if workers.restart else None,
            initiator=Initiator.FAULT if workers.restart else None,
            nodes=[self._node] if workers.nodes == 1 else None,
            versions=self._versions or None, config=self.config or None,
        )  # fmt: skip

    def closing(self, at: int) -> None:
        """The agent ends a worker that still runs: because another failed, or because it is told to."""
        if self._closing_at is None:
            self._closing_at = at

    def failed(self, at: int, exit_code: int, local_rank: int, process: int, text: str) -> None:
        """A worker has failed, and by now all workers of this node are gone."""
        rank = self._rank(local_rank)
        noticed_at = min(at, self._closing_at) if self._closing_at is not None else at
        self._exit(noticed_at, exit_code, rank, local_rank, process)
        self._tell(
            "evidence", noticed_at, source=BY, text=masked(text) or "?", code=f"exitcode {exit_code}",
            rank=rank, local_rank=local_rank,
        )  # fmt: skip
        self._group_failed(noticed_at, at, text)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _gathered(self, told: Mapping[str, object], at: int) -> None:
        attempt = _number(told.get("agent_restarts"))
        if attempt is None or attempt < 0:
            return
        milliseconds = told.get("duration_ms")
        if self._gathering_since is None:
            waited = milliseconds if isinstance(milliseconds, int | float) and 0 <= milliseconds < 1e9 else 0
            self.gathering(at - int(waited * 1e6))
        is_again = attempt == self._attempt and self._are_started
        if is_again:
            self._tell(
                "evidence", at, source=BY, code="membership_change",
                text="nodes came or went: the workers start anew, which torchrun does not count as a restart",
            )  # fmt: skip
        self._enter(attempt, at)
        if is_again:
            return
        if not self._is_gathering_told and self._gathering_since is not None:
            self._mark(MarkStage.RENDEZVOUS_STARTED, self._gathering_since, attempt)
        self._mark(MarkStage.RENDEZVOUS_COMPLETED, at, attempt)

    def _started(self, at: int) -> None:
        if not self._are_started:
            self._are_started = True
            self._gathering_since, self._is_gathering_told = None, False
            if not self._is_start_told:
                self._is_start_told = True
                self._mark(MarkStage.WORKERS_STARTED, at, self._attempt)

    def _worker_ended(self, state: str, told: Mapping[str, object], at: int) -> None:
        """The end of the last attempt: all its workers are told, one by one."""
        inner = _inner(told.get("metadata"))
        local, rank = _first(inner.get("local_rank")), _number(told.get("global_rank"))
        code = 0 if state == "SUCCEEDED" else _first(inner.get("exit_code"))
        process = _first(inner.get("worker_pid"))
        process = process if process is not None else _number(told.get("worker_id"))
        if code is not None:
            self._exit(at, code, rank, local, process)
        if state == "FAILED":
            self._group_failed(at, at, f"a worker failed: rank {rank}, exit code {code}")
            if local is None or self._file_of(local) is None:
                self._tell_error(told.get("raw_error"), rank, local, at)

    def _over(self, state: str, told: Mapping[str, object], at: int) -> None:
        if self._is_over:
            return
        raw = told.get("raw_error")
        words = raw if isinstance(raw, str) else ""
        caught = _SIGNAL.search(words)
        if state == "FAILED" and caught:
            reason = f"torchrun was ended by signal {caught[1]}"
            self._tell("evidence", at, source=BY, text=reason, code="death_signal")
            outcome = Outcome.STOPPED if caught[1] in INTERRUPTS else Outcome.FAILED
        elif state == "FAILED" and words and not self._has_failed:
            self._tell_error(_as_error_file(words), None, None, at)
            reason, outcome = (masked(words.strip().splitlines()[-1])[:1000] or None), Outcome.FAILED
        else:
            outcome = Outcome.FAILED if self._has_failed or state == "FAILED" else Outcome.COMPLETED
            reason = "no restart was left" if outcome is Outcome.FAILED else None
        self._end(self._gone_at or at, outcome, reason)
        self._is_over = True
        if outcome is Outcome.COMPLETED or self._job is None:
            self._say("run_ended", at, {"outcome": outcome, **({"reason": reason} if reason else {})})

    def _group_failed(self, noticed_at: int, gone_at: int, text: str) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        self._gone_at = gone_at
        self._mark(MarkStage.NOTICED, noticed_at, self._attempt, text[:1000])
        self._tell_files(noticed_at)

    def _enter(self, attempt: int, at: int) -> None:
        """Take up an attempt; the one before it is over."""
        if attempt == self._attempt:
            self._are_started = False
            return
        if self._attempt is not None:
            # Until the next rendezvous the agent is still clearing up after this one.
            self._end(self._gathering_since or at, Outcome.FAILED, None)
        self._attempt = attempt
        self._began_at = self._gathering_since if self._gathering_since is not None else at
        self._closing_at = self._gone_at = None
        self._exits = {}
        self._are_started = self._is_start_told = self._has_failed = self._is_gone_told = self._is_ended = False

    def _end(self, at: int, outcome: Outcome, reason: str | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._tell_gone(at)
        codes = {str(rank): code for rank, code in sorted(self._exits.items())}
        self._tell("attempt_ended", at, outcome=outcome, reason=reason, exit_codes=codes or None)

    def _tell_gone(self, at: int) -> None:
        """The agent has cleared up after an attempt that failed: it gathers anew, or ends."""
        if self._has_failed and not self._is_gone_told:
            self._is_gone_told = True
            self._mark(MarkStage.WORKERS_GONE, at, self._attempt)

    def _exit(self, at: int, code: int, rank: int | None, local_rank: int | None, process: int | None) -> None:
        if process is not None and process in self._told_processes:
            return
        if process is not None:
            self._told_processes.add(process)
        if rank is not None:
            self._exits[rank] = code
        signal = -code if code < 0 else None
        self._tell("exit", at, exit_code=code, signal=signal, rank=rank, local_rank=local_rank)

    def _tell_files(self, at: int) -> None:
        """What the workers that are gone left behind."""
        if self._workers is None or self._workers.restart != self._attempt:
            return
        for local_rank, rank in self._workers.ranks.items():
            content = self._file_of(local_rank)
            if content is not None:
                self._tell_error(content, rank, local_rank, at)
            elif self._exits.get(rank, -15) != -15:
                self._tell_stderr(self._workers.stderr_files.get(local_rank, ""), rank, local_rank, at)

    def _file_of(self, local_rank: int) -> bytes | None:
        path = self._workers.error_files.get(local_rank, "") if self._workers is not None else ""
        if path in _NO_FILE:
            return None
        try:
            with Path(path).open("rb") as file:
                return file.read(MOST_BYTES + 1) or None
        except OSError:
            return None

    def _tell_error(self, content: object, rank: int | None, local_rank: int | None, at: int) -> None:
        if isinstance(content, str):
            content = content.encode(errors="replace")
        if not isinstance(content, bytes) or b"<NONE>" in content[:40] or content == b"null":
            return
        try:
            found = evidence_of_error_file(content, path="", run="-", emitter="-", fallback_at=at)
        except FactError:
            return
        for fact in found[:MOST_PIECES]:
            # The file tells whole seconds, which may lie before the attempt.
            instant = min(at, max(self._began_at, fact.at))
            self._tell_piece(instant, BY, fact.text, fact.code, fact.attributes, rank, local_rank)

    def _tell_stderr(self, path: str, rank: int, local_rank: int, at: int) -> None:
        if path in _NO_FILE:
            return
        try:
            with Path(path).open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - STDERR_TAIL))
                pieces = evidence_of_text(file.read(STDERR_TAIL)).pieces
        except OSError:
            return
        for piece in pieces[-MOST_PIECES:]:
            self._tell_piece(at, piece.source, piece.text, piece.code, piece.attributes, rank, local_rank)

    def _tell_piece(
        self, at: int, source: str, text: str, code: str | None, attributes: Pairs, rank: int | None,
        local_rank: int | None,
    ) -> None:  # fmt: skip
        self._tell(
            "evidence", at, source=source, text=text[:LONGEST_TEXT], code=code, rank=rank, local_rank=local_rank,
            attributes=dict(attributes) or None,
        )  # fmt: skip

    def _rank(self, local_rank: int) -> int | None:
        return None if self._workers is None else self._workers.ranks.get(local_rank)

    def _mark(self, stage: MarkStage, at: int, attempt: int | None, text: str | None = None) -> None:
        self._tell("recovery_mark", at, stage=stage, by=BY, text=masked(text) if text else None, restart=attempt)

    def _tell(self, kind: str, at: int, **told: object) -> None:
        told = {"restart": self._attempt, **told}
        self._say(kind, at, {name: value for name, value in told.items() if value is not None})


def _number(value: object) -> int | None:
    """A small count; None for whatever else."""
    if isinstance(value, bool):
        return None
    text = str(value)
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 12 else None


def _first(value: object) -> int | None:
    return _number(value[0]) if isinstance(value, list | tuple) and value else _number(value)


def _inner(value: object) -> Mapping[str, object]:
    """The JSON that torch keeps as text inside an event."""
    try:
        told = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _as_error_file(trace: str) -> str:
    """A traceback in the form of an error file."""
    last = trace.strip().splitlines()[-1] if trace.strip() else "?"
    return json.dumps({"message": {"message": last, "extraInfo": {"py_callstack": trace[-100_000:]}}})
