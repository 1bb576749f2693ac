"""From an analysis to a verdict: which cause class the dumps of an attempt speak for, and how surely.

A mismatch is the cause class `collective_mismatch`; everything else that is found is a `hang`, with a culprit or
without. Where nothing was pending, or recording was disabled, the dumps speak for no cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.facts import Pairs
from rerail.server.core.flight_recorder.ages import said_of_age
from rerail.server.core.flight_recorder.analysis import analysis, dumps_near, is_dump, several
from rerail.server.core.flight_recorder.conclusions import Analysis, Conclusion
from rerail.server.core.wanted import Kind, Wanted

HANG, MISMATCH = "hang", "collective_mismatch"
MOST_EVIDENCE = 20
SETTLES: dict[Conclusion, tuple[Wanted, ...]] = {
    Conclusion.MISMATCH: (Wanted("the program's own log of the odd ranks (which branch they took)"),),
    Conclusion.MISSING: (
        Wanted("the stack of the culprit at that time", Kind.STACKS),
        Wanted("its last lines (what kept it)"),
    ),
    Conclusion.LAGGING: (
        Wanted("the stack of the rank that lags", Kind.STACKS),
        Wanted("its GPU's state and kernel log (whether the operation it is in ended there)"),
    ),
    Conclusion.LATE: (
        Wanted("the stack of the late ranks while the others waited", Kind.STACKS),
        Wanted("their last lines"),
    ),
    Conclusion.ALL_JOINED: (
        Wanted("NCCL's own log (NCCL_DEBUG=INFO)"),
        Wanted("the nodes' kernel logs", Kind.KERNEL_LOG),
        Wanted("the state of the network"),
    ),
    Conclusion.NOT_SEEN: (Wanted("the dumps of the ranks that left none"), Wanted("the end of their logs")),
    Conclusion.DEADLOCK: (
        Wanted(
            "the stacks of both sides (they name the two collectives that are called in different order)", Kind.STACKS
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class DumpVerdict:
    """What the dumps of one attempt say of its cause."""

    cause: str
    confidence: float
    sentence: str
    rank: int | None
    """The culprit, where there is exactly one."""
    node: str | None
    at: int
    initiating: tuple[TimedEvidence, ...]
    """The dumps of the culprits; all of them where nobody is blamed."""
    missing_evidence: tuple[Wanted, ...]
    traits: Pairs
    """`operation` and `frame`, sorted by name, where they are known."""


def aged_analysis(
    evidence: Sequence[TimedEvidence], noticed_at: int | None = None, last_step_at: int | None = None,
    world_size: int | None = None,
) -> Analysis | None:  # fmt: skip
    """What the dumps among the evidence say, with how old they are where that is not the interruption's own time."""
    near = noticed_at if noticed_at is not None else last_step_at
    found = analysis((item.evidence for item in evidence), near, world_size)
    if found is None:
        return None
    judged, _ = dumps_near((item.evidence for item in evidence), near)
    counted = {(fact.emitter, fact.seq) for fact in judged}
    dumps = [item for item in evidence if (item.evidence.emitter, item.evidence.seq) in counted]
    age, left = said_of_age(dumps, last_step_at, noticed_at)
    if not age:
        return found
    return replace(found, sentence=f"{found.sentence} {age}", confidence=round(found.confidence * left, 3))


def dump_verdict(
    evidence: Sequence[TimedEvidence], noticed_at: int | None = None, last_step_at: int | None = None,
    world_size: int | None = None,
) -> DumpVerdict | None:  # fmt: skip
    """What the dumps among the evidence say of the cause; None where they say nothing of it.

    `noticed_at` and `last_step_at` are the interruption's, in ns, where they are known; so is `world_size`.
    """
    dumps = [item for item in evidence if is_dump(item.evidence)]
    near = noticed_at if noticed_at is not None else last_step_at
    found = analysis((item.evidence for item in dumps), near, world_size)
    if found is None or found.conclusion not in SETTLES:
        return None
    judged, set_count = dumps_near((item.evidence for item in dumps), near)
    counted = {(fact.emitter, fact.seq) for fact in judged}
    dumps = [item for item in dumps if (item.evidence.emitter, item.evidence.seq) in counted]
    age, left = said_of_age(dumps, last_step_at, noticed_at)
    sentence = " ".join(filter(None, (found.sentence, several(set_count) if set_count > 1 else "", age)))
    confidence = round(found.confidence * left, 3)
    blamed = set(found.culprits)
    resting = [item for item in dumps if item.evidence.rank in blamed] or dumps
    traits = {"operation": found.operation, "frame": found.frame}
    return DumpVerdict(
        cause=MISMATCH if found.conclusion is Conclusion.MISMATCH else HANG,
        confidence=confidence,
        sentence=sentence,
        rank=found.culprits[0] if found.culprit_count == 1 else None,
        node=found.culprit_node,
        at=min(item.at for item in dumps),
        initiating=tuple(resting[:MOST_EVIDENCE]),
        missing_evidence=SETTLES[found.conclusion],
        traits=tuple(sorted((name, value) for name, value in traits.items() if value)),
    )
