"""A GPU failed: memory that cannot be corrected, or a device that is no longer there."""

from __future__ import annotations

import re

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain

LINES = re.compile(r"(?i)uncorrectable ECC error|fallen off the bus|GPU is lost|CUDA error: hardware stack error")
"""What the driver, the runtime and the kernel say of it. A code of the kernel log (Xid) alone is not judged here."""


def match(case: Case) -> Match | None:
    """The earliest line that tells of a failed device; the exception around it is how the program met it."""
    for item in case.evidence:
        found = LINES.search(item.evidence.text)
        if found is None:
            continue
        rank, node = item.evidence.rank, item.evidence.node
        where = f"the GPU of rank {rank}" if rank is not None else "a GPU"
        at = f" on {node}" if node else ""
        return Match(
            0.95,
            f"{where[0].upper()}{where[1:]}{at} failed: {found.group(0)}.",
            rank,
            node,
            item.at,
            initiating=(item,),
            missing_evidence=None if node else "The kernel log of the node (NVRM: Xid …).",
        )
    return None


RULE = CauseRule(
    name="gpu_hardware",
    domain=Domain.INFRASTRUCTURE,
    advice="Drain the node, reset or replace the GPU, and restart without it; the same GPU will fail again.",
    match=match,
)
