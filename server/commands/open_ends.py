"""Open ends: how the last attempt of a log of the past ended, where no line of a launcher says that it did.

Rules
- What `rerail classify` names for the same facts is why it ended, and an import states that it ended so: the two agree.
- It ended where the last word of it was told. It failed; or it was preempted, or stopped by somebody, where the verdict
  is that.
- A log that may still be written is left alone: the last word must be ten minutes old, and ten times as old as what
  usually lay between two. Not so where a scheduler's or a coordinator's line says that the job is over, and no step
  comes after it.
- Where nothing accuses anybody nothing is stated: a log that breaks off tells no failure.
- Where only evidence is told, and no attempt, it is one attempt: it was there at the first word of it. In a run that is
  known already it is not: whose attempt it is of, the facts that are there say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rerail.collectors.sources.last_words import ending_of
from rerail.collectors.sources.left_off import is_silent
from rerail.server.commands.classifying import of_run
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Fact,
    Outcome,
    RecoveryMark,
    RunEnded,
    Steps,
)
from rerail.server.core.fold import RunFold

LEAST_SILENCE_NS = 600 * 10**9
OUTCOMES = {"preemption": Outcome.PREEMPTED, "operator_stop": Outcome.STOPPED}
"""How an attempt ended whose verdict is that; any other cause is a failure."""
OF_AN_ATTEMPT = (AttemptStarted, AttemptEnded, Exit, RecoveryMark, Steps)
OPEN_WAIT_NS = 10**9
EMITTER = "import/open-end"


def _is_over(told: Sequence[Fact]) -> bool:
    """Whether a line says that the job was ended, and no step was completed after it."""
    said = [(fact.at, ending_of(fact.text)) for fact in told if isinstance(fact, Evidence)]
    over = [at for at, ending in said if ending is not None and not ending[1]]
    return bool(over) and all(fact.at <= max(over) for fact in told if isinstance(fact, Steps))


@dataclass(slots=True)
class OpenEnds:
    """Judges ends for a format (`formats.Ends`); `is_known` says whether a run holds facts already."""

    is_known: Callable[[str], bool] = lambda _: False

    def __call__(self, facts: Sequence[Fact], now: int, written_at: int | None) -> list[Fact]:
        """As `open_ends`."""
        return open_ends(facts, now, written_at, self.is_known)


def open_ends(
    facts: Sequence[Fact], now: int, written_at: int | None, is_known: Callable[[str], bool] = lambda _: False
) -> list[Fact]:
    """What is to be stated of the end of the last attempt of `facts`, all of one run; empty where it is told, or is not
    known.

    `now` and `written_at` in ns; the latter is when the log was written last, None where nobody knows.
    """
    told = [fact for fact in facts if fact.at > 1]
    if not told or any(isinstance(fact, RunEnded) for fact in told):
        return []
    last = max(fact.at for fact in told)
    run = told[0].run
    has_attempts = any(isinstance(fact, OF_AN_ATTEMPT) for fact in told)
    spoken = [fact for fact in told if isinstance(fact, Evidence)]
    if has_attempts and not _is_over(told) and not is_silent(
        told, now=now, written_at=written_at, least=LEAST_SILENCE_NS
    ):  # fmt: skip
        return []
    if not has_attempts and (is_known(run) or len({fact.restart or 0 for fact in spoken}) != 1):
        return []  # of several each has a place of its own, and is an attempt
    found = of_run(run, told, set())
    if not found:
        return []
    named = found[-1]
    outcome = OUTCOMES.get(named.verdict.cause, Outcome.FAILED)
    common = {"run": run, "emitter": EMITTER, "at": last}
    seq = last // 10**9 * 4  # another end, of a log that grew, is another fact
    over = RunEnded(**common, seq=seq + 2, outcome=outcome, reason=named.verdict.sentence[:1000])
    if not has_attempts:
        first = min(fact.at for fact in spoken)
        return [
            AttemptStarted(**{**common, "at": first}, seq=seq, restart=0),
            AttemptEnded(**common, seq=seq + 1, restart=0, outcome=outcome),
            over,
        ]
    fold = RunFold(run)
    fold.add(told)
    attempts = fold.view(last + OPEN_WAIT_NS).attempts
    if not attempts or attempts[-1].outcome is Outcome.COMPLETED:
        return []
    restart, told_outcome = attempts[-1].restart, attempts[-1].outcome
    if named.restart is not None and named.restart != restart:
        return []
    if told_outcome is not None:
        return [replace(over, outcome=told_outcome)]  # its end is told, and nothing came after it
    return [AttemptEnded(**common, seq=seq + 1, restart=restart, outcome=outcome), over]
