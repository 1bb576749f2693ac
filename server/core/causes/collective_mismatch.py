"""Ranks called different collectives: another operation, size or type than their peers.

Flight recorder dumps name the odd ranks. Every rank that compares prints it, so the one that speaks is not the odd one:
lines alone blame nobody.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, from_lines, line
from rerail.server.core.flight_recorder.verdict import MISMATCH, dump_verdict
from rerail.server.core.view import Domain
from rerail.server.core.wanted import Kind, Wanted


def match(case: Case) -> Match | None:
    """What the dumps say, else the first line that tells of a mismatch."""
    told = dump_verdict(case.evidence, case.noticed_at, case.last_step_at, case.world_size)
    if told is not None and told.cause == MISMATCH:
        return Match(
            told.confidence, told.sentence, told.rank, told.node, told.at, told.initiating, told.missing_evidence,
            traits=told.traits,
        )  # fmt: skip
    found = from_lines(case, RULE)
    return None if found is None else replace(found, rank=None, node=None)


RULE = CauseRule(
    name="collective_mismatch",
    domain=Domain.WORKLOAD,
    advice="Look for a branch that only some ranks take; TORCH_DISTRIBUTED_DEBUG=DETAIL names the first difference.",
    match=match,
    order=11,
    settles=(
        Wanted(
            "a flight recorder dump of every rank (it names the odd one)",
            Kind.DUMPS,
            "the dumps of the ranks without one",
        ),
    ),
    lines=(
        line(
            r"Detected mismatch between collectives on ranks[^\n]{0,60}|Mismatched collective detected[^\n]{0,80}"
            r"|Is there a distributed collective mismatch in your code"
            r"|COLLECTIVE_TYPE_MISMATCH|(?:SIZE|DTYPE)_(?:OR_SYNTAX_)?MISMATCH[^\n]{0,60}"
            r"|Mismatch between collective operation types[^\n]{0,80}"
            r"|Received data size doesn't match expected size",
            "The ranks did not call the same collective ({words}).",
            confidence=0.9,
        ),
    ),
)
