"""The facts of one synthetic run, in the order in which they would have been told.

Rules
- Every number is drawn from the plan's own seed; nothing here knows what time it is.
- What a fault cuts off is not told: the step at hand, a save that was being written.
- A fault that falls into a bring-up makes a relaunch that failed.
- A lost node is replaced, or the run goes on with fewer GPUs and slower steps until a later restart finds a spare.
"""

from __future__ import annotations

from random import Random

from rerail.collectors.synth.faults import Culprit, FaultKind, draw
from rerail.collectors.synth.plans import GPUS_PER_NODE, SECOND, Ending, RunPlan
from rerail.server.core.codec import canonical
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Capacity,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Evidence,
    Exit,
    Fact,
    Heartbeats,
    Initiator,
    MarkStage,
    NodeCondition,
    NodeState,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    SchedulerState,
    Scope,
    Steps,
)

BEAT_SECONDS = 10
MOST_STEPS_PER_FACT = 2000
MOST_DURATIONS = 64
"""More steps than that in one fact are told as a count with one duration, as loggers that print every so often do."""

SHRINKS = 0.25
"""Share of lost nodes that no spare replaces at once."""


def facts_of(plan: RunPlan) -> list[Fact]:
    """Everything that is told of a run, by the instant it was told at."""
    history = _History(plan)
    history.live()
    history.facts.sort(key=lambda fact: fact.at)
    return history.facts


class _History:
    """One run while it is made up."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.facts: list[Fact] = []
        self._random = Random(plan.seed)
        self._seqs: dict[str, int] = {}
        self._now = plan.begin
        self._requeue = self._restart = 0
        self._attempt = -1
        self._step = 1
        self._durable: tuple[int, str] | None = None
        self._last_save = self._last_evaluation = plan.begin
        self._writing_until = 0
        self._gpus = plan.ranks
        width = len(str(max(1, (plan.ranks - 1) // GPUS_PER_NODE)))
        node_count = -(-plan.ranks // GPUS_PER_NODE)
        self._nodes = [f"gpu-{number:0{width}d}" for number in range(node_count)]
        self._spare = node_count
        span = plan.end - plan.begin
        self._due = sorted(plan.begin + round(span * self._random.uniform(0.01, 1)) for _ in range(plan.faults))

    # --- telling ---------------------------------------------------------------------------------------------------

    def _tell(self, kind: type[Fact], emitter: str, at: int | None = None, **fields: object) -> None:
        at = self._now if at is None else at
        if at > self.plan.end:
            return  # It lies behind the end of the story.
        seq = self._seqs[emitter] = self._seqs.get(emitter, -1) + 1
        self.facts.append(kind(run=self.plan.run, emitter=emitter, seq=seq, at=at, **fields))  # type: ignore[arg-type]

    def _here(self) -> dict[str, object]:
        return {"job": f"{self.plan.run}-job", "requeue": self._requeue, "restart": self._restart, "iteration": 0}

    def _rank_zero(self) -> dict[str, object]:
        return {**self._here(), "rank": 0, "node": self._nodes[0]}

    @property
    def _worker(self) -> str:
        return f"rank/{self._nodes[0]}/0/{self._attempt}"

    def _pass(self, least: float, most: float) -> int:
        """Time goes by, in seconds; the instant before."""
        before = self._now
        self._now += round(self._random.uniform(least, most) * SECOND)
        return before

    def _phase(self, phase: Phase, least: float, most: float, until: int) -> bool:
        """A phase of rank 0, told when it is over; False where a fault came first."""
        start = self._pass(least, most)
        if self._now > until:
            self._now = max(until, start)
            return False
        self._tell(PhaseSpan, self._worker, **self._rank_zero(), phase=phase, start=start, end=self._now)
        return True

    # --- the story -------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """From the queue to the end of the plan."""
        plan = self.plan
        self._tell(
            RunStarted, "launcher", name=plan.name, project=plan.project,
            labels=(("model", plan.model), ("team", plan.project)), world_size=plan.ranks, gpus=plan.ranks,
            nodes=len(self._nodes), framework="pytorch", gpu_type="H100",
        )  # fmt: skip
        self._queue(10, 900, "Resources")
        initiator, scope = None, None
        for due in self._due:
            if self._now >= plan.end:
                return
            self._one_life(max(due, self._now + SECOND), initiator, scope)
            if self._now >= plan.end:
                return
            kind = draw(self._random)
            self._interrupt(kind)
            scope = kind.scope
            initiator = Initiator.OPERATOR if kind.is_planned else Initiator.FAULT
            if kind.scheduler_state is not None:
                initiator = Initiator.SCHEDULER
        if self._now < plan.end:
            self._one_life(plan.end, initiator, scope)
            self._end()

    def _queue(self, least: float, most: float, reason: str) -> None:
        self._tell(SchedulerState, "slurm", state="queued", reason=reason)
        self._pass(least, most)
        self._tell(SchedulerState, "slurm", state="running")

    def _one_life(self, until: int, initiator: Initiator | None, scope: Scope | None) -> None:
        """One attempt, up to an instant at which it is cut off."""
        self._attempt += 1
        began = self._now
        self._tell(
            AttemptStarted, "launcher", **self._here(), scope=scope, initiator=initiator, world_size=self._gpus,
            gpus=self._gpus, nodes=tuple(self._nodes), launcher="ft_launcher",
            versions=(("nccl", "2.27.3"), ("torch", "2.9.1")),
            config=canonical({"heartbeat_timeout_seconds": 600, "save_seconds": self.plan.save_every_ns // SECOND}),
        )  # fmt: skip
        if self._bring_up(until):
            training_from = self._now
            self._train(until)
            self._beats("initializing", began, training_from)
            self._beats("training", training_from, self._now)
        else:
            self._beats("initializing", began, self._now)

    def _bring_up(self, until: int) -> bool:
        """Rendezvous, start of the processes and loading; False where it was cut off."""
        size = 1 + len(self._nodes) / 400
        if not (
            self._phase(Phase.RENDEZVOUS, 4 * size, 20 * size, until)
            and self._phase(Phase.INITIALIZING, 25 * size, 60 * size, until)
        ):
            return False
        if self._durable is None:
            self._step = 1
            return True
        step, name = self._durable
        start = self._pass(10 * size, 30 * size)
        if self._now > until:
            self._now = max(until, start)
            return False
        self._tell(
            CheckpointLoaded, self._worker, **self._rank_zero(), step=step, start=start, end=self._now, checkpoint=name,
            tier="remote", outcome="ok",
        )  # fmt: skip
        self._step = step + 1
        return True

    def _train(self, until: int) -> None:
        plan, random = self.plan, self._random
        pace = plan.step_ns * plan.ranks / self._gpus
        most = max(1, min(MOST_STEPS_PER_FACT, round(plan.block_ns / pace)))
        while self._now < until:
            slow = 1.04 if self._now < self._writing_until else 1.0
            kept = self._block(most, pace * slow, until)
            if kept < most:
                self._now = until
                return
            if self._now - self._last_save >= plan.save_every_ns and not self._save(until):
                return
            if self._now - self._last_evaluation >= plan.evaluate_every_ns:
                self._last_evaluation = self._now
                if not self._phase(Phase.EVALUATING, 40, 200, until):
                    return
            if random.random() < 0.004 and not self._phase(Phase.DATA_WAIT, 5, 90, until):
                return

    def _block(self, most: int, pace: float, until: int) -> int:
        """Steps of about `pace` ns told as one fact: each with its duration, or, where they are many, together."""
        random, start = self._random, self._now
        if most > MOST_DURATIONS:
            mean_us = round(pace * random.gauss(1, 0.012 / most**0.5) / 1000)
            kept = min(most, (until - start) // (mean_us * 1000))
            told = {"durations_us": (mean_us * kept,), "count": kept}
            self._now += mean_us * kept * 1000
        else:
            durations = [round(pace * random.gauss(1, 0.012) / 1000) for _ in range(most)]
            if random.random() < 0.0007:
                durations[random.randrange(most)] += random.randrange(40, 400) * 1_000_000  # one rank is late, once
            kept = 0
            for length in durations:
                if self._now + length * 1000 > until:
                    break
                self._now += length * 1000
                kept += 1
            told = {"durations_us": tuple(durations[:kept])}
        if kept:
            self._tell(Steps, self._worker, **self._rank_zero(), first_step=self._step, start=start, **told)
            self._step += kept
        return kept

    def _save(self, until: int) -> bool:
        """An asynchronous save: training stands still for the capture, the write goes on beside it."""
        random, step = self._random, self._step - 1
        name = f"step-{step}-{self._attempt}"
        self._last_save = self._now
        save = {**self._rank_zero(), "step": step, "checkpoint": name, "mode": "async", "tier": "remote"}
        self._tell(CheckpointMoment, self._worker, **save, stage=CheckpointStage.STARTED)
        if not self._phase(Phase.SAVING, 2, 9, until):
            return False
        self._tell(CheckpointMoment, self._worker, **save, stage=CheckpointStage.CAPTURED)
        done = self._writing_until = self._now + round(random.uniform(40, 260) * SECOND)
        if done > until:
            return True  # The write is cut off, and nobody is left to say so.
        if random.random() < 0.01:
            self._tell(CheckpointMoment, self._worker, done, **save, stage=CheckpointStage.FAILED)
        else:
            self._tell(
                CheckpointMoment, self._worker, done, **save, stage=CheckpointStage.DURABLE,
                bytes=self.plan.ranks * 6_000_000_000 // 8,
            )  # fmt: skip
            self._durable = (step, name)
        return True

    def _beats(self, phase: str, start: int, end: int) -> None:
        """Heartbeats of all ranks: one window per rack, told by an agent there, with a number of each of its ranks."""
        plan, random = self.plan, self._random
        rank_count = self._gpus
        while end - start > SECOND:
            until = min(start + plan.beat_window_ns, end)
            for first in range(0, rank_count, plan.ranks_per_beat):
                ranks = min(plan.ranks_per_beat, rank_count - first)
                beats = max(1, (until - start) // (BEAT_SECONDS * SECOND))
                longest = round(1e6 * BEAT_SECONDS * (1 + random.expovariate(1.5)))
                # Gaps are told in tenths of a second: finer is noise, and costs a third more on disk.
                gaps = [round(longest * (1 - 0.3 * random.random()) / 1e5) * 100_000 for _ in range(ranks)]
                gaps[random.randrange(ranks)] = longest
                self._tell(
                    Heartbeats, f"agent/rack-{first // plan.ranks_per_beat}", until, **self._here(),
                    start=start, end=until, count=ranks * beats, max_gap_us=max(gaps), phase=phase,
                    armed_timeout_us=600_000_000, first_rank=first, rank_counts=(beats,) * ranks,
                    rank_max_gaps_us=tuple(gaps),
                )  # fmt: skip
            start = until

    # --- what goes wrong -------------------------------------------------------------------------------------------

    def _interrupt(self, kind: FaultKind) -> None:
        """A fault now: its evidence, its notice, the teardown, and what has to come back before the next attempt."""
        random, fault_at = self._random, self._now
        place = random.randrange(self._gpus)
        node = self._nodes[min(place // GPUS_PER_NODE, len(self._nodes) - 1)]
        culprit = Culprit(place, place % GPUS_PER_NODE, node)
        where = {"rank": culprit.rank, "local_rank": culprit.local_rank, "node": culprit.node}
        for printed in kind.prints(culprit, random):
            who = where
            if printed.is_neighbour:
                other = (place + random.randrange(1, max(2, self._gpus))) % self._gpus
                who = {"rank": other, "node": self._nodes[min(other // GPUS_PER_NODE, len(self._nodes) - 1)]}
            at = fault_at + round(printed.after_seconds * SECOND)
            told = {**self._here(), **who, "source": printed.source, "text": printed.text}
            self._tell(Evidence, f"logs/{who['node']}", at, **told)
        if kind.loses_node:
            self._tell(NodeState, "kubernetes", node=node, state=NodeCondition.LOST, reason="NodeNotReady")
        if kind.scheduler_state is not None:
            self._tell(SchedulerState, "slurm", state=kind.scheduler_state, reason="Preempted by a higher priority")
        self._pass(*kind.detection_seconds)
        here = self._here()
        if not kind.is_planned:
            self._tell(RecoveryMark, "launcher", **here, stage=MarkStage.NOTICED, by=kind.noticed_by)
        if kind.exit_code is not None:
            self._tell(Exit, f"agent/{node}", **here, **where, exit_code=kind.exit_code)
        stopping = self._pass(3, 40)
        self._tell(RecoveryMark, "launcher", **here, stage=MarkStage.WORKERS_GONE)
        outcome = Outcome.STOPPED if kind.is_planned else Outcome.FAILED
        if kind.is_planned:
            self._tell(PhaseSpan, "launcher", **here, phase=Phase.STOPPING, start=stopping, end=self._now)
        codes = () if kind.exit_code is None else ((culprit.rank, kind.exit_code),)
        self._tell(
            AttemptEnded, "launcher", **here, outcome=outcome, exit_codes=codes,
            reason="stopped by an operator" if kind.is_planned else None,
        )  # fmt: skip
        if kind.loses_node:
            self._replace(node)
        if kind.scope is Scope.REQUEUE:
            self._queue(20, 1500 if kind.scheduler_state else 400, "Resources")
            self._requeue, self._restart = self._requeue + 1, 0
        else:
            self._pass(1, 15)
            self._restart += 1
        self._find_spares()

    def _replace(self, node: str) -> None:
        """A spare takes the lost node's place, or nothing does."""
        if len(self._nodes) > 1 and self._random.random() < SHRINKS:
            self._nodes.remove(node)
            self._hold(self._gpus - GPUS_PER_NODE)
        else:
            self._nodes[self._nodes.index(node)] = self._new_node()

    def _find_spares(self) -> None:
        """The run grows back to its full size, now and then."""
        missing = -(-self.plan.ranks // GPUS_PER_NODE) - len(self._nodes)
        if missing and self._random.random() < 0.4:
            self._nodes += [self._new_node() for _ in range(missing)]
            self._hold(self.plan.ranks)

    def _new_node(self) -> str:
        self._spare += 1
        return f"gpu-{self._spare - 1}"

    def _hold(self, gpus: int) -> None:
        self._gpus = max(1, gpus)
        self._tell(Capacity, "slurm", gpus=self._gpus)

    def _end(self) -> None:
        """What is told of the end, if it is told."""
        outcomes = {
            Ending.COMPLETED: Outcome.COMPLETED,
            Ending.FAILED: Outcome.FAILED,
            Ending.STOPPED: Outcome.STOPPED,
        }
        outcome = outcomes.get(self.plan.ending)
        if outcome is None:
            return
        self._now = self.plan.end
        self._tell(AttemptEnded, "launcher", **self._here(), outcome=outcome)
        self._tell(RunEnded, "launcher", outcome=outcome)
