"""Problems: incidents of one fingerprint over all runs, and what people did with them.

Rules
- A fingerprint is a problem of the same name. What people did to problems is a list of actions that only grows; which
  problem an incident belongs to, and how a problem stands, follows from incidents and list alone.
- An incident begins in the problem of its fingerprint and goes through the actions in their order: a merge takes it
  along with the whole problem, a split takes it into a problem of its own (`split-<action>`) where its facet fits or it
  was named, a move puts it where it was told. So every incident is in exactly one problem, and those to come go the
  same way.
- An undo takes an action out of the list as if it never was, and an undo can be undone. An action on a split that was
  undone has no effect while that is so.
- A problem is new until somebody said something about it or was told to look after it; then known, resolved or ignored
  by the latest word, and regressed where an incident began after it was marked resolved. Whatever is said of a problem
  stays with it when it is merged away, and counts again when that is undone.
- A problem's revision is the latest action that touched it: who acts on an older one is told so (`Conflict`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rerail.server.core.facts import Pairs
from rerail.server.core.fingerprints import FACETS

SPLIT_PREFIX = "split-"


class ActionKind(StrEnum):
    """What people can do with a problem."""

    MERGE = "merge"
    """`problem` and all that is in it belong to `into` from now on."""
    SPLIT = "split"
    """Incidents of `problem` with `facet` = `value`, or those named, become a problem of their own."""
    MOVE = "move"
    """The incidents named belong to `into`."""
    RENAME = "rename"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    KNOWN = "known"
    IGNORE = "ignore"
    ASSIGN = "assign"
    """`assignee` looks after `problem`; without one, nobody does any more."""
    UNDO = "undo"
    """The action `undoes` never was."""


PLACING = frozenset({ActionKind.MERGE, ActionKind.SPLIT, ActionKind.MOVE})
"""What changes to which problem an incident belongs."""

STATING = frozenset({ActionKind.RESOLVE, ActionKind.REOPEN, ActionKind.KNOWN, ActionKind.IGNORE})


class Status(StrEnum):
    """How a problem stands."""

    NEW = "new"
    KNOWN = "known"
    REGRESSED = "regressed"
    RESOLVED = "resolved"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class ProblemAction:
    """One thing that somebody did."""

    action_id: int
    """Grows with every action."""
    at: int
    kind: ActionKind
    problem: str
    """Which problem it was done to; of a move, where the first incident was; of an undo, that of the action undone."""
    author: str | None = None
    reason: str | None = None
    """Why; of a resolution, what was done about it."""
    into: str | None = None
    incidents: tuple[str, ...] = ()
    facet: str | None = None
    value: str | None = None
    title: str | None = None
    fixed_by: str | None = None
    """Of a resolution: the config change or the commit."""
    undoes: int | None = None
    assignee: str | None = None

    @property
    def made(self) -> str | None:
        """The problem that a split makes."""
        return f"{SPLIT_PREFIX}{self.action_id}" if self.kind is ActionKind.SPLIT else None

    @property
    def touches(self) -> tuple[str, ...]:
        """The problems it concerns."""
        return tuple(each for each in (self.problem, self.into, self.made) if each is not None)


@dataclass(frozen=True, slots=True)
class Placed:
    """What the place of an incident depends on, beside the actions."""

    incident_id: str
    fingerprint: str
    facets: Pairs = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """What people said of a problem last, whatever it holds."""

    said: ActionKind | None = None
    title: str | None = None
    resolution: ProblemAction | None = None
    """The latest in force, also where it was reopened since."""
    taken_back: ProblemAction | None = None
    """What somebody said of it after its resolution, which the resolution does not outlive."""
    assignee: str | None = None
    """Who looks after it."""

    def status(self, last_began_at: int | None) -> Status:
        """How it stands, if its latest incident began then."""
        if self.said is ActionKind.RESOLVE:
            since = self.resolution.at if self.resolution is not None else 0
            is_back = last_began_at is not None and last_began_at > since
            return Status.REGRESSED if is_back else Status.RESOLVED
        if self.said is ActionKind.IGNORE:
            return Status.IGNORED
        return Status.NEW if self.said is None and self.assignee is None else Status.KNOWN


UNTOUCHED = Standing()


class Ledger:
    """All actions, in their order, and what follows from them."""

    def __init__(self, actions: Iterable[ProblemAction] = ()) -> None:
        self.actions: tuple[ProblemAction, ...] = tuple(sorted(actions, key=lambda action: action.action_id))
        self._by_id = {action.action_id: action for action in self.actions}
        self._in_force = self._those_in_force()
        self.placing = tuple(
            action for action in self.actions if action.kind in PLACING and action.action_id in self._in_force
        )
        self._standing: dict[str, Standing] = {}
        self._revisions: dict[str, int] = {}
        for action in self.actions:
            for problem in self._touched(action):
                self._revisions[problem] = action.action_id
            if action.action_id in self._in_force:
                self._state(action)

    def _those_in_force(self) -> set[int]:
        undone: set[int] = set()
        for action in reversed(self.actions):  # An undo concerns what came before it, so its own fate is known here.
            if action.kind is ActionKind.UNDO and action.action_id not in undone and action.undoes is not None:
                undone.add(action.undoes)
        there: set[str | None] = set()
        in_force = set()
        for action in self.actions:
            named = (action.problem, action.into)
            is_void = any(name is not None and is_split(name) and name not in there for name in named)
            if action.action_id in undone or (is_void and action.kind is not ActionKind.UNDO):
                continue
            in_force.add(action.action_id)
            there.add(action.made)
        return in_force

    def _touched(self, action: ProblemAction) -> tuple[str, ...]:
        undone = self._by_id.get(action.undoes) if action.undoes is not None else None
        return action.touches if undone is None else (*action.touches, *self._touched(undone))

    def _state(self, action: ProblemAction) -> None:
        before = self._standing.get(action.problem, UNTOUCHED)
        if action.kind is ActionKind.RENAME:
            self._standing[action.problem] = replace(before, title=action.title)
        elif action.kind is ActionKind.ASSIGN:
            self._standing[action.problem] = replace(before, assignee=action.assignee)
        elif action.made is not None and action.title is not None:
            self._standing[action.made] = Standing(title=action.title)
        elif action.kind in STATING:
            is_resolved = action.kind is ActionKind.RESOLVE
            self._standing[action.problem] = replace(
                before,
                said=action.kind,
                resolution=action if is_resolved else before.resolution,
                taken_back=None if is_resolved or before.resolution is None else action,
            )

    # --- questions --------------------------------------------------------------------------------------------------

    def action(self, action_id: int) -> ProblemAction | None:
        """One action by its number."""
        return self._by_id.get(action_id)

    def is_in_force(self, action: ProblemAction) -> bool:
        """It was not undone, and what it was done to is there."""
        return action.action_id in self._in_force

    def undone_by(self, action: ProblemAction) -> ProblemAction | None:
        """The undo in force that took it out of the list."""
        undos = (each for each in reversed(self.actions) if each.undoes == action.action_id)
        return next((each for each in undos if self.is_in_force(each)), None)

    def standing(self, problem: str) -> Standing:
        """What people said of a problem last."""
        return self._standing.get(problem, UNTOUCHED)

    def revision(self, problem: str) -> int:
        """The latest action that touched a problem; 0 where none did."""
        return self._revisions.get(problem, 0)

    def exists_as_split(self, problem: str) -> bool:
        """It was split off, and that is in force."""
        return any(action.made == problem for action in self.placing)

    def becomes(self, problem: str) -> str:
        """Where a problem that was merged away is now; itself where it was not."""
        since = int(problem.removeprefix(SPLIT_PREFIX)) if is_split(problem) else -1
        for action in self.placing:
            if action.action_id > since and action.kind is ActionKind.MERGE and action.problem == problem:
                assert action.into is not None
                problem = action.into
        return problem

    def merged_into(self, problem: str) -> tuple[str, ...]:
        """The problems that are part of this one by merges, sorted."""
        sources = {action.problem for action in self.placing if action.kind is ActionKind.MERGE}
        return tuple(sorted(each for each in sources if each != problem and self.becomes(each) == problem))

    def moved_into(self, problem: str) -> tuple[str, ...]:
        """Incidents whose last move in force put them into a problem, sorted."""
        last: dict[str, str | None] = {}
        for action in self.placing:
            if action.kind is ActionKind.MOVE:
                last.update(dict.fromkeys(action.incidents, action.into))
        return tuple(sorted(each for each, into in last.items() if into is not None and self.becomes(into) == problem))

    def split_from(self, problem: str) -> str | None:
        """The problem that one was split off, by what it is now; None where it was not."""
        return next((self.becomes(action.problem) for action in self.placing if action.made == problem), None)

    def place(self, incident: Placed) -> str:
        """The problem an incident belongs to."""
        here = incident.fingerprint
        facets: dict[str, str] | None = None
        for action in self.placing:
            if action.kind is ActionKind.MOVE:
                if action.into is not None and incident.incident_id in action.incidents:
                    here = action.into
            elif action.problem != here:
                continue
            elif action.kind is ActionKind.MERGE:
                here = action.into or here
            elif incident.incident_id in action.incidents:
                here = action.made or here
            elif action.facet is not None:
                facets = dict(incident.facets) if facets is None else facets
                if facets.get(action.facet) == action.value:
                    here = action.made or here
        return here

    def touched_fingerprints(self) -> tuple[str, ...]:
        """Problems whose incidents may lie elsewhere than in the problem of their fingerprint, by any action ever."""
        kinds = (ActionKind.MERGE, ActionKind.SPLIT)
        return tuple(sorted({action.problem for action in self.actions if action.kind in kinds}))

    def touched_incidents(self) -> tuple[str, ...]:
        """Incidents that any action ever named."""
        return tuple(sorted({each for action in self.actions for each in action.incidents}))

    def history(self, problem: str) -> tuple[ProblemAction, ...]:
        """What was done to a problem and to those merged into it, oldest first; undone actions and undos too."""
        names = {problem, *self.merged_into(problem)}
        return tuple(action for action in self.actions if names.intersection(self._touched(action)))


def is_split(problem: str) -> bool:
    """It has the name of a problem that people split off."""
    return problem.startswith(SPLIT_PREFIX) and problem.removeprefix(SPLIT_PREFIX).isdecimal()


def refusal_of(action: ProblemAction, ledger: Ledger) -> tuple[str, object, str] | None:
    """Why an action makes no sense, as `(field, value, reason)`; None where it does.

    Whether the problems and incidents it names exist is not known here.
    """
    for name, problem in (("problem", action.problem), ("into", action.into)):
        if problem is not None and action.kind is not ActionKind.UNDO:
            now = ledger.becomes(problem)
            if now != problem:
                return name, problem, f"it was merged into {now}; act on that one, or undo the merge"
    if action.kind is ActionKind.MERGE:
        if action.into is None:
            return "into", None, "missing: the problem that stays"
        if action.into == action.problem:
            return "into", action.into, "a problem cannot be merged into itself"
    if action.kind is ActionKind.MOVE and (action.into is None or not action.incidents):
        return ("into", None, "missing") if action.into is None else ("incidents", [], "missing: which incidents")
    if action.kind is ActionKind.MOVE and action.into == action.problem:
        return "into", action.into, "it belongs to that problem already"
    if action.kind is ActionKind.SPLIT:
        return _refusal_of_split(action)
    if action.kind is ActionKind.RENAME and not action.title:
        return "title", action.title, "missing: the new title"
    if action.kind is ActionKind.RESOLVE and not action.reason:
        return "reason", action.reason, "missing: say what was done about it, so that the next one finds it"
    if action.kind is ActionKind.UNDO:
        return _refusal_of_undo(action, ledger)
    return None


def _refusal_of_split(action: ProblemAction) -> tuple[str, object, str] | None:
    if bool(action.incidents) == (action.facet is not None):
        return "facet", action.facet, "say either a facet with its value, or which incidents"
    if action.facet is not None and action.facet not in FACETS:
        return "facet", action.facet, f"none of {', '.join(FACETS)}"
    if action.facet is not None and action.value is None:
        return "value", None, "missing: which value of the facet"
    return None


def _refusal_of_undo(action: ProblemAction, ledger: Ledger) -> tuple[str, object, str] | None:
    undone = None if action.undoes is None else ledger.action(action.undoes)
    if undone is None:
        return "undoes", action.undoes, "there is no such action"
    by = ledger.undone_by(undone)
    if by is not None:
        return "undoes", action.undoes, f"it was undone already, by action {by.action_id}"
    return None


def shares(values: Sequence[str | None]) -> tuple[tuple[str, int], ...]:
    """How often each known value occurs, the most frequent first, ties by name."""
    counted: dict[str, int] = {}
    for value in values:
        if value is not None:
            counted[value] = counted.get(value, 0) + 1
    return tuple(sorted(counted.items(), key=lambda entry: (-entry[1], entry[0])))
