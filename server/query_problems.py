"""Queries about problems: what keeps coming back, what people did about it, and which incidents are like one.

Rules
- What a problem holds is read from sums per run; how it stands follows from what people did (`core/problems.py`).
- A problem that was merged away answers as the one that it is part of now.
- Lists of all problems are put together in memory: there are as many as there are kinds of fault, not as incidents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rerail.server.core.causes import rules
from rerail.server.core.facts import Pairs
from rerail.server.core.fingerprints import FACET_NAMES, FACETS, why_different
from rerail.server.core.problems import Ledger, Standing, Status, is_split, shares
from rerail.server.core.rates import DAY_NS
from rerail.server.core.similar import NEAR_NS, Traces, most_similar
from rerail.server.core.xids import known_codes, xid
from rerail.server.errors import NotFoundError
from rerail.server.query_problem_results import (
    ActionEntry,
    DayCount,
    FacetShare,
    MergedProblem,
    Occurrence,
    ProblemOfIncident,
    ProblemPage,
    ProblemRow,
    ProblemView,
    Resolution,
    SimilarIncident,
    SimilarIncidents,
)
from rerail.server.store import Store
from rerail.server.store.problem_rows import GPU_MS, FingerprintRow, IncidentRow, ProblemSpread, ProblemSums

SORTS: dict[str, Callable[[ProblemRow], object]] = {
    "last_at": lambda row: row.last_at or 0,
    "first_at": lambda row: row.first_at or 0,
    "incidents": lambda row: row.incidents,
    "runs": lambda row: row.runs,
    "recover_ns": lambda row: row.recover_ns,
    "lost_gpu_ns": lambda row: -1 if row.lost_gpu_ns is None else row.lost_gpu_ns,
    "title": lambda row: row.title.lower(),
    "status": lambda row: list(Status).index(row.status),
}
"""What a list of problems can be sorted by."""

PREPOSITIONS = {
    "node": "on",
    "rank": "by",
    "step": "after",
    "checkpoint": "resumed from",
    "config": "with",
    "run": "in",
}

BARS = 24
MOST_FACETS = 2000
MOST_VALUES = 10
MOST_ALIKE = 15


class ProblemQueries:
    """Reads problems of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store.problems

    def problems(
        self,
        search: str = "",
        status: str | None = None,
        cause: str | None = None,
        node: str | None = None,
        sort: str = "last_at",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
    ) -> ProblemPage:
        """Problems whose title, cause, id, parts or resolution hold every word of `search`.

        `node`: with an incident that it is blamed for. Raises ValueError for a field that cannot be sorted by, or a
        status or a cause that is none.
        """
        if sort not in SORTS:
            raise ValueError(f"sort: problems cannot be sorted by {sort!r}: one of {', '.join(SORTS)}")
        if status is not None and status not in set(Status):
            raise ValueError(f"status: {status!r} is none of {', '.join(Status)}")
        ledger = self._store.ledger()
        sums = self._store.problem_sums(node=node)
        made_of = self._store.fingerprints()
        if cause is not None:
            causes = {"unknown", *rules(), *(each.cause for each in made_of.values())}
            if cause not in causes:
                raise ValueError(f"cause: {cause!r} is none of {', '.join(sorted(causes))}")
        words = search.lower().split()
        found = []
        for each in sums:
            row = _row(each, ledger, made_of)
            if (cause is None or row.cause == cause) and (not words or _matches(row, made_of, words)):
                found.append(row)
        statuses = tuple((each.value, sum(row.status is each for row in found)) for each in Status)
        if status is not None:
            found = [row for row in found if row.status.value == status]
        found.sort(key=lambda row: row.problem_id)
        found.sort(key=SORTS[sort], reverse=descending)  # type: ignore[arg-type]
        shown = found[offset : offset + limit]
        spreads = self._store.problem_spread([row.problem_id for row in shown]) if shown else {}
        first = min((min(spread.days, default=1 << 40) for spread in spreads.values()), default=0)
        last = max((max(spread.days, default=0) for spread in spreads.values()), default=0)
        rows = tuple(_with_spread(row, spreads[row.problem_id], first, last) for row in shown)
        is_known = bool(rows) and last >= first
        return ProblemPage(
            rows,
            len(found),
            statuses,
            first * DAY_NS if is_known else None,
            (last + 1) * DAY_NS if is_known else None,
        )

    def problem_row(self, problem_id: str) -> ProblemRow:
        """One problem as a list shows it. Raises NotFoundError."""
        return self._rows([problem_id])[problem_id]

    def problem(self, problem_id: str, offset: int = 0, limit: int = 50, where: Pairs = ()) -> ProblemView:
        """One problem, with its incidents from `offset` on; `where` narrows them to a `run` or a `node`.

        Raises NotFoundError.
        """
        ledger = self._store.ledger()
        problem_id = ledger.becomes(problem_id)
        row = self.problem_row(problem_id)
        spread = self._store.problem_spread([problem_id])[problem_id]
        row = _with_spread(row, spread, min(spread.days, default=0), max(spread.days, default=0))
        split_from = ledger.split_from(problem_id)
        named = [problem_id, *ledger.merged_into(problem_id), *([] if split_from is None else [split_from])]
        made_of = self._store.fingerprints(sorted({*named, *(founder(each, ledger) for each in named)}))
        incidents, total = self._store.problem_incidents(problem_id, offset, limit, where)
        looked_at = self._store.problem_facets(problem_id, MOST_FACETS)
        own = made_of.get(problem_id)
        return ProblemView(
            problem=row,
            fingerprint=None if is_split(problem_id) else problem_id,
            parts=() if own is None else own.parts,
            merged=tuple(MergedProblem(each, _title(each, ledger, made_of)) for each in ledger.merged_into(problem_id)),
            moved=ledger.moved_into(problem_id),
            split_from=None if split_from is None else MergedProblem(split_from, _title(split_from, ledger, made_of)),
            occurrences=tuple(map(occurrence, incidents)),
            occurrence_count=total,
            offset=offset,
            facet_shares=facet_shares(looked_at),
            history=tuple(
                ActionEntry(action, ledger.is_in_force(action), _undone_by(ledger, action.action_id))
                for action in ledger.history(problem_id)
            ),
            days=tuple(DayCount(day * DAY_NS, times) for day, times in sorted(spread.days.items())),
        )

    def similar(self, incident_id: str, limit: int = 10) -> SimilarIncidents:
        """The problem of an incident, and the incidents most like it. Raises NotFoundError."""
        rows = self._store.incident_rows([incident_id])
        if not rows:
            raise NotFoundError("incident", incident_id)
        row = rows[0]
        if row.problem_id is None or row.fingerprint is None:
            return SimilarIncidents(incident_id, None, ())
        others = {each.incident_id: each for each in self._store.alike(row, _xids_like(row.xid), NEAR_NS, MOST_ALIKE)}
        wanted = {each.fingerprint for each in (row, *others.values()) if each.fingerprint is not None}
        made_of = self._store.fingerprints(sorted(wanted))
        one = _traces(row, made_of)
        best = most_similar(one, (_traces(other, made_of) for other in others.values()), limit)
        wanted_problems = {row.problem_id}
        wanted_problems.update(p for each in best if (p := others[each.incident_id].problem_id) is not None)
        problems = self._rows(sorted(wanted_problems), made_of)
        similar = []
        for each in best:
            other = others[each.incident_id]
            problem = None if other.problem_id is None else problems[other.problem_id]
            parts = made_of[other.fingerprint].parts if other.fingerprint in made_of else ()
            similar.append(
                SimilarIncident(
                    occurrence=occurrence(other),
                    weight=each.weight,
                    reasons=each.reasons,
                    problem_id=other.problem_id,
                    problem_title=None if problem is None else problem.title,
                    status=None if problem is None else problem.status,
                    resolution=None if problem is None else problem.resolution,
                    difference=why_different(one.parts, parts),
                    strongest=each.strongest,
                )
            )
        mine = ProblemOfIncident(problems[row.problem_id], self._store.position(row))
        return SimilarIncidents(incident_id, mine, tuple(similar))

    def _rows(
        self, problems: Sequence[str], known: Mapping[str, FingerprintRow] | None = None
    ) -> dict[str, ProblemRow]:
        """Rows of problems by id, those without an incident too. Raises NotFoundError for one that never was."""
        ledger = self._store.ledger()
        sums = {each.problem_id: each for each in self._store.problem_sums(problems)}
        made_of = dict(known or {})
        founders = (founder(problem, ledger) for problem in problems)
        wanted = {*problems, *founders, *(each.fingerprint for each in sums.values())}.difference(made_of)
        if wanted:
            made_of |= self._store.fingerprints(sorted(wanted))
        rows = {}
        for problem in problems:
            is_there = problem in sums or problem in made_of or ledger.exists_as_split(problem)
            if not is_there:
                raise NotFoundError("problem", problem)
            rows[problem] = _row(sums.get(problem, _nothing(problem)), ledger, made_of)
        return rows


def _nothing(problem: str) -> ProblemSums:
    return ProblemSums(problem, problem, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _row(sums: ProblemSums, ledger: Ledger, made_of: dict[str, FingerprintRow]) -> ProblemRow:
    standing = ledger.standing(sums.problem_id)
    named_by = made_of.get(founder(sums.problem_id, ledger)) or made_of.get(sums.fingerprint)
    last_at = sums.last_at if sums.incidents else None
    return ProblemRow(
        problem_id=sums.problem_id,
        title=_title(sums.problem_id, ledger, made_of, sums.fingerprint),
        cause="unknown" if named_by is None else named_by.cause,
        status=standing.status(last_at),
        incidents=sums.incidents,
        still_open=sums.still_open,
        runs=sums.runs,
        nodes=0,
        first_at=sums.first_at if sums.incidents else None,
        last_at=last_at,
        restart_ns=sums.restart_ns,
        recover_ns=sums.recover_ns,
        lost_ns=sums.lost_ns,
        lost_gpu_ns=None if sums.cost_unknown == sums.incidents else sums.lost_gpu_ms * GPU_MS,
        cost_unknown=sums.cost_unknown,
        revision=ledger.revision(sums.problem_id),
        resolution=resolution_of(standing),
        assignee=standing.assignee,
    )


def _title(problem: str, ledger: Ledger, made_of: dict[str, FingerprintRow], fingerprint: str | None = None) -> str:
    said = ledger.standing(problem).title
    if said is not None:
        return said
    own = made_of.get(founder(problem, ledger)) or made_of.get(fingerprint or "")
    title = problem if own is None else own.title
    for action in ledger.placing:
        if action.made == problem:
            facet = "" if action.facet is None else f" on {action.facet} {action.value}"
            return f"{title}{facet or ', by hand'}"
    return title


def founder(problem: str, ledger: Ledger) -> str:
    """The fingerprint that a problem began with: of one that was split off, that of what it was split off.

    What was merged into it since does not change what it is.
    """
    for action in reversed(ledger.placing):
        if action.made == problem:
            problem = action.problem
    return problem


def resolution_of(standing: Standing) -> Resolution | None:
    """What somebody did about it last, as far as that was not undone."""
    action = standing.resolution
    if action is None:
        return None
    back = standing.taken_back
    return Resolution(action.at, action.reason or "", action.author, action.fixed_by, None if back is None else back.at)


def _matches(row: ProblemRow, made_of: dict[str, FingerprintRow], words: Sequence[str]) -> bool:
    own = made_of.get(row.problem_id)
    texts = [
        row.title,
        row.cause,
        row.problem_id,
        row.assignee or "",
        *(value for _, value in (own.parts if own else ())),
    ]
    if row.resolution is not None:
        texts += [row.resolution.text, row.resolution.author or "", row.resolution.fixed_by or ""]
    whole = " ".join(texts).lower()
    return all(word in whole for word in words)


def _with_spread(row: ProblemRow, spread: ProblemSpread, first: int, last: int) -> ProblemRow:
    """The row with its nodes and its bars over the days `first` to `last`."""
    bars = [0] * min(BARS, last - first + 1)
    for day, times in spread.days.items():
        bars[min(len(bars) - 1, (day - first) * len(bars) // (last - first + 1))] += times
    values = {name: getattr(row, name) for name in row.__slots__}
    return ProblemRow(**{**values, "nodes": len(spread.nodes), "occurrences": tuple(bars)})


def occurrence(row: IncidentRow) -> Occurrence:
    """An incident as lists of occurrences show it."""
    return Occurrence(
        incident_id=row.incident_id,
        run_id=row.run_id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        is_open=row.is_open,
        counts=row.counts,
        cause=row.cause,
        node=row.culprit_node,
        rank=row.culprit_rank,
        step=row.step,
        facets=row.facets,
        recover_ns=row.recover_ns,
        restart_ns=row.restart_ns,
        lost_steps=row.lost_steps,
        lost_gpu_ns=None if row.lost_gpu_ms is None else row.lost_gpu_ms * GPU_MS,
    )


def facet_shares(rows: Sequence[Pairs]) -> tuple[FacetShare, ...]:
    """How facets are spread over incidents, each with a sentence; facets that are known of none are left out."""
    told = [dict(facets) for facets in rows]
    spread = []
    for facet in FACETS:
        values = shares([each.get(facet) for each in told])
        known = sum(times for _, times in values)
        if values:
            sentence = facet_sentence(facet, values, known, len(rows))
            spread.append(FacetShare(facet, known, len(rows), values[:MOST_VALUES], len(values), sentence))
    return tuple(spread)


def facet_sentence(facet: str, values: Sequence[tuple[str, int]], known: int, counted: int) -> str:
    """`12 of 14 on node gpu-17.`, or how wide it is spread."""
    name, (value, times) = FACET_NAMES[facet], values[0]
    if facet == "checkpoint":
        name = "step"  # that is known of where steps went on, too, without a word of any checkpoint
    where = f"{PREPOSITIONS[facet]} {name} {value}"
    if times == counted and counted > 1:
        return f"All {counted} {where}."
    if times * 2 > known and times > 1:
        return f"{times} of {counted} {where}."
    if times == 1 and known > 1:
        return f"{known} of {counted}, each {PREPOSITIONS[facet]} another {name}."
    return f"Spread over {len(values)}; most often ({times} of {counted}) {where}."


def _undone_by(ledger: Ledger, action_id: int) -> int | None:
    action = ledger.action(action_id)
    undo = None if action is None else ledger.undone_by(action)
    return None if undo is None else undo.action_id


def _traces(row: IncidentRow, made_of: dict[str, FingerprintRow]) -> Traces:
    known = made_of.get(row.fingerprint or "")
    code = row.xid
    group = xid(int(code)).group if code is not None and code.isascii() and code.isdecimal() else None
    return Traces(
        incident_id=row.incident_id,
        run_id=row.run_id,
        started_at=row.started_at,
        fingerprint=row.fingerprint,
        parts=() if known is None else known.parts,
        facets=row.facets,
        xid_group=None if group in ("unused", "unknown") else group,
    )


def _xids_like(code: str | None) -> tuple[str, ...]:
    """An XID and those of its kind, itself first; those of no kind are like none."""
    if code is None:
        return ()
    if not (code.isascii() and code.isdecimal()):
        return (code,)
    group = xid(int(code)).group
    alike = [] if group in ("unused", "unknown") else [each for each in known_codes() if xid(each).group == group]
    return tuple(dict.fromkeys([code, *map(str, alike)]))[:8]
