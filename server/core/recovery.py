"""Recovery: how long restarts took and what they cost, as distributions with their n, never only as means.

Rules
- Of unplanned incidents that are not wholly out of account. One that did not recover yet is counted, and is in no
  percentile.
- Groups: all of them; the scope of the restart that succeeded; the cause; who asked for the restart (automatic: the
  launcher, a monitor or the scheduler; manual: a person); the recovery settings in force when it began.
- Settings are named by the fingerprint of their recovery config (`recovery_configs/`), equal for equal settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rerail.server.core.facts import Initiator
from rerail.server.core.recovery_configs.normalising import fingerprint_of
from rerail.server.core.statistics import percentile
from rerail.server.core.view import Attempt, Incident, Percentiles, RecoveryDistribution

GROUPINGS = ("all", "scope", "cause", "initiator", "config")
"""What recoveries are grouped by, in the order they are shown."""

UNKNOWN = "unknown"


def recovery_distributions(
    incidents: Sequence[Incident], attempts: Sequence[Attempt]
) -> tuple[RecoveryDistribution, ...]:
    """The unplanned incidents by every grouping."""
    groups: dict[tuple[str, str], list[Incident]] = {}
    for each in incidents:
        if each.counts:
            for group in _groups_of(each, attempts):
                groups.setdefault(group, []).append(each)
    ordered = sorted(groups.items(), key=lambda entry: (GROUPINGS.index(entry[0][0]), entry[0][1]))
    return tuple(_distribution(*group, members) for group, members in ordered)


def _groups_of(incident: Incident, attempts: Sequence[Attempt]) -> Iterator[tuple[str, str]]:
    first, following = incident.attempts[0], incident.attempts[-1] + 1
    yield "all", "all"
    yield "scope", UNKNOWN if incident.scope is None else incident.scope.value
    yield "cause", incident.verdict.cause
    yield "initiator", recovered_by(attempts[following].initiator if following < len(attempts) else None)
    yield "config", config_fingerprint(attempts[first]) or UNKNOWN


def recovered_by(initiator: Initiator | None) -> str:
    """`automatic`, `manual`, or `unknown` where nobody said who asked for the restart."""
    if initiator is None:
        return UNKNOWN
    return "manual" if initiator is Initiator.OPERATOR else "automatic"


def config_fingerprint(attempt: Attempt) -> str | None:
    """Eight characters that stand for the recovery config of an attempt; None where none is known."""
    return fingerprint_of(attempt.config, attempt.launcher, attempt.versions)


def _distribution(grouped_by: str, group: str, members: Sequence[Incident]) -> RecoveryDistribution:
    dated = [each for each in members if not each.is_down_untold]
    recovered = [each for each in dated if each.time_to_recover_ns is not None]
    gpu_ns = [each.lost_gpu_ns for each in members]
    return RecoveryDistribution(
        grouped_by=grouped_by,
        group=group,
        incidents=len(members),
        failed_relaunches=sum(each.failed_relaunches for each in members),
        recover=percentiles([each.time_to_recover_ns or 0 for each in recovered]),
        restart=percentiles([each.time_to_restart_ns for each in dated if each.restarted_at is not None]),
        lost_steps=_sum_of_known([each.lost_steps for each in members]),
        lost_ns=_sum_of_known([each.lost_ns for each in members]),
        lost_gpu_ns=None if None in gpu_ns else sum(each or 0 for each in gpu_ns),
        is_loss_least=any(each.is_loss_least for each in members if each.lost_steps is not None),
    )


def _sum_of_known(values: Sequence[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known or not values else None


def percentiles(lengths_ns: Sequence[int]) -> Percentiles | None:
    """The percentiles of lengths; None where there is none."""
    if not lengths_ns:
        return None
    ordered = sorted(lengths_ns)
    return Percentiles(
        n=len(ordered),
        p50_ns=percentile(ordered, 0.5),
        p90_ns=percentile(ordered, 0.9),
        p95_ns=percentile(ordered, 0.95),
        p99_ns=percentile(ordered, 0.99),
        max_ns=ordered[-1],
    )
