"""The fault trace: the evidence of an interruption in order, each piece with its causal role.

Rules
- A piece the verdict rests on is `initiating`; what supports it is `confirmation`. A piece that would have accused
  somebody else is a `cascade` where it came after the verdict's, and of unknown role where it came before.
- A dump that is much older than the interruption may be of something else: it informs, unless the verdict rests on it.
- Bounded: a storm keeps the pieces the verdict rests on and the first of every kind; the rest is counted by kind, in a
  line of its own that says so.
- What is told by facts that are no lines (exits, lost nodes, notices) stands among them: `told_otherwise.py`.
- Order is that of the corrected instants; within one emitter, that in which it spoke.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

from rerail.server.core.cause_rules import Case, Match, Sign
from rerail.server.core.told_otherwise import told_otherwise
from rerail.server.core.view import CausalRole, EvidenceLine
from rerail.server.core.xids import official_meaning

MOST_LINES = 300
KEPT_OF_A_KIND = 12
LONGEST_TEXT = 16_384
COUNTED = "counted"
"""The code of a line that stands for others."""

NO_DOUBTS: Mapping[tuple[int, str, int], str] = MappingProxyType({})
Kind = tuple[str, CausalRole, str]


def fault_trace(
    case: Case,
    match: Match | None,
    doubts: Mapping[tuple[int, str, int], str] = NO_DOUBTS,
    unrelated: Container[tuple[int, str, int]] = frozenset(),
) -> tuple[EvidenceLine, ...]:
    """The evidence of a case whose signs are read, as pages show it; `doubts` are remarks on pieces by their order.

    `unrelated` are the orders of pieces that may be of something else: they inform, unless the verdict rests on them.
    """
    resting = {item.order() for item in match.initiating} if match is not None else set()
    supporting = {item.order() for item in match.confirming} if match is not None else set()
    since = min((item.at for item in match.initiating), default=match.at) if match is not None else None
    roles = [
        CausalRole.INFORMATIONAL
        if unrelated and sign.item.order() in unrelated and sign.item.order() not in resting
        else _role(sign, resting, supporting, since)
        for sign in case.signs
    ]
    if len(case.signs) <= MOST_LINES:
        lines = tuple(_line(sign, role, doubts) for sign, role in zip(case.signs, roles, strict=True))
    else:
        lines = _bounded(case.signs, roles, resting, doubts)
    return tuple(sorted((*lines, *told_otherwise(case, match)), key=lambda line: line.at))


def _role(
    sign: Sign, resting: set[tuple[int, str, int]], supporting: set[tuple[int, str, int]], since: int | None
) -> CausalRole:
    order = sign.item.order()
    if order in resting:
        return CausalRole.INITIATING
    if order in supporting:
        return CausalRole.CONFIRMATION
    if sign.reading.role is not CausalRole.INITIATING:
        return sign.reading.role
    return CausalRole.CASCADE if since is not None and sign.at >= since else CausalRole.UNKNOWN


def _bounded(
    signs: Sequence[Sign],
    roles: Sequence[CausalRole],
    resting: set[tuple[int, str, int]],
    doubts: Mapping[tuple[int, str, int], str],
) -> tuple[EvidenceLine, ...]:
    kept: list[EvidenceLine] = []
    seen: dict[Kind, int] = {}
    left: dict[Kind, list[Sign]] = {}
    for sign, role in zip(signs, roles, strict=True):
        kind = (sign.reading.cause, role, sign.item.evidence.source)
        seen[kind] = seen.get(kind, 0) + 1
        room = len(kept) < MOST_LINES and seen[kind] <= KEPT_OF_A_KIND
        if room or sign.item.order() in resting:
            kept.append(_line(sign, role, doubts))
        else:
            left.setdefault(kind, []).append(sign)
    return (*kept, *(_counted(kind, others) for kind, others in left.items()))


def _counted(kind: Kind, others: Sequence[Sign]) -> EvidenceLine:
    cause, role, source = kind
    ranks = sorted({sign.rank for sign in others if sign.rank is not None})
    named = f", ranks {ranks[0]}–{ranks[-1]} ({len(ranks)} of them)" if ranks else ""
    what = "that no rule knows" if cause == "unknown" else f"of {cause.replace('_', ' ')}"
    return EvidenceLine(
        at=others[-1].at, source=source, text=f"{len(others)} more lines {what}{named}, not kept here.", role=role,
        code=COUNTED,
    )  # fmt: skip


def _line(sign: Sign, role: CausalRole, doubts: Mapping[tuple[int, str, int], str]) -> EvidenceLine:
    fact = sign.item.evidence
    remarks = (official_meaning(fact.text, fact.code), doubts.get(sign.item.order()) if doubts else None)
    return EvidenceLine(
        at=sign.at,
        source=fact.source,
        text=fact.text[:LONGEST_TEXT],
        role=role,
        rank=sign.rank,
        node=sign.node,
        code=fact.code,
        emitter=fact.emitter,
        seq=fact.seq,
        meaning=" ".join(filter(None, remarks)) or None,
    )
