"""Problem writing: what a saved view adds to problems and nodes.

Rules
- Only what changed is written. A step that changes no incident and no node costs nothing here.
- Placement follows the actions as of this transaction. It holds the lock of the change counter, which every action
  takes too, so none is missed.
- A part of a problem, or a node, that a run has no more is written down as gone, not deleted: who keeps sums in memory
  asks what changed since a revision.
- Text that databases index is cut: a name that goes on for pages is no name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from rerail.server.core.facts import Pairs
from rerail.server.core.fingerprints import title_of
from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.problems import ActionKind, Ledger, Placed, ProblemAction
from rerail.server.core.rates import DAY_NS
from rerail.server.core.recovery_configs.stretches import detecting_ns
from rerail.server.core.view import Domain, Incident
from rerail.server.store import documents, tables
from rerail.server.store.append import keepable, replacing, upsert
from rerail.server.store.problem_rows import GPU_MS

LONGEST_NAME = 300
MOST_NODES = 200
"""Nodes named in the spread of one problem in one run; the others are in the incidents."""

_actions = tables.problem_action.c
_LAST_ACTION = select(func.coalesce(func.max(_actions.action_id), 0))
_ACTIONS = select(tables.problem_action).order_by(_actions.action_id)


_read_pairs = msgspec.json.Decoder(dict[str, str]).decode


def name_of(text: str | None) -> str | None:
    """A name as an indexed column holds it."""
    return None if text is None else keepable(text)[:LONGEST_NAME]


def pairs_text(pairs: Pairs) -> str:
    """Pairs as JSON that every database can hold."""
    return json.dumps(dict(pairs), ensure_ascii=True)


def pairs_of(packed: str | None) -> Pairs:
    """Pairs out of `pairs_text`."""
    return () if packed is None else tuple(_read_pairs(packed).items())


# --- actions ----------------------------------------------------------------------------------------------------------


def action_columns(action: ProblemAction) -> dict[str, object]:
    """The row of an action."""
    said = {
        name: value
        for name in ("into", "incidents", "facet", "value", "title", "fixed_by", "undoes", "assignee")
        if (value := getattr(action, name)) not in (None, ())
    }
    return {
        "action_id": action.action_id,
        "at": action.at,
        "kind": action.kind.value,
        "problem": action.problem,
        "author": None if action.author is None else keepable(action.author),
        "reason": None if action.reason is None else keepable(action.reason),
        "said": json.dumps(said, ensure_ascii=True),
    }


def ledger_of(connection: Connection) -> Ledger:
    """Every action, as this transaction sees them."""
    actions = []
    for row in connection.execute(_ACTIONS):
        said = json.loads(row.said)
        said["incidents"] = tuple(said.get("incidents", ()))
        actions.append(
            ProblemAction(
                action_id=row.action_id, at=row.at, kind=ActionKind(row.kind), problem=row.problem, author=row.author,
                reason=row.reason, **said,
            )
        )  # fmt: skip
    return Ledger(actions)


def last_action(connection: Connection) -> int:
    """The number of the newest action; 0 without any."""
    return int(connection.execute(_LAST_ACTION).scalar_one())


class LedgerReader:
    """The ledger, read again only when somebody acted since."""

    def __init__(self) -> None:
        self._read: tuple[int, Ledger] = (0, Ledger())

    def of(self, connection: Connection) -> tuple[int, Ledger]:
        """Its last action and itself."""
        newest = last_action(connection)
        if self._read[0] != newest:
            self._read = (newest, ledger_of(connection))
        return self._read


# --- incidents --------------------------------------------------------------------------------------------------------


def incident_columns(incident: Incident, problem: str | None) -> dict[str, object]:
    """What lists, sums and similar incidents ask of an incident."""
    parts = {} if incident.fingerprint is None else dict(incident.fingerprint.parts)
    verdict = incident.verdict
    step = dict(incident.facets).get("step")
    return {
        "fingerprint": None if incident.fingerprint is None else incident.fingerprint.text,
        "problem_id": problem,
        "counts": incident.counts,
        "domain": verdict.domain.value,
        "scope": None if incident.scope is None else incident.scope.value,
        "culprit_node": name_of(verdict.culprit_node),
        "culprit_rank": verdict.culprit_rank,
        "exception": name_of(parts.get("exception")),
        "frame": name_of(parts.get("frame")),
        "xid": name_of(parts.get("xid")),
        "step": None if step is None else int(step),
        "facets": pairs_text(incident.facets),
        "restart_ns": None if incident.is_down_untold else incident.time_to_restart_ns,
        "recover_ns": incident.so_far_ns,
        "lost_steps": incident.lost_steps,
        "lost_ns": incident.lost_ns,
        "lost_gpu_ms": None if incident.lost_gpu_ns is None else incident.lost_gpu_ns // GPU_MS,
        "config": dict(incident.facets).get("config"),
        "detecting_ns": detecting_ns(incident),
    }


def placed(incident: Incident) -> Placed | None:
    """What its place depends on; None where it has none."""
    if incident.fingerprint is None:
        return None
    return Placed(incident.incident_id, incident.fingerprint.text, incident.facets)


class Counted(NamedTuple):
    """What an incident adds to the sums of its problem."""

    fingerprint: str
    started_at: int
    is_open: bool
    restart_ns: int
    recover_ns: int
    lost_ns: int
    lost_gpu_ms: int | None
    node: str | None


def counted(incident: Incident) -> Counted | None:
    """What an incident adds; None where it counts in nothing."""
    if incident.fingerprint is None or not incident.counts:
        return None
    return Counted(
        incident.fingerprint.text,
        incident.started_at,
        incident.is_open,
        incident.time_to_restart_ns,
        incident.so_far_ns,
        incident.lost_ns or 0,
        None if incident.lost_gpu_ns is None else incident.lost_gpu_ns // GPU_MS,
        name_of(incident.verdict.culprit_node),
    )


@dataclass(slots=True)
class Share:
    """One run's part of one problem, while it is added up."""

    newest: tuple[int, str] = (-1, "")
    incidents: int = 0
    still_open: int = 0
    first_at: int = 1 << 62
    last_at: int = -1
    restart_ns: int = 0
    recover_ns: int = 0
    lost_ns: int = 0
    lost_gpu_ms: int = 0
    cost_unknown: int = 0
    days: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)

    def add(self, one: Counted) -> None:
        """One more incident."""
        self.newest = max(self.newest, (one.started_at, one.fingerprint))
        self.incidents += 1
        self.still_open += one.is_open
        self.first_at = min(self.first_at, one.started_at)
        self.last_at = max(self.last_at, one.started_at)
        self.restart_ns += one.restart_ns
        self.recover_ns += one.recover_ns
        self.lost_ns += one.lost_ns
        self.cost_unknown += one.lost_gpu_ms is None
        self.lost_gpu_ms += one.lost_gpu_ms or 0
        day = str(one.started_at // DAY_NS)
        self.days[day] = self.days.get(day, 0) + 1
        node = one.node
        if node is not None and (node in self.nodes or len(self.nodes) < MOST_NODES):
            self.nodes[node] = self.nodes.get(node, 0) + 1

    def row(self, run_id: int, problem: str, revision: int) -> dict[str, object]:
        """As the table holds it; one of nothing says that the run has no part of the problem any more."""
        return {
            "run_id": run_id,
            "problem_id": problem,
            "fingerprint": self.newest[1],
            "incidents": self.incidents,
            "still_open": self.still_open,
            "first_at": self.first_at,
            "last_at": self.last_at,
            "restart_ns": self.restart_ns,
            "recover_ns": self.recover_ns,
            "lost_ns": self.lost_ns,
            "lost_gpu_ms": self.lost_gpu_ms,
            "cost_unknown": self.cost_unknown,
            "spread": msgspec.json.encode({"days": self.days, "nodes": self.nodes}),
            "revision": revision,
        }


def write_shares(connection: Connection, revision: int, shares: Mapping[tuple[int, str], Share]) -> None:
    """Put down parts of problems by `(run_id, problem)`, empty ones too."""
    rows = [share.row(run_id, problem, revision) for (run_id, problem), share in sorted(shares.items())]
    if rows:
        connection.execute(replacing(connection, tables.problem_run, tables.problem_run.c.keys()), rows)


def problems_of(connection: Connection, run_id: int) -> list[str]:
    """The problems that a run has, or had, a part of."""
    columns = tables.problem_run.c
    return list(connection.execute(select(columns.problem_id).where(columns.run_id == run_id)).scalars())


class FingerprintWriter:
    """Remembers what fingerprints are made of; writes each once."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def write(self, connection: Connection, incidents: Iterable[Incident]) -> None:
        """Put down those that were not seen before."""
        rows = {}
        for incident in incidents:
            made = incident.fingerprint
            if made is None or made.text in self._written:
                continue
            rows[made.text] = {
                "fingerprint": made.text,
                "cause": keepable(incident.verdict.cause),
                "title": keepable(title_of(made.parts)),
                "parts": pairs_text(made.parts),
            }
        if rows:
            connection.execute(upsert(connection, tables.fingerprint).on_conflict_do_nothing(), list(rows.values()))
            if len(self._written) > 100_000:
                self._written.clear()
            self._written.update(rows)


# --- nodes ------------------------------------------------------------------------------------------------------------


def blamed_nodes(incidents: Iterable[Incident]) -> dict[str, int]:
    """Faults blamed on each node; those of the workload are nobody's."""
    counted: dict[str, int] = {}
    for incident in incidents:
        node = name_of(incident.verdict.culprit_node)
        if node is not None and incident.counts and incident.verdict.domain is not Domain.WORKLOAD:
            counted[node] = counted.get(node, 0) + 1
    return counted


def node_rows(run_id: int, histories: Sequence[NodeHistory], blamed: Mapping[str, int]) -> dict[str, dict[str, object]]:
    """The rows of a run's nodes, by name: those with a history, and those blamed without one."""
    by_name = {name_of(history.node) or "": history for history in histories}
    for node in blamed:
        by_name.setdefault(node, NodeHistory(node, is_exposure_known=False))
    rows = {}
    for node, history in sorted(by_name.items()):
        closed = [each for each in history.held if each.until is not None]
        still = [each.since for each in history.held if each.until is None]
        rows[node] = {
            "run_id": run_id,
            "node": node,
            "is_exposure_known": history.is_exposure_known,
            "held_ns": sum(each.until - each.since for each in closed if each.until is not None),
            "open_since": still[0] if still else None,
            "blamed": blamed.get(node, 0),
            "xids": len(history.xids),
            "is_gone": False,
            "document": documents.document(history),
        }
    return rows


_GONE = {"is_exposure_known": False, "held_ns": 0, "open_since": None, "blamed": 0, "xids": 0, "is_gone": True}


def write_nodes(
    connection: Connection,
    run_id: int,
    revision: int,
    rows: Mapping[str, dict[str, object]],
    before: Mapping[str, dict[str, object]] | None,
) -> list[str]:
    """Write the rows that differ from those `before`, and those that are gone as gone; None rewrites all.

    Gives the nodes that were written.
    """
    columns = tables.node_run.c
    if before is None:
        named = connection.execute(select(columns.node).where(columns.run_id == run_id)).scalars()
        before = {node: {} for node in named}
    changed = [{**row, "revision": revision} for node, row in rows.items() if before.get(node) != row]
    for node in before:
        if node not in rows:
            changed.append({"run_id": run_id, "node": node, **_GONE, "document": b"", "revision": revision})
    if changed:
        connection.execute(replacing(connection, tables.node_run, tables.node_run.c.keys()), changed)
    return [str(row["node"]) for row in changed]
