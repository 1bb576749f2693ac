"""Node histories: since when a run held a machine, and what was told of the machine meanwhile.

Rules
- A run holds a node from the first attempt that names it until the first that does not. A restart within the job keeps
  its nodes; while a run is requeued or resubmitted it holds none. One that is over holds none.
- Where an attempt does not say on which nodes it ran, the time any node was held is unknown, not 0: nodes are known of
  then only by what was told of them.
- XIDs are those told as evidence of a node, inside incidents or not, and of a run without any attempt too; states are
  `node_state` facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.facts import Scope
from rerail.server.core.view import Attempt
from rerail.server.core.xids import code_of, xids_in

MOST_TOLD = 200
"""XIDs, and states, kept of one node in one run; the newest."""

GIVES_BACK = frozenset({Scope.REQUEUE, Scope.RESUBMIT})
"""Restarts in which the scheduler takes the nodes back."""


@dataclass(frozen=True, slots=True)
class Held:
    """The run held the node during `[since, until)`; `until` None: it still does."""

    since: int
    until: int | None


@dataclass(frozen=True, slots=True)
class NodeXid:
    """Somebody told of an XID of the node."""

    at: int
    code: int
    rank: int | None = None
    source: str = ""
    """Who: `kernel`, `dcgm`, … Empty where that was not kept."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The node's condition changed."""

    at: int
    state: str
    reason: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """One node in one run."""

    node: str
    held: tuple[Held, ...] = ()
    is_exposure_known: bool = True
    """Every attempt named its nodes."""
    xids: tuple[NodeXid, ...] = ()
    states: tuple[NodeChange, ...] = ()

    def held_ns(self, as_of: int) -> int | None:
        """How long the run held it, as of an instant; None where that is not known."""
        if not self.is_exposure_known:
            return None
        return sum(max(0, (as_of if each.until is None else each.until) - each.since) for each in self.held)


@dataclass(slots=True)
class _Told:
    """What was told of one node."""

    xids: list[NodeXid] = field(default_factory=list)
    states: list[NodeChange] = field(default_factory=list)


class NodeBook:
    """The node histories of one run, kept up as it goes on."""

    def __init__(self) -> None:
        self._signature: object = None
        self._histories: tuple[NodeHistory, ...] = ()
        self._evidence: dict[int, tuple[tuple[object, int], list[tuple[str, NodeXid]]]] = {}

    def renew(
        self,
        attempts: Sequence[Attempt],
        evidence: Sequence[Sequence[TimedEvidence]],
        changes: Sequence[tuple[str, NodeChange]],
        ended_at: int | None,
        version: object,
    ) -> tuple[NodeHistory, ...]:
        """All histories, by name; the same object while nothing changed. `ended_at` of the run: None while it is on.

        `evidence` of each attempt only grows while `version` stays.
        """
        xids = [told for number, items in enumerate(evidence) for told in self._xids(number, items, version)]
        stays = [(each.started_at, each.nodes, each.scope in GIVES_BACK, _end(each)) for each in attempts]
        signature = (stays, xids, tuple(changes), ended_at)
        if self._signature != signature:
            self._signature = signature
            self._histories = node_histories(attempts, xids, changes, ended_at)
        return self._histories

    def _xids(self, number: int, items: Sequence[TimedEvidence], version: object) -> list[tuple[str, NodeXid]]:
        here = (version, len(items))
        known = self._evidence.get(number)
        if known is None or known[0] != here:
            known = self._evidence[number] = (here, list(_xids_of(items)))
        return known[1]


def _end(attempt: Attempt) -> int | None:
    """When a requeue took the nodes back; what is open moves with the clock and does not count."""
    return attempt.ended_at if attempt.is_interrupted else None


def _xids_of(items: Iterable[TimedEvidence]) -> Iterable[tuple[str, NodeXid]]:
    for item in items:
        fact = item.evidence
        if not fact.node:
            continue
        codes = [line.code for line in xids_in(fact.text)]
        stated = code_of(fact.code)
        if stated is not None and stated not in codes:
            codes.append(stated)
        for code in dict.fromkeys(codes):
            yield fact.node, NodeXid(item.at, code, fact.rank, fact.source)


def node_histories(
    attempts: Sequence[Attempt],
    xids: Iterable[tuple[str, NodeXid]],
    changes: Iterable[tuple[str, NodeChange]],
    ended_at: int | None,
) -> tuple[NodeHistory, ...]:
    """The history of every node that was named, by name."""
    held: dict[str, list[Held]] = {}
    since: dict[str, int] = {}

    def give_back(nodes: Iterable[str], at: int) -> None:
        for node in nodes:
            began = since.pop(node)
            held.setdefault(node, []).append(Held(began, max(began, at)))

    is_known = True
    before: Attempt | None = None
    for attempt in attempts:
        if before is not None and attempt.scope in GIVES_BACK and before.ended_at is not None:
            give_back(list(since), before.ended_at)
        if not attempt.nodes:
            is_known = False
        elif before is None or attempt.nodes != before.nodes or not since:
            wanted = set(attempt.nodes)
            give_back([node for node in since if node not in wanted], attempt.started_at)
            for node in wanted:
                since.setdefault(node, attempt.started_at)
        before = attempt
    if ended_at is not None:
        give_back(list(since), ended_at)
    for node, began in since.items():
        held.setdefault(node, []).append(Held(began, None))
    return _put_together(held, xids, changes, is_known)


def _put_together(
    held: Mapping[str, Sequence[Held]],
    xids: Iterable[tuple[str, NodeXid]],
    changes: Iterable[tuple[str, NodeChange]],
    is_known: bool,
) -> tuple[NodeHistory, ...]:
    told: dict[str, _Told] = {}
    for node, xid in xids:
        told.setdefault(node, _Told()).xids.append(xid)
    for node, change in changes:
        told.setdefault(node, _Told()).states.append(change)
    nothing = _Told()
    histories = []
    for node in sorted({*held, *told}):
        of_node = told.get(node, nothing)
        ordered_xids = sorted(
            set(of_node.xids),
            key=lambda each: (each.at, each.code, -1 if each.rank is None else each.rank, each.source),
        )
        ordered_states = sorted(set(of_node.states), key=lambda each: (each.at, each.state, each.reason or ""))
        histories.append(
            NodeHistory(
                node=node,
                held=tuple(held.get(node, ())),
                is_exposure_known=is_known and node in held,
                xids=tuple(ordered_xids[-MOST_TOLD:]),
                states=tuple(ordered_states[-MOST_TOLD:]),
            )
        )
    return tuple(histories)
