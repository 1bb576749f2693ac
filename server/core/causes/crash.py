"""A worker crashed: a segmentation fault, an abort, an illegal instruction."""

from __future__ import annotations

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain

SIGNALS = {
    -11: "a segmentation fault",
    -7: "a bus error",
    -4: "an illegal instruction",
    -8: "a floating point exception",
}


def match(case: Case) -> Match | None:
    """The earliest exit by a crash signal. An abort (−6) is often a victim's and counts less."""
    for worker in case.exits:
        rank = worker.rank if worker.rank >= 0 else None
        where = f"Rank {rank}" if rank is not None else "A worker"
        if worker.exit_code in SIGNALS:
            return Match(0.8, f"{where} died of {SIGNALS[worker.exit_code]}.", rank, worker.node or None, worker.at)
    for worker in case.exits:
        if worker.exit_code == -6:
            rank = worker.rank if worker.rank >= 0 else None
            return Match(
                0.4,
                "A worker aborted; aborts are often the echo of another rank's death.",
                rank,
                worker.node or None,
                worker.at,
                missing_evidence="Exit codes and last lines of every rank.",
            )
    return None


RULE = CauseRule(
    name="crash",
    domain=Domain.UNKNOWN,
    advice="Collect a core dump or a native stack; compare driver and library versions with the last good attempt.",
    match=match,
)
