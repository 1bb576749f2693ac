"""A rank stopped making progress and a monitor's time-out ended the attempt.

Flight recorder dumps name the rank that did not come, or say that none is missing, and decide where they are there.

The exit codes that follow (mostly −9, the monitor's own signal) are consequences. In a collective every rank waits, so
the rank that a time-out names is a victim as often as it is the culprit: by a time-out alone no rank is blamed.
"""

from __future__ import annotations

import re

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.causes import CASCADE_LINES, Case, CauseRule, Match
from rerail.server.core.flight_recorder.summary import SOURCE
from rerail.server.core.flight_recorder.verdict import HANG, DumpVerdict, dump_verdict
from rerail.server.core.view import Domain

TIMEOUT_LINES = re.compile(
    r"Did not get (initial|subsequent) heartbeat|Section '[^']*' has been open for|Was out of section for"
    r"|Interruption\.(SOFT_TIMEOUT|HARD_TIMEOUT|UNRESPONSIVE)|FT timeout elapsed",
    re.IGNORECASE,
)

COLLECTIVE_TIMEOUT = re.compile(
    r"Timed out waiting \d+ ?ms for (recv|send)|Watchdog caught collective operation timeout"
    r"|Application timeout caused pair closure",
    re.IGNORECASE,
)
"""What a rank prints that waited for another one until the collective's own time-out."""

FAILURE = re.compile(r"\b\w{2,60}(?:Error|Exception|Interrupt)\b|Fatal|Segmentation fault|Out of memory|Xid \(")
"""Anything that is a failure of its own."""

RELAY = re.compile(r"exitcode|closing signal|Worker group|ChildFailedError", re.IGNORECASE)


def _somebody_else_failed(case: Case, waits: tuple[TimedEvidence, ...]) -> bool:
    """Whether anything but waiting is told of a rank: a crash, a kill, an exception of its own, before the time-out."""
    first = waits[0].at
    for item in case.evidence:
        text = item.evidence.text
        if item.at <= first and not CASCADE_LINES.search(text) and not RELAY.search(text):
            return True
    return any(worker.exit_code in (-9, -11, 137) and worker.at <= first for worker in case.exits)


def _by_dumps(case: Case, told: DumpVerdict) -> Match:
    """The dumps decide, unless something else is told of the culprit: then its absence is a consequence of that."""
    waiting = (TIMEOUT_LINES, COLLECTIVE_TIMEOUT, CASCADE_LINES, RELAY)
    has_own_failure = any(
        FAILURE.search(item.evidence.text) and not any(each.search(item.evidence.text) for each in waiting)
        for item in case.evidence
        if item.evidence.source != SOURCE and (item.evidence.rank is None or item.evidence.rank == told.rank)
    )
    return Match(
        min(told.confidence, 0.6) if has_own_failure else told.confidence,
        told.sentence, told.rank, told.node, told.at, told.initiating, told.missing_evidence, told.traits,
    )  # fmt: skip


def match(case: Case) -> Match | None:
    """What the dumps say; else a monitor's time-out, or somebody who says that it hung."""
    told_by_dumps = dump_verdict(case.evidence)
    if told_by_dumps is not None and told_by_dumps.cause == HANG:
        return _by_dumps(case, told_by_dumps)
    lines = tuple(item for item in case.evidence if TIMEOUT_LINES.search(item.evidence.text))
    missing = "A flight recorder dump or per-rank step beginnings would name the rank that did not arrive."
    if lines:
        ranks = sorted({item.evidence.rank for item in lines if item.evidence.rank is not None})
        named = f" ({', '.join(f'rank {rank}' for rank in ranks)} timed out)" if ranks else ""
        after = "" if case.last_step is None else f" after step {case.last_step}"
        return Match(
            0.9,
            f"The run hung{after}: a monitor waited in vain for signs of life{named}.",
            at=lines[0].at,
            initiating=lines,
            missing_evidence=missing,
        )
    waits = tuple(item for item in case.evidence if COLLECTIVE_TIMEOUT.search(item.evidence.text))
    if waits and not _somebody_else_failed(case, waits):
        ranks = sorted({item.evidence.rank for item in waits if item.evidence.rank is not None})
        named = ", ".join(f"rank {rank}" for rank in ranks) or "a rank"
        return Match(
            0.7,
            f"A collective timed out ({named} waited in vain) and no other rank failed before: one did not arrive.",
            at=waits[0].at,
            initiating=waits,
            missing_evidence=missing,
        )
    told = case.says("hang", "heartbeat timeout", "heartbeat_timeout")
    if told:
        return Match(0.7, f"Reported as a hang ({told}).", missing_evidence=missing)
    return None


RULE = CauseRule(
    name="hang",
    domain=Domain.UNKNOWN,
    advice="Look at the rank that stopped first; compare the time-out with the longest healthy gap.",
    match=match,
)
