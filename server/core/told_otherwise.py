"""What facts that are no lines tell of an interruption: exits, lost nodes, notices, the scheduler's words.

They stand in the fault trace beside the lines: a reader asks what happened, not in which kind of fact it was told.

Rules
- A lost node accuses where the verdict blames it. An exit confirms where it is the culprit's; ended by SIGTERM it is
  teardown; any other after the fault began is a consequence.
- A notice and a scheduler's word inform, unless the verdict rests on nothing else.
- Of a thousand exits with one code the first are kept and the rest are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rerail.server.core.attempt_record import WorkerExit
from rerail.server.core.cause_rules import Case, Match
from rerail.server.core.view import CausalRole, EvidenceLine
from rerail.server.core.words import exit_code

KEPT_EXITS = 4
MOST_TOLD = 50
TERMINATED = frozenset({-15, 143})
SCHEDULED = frozenset({"preempted", "node_fail", "timeout", "cancelled", "out_of_memory", "evicted", "requeued"})
"""Scheduler states that say something about an end."""


def told_otherwise(case: Case, match: Match | None) -> tuple[EvidenceLine, ...]:
    """A line for each, unordered."""
    since = None if match is None else match.at
    return (*_nodes(case, match), *_exits(case, match, since), *_notices(case), *_scheduler(case, match))


def _nodes(case: Case, match: Match | None) -> Iterator[EvidenceLine]:
    for at, node in sorted(set(case.lost_nodes))[:MOST_TOLD]:
        role = CausalRole.UNKNOWN
        if match is not None and match.node == node:
            role = CausalRole.CONFIRMATION if match.initiating else CausalRole.INITIATING
        named = f"Node {node}" if node else "A node"
        yield EvidenceLine(at, "node state", f"{named} was lost.", role, node=node or None)


def _exits(case: Case, match: Match | None, since: int | None) -> Iterator[EvidenceLine]:
    by_code: dict[int, list[WorkerExit]] = {}
    for worker in sorted(case.exits):
        if worker.exit_code:
            by_code.setdefault(worker.exit_code, []).append(worker)
    for code, workers in by_code.items():
        blamed = [each for each in workers if match is not None and each.rank == match.rank]
        kept = [*blamed[:1], *(each for each in workers if each not in blamed)][:KEPT_EXITS]
        for worker in kept:
            who = f"Rank {worker.rank}" if worker.rank >= 0 else "A worker"
            killed = ", out of memory" if worker.oom_killed else ""
            yield EvidenceLine(
                worker.at,
                "exit",
                f"{who} ended with exit code {exit_code(code)}{killed}.",
                _role_of(worker, match, since),
                rank=worker.rank if worker.rank >= 0 else None,
                node=worker.node or None,
                code=str(code),
            )
        if len(workers) > len(kept):
            more = f"{len(workers) - len(kept)} more workers ended with exit code {exit_code(code)}."
            yield EvidenceLine(workers[-1].at, "exit", more, _role_of(workers[-1], match, since), code=str(code))


def _role_of(worker: WorkerExit, match: Match | None, since: int | None) -> CausalRole:
    if match is not None and match.rank is not None and worker.rank == match.rank:
        return CausalRole.CONFIRMATION
    if worker.exit_code in TERMINATED:
        return CausalRole.TEARDOWN
    return CausalRole.CASCADE if since is not None and worker.at >= since else CausalRole.UNKNOWN


def _notices(case: Case) -> Iterator[EvidenceLine]:
    told: Sequence[tuple[int, str]] = sorted(set(case.noticed_by))
    for at, by in told[:KEPT_EXITS]:
        yield EvidenceLine(at, "notice", f"Noticed ({by}).", CausalRole.INFORMATIONAL)


def _scheduler(case: Case, match: Match | None) -> Iterator[EvidenceLine]:
    rests_on_it = match is not None and not match.initiating
    for at, state in case.scheduler_told[:MOST_TOLD]:
        if state in SCHEDULED:
            role = CausalRole.CONFIRMATION if rests_on_it else CausalRole.INFORMATIONAL
            yield EvidenceLine(at, "scheduler", f"The scheduler said: {state}.", role)
