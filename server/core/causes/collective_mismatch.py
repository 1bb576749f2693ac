"""Ranks called different collectives: another operation, size or type than their peers."""

from __future__ import annotations

from rerail.server.core.cause_rules import CauseRule, line
from rerail.server.core.view import Domain

RULE = CauseRule(
    name="collective_mismatch",
    domain=Domain.WORKLOAD,
    advice="Look for a branch that only some ranks take; TORCH_DISTRIBUTED_DEBUG=DETAIL names the first difference.",
    order=11,
    settles="A flight recorder dump of every rank: it names the odd one.",
    lines=(
        line(
            r"Detected mismatch between collectives on ranks[^\n]{0,60}"
            r"|Is there a distributed collective mismatch in your code"
            r"|COLLECTIVE_TYPE_MISMATCH|(?:SIZE|DTYPE)_(?:OR_SYNTAX_)?MISMATCH[^\n]{0,60}"
            r"|Mismatch between collective operation types[^\n]{0,80}"
            r"|Received data size doesn't match expected size",
            "The ranks did not call the same collective ({words}).",
            confidence=0.9,
        ),
    ),
)
