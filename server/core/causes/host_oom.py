"""The kernel killed a worker because the host, or its cgroup, ran out of memory."""

from __future__ import annotations

import re

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain

LINES = re.compile(r"Out of memory: Killed process|oom-kill:|Memory cgroup out of memory|OOMKilled")


def match(case: Case) -> Match | None:
    """An exit marked as an out-of-memory kill, or the kernel's own line."""
    for item in case.evidence:
        if LINES.search(item.evidence.text):
            return Match(
                0.95,
                "The kernel killed a worker: the host was out of memory.",
                item.evidence.rank,
                item.evidence.node,
                item.at,
                initiating=(item,),
            )
    for worker in case.exits:
        if worker.oom_killed:
            rank = worker.rank if worker.rank >= 0 else None
            return Match(0.95, "A worker was killed: its host was out of memory.", rank, worker.node or None, worker.at)
    return None


RULE = CauseRule(
    name="host_oom",
    domain=Domain.WORKLOAD,
    advice="Look at data loader workers and pinned memory; raise the memory limit or lower the number of workers.",
    match=match,
)
