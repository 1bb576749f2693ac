"""A machine went away."""

from __future__ import annotations

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.view import CausalRole, Domain


def match(case: Case) -> Match | None:
    """A node of the attempt was stated lost."""
    if case.lost_nodes:
        at, node = case.lost_nodes[0]
        return Match(0.95, f"Node {node or 'unknown'} was lost.", node=node or None, at=at, weight=Weight.ESTABLISHED)
    told = case.says("node_loss", "node loss", "node_fail", "node lost")
    if told:
        return Match(0.8, f"Reported as the loss of a node ({told}).", weight=Weight.ESTABLISHED)
    return from_lines(case, RULE)


SAYS = "A machine was lost: {words}."

RULE = CauseRule(
    name="node_lost",
    domain=Domain.INFRASTRUCTURE,
    advice="Drain the node and look at its kernel log before it gets work again.",
    match=match,
    order=7,
    lines=(
        line(
            r"DUE TO NODE FAILURE|Nodes? [\w.\[\],-]{1,120} not responding, setting DOWN"
            r"|NODE_FAIL\b[^\n]{0,60}|Node failure on [\w.-]{1,80}"
            r"|NodeDiedError[^\n]{0,100}|node[^\n]{0,60}marked dead[^\n]{0,40}"
            r"|NodeStatusUnknown|Kubelet stopped posting node status"
            r"|NodeNotReady[^\n]{0,80}|Node is not ready|\bNodeLost\b"
            r"|DeletionByTaintManager|TaintManagerEviction[^\n]{0,60}"
            r"|node\.kubernetes\.io/(?:unreachable|not-ready)"
            r"|keep-?alive[^\n]{0,60}(?:node|agent)[^\n]{0,40}(?:lost|expired|dead)[^\n]{0,40}",
            SAYS,
            confidence=0.93,
            weight=Weight.ESTABLISHED,
        ),
        line(
            r"(?:heartbeat|keep-?alive) (?:from|of) (?:node|agent|host)[^\n]{0,60}(?:lost|timed out|missing)"
            r"[^\n]{0,40}"
            r"|Node [\w.-]{1,80} (?:is )?(?:unreachable|lost|dead|down)\b[^\n]{0,60}"
            r"|UnhealthyNodeException[^\n]{0,100}",
            SAYS,
            confidence=0.8,
        ),
        line(r"requeue job JobId=\d{1,12} due to failure of node", role=CausalRole.CONFIRMATION),
    ),
)
