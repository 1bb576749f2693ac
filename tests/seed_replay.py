"""Two recorded arms of one experiment as facts: the same faults, recovered in process and by the launcher.

Each line of `corpus/seed_replay/*.jsonl.gz` is an event with `t` in seconds. A step is told when it is done and began
when the event before it happened.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

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

FOLDER = Path(__file__).parent / "corpus" / "seed_replay"
BEGINNING = 1_760_000_000_000_000_000
ARMS = ("in_process", "ft_launcher")


class _Telling:
    """Facts of one arm, in the order of its events."""

    def __init__(self, arm: str) -> None:
        self.scope = Scope.IN_PROCESS if arm == "in_process" else Scope.IN_JOB
        self.facts: list[Fact] = []
        self.attempt = 0

    def say(self, kind: type[Fact], at: int, **fields: object) -> None:
        who = {"run": "arm", "emitter": "rank/0", "job": "j", "seq": len(self.facts), "at": at, "rank": 0}
        counts = {"restart": self.attempt} if self.scope is Scope.IN_JOB else {"iteration": self.attempt}
        self.facts.append(kind(**who, **counts, **fields))  # type: ignore[arg-type]


def arm_facts(arm: str, *, with_saves: bool = True) -> list[Fact]:
    """The facts of `in_process` or `ft_launcher`; without its saves nobody logs a checkpoint or its stall."""
    lines = gzip.decompress((FOLDER / f"{arm}.jsonl.gz").read_bytes()).splitlines()
    telling = _Telling(arm)
    before = attempt_began = BEGINNING
    for event in map(json.loads, lines):
        kind, at = event["kind"], BEGINNING + round(event["t"] * 1000) * 1_000_000
        if kind == "run_start":
            telling.say(RunStarted, at, target_step=event["target_steps"])
            telling.say(AttemptStarted, at)
        elif kind == "phase_end":
            telling.say(PhaseSpan, at, phase=Phase.INITIALIZING, start=before, end=at)
        elif kind == "step_done":
            telling.say(Steps, at, first_step=event["step"], start=before, durations_us=((at - before) // 1000,))
        elif kind == "failure_detected":
            telling.say(RecoveryMark, at, stage=MarkStage.NOTICED, by="monitor")
            telling.say(AttemptEnded, at, outcome=Outcome.FAILED)
        elif kind == "attempt_start":
            telling.attempt, attempt_began = event["attempt"], at
            telling.say(AttemptStarted, at, initiator=Initiator.FAULT, scope=telling.scope)
        elif kind == "rendezvous_done":
            telling.say(PhaseSpan, at, phase=Phase.RENDEZVOUS, start=attempt_began, end=at)
        elif kind == "checkpoint_loaded":
            telling.say(CheckpointLoaded, at, step=event["step"], start=before, end=at, outcome="ok")
        elif kind.startswith("ckpt_") and with_saves:
            stage = CheckpointStage(kind.removeprefix("ckpt_"))
            telling.say(CheckpointMoment, at, step=event["step"], stage=stage, mode="sync")
            if stage is CheckpointStage.DURABLE:
                telling.say(PhaseSpan, at, phase=Phase.SAVING, start=before, end=at)
        elif kind == "run_end":
            telling.say(AttemptEnded, at, outcome=Outcome.COMPLETED)
            telling.say(RunEnded, at, outcome=Outcome.COMPLETED)
        if kind != "fault":  # a step that a fault cut off was never done, and nobody told of the fault
            before = at
    return telling.facts
