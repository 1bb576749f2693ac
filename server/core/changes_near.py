"""Changes near an incident: what became different in its run shortly before it, and why that is worth a look.

Rules
- Only what facts tell: settings, versions, launcher, size and nodes of successive attempts, and conditions of nodes
  that the interrupted attempts held. That something changed before a fault is no proof that it caused it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.view import Attempt, Incident

NEAR_NS = 86_400 * 10**9
"""A node's condition is near for a day."""

MOST = 40
MOST_NODES = 6


@dataclass(frozen=True, slots=True)
class ChangeNear:
    """One difference."""

    at: int
    what: str
    """`config`, `version`, `launcher`, `size`, `nodes` or `node`."""
    name: str
    """The setting, package or node."""
    old: str | None
    new: str | None
    reason: str
    """Why it is worth a look."""


def changes_near(
    incident: Incident, attempts: Sequence[Attempt], histories: Sequence[NodeHistory]
) -> tuple[ChangeNear, ...]:
    """What changed in the run before an incident, newest first. `attempts` are all of its run, by number."""
    first = min(incident.attempts)
    upto = [attempt for attempt in attempts if attempt.number <= first]
    found: list[ChangeNear] = []
    for before, after in pairwise(upto):
        found += _between(before, after, first)
    held = {node for attempt in upto[-1:] for node in attempt.nodes}
    noticed = incident.started_at if incident.noticed_at is None else incident.noticed_at
    for history in histories:
        if history.node in held:
            found += _of_node(history, noticed)
    found.sort(key=lambda change: (-change.at, change.what, change.name))
    return tuple(found[:MOST])


def _between(before: Attempt, after: Attempt, first: int) -> Iterable[ChangeNear]:
    lives = first - after.number
    since = (
        "It came with the attempt that failed" if not lives else f"It came {lives} attempts before the one that failed"
    )
    if lives == 1:
        since = "It came with the attempt before the one that failed"
    for name, old, new in _different(_settings(before.config), _settings(after.config)):
        yield ChangeNear(after.started_at, "config", name, old, new, f"{since}.")
    for name, old, new in _different(dict(before.versions), dict(after.versions)):
        yield ChangeNear(after.started_at, "version", name, old, new, f"{since}.")
    if before.launcher and after.launcher and before.launcher != after.launcher:
        yield ChangeNear(after.started_at, "launcher", "launcher", before.launcher, after.launcher, f"{since}.")
    if before.world_size and after.world_size and before.world_size != after.world_size:
        sizes = str(before.world_size), str(after.world_size)
        yield ChangeNear(after.started_at, "size", "world size", *sizes, f"{since}.")
    if before.nodes and after.nodes and set(before.nodes) != set(after.nodes):
        gone, came = (_listed(one - two) for one, two in _both(before.nodes, after.nodes))
        reason = f"{since}: a new machine is a suspect, and one that left may have been."
        yield ChangeNear(after.started_at, "nodes", "nodes", gone, came, reason)


def _both(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[set[str], set[str]], tuple[set[str], set[str]]]:
    old, new = set(before), set(after)
    return (old, new), (new, old)


def _listed(nodes: set[str]) -> str | None:
    if not nodes:
        return None
    shown = sorted(nodes)[:MOST_NODES]
    more = len(nodes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _of_node(history: NodeHistory, noticed: int) -> Iterable[ChangeNear]:
    for change in history.states:
        if noticed - NEAR_NS <= change.at <= noticed:
            reason = f"The run held this node. {change.reason}".strip() if change.reason else "The run held this node."
            yield ChangeNear(change.at, "node", history.node, None, change.state.replace("_", " "), reason)


def _different(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> Iterable[tuple[str, str | None, str | None]]:
    """Names with another value. Where one side told nothing, nothing is known to have changed."""
    if not before or not after:
        return
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _settings(config: str | None) -> Mapping[str, str] | None:
    if config is None:
        return None
    try:
        told = json.loads(config)
    except ValueError:
        return {"config": config}
    if not isinstance(told, dict):
        return {"config": config}
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
