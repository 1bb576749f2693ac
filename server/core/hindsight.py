"""Hindsight: a run as its saved view tells of an earlier instant, as far as rules need it that look at endings alone.

Rules
- What had not begun by then is left out, and what had not ended goes on. Why attempts ended is told as it is known now:
  a cause that was found an hour after the fault is told of from the fault on.
- Steps, checkpoints, gaps and costs of that instant are not known from a view; what it has of them is of its own
  instant. A rule that looks at these is shown the log folded anew instead (`AlertRule.by_endings`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from rerail.server.core.view import Attempt, Incident, RunState, RunView


def as_it_was(view: RunView, at: int) -> RunView:
    """The run at an instant: its attempts, their endings, and the incidents these are of."""
    attempts = []
    over: set[int] = set()
    for attempt, end in zip(view.attempts, endings(view), strict=True):
        if attempt.started_at > at:
            break
        if end is not None and end <= at:
            over.add(attempt.number)
            attempts.append(attempt)
        else:
            attempts.append(_open(attempt))
    incidents = [_so_far(each, over, at) for each in view.incidents if each.attempts[0] in over]
    is_over = view.ended_at is not None and view.ended_at <= at
    return replace(
        view, as_of=at, attempts=tuple(attempts), incidents=tuple(incidents),
        state=view.state if is_over else RunState.ALIVE, ended_at=view.ended_at if is_over else None,
        outcome=view.outcome if is_over else None,
    )  # fmt: skip


def endings(view: RunView) -> list[int | None]:
    """When each attempt was over, at the latest when the next one began; None for one that is open."""
    ends: list[int | None] = [
        min(each.ended_at, after.started_at) if each.ended_at is not None else after.started_at
        for each, after in pairwise(view.attempts)
    ]
    return [*ends, view.attempts[-1].ended_at] if view.attempts else []


def _open(attempt: Attempt) -> Attempt:
    return replace(
        attempt, ended_at=None, noticed_at=None, outcome=None, reason=None, exit_codes=(), is_interrupted=False,
        is_planned=False,
    )  # fmt: skip


def _so_far(incident: Incident, over: set[int], at: int) -> Incident:
    if incident.attempts[-1] in over and (incident.ended_at is None or incident.ended_at <= at):
        return incident
    is_open = incident.ended_at is None or incident.ended_at > at
    return replace(
        incident, attempts=tuple(each for each in incident.attempts if each in over),
        relaunches=tuple(each for each in incident.relaunches if each.attempt in over),
        is_open=is_open, ended_at=None if is_open else incident.ended_at,
    )  # fmt: skip
