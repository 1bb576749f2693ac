"""Alert life: from what rules see and what people do to how an alert stands.

Rules
- An alert's life is a list of events, in the order of their numbers, and nothing else. Events are never edited; an undo
  is an event of its own, and what it undoes never was.
- A rule says `fired` when the condition came (or came back, or grew after a person resolved it) and `cleared` when it
  was gone for long enough. People acknowledge, silence until an instant, end a silence, resolve, reopen, undo.
- `fired` opens what was resolved, and nothing else does: what a condition grew to before somebody resolved it is
  resolved with it, whatever it was when it fired.
- While a condition comes and goes (flaps), one episode stays open: it is cleared only after it was gone for `hold`, and
  the hold doubles with every episode of the last day, up to an hour.
- An acknowledgement belongs to an episode: when the condition comes back after it was cleared, somebody has to look
  again.
- A silenced alert is what it is, and nobody is told of it. The silence ends by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rerail.server.core.alert_rules import DAY, HOUR, SECOND, Finding

HOLD = 60 * SECOND
LONGEST_HOLD = HOUR
FLAPPING = 4
"""Episodes within a day from which on an alert is called flapping."""


class Change(StrEnum):
    """What happened to an alert."""

    FIRED = "fired"
    CLEARED = "cleared"
    ACKNOWLEDGE = "acknowledge"
    SILENCE = "silence"
    UNSILENCE = "unsilence"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    UNDO = "undo"


BY_RULES = frozenset({Change.FIRED, Change.CLEARED})


class Standing(StrEnum):
    """How an alert stands."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """One thing that happened to one alert."""

    event_id: int
    """In the order of all events; 0 before it is written down."""
    at: int
    change: Change
    key: str
    author: str | None = None
    reason: str | None = None
    until: int | None = None
    """Of a silence."""
    undoes: int | None = None
    """Number of the event that never was."""
    sentence: str | None = None
    """Of `fired`: what the rule saw."""
    mark: str | None = None
    """Of `fired`: what it rests on; of `resolve`: what it rested on by then, which is what was resolved."""


@dataclass(frozen=True, slots=True)
class Life:
    """How an alert stands, as of its last event."""

    is_firing: bool = False
    """The condition holds, as far as its rule says."""
    is_resolved: bool = True
    acknowledged_by: str | None = None
    is_acknowledged: bool = False
    silenced_until: int | None = None
    opened_at: int | None = None
    """When the episode at hand began."""
    changed_at: int | None = None
    resolved_at: int | None = None
    resolved_by: str | None = None
    """None where it went away by itself."""
    resolution: str | None = None
    mark: str = ""
    fired: tuple[int, ...] = ()
    """When its episodes began, the newest last."""
    revision: int = 0
    """Number of its newest event."""

    def standing(self, at: int) -> Standing:
        """How it stands at an instant."""
        if self.is_resolved:
            return Standing.RESOLVED
        if self.silenced_until is not None and at < self.silenced_until:
            return Standing.SILENCED
        return Standing.ACKNOWLEDGED if self.is_acknowledged else Standing.OPEN

    def episodes_since(self, at: int) -> int:
        """How many of its episodes began after an instant."""
        return sum(1 for began in self.fired if began > at)

    def is_flapping(self, at: int) -> bool:
        """Whether it comes and goes."""
        return self.episodes_since(at - DAY) >= FLAPPING

    def hold_ns(self, at: int) -> int:
        """How long the condition must be gone before it is cleared."""
        return min(LONGEST_HOLD, HOLD << min(20, max(0, self.episodes_since(at - DAY) - 1)))


def undone(events: Iterable[AlertEvent]) -> frozenset[int]:
    """Numbers of the events that never were; an undo that is undone does nothing."""
    gone: set[int] = set()
    for event in sorted(events, key=lambda each: -each.event_id):
        if event.change is Change.UNDO and event.undoes is not None and event.event_id not in gone:
            gone.add(event.undoes)
    return frozenset(gone)


def life(events: Sequence[AlertEvent]) -> Life:
    """How an alert stands after these events of it, whatever order they come in."""
    gone = undone(events)
    stands = Life()
    fired: list[int] = []
    for event in sorted(events, key=lambda each: each.event_id):
        if event.event_id not in gone and event.change is not Change.UNDO:
            if event.change is Change.FIRED and not stands.is_firing:
                fired.append(event.at)
            stands = _after(stands, event)
    newest = max(events, key=lambda each: each.event_id, default=None)
    return _with(
        stands, fired=tuple(fired), revision=0 if newest is None else newest.event_id,
        changed_at=None if newest is None else newest.at,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Episode:
    """From when an alert was opened until it was resolved."""

    start: int
    end: int | None
    """None while it is open."""
    sentence: str | None
    """What the rule saw when it opened."""
    ended_by: str | None = None
    """None where it went away by itself, or is open."""


def episodes(events: Sequence[AlertEvent]) -> tuple[Episode, ...]:
    """The episodes of one alert, oldest first. What was undone never was."""
    gone = undone(events)
    stands = Life()
    found: list[Episode] = []
    for event in sorted(events, key=lambda each: each.event_id):
        if event.event_id in gone or event.change is Change.UNDO:
            continue
        before, stands = stands, _after(stands, event)
        if before.is_resolved and not stands.is_resolved:
            found.append(Episode(event.at, None, event.sentence))
        elif found and stands.is_resolved and not before.is_resolved:
            found[-1] = replace(found[-1], end=event.at, ended_by=stands.resolved_by)
    return tuple(found)


def _after(stands: Life, event: AlertEvent) -> Life:
    match event.change:
        case Change.FIRED:
            mark = event.mark or ""
            if stands.is_resolved or not stands.is_firing:
                return _with(
                    stands, is_firing=True, is_resolved=False, mark=mark, opened_at=event.at, is_acknowledged=False,
                    acknowledged_by=None, resolved_at=None, resolved_by=None, resolution=None,
                )  # fmt: skip
            return _with(stands, mark=mark)
        case Change.CLEARED:
            if stands.is_resolved:
                return _with(stands, is_firing=False)
            return _with(
                stands, is_firing=False, is_resolved=True, resolved_at=event.at, resolved_by=None, resolution=None
            )
        case Change.ACKNOWLEDGE:
            return _with(stands, is_acknowledged=True, acknowledged_by=event.author)
        case Change.SILENCE:
            return _with(stands, silenced_until=event.until)
        case Change.UNSILENCE:
            return _with(stands, silenced_until=None)
        case Change.RESOLVE:
            return _with(
                stands, is_resolved=True, resolved_at=event.at, resolved_by=event.author or "somebody",
                resolution=event.reason, mark=stands.mark if event.mark is None else event.mark,
            )  # fmt: skip
        case Change.REOPEN:
            return _with(
                stands, is_resolved=False, opened_at=stands.opened_at or event.at, resolved_at=None, resolved_by=None,
                resolution=None, is_acknowledged=False, acknowledged_by=None,
            )  # fmt: skip
        case _:
            return stands


def _with(stands: Life, **changed: object) -> Life:
    return replace(stands, **changed)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Seen:
    """What looking at one alert once comes to."""

    change: Change | None
    """`fired`, `cleared`, or nothing that anybody need hear of."""
    absent_since: int | None
    """Since when the condition is gone, while it is not cleared yet."""


def look(stands: Life, finding: Finding | None, absent_since: int | None, at: int, *, is_over: bool = False) -> Seen:
    """Lay what a rule sees now beside how the alert stands. Looking twice at the same comes to nothing more.

    `is_over`: the run ended, so that a condition that is gone will not come back.
    """
    if finding is not None:
        if not stands.is_firing:
            return Seen(Change.FIRED, None)
        if stands.is_resolved and stands.mark != finding.mark:
            return Seen(Change.FIRED, None)
        return Seen(None, None)
    if not stands.is_firing:
        return Seen(None, None)
    since = at if absent_since is None else absent_since
    if is_over or at - since >= stands.hold_ns(at):
        return Seen(Change.CLEARED, None)
    return Seen(None, since)


def refusal_of(event: AlertEvent, events: Sequence[AlertEvent]) -> tuple[str, object, str] | None:
    """Why people cannot do this to the alert with these events: field, value, reason; None where they can."""
    stands = life(events)
    match event.change:
        case Change.SILENCE if event.until is None or event.until <= event.at:
            return "until", event.until, "a silence ends at an instant to come"
        case Change.SILENCE if event.until is not None and event.until > event.at + 366 * DAY:
            return "until", event.until, "a silence lasts a year at most; change the rule's thresholds instead"
        case Change.RESOLVE if stands.is_resolved:
            return "action", event.change.value, "it is resolved already"
        case Change.REOPEN if not stands.is_resolved or not stands.fired:
            return "action", event.change.value, "it is not resolved"
        case Change.ACKNOWLEDGE if stands.is_resolved:
            return "action", event.change.value, "it is resolved; reopen it first"
        case Change.UNSILENCE if stands.silenced_until is None:
            return "action", event.change.value, "it is not silenced"
        case Change.UNDO:
            known = {each.event_id: each for each in events}
            undoes = known.get(event.undoes or 0)
            if undoes is None or undoes.change in BY_RULES:
                return "undoes", event.undoes, "not the number of something that a person did to this alert"
            if undoes.event_id in undone(events):
                return "undoes", event.undoes, "it was undone already"
        case _ if event.change in BY_RULES:
            return "action", event.change.value, "only rules say this"
    return None
