"""A collective of NCCL ran into its time-out, and no rank is known to have failed before.

A lone time-out is never a fault of the network: a rank that did not come and a link that does not carry look the same
from here. Whose last enqueued collective is the lowest did not come to the next one.
"""

from __future__ import annotations

import re

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, line
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted

MISSING = (
    Wanted(
        "a flight recorder dump of every rank (it tells who did not join, or that all did and the link is at fault)",
        Kind.DUMPS,
        "the dumps of the ranks that left none",
    ),
)
ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (-?\d{1,12})")
HEARD = re.compile(r"due to a collective timeout from (?:this local rank| {1,3}rank (\d{1,7}))")
GROUP = re.compile(r"\[PG (?:ID )?(\d{1,9})")
MOST_NAMED = 6


def match(case: Case) -> Match | None:
    """The watchdog's line, and the rank that had issued less than the others."""
    signs = case.accusing(RULE.name)
    if not signs:
        return _by_hearsay(case)
    first = signs[0]
    operation = dict(first.reading.traits).get("operation")
    ranks = sorted({sign.rank for sign in signs if sign.rank is not None})
    waited = (
        f"{len(ranks)} ranks" if len(ranks) > MOST_NAMED else ", ".join(f"rank {rank}" for rank in ranks)
    ) or "a rank"
    sentence = f"An NCCL {operation or 'collective'} timed out ({waited} waited in vain)."
    behind = _behind(case)
    confidence, rank = 0.7, None
    if behind is not None:
        rank, work, ahead = behind
        confidence = 0.85
        sentence += f" Rank {rank} had issued collective {work} where others had issued {ahead}: it did not come."
    elif _is_level(case):
        sentence += " Every rank that spoke had issued the same collectives: the link or the kernel did not finish."
    return Match(
        confidence, sentence, rank, None, first.at, tuple(sign.item for sign in signs[:20]), MISSING, Weight.WAIT,
        first.reading.traits,
        confirming=tuple(
            sign.item for sign in case.signs if sign.reading.cause == RULE.name and not sign.accuses
        )[:50],
    )  # fmt: skip


def _by_hearsay(case: Case) -> Match | None:
    """Only those speak whom another rank's time-out made dump what they know."""
    told = next(
        (sign for sign in case.signs if sign.reading.cause == RULE.name and HEARD.search(sign.text)), None
    )  # fmt: skip
    if told is None:
        return None
    by = HEARD.search(told.text)
    waited = f"rank {by.group(1)}" if by is not None and by.group(1) else "a rank"
    return Match(
        0.5, f"A collective timed out ({waited} waited in vain, as others tell).", None, None, told.at, (told.item,),
        MISSING, Weight.WAIT,
    )  # fmt: skip


def _enqueued(case: Case) -> dict[str, dict[int, int]]:
    """Group → rank → the last collective it had issued."""
    found: dict[str, dict[int, int]] = {}
    for sign in case.signs:
        if sign.reading.cause != RULE.name or sign.rank is None:
            continue
        told = ENQUEUED.search(sign.text)
        if told is not None:
            group = GROUP.search(sign.text)
            ranks = found.setdefault(group.group(1) if group else "", {})
            ranks[sign.rank] = max(int(told.group(1)), ranks.get(sign.rank, -1))
    return found


def _behind(case: Case) -> tuple[int, int, int] | None:
    """The one rank that had issued less than all others of its group: `(rank, its last, the others' last)`."""
    for ranks in _enqueued(case).values():
        if len(ranks) < 2:
            continue
        lowest = min(ranks.values())
        slow = [rank for rank, work in ranks.items() if work == lowest]
        if len(slow) == 1 and max(ranks.values()) > lowest:
            others = min(work for rank, work in ranks.items() if rank != slow[0])
            if others > lowest:
                return slow[0], lowest, others
    return None


def _is_level(case: Case) -> bool:
    groups = [ranks for ranks in _enqueued(case).values() if len(ranks) > 2]
    return bool(groups) and all(len(set(ranks.values())) == 1 for ranks in groups)


RULE = CauseRule(
    name="nccl_timeout",
    domain=Domain.UNKNOWN,
    advice="Find the rank that did not join: its stack, its data loader, its GPU; only then suspect the network.",
    match=match,
    order=32,
    lines=(
        line(
            r"Watchdog caught collective operation timeout: WorkNCCL\((?:"
            r"[^)\n]{0,120}?OpType=(?P<operation>\w{1,60}))?[^)\n]{0,200}"
            r"|Watchdog caught collective operation timeout|\bTimeout at NCCL work: \d{1,12}",
            confidence=0.7,
            weight=Weight.WAIT,
        ),
        line(r"due to a collective timeout from (?:this local rank| {1,3}rank \d{1,7})", role=CausalRole.CASCADE),
        line(
            r"failure detected by watchdog at work"
            r"|Exception \(either an error or timeout\) detected by watchdog"
            r"|Stack trace of the failed collective|last enqueued (?:NCCL )?work",
            role=CausalRole.CONFIRMATION,
        ),
        line(
            r"First PG on this rank to signal dumping"
            r"|Observed flight recorder dump signal|preparing to dump debug info",
            role=CausalRole.CASCADE,
        ),
        line(
            r"Some NCCL operations have failed or timed out"
            r"|To avoid data inconsistency, we are taking the entire process down",
            role=CausalRole.TEARDOWN,
        ),
    ),
)
