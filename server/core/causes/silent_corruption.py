"""A GPU computes wrongly without saying so: a check that repeats or compares found two results for one question."""

from __future__ import annotations

from rerail.server.core.cause_rules import CauseRule, line
from rerail.server.core.view import Domain

RULE = CauseRule(
    name="silent_corruption",
    domain=Domain.INFRASTRUCTURE,
    advice="Take the GPU out of use and test it; go back to a checkpoint from before the first doubt.",
    order=16,
    lines=(
        line(
            r"silent data corruption[^\n]{0,120}"
            r"|\bSDC\b[^\n]{0,20}(?:detected|suspected|found)[^\n]{0,100}"
            r"|(?:persistent|transient) error[^\n]{0,60}(?:rerun|re-run|different (?:result|gpu))[^\n]{0,80}"
            r"|(?:rerun|re-run)[^\n]{0,60}(?:not (?:the same|reproducible)|different result|mismatch)[^\n]{0,80}"
            r"|possible (?:transient|persistent) error[^\n]{0,100}"
            r"|(?:parameter|weight|gradient)s? (?:hash|checksum)e?s?"
            r"[^\n]{0,40}(?:differ|mismatch|do not match)[^\n]{0,80}"
            r"|Parameter hashes not matching[^\n]{0,80}"
            r"|(?:replicas?|data[- ]parallel ranks?)[^\n]{0,60}(?:out of sync|diverged bitwise)[^\n]{0,60}",
            "{where} computed something that a second look did not confirm: {words}.",
            confidence=0.85,
        ),
    ),
)
