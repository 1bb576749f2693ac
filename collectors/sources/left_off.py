"""Left off: where what is known of a run ends, for a log of the past that does not tell an end of its own.

Rules
- A log that a program still writes is told by when it was written last, and by its last stamp: older than an hour, and
  than ten of its usual gaps, either of them says that nothing comes any more. A copy has a new time of writing.
- The run ended there, and how is unknown: a log that breaks off tells neither a failure nor a success.
- Nothing is stated where an end was told and nothing began after it, or where no attempt was told at all.
- Records of a scheduler tell of every job that there was: a run whose last one failed, completed or was stopped an hour
  ago ended with it. One that still waits or runs in them, or was requeued or preempted, is left open.
- What begins later takes it back by itself (`server/core/life.py`): a log that grew, imported again, or another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from rerail.collectors.formats import OldFile
from rerail.server.core.facts import AttemptEnded, AttemptStarted, Fact, Outcome, RunEnded, SchedulerState, Steps

LEAST_SILENCE_NS = 3600 * 10**9
USUAL_GAPS = 10
LATE_NS = 5 * 10**9
"""A last step may be stamped so long after the end that was told; it counts as before it, as the server counts it."""
MOST_GAPS = 2000
"""Of the last so many moments the usual gap is taken."""
OVER = (Outcome.COMPLETED, Outcome.FAILED, Outcome.STOPPED)
HOW = {"preempted": "been preempted", "stopped": "been stopped by somebody"}
LAST_JOB = "its last job ended so, and its scheduler's records tell of no other"
STILL_RUNNING = (
    "still counted as running: no end is told, and its last word, or the file's last change, is not an hour old; "
    "if it is over, import it again later, and the run ends where its log does (`rerail collect logs` follows one that "
    "grows)"
)
REASON = "its log ends here; nothing says how it ended"


def left_off(
    facts: Sequence[Fact], *, now: int, written_at: int | None, seq: int, run: str, emitter: str
) -> RunEnded | None:
    """The end of what `facts`, all of one run, tell; None where it is told, or may still go on.

    `now` and `written_at` in ns; the latter is None where nobody knows when the log was written last.
    """
    if not is_open(facts):
        return None
    if not is_silent(facts, now=now, written_at=written_at, least=LEAST_SILENCE_NS):
        return None
    last = max(fact.at for fact in facts)
    return RunEnded(run=run, emitter=emitter, seq=seq, at=last, outcome=None, reason=REASON)


def is_silent(facts: Sequence[Fact], *, now: int, written_at: int | None, least: int) -> bool:
    """Whether nothing comes any more of what `facts` tell: its last word, or the file, is older than `least` ns, and
    than ten of its usual gaps. `written_at` as of `left_off`."""
    moments = sorted({fact.at for fact in facts})[-MOST_GAPS:]
    gaps = sorted(later - earlier for earlier, later in pairwise(moments))
    silence = max(least, USUAL_GAPS * gaps[len(gaps) // 2] if gaps else 0)
    return now - moments[-1] > silence or (written_at is not None and now - written_at > silence)


def is_open(facts: Sequence[Fact]) -> bool:
    """Whether attempts or steps are told, and no end of the run that nothing came after."""
    begun = [fact.at for fact in facts if isinstance(fact, (AttemptStarted, AttemptEnded))]
    stepped = [fact.at - LATE_NS for fact in facts if isinstance(fact, Steps)]  # the last of them may be late
    if not (begun or stepped):
        return False
    ended = max((fact.at for fact in facts if isinstance(fact, RunEnded)), default=None)
    return ended is None or ended < max(*begun, *stepped, 0)


def with_last_jobs(facts: Iterable[Fact], old: OldFile) -> Iterator[Fact]:
    """A scheduler's records as they are, and after them the end of each run whose last job ended an hour before."""
    last: dict[str, AttemptEnded] = {}
    later: dict[str, int] = {}
    told: set[str] = set()
    for fact in facts:
        yield fact
        if isinstance(fact, AttemptEnded):
            if fact.run not in last or fact.at >= last[fact.run].at:
                last[fact.run] = fact
        elif isinstance(fact, RunEnded):
            told.add(fact.run)
        elif isinstance(fact, (AttemptStarted, SchedulerState)):
            later[fact.run] = max(fact.at, later.get(fact.run, fact.at))
    if old.now is None:
        return
    closed = 0
    for run, end in sorted(last.items()):
        goes_on = later.get(run, end.at) > end.at
        if run in told or goes_on or not is_last_end(end.outcome, end.at, now=old.now, least=LEAST_SILENCE_NS):
            continue
        closed += 1
        yield RunEnded(
            run=run, emitter="import/last-job", seq=end.at // 10**9, at=end.at, outcome=end.outcome, reason=LAST_JOB
        )
    if closed:
        what = "1 run is" if closed == 1 else f"{closed} runs are"
        old.remark(
            f"{what} taken to have ended with the last job that is told of (--still-running leaves them open; "
            "`rerail collect` follows a scheduler)"
        )


def is_last_end(outcome: Outcome | None, at: int, *, now: int, least: int) -> bool:
    """Whether a run ended with its last job, which ended so at `at`, more than `least` ns ago: one that was requeued or
    preempted comes again."""
    return outcome in OVER and now - at > least


def said(end: RunEnded, now: int) -> str:
    """What a person is told of it."""
    at = datetime.fromtimestamp(end.at // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    ago = f", {_long(now - end.at)} ago" if now > end.at else ""
    return (
        f"no end is told, and nothing came after {at}{ago}: the run is taken to have ended there, how is unknown "
        "(--still-running leaves it open; `rerail collect logs` follows a log that grows)"
    )


def said_of_ends(ends: Sequence[Fact]) -> str:
    """What a person is told of an end that its evidence alone tells."""
    over = next((fact for fact in ends if isinstance(fact, RunEnded)), None)
    how = "ended" if over is None or over.outcome is None else over.outcome.value
    return f"no line tells how it ended: by what it says last it is taken to have {HOW.get(how, how)}"


def _long(length_ns: int) -> str:
    hours = length_ns // LEAST_SILENCE_NS
    return f"{hours // 24} d {hours % 24} h" if hours >= 48 else f"{hours} h" if hours else "less than an hour"
