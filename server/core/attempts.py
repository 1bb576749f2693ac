"""Attempts: which life of the worker group a fact belongs to, and in which order those lives came.

Rules
- Emitters say `(job, requeue, restart, iteration)`; only this module numbers attempts, densely from 0.
- Jobs are ordered by the earliest instant their facts speak of, attempts of one job by `(requeue, restart, iteration)`.
- A part that was not told is *not known*: an unknown job is the run's only known job, or a job of its own where there
  are several; an unknown requeue or restart count is 0; a fact without an iteration belongs to the iteration that was
  alive at its instant.
- A fact that tells none of the three counts belongs to the attempt that was alive at its instant; one that falls on
  the instant where the next attempt begins belongs to the attempt that ended there.
- The scope of a restart is what its facts say; where they say nothing, it is read off the first part of the key that
  differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    Evidence,
    Exit,
    Fact,
    Heartbeats,
    PhaseSpan,
    RecoveryMark,
    Scope,
    Steps,
)

ATTEMPT_FACTS: tuple[type[Fact], ...] = (
    AttemptStarted,
    AttemptEnded,
    PhaseSpan,
    Steps,
    CheckpointMoment,
    CheckpointLoaded,
    RecoveryMark,
    Exit,
    Heartbeats,
    Evidence,
)
"""Kinds that are about one attempt. The others are about the run, a machine or an emitter."""

FOUNDING_FACTS: tuple[type[Fact], ...] = ATTEMPT_FACTS[:7]
"""Kinds whose key alone proves that an attempt existed. Evidence and beats may trail behind under an old or odd key."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """Where in the run an attempt is, as emitters say it."""

    requeue: int
    restart: int
    iteration: int


@dataclass(frozen=True, slots=True)
class StatedKey:
    """The key as one fact tells it; None where it does not."""

    job: str | None
    requeue: int | None
    restart: int | None
    iteration: int | None

    @property
    def is_empty(self) -> bool:
        """Nothing was told that could tell attempts of one job apart."""
        return self.requeue is None and self.restart is None and self.iteration is None

    @property
    def founds(self) -> AttemptKey:
        """The attempt that must exist when a founding fact says so."""
        return AttemptKey(self.requeue or 0, self.restart or 0, self.iteration or 0)


def stated_key(fact: Fact) -> StatedKey:
    """The key a fact tells."""
    return StatedKey(fact.job, fact.requeue, fact.restart, fact.iteration)


def scope_between(before_job: str | None, before: AttemptKey, after_job: str | None, after: AttemptKey) -> Scope:
    """How much must have been restarted for the key to change like this."""
    if before_job != after_job:
        return Scope.RESUBMIT
    if before.requeue != after.requeue:
        return Scope.REQUEUE
    if before.restart != after.restart:
        return Scope.IN_JOB
    return Scope.IN_PROCESS
