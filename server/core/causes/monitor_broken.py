"""NVRx's rank monitor no longer answers: every attempt dies at its first heartbeat, whatever the training does.

A worker that dies between connecting to its monitor and its first heartbeat leaves the monitor unusable for all later
attempts of that launcher (seen with 0.4.1, 0.6.0 and the 0.7 development tree).
"""

from __future__ import annotations

from rerail.server.core.cause_rules import Case, CauseRule, Match, from_lines, line
from rerail.server.core.view import Domain


def match(case: Case) -> Match | None:
    """The monitor's or its client's own words; no rank is to blame."""
    found = from_lines(case, RULE)
    if found is None:
        return None
    return Match(found.confidence, found.sentence, None, found.node, found.at, found.initiating, traits=found.traits)


RULE = CauseRule(
    name="monitor_broken",
    domain=Domain.INFRASTRUCTURE,
    advice="Restart the launcher itself: its monitors do not recover; then look at the attempt that broke them.",
    match=match,
    order=15,
    lines=(
        line(
            r"Unexpected _handle_msg call, current state: RankMonitorState\.ABORTED"
            r"|could not send the heartbeat[^\n]{0,80}|RankMonitorClientError[^\n]{0,120}"
            r"|Unexpected reply: None\. Expected OkMsg",
            "The launcher's rank monitor does not answer any more ({words}).",
            confidence=0.85,
        ),
    ),
)
