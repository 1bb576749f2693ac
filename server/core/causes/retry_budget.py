"""No restart was left, or the launcher decided against one: why the run ended, seldom why the attempt failed.

A container that Kubernetes starts again and again, later each time, spends a budget, too: each start failed, and why is
told by its own log.
"""

from __future__ import annotations

from rerail.server.core.cause_rules import CauseRule, Weight, line
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Wanted

SAYS = "No restart was left ({words})."

RULE = CauseRule(
    name="retry_budget",
    domain=Domain.UNKNOWN,
    advice="Look at the causes of the attempts before it: they spent the budget.",
    order=44,
    settles=(Wanted("what ended the attempts that spent it (of a container: `kubectl logs --previous`)"),),
    lines=(
        line(
            r"EARLY TERMINATION: [^\n]{0,160}|must not be restarted[^\n]{0,80}"
            r"|no more restarts will be attempted|BackoffLimitExceeded[^\n]{0,60}"
            r"|PodFailurePolicy\b[^\n]{0,160}|FailJobSetFailurePolicyAction[^\n]{0,120}"
            r"|MaxFailedIndexesExceeded[^\n]{0,80}|RequeuingLimitExceeded[^\n]{0,80}"
            r"|ReachedMaxRestarts[^\n]{0,60}"
            r"|(?:max|maximum)[ _]?(?:number of )?restarts?[^\n]{0,30}(?:reached|exceeded|exhausted)[^\n]{0,60}"
            r"|RestartAbort\([^\n]{0,160}|reached the specified backoff limit"
            r"|NoRestartRequested[^\n]{0,80}"
            r"|retry (?:budget|limit)[^\n]{0,30}(?:spent|exhausted|exceeded)[^\n]{0,60}",
            SAYS,
            confidence=0.5,
            weight=Weight.ECHO,
        ),
        line(
            r"[Bb]ack-off (?:\d{1,3}[hms]){0,3} ?restarting failed container[^\n]{0,80}|\bCrashLoopBackOff\b",
            "A container failed again after each of its starts ({words}); why is not told.",
            confidence=0.4,
            weight=Weight.ECHO,
        ),
        line(r"made NO progress[^\n]{0,120}", role=CausalRole.CONFIRMATION),
    ),
)
