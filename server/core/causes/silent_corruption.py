"""A GPU computes wrongly without saying so: a check that repeats or compares found two results for one question.

Megatron's rerun machine tells of an unexpected result first and runs the step again: what the second run gives decides
what the first one was. A result that came again is no corruption, and is told by `loss_anomaly`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Sign, from_lines, line, placed, who
from rerail.server.core.view import Domain

UNEXPECTED = re.compile(r"\bUnexpected result\b", re.IGNORECASE)
"""A result that the rerun machine does not believe yet."""


def unexpected(case: Case) -> list[Sign]:
    """The results that were not believed and that a second look did not confirm, in order; none where none was told."""
    last = max((sign.at for sign in case.accusing(RULE.name)), default=None)
    if last is None:
        return []
    doubted = (sign for sign in case.accusing("loss_anomaly") if UNEXPECTED.search(sign.text))
    return [sign for sign in doubted if sign.at <= last]


def match(case: Case) -> Match | None:
    """The earliest line that tells of it, with rank and machine as any line of that rank names them."""
    found = from_lines(case, RULE)
    if found is None:
        return None
    doubted = unexpected(case)
    signs = [*doubted, *case.accusing(RULE.name)]
    rank = found.rank if found.rank is not None else next((sign.rank for sign in signs if sign.rank is not None), None)
    node = found.node or next((sign.node for sign in signs if sign.node and sign.rank in (None, rank)), None)
    first = case.accusing(RULE.name)[0]
    named = placed(first.reading.says, who(rank, node, first.item.evidence.local_rank))
    said = [sign.item for sign in doubted if sign.rank in (None, rank)]
    return replace(
        found, rank=rank, node=node, at=min([first.at, *(item.at for item in said)]),
        sentence=found.sentence if (rank, node) == (found.rank, found.node)
        else named.replace("{words}", first.reading.words.strip(" .:")),
        initiating=(*said[:5], *found.initiating),
    )  # fmt: skip


RULE = CauseRule(
    name="silent_corruption",
    domain=Domain.INFRASTRUCTURE,
    advice="Take the GPU out of use and test it; go back to a checkpoint from before the first doubt.",
    match=match,
    order=16,
    lines=(
        line(
            r"silent data corruption[^\n]{0,120}"
            r"|\bSDC\b[^\n]{0,20}(?:detected|suspected|found)[^\n]{0,100}"
            r"|(?:persistent|transient) error[^\n]{0,60}(?:rerun|re-run|different (?:result|gpu))[^\n]{0,80}"
            r"|\b(?:(?:first|second) )?(?:rerun|re-run)\b[^\n]{0,60}"
            r"(?:not (?:the same|reproducible)|different result|mismatch)[^\n]{0,80}"
            r"|possible (?:transient|persistent) error[^\n]{0,100}"
            r"|(?:parameter|weight|gradient)s? (?:hash|checksum)e?s?"
            r"[^\n]{0,40}(?:differ|mismatch|do not match)[^\n]{0,80}"
            r"|Parameter hashes not matching[^\n]{0,80}"
            r"|(?:replicas?|data[- ]parallel ranks?)[^\n]{0,60}(?:out of sync|diverged bitwise)[^\n]{0,60}",
            "{where} computed something that a second look did not confirm ({words}).",
            confidence=0.85,
        ),
    ),
)
