"""Change actions: what people say of a config change. Appended, never edited; an undo is an action of its own.

Rules
- `explain` says who changed it and why; the latest that was not undone holds.
- `link` ties an incident or a problem that argued for it; a second link to the same is refused.
- `undo` takes back one action of the same change that is not an undo and was not taken back before.
- What people said stays when the change itself is derived no more (its run's facts came out otherwise).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class ChangeActionKind(StrEnum):
    """What somebody did."""

    EXPLAIN = "explain"
    LINK = "link"
    UNDO = "undo"


class LinkKind(StrEnum):
    """What a change can be tied to."""

    INCIDENT = "incident"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class ChangeAction:
    """One statement about one change."""

    action_id: int
    at: int
    change_id: str
    kind: ChangeActionKind
    author: str | None = None
    """Who says so."""
    changed_by: str | None = None
    """Of `explain`: who changed it."""
    reason: str | None = None
    target_kind: LinkKind | None = None
    target: str | None = None
    undoes: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What holds of a change."""

    changed_by: str | None = None
    reason: str | None = None
    explained_by: str | None = None
    explained_at: int | None = None
    links: tuple[tuple[LinkKind, str, int], ...] = ()
    """`(kind, id, the action that made it)`."""
    actions: tuple[ChangeAction, ...] = ()
    """Everything that was done, oldest first."""
    undone: tuple[int, ...] = ()


def said_of(change_id: str, actions: Iterable[ChangeAction]) -> Said:
    """What people say of one change."""
    own = sorted((each for each in actions if each.change_id == change_id), key=lambda each: each.action_id)
    undone = tuple(each.undoes for each in own if each.undoes is not None)
    in_force = [each for each in own if each.action_id not in undone]
    explained = next((each for each in reversed(in_force) if each.kind is ChangeActionKind.EXPLAIN), None)
    return Said(
        changed_by=None if explained is None else explained.changed_by,
        reason=None if explained is None else explained.reason,
        explained_by=None if explained is None else explained.author,
        explained_at=None if explained is None else explained.at,
        links=tuple(
            (each.target_kind, each.target, each.action_id)
            for each in in_force
            if each.kind is ChangeActionKind.LINK and each.target_kind is not None and each.target is not None
        ),
        actions=tuple(own),
        undone=undone,
    )


def refusal_of(action: ChangeAction, before: Sequence[ChangeAction]) -> tuple[str, str] | None:
    """`(field, reason)` where an action makes no sense after those before it."""
    said = said_of(action.change_id, before)
    if action.kind is ChangeActionKind.EXPLAIN and not (action.reason or action.changed_by):
        return "reason", "an explanation says why, or who changed it"
    if action.kind is ChangeActionKind.LINK:
        if action.target_kind is None or action.target is None:
            return "target", "a link names an incident or a problem"
        if any((kind, target) == (action.target_kind, action.target) for kind, target, _ in said.links):
            return "target", "linked already"
    if action.kind is ChangeActionKind.UNDO:
        one = next((each for each in said.actions if each.action_id == action.undoes), None)
        if one is None:
            return "undoes", "no action of this change has that number"
        if one.kind is ChangeActionKind.UNDO:
            return "undoes", "an undo is not undone; do it again instead"
        if one.action_id in said.undone:
            return "undoes", "undone already"
    return None
