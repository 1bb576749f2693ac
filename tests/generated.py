"""Generated histories: runs as many emitters would tell them, with what goes wrong on the way of facts.

Several ranks, an agent, a launcher and a scheduler; jobs, requeues, launcher restarts and in-process iterations one
inside the other; worlds that shrink and grow; clocks that are off, with or without saying so; facts that never arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Blind,
    Capacity,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Clock,
    Excluded,
    ExclusionState,
    Exit,
    Fact,
    Heartbeats,
    Initiator,
    MarkStage,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    SchedulerState,
    Steps,
    WindowState,
)
from tests.story import BEGINNING, SECOND

lengths = st.integers(0, 900).map(lambda tenths: tenths * SECOND // 10)
EDGES = ("start", "end", "since", "until")


@dataclass
class Telling:
    """A run while it is told. `at` is the true time; every emitter numbers its own facts."""

    run: str
    ranks: int
    at: int = BEGINNING
    facts: list[Fact] = field(default_factory=list)
    counts: dict[str, object] = field(default_factory=dict)
    step: int = 0
    durable: int = 0
    high_water: int = 0
    _told: dict[str, int] = field(default_factory=dict)

    def say(self, kind: type[Fact], emitter: str, at: int | None = None, **fields: object) -> None:
        """One fact of the attempt at hand."""
        seq = self._told[emitter] = self._told.get(emitter, -1) + 1
        when = self.at if at is None else at
        self.facts.append(kind(run=self.run, emitter=emitter, seq=seq, at=when, **self.counts, **fields))  # type: ignore[arg-type]

    def by_ranks(self, kind: type[Fact], **fields: object) -> None:
        """The same fact by every rank."""
        for rank in range(self.ranks):
            self.say(kind, f"rank/{rank}", rank=rank, **fields)

    def take(self, length: int) -> int:
        """Time passes; when it began."""
        began, self.at = self.at, self.at + length
        return began


@dataclass(frozen=True)
class Generated:
    """A run's facts in the order they were made, and an instant to look at it."""

    facts: tuple[Fact, ...]
    as_of: int


@st.composite
def runs(draw: st.DrawFn, run: str = "made", most_attempts: int = 7, with_trouble: bool = True) -> Generated:
    """A run; with trouble, facts are lost and clocks are off without saying so."""
    telling = Telling(run, ranks=draw(st.integers(1, 3)))
    telling.say(RunStarted, "launcher", gpus=draw(st.sampled_from([None, 8])), world_size=telling.ranks)
    job = requeue = restart = iteration = 0
    for number in range(draw(st.integers(1, most_attempts))):
        if number:
            scope = draw(st.sampled_from(["iteration", "iteration", "restart", "restart", "requeue", "job"]))
            if scope == "iteration":
                iteration += 1
            elif scope == "restart":
                restart, iteration = restart + 1, 0
            elif scope == "requeue":
                requeue, restart, iteration = requeue + 1, 0, 0
            else:
                job, requeue, restart, iteration = job + 1, 0, 0, 0
            if scope in ("requeue", "job"):
                telling.counts = {}
                telling.say(SchedulerState, "slurm", state=draw(st.sampled_from(["queued", "backoff", "preempted"])))
                telling.take(draw(lengths))
                telling.say(SchedulerState, "slurm", state="running")
        telling.counts = {"job": f"j{job}", "requeue": requeue, "restart": restart, "iteration": iteration}
        if not _attempt(draw, telling, is_first=not number):
            break
    else:
        if draw(st.booleans()):
            telling.say(RunEnded, "launcher", outcome=draw(st.sampled_from(Outcome)))
    _people(draw, telling)
    facts = telling.facts
    if with_trouble:
        facts = _lost(draw, facts)
    facts = _with_clocks(draw, telling, facts, with_trouble)
    return Generated(tuple(facts), telling.at + draw(lengths))


def _attempt(draw: st.DrawFn, telling: Telling, is_first: bool) -> bool:
    """One life of the worker group; False where the run goes on and nothing more is told."""
    initiator = None if is_first else draw(st.sampled_from([None, Initiator.FAULT, Initiator.OPERATOR]))
    gpus = draw(st.sampled_from([None, 4, 8, 8]))
    telling.say(AttemptStarted, "launcher", initiator=initiator, gpus=gpus, world_size=telling.ranks)
    telling.say(RecoveryMark, "launcher", stage=MarkStage.RENDEZVOUS_STARTED)
    telling.take(draw(lengths))
    if draw(st.integers(0, 5)) == 0:
        return _end(draw, telling)
    telling.say(RecoveryMark, "launcher", stage=MarkStage.RENDEZVOUS_COMPLETED)
    began = telling.take(draw(lengths))
    telling.by_ranks(PhaseSpan, phase=Phase.INITIALIZING, start=began, end=telling.at)
    if not is_first and draw(st.booleans()):
        began = telling.take(draw(lengths))
        telling.by_ranks(CheckpointLoaded, step=telling.durable, start=began, end=telling.at, outcome="ok")
    telling.step = telling.durable
    for _ in range(draw(st.integers(0, 5))):
        _work(draw, telling)
    if draw(st.integers(0, 9)) == 0:
        return False
    return _end(draw, telling)


def _work(draw: st.DrawFn, telling: Telling) -> None:
    """Something an attempt does."""
    does = draw(
        st.sampled_from(["steps", "steps", "steps", "save", "write", "wait", "evaluate", "beat", "resize", "stall"])
    )
    if does in ("steps", "stall"):
        count = 1 if does == "stall" else draw(st.integers(1, 40))
        each = 150_000_000 if does == "stall" else draw(st.sampled_from([250_000, 1_000_000, 3_700_001]))
        began = telling.take(count * each * 1000)
        for rank in range(telling.ranks):
            start = began + draw(st.integers(0, 2000)) * 1000
            telling.say(
                Steps, f"rank/{rank}", rank=rank, first_step=telling.step + 1, start=start, durations_us=(each,) * count
            )
        telling.step += count
        telling.high_water = max(telling.high_water, telling.step)
    elif does in ("save", "write"):
        name = {"step": telling.step, "checkpoint": f"c{telling.step}"}
        telling.say(CheckpointMoment, "rank/0", rank=0, stage=CheckpointStage.STARTED, **name)
        began = telling.take(draw(lengths))
        telling.by_ranks(PhaseSpan, phase=Phase.SAVING, start=began, end=telling.at)
        stage = draw(st.sampled_from([CheckpointStage.DURABLE, CheckpointStage.DURABLE, CheckpointStage.FAILED]))
        later = draw(lengths) if does == "write" else 0
        telling.say(CheckpointMoment, "rank/0", at=telling.at + later, rank=0, stage=stage, **name)
        if stage is CheckpointStage.DURABLE:
            telling.durable = telling.step
    elif does == "evaluate":
        phase = draw(st.sampled_from([Phase.EVALUATING, Phase.DATA_WAIT, Phase.OVERHEAD]))
        span = f"s{len(telling.facts)}"
        began = telling.take(draw(lengths))
        telling.say(PhaseSpan, "rank/0", at=began, rank=0, phase=phase, start=began, span=span)
        telling.say(PhaseSpan, "rank/0", rank=0, phase=phase, end=telling.at, span=span)
    elif does == "beat":
        began = telling.take(draw(lengths))
        beats = {"start": began, "end": telling.at, "count": 5, "max_gap_us": 1000, "phase": "training"}
        telling.by_ranks(Heartbeats, **beats)
    elif does == "resize":
        telling.say(Capacity, "slurm", gpus=draw(st.sampled_from([4, 6, 8])))
    else:
        telling.take(draw(lengths))


def _end(draw: st.DrawFn, telling: Telling) -> bool:
    """An attempt is over: a fault, noticed or not, or a plan."""
    telling.take(draw(lengths))
    how = draw(st.sampled_from(["fault", "fault", "exit", "unnoticed", "stop"]))
    if how == "fault":
        telling.say(RecoveryMark, "launcher", stage=MarkStage.NOTICED, by="monitor")
    if how in ("fault", "exit"):
        telling.say(Exit, "agent", rank=0, node="n0", exit_code=draw(st.sampled_from([1, -9])))
    began = telling.take(draw(lengths))
    if how == "stop":
        telling.say(PhaseSpan, "launcher", phase=Phase.STOPPING, start=began, end=telling.at)
    if how != "unnoticed":
        outcome = Outcome.STOPPED if how == "stop" else Outcome.FAILED
        telling.say(RecoveryMark, "launcher", stage=MarkStage.WORKERS_GONE)
        telling.say(AttemptEnded, "launcher", outcome=outcome)
    return True


def _people(draw: st.DrawFn, telling: Telling) -> None:
    """Windows out of account, some undone, and blind sources."""
    telling.counts = {}
    instants = st.integers(BEGINNING - 60 * SECOND, telling.at + 60 * SECOND)
    for number in range(draw(st.sampled_from([0, 0, 1, 2]))):
        start, end = sorted((draw(instants), draw(instants)))
        telling.say(Excluded, "people", start=start, end=end + 1)
        if draw(st.booleans()):
            window = f"people~{telling.facts[-1].seq}"
            telling.say(ExclusionState, "people", window=window, state=WindowState.WITHDRAWN, at=telling.at + number)
    if draw(st.booleans()):
        since, until = sorted((draw(instants), draw(instants)))
        telling.say(Blind, "agent", source="ring", since=since, until=until)


def _lost(draw: st.DrawFn, facts: list[Fact]) -> list[Fact]:
    """Some facts never arrive."""
    lost = draw(st.sets(st.integers(0, len(facts) - 1), max_size=max(1, len(facts) // 8)))
    return [fact for index, fact in enumerate(facts) if index not in lost] or facts


def _with_clocks(draw: st.DrawFn, telling: Telling, facts: list[Fact], may_keep_quiet: bool) -> list[Fact]:
    """Every emitter by a clock of its own; some say how far it is off."""
    told: list[Fact] = []
    emitters = sorted({fact.emitter for fact in facts} - {"people"})
    off = {emitter: draw(st.sampled_from([0, 0, 0, 1, -30, 240])) * SECOND for emitter in emitters}
    for fact in facts:
        offset = off.get(fact.emitter, 0)
        moved = {name: told_at + offset for name in EDGES if (told_at := getattr(fact, name, None)) is not None}
        told.append(replace(fact, at=fact.at + offset, **moved) if offset else fact)
    for emitter, offset in off.items():
        if offset and not (may_keep_quiet and draw(st.booleans())):
            told.append(
                Clock(run=telling.run, emitter=emitter, seq=10_000, at=telling.at + offset, offset_us=offset // 1000)
            )
    return told


def thousands(attempts: int, ranks: int = 1) -> Generated:
    """A run that dies and comes back thousands of times, as a launcher and its ranks tell it."""
    telling = Telling("made", ranks)
    telling.say(RunStarted, "launcher", gpus=8)
    for number in range(attempts):
        telling.counts = {"job": "j", "requeue": number // 1000, "restart": number // 10, "iteration": number % 10}
        initiator = Initiator.FAULT if number else None
        telling.say(AttemptStarted, "launcher", initiator=initiator)
        began = telling.take(2 * SECOND)
        telling.by_ranks(PhaseSpan, phase=Phase.INITIALIZING, start=began, end=telling.at)
        began = telling.take(SECOND)
        telling.by_ranks(CheckpointLoaded, step=telling.durable, start=began, end=telling.at)
        began = telling.take(20 * SECOND)
        telling.by_ranks(Steps, first_step=telling.durable + 1, start=began, durations_us=(1_000_000,) * 20)
        name = {"step": telling.durable + 10, "checkpoint": f"c{number}"}
        telling.say(CheckpointMoment, "rank/0", rank=0, at=began + 10 * SECOND, stage=CheckpointStage.STARTED, **name)
        telling.say(CheckpointMoment, "rank/0", rank=0, at=began + 12 * SECOND, stage=CheckpointStage.DURABLE, **name)
        telling.durable += 10
        telling.take(SECOND)
        telling.say(RecoveryMark, "launcher", stage=MarkStage.NOTICED, by="exception")
        telling.take(SECOND)
        telling.say(AttemptEnded, "launcher", outcome=Outcome.FAILED)
    telling.counts = {}
    telling.say(RunEnded, "launcher", outcome=Outcome.FAILED)
    return Generated(tuple(telling.facts), telling.at)
