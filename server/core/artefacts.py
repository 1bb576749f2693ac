"""Artefacts: which uploaded files were taken back by a person, so that their evidence no longer counts.

Rules
- Evidence names the artefact it was read from. An artefact that nobody withdrew counts.
- Of several words about one artefact the one with the latest `at` holds (then emitter, then seq), as for windows out of
  account. Facts are never deleted: what was withdrawn can be restored.
"""

from __future__ import annotations

from rerail.server.core.facts import ArtefactState, Evidence, WindowState
from rerail.server.core.view import ArtefactUse


class Artefacts:
    """What people said about the artefacts of one run, whatever the order their facts come in."""

    __slots__ = ("_counts", "_latest")

    def __init__(self) -> None:
        self._latest: dict[str, ArtefactState] = {}
        self._counts: dict[str, int] = {}

    def count(self, fact: Evidence) -> None:
        """One piece of evidence; each fact once."""
        if fact.artefact is not None:
            self._counts[fact.artefact] = self._counts.get(fact.artefact, 0) + 1

    def take(self, fact: ArtefactState) -> None:
        """One word about one artefact."""
        known = self._latest.get(fact.artefact)
        if known is None or (known.at, known.emitter, known.seq) < (fact.at, fact.emitter, fact.seq):
            self._latest[fact.artefact] = fact

    def withdrawn(self) -> frozenset[str]:
        """Artefacts whose evidence does not count."""
        return frozenset(name for name, fact in self._latest.items() if fact.state is WindowState.WITHDRAWN)

    def uses(self) -> tuple[ArtefactUse, ...]:
        """Every artefact that evidence or a person names, by its name."""
        return tuple(
            ArtefactUse(
                artefact=name,
                pieces=self._counts.get(name, 0),
                is_withdrawn=latest is not None and latest.state is WindowState.WITHDRAWN,
                changed_at=None if latest is None else latest.at,
                reason=None if latest is None else latest.reason,
                author=None if latest is None else latest.author,
            )
            for name in sorted({*self._counts, *self._latest})
            for latest in (self._latest.get(name),)
        )
