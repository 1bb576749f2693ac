"""Rates: how often a run fails, with what that number is worth.

Rules
- A fault is an unplanned incident. Relaunches that die before the ground is regained are told apart: they are the same
  fault.
- Up-time is elapsed time without the down-time that followed faults. MTTF = up-time ÷ faults, MTBF = elapsed ÷ faults.
- The limits are the exact Poisson ones (`statistics.py`). Without a fault there is no mean, only a bound.
- The rate per node counts the up-time of every node; where the number of nodes of any attempt is unknown, so is it.
  Nodes that change are averaged over the lengths of the attempts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.statistics import poisson_interval
from rerail.server.core.view import Account, Attempt, FailureRates

DAY_NS = 86_400 * 10**9


def failure_rates(account: Account, attempts: Sequence[Attempt], faults: int, nodes: int | None) -> FailureRates:
    """Rates over a whole life. `nodes` are those of the run, where an attempt does not say its own."""
    low, high = poisson_interval(faults)
    up_ns = account.elapsed_ns - account.faults_ns
    node_ns = _node_ns(account.end, up_ns, attempts, nodes)
    return FailureRates(
        faults=faults,
        up_ns=up_ns,
        elapsed_ns=account.elapsed_ns,
        node_ns=node_ns,
        mttf_ns=_per_fault(up_ns, faults),
        mttf_low_ns=_per_fault(up_ns, high),
        mttf_high_ns=_per_fault(up_ns, low),
        mtbf_ns=_per_fault(account.elapsed_ns, faults),
        per_1000_node_days=_per_1000_node_days(faults, node_ns),
        per_1000_node_days_low=_per_1000_node_days(low, node_ns),
        per_1000_node_days_high=_per_1000_node_days(high, node_ns),
    )


def _node_ns(end: int, up_ns: int, attempts: Sequence[Attempt], nodes: int | None) -> int | None:
    weighted = total = 0
    for index, attempt in enumerate(attempts):
        until = attempts[index + 1].started_at if index + 1 < len(attempts) else end
        held = len(attempt.nodes) or nodes
        if held is None:
            return None
        length = max(0, until - attempt.started_at)
        weighted += held * length
        total += length
    return up_ns * weighted // total if total else None


def _per_fault(length_ns: int, faults: float) -> int | None:
    return round(length_ns / faults) if faults else None


def _per_1000_node_days(faults: float, node_ns: int | None) -> float | None:
    return faults * 1000 * DAY_NS / node_ns if node_ns else None
