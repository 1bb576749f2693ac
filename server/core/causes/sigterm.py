"""Somebody asked the launcher to stop with SIGTERM, and nobody says who.

Workers that end by −15 were ended by their launcher: that is collateral and never the cause.
"""

from __future__ import annotations

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted

MISSING = (
    Wanted("the scheduler's events", Kind.SCHEDULER),
    Wanted("the shell history of who could send signals"),
)
SCHEDULERS = frozenset({"slurm", "kubernetes"})
SENDERS = frozenset({"operator_stop", "preemption", "time_limit"})
"""Why a scheduler ends a job that runs well."""
SENT_WITHIN_NS = 120_000_000_000
"""Between the signal and the job's end lie the time it has to end, and Slurm's epilog."""


def match(case: Case) -> Match | None:
    """The launcher tells of a death signal."""
    found = from_lines(case, RULE)
    if found is None:
        return None
    return Match(
        found.confidence, found.sentence, None, found.node, found.at, found.initiating, MISSING,
        Weight.ECHO if _is_explained(case, found.at) else found.weight, (("signal", "SIGTERM"),),
    )  # fmt: skip


def _is_explained(case: Case, at: int | None) -> bool:
    """Whether a scheduler says at about that time why it ended the job: then it sent the signal."""
    return at is not None and any(
        sign.accuses
        and sign.item.evidence.source in SCHEDULERS
        and sign.reading.cause in SENDERS
        and abs(sign.at - at) <= SENT_WITHIN_NS
        for sign in case.signs
    )


RULE = CauseRule(
    name="sigterm",
    domain=Domain.UNKNOWN,
    advice="Ask the scheduler first (time limit, preemption, maintenance), then whoever can send signals on that node.",
    match=match,
    order=40,
    lines=(
        line(
            r"Received (?:15|Signals\.SIGTERM|SIGTERM|1|Signals\.SIGHUP) death signal, shutting down workers"
            r"|SignalException: Process \d{1,10} got signal: (?:15|1)\b"
            r"|(?:launcher|agent|main process)[^\n]{0,40}(?:received|caught) (?:signal )?(?:15|SIGTERM)"
            r"[^\n]{0,60}",
            "Somebody asked the launcher to stop ({words}).",
            confidence=0.75,
        ),
        line(
            r"exiting program after receiving SIG(?:TERM|HUP|USR[12])",
            "Somebody asked the program to stop, and it did ({words}).",
            confidence=0.75,
        ),
        line(
            r"slurmstepd[^\n]{0,60}\*{3} (?:JOB|STEP) [\d.]{1,16} ON [\w.-]{1,80} CANCELLED AT [^\n]{0,40}",
            "The job was cancelled ({words}).",
            confidence=0.7,
            unless=r"DUE TO",
        ),
        line(
            r"closing signal SIG(?:TERM|INT|KILL)|Signal 15 \(SIGTERM\) received"
            r"|exitcode\s{0,4}: -15|\(exitcode: -15\)|Stopping workers"
            r"|Worker group (?:UNHEALTHY|FAILED)|Stopping worker group"
            r"|forcefully (?:killing|exiting)|Job step aborted"
            r"|Killing subprocess \d{1,10}|\btasks? [\d,-]{1,60}: Terminated"
            r"|Joining cluster restart|Unable to shutdown process \d{1,10}"
            r"|Global rank \d{1,7} \(PID \d{1,10}\) (?:exited with code -15\b|has still not exited)"
            r"|Killing global rank \d{1,7}|terminated with signal SIGTERM",
            role=CausalRole.TEARDOWN,
        ),
    ),
)
