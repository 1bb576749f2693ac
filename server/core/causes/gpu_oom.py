"""A GPU ran out of memory."""

from __future__ import annotations

import re

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain

LINES = re.compile(r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|HIP out of memory")


def match(case: Case) -> Match | None:
    """An out-of-memory exception of the device allocator."""
    for item in case.evidence:
        if LINES.search(item.evidence.text):
            rank = item.evidence.rank
            where = f"Rank {rank}" if rank is not None else "A rank"
            return Match(0.95, f"{where} ran out of GPU memory.", rank, item.evidence.node, item.at, initiating=(item,))
    return None


RULE = CauseRule(
    name="gpu_oom",
    domain=Domain.WORKLOAD,
    advice="Lower the micro-batch or sequence length, or find what grew; a restart meets the same memory.",
    match=match,
)
