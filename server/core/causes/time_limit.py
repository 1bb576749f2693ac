"""The job reached the time it was allowed."""

from __future__ import annotations

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.view import Domain


def match(case: Case) -> Match | None:
    """The scheduler's word."""
    if "timeout" in case.scheduler_states or "deadline" in case.scheduler_states:
        found = from_lines(case, RULE)
        told = () if found is None else found.initiating
        at = None if found is None else found.at
        return Match(0.95, "The job reached its time limit.", at=at, initiating=told, weight=Weight.ESTABLISHED)
    return from_lines(case, RULE)


RULE = CauseRule(
    name="time_limit",
    domain=Domain.INFRASTRUCTURE,
    advice="Save before the limit (the scheduler can send a signal ahead of it) and chain the next job.",
    match=match,
    order=5,
    lines=(
        line(
            r"CANCELLED AT [^\n]{0,40}DUE TO TIME LIMIT"
            r"|DeadlineExceeded\b(?![^\n]{0,40}(?:grpc|RPC|store))[^\n]{0,60}"
            r"|MaximumExecutionTimeExceeded"
            r"|Job (?:has )?reached (?:its )?(?:time|wall) ?limit[^\n]{0,60}"
            r"|exit(?:ing)? program after [\d.]{1,12} minutes|PBS: job killed: (?:walltime|cput)[^\n]{0,60}"
            r"|TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW): job killed[^\n]{0,60}",
            "The job reached its time limit ({words}).",
            confidence=0.95,
            weight=Weight.ESTABLISHED,
            unless=r"StatusCode|grpc",
        ),
        line(
            r"State=(?:TIMEOUT|DEADLINE)\b[^\n]{0,80}",
            "The job reached its time limit ({words}).",
            confidence=0.95,
            weight=Weight.ESTABLISHED,
            sources=("slurm",),
        ),
    ),
)
