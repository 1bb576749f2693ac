"""The figures of AWS's NVRx reference test case (`awsome-distributed-training`, `3.test_cases/pytorch/nvrx`).

    training       kept steps × undisturbed step time ÷ wall
    infrastructure 1 − Σ (shutdown + start-up of each restart) ÷ wall

Shutdown is from the fault to the next entry of the training function, start-up from there to the training loop. Rework
and checkpoint stalls are no infrastructure loss; the start-up of the first process is in the wall and in neither.

The code itself derives the step time from its own counters (and falls back to a constant); here it is the measured
median of undisturbed steps. Its restarts are summed one by one; here they are a union of intervals, so that none counts
twice. It knows no time out of account. What its `results.json` says of the run itself is shown beside, as told.
"""

from __future__ import annotations

from rerail.server.core.definitions import Definition, DefinitionInput, Measured, beside, bucket, sentence
from rerail.server.core.definitions.history import History, ToldFigure
from rerail.server.core.facts import Phase, Scope
from rerail.server.core.view import SpanKind
from rerail.server.core.words import count, duration, points, share

TOOL = "aws-nvrx/"
STARTUP = frozenset({Phase.INITIALIZING, Phase.LOADING})
"""Phases of a restart that are its start-up; the other down phases are its shutdown. The rendezvous of a launcher comes
before the training function, that of an in-process restart in it."""


def measure(given: DefinitionInput) -> Measured:
    """Kept steps × s* ÷ wall, and 1 − (shutdown + start-up) ÷ wall."""
    view, account = given.view, given.account
    wall = given.lived_ns
    kept, step = _kept_steps(given), view.undisturbed_step_ns
    shutdown = startup = 0
    in_process = {attempt.number for attempt in view.attempts if attempt.scope is Scope.IN_PROCESS}
    last_start = max((attempt.first_step_at or 0 for attempt in view.attempts), default=0)
    for span in given.spans:
        # Planned down-time between attempts is a restart too; the teardown at the end of the run is none.
        if span.kind is SpanKind.FAULT or (span.kind is SpanKind.PLANNED and span.end <= last_start):
            length = span.end - span.start
            is_startup = span.phase in STARTUP or (span.phase is Phase.RENDEZVOUS and span.attempt in in_process)
            startup += length if is_startup else 0
            shutdown += 0 if is_startup else length
    productive = None if kept is None or step is None else kept * step
    told = given.history.told_by(TOOL) if given.history is not None else ()
    reasons: list[tuple[str, str]] = []
    if not wall:
        reasons += [("training_goodput", "nothing elapsed"), ("infrastructure_goodput", "nothing elapsed")]
    elif kept is None:
        reasons.append(("training_goodput", "no completed step was told"))
    elif step is None:
        reasons.append(("training_goodput", "no step was undisturbed: all are first steps, or under a write in flight"))
    training = productive / wall if productive is not None and wall else None
    by_phase = dict(account.ns_by_phase)
    return Measured(
        difference=_difference(given, training, kept, wall, told),
        training=training,
        infrastructure=1 - (shutdown + startup) / wall if wall else None,
        productive_ns=productive,
        elapsed_ns=wall,
        buckets=(
            bucket("shutdown", shutdown, wall),
            bucket("startup", startup, wall),
            bucket("checkpoint", by_phase.get(Phase.SAVING, 0), wall),
            bucket("wasted", by_phase.get(Phase.RECOMPUTING, 0) + account.debt_ns, wall),
        ),
        reasons=tuple(reasons),
        numbers=(("kept_steps", kept), ("step_seconds", None if step is None else step / 1e9)),
        told=told,
    )


def _kept_steps(given: DefinitionInput) -> int | None:
    """Steps the run stands on that it did itself; in a window, how far it got ahead in it. None where none was told."""
    firsts = [attempt.first_step for attempt in given.view.attempts if attempt.first_step is not None]
    if not firsts:
        return None
    before = min(firsts) - 1
    if given.window is None:
        return max(0, (given.view.current_step if given.view.current_step is not None else before) - before)
    start, end = given.window
    return _high_water(given.history, end, before) - _high_water(given.history, start, before)


def _high_water(history: History | None, at: int, before: int) -> int:
    """The highest step completed by an instant."""
    reached = before
    for attempt in () if history is None else history.attempts:
        for block in attempt.blocks:
            if block.start >= at:
                break
            done = len(block.ends) if block.end <= at else sum(end <= at for end in block.ends)
            reached = max(reached, block.first_step + done - 1)
    return reached


def _difference(
    given: DefinitionInput, training: float | None, kept: int | None, wall: int, told: tuple[ToldFigure, ...]
) -> str:
    account, step = given.account, given.view.undisturbed_step_ns
    parts = []
    if training is not None and kept is not None and step is not None:
        work = kept * step
        parts.append(
            f"it takes {count(kept, 'kept step')} at the undisturbed {duration(step)} for {duration(work)} of work, "
            f"where rerail measured {duration(account.productive_ns)}"
        )
        excluded = dict(account.ns_by_phase).get(Phase.EXCLUDED, 0)
        if excluded:
            parts.append(f"{duration(excluded)} declared out of account stay in its wall of {duration(wall)}")
    figures = {each.name: each.value for each in told}
    printed = figures.get("training_goodput_pct")
    if printed is not None:
        words = f"the test case itself printed {share(printed / 100)}"
        if training is not None and abs(printed / 100 - training) >= 0.0005:
            away = points(abs(printed / 100 - training))
            words += f", {away} away, since its step time is its own clock's, which restarts and rework may be part of"
        parts.append(words)
    return sentence(beside("AWS", training, account, given.view), parts)


DEFINITION = Definition(
    name="aws",
    title="AWS",
    stated_by=(
        "Training goodput is kept steps × undisturbed step time ÷ wall time, infrastructure goodput 1 − (shutdown + "
        "start-up of every restart) ÷ wall time."
    ),
    measure=measure,
    needs_history=True,
)
