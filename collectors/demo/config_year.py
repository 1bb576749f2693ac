"""A year of settings: a made-up run whose heartbeat time-out is shortened, kills healthy ranks, and is set back.

Rules
- It is made up, and its name and labels say so; the recordings beside it are real.
- Two faults show that 30 min are slow to notice; 5 min are faster, and kill ranks that only wrote a checkpoint; 30 min
  again end that. What people said of it (`SAID`) is no fact: who loads the story says it over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rerail.server.core.codec import canonical
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Evidence,
    Exit,
    Fact,
    Heartbeats,
    Initiator,
    MarkStage,
    Outcome,
    RecoveryMark,
    RunEnded,
    RunStarted,
    Scope,
    Steps,
)

RUN = "made-up-year-of-settings"
SECOND = 10**9
HOUR = 3600 * SECOND
LONG, SHORT = 1800, 300
SAVE_EVERY = 6
"""Steps of an hour between two saves."""

SLOWEST_SAVE_S = 720
"""The longest a healthy rank was silent: while it wrote a checkpoint."""


@dataclass(frozen=True, slots=True)
class Life:
    """One attempt: its time-out, how many steps of an hour, and how it ended."""

    timeout: int
    hours: int
    end: str = "crash"
    """`crash` (a rank was killed), `kill` (the monitor killed ranks), `change` (a person restarted it) or `done`."""


YEAR = (
    Life(LONG, 1200), Life(LONG, 900), Life(LONG, 800, "change"),
    Life(SHORT, 700), Life(SHORT, 160, "kill"), Life(SHORT, 220, "kill"), Life(SHORT, 130, "kill"),
    Life(SHORT, 300, "kill"), Life(SHORT, 90, "change"),
    Life(LONG, 2100), Life(LONG, 2000, "done"),
)  # fmt: skip


WHO = "on call"
SAID = (
    (f"{RUN}@3", "A dead rank was noticed after half an hour: 5 min must do.", f"{RUN}~0"),
    (
        f"{RUN}@9",
        "Four kills in five weeks, every one during a slow save: the ranks were healthy. Back to 30 min until saves "
        "are asynchronous.",
        f"{RUN}~5",
    ),
)
"""Of each change the reason, and the incident that argued for it."""

NOTE = (
    f"{RUN}~5",
    "**False kill.** The rank wrote a checkpoint for 12 min and said nothing meanwhile; 5 min were armed. "
    "체크포인트 저장 중 하트비트 시간 초과: 정상 랭크가 종료됨.",
)
"""The incident that a note is on, and the note."""


def said() -> Iterator[tuple[str, dict[str, object]]]:
    """What people say of it once it is derived: path and body of each POST."""
    for change, reason, incident in SAID:
        path = f"/api/v1/configs/changes/{change}/actions"
        yield path, {"action": "explain", "changed_by": WHO, "reason": reason, "author": WHO}
        yield path, {"action": "link", "target_kind": "incident", "target": incident, "author": WHO}
    incident, text = NOTE
    yield "/api/v1/notes", {"subject_kind": "incident", "subject": incident, "author": WHO, "text": text}


def facts(end: int) -> tuple[Fact, ...]:
    """Everything the run told, its last instant at `end` (ns since 1970)."""
    length = sum(life.hours * HOUR + 2 * HOUR for life in YEAR)
    return tuple(_Telling(end - length).tell())


class _Telling:
    """The story, told along its own clock."""

    def __init__(self, begin: int) -> None:
        self.at = begin
        self.step = self.saved = 0
        self.seq = 0

    def tell(self) -> Iterator[Fact]:
        yield RunStarted(
            **self._by(), name=RUN, project="made up", labels=(("story", "made up"),), gpus=64, world_size=64,
            target_step=sum(life.hours for life in YEAR),
        )  # fmt: skip
        for number, life in enumerate(YEAR):
            yield from self._attempt(number, life)

    def _by(self) -> dict[str, object]:
        self.seq += 1
        return {"run": RUN, "emitter": "made-up", "seq": self.seq, "at": self.at}

    def _attempt(self, number: int, life: Life) -> Iterator[Fact]:
        where = {"job": "1", "requeue": 0, "restart": number, "iteration": 0}
        before = None if number == 0 else YEAR[number - 1].end
        initiator = {None: None, "change": Initiator.OPERATOR, "kill": Initiator.MONITOR}.get(before, Initiator.FAULT)
        yield AttemptStarted(
            **self._by(), **where, scope=Scope.IN_JOB, initiator=initiator, gpus=64, world_size=64,
            nodes=tuple(f"made-up-{index}" for index in range(8)), launcher="ft_launcher",
            config=canonical({"rank_heartbeat_timeout": life.timeout, "checkpoint_interval_steps": SAVE_EVERY}),
        )  # fmt: skip
        self.at += 600 * SECOND
        yield RecoveryMark(**self._by(), **where, stage=MarkStage.INITIALIZED)
        if self.saved:
            begun = self.at
            self.at += 120 * SECOND
            yield CheckpointLoaded(
                **self._by(), **where, rank=0, step=self.saved, start=begun, end=self.at, outcome="ok"
            )
        yield from self._training(life, where)
        yield from self._ending(life, where)

    def _training(self, life: Life, where: dict[str, object]) -> Iterator[Fact]:
        start, first = self.at, self.saved + 1
        self.at += life.hours * HOUR
        self.step = self.saved + life.hours
        yield Steps(
            **self._by(), **where, rank=0, first_step=first, start=start, durations_us=(life.hours * 3_600_000_000,),
            count=life.hours,
        )  # fmt: skip
        yield Heartbeats(
            **self._by(), **where, rank=0, start=start, end=self.at, count=life.hours * 60, phase="training",
            max_gap_us=(SLOWEST_SAVE_S if life.timeout == LONG else life.timeout - 10) * 1_000_000,
            armed_timeout_us=life.timeout * 1_000_000,
        )  # fmt: skip
        kept = self.step - self.step % SAVE_EVERY
        for step in {kept - SAVE_EVERY, kept} if kept > first + SAVE_EVERY else ():
            at = self.at
            self.at = start + (step - first + 1) * HOUR
            for stage in (CheckpointStage.STARTED, CheckpointStage.DURABLE):
                yield CheckpointMoment(**self._by(), **where, rank=0, step=step, stage=stage)
            self.at = at
            self.saved = max(self.saved, step)

    def _ending(self, life: Life, where: dict[str, object]) -> Iterator[Fact]:
        if life.end == "done":
            yield AttemptEnded(**self._by(), **where, outcome=Outcome.COMPLETED)
            yield RunEnded(**self._by(), outcome=Outcome.COMPLETED)
            return
        if life.end == "change":
            yield AttemptEnded(**self._by(), **where, outcome=Outcome.STOPPED, reason="restarted with other settings")
            self.at += 600 * SECOND
            return
        self.at += life.timeout * SECOND
        text = f"Did not get subsequent heartbeat. Waited {life.timeout:.2f} seconds."
        yield RecoveryMark(**self._by(), **where, stage=MarkStage.NOTICED, by="monitor", text=text)
        if life.end == "crash":  # Nobody saw the rank die: it was silent until the time-out.
            yield Exit(**self._by(), **where, rank=17, exit_code=-9, signal=9)
        else:
            yield Evidence(**self._by(), **where, rank=17, source="launcher", text=text)
        self.at += 60 * SECOND
        yield AttemptEnded(**self._by(), **where, outcome=Outcome.FAILED)
        self.at += 600 * SECOND
