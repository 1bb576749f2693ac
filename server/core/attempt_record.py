"""What was told about one attempt, gathered as facts come in, in any order.

Rules
- Instants here are on the server's clock already.
- Everything is kept as minimum, maximum or sorted set, so that the order of facts does not matter.
- A phase told in two facts (open, then closed) is one phase, whichever of the two comes first.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from rerail.server.core.attempts import AttemptKey
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Heartbeats,
    MarkStage,
    Outcome,
    Phase,
    PhaseSpan,
)
from rerail.server.core.flight_recorder.summary import SOURCE as FLIGHT_RECORDER
from rerail.server.core.rank_windows import LastHeard
from rerail.server.core.steps import StatedSteps, StepBlock, StepStream, merged_blocks
from rerail.server.core.timeline import Claim

LATEST_HOLDS = frozenset(
    {MarkStage.WORKERS_GONE, MarkStage.RENDEZVOUS_COMPLETED, MarkStage.WORKERS_STARTED, MarkStage.INITIALIZED}
)
"""Stages that are over only when the last rank or node says so; of the others the first statement counts."""

END_SLACK_NS = 5_000_000_000
"""Clocks of a launcher and a rank may disagree by so much before an end and a later step contradict each other."""


@dataclass(slots=True)
class ToldPhase:
    """One phase as one emitter told it; `end` None while it is open, `start` None while only its end came."""

    phase: Phase
    name: str | None
    emitter: str
    start: int | None
    end: int | None
    statements: list[tuple[int, Phase, str | None, int | None, int | None]] = field(default_factory=list)
    """`(seq, phase, name, start, end)` of every fact that told of it, in the order its emitter made them."""

    def take(self, seq: int, phase: Phase, name: str | None, start: int | None, end: int | None) -> None:
        """One more statement about it. Of each edge the first statement holds, and its phase is that of its start."""
        insort(self.statements, (seq, phase, name, start, end), key=lambda statement: statement[0])
        opened = next((each for each in self.statements if each[3] is not None), self.statements[0])
        self.phase, self.name, self.start = opened[1], opened[2], opened[3]
        self.end = next((each[4] for each in self.statements if each[4] is not None), None)

    @property
    def is_contradicted(self) -> bool:
        """Told with several phases, beginnings or ends."""
        edges = [{each[index] for each in self.statements} - {None} for index in (1, 3, 4)]
        return any(len(values) > 1 for values in edges)


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """A checkpoint was read during `[start, end)`."""

    end: int
    start: int
    step: int
    is_ok: bool

    def is_before(self, first_block: StepBlock | None) -> bool:
        """Whether it began before its attempt stepped; a later one says nothing about where the attempt resumed."""
        return first_block is None or self.start <= first_block.start


@dataclass(frozen=True, slots=True, order=True)
class WorkerExit:
    """A worker process ended."""

    at: int
    rank: int
    exit_code: int
    oom_killed: bool
    node: str = ""


@dataclass(frozen=True, slots=True)
class TimedEvidence:
    """A piece of evidence on the server's clock."""

    at: int
    evidence: Evidence

    def order(self) -> tuple[int, str, int]:
        """By instant; statements of one instant in the order their emitter made them."""
        return self.at, self.evidence.emitter, self.evidence.seq


class AttemptRecord:
    """Everything told about one attempt."""

    def __init__(self, job: str | None, key: AttemptKey) -> None:
        self.job = job
        self.key = key
        self.version = 0
        """Goes up with every fact, so that a cached result can be told from a stale one."""
        self.fault_version = 0
        """Goes up with every fact that bears on why it ended: evidence, exits, marks of its end, lost nodes."""
        self.started: list[tuple[int, str, int, AttemptStarted]] = []
        self.ended: list[tuple[int, str, int, AttemptEnded]] = []
        self.phases: list[ToldPhase] = []
        self.marks: dict[MarkStage, int] = {}
        self.notices: list[int] = []
        self.noticed_by: list[tuple[int, str]] = []
        self.lost_nodes: list[tuple[int, str]] = []
        self.rendezvous_started_at: int | None = None
        self.loads: list[Load] = []
        self.streams: dict[str, StepStream] = {}
        self._told_every: dict[str, tuple[int, int, int, int]] = {}
        """Of each emitter of steps `(start, first step, seq, every)` of its latest statement."""
        self.exits: list[WorkerExit] = []
        self.evidence: list[TimedEvidence] = []
        self.has_dumps = False
        """Some of it is of flight recorders."""
        self.heartbeat_until: int | None = None
        self.heartbeat_from: int | None = None
        self.last_heard = LastHeard()
        self.first_fact_at: int | None = None
        self.first_queue_at: int | None = None
        self.reporting_ranks: set[int] = set()
        self.sealed_until: int | None = None
        """Before this instant everything is settled and its facts were let go; None while nothing is."""
        self.sealed_steps = 0
        self.first_block: StepBlock | None = None
        self._open_phases: dict[tuple[str, str], ToldPhase] = {}
        self._blocks: list[StepBlock] | None = None

    # --- taking facts ---

    def touch(self, at: int) -> None:
        """Something of this attempt happened at an instant."""
        if self.first_fact_at is None or at < self.first_fact_at:
            self.first_fact_at = at
        self.version += 1

    def add_started(self, at: int, fact: AttemptStarted) -> None:
        """The worker group began to form."""
        self.started.append((at, fact.emitter, fact.seq, fact))
        self.started.sort(key=lambda entry: entry[:3])
        self.touch(at)

    def add_ended(self, at: int, fact: AttemptEnded) -> None:
        """The worker group was gone."""
        self.fault_version += 1
        self.ended.append((at, fact.emitter, fact.seq, fact))
        self.ended.sort(key=lambda entry: entry[:3])
        self.notices.append(at)
        self.touch(at)

    def add_phase(self, fact: PhaseSpan, start: int | None, end: int | None) -> None:
        """A phase, open or closed, or the end of an open one."""
        told = None
        if fact.span is not None:
            told = self._open_phases.get((fact.emitter, fact.span))
        if told is None:
            told = ToldPhase(fact.phase, fact.name, fact.emitter, start, end)
            self.phases.append(told)
            if fact.span is not None:
                self._open_phases[fact.emitter, fact.span] = told
        if fact.span is not None:
            told.take(fact.seq, fact.phase, fact.name, start, end)
        if fact.phase is Phase.RENDEZVOUS and start is not None:
            self._rendezvous_began(start)
        if fact.phase is Phase.QUEUED:
            if start is not None and (self.first_queue_at is None or start < self.first_queue_at):
                self.first_queue_at = start
            self.version += 1
        else:
            self.touch(min(edge for edge in (start, end) if edge is not None))

    def _rendezvous_began(self, at: int) -> None:
        if self.rendezvous_started_at is None or at < self.rendezvous_started_at:
            self.rendezvous_started_at = at

    def add_mark(self, stage: MarkStage, at: int, by: str | None = None) -> None:
        """A moment of a recovery."""
        if stage is MarkStage.RENDEZVOUS_STARTED:
            self._rendezvous_began(at)
        if stage is MarkStage.NOTICED and by is not None:
            self.fault_version += 1
            insort(self.noticed_by, (at, by))
        known = self.marks.get(stage)
        if known is None:
            self.marks[stage] = at
        else:
            self.marks[stage] = max(known, at) if stage in LATEST_HOLDS else min(known, at)
        if stage in (MarkStage.NOTICED, MarkStage.ABORTING, MarkStage.WORKERS_GONE):
            self.notices.append(at)
        self.touch(at)

    def add_load(self, load: Load) -> None:
        """A checkpoint was read."""
        insort(self.loads, load)
        self.touch(load.start)

    def add_steps(self, emitter: str, rank: int | None, stated: StatedSteps, every: int | None = None) -> bool:
        """Completed steps; False when they came out of order. `every` as of the fact."""
        told = stated.start, stated.first_step, stated.identity[1], every or 1
        self._told_every[emitter] = max(self._told_every.get(emitter, told), told)
        stream = self.streams.get(emitter)
        if stream is None:
            stream = self.streams[emitter] = StepStream()
        in_order = stream.add(stated)
        self._blocks = None
        if rank is not None:
            self.reporting_ranks.add(rank)
        self.touch(stated.start)
        return in_order

    def add_exit(self, at: int, fact: Exit) -> None:
        """A worker process ended."""
        rank = -1 if fact.rank is None else fact.rank
        self.fault_version += 1
        insort(self.exits, WorkerExit(at, rank, fact.exit_code, bool(fact.oom_killed), fact.node or ""))
        if fact.exit_code != 0:
            self.notices.append(at)
        self.touch(at)

    def add_node_lost(self, at: int, node: str) -> None:
        """A machine of this attempt was lost."""
        self.notices.append(at)
        insort(self.lost_nodes, (at, node))
        self.fault_version += 1
        self.version += 1

    def add_heartbeats(self, start: int, end: int, fact: Heartbeats) -> None:
        """Signs of life in a window, its edges on the server's clock."""
        self.heartbeat_until = end if self.heartbeat_until is None else max(self.heartbeat_until, end)
        self.heartbeat_from = start if self.heartbeat_from is None else min(self.heartbeat_from, start)
        self.last_heard.add(fact, start, end)
        self.version += 1

    def add_evidence(self, at: int, fact: Evidence) -> None:
        """A piece of evidence."""
        insort(self.evidence, TimedEvidence(at, fact), key=TimedEvidence.order)
        self.has_dumps = self.has_dumps or fact.source == FLIGHT_RECORDER
        self.fault_version += 1
        self.version += 1

    # --- what follows from them ---

    def blocks(self) -> list[StepBlock]:
        """Completed steps of the attempt, over all ranks."""
        if self._blocks is None:
            streams = [self.streams[emitter] for emitter in sorted(self.streams)]
            self._blocks = merged_blocks(streams) if streams else []
            if self._blocks and self.sealed_until is None:
                self.first_block = self._blocks[0]
        return self._blocks

    @property
    def step_count(self) -> int:
        """Completed steps, settled ones included."""
        return self.sealed_steps + sum(len(block.ends) for block in self.blocks())

    @property
    def told_every(self) -> int | None:
        """Only each so-many-th step was told where it ended, by who sees most; None where no step was told."""
        return min((every for *_, every in self._told_every.values()), default=None)

    @property
    def is_down_untold(self) -> bool:
        """How long none ran before it is not known, as far as anybody says."""
        return any(fact.down_untold for *_, fact in self.started)

    @property
    def earliest_open_phase(self) -> int | None:
        """Start of the first phase whose end was not told."""
        return min(
            (phase.start for phase in self.phases if phase.end is None and phase.start is not None), default=None
        )

    def seal(self, until: int, last_step: int) -> None:
        """Let go of what ended before an instant that a block of steps begins at; `last_step` ended before it."""
        self.sealed_steps += sum(len(block.ends) for block in self.blocks() if block.last_step <= last_step)
        for stream in self.streams.values():
            stream.forget_until(last_step)
        self.phases = [
            phase
            for phase in self.phases
            if phase.start is None
            or phase.end is None
            or phase.end > until
            or phase.end < phase.start
            or phase.phase in (Phase.INITIALIZING, Phase.RENDEZVOUS, Phase.STOPPING, Phase.QUEUED)
        ]
        self._open_phases = {
            key: phase for key, phase in self._open_phases.items() if phase.end is None or phase.end > until
        }
        self.sealed_until = until
        self._blocks = None

    def is_late(self, effect_at: int) -> bool:
        """Whether something at an instant would change what is settled."""
        return self.sealed_until is not None and effect_at < self.sealed_until

    @property
    def started_at(self) -> int:
        """Its rendezvous, or the statement that it started, or else its first fact.

        An iteration begins where the first of its ranks says so, if one does: what a log tells of it is told while the
        one before is still taken down.
        """
        if self.rendezvous_started_at is not None:
            return self.rendezvous_started_at
        if self.started:
            by_rank = (at for at, _, _, fact in self.started if fact.iteration and fact.rank is not None)
            return next(by_rank, self.started[0][0])
        assert self.first_fact_at is not None, "an attempt of which only queueing is known has not started"
        return self.first_fact_at

    @property
    def is_only_queued(self) -> bool:
        """Nothing of it but waiting is known: it has not started."""
        return self.first_fact_at is None

    @property
    def life_starts_at(self) -> int:
        """First queue or attempt fact."""
        return min(at for at in (self.first_queue_at, self.first_fact_at) if at is not None)

    @property
    def is_end_contradicted(self) -> bool:
        """Its end was told, and then a step began, or it had not begun yet: both cannot be true."""
        if not self.ended:
            return False
        told = self.ended[-1][0]
        blocks = self.blocks()
        last_began = blocks[-1].last_began if blocks else None
        return told < self.started_at or (last_began is not None and last_began > told + END_SLACK_NS)

    @property
    def ended_at(self) -> int | None:
        """When its worker group was told gone; None too where that was contradicted."""
        if self.ended:
            return None if self.is_end_contradicted else self.ended[-1][0]
        return self.marks.get(MarkStage.WORKERS_GONE)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, where told; the last word counts."""
        told = [fact.outcome for *_, fact in self.ended if fact.outcome is not None]
        return told[-1] if told and not self.is_end_contradicted else None

    @property
    def reason(self) -> str | None:
        """Why it ended, where told."""
        told = [fact.reason for *_, fact in self.ended if fact.reason is not None]
        return told[-1] if told else None

    def exit_codes(self) -> tuple[tuple[int, int], ...]:
        """`(rank, exit code)`, the first told of each rank; exits of unknown rank are left out."""
        codes: dict[int, int] = {}
        for worker in self.exits:
            if worker.rank >= 0:
                codes.setdefault(worker.rank, worker.exit_code)
        for *_, fact in self.ended:
            for rank, code in fact.exit_codes:
                codes.setdefault(rank, code)
        return tuple(sorted(codes.items()))

    def told_queue(self, until: int) -> list[Claim]:
        """Queueing that was told as a phase, an open one lasting `until`."""
        return [
            Claim(phase.start, until if phase.end is None else phase.end, Phase.QUEUED)
            for phase in self.phases
            if phase.phase is Phase.QUEUED and phase.start is not None
        ]
