"""Artefacts: which uploaded files were taken back by a person, so that their evidence no longer counts.

Rules
- Evidence names the artefact it was read from. An artefact that nobody withdrew counts.
- Of several words about one artefact the one with the latest `at` holds (then emitter, then seq), as for windows out of
  account. Facts are never deleted: what was withdrawn can be restored.
"""

from __future__ import annotations

from rerail.server.core.facts import ArtefactState, WindowState


class Artefacts:
    """What people said about the artefacts of one run, whatever the order their facts come in."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: dict[str, ArtefactState] = {}

    def take(self, fact: ArtefactState) -> None:
        """One word about one artefact."""
        known = self._latest.get(fact.artefact)
        if known is None or (known.at, known.emitter, known.seq) < (fact.at, fact.emitter, fact.seq):
            self._latest[fact.artefact] = fact

    def withdrawn(self) -> frozenset[str]:
        """Artefacts whose evidence does not count."""
        return frozenset(name for name, fact in self._latest.items() if fact.state is WindowState.WITHDRAWN)

    def state_of(self, artefact: str) -> ArtefactState | None:
        """The word about an artefact that holds; None where nobody said anything."""
        return self._latest.get(artefact)
