"""Steadiness: the leading attempts of a run of which nothing can have changed since the view before.

A step more changes the last attempt. With thousands of attempts before it, looking at each of them again would cost
more than the step itself; so whoever makes something of every attempt keeps it for the steady ones.

Rules
- Steady is an attempt that is not the last, whose record and whose successor's record took no fact, in a run whose
  other facts (GPUs, schedulers, windows out of account) and whose beginning are what they were.
- Where it is not certain, none is steady: then everything is looked at again, which is never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.gathering import Gathering
from rerail.server.core.life import Life


@dataclass(frozen=True, slots=True)
class Steadiness:
    """What a view was made of, as far as it bears on attempts that are over."""

    records: Sequence[AttemptRecord] = ()
    """The list itself: it is made anew whenever the order of attempts may have changed."""
    versions: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    run_wide: tuple[object, ...] = ()
    """What bears on every attempt: where the life starts, windows, GPUs, schedulers, clocks, what the run is."""
    life_end: int = 0

    @classmethod
    def of(cls, gathering: Gathering, records: Sequence[AttemptRecord], life: Life) -> Self:
        """As of now."""
        return cls(
            records,
            tuple(record.version for record in records),
            tuple(record.started_at for record in records),
            (
                gathering.gatherings,
                gathering.run_wide.version,
                len(gathering.run_wide.started),
                gathering.clock_errors,
                life.start,
            ),
            life.end,
        )

    def steady_since(self, before: Steadiness) -> int:
        """How many leading attempts are steady since the view before."""
        if (
            self.records is not before.records
            or self.run_wide != before.run_wide
            or self.starts != before.starts
            or self.life_end < before.life_end
        ):
            return 0
        changed = next(
            (
                number
                for number, pair in enumerate(zip(self.versions, before.versions, strict=True))
                if pair[0] != pair[1]
            ),
            len(self.versions),
        )
        # What begins after the instant a view holds for is cut there, and moves as that instant does.
        ahead = next((number for number, start in enumerate(self.starts) if start > before.life_end), len(self.starts))
        return max(0, min(changed, ahead, len(self.starts)) - 1)
