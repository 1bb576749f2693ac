"""Problem actions: what people do, written down once and for all, and the incidents that it moves.

Rules
- One transaction: lock, read every action before, judge, write the action, move what it moves. The lock is the change
  counter, whose next value is the action's number: actions and saved views are in one order.
- What moves is found by rule (`Ledger.place`), not by what was shown to whoever acted: incidents that came meanwhile go
  along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from rerail.server.core.problems import PLACING, ActionKind, Ledger, Placed, ProblemAction
from rerail.server.store import tables
from rerail.server.store.derived import next_revision
from rerail.server.store.problem_writing import (
    Counted,
    Share,
    action_columns,
    ledger_of,
    pairs_of,
    write_shares,
)
from rerail.server.store.search_writing import problems_touched, renew_problems

_incident = tables.incident.c
_AT_ONCE = 400
"""Names in one statement."""

_MOVE = (
    update(tables.incident)
    .where(_incident.run_id == bindparam("key"), _incident.incident_id == bindparam("one"))
    .values(problem_id=bindparam("wanted"))
)
_MOVE_ALL = (
    update(tables.incident)
    .where(_incident.problem_id == bindparam("here"), _incident.fingerprint == bindparam("same"))
    .values(problem_id=bindparam("wanted"))
)
_COUNTED = select(
    _incident.run_id, _incident.problem_id, _incident.fingerprint, _incident.started_at, _incident.is_open,
    _incident.restart_ns, _incident.recover_ns, _incident.lost_ns, _incident.lost_gpu_ms, _incident.culprit_node,
).where(_incident.counts.is_(True))  # fmt: skip


class ProblemActions:
    """Writes actions of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def act(self, judge: Callable[[Ledger], ProblemAction]) -> ProblemAction:
        """See `ProblemStore.act`."""
        with self._engine.begin() as connection:
            action_id = next_revision(connection)
            before = ledger_of(connection)
            action = replace(judge(before), action_id=action_id)
            connection.execute(insert(tables.problem_action), action_columns(action))
            after = Ledger((*before.actions, action))
            if action.kind in PLACING or action.kind is ActionKind.UNDO:
                _place_again(connection, after, action_id)
            renew_problems(connection, problems_touched(action, connection), after)
        return action


def _place_again(connection: Connection, ledger: Ledger, revision: int) -> None:
    """Move every incident that is not where the ledger says, and add up anew what was left and reached."""
    has_facets = any(action.facet is not None for action in ledger.placing)
    changed: set[tuple[int, str]] = set()
    groups: dict[tuple[str, str], list[tuple[int, str, str]]] = {}
    for row in _may_lie_elsewhere(connection, ledger):
        facets = pairs_of(row.facets) if has_facets else ()
        wanted = ledger.place(Placed(row.incident_id, row.fingerprint, facets))
        groups.setdefault((row.problem_id, row.fingerprint), []).append((row.run_id, row.incident_id, wanted))
        if wanted != row.problem_id:
            changed |= {(row.run_id, row.problem_id), (row.run_id, wanted)}
    if not changed:
        return
    whole = set(ledger.touched_fingerprints())
    moves = []
    for (problem, fingerprint), places in groups.items():
        targets = {wanted for _, _, wanted in places}
        if fingerprint in whole and len(targets) == 1:
            # Every incident of this fingerprint was looked at, and all of them go the same way.
            connection.execute(_MOVE_ALL, {"here": problem, "same": fingerprint, "wanted": targets.pop()})
        else:
            moves += [
                {"key": run_id, "one": incident_id, "wanted": wanted}
                for run_id, incident_id, wanted in places
                if wanted != problem
            ]
    if moves:
        connection.execute(_MOVE, moves)
    write_shares(connection, revision, _shares(connection, changed))


def _may_lie_elsewhere(connection: Connection, ledger: Ledger):
    """Incidents that any action ever concerned; the others lie in the problem of their fingerprint."""
    wanted = select(
        _incident.run_id, _incident.incident_id, _incident.fingerprint, _incident.problem_id, _incident.facets
    )
    seen: set[tuple[int, str]] = set()
    for column, names in (
        (_incident.fingerprint, ledger.touched_fingerprints()),
        (_incident.incident_id, ledger.touched_incidents()),
    ):
        for some in _portions(names):
            for row in connection.execute(wanted.where(column.in_(some), _incident.fingerprint.is_not(None))):
                if (row.run_id, row.incident_id) not in seen:
                    seen.add((row.run_id, row.incident_id))
                    yield row


def _portions(names: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    return (names[first : first + _AT_ONCE] for first in range(0, len(names), _AT_ONCE))


def _shares(connection: Connection, wanted: set[tuple[int, str]]) -> dict[tuple[int, str], Share]:
    """Parts of problems by `(run_id, problem)`, out of the incidents."""
    shares = {key: Share() for key in wanted}
    for some in _portions(tuple(sorted({problem for _, problem in wanted}))):
        rows = connection.execute(_COUNTED.where(_incident.problem_id.in_(some)))
        for run_id, problem, *adds in rows:
            share = shares.get((run_id, problem))
            if share is not None:
                one = Counted(*adds)
                share.add(one._replace(lost_ns=one.lost_ns or 0, restart_ns=one.restart_ns or 0))
    return shares
