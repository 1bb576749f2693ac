"""Blindness: when a source could not see, put together from what was stated at its beginning and at its end."""

from __future__ import annotations

from rerail.server.core.facts import Blind
from rerail.server.core.view import BlindPeriod


class BlindPeriods:
    """Periods in which sources of a run could not see, in any order of statements.

    Statements of one emitter about one source with one beginning are one period: its end is the one stated last, its
    reason the first. A period without an end is over when the same source is blind anew: it must have seen in between.
    """

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], dict[int, list[tuple[int, int, int | None, str | None, str | None]]]] = {}

    def take(self, fact: Blind, at: int, since: int, until: int | None) -> None:
        """One statement, with corrected instants."""
        of_source = self._told.setdefault((fact.emitter, fact.source), {})
        of_source.setdefault(since, []).append((at, fact.seq, until, fact.reason, fact.node))

    def periods(self) -> tuple[BlindPeriod, ...]:
        """In the order they began."""
        found = []
        for (emitter, source), of_source in sorted(self._told.items()):
            following: int | None = None
            for since in sorted(of_source, reverse=True):
                statements = sorted(of_source[since], key=lambda entry: entry[:2])
                ends = [until for _, _, until, _, _ in statements if until is not None]
                reason = next((reason for _, _, _, reason, _ in statements if reason), None)
                node = next((node for *_, node in statements if node), None)
                found.append(BlindPeriod(source, since, ends[-1] if ends else following, reason, emitter, node))
                following = since
        return tuple(sorted(found, key=lambda period: (period.since, period.source)))
