"""A person, or a plan, stopped the attempt."""

from __future__ import annotations

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.facts import Initiator
from rerail.server.core.view import Domain


def match(case: Case) -> Match | None:
    """The attempt was stopped, not broken."""
    if not case.is_planned:
        return None
    if case.next_initiator is Initiator.OPERATOR or case.says("operator"):
        return Match(0.95, "An operator stopped it.")
    return Match(0.9, "It was restarted without any fault.")


RULE = CauseRule(
    name="operator_stop",
    domain=Domain.WORKLOAD,
    advice="Nothing to repair; planned stops are left out of rates.",
    match=match,
)
