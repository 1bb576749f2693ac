"""A story of a training run, told in the order it happened, as the facts that its emitters would state.

Story().start().bring_up(20).steps(1, 100).save(100, blocked=5).steps(101, 140).die(after=60).stop(2)
"""

from __future__ import annotations

from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Excluded,
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
    Scope,
    Steps,
)
from rerail.server.core.fold import RunFold
from rerail.server.core.view import RunView

BEGINNING = 1_760_000_000_000_000_000
SECOND = 1_000_000_000


class Story:
    """Builds facts; every call moves the clock on. Times in seconds."""

    def __init__(self, run: str = "story", gpus: int | None = 8, step: float = 1.0) -> None:
        self.run = run
        self.gpus = gpus
        self.step_seconds = step
        self.at = BEGINNING
        self.attempt = -1
        self.facts: list[Fact] = []
        self._seq: dict[str, int] = {}
        self._say(RunStarted, "launcher", world_size=8, gpus=gpus)

    # --- saying things ---

    def _say(self, kind: type[Fact], emitter: str, **fields: object) -> None:
        seq = self._seq[emitter] = self._seq.get(emitter, -1) + 1
        fields.setdefault("at", self.at)
        self.facts.append(kind(run=self.run, emitter=emitter, seq=seq, **fields))  # type: ignore[arg-type]

    def _here(self) -> dict[str, object]:
        return {"job": "job", "requeue": 0, "restart": self.attempt, "iteration": 0}

    def _rank(self) -> dict[str, object]:
        return {**self._here(), "rank": 0, "node": "node0"}

    @property
    def _worker(self) -> str:
        return f"rank/node0/0/{self.attempt}"

    def _pass(self, seconds: float) -> int:
        start = self.at
        self.at += round(seconds * SECOND)
        return start

    # --- what happens ---

    def queue(self, seconds: float) -> Story:
        """The scheduler makes the run wait."""
        self._say(SchedulerState, "slurm", state="queued")
        self._pass(seconds)
        self._say(SchedulerState, "slurm", state="running")
        return self

    def start(self, initiator: Initiator | None = None, scope: Scope | None = None, config: str | None = None) -> Story:
        """The next attempt begins to form."""
        self.attempt += 1
        self._say(
            AttemptStarted, "launcher", **self._here(), gpus=self.gpus, world_size=8, initiator=initiator, scope=scope,
            config=config,
        )  # fmt: skip
        return self

    def phase(self, phase: Phase, seconds: float, emitter: str | None = None) -> Story:
        """A phase of the attempt, told when it is over."""
        start = self._pass(seconds)
        who = self._rank() if emitter is None else self._here()
        self._say(PhaseSpan, emitter or self._worker, **who, phase=phase, start=start, end=self.at)
        return self

    def bring_up(self, seconds: float) -> Story:
        """Process start until the first step."""
        return self.phase(Phase.INITIALIZING, seconds)

    def load(self, step: int, took: float, outcome: str = "ok") -> Story:
        """A checkpoint is read."""
        start = self._pass(took)
        self._say(CheckpointLoaded, self._worker, **self._rank(), step=step, start=start, end=self.at, outcome=outcome)
        return self

    def steps(self, first: int, last: int, each: float | None = None) -> Story:
        """Steps are completed, first to last."""
        length = round((each or self.step_seconds) * 1_000_000)
        start = self.at
        count = last - first + 1
        self.at += count * length * 1000
        self._say(Steps, self._worker, **self._rank(), first_step=first, start=start, durations_us=(length,) * count)
        return self

    def save(self, step: int, blocked: float, write: float | None = None) -> Story:
        """A checkpoint; with `write` it is asynchronous and durable that long after its capture."""
        mode = "sync" if write is None else "async"
        common = {**self._rank(), "step": step, "checkpoint": f"step-{step}-{self.attempt}", "mode": mode}
        self._say(CheckpointMoment, self._worker, **common, stage=CheckpointStage.STARTED)
        start = self._pass(blocked)
        self._say(PhaseSpan, self._worker, **self._rank(), phase=Phase.SAVING, start=start, end=self.at)
        if write is None:
            self._say(CheckpointMoment, self._worker, **common, stage=CheckpointStage.DURABLE)
        else:
            self._say(CheckpointMoment, self._worker, **common, stage=CheckpointStage.CAPTURED)
            durable = self.at + round(write * SECOND)
            self._say(CheckpointMoment, self._worker, **common, stage=CheckpointStage.DURABLE, at=durable)
        return self

    def heartbeats(self, seconds: float, count: int = 10) -> Story:
        """Signs of life without a step."""
        start = self._pass(seconds)
        self._say(
            Heartbeats, self._worker, **self._rank(), start=start, end=self.at, count=count, max_gap_us=1000,
            phase="training",
        )  # fmt: skip
        return self

    def meet(self) -> Story:
        """The rendezvous is over, as a launcher tells it: of what follows it says nothing."""
        self._say(RecoveryMark, "launcher", **self._here(), stage=MarkStage.RENDEZVOUS_COMPLETED)
        return self

    def gather(self) -> Story:
        """A rendezvous begins, as a launcher tells it."""
        self._say(RecoveryMark, "launcher", **self._here(), stage=MarkStage.RENDEZVOUS_STARTED)
        return self

    def die(self, after: float, by: str = "exception", exit_code: int | None = None) -> Story:
        """A fault, noticed some time after the last thing that was completed."""
        self._pass(after)
        self._say(RecoveryMark, "launcher", **self._here(), stage=MarkStage.NOTICED, by=by)
        if exit_code is not None:
            self._say(Exit, "launcher", **self._rank(), exit_code=exit_code)
        return self

    def stop(self, seconds: float, outcome: Outcome = Outcome.FAILED) -> Story:
        """The worker group is torn down."""
        if outcome is not Outcome.FAILED:
            start = self._pass(seconds)
            self._say(PhaseSpan, "launcher", **self._here(), phase=Phase.STOPPING, start=start, end=self.at)
        else:
            self._pass(seconds)
        self._say(AttemptEnded, "launcher", **self._here(), outcome=outcome)
        return self

    def wait(self, seconds: float) -> Story:
        """Time passes and nobody says anything."""
        self._pass(seconds)
        return self

    def exclude(self, start: float, end: float) -> Story:
        """A person declares `[start, end)`, in seconds since the beginning, out of account."""
        self._say(Excluded, "person", start=BEGINNING + round(start * SECOND), end=BEGINNING + round(end * SECOND))
        return self

    def finish(self, outcome: Outcome = Outcome.COMPLETED) -> Story:
        """The run ends."""
        self._say(AttemptEnded, "launcher", **self._here(), outcome=outcome)
        self._say(RunEnded, "launcher", outcome=outcome)
        return self

    # --- what it comes to ---

    def fold(self) -> RunFold:
        """All facts folded."""
        folded = RunFold(self.run)
        folded.add(self.facts)
        return folded

    def view(self, later: float = 0.0) -> RunView:
        """The run as of the story's clock, or some seconds later."""
        return self.fold().view(self.at + round(later * SECOND))


def seconds_by_phase(view: RunView) -> dict[str, float]:
    """Seconds of each phase that occurred."""
    return {phase.value: length / SECOND for phase, length in view.account.ns_by_phase}
