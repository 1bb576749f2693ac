"""Last words: lines by which a scheduler, a cloud or a coordinator says that it ends a job, whatever launched it.

Rules
- Such a line alone ends nothing yet: in the grace it is given a program may save, and a launcher may tell more. The
  attempt has ended where nothing comes after it (`Attempts.end_where_told`).
- A *notice* announces an end that may not come: steps behind it take it back. What was *ended* is over.
- Why it happened is judged where causes are; here only how the attempt ended is told: failed, preempted or stopped.
"""

from __future__ import annotations

import re

from rerail.server.core.facts import Outcome

_ENDED: tuple[tuple[re.Pattern[str], Outcome], ...] = (
    (re.compile(r"\*{3} (?:JOB|STEP) [^\n]{0,160}CANCELLED AT \S{1,40} DUE TO PREEMPTION"), Outcome.PREEMPTED),
    (re.compile(r"\*{3} (?:JOB|STEP) [^\n]{0,160}CANCELLED AT \S{1,40} DUE TO "), Outcome.FAILED),
    (re.compile(r"\*{3} (?:JOB|STEP) [^\n]{0,160}CANCELLED AT \S{1,40} \*{3}"), Outcome.STOPPED),
    (re.compile(r"TERM_(?:FORCE_|REQUEUE_)?(?:OWNER|ADMIN): job killed"), Outcome.STOPPED),
    (re.compile(r"TERM_PREEMPT: job killed"), Outcome.PREEMPTED),
    (
        re.compile(
            r"srun: error: Node failure on \S|PBS: job killed: |TERM_[A-Z]{3,20}: job (?:killed|exited)"
            r"|distributed service detected fatal errors|MPI_ABORT was invoked|ORTE has lost communication"
            r"|mpirun (?:noticed that|has exited due to) process rank"
        ),
        Outcome.FAILED,
    ),
)
_NOTICE = re.compile(
    r"instance-action\b[^\n]{0,80}(?:terminate|stop|hibernate)|[Ss]pot (?:Instance )?[Ii]nterruption (?:notice|warning)"
    r"|will be (?:preempted|reclaimed|terminated)|termination is imminent"
    r"|EventType\W{1,6}(?:Preempt|Terminate)\b"
)


def ending_of(text: str) -> tuple[Outcome, bool] | None:
    """How a line says that a job ends, and whether it is only a notice; None for any other line."""
    for pattern, outcome in _ENDED:
        if pattern.search(text):
            return outcome, False
    return (Outcome.PREEMPTED, True) if _NOTICE.search(text) else None
