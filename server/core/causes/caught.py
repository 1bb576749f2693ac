"""Caught: an exception of a rank after which the run completed further steps, and another that ended it.

A rank that raises and dies takes its peers along: a step that was under way may still end, one more where ranks do not
wait for each other, and no further one. Where two or more steps follow, the last of them more than a second after it,
and then another exception is told, the first was caught.

Rules
- The step whose line dates what stood before it without a stamp was completed after that: it counts.
- Who is known to have ended by an error of its own, or printed a traceback that nobody caught (torch marks it with the
  rank), has not caught it; `survived.py` decides about those.
- Only another exception takes it back, that nobody caught or whose rank ended: where nothing else tells of the end, it
  stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.cause_rules import Case, Sign, Weight
from rerail.server.core.causes.survived import taken_back
from rerail.server.core.mentions import SPOKEN

OWN = frozenset({"user_exception", "gpu_oom", "loss_anomaly"})
"""What a program may catch and go on after. Files and loaders are not here: a thread that saves, or batches that were
fetched ahead, let a run step on for a while before what failed there ends it."""
STEPS = 2
ASYNCHRONOUS_NS = 1_000_000_000
"""So long others may go on before they miss a rank."""


def without_caught(case: Case, signs: Sequence[Sign]) -> list[Sign]:
    """The signs, without the accusation of what was caught."""
    own = [sign for sign in signs if _is_own(sign)]
    if len(own) < 2 or case.last_step_at is None:
        return list(signs)
    died = {worker.rank for worker in case.exits if worker.exit_code and worker.rank >= 0}
    caught = {
        sign.item.order()
        for sign in own
        if sign.rank not in died
        and not _is_marked(sign)
        and any(_follows(case, sign, later) for later in own if _is_marked(later) or later.rank in died)
    }  # fmt: skip
    return [taken_back(sign) if sign.item.order() in caught else sign for sign in signs]


def _is_own(sign: Sign) -> bool:
    return (
        sign.accuses
        and sign.reading.weight is Weight.LINE
        and sign.reading.cause in OWN
        and sign.item.evidence.source in SPOKEN
    )


def _is_marked(sign: Sign) -> bool:
    """A traceback behind the mark of what nobody caught."""
    told = sign.item.evidence
    return told.code is not None and told.text.lstrip().startswith("[rank")


def _follows(case: Case, sign: Sign, later: Sign) -> bool:
    """Whether the run stepped on after one and before the other."""
    if later.at <= sign.at:
        return False
    slack = case.error_ns(sign.item.evidence.emitter) if sign.item.evidence.emitter in case.clock_errors else 0
    return (
        case.steps_after(sign.at - 1 + slack, later.at) >= STEPS
        and case.steps_after(sign.at + ASYNCHRONOUS_NS + slack, later.at) > 0
    )
