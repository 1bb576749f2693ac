"""A worker was killed with SIGKILL and nobody says by whom."""

from __future__ import annotations

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line, who
from rerail.server.core.exit_words import exits, signalled
from rerail.server.core.view import Domain
from rerail.server.core.wanted import Kind, Wanted

KILLED = frozenset({-9, 137})
MISSING = (
    Wanted("the kernel log of its node (an OOM kill says so there)", Kind.KERNEL_LOG),
    Wanted("the scheduler's events", Kind.SCHEDULER),
    Wanted("who sent the signal"),
)
TRAITS = (("signal", "SIGKILL"),)


def match(case: Case) -> Match | None:
    """The earliest exit by SIGKILL."""
    told = tuple(sign.item for sign in case.signs if sign.reading.cause == RULE.name)
    for worker in case.exits:
        if worker.exit_code in KILLED:
            rank = worker.rank if worker.rank >= 0 else None
            how = "was killed with SIGKILL" if worker.exit_code == -9 else "exited with 137, as after SIGKILL"
            return Match(
                0.8, f"{case.who_ended(worker)} {how}; nothing says by whom.", rank, case.node_of(worker), worker.at,
                initiating=_of(case, rank, told), missing_evidence=MISSING, traits=TRAITS,
            )  # fmt: skip
    for rank, code in case.exit_codes:
        if code in KILLED:
            return Match(
                0.8, f"{who(rank)} was killed with SIGKILL; nothing says by whom.", rank, initiating=told[:1],
                missing_evidence=MISSING, traits=TRAITS,
            )  # fmt: skip
    found = from_lines(case, RULE)
    if found is not None:
        return Match(
            found.confidence, found.sentence, found.rank, found.node, found.at, found.initiating, MISSING,
            found.weight, found.traits,
        )  # fmt: skip
    reason = case.says("sigkill")
    if reason:
        return Match(0.6, f"Reported as SIGKILL ({reason}).", missing_evidence=MISSING, traits=TRAITS)
    return None


def _of(case: Case, rank: int | None, told: tuple[TimedEvidence, ...]) -> tuple[TimedEvidence, ...]:
    """The line that tells of this exit, else the first that tells of any."""
    mine = [sign.item for sign in case.signs if sign.reading.cause == RULE.name and sign.rank == rank]
    return tuple(mine[:1]) or told[:1]


RULE = CauseRule(
    name="sigkill",
    domain=Domain.UNKNOWN,
    advice="Check the node's kernel log for the OOM killer and the scheduler for an eviction.",
    match=match,
    order=42,
    lines=(
        line(
            r"\btask (?P<task>\d{1,7}): Killed\b"
            r"|process rank (?P<rank>\d{1,7}) with PID[^\n]{0,120}exited on signal 9\b"
            rf"|exits with return code = -9\b|{exits('-9|9|137', group='rank_')}|{signalled('SIGKILL', 'Killed')}"
            r"|^Killed\s{0,80}$",
            "{where} was killed with SIGKILL; nothing says by whom.",
            confidence=0.8,
        ),
        line(
            r"\[rank: (?P<rank>\d{1,7})\] Child process with PID \d{1,10} terminated with code -9\b",
            "{where} was killed with SIGKILL; nothing says by whom.",
            confidence=0.8,
        ),
        line(
            r"\(exitcode: (?:-9|137)\)|exitcode\s{0,4}: (?:-9|137) "
            r"|Signal 9 \(SIGKILL\) received by PID \d{1,10}|killed by signal 9\b"
            r"|exited (?:with|on) signal 9\b|died with <Signals\.SIGKILL: 9>"
            r"|exit(?:ed)? (?:with )?code (?:137|-9)\b",
            "{where} was killed with SIGKILL; nothing says by whom.",
            confidence=0.8,
        ),
        line(
            r"The actor died unexpectedly before finishing this task|died unexpectedly while executing this task"
            r"|A worker died or was killed while executing a task[^\n]{0,60}|\bWorkerCrashedError\b"
            r"|\b(?!0 )\d{1,6} Workers crashed due to other reasons"
            r"|Worker unexpectedly exits with a connection error code \d{1,3}",
            "A worker of Ray went away without a word; Ray names what it may have been, and does not know which.",
            confidence=0.6,
            weight=Weight.WAIT,
        ),
        line(
            r"Interruption\.TERMINATED (?:affecting ranks |on ranks=)\{(?P<rank>\d{1,7})",
            "{where} went away without a word: its process was gone when the monitor looked.",
            confidence=0.7,
        ),
    ),
)
