"""Stepped on: a monitor killed the ranks for want of a sign of life although they went on completing steps.

Rules
- What a monitor waited is what it says itself: `Waited 600.00 seconds`, `has been open for 600.3 seconds`. A line
  without a length says nothing here.
- The steps are those that the run is known by: of its slowest rank where all report, else of the rank that does.
- In a hang the last completed step lies about as far back as that wait. Where it lies in the second half of it, ranks
  worked while the monitor waited: what failed is the sign of life (a client that sends none, a section that was never
  closed), or the time-out.
- Dumps that name a rank that did not arrive know better than steps of others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.view import Attempt, CausalRole, Incident
from rerail.server.core.words import duration

_WAITED = re.compile(
    r"Did not get (?:initial|subsequent) heartbeat\. Waited (?P<waited>\d{1,9}(?:\.\d{1,6})?) seconds"
    r"|Section '[^'\n]{1,120}' has been open for (?P<open>\d{1,9}(?:\.\d{1,6})?) seconds"
    r"|Was out of section for (?P<outside>\d{1,9}(?:\.\d{1,6})?) seconds"
)


@dataclass(frozen=True, slots=True)
class SteppedOn:
    """A kill that steps contradict."""

    attempt: int
    at: int
    """When the monitor said that its patience was over."""
    waited_ns: int
    gap_ns: int
    """From the last completed step to the kill."""

    @property
    def sentence(self) -> str:
        """What a person should know of it."""
        return (
            f"Steps went on until {duration(self.gap_ns)} before the kill, while the monitor waited "
            f"{duration(self.waited_ns)} for a sign of life: the ranks were not hung."
        )


def stepped_on(incident: Incident, attempts: Sequence[Attempt]) -> SteppedOn | None:
    """The kill that began an incident, where completed steps contradict that the ranks hung; else None."""
    if incident.is_planned or incident.verdict.cause != "hang":
        return None
    if incident.flight_recorder is not None and incident.verdict.culprit_rank is not None:
        return None
    number = incident.attempts[0]
    first = next((each for each in attempts if each.number == number), None)
    if first is None or not first.step_count or first.last_step is None:
        return None
    for each in sorted(incident.evidence, key=lambda each: each.at):
        found = None if each.role is CausalRole.TEARDOWN else _WAITED.search(each.text)
        if found is None or (first.ended_at is not None and each.at > first.ended_at):
            continue
        waited = round(float(next(told for told in found.groups() if told is not None)) * 1e9)
        gap = max(0, each.at - incident.started_at)
        return SteppedOn(number, each.at, waited, gap) if gap * 2 <= waited else None
    return None
