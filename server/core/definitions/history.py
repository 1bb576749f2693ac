"""History: what the log tells of a run beyond its view, for definitions that look at steps one by one.

Rules
- It is made of the same gathered facts as the view, on the server's clock, and holds no figure of its own.
- The step after the last completed one began when that one was over, unless the attempt's end was noticed at that very
  instant, or its run was completed. A phase after the last completed step lies in it.
- An attempt that came up and completed no step was in its first one. Its number is that which a tool told for this
  instant (`first_step`); else the one after the step it loaded; else that of the first completed step after it; else
  the one after the high-water step.
- What other tools told of the run themselves are metrics whose name begins with the tool's (`TOOLS`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.facts import Fact, MarkStage, Metric, Outcome, Phase
from rerail.server.core.gathering import Gathering, Recall
from rerail.server.core.steps import StepBlock
from rerail.server.core.view import Attempt, RunView

TOOLS = ("aws-nvrx/", "google-goodput/")
"""Prefixes of metrics in which importers keep what a tool said of the run itself."""


@dataclass(frozen=True, slots=True)
class ToldFigure:
    """A number that another tool told of this run, as it told it."""

    name: str
    """Without the tool's name before it."""
    at: int
    value: float
    step: int | None = None


@dataclass(frozen=True, slots=True)
class PhaseTold:
    """A phase as it was told, which precedence may have covered on the timeline."""

    phase: Phase
    name: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """A checkpoint was read during `[start, end)`, or blocked training while it was saved."""

    step: int | None
    """None for a save of which nobody told the step."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """One attempt, step by step."""

    number: int
    began_at: int
    """When it was told to have started; else its first fact."""
    blocks: tuple[StepBlock, ...]
    """Its completed steps."""
    unfinished: tuple[int, int] | None
    """`(step, when it began)` of the step it was in when it ended, or is in."""
    phases: tuple[PhaseTold, ...]
    loads: tuple[Transfer, ...]
    saves: tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class History:
    """A run attempt by attempt, and what others told of it."""

    attempts: tuple[AttemptHistory, ...]
    told: tuple[ToldFigure, ...]
    """In order of their instants, each under its whole name."""

    def told_by(self, tool: str) -> tuple[ToldFigure, ...]:
        """What one tool told, under the names it used."""
        return tuple(
            ToldFigure(each.name.removeprefix(tool), each.at, each.value, each.step)
            for each in self.told
            if each.name.startswith(tool)
        )


class HistoryFold:
    """One run's facts to its history, incrementally: `add` takes facts in any order, `history` answers.

    With `recall` no fact is kept: what must be seen again is read from there.
    """

    def __init__(self, recall: Recall | None = None) -> None:
        self._gathering = Gathering(recall)
        self._told: dict[tuple[str, int], Metric] = {}

    def add(self, facts: Iterable[Fact]) -> None:
        """Take facts, in any order and any number of times."""
        kept = list(facts)
        self._gathering.add(kept)
        for fact in kept:
            if isinstance(fact, Metric) and fact.name.startswith(TOOLS):
                self._told.setdefault((fact.emitter, fact.seq), fact)

    def history(self, view: RunView) -> History:
        """What is known as of a view of the same facts."""
        records = self._gathering.settle()
        saved: dict[int, list[tuple[int, int]]] = {}
        for moments in self._gathering.moments.values():
            for moment in moments:
                saved.setdefault(id(moment.record), []).append((moment.at, moment.fact.step))
        attempts = [
            _attempt(record, shown, view, sorted(saved.get(id(record), ())))
            for record, shown in zip(records, view.attempts, strict=False)
            if shown.started_at <= view.as_of
        ]
        told = sorted(self._told.values(), key=lambda fact: (fact.at, fact.emitter, fact.seq))
        return History(
            attempts=tuple(_with_first_steps(attempts, records, view, told)),
            told=tuple(ToldFigure(fact.name, fact.at, fact.value, fact.step) for fact in told),
        )


def _attempt(record: AttemptRecord, shown: Attempt, view: RunView, saved: Sequence[tuple[int, int]]) -> AttemptHistory:
    """`saved` are `(instant, step)` of what was told of the attempt's checkpoints, in order."""
    blocks = tuple(record.blocks())
    phases = [
        PhaseTold(each.phase, each.name, each.start, each.end)
        for each in record.phases
        if each.start is not None and each.end is not None
    ]
    began, completed = record.rendezvous_started_at, record.marks.get(MarkStage.RENDEZVOUS_COMPLETED)
    if began is not None and completed is not None and not any(each.phase is Phase.RENDEZVOUS for each in phases):
        phases.append(PhaseTold(Phase.RENDEZVOUS, None, began, completed))
    return AttemptHistory(
        number=shown.number,
        began_at=min(entry[0] for entry in record.started) if record.started else shown.started_at,
        blocks=blocks,
        unfinished=_unfinished(blocks, shown, view),
        phases=tuple(sorted(phases, key=lambda each: (each.start, each.end))),
        loads=tuple(Transfer(load.step, load.start, load.end) for load in record.loads if load.is_ok),
        saves=tuple(
            Transfer(_step_saved(saved, each.start, each.end), each.start, each.end)
            for each in phases
            if each.phase is Phase.SAVING
        ),
    )


def _step_saved(saved: Sequence[tuple[int, int]], start: int, end: int) -> int | None:
    """The step of the checkpoint that something was told of during a save."""
    index = bisect_left(saved, (start, 0))
    return saved[index][1] if index < len(saved) and saved[index][0] <= end else None


def _unfinished(blocks: Sequence[StepBlock], shown: Attempt, view: RunView) -> tuple[int, int] | None:
    """The step after the last completed one, where it began."""
    if not blocks or (shown.outcome is Outcome.COMPLETED and not shown.is_interrupted):
        return None
    began = blocks[-1].end
    until = shown.noticed_at if shown.noticed_at is not None else view.as_of
    return (blocks[-1].last_step + 1, began) if until > began else None


def _with_first_steps(
    attempts: Sequence[AttemptHistory], records: Sequence[AttemptRecord], view: RunView, told: Iterable[Metric]
) -> Iterable[AttemptHistory]:
    """The attempts, those that came up and completed nothing with the step they were in."""
    high_water_step: int | None = None
    first_steps = {fact.at: fact.step for fact in told if fact.name.endswith("/first_step")}
    for index, attempt in enumerate(attempts):
        initialized = records[index].marks.get(MarkStage.INITIALIZED)
        if attempt.blocks or initialized is None or initialized > view.as_of:
            if attempt.blocks:
                high_water_step = max(attempt.blocks[-1].last_step, -1 if high_water_step is None else high_water_step)
            yield attempt
            continue
        later = (each.blocks[0].first_step for each in attempts[index + 1 :] if each.blocks)
        step = first_steps.get(initialized)
        if step is None:
            loaded = attempt.loads[-1].step if attempt.loads else None
            step = loaded + 1 if loaded is not None else next(later, None)
        if step is None:
            step = 0 if high_water_step is None else high_water_step + 1
        yield replace(attempt, unfinished=(step, initialized))
