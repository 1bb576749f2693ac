"""A collective of NCCL ran into its time-out, and no rank is known to have failed before.

A lone time-out is never a fault of the network: a rank that did not come and a link that does not carry look the same
from here. Whose last enqueued collective is the lowest did not come to the next one.

The one rank that did not time out where all others did, in a collective of the whole world, probably did not come. It
may have timed out, too, and been ended before it could say so: that is why it is named with a modest confidence, and
only where nothing else tells who it was. Who only heard of another rank's time-out has not timed out.
"""

from __future__ import annotations

import re

from rerail.server.core.cause_rules import Case, CauseRule, Match, Sign, Weight, line
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
ENDED = r"Terminating the process after attempting to dump debug info, due to collective timeout"
HEARD = re.compile(rf"{ENDED}|due to a collective timeout from (?:this local rank| {{1,3}}rank (\d{{1,7}}))")
GROUP = re.compile(r"\[PG (?:ID )?(\d{1,9})")
IN_GROUP = re.compile(r"\[(?:PG [^\]\n]{0,160}?)?Rank (\d{1,7})\]")
"""A rank by its place in the group that the line is about."""
WORK = re.compile(r"WorkNCCL\(SeqNum=(\d{1,12}), OpType=(\w{1,60})")
OWN = re.compile(r"detected by watchdog|\bTimeout at NCCL work|watchdog thread terminated")
"""Lines of the group that ran into its time-out; the others that name one are of the monitor, which only one has."""
WORLDS_OWN = "0"
"""The number of the group that torch makes first, of all ranks."""
MOST_NAMED = 6
LARGEST_WORLD = 100_000


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
    elif (silent := _silent(case, signs)) is not None:
        confidence, rank = (0.75, silent) if case.world_size is not None else (0.65, silent)
        sentence += (
            f" Rank {rank} is the only one of {case.world_size} that did not time out: it may not have come."
            if case.world_size is not None
            else f" Ranks 0–{ranks[-1]} but {rank} waited: rank {rank} may not have come."
        )
    elif _is_level(case):
        sentence += f" Every rank that spoke had issued the same collectives{_unheard(case, ranks)}."
    return Match(
        confidence, sentence, rank, None, first.at, tuple(sign.item for sign in signs[:20]), MISSING, Weight.WAIT,
        first.reading.traits,
        confirming=tuple(
            sign.item for sign in case.signs if sign.reading.cause == RULE.name and not sign.accuses
        )[:50],
    )  # fmt: skip


def _unheard(case: Case, ranks: list[int]) -> str:
    """Who is not known to have waited, where anybody may be; else that the wait was not for a rank."""
    silent = sorted(set(range(_least_size(case, ranks))) - set(ranks))
    if not silent:
        return ": the link or the kernel did not finish"
    if len(silent) <= MOST_NAMED:
        named = ", ".join(map(str, silent))
        return (
            f"; of rank{'s' * (len(silent) > 1)} {named} it is not known that {'they' if silent[1:] else 'it'} waited"
        )
    return f"; {len(silent)} of {_least_size(case, ranks)} are not known to have waited"


def _least_size(case: Case, ranks: list[int]) -> int:
    """How many ranks there are, at least."""
    size = case.world_size if case.world_size is not None else max(ranks, default=-1) + 1
    return min(size, LARGEST_WORLD)


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


def _silent(case: Case, signs: list[Sign]) -> int | None:
    """The one rank of the world that did not time out; None where that is not known, or does not say anything.

    Of two ranks the second is silent as often because the first one's end took it along. Where the size of the world is
    not told, it is as large as the ranks that spoke show, which leaves no rank out but one between them.
    """
    size = case.world_size
    if size is None:
        size = max((sign.rank for sign in signs if sign.rank is not None), default=-1) + 1
    if not 2 < size <= LARGEST_WORLD:
        return None
    first: dict[int, Sign] = {}
    for sign in signs:
        if sign.rank is not None:
            first.setdefault(sign.rank, sign)
    missing = set(range(size)) - first.keys()
    if len(missing) != 1 or len(first) != size - 1 or not _is_of_the_world(case, first, size):
        return None
    works = {found.groups() for sign in first.values() if (found := WORK.search(sign.text)) is not None}
    (rank,) = missing
    has_issued_as_much = any(
        rank in ranks and ranks[rank] >= max(ranks.values()) and len(ranks) > 1 for ranks in _enqueued(case).values()
    )
    return None if len(works) > 1 or has_issued_as_much else rank


def _is_of_the_world(case: Case, first: dict[int, Sign], size: int) -> bool:
    """Whether the group that timed out is of all ranks: torch's own, or one in which a rank has the last place."""
    own = [sign for sign in case.signs if sign.rank in first and OWN.search(sign.text)]
    groups = {found[1] for sign in own if (found := GROUP.search(sign.text)) is not None}
    if groups == {WORLDS_OWN}:
        return True
    places = {int(found[1]) for sign in first.values() if (found := IN_GROUP.search(sign.text)) is not None}
    return len(groups) < 2 and max(places, default=-1) == size - 1


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
        line(
            rf"{ENDED}|due to a collective timeout from (?:this local rank| {{1,3}}rank \d{{1,7}})",
            role=CausalRole.CASCADE,
        ),
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
