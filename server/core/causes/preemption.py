"""The scheduler took the machines away."""

from __future__ import annotations

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.facts import Outcome
from rerail.server.core.view import Domain


def match(case: Case) -> Match | None:
    """The scheduler says preempted, or the attempt ended so."""
    if "preempted" in case.scheduler_states or case.outcome is Outcome.PREEMPTED:
        return Match(0.97, "The scheduler preempted the job.")
    if case.says("preempt", "evict"):
        return Match(0.9, f"The job was preempted ({case.says('preempt', 'evict')}).")
    return None


RULE = CauseRule(
    name="preemption",
    domain=Domain.INFRASTRUCTURE,
    advice="Save on the scheduler's warning signal; ask for a higher priority or accept the cost.",
    match=match,
)
