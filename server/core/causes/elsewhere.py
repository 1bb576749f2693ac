"""Elsewhere: a machine's own failure beside a process of another machine that failed before it.

What a machine's kernel tells of its GPU or its memory explains the processes of that machine. A process of another one
that failed by itself earlier, by more than the two clocks may be off, is explained by nothing that came later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Sign, Weight, with_more

OF_ONE_MACHINE = frozenset({"gpu_hardware", "host_oom"})
"""What a machine's kernel tells of itself at the instant at which it happens."""
OF_A_PROCESS = frozenset(
    {"user_exception", "gpu_oom", "data_loader", "checkpoint_io", "checkpoint_corrupt", "configuration", "crash"}
)
"""What a process does to itself: no failure of another machine makes it do so before that failure."""


def before_elsewhere(
    case: Case, found: Sequence[tuple[CauseRule, Match]], rule: CauseRule, match: Match
) -> tuple[CauseRule, Match] | None:
    """What failed on one machine before another machine's kernel told of its own failure, which does not explain it.

    None where the machines are not known to differ, or where their clocks may be off by more than lies between.
    """
    told = sign_behind(case, match)
    if told is None or match.weight is not Weight.ESTABLISHED or rule.name not in OF_ONE_MACHINE:
        return None
    earlier = []
    for other_rule, other in found:
        sign = sign_behind(case, other)
        if sign is None or other.weight is not Weight.LINE or not is_elsewhere(case, sign, told, match):
            continue
        if sign.at + case.uncertainty_ns(sign, told) < told.at:
            earlier.append((sign.at, other_rule, other))
    if not earlier:
        return None
    at, other_rule, other = min(earlier, key=lambda entry: (entry[0], entry[1].name))
    apart = (told.at - at) / 1e9
    said = f"Node {match.node} ({rule.name}) followed {apart:.3f} s later: another machine, which does not explain it."
    return other_rule, replace(other, sentence=with_more(other.sentence, said))


def sign_behind(case: Case, match: Match) -> Sign | None:
    """The first sign that a conclusion rests on."""
    if not match.initiating:
        return None
    order = match.initiating[0].order()
    return next((sign for sign in case.signs if sign.item.order() == order), None)


def is_elsewhere(case: Case, sign: Sign, told: Sign, match: Match) -> bool:
    """A process that failed by itself on another machine than the one that told of its hardware or memory."""
    node = sign.node or next(
        (each.node for each in case.signs if sign.rank is not None and each.rank == sign.rank and each.node), None
    )
    if node is None or not match.node or node == match.node or sign.reading.cause not in OF_A_PROCESS:
        return False
    if sign.rank is not None and sign.rank == match.rank:
        return False
    same = (each for each in case.accusing(told.reading.cause) if each.reading.weight is Weight.ESTABLISHED)
    return all(each.node != node for each in same)
