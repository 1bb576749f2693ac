"""Evidence limits: which pieces of evidence of an attempt are kept, of a log that repeats itself.

Rules
- Of one attempt at most `MOST_EVIDENCE` pieces are kept, of one kind (lines that differ by numbers alone) at most
  `MOST_OF_A_KIND`.
- Beyond that of a kind, the word of a rank that is further behind than all before is kept: it may be who did not come.
- The first word of each rank's watchdog is kept in any case, up to `MOST_WAITING` ranks: who has none is looked for.
"""

from __future__ import annotations

import re

from rerail.collectors.sources.attempt_state import AttemptState

MOST_EVIDENCE = 400
"""Pieces of evidence of one attempt; a launcher that repeats itself must not fill a database."""
MOST_OF_A_KIND = 24
"""Of lines that differ by numbers alone: a storm must not drown what was said after it."""
MOST_WAITING = 1024
"""Ranks whose first word of a time-out is kept in any case: the one that has none may be who did not come."""
_NUMBER = re.compile(r"\d{1,30}")
_TIMED_OUT = re.compile(r"\[Rank (\d{1,7})\] (?:Watchdog caught collective|Timeout at NCCL)")
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (\d{1,12})")


def has_room(state: AttemptState, text: str, rank: int | None) -> bool:
    """Whether one more piece is kept: not of a kind that was told often, unless it says who is behind or is the
    first word of a rank's watchdog."""
    waits = _TIMED_OUT.search(text) if "Rank " in text else None
    is_first = False
    if waits is not None and len(state.timed_out) < MOST_WAITING:
        waiting = int(waits[1]) if rank is None else rank
        is_first = waiting not in state.timed_out
        if is_first:
            state.timed_out.append(waiting)
    told = _ENQUEUED.search(text)
    if told is not None and (state.least_enqueued is None or int(told[1]) < state.least_enqueued):
        state.least_enqueued = int(told[1])
        is_behind = state.evidence_count > 0
    else:
        is_behind = False
    kind = _NUMBER.sub("#", text[:400])[:160]
    if len(state.kinds) < 5000:
        state.kinds[kind] = count = state.kinds.get(kind, 0) + 1
    else:
        count = state.kinds.get(kind, MOST_OF_A_KIND + 1)
    if is_first and (count > MOST_OF_A_KIND or state.evidence_count >= MOST_EVIDENCE):
        return True  # not counted: what is told after them must have its room
    if state.evidence_count >= MOST_EVIDENCE or (count > MOST_OF_A_KIND and not is_behind):
        return False
    state.evidence_count += 1
    return True
