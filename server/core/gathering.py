"""Gathering: facts of one run sorted into attempts, checkpoints, clocks and what concerns the run as a whole.

Rules
- The result depends only on the set of facts: the same facts in any order, with any duplicates, gather to the same.
- A fact that comes in order is taken where it stands. One that changes what earlier facts meant (a clock, a job or an
  attempt in the middle) makes everything be gathered again, from the facts that are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import overload

from rerail.server.core.artefacts import Artefacts
from rerail.server.core.attempt_record import AttemptRecord, Load
from rerail.server.core.attempts import ATTEMPT_FACTS, FOUNDING_FACTS, AttemptKey, StatedKey, stated_key
from rerail.server.core.blindness import BlindPeriods
from rerail.server.core.checkpoints import CheckpointRecord
from rerail.server.core.clocks import EmitterClock
from rerail.server.core.exclusions import Exclusions
from rerail.server.core.facts import (
    ArtefactState,
    AttemptEnded,
    AttemptStarted,
    Blind,
    Capacity,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Clock,
    Evidence,
    Excluded,
    ExclusionState,
    Exit,
    Fact,
    Heartbeats,
    NodeCondition,
    NodeState,
    Note,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    SchedulerState,
    Steps,
)
from rerail.server.core.foundings import Foundings, Group, OwnBeginning
from rerail.server.core.liveness import Hearing, PhaseBeats
from rerail.server.core.node_histories import NodeChange
from rerail.server.core.running import BRING_UP
from rerail.server.core.steps import StatedSteps, stated_ends

QUEUED_STATES = frozenset({"queued", "pending", "backoff", "suspended", "requeued"})
"""Scheduler states in which the run waits."""

PERSONS_SAY = (ArtefactState, Excluded, ExclusionState, Note)
"""Kinds that are no sign of life."""


@dataclass(slots=True)
class Moment:
    """A checkpoint fact with its instant and the attempt it belongs to."""

    at: int
    record: AttemptRecord
    fact: CheckpointMoment


@dataclass(slots=True)
class RunWide:
    """What concerns no attempt in particular. Lists hold `(at, emitter, seq, fact)`, unordered."""

    started: list[tuple[int, str, int, RunStarted]] = field(default_factory=list)
    ended: list[tuple[int, str, int, RunEnded]] = field(default_factory=list)
    scheduler: list[tuple[int, str, int, SchedulerState]] = field(default_factory=list)
    gpus: list[tuple[int, int]] = field(default_factory=list)
    exclusions: Exclusions = field(default_factory=Exclusions)
    artefacts: Artefacts = field(default_factory=Artefacts)
    blind: BlindPeriods = field(default_factory=BlindPeriods)
    node_changes: list[tuple[str, NodeChange]] = field(default_factory=list)
    hearings: dict[str, Hearing] = field(default_factory=dict)
    beats: dict[str, PhaseBeats] = field(default_factory=dict)
    tells_of_work: bool = False
    """Some fact about what ranks do was stated for a rank."""
    tells_of_start: bool = False
    """It was stated for a rank that it started, is being brought up, or lives."""
    beating: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Emitter of a rank → from when to when it beat by its own clock, until one beat for `BEATS_ALONE_NS`."""
    beats_on: bool = False
    """Some rank beat for that long."""
    version: int = 0
    """Goes up when anything that bears on the timeline of every attempt changes."""

    @property
    def speaks_for_ranks(self) -> bool:
        """A step that happens would be told. Not by ranks that only beat, and do so long after they began."""
        return self.tells_of_work or (self.tells_of_start and not self.beats_on)

    def hear(self, fact: Fact) -> None:
        """Whether a fact about an attempt tells what ranks do."""
        if self.tells_of_work:
            return
        is_start = isinstance(fact, (AttemptStarted, Heartbeats))
        is_start = is_start or (isinstance(fact, PhaseSpan) and fact.phase in BRING_UP)
        if isinstance(fact, Steps):
            self.tells_of_work = True
        elif fact.rank is None or isinstance(fact, (Exit, Evidence)):
            return
        elif not is_start:
            self.tells_of_work = True
        else:
            self.tells_of_start = True
            if isinstance(fact, Heartbeats) and not self.beats_on:
                since, until = self.beating.get(fact.emitter, (fact.start, fact.end))
                since, until = min(since, fact.start), max(until, fact.end)
                self.beats_on = until - since >= BEATS_ALONE_NS
                if self.beats_on:
                    self.beating.clear()
                else:
                    self.beating[fact.emitter] = since, until


BEATS_ALONE_NS = 30_000_000_000
"""A rank that beats for so long, and tells nothing else, is past its bring-up and does not tell of steps."""
Recall = Callable[[], Iterable[Fact]]
"""Everything that was added so far, each fact once, in any order."""


def _only_waits(fact: Fact) -> bool:
    """Whether all that a fact tells of its attempt is that it waits to begin."""
    return isinstance(fact, PhaseSpan) and fact.phase is Phase.QUEUED


class Gathering:
    """Everything told about one run, sorted."""

    def __init__(self, recall: Recall | None = None) -> None:
        self._recall = recall
        self._facts: list[Fact] = []
        self._held: dict[str, set[int]] = {}
        """Both only where nobody else can recall what was told."""
        self.clocks: dict[str, EmitterClock] = {}
        self.clock_errors = 0
        """Goes up when a clock turns out to be less sure than was known."""
        self.late = 0
        self.gatherings = 0
        """How often everything was gathered anew: records of two gatherings have nothing in common."""
        self.repeated = 0
        """Facts whose `(emitter, seq)` was held already."""
        self._must_regather = False
        self._clear()

    def _clear(self) -> None:
        self.records: dict[tuple[str | None, AttemptKey], AttemptRecord] = {}
        self.run_wide = RunWide()
        self.moments: dict[str, list[Moment]] = {}
        self.changed_checkpoints: set[str] = set()
        self._jobs: set[str] = set()
        self._job_first_at: dict[str | None, int] = {}
        self._took_jobless = False
        self._gave_keyless = False
        self._by_time: list[tuple[int, StatedKey, Fact]] = []
        self._assigned: list[AttemptRecord | None] = []
        self._assigned_starts: list[tuple[tuple[str | None, AttemptKey], int]] = []
        self._iterationless: set[Group] = set()
        self._by_launch: dict[Group, list[AttemptRecord]] = {}
        self._foundings = Foundings()
        self._own_beginnings: dict[tuple[str | None, AttemptKey], OwnBeginning] = {}
        self._ordered: list[AttemptRecord] | None = None
        self._numbered: tuple[list[AttemptRecord], dict[int, int]] | None = None
        self._waiting: list[AttemptRecord] = []
        """Attempts of which only queueing is known: they have not begun."""

    # --- taking facts ---

    def add(self, facts: Iterable[Fact]) -> None:
        """Take facts in any order; those held already change nothing but a count.

        Where they are recalled from a log, the log has each of them once.
        """
        if self._recall is not None:
            for fact in facts:
                if not self._must_regather:
                    self._take(fact)
            return
        for fact in facts:
            held = self._held.setdefault(fact.emitter, set())
            if fact.seq in held:
                self.repeated += 1
                continue
            held.add(fact.seq)
            self._facts.append(fact)
            if not self._must_regather:
                self._take(fact)

    def _take(self, fact: Fact) -> None:
        clock = self.clocks.get(fact.emitter)
        if isinstance(fact, Clock):
            if clock is None:
                clock = self.clocks[fact.emitter] = EmitterClock()
            if fact.error_us is not None:
                self.clock_errors += clock.admit(abs(fact.error_us) * 1000)
            if clock.state(fact.at, fact.offset_us * 1000) is not None:
                self._must_regather = True
                return
        at = self._corrected(fact, fact.at)
        if not isinstance(fact, PERSONS_SAY):
            hearing = self.run_wide.hearings.get(fact.emitter)
            if hearing is None:
                self.run_wide.hearings[fact.emitter] = Hearing(at, at)
            else:
                hearing.heard(at)
        if isinstance(fact, Evidence):
            self.run_wide.artefacts.count(fact)
        if isinstance(fact, ATTEMPT_FACTS):
            self._take_of_attempt(fact, at, stated_key(fact))
        else:
            self._take_of_run(fact, at)

    @overload
    def _corrected(self, fact: Fact, at: int) -> int: ...
    @overload
    def _corrected(self, fact: Fact, at: int | None) -> int | None: ...
    def _corrected(self, fact: Fact, at: int | None) -> int | None:
        """An instant a fact tells, on the server's clock."""
        if at is None:
            return None
        clock = self.clocks.get(fact.emitter)
        return at if clock is None else clock.corrected(at)

    def _take_of_run(self, fact: Fact, at: int) -> None:
        wide = self.run_wide
        if isinstance(fact, RunStarted):
            wide.started.append((at, fact.emitter, fact.seq, fact))
            if fact.gpus is not None:
                wide.gpus.append((at, fact.gpus))
                wide.version += 1
        elif isinstance(fact, RunEnded):
            wide.ended.append((at, fact.emitter, fact.seq, fact))
        elif isinstance(fact, SchedulerState):
            wide.scheduler.append((at, fact.emitter, fact.seq, fact))
            wide.version += 1
        elif isinstance(fact, Capacity):
            wide.gpus.append((at, fact.gpus))
            wide.version += 1
        elif isinstance(fact, (Excluded, ExclusionState)):
            wide.exclusions.take(fact)
            wide.version += 1
        elif isinstance(fact, ArtefactState):
            wide.artefacts.take(fact)
            wide.version += 1
        elif isinstance(fact, Blind):
            since, until = self._corrected(fact, fact.since), self._corrected(fact, fact.until)
            wide.blind.take(fact, at, since, until)
        elif isinstance(fact, NodeState):
            if fact.node:
                change = NodeChange(at, fact.state.value, fact.reason, self._corrected(fact, fact.until))
                wide.node_changes.append((fact.node, change))
            if fact.state is NodeCondition.LOST:
                self._later_by_time(at, stated_key(fact), fact)

    def _take_of_attempt(self, fact: Fact, at: int, key: StatedKey) -> None:
        job = self._job(key.job)
        spoke = self.run_wide.speaks_for_ranks
        self.run_wide.hear(fact)
        self.run_wide.version += spoke is not self.run_wide.speaks_for_ranks
        if isinstance(fact, Heartbeats):
            self.run_wide.beats.setdefault(fact.phase or "unknown", PhaseBeats()).add(fact)
        if isinstance(fact, FOUNDING_FACTS) and not _only_waits(fact):
            changes = self._foundings.note(job, key, self._effect_at(fact, at))
            self._must_regather = self._must_regather or changes
        if self._must_regather:
            return
        if key.is_empty:
            self._take_keyless(fact, at, key, job)
            return
        founds = key.founds
        group = (job, founds.requeue, founds.restart)
        if key.iteration is None:
            self._iterationless.add(group)
            if self._has_siblings(job, founds):
                self._later_by_time(at, key, fact)
                return
        record = self.records.get((job, founds))
        if (record is None or record.is_only_queued) and not isinstance(fact, FOUNDING_FACTS):
            self._later_by_time(at, key, fact)
            return
        if record is None or (record.is_only_queued and not _only_waits(fact)):
            record = self._found(job, founds, group, fact)
            if self._must_regather:
                return
        if isinstance(fact, FOUNDING_FACTS):
            # What proves no attempt may come before it is known, and is found its place later: it must move nothing.
            if not _only_waits(fact):
                self._job_began(job, self._effect_at(fact, at))
            self._own_beginnings.setdefault((job, founds), OwnBeginning()).take(fact, at, self._effect_at(fact, at))
        self._give(record, fact, at)

    def _take_keyless(self, fact: Fact, at: int, key: StatedKey, job: str | None) -> None:
        """Nothing tells the attempts of this run apart: it is the first one, until somebody tells of another."""
        if not self.records and isinstance(fact, FOUNDING_FACTS):
            self._found(job, AttemptKey(0, 0, 0), (job, 0, 0), fact)
        if len(self.records) != 1:
            self._later_by_time(at, key, fact)
            return
        self._gave_keyless = True
        (record,) = self.records.values()
        if isinstance(fact, FOUNDING_FACTS) and not _only_waits(fact):
            self._job_began(record.job, self._effect_at(fact, at))
        self._give(record, fact, at)

    def _job_began(self, job: str | None, at: int) -> None:
        if job not in self._job_first_at or at < self._job_first_at[job]:
            self._job_first_at[job] = at
            self._ordered = None

    def _job(self, job: str | None) -> str | None:
        """The job a fact belongs to; an unknown one is the only known one."""
        if job is None:
            self._took_jobless = True
            return next(iter(self._jobs)) if len(self._jobs) == 1 else None
        if job not in self._jobs:
            self._jobs.add(job)
            if self._took_jobless and len(self._jobs) <= 2 and self._facts_taken_jobless():
                self._must_regather = True
        return job

    def _facts_taken_jobless(self) -> bool:
        return bool(self.records) or bool(self._by_time)

    def _has_siblings(self, job: str | None, key: AttemptKey) -> bool:
        """Whether another iteration of the same launch has begun. One that only waits is told by itself alone."""
        launched = self._by_launch.get((job, key.requeue, key.restart), ())
        return any(record.key != key and not record.is_only_queued for record in launched)

    def _found(self, job: str | None, key: AttemptKey, group: Group, fact: Fact) -> AttemptRecord:
        """The record of an attempt that begins, or begins to wait, with a fact."""
        if not _only_waits(fact):
            has_begun = any(not record.is_only_queued for record in self.records.values())
            # A wait told without its iteration may stand in a record of its own: it is of the one that begins now.
            is_loose = group in self._iterationless and any(each.key != key for each in self._by_launch.get(group, ()))
            if is_loose or (has_begun and self._gave_keyless):
                self._must_regather = True
        record = self._record(job, key)
        self._ordered = None
        return record

    def _record(self, job: str | None, key: AttemptKey) -> AttemptRecord:
        """The record of an attempt, made where there is none."""
        record = self.records.get((job, key))
        if record is None:
            record = self.records[job, key] = AttemptRecord(job, key)
            self._by_launch.setdefault((job, key.requeue, key.restart), []).append(record)
        return record

    @property
    def unplaced(self) -> Sequence[tuple[int, StatedKey, Fact]]:
        """Facts of attempts that nothing names, or that nobody told the beginning of yet, with their instants."""
        return self._by_time

    def _later_by_time(self, at: int, key: StatedKey, fact: Fact) -> None:
        self._by_time.append((at, key, fact))
        self._assigned.append(None)

    def _give(self, record: AttemptRecord, fact: Fact, at: int) -> None:
        """Put a fact into the record of its attempt."""
        if record.sealed_until is not None and record.is_late(self._effect_at(fact, at)):
            self._must_regather = True
            return
        if isinstance(fact, Steps):
            start = self._corrected(fact, fact.start)
            ends = stated_ends(start, fact.durations_us, fact.count)
            stated = StatedSteps(start, fact.first_step, ends, (fact.emitter, fact.seq))
            if not record.add_steps(fact.emitter, fact.rank, stated, fact.every):
                self.late += 1
        elif isinstance(fact, PhaseSpan):
            record.add_phase(fact, self._corrected(fact, fact.start), self._corrected(fact, fact.end))
        elif isinstance(fact, CheckpointMoment):
            name = fact.checkpoint or f"step {fact.step}"
            self.moments.setdefault(name, []).append(Moment(at, record, fact))
            self.changed_checkpoints.add(name)
            record.touch(at)
        elif isinstance(fact, CheckpointLoaded):
            start, end = self._corrected(fact, fact.start), self._corrected(fact, fact.end)
            is_ok = fact.outcome is None or fact.outcome.lower() in ("ok", "success", "completed")
            record.add_load(Load(end, start, fact.step, is_ok))
        elif isinstance(fact, RecoveryMark):
            record.add_mark(fact.stage, at, fact.by)
        elif isinstance(fact, AttemptStarted):
            record.add_started(at, fact)
            if fact.gpus is not None:
                self.run_wide.gpus.append((at, fact.gpus))
                self.run_wide.version += 1
        elif isinstance(fact, AttemptEnded):
            record.add_ended(at, fact)
        elif isinstance(fact, Exit):
            record.add_exit(at, fact)
        elif isinstance(fact, Heartbeats):
            record.add_heartbeats(self._corrected(fact, fact.start), self._corrected(fact, fact.end), fact)
        elif isinstance(fact, Evidence):
            record.add_evidence(at, fact)
        elif isinstance(fact, NodeState):
            record.add_node_lost(at, fact.node or "")

    def _effect_at(self, fact: Fact, at: int) -> int:
        """The earliest instant of the timeline a fact can change."""
        if isinstance(fact, (Evidence, Heartbeats)):
            return 1 << 62
        if isinstance(fact, (Steps, PhaseSpan, CheckpointLoaded)) and fact.start is not None:
            return self._corrected(fact, fact.start)
        if isinstance(fact, PhaseSpan) and fact.end is not None:
            return self._corrected(fact, fact.end)
        return at

    # --- what follows ---

    def regather(self) -> None:
        """Ask for everything to be gathered anew by the next `settle`."""
        self._must_regather = True

    def settle(self) -> list[AttemptRecord]:
        """The attempts in order, every fact given to the one it belongs to."""
        ordered = self._settled_order()
        while self._must_regather:
            ordered = self._settled_order()
        return ordered

    def _settled_order(self) -> list[AttemptRecord]:
        if self._must_regather:
            self._regather()
        ordered = self._in_order()
        if not ordered:
            return []
        starts = [((record.job, record.key), self._own_start(record)) for record in ordered]
        if starts == self._assigned_starts and (not self._assigned or self._assigned[-1] is not None):
            return ordered
        owners = [self._owner(at, key, ordered) for at, key, _ in self._by_time]
        moved = any(
            before is not None and before is not after for before, after in zip(self._assigned, owners, strict=True)
        )
        if moved:
            self._regather()
            ordered = self._in_order()
            owners = [self._owner(at, key, ordered) for at, key, _ in self._by_time]
        for index, (at, _, fact) in enumerate(self._by_time):
            if self._assigned[index] is None:
                self._assigned[index] = owners[index]
                self._give(owners[index], fact, at)
        self._assigned_starts = [((record.job, record.key), self._own_start(record)) for record in ordered]
        return ordered

    def _own_start(self, record: AttemptRecord) -> int:
        """Where an attempt begins by the facts that name it: those found by their instant must not move it."""
        own = self._own_beginnings.get((record.job, record.key))
        return record.started_at if own is None or own.at is None else own.at

    def _regather(self) -> None:
        self.late += 1
        self.gatherings += 1
        self._clear()
        self.clocks = {}
        facts = self._facts if self._recall is None else list(self._recall())
        for fact in facts:
            if isinstance(fact, Clock):
                self.clocks.setdefault(fact.emitter, EmitterClock()).state(fact.at, fact.offset_us * 1000)
        self._jobs = {fact.job for fact in facts if fact.job is not None and isinstance(fact, ATTEMPT_FACTS)}
        self._must_regather = False
        self._found_all(facts)
        for fact in facts:
            self._take(fact)
        self._must_regather = False

    def _found_all(self, facts: Sequence[Fact]) -> None:
        """Every attempt the facts prove, before any of them is given to one."""
        for fact in facts:
            if not isinstance(fact, FOUNDING_FACTS):
                continue
            key, job = stated_key(fact), self._job(fact.job)
            if not _only_waits(fact):
                self._foundings.note(job, key, self._effect_at(fact, self._corrected(fact, fact.at)))
            elif key.iteration is not None:
                self._record(job, key.founds)
        for (job, known), at in self._foundings.proven().items():
            self._record(job, known).touch(at)
            self._own_beginnings.setdefault((job, known), OwnBeginning()).prove(at)
            self._job_began(job, at)

    def _in_order(self) -> list[AttemptRecord]:
        if self._ordered is None or self._waiting:
            self._waiting = [record for record in self.records.values() if record.is_only_queued]
            self._ordered = sorted(
                (record for record in self.records.values() if not record.is_only_queued),
                key=lambda record: (self._job_first_at.get(record.job, 0), record.job or "", record.key),
            )
        return self._ordered

    def _owner(self, at: int, key: StatedKey, ordered: Sequence[AttemptRecord]) -> AttemptRecord:
        """The attempt that a key names, or else the one that was alive at an instant, of those the key allows."""
        named = self._named(key)
        if named is not None:
            return named
        allowed = [
            record
            for record in ordered
            if (key.requeue is None or record.key.requeue == key.requeue)
            and (key.restart is None or record.key.restart == key.restart)
            and (key.iteration is None or record.key.iteration == key.iteration)
            and (key.job is None or record.job is None or record.job == key.job)
        ] or list(ordered)
        starts = [self._own_start(record) for record in allowed]
        for index in range(1, len(starts)):
            starts[index] = max(starts[index], starts[index - 1])
        return allowed[max(0, bisect_left(starts, at) - 1)]

    def _named(self, key: StatedKey) -> AttemptRecord | None:
        """The attempt that a key names without any doubt, where it has begun."""
        if key.is_empty:
            return None
        job = key.job
        if job is None and len(self._jobs) == 1:
            job = next(iter(self._jobs))
        founds = key.founds
        record = self.records.get((job, founds))
        if record is None or record.is_only_queued:
            return None
        return None if key.iteration is None and self._has_siblings(job, founds) else record

    def checkpoints(self, name: str) -> list[CheckpointRecord]:
        """The checkpoints that go by one name, one per attempt that saved under it.

        A stage told by an attempt that never began such a save (a deletion, mostly) belongs to the latest one before.
        """
        by_attempt: dict[int, list[Moment]] = {}
        numbers = self._numbers_in(self._in_order())
        for moment in self.moments[name]:
            by_attempt.setdefault(numbers[id(moment.record)], []).append(moment)
        beginnings = (CheckpointStage.STARTED, CheckpointStage.CAPTURED)
        savers = sorted(
            number for number, told in by_attempt.items() if any(moment.fact.stage in beginnings for moment in told)
        ) or [min(by_attempt)]
        records = {number: CheckpointRecord(name, number) for number in savers}
        for number, told in sorted(by_attempt.items()):
            owner = records[savers[max(0, bisect_left(savers, number + 1) - 1)]]
            for moment in told:
                owner.add(moment.fact, moment.at)
        return [records[number] for number in savers]

    def _numbers_in(self, ordered: list[AttemptRecord]) -> dict[int, int]:
        """Number of each record, by its `id`; made once per order, which is a new list whenever it changes."""
        if self._numbered is None or self._numbered[0] is not ordered:
            self._numbered = ordered, {id(record): number for number, record in enumerate(ordered)}
        return self._numbered[1]

    def queue_intervals(self) -> list[tuple[int, int | None]]:
        """When the run waited with no attempt begun, or the scheduler said so; None for an end that was not told."""
        intervals: list[tuple[int, int | None]] = []
        since: int | None = None
        for at, _, _, fact in sorted(self.run_wide.scheduler, key=lambda entry: entry[:3]):
            waits = fact.state.lower() in QUEUED_STATES
            if waits and since is None:
                since = at
            elif not waits and since is not None:
                intervals.append((since, at))
                since = None
        if since is not None:
            intervals.append((since, None))
        for record in self._waiting:
            intervals.extend((phase.start, phase.end) for phase in record.phases if phase.start is not None)
        return sorted(intervals, key=lambda interval: (interval[0], interval[1] or 0))
