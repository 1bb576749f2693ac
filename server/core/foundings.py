"""Foundings: which attempts the facts of a run prove, kept up as they come in.

Rules
- A fact that tells its iteration proves that attempt.
- One without an iteration proves the first iteration of its launch, but only where it is older than every fact of that
  launch that tells one.
- One without any count proves a first attempt, but only where it is older than everything that tells more, and only of
  the job that was told of first.
- The answer depends only on the set of facts. `note` says when a fact may have changed it, so that all are gathered
  anew; facts that come in order change nothing.
"""

from __future__ import annotations

from rerail.server.core.attempts import AttemptKey, StatedKey
from rerail.server.core.facts import (
    AttemptStarted,
    Evidence,
    Fact,
    Heartbeats,
    MarkStage,
    Phase,
    PhaseSpan,
    RecoveryMark,
)

Group = tuple[str | None, int, int]
"""`(job, requeue, restart)`: one launch, whose iterations are told apart or not."""


class OwnBeginning:
    """Where an attempt begins by the facts that name it alone."""

    __slots__ = ("_first", "_rank_started", "_rendezvous", "_started")

    def __init__(self) -> None:
        self._rendezvous: int | None = None
        self._started: int | None = None
        self._rank_started: int | None = None
        """By a rank of an iteration; see `AttemptRecord.started_at`."""
        self._first: int | None = None

    def prove(self, at: int) -> None:
        """It is proven to have been there at an instant, by whatever facts."""
        self._first = at if self._first is None else min(self._first, at)

    def take(self, fact: Fact, at: int, effect_at: int) -> None:
        """One fact that names the attempt, its instant, and the earliest one it tells of."""
        if isinstance(fact, AttemptStarted):
            self._started = at if self._started is None else min(self._started, at)
            if fact.iteration and fact.rank is not None:
                self._rank_started = at if self._rank_started is None else min(self._rank_started, at)
        begins = isinstance(fact, RecoveryMark) and fact.stage is MarkStage.RENDEZVOUS_STARTED
        if begins or (isinstance(fact, PhaseSpan) and fact.phase is Phase.RENDEZVOUS and fact.start is not None):
            self._rendezvous = effect_at if self._rendezvous is None else min(self._rendezvous, effect_at)
        waits = isinstance(fact, PhaseSpan) and fact.phase is Phase.QUEUED
        if not waits and not isinstance(fact, (Evidence, Heartbeats)):
            self.prove(effect_at)

    @property
    def at(self) -> int | None:
        """Its rendezvous, or the statement that it started, or else its first fact."""
        ways = (self._rendezvous, self._rank_started, self._started, self._first)
        return next((at for at in ways if at is not None), None)


class Foundings:
    """The earliest instant that each way of counting tells of."""

    __slots__ = ("_first_keyed_at", "_keyless", "_loose", "_told", "_told_in")

    def __init__(self) -> None:
        self._told: dict[tuple[str | None, AttemptKey], int] = {}
        self._loose: dict[Group, int] = {}
        self._keyless: dict[str | None, int] = {}
        self._told_in: dict[Group, int] = {}
        """Earliest of the iterations told of a launch, the first left out: that one is what loose facts prove too."""
        self._first_keyed_at: int | None = None

    def note(self, job: str | None, key: StatedKey, at: int) -> bool:
        """Take what one fact proves. True when that may change which attempts are proven."""
        if key.is_empty:
            return self._note_keyless(job, at)
        founds = key.founds
        group = (job, founds.requeue, founds.restart)
        changes = self._note_keyed(at)
        if key.iteration is None:
            known = self._loose.get(group)
            if known is not None and known <= at:
                return changes
            self._loose[group] = at
            told = self._told_in.get(group)
            return changes or (told is not None and at < told)
        known = self._told.get((job, founds))
        if known is None or at < known:
            self._told[job, founds] = at
        if founds.iteration:
            told = self._told_in.get(group)
            if told is None or at < told:
                self._told_in[group] = at
                loose = self._loose.get(group)
                changes = changes or (loose is not None and at <= loose)
        return changes

    def _note_keyed(self, at: int) -> bool:
        before = self._first_keyed_at
        if before is not None and before <= at:
            return False
        self._first_keyed_at = at
        first = min(self._keyless.values(), default=None)
        return first is not None and at <= first and (before is None or first < before)

    def _note_keyless(self, job: str | None, at: int) -> bool:
        known = self._keyless.get(job)
        if known is not None and known <= at:
            return False
        others = [told for other, told in self._keyless.items() if other != job]
        self._keyless[job] = at
        if self._first_keyed_at is not None:
            return at < self._first_keyed_at
        return bool(others) and at <= min(others)

    def proven(self) -> dict[tuple[str | None, AttemptKey], int]:
        """Every attempt that is proven, with the earliest instant told of it."""
        proven = dict(self._told)
        for (job, requeue, restart), at in self._loose.items():
            first = AttemptKey(requeue, restart, 0)
            told = self._told_in.get((job, requeue, restart))
            if told is None or at < told:
                proven[job, first] = min(at, proven.get((job, first), at))
        if self._keyless:
            at, job = min((at, job or "") for job, at in self._keyless.items())
            owner = job if job in self._keyless else None
            if not proven or at < min(proven.values()):
                proven[owner, AttemptKey(0, 0, 0)] = at
        return proven
