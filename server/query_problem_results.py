"""Results about problems, similar incidents and nodes, as frozen dataclasses; pages draw them, the API serialises them.

The rules of `query_results.py` hold here too.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.facts import Pairs
from rerail.server.core.lemons import Lemon
from rerail.server.core.problems import ProblemAction, Status


@dataclass(frozen=True, slots=True)
class Resolution:
    """What somebody did about a problem."""

    at: int
    text: str
    author: str | None = None
    fixed_by: str | None = None
    taken_back_at: int | None = None
    """When somebody reopened the problem, or said otherwise of it: then this is no longer in force."""


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """One problem in a list."""

    problem_id: str
    title: str
    cause: str
    status: Status
    incidents: int
    """Without planned restarts and without those out of account."""
    still_open: int
    runs: int
    nodes: int
    """Different nodes that are blamed."""
    first_at: int | None
    last_at: int | None
    restart_ns: int
    recover_ns: int
    """Times to recover, summed; of open ones what has passed."""
    lost_ns: int
    lost_gpu_ns: int | None
    """None where it is known of none."""
    cost_unknown: int
    """Incidents whose GPU cost is not known and not in the sum."""
    revision: int
    resolution: Resolution | None = None
    assignee: str | None = None
    """Who looks after it."""
    occurrences: tuple[int, ...] = ()
    """Incidents in equal parts of the time the list spans, oldest first."""


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """A slice of the problems that match; `total` counts all that do."""

    rows: tuple[ProblemRow, ...]
    total: int
    statuses: tuple[tuple[str, int], ...]
    """How many of each status there are, whatever the filter for it."""
    occurrences_from: int | None
    occurrences_to: int | None
    """What `occurrences` of every row span."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One incident of a problem."""

    incident_id: str
    run_id: str
    started_at: int
    ended_at: int | None
    is_open: bool
    counts: bool
    """False where it is out of account."""
    cause: str
    node: str | None
    rank: int | None
    step: int | None
    facets: Pairs
    recover_ns: int | None
    restart_ns: int | None
    lost_steps: int | None
    lost_gpu_ns: int | None


@dataclass(frozen=True, slots=True)
class FacetShare:
    """How one facet is spread over the incidents of a problem."""

    facet: str
    known: int
    """Incidents of which it is known."""
    counted: int
    """Incidents looked at."""
    values: tuple[tuple[str, int], ...]
    """The most frequent first; at most ten."""
    distinct: int
    sentence: str


@dataclass(frozen=True, slots=True)
class ActionEntry:
    """One line of the audit trail."""

    action: ProblemAction
    in_force: bool
    undone_by: int | None


@dataclass(frozen=True, slots=True)
class DayCount:
    """Incidents of one day (UTC)."""

    at: int
    """Its start."""
    incidents: int


@dataclass(frozen=True, slots=True)
class MergedProblem:
    """A problem that is part of another one now."""

    problem_id: str
    title: str


@dataclass(frozen=True, slots=True)
class ProblemView:
    """One problem with everything about it."""

    problem: ProblemRow
    fingerprint: str | None
    """Its own; None of one that people split off."""
    parts: Pairs
    """What its fingerprint was made of."""
    merged: tuple[MergedProblem, ...]
    """Those that people merged into it."""
    moved: tuple[str, ...]
    """Incidents that people put here one by one, whatever their fingerprint."""
    split_from: MergedProblem | None
    """The problem that it was split off; None where it was not."""
    occurrences: tuple[Occurrence, ...]
    """Newest first, from `offset` on."""
    occurrence_count: int
    offset: int
    facet_shares: tuple[FacetShare, ...]
    history: tuple[ActionEntry, ...]
    """Oldest first."""
    days: tuple[DayCount, ...]
    """Days with incidents, oldest first."""


@dataclass(frozen=True, slots=True)
class ProblemOfIncident:
    """What an incident's page says of its problem."""

    problem: ProblemRow
    position: int
    """The how-manieth incident of it this one is, by time."""


@dataclass(frozen=True, slots=True)
class SimilarIncident:
    """An incident that is like another, and why."""

    occurrence: Occurrence
    weight: int
    reasons: tuple[str, ...]
    problem_id: str | None
    problem_title: str | None
    status: Status | None
    resolution: Resolution | None
    difference: str | None
    """In which parts the faults differ; None where they are the same."""
    strongest: int = 0
    """What the first of the reasons weighs."""


@dataclass(frozen=True, slots=True)
class SimilarIncidents:
    """The most similar first."""

    incident_id: str
    problem: ProblemOfIncident | None
    """None for a planned restart."""
    similar: tuple[SimilarIncident, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node in a list."""

    node: str
    runs: int
    lemon: Lemon
    blamed: int
    """Faults blamed on it; of the workload none."""
    runs_blamed: int
    xids: int
    last_blamed_at: int | None


@dataclass(frozen=True, slots=True)
class NodePage:
    """A slice of the nodes that match; `total` counts all that do."""

    rows: tuple[NodeRow, ...]
    total: int
    levels: tuple[tuple[str, int], ...]
    """How many of each level there are."""


@dataclass(frozen=True, slots=True)
class NodeStay:
    """One run that held a node."""

    run_id: str
    since: int | None
    until: int | None
    """None while it still does."""
    held_ns: int | None
    """None where the run does not say on which nodes it was."""
    blamed: int


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something told of a node."""

    at: int
    kind: str
    """`xid` or `state`."""
    what: str
    """`XID 79`, or the state."""
    meaning: str | None
    """What its maker says of an XID; the reason of a state."""
    run_id: str
    until: int | None = None
    needs_a_hand: bool = False
    source: str = ""
    """Who told of an XID (`kernel`, `dcgm`); empty where that was not kept."""


@dataclass(frozen=True, slots=True)
class Away:
    """A period in which a node could not be used."""

    state: str
    since: int
    until: int | None
    """None: still, or nobody said."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node over all runs."""

    node: NodeRow
    stays: tuple[NodeStay, ...]
    """Newest first."""
    blamed: tuple[Occurrence, ...]
    """Incidents it is blamed for, newest first; of the workload none."""
    blamed_count: int
    programs: tuple[Occurrence, ...]
    """Programs that failed on it by their own fault, newest first."""
    present: tuple[Occurrence, ...]
    """Incidents of its runs while it was held, newest first, without those named before."""
    events: tuple[NodeEvent, ...]
    """Newest first."""
    away: tuple[Away, ...]
    """When it was drained, lost or not ready, oldest first."""
