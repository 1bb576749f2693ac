"""Running: from when a worker group is known to run, where nobody tells of its steps.

Rules
- A scheduler or a launcher that speaks alone sees a group begin and end and nothing between: the time in which it runs
  is not known, neither work nor loss.
- A group is known to run once all that was told of its bring-up is over: rendezvous completed, workers started,
  initialized, told phases and loads closed, queueing ended. Where nothing of a bring-up was told, from its start.
- Ranks that beat and tell of nothing else do not tell of steps either: their first beat ends what was told of bring-up,
  which nobody else ends.
- One whose bring-up is still open is not known to run, nor is one whose fault is noticed no later than that.
- A relaunch that died within `BRING_UP_NS` of that is not known to have run either, where nobody says that it was
  initialized: a launcher is done once it has started workers, and those are not done by then. So relaunches that die
  one after the other, as in a crash loop, are one incident with as many failed relaunches.

What it does not know: how long workers need from their start to their first step. Nobody tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.facts import MarkStage, Phase
from rerail.server.core.timeline import Claim

BRING_UP_NS = 30_000_000_000
"""Importing a framework, joining the other ranks and reading a checkpoint take this long, and mostly minutes."""
BRING_UP = frozenset({Phase.RENDEZVOUS, Phase.INITIALIZING, Phase.LOADING})

_STAGES_OVER = (MarkStage.RENDEZVOUS_COMPLETED, MarkStage.WORKERS_STARTED, MarkStage.INITIALIZED)


def runs_from(
    record: AttemptRecord, queue: Sequence[Claim], noticed_at: int | None, *, is_relaunch: bool = False
) -> int | None:
    """The instant from which an attempt is known to run; None where it never was.

    `queue` are the times in which it waited, as far as told; `noticed_at` is when its fault was, None without one;
    `is_relaunch`: it follows a fault, and nothing has run since.
    """
    told = [phase for phase in record.phases if phase.phase in BRING_UP]
    beat = record.heartbeat_from
    if beat is not None:
        told = [phase for phase in told if phase.start is None or phase.start >= beat]
    over = [phase.end for phase in told if phase.end is not None]
    over += [] if beat is None else [beat]
    over += [load.end for load in record.loads]
    over += [at for at in (record.marks.get(stage) for stage in _STAGES_OVER) if at is not None]
    begun = [phase.start for phase in told if phase.end is None and phase.start is not None]
    rendezvous = record.marks.get(MarkStage.RENDEZVOUS_STARTED)
    if rendezvous is not None and MarkStage.RENDEZVOUS_COMPLETED not in record.marks and beat is None:
        begun.append(rendezvous)
    at = max(over, default=record.started_at)
    if begun and (not over or at <= max(begun)):
        return None
    for wait in sorted(queue, key=lambda claim: claim.start):
        if wait.start <= at < wait.end:
            at = wait.end
    if noticed_at is None:
        return at
    is_brief = is_relaunch and MarkStage.INITIALIZED not in record.marks and noticed_at - at < BRING_UP_NS
    return None if is_brief or at >= noticed_at else at
