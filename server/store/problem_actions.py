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

from sqlalchemy import Connection, Engine, bindparam, insert, or_, select, update

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

_incident = tables.incident.c
_AT_ONCE = 400
"""Names in one statement."""


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
            if action.kind in PLACING or action.kind is ActionKind.UNDO:
                _place_again(connection, Ledger((*before.actions, action)))
        return action


def _place_again(connection: Connection, ledger: Ledger) -> None:
    """Move every incident that is not where the ledger says, and add up what was left and reached anew."""
    changed: set[tuple[int, str]] = set()
    moves = []
    for row in _may_lie_elsewhere(connection, ledger):
        wanted = ledger.place(Placed(row.incident_id, row.fingerprint, pairs_of(row.facets)))
        if wanted != row.problem_id:
            moves.append({"key": row.run_id, "one": row.incident_id, "wanted": wanted})
            changed |= {(row.run_id, row.problem_id), (row.run_id, wanted)}
    if not moves:
        return
    statement = update(tables.incident).where(
        _incident.run_id == bindparam("key"), _incident.incident_id == bindparam("one")
    )
    connection.execute(statement.values(problem_id=bindparam("wanted")), moves)
    by_run: dict[int, set[str]] = {}
    for run_id, problem in changed:
        by_run.setdefault(run_id, set()).add(problem)
    for run_id, problems in sorted(by_run.items()):
        write_shares(connection, run_id, sorted(problems), _shares(connection, run_id, problems))


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


def _shares(connection: Connection, run_id: int, problems: set[str]) -> dict[str, Share]:
    """One run's part of problems, out of its incidents."""
    shares: dict[str, Share] = {}
    for some in _portions(tuple(sorted(problems))):
        rows = connection.execute(
            select(
                _incident.problem_id,
                _incident.fingerprint,
                _incident.started_at,
                _incident.is_open,
                _incident.restart_ns,
                _incident.recover_ns,
                _incident.lost_ns,
                _incident.lost_gpu_ms,
                _incident.culprit_node,
            ).where(
                _incident.run_id == run_id,
                or_(*(_incident.problem_id == problem for problem in some)),
                _incident.counts.is_(True),
            )
        )
        for problem, *adds in rows:
            shares.setdefault(problem, Share()).add(Counted(*adds))
    return shares
