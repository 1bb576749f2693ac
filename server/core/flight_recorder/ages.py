"""Ages: dumps that are older than the interruption they are asked about.

A dump that a rank wrote when it hung ends where the rank stopped. Where the run completed steps long after the last
operation in it, or where the interruption was noticed longer after it than any time-out explains, it is of something
else: an earlier hang, or a dump that somebody asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.flight_recorder.summary import DUMP_CODE, SOURCE, SUMMARY, summary_of
from rerail.server.core.words import duration

AFTER_STEP_NS = 120_000_000_000
"""A step that ended so long after the last operation in a dump was not held up by it."""
UNTOLD_TIMEOUT_NS = 1_800_000_000_000
"""PyTorch's longest default for a collective (gloo's)."""
DOUBTED = 0.6
"""What is left of the confidence of a verdict that rests on a dump that is too old."""


def remark(age_ns: int) -> str:
    """What to say of a dump that is so much too old."""
    return f"The dump is {duration(age_ns)} older than the interruption: it may be of something else."


def waited(age_ns: int) -> str:
    """What to say of dumps after which nothing was done until the interruption was noticed, so much later."""
    return f"The dumps were made {duration(age_ns)} before the interruption was noticed."


def too_old(
    items: Iterable[TimedEvidence], last_step_at: int | None, noticed_at: int | None
) -> dict[tuple[int, str, int], int]:
    """Dumps that are too old for an interruption, by their order, with their age in ns; none where nothing tells."""
    if last_step_at is None and noticed_at is None:
        return {}
    dumps, longest = _dated(items)
    if last_step_at is not None:
        begin, allowed = last_step_at, AFTER_STEP_NS
    else:
        begin, allowed = noticed_at or 0, longest + AFTER_STEP_NS
    return {item.order(): begin - item.at for item in dumps if begin - item.at > allowed}


def said_of_age(items: Sequence[TimedEvidence], last_step_at: int | None, noticed_at: int | None) -> tuple[str, float]:
    """What to say of the age of the dumps that are judged, and what is left of the confidence in them.

    Empty and 1 where they are of the interruption's own time, or nothing tells how old they are.
    """
    ages = too_old(items, last_step_at, noticed_at)
    if ages and len(ages) == sum(item.evidence.code == DUMP_CODE for item in items):
        return remark(min(ages.values())), DOUBTED
    dumps, longest = _dated(items)
    newest = max((item.at for item in dumps), default=None)
    if noticed_at is None or newest is None or noticed_at - newest <= longest + AFTER_STEP_NS:
        return "", 1.0
    return waited(noticed_at - newest), 1.0


def _dated(items: Iterable[TimedEvidence]) -> tuple[list[TimedEvidence], int]:
    """The dumps that tell their last operation, and the longest time-out that they tell, in ns."""
    dumps = []
    longest = 0
    for item in items:
        if item.evidence.source != SOURCE or item.evidence.code != DUMP_CODE:
            continue
        told = summary_of(dict(item.evidence.attributes).get(SUMMARY, ""))
        if told is not None and told.last_at is not None:
            dumps.append(item)
            longest = max(longest, *(group.timeout_ms or 0 for group in told.groups), 0)
    return dumps, longest * 1_000_000 or UNTOLD_TIMEOUT_NS
