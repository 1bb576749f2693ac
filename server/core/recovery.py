"""Recovery: how long restarts took, as distributions with their n, never only as means."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.checkpoints import percentile
from rerail.server.core.view import Incident, RecoveryDistribution


def recovery_distributions(incidents: Sequence[Incident]) -> tuple[RecoveryDistribution, ...]:
    """Time to recover of the unplanned incidents that recovered, by scope and by cause."""
    groups: dict[tuple[str, str], list[int]] = {}
    for each in incidents:
        length = each.time_to_recover_ns
        if each.is_planned or length is None:
            continue
        scope = "unknown" if each.scope is None else each.scope.value
        groups.setdefault(("scope", scope), []).append(length)
        groups.setdefault(("cause", each.verdict.cause), []).append(length)
    distributions = []
    for (grouped_by, group), lengths in sorted(groups.items()):
        ordered = sorted(lengths)
        distributions.append(
            RecoveryDistribution(
                grouped_by=grouped_by,
                group=group,
                n=len(ordered),
                p50_ns=percentile(ordered, 0.5),
                p90_ns=percentile(ordered, 0.9),
                p95_ns=percentile(ordered, 0.95),
                p99_ns=percentile(ordered, 0.99),
                max_ns=ordered[-1],
            )
        )
    return tuple(distributions)
