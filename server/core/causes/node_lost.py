"""A machine went away: it was lost from sight, or its kernel says that it cannot go on.

A machine check that its processor raised a moment before a panic is why the machine went down.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, from_sign, line
from rerail.server.core.view import CausalRole, Domain


def match(case: Case) -> Match | None:
    """A node of the attempt was stated lost, and it did not step on long afterwards."""
    lost = [(at, node) for at, node in case.lost_nodes if not case.has_survived(at)]
    found = from_lines(case, RULE)
    if lost:
        at, node = lost[0]
        resting = tuple(sign.item for sign in case.accusing(RULE.name) if sign.node == node or not sign.node)
        return Match(
            0.95, f"Node {node or 'unknown'} was lost.", node=node or None, at=at, initiating=resting[:20],
            weight=Weight.ESTABLISHED,
        )  # fmt: skip
    told = case.says("node_loss", "node loss", "node_fail", "node lost")
    if told:
        return Match(
            0.8, f"Reported as the loss of a node ({told}).", node=None if found is None else found.node,
            initiating=() if found is None else found.initiating, weight=Weight.ESTABLISHED,
        )  # fmt: skip
    panic = next((sign for sign in case.accusing(RULE.name) if PANIC.search(sign.text)), None)
    if found is not None and panic is not None and panic.at - (found.at or panic.at) <= BEFORE_NS:
        return _panicked(case, from_sign(panic, RULE, [panic]))
    if found is not None and not found.node:
        named = (
            sign.node
            for sign in case.signs
            if sign.node and sign.reading.cause == RULE.name and (sign.accuses or REMOTE in sign.text)
        )
        found = replace(found, node=next(named, found.node))
    return found


def _panicked(case: Case, found: Match) -> Match:
    """What its own hardware told a moment before, on the same machine."""
    checked = next(
        (
            sign for sign in case.signs
            if CHECK.search(sign.text) and sign.node == found.node and abs(sign.at - (found.at or 0)) <= BEFORE_NS
        ),
        None,
    )  # fmt: skip
    named = f"Node {found.node}" if found.node else "A machine"
    words = PANIC.search(found.initiating[0].evidence.text)
    said = f"{named} went down: {words[0] if words is not None else 'its kernel panicked'}"
    if checked is None:
        return replace(found, sentence=f"{said}.")
    check = CHECK.search(checked.text)
    told = check[0].strip() if check is not None else ""
    return replace(
        found, confidence=0.95, at=min(checked.at, found.at or checked.at), advice=CHECKED,
        sentence=f"{said}, after its processor had raised {told}.", initiating=(checked.item, *found.initiating),
    )  # fmt: skip


PANIC = re.compile(r"Kernel panic - not syncing(?:: [^\n]{1,80})?")
CHECK = re.compile(r"Machine Check Exception[^\n]{0,60}", re.IGNORECASE)
BEFORE_NS = 60_000_000_000
CHECKED = "Drain the node and have its processors and memory tested; the same machine will fail again."
REMOTE = "Remote daemon: "
"""How the lines of MPI's launcher go on that name the machine it lost."""
SAYS = "A machine was lost: {words}."
CHECK_SAYS = "{where} reported a fault of its processor or memory: {words}."

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
            r"|NodeDiedError[^\n]{0,100}|\bnode\b[^\n]{0,260}marked dead[^\n]{0,40}"
            r"|Host EC2 [^\n]{0,60}terminated|Raylet is terminated|raylet (?:has )?died unexpectedly"
            r"|PBS: job killed: node \d{1,6}[^\n]{0,160}"
            r"|\bits node has died\b|[Oo]wner's node has crashed"
            r"|[Tt]he node (?:\(IP: [\d.]{7,40}[^\n]{0,120}\) )?has died\b[^\n]{0,60}"
            r"|NodeStatusUnknown|Kubelet stopped posting node status"
            r"|NodeNotReady[^\n]{0,80}|Node is not ready|\bNodeLost\b"
            r"|DeletionByPodGC|NodeShutdown\b|imminent node shutdown|stopped by Kueue \(NodeFailures\)[^\n]{0,100}"
            r"|DeletionByTaintManager|TaintManagerEviction[^\n]{0,60}"
            r"|node\.kubernetes\.io/(?:unreachable|not-ready)"
            r"|keep-?alive[^\n]{0,60}(?:node|agent)[^\n]{0,40}(?:lost|expired|dead)[^\n]{0,40}",
            SAYS,
            confidence=0.93,
            weight=Weight.ESTABLISHED,
        ),
        line(
            r"Kernel panic - not syncing[^\n]{0,80}",
            SAYS,
            confidence=0.9,
            weight=Weight.ESTABLISHED,
        ),
        line(
            r"Machine Check Exception[^\n]{0,60}",
            CHECK_SAYS,
            confidence=0.7,
            weight=Weight.ESTABLISHED,
            sources=("kernel",),
            advice=CHECKED,
        ),
        line(
            r"NodeName=[\w.-]{1,100} State=(?:DOWN|FAIL|ERROR|POWERED_DOWN)\S{0,60}[^\n]{0,160}"
            r"|State=BOOT_FAIL\b[^\n]{0,80}",
            SAYS,
            confidence=0.93,
            weight=Weight.ESTABLISHED,
            sources=("slurm",),
        ),
        line(
            r"State=LAUNCH_FAILED\b[^\n]{0,80}|NodeName=[\w.-]{1,100} State=\S{1,80} Reason=Prolog error[^\n]{0,60}",
            "The job could not be started on its node, whose prolog or daemon failed: {words}.",
            confidence=0.8,
            sources=("slurm",),
            advice="Look at the log of slurmd and of the prolog on that node; Slurm drained it and may hold the job.",
        ),
        line(
            r"HyperPod UnschedulablePending(?:Replacement|Reboot)[^\n]{0,160}",
            SAYS,
            confidence=0.9,
            weight=Weight.ESTABLISHED,
            sources=("kubernetes",),
            unless=r"HyperPod[^\n]{0,300}(?:nvidia|gpu|xid|dcgm|neuron)",
        ),
        line(
            r"(?:heartbeat|keep-?alive) (?:from|of) (?:node|agent|host)[^\n]{0,60}(?:lost|timed out|missing)"
            r"[^\n]{0,40}"
            r"|Node [\w.-]{1,80} (?:is )?(?:unreachable|lost|dead|down)\b[^\n]{0,60}"
            r"|UnhealthyNodeException[^\n]{0,100}",
            SAYS,
            confidence=0.8,
        ),
        line(
            r"(?:ORTE|PRRTE|PRTE|mpirun|HNP)[^\n]{0,40} (?:has )?lost communication with a remote daemon[^\n]{0,60}",
            "MPI's launcher lost a machine from sight, or the way to it: {words}.",
            confidence=0.5,
            advice="See whether that node is up and its daemon (orted, prted) was killed; then test the way to it.",
        ),
        line(r"Remote daemon: \[[^\n]{1,80}\] on node [\w.-]{1,120}", role=CausalRole.CONFIRMATION),
        line(r"requeue job JobId=\d{1,12} due to failure of node", role=CausalRole.CONFIRMATION),
    ),
)
