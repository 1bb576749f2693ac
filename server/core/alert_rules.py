"""Alert rules: what one is made of, and what it finds.

Rules
- A rule looks at one run as of an instant and says what it sees: `(RunView, Thresholds) -> Iterable[Finding]`. It knows
  no clock and keeps nothing; the same view and thresholds give the same findings.
- A finding is known by its key: rule, run and subject. The subject says which of several things of one run it is about
  (a node, a phase, a fingerprint), and never holds what changes while the condition lasts.
- The mark is what the finding rests on (which incident, how many): a new one after somebody resolved it opens it again.
- Where something is not known the rule is quiet: unknown is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from rerail.server.core.view import Attempt, Incident, RunState, RunView

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR


class Severity(StrEnum):
    """How soon somebody should look."""

    URGENT = "urgent"
    """Training stands still, or what is lost grows by the minute."""
    NOTICE = "notice"
    """Worth a look in working hours."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number of a rule that people may change."""

    name: str
    default: float
    unit: str
    meaning: str
    lowest: float = 0.0
    highest: float = 1e9
    is_whole: bool = False
    """It counts something: 2.5 of it is no threshold."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The numbers in force for one rule and one run, and what other runs tell of its nodes."""

    values: Mapping[str, float]
    blamed_elsewhere: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Nodes → how many other runs blame them for a fault."""

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def ns(self, name: str) -> int:
        """A threshold of seconds in ns."""
        return round(self.values[name] * SECOND)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule sees of one run as of an instant."""

    rule: str
    run_id: str
    sentence: str
    severity: Severity
    subject: str = ""
    since: int | None = None
    """When the condition began, as far as known."""
    mark: str = ""
    incident_id: str | None = None
    """The incident it is about, whose verdict, cost and problem belong to it."""
    node: str | None = None

    @property
    def key(self) -> str:
        """Its identity over time."""
        return key_of(self.rule, self.run_id, self.subject)


def key_of(rule: str, run_id: str, subject: str) -> str:
    """The key of an alert. The run comes last: it may hold anything that can be printed."""
    key = f"{rule}:{subject.replace('%', '%25').replace(':', '%3A')}:{run_id}"
    return key.encode("utf-8", "replace").decode().replace("\0", "")


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One condition that somebody should hear of."""

    name: str
    severity: Severity
    summary: str
    """The condition in one sentence."""
    advice: str
    """What to do first."""
    find: Callable[[RunView, Thresholds], Iterable[Finding]]
    thresholds: tuple[Threshold, ...] = ()
    fewest_attempts: Callable[[Thresholds], float] = lambda _limits: 0
    """In a run of fewer attempts it finds nothing, whatever they are."""
    by_endings: bool = False
    """It looks at how attempts began and ended and at incidents alone; not at what goes on between, nor at costs."""

    def defaults(self) -> dict[str, float]:
        """Every threshold as it is unless somebody changed it."""
        return {each.name: each.default for each in self.thresholds}

    def finding(self, run: RunView, sentence: str, **known: object) -> Finding:
        """A finding of this rule."""
        return Finding(self.name, run.run_id, sentence, self.severity, **known)  # type: ignore[arg-type]


def is_open(run: RunView) -> bool:
    """Whether the run goes on, as far as anybody knows."""
    return run.state is not RunState.ENDED


def faults_of(run: RunView) -> tuple[Incident, ...]:
    """Unplanned incidents, oldest first."""
    return run.unplanned_incidents


def deaths(run: RunView) -> Iterator[Attempt]:
    """Attempts that ended before the run did without anybody wanting it, the newest first, until one held."""
    newest = True
    for attempt in reversed(run.attempts):
        if attempt.is_interrupted and not attempt.is_planned:
            yield attempt
        elif not newest or attempt.is_planned:
            return
        newest = False


def incident_of(run: RunView, attempt: int) -> Incident | None:
    """The incident that an attempt ended in."""
    return next((each for each in reversed(run.incidents) if attempt in each.attempts), None)
