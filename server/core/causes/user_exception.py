"""The training script raised an exception that nobody caught."""

from __future__ import annotations

import re

from rerail.server.core.causes import CASCADE_LINES, Case, CauseRule, Match
from rerail.server.core.view import Domain

EXCEPTION_LINE = re.compile(
    r"(?m)^(?:\[rank(?P<rank>\d+)\]:? ?|(?P<prefix>\d+): )?"
    r"(?P<type>(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt))\b(?P<rest>.*)$"
)
IN_PROCESS_LINE = re.compile(r"rank=(?P<rank>\d+) fn_ex: (?P<type>\w+)\((?P<rest>.*)")


def match(case: Case) -> Match | None:
    """The earliest exception that is not the echo of another rank's death."""
    for item in case.evidence:
        text = item.evidence.text
        if CASCADE_LINES.search(text):
            continue
        found = IN_PROCESS_LINE.search(text)
        matches = [found] if found else list(EXCEPTION_LINE.finditer(text))
        if not matches or matches[-1] is None:
            continue
        last = matches[-1]
        told = item.evidence.rank
        if told is None:
            named = last.group("rank") or (last.groupdict().get("prefix"))
            told = int(named) if named else None
        words = f"{last.group('type')}{last.group('rest')}".strip()
        where = f"Rank {told}" if told is not None else "A rank"
        return Match(
            0.85 if told is not None else 0.75,
            f"{where} raised {words[:200]}",
            rank=told,
            node=item.evidence.node,
            at=item.at,
            initiating=(item,),
        )
    if case.says("exception"):
        return Match(0.6, f"Reported as an exception ({case.says('exception')}).",
                     missing_evidence="The traceback in the training log.")  # fmt: skip
    return None


RULE = CauseRule(
    name="user_exception",
    domain=Domain.WORKLOAD,
    advice="Read the traceback; if it comes again at the same step, restarting will not help.",
    match=match,
)
