"""Ranks called different collectives under one number: another operation, another type, another size.

It is the program's doing: a branch that only some ranks take, a batch of another shape, a parameter that one rank has
and another has not. Flight recorder dumps name the odd ranks; torch says so itself where TORCH_DISTRIBUTED_DEBUG=DETAIL
is set.
"""

from __future__ import annotations

import re

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.flight_recorder.verdict import MISMATCH, dump_verdict
from rerail.server.core.view import Domain

LINES = re.compile(r"Detected mismatch between collectives on ranks")


def match(case: Case) -> Match | None:
    """What the dumps say, else torch's own line."""
    told = dump_verdict(case.evidence)
    if told is not None and told.cause == MISMATCH:
        return Match(
            told.confidence, told.sentence, told.rank, told.node, told.at, told.initiating, told.missing_evidence,
            told.traits,
        )  # fmt: skip
    for item in case.evidence:
        if LINES.search(item.evidence.text):
            return Match(
                0.95,
                "Ranks called different collectives: torch found them to differ.",
                at=item.at,
                initiating=(item,),
                missing_evidence="Flight recorder dumps of all ranks would name the odd one.",
            )
    return None


RULE = CauseRule(
    name=MISMATCH,
    domain=Domain.WORKLOAD,
    advice="Look for a branch, a shape or a parameter that differs between ranks at the operation named.",
    match=match,
)
