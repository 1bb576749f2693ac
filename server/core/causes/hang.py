"""A rank stopped making progress and a monitor's time-out ended the attempt.

The exit codes that follow (mostly −9, the monitor's own signal) are consequences. In a collective every rank waits, so
the rank that a time-out names is a victim as often as it is the culprit: no rank is blamed here.
"""

from __future__ import annotations

import re

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain

TIMEOUT_LINES = re.compile(
    r"Did not get (initial|subsequent) heartbeat|Section '[^']*' has been open for|Was out of section for"
    r"|Interruption\.(SOFT_TIMEOUT|HARD_TIMEOUT|UNRESPONSIVE)|FT timeout elapsed",
    re.IGNORECASE,
)


def match(case: Case) -> Match | None:
    """A monitor's time-out, or somebody who says that it hung."""
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
