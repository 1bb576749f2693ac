"""The scheduler took the machines away.

A pod that Kubernetes evicts because its node ran short of memory or disk was not preempted: that is `host_oom` and
`checkpoint_io`.
"""

from __future__ import annotations

import re

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.evictions import EVICTED_FOR_DISK, EVICTED_FOR_MEMORY, OVER_ITS_DISK
from rerail.server.core.facts import Outcome
from rerail.server.core.view import CausalRole, Domain


def match(case: Case) -> Match | None:
    """The scheduler says preempted, or the attempt ended so."""
    if "preempted" not in case.scheduler_states and any(SHORT.search(sign.text) for sign in case.signs):
        return from_lines(case, RULE)
    if "preempted" in case.scheduler_states or case.outcome is Outcome.PREEMPTED:
        found = from_lines(case, RULE)
        told = () if found is None else found.initiating
        at = None if found is None else found.at
        return Match(0.97, "The scheduler preempted the job.", at=at, initiating=told, weight=Weight.ESTABLISHED)
    if case.says("preempt", "evict"):
        words = case.says("preempt", "evict")
        return Match(0.9, f"The job was preempted ({words}).", weight=Weight.ESTABLISHED)
    found = from_lines(case, RULE)
    if found is not None:
        return Match(
            found.confidence, found.sentence, None, found.node, found.at, found.initiating, weight=found.weight
        )
    return None


SHORT = re.compile(rf"{EVICTED_FOR_MEMORY}|{EVICTED_FOR_DISK}|{OVER_ITS_DISK}", re.IGNORECASE)
SAYS = "The scheduler took the machines away: {words}."

RULE = CauseRule(
    name="preemption",
    domain=Domain.INFRASTRUCTURE,
    advice="Save on the scheduler's warning signal; ask for a higher priority or accept the cost.",
    match=match,
    order=6,
    lines=(
        line(
            r"CANCELLED AT [^\n]{0,40}DUE TO PREEMPTION"
            r"|TERM_PREEMPT: job killed[^\n]{0,40}|preempted JobId=\d{1,12}[^\n]{0,120}"
            r"|\bPreempted(?: by |[^\n]{0,3}$)[^\n]{0,120}"
            r"|PreemptionByScheduler[^\n]{0,60}|EvictionByEvictionAPI[^\n]{0,60}"
            r"|TerminationByKubelet[^\n]{0,60}"
            r"|Workload was (?:preempted|evicted)[^\n]{0,80}"
            r"|\btermination is imminent\b[^\n]{0,60}"
            r"|spot (?:instance )?interruption[^\n]{0,80}|this job is preempted"
            r"|instance-action[\"' ]{0,2}[:=][^\n]{0,60}(?:terminate|stop|hibernate)"
            r"|compute\.instances\.preempted|TERMINATE_ON_HOST_MAINTENANCE|state[:= ]{1,3}PREEMPTED"
            r"|EventType[\"']?\s?:\s?[\"'](?:Preempt|Terminate)[\"'][^\n]{0,80}"
            r"|TPU[^\n]{0,40} (?:was|has been|is) (?:preempted|undergoing maintenance)[^\n]{0,60}"
            r"|instance[^\n]{0,30} (?:preempted|reclaimed)[^\n]{0,60}|State=PREEMPTED"
            r"|The node was low on resource[^\n]{0,80}|\bEvicted\b[^\n]{0,100}",
            SAYS,
            confidence=0.95,
            weight=Weight.ESTABLISHED,
            unless=rf"{EVICTED_FOR_MEMORY}|{EVICTED_FOR_DISK}|{OVER_ITS_DISK}"
            r"|client was evicted|Lustre|OOMKill|no preemption|may be due to a preemption|to retrieve preemption",
        ),
        line(r"Failed to retrieve preemption notice", role=CausalRole.INFORMATIONAL),
        line(
            r"preemption (?:warning|notice|signal)[^\n]{0,80}"
            r"|instance (?:is going to|will|is about to) be (?:interrupted|terminated|stopped|reclaimed|preempted)"
            r"[^\n]{0,60}"
            r"|received SIGUSR[12][^\n]{0,80}preempt",
            SAYS,
            confidence=0.85,
        ),
        line(
            r"rebalance recommendation[^\n]{0,80}|maintenance[- ]event[^\n]{0,80}"
            r"|EventType[\"']?\s?:\s?[\"'](?:Reboot|Redeploy|Freeze)[\"']",
            role=CausalRole.CONFIRMATION,
        ),
        line(r"caught signal \d{1,2}[^\n]{0,40}requeu", role=CausalRole.CONFIRMATION),
    ),
)
