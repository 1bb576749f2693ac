"""A person, or a plan, stopped the attempt."""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.facts import Initiator
from rerail.server.core.view import Domain

STEP = re.compile(r"\*{3} STEP \S{1,40} ON \S{1,120} CANCELLED AT")
"""What Slurm prints of a step that somebody cancelled, and of one that it ends because a task of it failed."""
TASK_FAILED = re.compile(
    r"\btasks? [\d,-]{1,60}: (?:Exited with exit code (?!(?:130|137|143)\b)[1-9]\d{0,2}|Segmentation fault|Bus error"
    r"|Illegal instruction|Floating point exception|Aborted|Out Of Memory)"
)
"""A task's own failure: those that a signal of the cancellation ends are `Terminated` and `Killed`."""
BESIDE_NS = 30_000_000_000
"""Tasks that do not end on SIGTERM are killed after so long (Slurm's KillWait)."""


def match(case: Case) -> Match | None:
    """The attempt was stopped, not broken."""
    told = None if _ended_by_a_task(case) else from_lines(case, RULE)
    if not case.is_planned:
        return None if told is None else replace(told, node=None)  # where it ran has no part in it
    if told is not None:
        return Match(0.95, told.sentence, initiating=told.initiating, weight=Weight.PLANNED)
    if case.next_initiator is Initiator.OPERATOR or case.says("operator"):
        return Match(0.95, "An operator stopped it.", weight=Weight.PLANNED)
    return Match(0.9, "It was restarted without any fault.", weight=Weight.PLANNED)


def _ended_by_a_task(case: Case) -> bool:
    """Slurm ended the step because a task had failed, and nothing else tells of a person.

    That a task failed is told before or, since two processes write it, a moment after the step's end.
    """
    place = next((place for place, sign in enumerate(case.signs) if sign.reading.cause == RULE.name), None)
    if place is None or any(not STEP.search(sign.text) for sign in case.accusing(RULE.name)):
        return False
    cancelled = case.signs[place]
    return any(
        sign.reading.cause != RULE.name
        and (sign.accuses or sign.reading.weight is Weight.ESTABLISHED)
        for sign in case.signs[:place]
    ) or any(
        TASK_FAILED.search(sign.text) is not None and sign.at - cancelled.at <= BESIDE_NS
        for sign in case.signs[place:]
    )  # fmt: skip


RULE = CauseRule(
    name="operator_stop",
    domain=Domain.WORKLOAD,
    advice="Nothing to repair; planned stops are left out of rates.",
    match=match,
    order=8,
    lines=(
        line(
            r"KeyboardInterrupt\b|Received (?:2|Signals\.SIGINT|SIGINT) death signal"
            r"|got signal: 2\b|scancel\b[^\n]{0,40}|CANCELLED by \d{1,10}"
            r"|CANCELLED AT \S{1,40} \*{3}|TERM_(?:FORCE_|REQUEUE_)?(?:OWNER|ADMIN): job killed[^\n]{0,60}"
            r"|req=WorkloadControlRequest[^\n]{0,160}ShutdownWorkload[^\n]{0,120}",
            "A person or a plan stopped it ({words}).",
            confidence=0.85,
            weight=Weight.LINE,
            unless=r"DUE TO|Forcing exit|DataLoader",
        ),
        line(
            r"State=CANCELLED(?: by \S{1,100})?[^\n]{0,80}",
            "A person or a plan stopped it ({words}).",
            confidence=0.85,
            sources=("slurm",),
        ),
        line(
            r"State=REQUEUED\b[^\n]{0,80}",
            "Somebody, or the job itself, asked for it to be requeued ({words}).",
            confidence=0.6,
            sources=("slurm",),
        ),
        line(
            r"Pod \S{1,300} was deleted while it ran|: (?:JobSuspended|Suspended): [^\n]{0,120}"
            r"|stopped by Kueue \((?:ClusterQueueStopped|LocalQueueStopped|Deactivated|InactiveWorkload)[^\n]{0,160}"
            r"|Workload is deactivated \([^\n]{0,160}",
            "A person or a plan stopped it ({words}).",
            confidence=0.7,
            sources=("kubernetes",),
        ),
    ),
)
