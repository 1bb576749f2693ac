"""A worker was killed with SIGKILL and nobody says by whom."""

from __future__ import annotations

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain

KILLED = frozenset({-9, 137})


def match(case: Case) -> Match | None:
    """The earliest exit by SIGKILL."""
    missing = "The kernel log (an OOM kill says so there), the scheduler's events, or who sent the signal."
    for worker in case.exits:
        if worker.exit_code in KILLED:
            rank = worker.rank if worker.rank >= 0 else None
            where = f"Rank {rank}" if rank is not None else "A worker"
            how = "was killed with SIGKILL" if worker.exit_code == -9 else "exited with 137, as after SIGKILL"
            return Match(
                0.8, f"{where} {how}; nothing says by whom.", rank, worker.node or None, worker.at,
                missing_evidence=missing,
            )  # fmt: skip
    for rank, code in case.exit_codes:
        if code in KILLED:
            return Match(
                0.8, f"Rank {rank} was killed with SIGKILL; nothing says by whom.", rank, missing_evidence=missing
            )
    told = case.says("sigkill")
    if told:
        return Match(0.6, f"Reported as SIGKILL ({told}).", missing_evidence=missing)
    return None


RULE = CauseRule(
    name="sigkill",
    domain=Domain.UNKNOWN,
    advice="Check the node's kernel log for the OOM killer and the scheduler for an eviction.",
    match=match,
)
