"""Queries about nodes: which machine is it, how sure is that, and what happened on it.

Rules
- The judgement of a node is `core/lemons.py`; here it gets what all runs told of nodes.
- A list judges every node by sums, and looks closer (XIDs, when it failed) only at those that are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rerail.server.core.lemons import Fleet, Judgement, LemonLevel, NodeCase, asks_for_hand, judgement, lemon_of
from rerail.server.core.node_histories import NodeChange
from rerail.server.core.xids import xid
from rerail.server.errors import NotFoundError
from rerail.server.query_problem_results import Away, NodeEvent, NodePage, NodeRow, NodeStay, NodeView
from rerail.server.query_problems import occurrence
from rerail.server.store import Store
from rerail.server.store.problem_rows import IncidentRow, NodeOfRun, NodeSums

LEVELS = tuple(level.value for level in LemonLevel)
SORTS = ("score", "node", "blamed", "runs", "node_days", "xids")
MOST_BLAMED = 100
MOST_INSTANTS = 20_000
"""Instants of faults looked at for the nodes of one page, the newest."""
MOST_EVENTS = 200
MOST_STAYS = 200
MOST_PRESENT_RUNS = 12
AWAY = ("drained", "lost", "not_ready")


class NodeQueries:
    """Reads nodes of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store.problems

    def nodes(
        self,
        search: str = "",
        level: str | None = None,
        sort: str = "score",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
    ) -> NodePage:
        """Nodes whose name holds every word of `search`; by default those that look worst first.

        Raises ValueError for a field that cannot be sorted by, or a level that is none.
        """
        if sort not in SORTS:
            raise ValueError(f"sort: nodes cannot be sorted by {sort!r}: one of {', '.join(SORTS)}")
        if level is not None and level not in LEVELS:
            raise ValueError(f"level: {level!r} is none of {', '.join(LEVELS)}")
        sums = self._store.node_sums()
        fleet = fleet_of(sums)
        words = search.lower().split()
        found = []
        for each in sums:
            if all(word in each.node.lower() for word in words):
                found.append((each, judgement(_case(each, ()), fleet)))
        times = Counter(judged.level.value for _, judged in found)
        levels = tuple((name, times[name]) for name in LEVELS)
        if level is not None:
            found = [entry for entry in found if entry[1].level.value == level]
        found.sort(key=lambda entry: entry[0].node)
        found.sort(key=lambda entry: _sorted_by(sort, *entry), reverse=descending)
        rows = self._rows([each for each, _ in found[offset : offset + limit]], fleet)
        return NodePage(tuple(rows), len(found), levels)

    def _rows(self, sums: Sequence[NodeSums], fleet: Fleet) -> Iterable[NodeRow]:
        faulty = [each.node for each in sums if each.blamed or each.blamed_elsewhere]
        instants = self._store.blamed_at(faulty, MOST_INSTANTS)
        for each in sums:
            began = instants.get(each.node, ())
            yield NodeRow(
                node=each.node,
                runs=each.runs,
                lemon=lemon_of(_case(each, began), fleet),
                blamed=each.blamed + each.blamed_elsewhere,
                runs_blamed=each.runs_blamed,
                xids=each.xids,
                last_blamed_at=began[0] if began else None,
            )

    def node(self, name: str) -> NodeView:
        """One node. Raises NotFoundError for one that no run named."""
        sums = self._store.node_sums()
        own = next((each for each in sums if each.node == name), None)
        if own is None:
            raise NotFoundError("node", name)
        told = self._store.node_told([name])
        (row,) = self._rows([own], fleet_of(sums))
        blamed = self._store.blamed(name, MOST_BLAMED)
        programs = self._store.blamed(name, MOST_BLAMED, of_the_workload=True)
        stays = _stays(told[name])
        changes = [change for of_run in told[name] for change in of_run.history.states]
        return NodeView(
            node=row,
            stays=stays[:MOST_STAYS],
            blamed=tuple(map(occurrence, blamed)),
            blamed_count=self._store.blamed_count(name),
            programs=tuple(map(occurrence, programs)),
            present=tuple(map(occurrence, self._present(stays, {each.incident_id for each in (*blamed, *programs)}))),
            events=_events(told[name])[:MOST_EVENTS],
            away=_away(changes, [stay.since for stay in stays if stay.since is not None]),
        )

    def _present(self, stays: Sequence[NodeStay], blamed: set[str]) -> list[IncidentRow]:
        """Incidents while it was held, of its newest runs."""
        found: dict[str, IncidentRow] = {}
        for stay in stays[:MOST_PRESENT_RUNS]:
            if stay.since is None:
                continue
            until = (1 << 62) if stay.until is None else stay.until
            for row in self._store.incidents_during(stay.run_id, stay.since, until, MOST_BLAMED):
                if row.incident_id not in blamed:
                    found[row.incident_id] = row
        return sorted(found.values(), key=lambda row: (-row.started_at, row.incident_id))[:MOST_BLAMED]


def fleet_of(sums: Sequence[NodeSums]) -> Fleet:
    """All nodes together."""
    exposed = [each for each in sums if each.has_exposure and each.held_ns > 0]
    return Fleet(len(exposed), sum(each.held_ns for each in exposed), sum(each.blamed for each in exposed))


def _case(sums: NodeSums, blamed_at: Sequence[int]) -> NodeCase:
    """What speaks for and against a node; `blamed_at` says how soon it failed again, and may be empty."""
    return NodeCase(
        node=sums.node,
        held_ns=sums.held_ns if sums.has_exposure else None,
        blamed_at=tuple(blamed_at),
        blamed=sums.blamed,
        blamed_elsewhere=sums.blamed_elsewhere,
        runs_blamed=sums.runs_blamed,
        xids=sums.codes,
    )


_ORDER = {LemonLevel.LEMON: 3, LemonLevel.SUSPECT: 2, LemonLevel.UNREMARKABLE: 1, LemonLevel.UNKNOWN: 0}


def _sorted_by(sort: str, sums: NodeSums, judged: Judgement) -> tuple[object, ...]:
    if sort == "score":
        told = sums.blamed + sums.blamed_elsewhere
        return (_ORDER[judged.level] if told or sums.xids else 0, judged.score or 0.0, told)
    if sort == "node_days":
        return (sums.held_ns if sums.has_exposure else -1,)
    if sort == "blamed":
        return (sums.blamed + sums.blamed_elsewhere,)
    return (getattr(sums, sort),)


def _stays(told: Sequence[NodeOfRun]) -> tuple[NodeStay, ...]:
    """Each stretch in which a run held the node, newest first; a run that does not say so once, without instants."""
    stays = []
    for of_run in told:
        history = of_run.history
        if not history.held:
            stays.append(NodeStay(of_run.run, None, None, None, of_run.blamed))
        for index, each in enumerate(history.held):
            end = each.until if each.until is not None else max(each.since, of_run.heard_at or each.since)
            held_ns = end - each.since if history.is_exposure_known else None
            stays.append(NodeStay(of_run.run, each.since, each.until, held_ns, of_run.blamed if index == 0 else 0))
    return tuple(sorted(stays, key=lambda stay: (-(stay.since or 0), stay.run_id)))


def _events(told: Sequence[NodeOfRun]) -> tuple[NodeEvent, ...]:
    events = []
    taken: Counter[tuple[int, int]] = Counter()
    for of_run in told:
        here: Counter[tuple[int, int]] = Counter()
        for each in of_run.history.xids:
            what = (each.at // 10**9, each.code)
            here[what] += 1
            if here[what] <= taken[what]:
                continue  # the same line of its kernel, in the log of another run too
            known = xid(each.code)
            meaning = known.meaning if known.mnemonic else "not in the catalogue of this version"
            events.append(
                NodeEvent(
                    each.at,
                    "xid",
                    f"XID {each.code}",
                    meaning,
                    of_run.run,
                    needs_a_hand=asks_for_hand(each.code),
                    source=each.source,
                )
            )
        taken |= here
        for change in of_run.history.states:
            events.append(NodeEvent(change.at, "state", change.state, change.reason, of_run.run, change.until))
    return tuple(sorted(events, key=lambda event: (-event.at, event.what, event.run_id)))


def _away(changes: Sequence[NodeChange], used_since: Sequence[int]) -> tuple[Away, ...]:
    """Periods in which it could not be used: from the word that took it out until it was ready or held anew."""
    periods: list[Away] = []
    current: Away | None = None
    told = [(change.at, change.state, change.until) for change in changes]
    told += [(since, "ready", None) for since in used_since]
    for at, state, until in sorted(told, key=lambda each: each[:2]):
        if current is not None and state not in AWAY:
            periods.append(replace(current, until=at))
            current = None
        elif state in AWAY and current is None:
            current = Away(state, at, until)
    if current is not None:
        periods.append(current)
    return tuple(periods)
