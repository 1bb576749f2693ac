"""A machine went away."""

from __future__ import annotations

from rerail.server.core.causes import Case, CauseRule, Match
from rerail.server.core.view import Domain


def match(case: Case) -> Match | None:
    """A node of the attempt was stated lost."""
    if case.lost_nodes:
        at, node = case.lost_nodes[0]
        return Match(0.95, f"Node {node or 'unknown'} was lost.", node=node or None, at=at)
    told = case.says("node_loss", "node loss", "node_fail", "node lost")
    if told:
        return Match(0.8, f"Reported as the loss of a node ({told}).")
    return None


RULE = CauseRule(
    name="node_lost",
    domain=Domain.INFRASTRUCTURE,
    advice="Drain the node and look at its kernel log before it gets work again.",
    match=match,
)
