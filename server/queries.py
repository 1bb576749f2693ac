"""Queries: the only read path. Pages call it as Python, the API serialises what it returns.

Rules
- Plain and synchronous: call it from a thread, never on an event loop.
- A run or incident that is not known raises `NotFoundError`; a range that is empty gives an empty result.
- Each call reads committed state and never waits for a writer.
- Whoever asks about the past (`as_of`) gets the run as its facts up to that instant tell it, folded afresh; where they
  were deleted (`rerail retain`), LogGoneError.
- What a picture cannot show is left out, and the result says how much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from rerail.server.core.changes_near import ChangeNear, changes_near
from rerail.server.core.definitions import Definition, DefinitionInput, definitions
from rerail.server.core.facts import Fact
from rerail.server.core.fold import RunFold
from rerail.server.core.goodput import account, clipped, sliding
from rerail.server.core.recovery_configs.contradicted import contradiction
from rerail.server.core.report import iso
from rerail.server.core.rollup import Resolution
from rerail.server.core.view import Account, Checkpoint, RunState, RunView, SlidingPoint, Span
from rerail.server.errors import LogGoneError, NotBegunError, NotFoundError, UnknownDefinitionError
from rerail.server.query_alerts import AlertQueries
from rerail.server.query_blind import MOST_LIVE, blind_page
from rerail.server.query_config_results import ChangeAbout, FaultAt
from rerail.server.query_configs import ConfigQueries
from rerail.server.query_fleet import FleetQueries
from rerail.server.query_histories import Histories, history_of
from rerail.server.query_nodes import NodeQueries
from rerail.server.query_notes import NoteQueries
from rerail.server.query_problems import ProblemQueries
from rerail.server.query_results import (
    ArtefactRow,
    AttemptMark,
    BlindPage,
    Changes,
    EmitterRow,
    FleetSums,
    GivenArtefact,
    IncidentMark,
    IncidentPage,
    IncidentView,
    Measurement,
    RefusedPage,
    RulesProgress,
    RunMarks,
    RunPage,
    RunRow,
    Spans,
    StorageFigures,
    Timeline,
)
from rerail.server.query_search import SearchQueries
from rerail.server.query_strips import StripColumn, strips
from rerail.server.store import LogSlice, Store
from rerail.server.store.log_slices import slices
from rerail.server.store.run_rows import mark_of, marks_of
from rerail.server.thinning import WideWindow, binned, rollup_step, thinned_checkpoints, thinned_points

MOST_SPANS = 1500
"""Up to this many, a range is drawn as exact spans."""

MOST_MARKS = 200
"""Attempts, checkpoints or incidents in one timeline, each."""

MOST_COLUMNS = 1200
MOST_POINTS = 800
MOST_FLEET_BINS = 4000
MOST_SLIDING = 400
"""Columns of shares, corners of the step line and points of a goodput line: together a picture stays below 200 kB."""

SECOND = 10**9


class Queries:
    """Reads of one store. Safe to share between threads."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._clock = clock
        self._histories = Histories(store)
        self.problems = ProblemQueries(store)
        """What keeps coming back: see `query_problems.py`."""
        self.configs = ConfigQueries(store, self.run)
        """Recovery configs, changes, comparisons: see `query_configs.py`."""
        self.nodes = NodeQueries(store)
        """On which machine: see `query_nodes.py`."""
        self.notes = NoteQueries(store)
        """What people wrote: see `query_notes.py`."""
        self.search = SearchQueries(store, clock)
        """What was seen before: see `query_search.py`."""
        self.alerts = AlertQueries(store, clock)
        """What somebody should hear of: see `query_alerts.py`."""
        self.fleet_page = FleetQueries(self, store, clock)
        """How all runs are: see `query_fleet.py`."""

    # --- runs -------------------------------------------------------------------------------------------------------

    def runs(
        self,
        search: str = "",
        state: str | None = None,
        sort: str = "last_heard_at",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
    ) -> RunPage:
        """Runs whose id, name, project or labels hold every word of `search`; `sort` is a field of `RunRow`.

        Raises ValueError for a field that cannot be sorted by.
        """
        return self._store.run_rows(search, state, sort, descending, offset, limit)

    def run_states(self) -> dict[RunState, int]:
        """How many runs are in each state."""
        counted = self._store.run_states()
        return {state: counted.get(state.value, 0) for state in RunState}

    def strips(self, rows: Sequence[RunRow]) -> dict[str, tuple[StripColumn | None, ...]]:
        """The life of each of these runs in a few columns: see `query_strips.py`."""
        return strips(self._store, rows)

    def run_row(self, run_id: str) -> RunRow:
        """One run as a list shows it, with the error of its last derivation."""
        row = self._store.run_row(run_id)
        if row is None:
            raise NotFoundError("run", run_id)
        return row

    def run(self, run_id: str, as_of: int | None = None) -> RunView:
        """The run as it was derived last, or as its facts up to `as_of` tell it."""
        if as_of is not None:
            return self._fold(run_id, as_of)[0]
        saved = self._store.view(run_id)
        if saved is not None:
            return saved[0]
        # Its facts are in and its first view is not made yet: make it here rather than deny that the run exists.
        return self._fold(run_id, self._clock())[0]

    def rules_progress(self) -> RulesProgress | None:
        """How far runs that are over are derived by the rules of this version; None before a server said so."""
        return self._store.rules_progress()

    def is_outdated(self, run_id: str) -> bool:
        """Whether a run that is over still is as the rules of another version made it."""
        return self._store.is_outdated(run_id)

    def window(self, run_id: str, start: int, end: int, as_of: int | None = None) -> Account:
        """Where the time of `[start, end)` went."""
        if as_of is not None:
            return account(self._fold(run_id, as_of)[1], start, end)
        self.run(run_id)
        return account(self._store.spans(run_id, start, end), start, end)

    def measured(
        self, run_id: str, definition: str, as_of: int | None = None, window: tuple[int, int] | None = None
    ) -> Measurement:
        """The run, or `[start, end)` of it, under one definition.

        What a definition needs of the log is read from it once and then kept up, so that asking again is cheap. Raises
        `UnknownDefinitionError`.
        """
        wanted = definition_named(definition)
        facts: Sequence[Fact] | None = None
        if as_of is not None:
            log = self._past(run_id, as_of)
            view, spans = self._folded(run_id, log, as_of)
            facts = log.facts
        else:
            view = self.run(run_id)
            start, end = self._range(view, None, None) if window is None else window
            spans = self._store.spans(run_id, start, end)
            if not spans:
                view, spans = self._fold(run_id, view.as_of)
        if window is not None:
            spans = clipped(spans, *window)
        of_window = view.account if window is None else account(spans, *window)
        given = DefinitionInput(view=view, account=of_window, spans=spans, window=window)
        if not wanted.needs_history:
            measured = wanted.measure(given)
        elif facts is not None:
            measured = wanted.measure(replace(given, history=history_of(facts, view)))
        else:
            with self._histories.of(run_id, view) as history:
                measured = wanted.measure(replace(given, history=history))
        return Measurement(wanted, measured, view, of_window)

    def _fold(self, run_id: str, as_of: int) -> tuple[RunView, Sequence[Span]]:
        """The run from the facts that had happened by `as_of`, by the emitters' corrected clocks."""
        return self._folded(run_id, self._past(run_id, as_of), as_of)

    def _past(self, run_id: str, as_of: int) -> LogSlice:
        """The facts that had happened by `as_of`."""
        offsets = {row.emitter: row.clock_offset_ns or 0 for row in self._store.emitters(run_id)}
        facts: list[Fact] = []
        first: int | None = None
        for log in slices(self._store, run_id, 0):
            if log.gone_before is not None:
                raise LogGoneError(run_id)
            for fact in log.facts:
                at = fact.at - offsets.get(fact.emitter, 0)
                first = at if first is None else min(first, at)
                if at <= as_of:
                    facts.append(fact)
        if first is None:
            raise NotFoundError("run", run_id)
        if not facts:
            raise NotBegunError(run_id, str(iso(as_of)), str(iso(first)))
        return replace(log, facts=tuple(facts))

    def _folded(self, run_id: str, log: LogSlice, as_of: int) -> tuple[RunView, Sequence[Span]]:
        fold = RunFold(run_id)
        fold.add(log.facts)
        view = fold.view(as_of, duplicates=log.duplicates, rejected=log.rejected)
        return view, fold.spans

    # --- timeline ---------------------------------------------------------------------------------------------------

    def spans(
        self, run_id: str, start: int | None = None, end: int | None = None, max_spans: int = MOST_SPANS
    ) -> Spans:
        """Spans of a range: exact, or `max_spans` bins of shares where there are more."""
        start, end = self._range(self.run(run_id), start, end)
        return self._spans(self._store.spans(run_id, start, end), start, end, max_spans, max_spans)

    def _spans(self, found: Sequence[Span], start: int, end: int, max_spans: int, bin_count: int) -> Spans:
        inside = tuple(clipped(found, start, end))
        if len(inside) <= max_spans:
            return Spans(start, end, spans=inside, span_count=len(inside))
        return Spans(start, end, bins=binned(inside, start, end, bin_count), span_count=len(inside))

    def timeline(
        self,
        run_id: str,
        start: int | None = None,
        end: int | None = None,
        width_px: int = 1200,
        window_ns: int | None = None,
    ) -> Timeline:
        """Everything a timeline picture of `width_px` needs; None means the run's whole life, and a fitting window."""
        marks = self._store.marks(run_id) or marks_of(self.run(run_id))
        start, end = self._range(marks, start, end)
        width_px = min(max(width_px, 50), 2000)
        if window_ns is None:
            window_ns = fitting_window(end - start)
        attempts = [entry for entry in marks.attempts if _touches(entry, start, end)]
        spans, points_of_goodput = self._occupancy(run_id, marks, start, end, width_px, window_ns)
        if not marks.sees_training:
            points_of_goodput = tuple(replace(point, training=None) for point in points_of_goodput)
        checkpoints = self._store.checkpoints(run_id, start, end)
        shown_checkpoints = thinned_checkpoints(checkpoints, MOST_MARKS)
        incidents = [entry for entry in marks.incidents if _touches(entry, start, end)]
        points = self._store.step_points(run_id, start, end)
        shown_points = thinned_points(points, min(width_px, MOST_POINTS))
        alerts = self.alerts.marks(run_id, start, end)
        config_changes = self.configs.marks(run_id, start, end)
        left_out = tuple(
            (name, len(all_of_them) - shown)
            for name, all_of_them, shown in (
                ("attempts", attempts, min(len(attempts), MOST_MARKS)),
                ("checkpoints", checkpoints, len(shown_checkpoints)),
                ("incidents", incidents, min(len(incidents), MOST_MARKS)),
                ("alerts", alerts, min(len(alerts), MOST_MARKS)),
                ("config_changes", config_changes, min(len(config_changes), MOST_MARKS)),
                ("step_points", points, len(shown_points)),
            )
            if len(all_of_them) > shown
        )
        return Timeline(
            run_id=run_id,
            as_of=marks.as_of,
            run_started_at=marks.started_at,
            run_ended_at=marks.ended_at,
            start=start,
            end=end,
            spans=spans,
            attempts=tuple(attempts[-MOST_MARKS:]),
            checkpoints=tuple(
                entry if entry.location is None else replace(entry, location=None) for entry in shown_checkpoints
            ),
            incidents=tuple(incidents[-MOST_MARKS:]),
            window_ns=window_ns,
            sliding=points_of_goodput,
            step_points=shown_points,
            notes=self.notes.marks(run_id, start, end),
            alerts=alerts[-MOST_MARKS:],
            config_changes=config_changes[-MOST_MARKS:],
            left_out=left_out,
        )

    def _occupancy(
        self, run_id: str, marks: RunMarks, start: int, end: int, width_px: int, window_ns: int
    ) -> tuple[Spans, tuple[SlidingPoint, ...]]:
        """Phases of a range and the goodput lines over it: from the rollup where that is less to read."""
        columns, point_count = min(width_px, MOST_COLUMNS), min(width_px // 3, MOST_SLIDING)
        since = start - window_ns
        span_count = self._store.span_count(run_id, start, end)
        step = rollup_step(end - start, columns)
        if (
            step is None
            or span_count <= MOST_SPANS
            or window_ns % step.resolution
            or (end - since) // step.resolution > span_count
        ):
            found = self._store.spans(run_id, since, end)
            instants = _instants(marks, start, end, point_count)
            return self._spans(found, start, end, MOST_SPANS, columns), sliding(found, window_ns, instants)
        window = WideWindow(
            self._store.rollup(run_id, step.resolution, min(since, step.floor(start)), -step.floor(-end)),
            step,
            window_ns,
        )
        lived_from = start if marks.started_at is None else max(start, marks.started_at)
        lived_to = min(end, marks.as_of if marks.ended_at is None else marks.ended_at)

        def spans_between(first: int, until: int) -> list[Span]:
            return clipped(self._store.spans(run_id, first, until), first, until)

        shown = Spans(start, end, bins=window.bins(start, end), span_count=span_count)
        return shown, window.points(lived_from, lived_to, point_count, spans_between)

    def _range(self, view: RunView | RunMarks, start: int | None, end: int | None) -> tuple[int, int]:
        """A range, with the run's life where an edge is not given. Raises ValueError where it ends before it starts."""
        lived_from = view.started_at if view.started_at is not None else view.as_of
        lived_to = view.ended_at if view.ended_at is not None else view.as_of
        start = lived_from if start is None else start
        end = max(lived_to, start) if end is None else end
        if end < start:
            raise ValueError("the range ends before it starts")
        return start, end

    def fleet(self, start: int, end: int, resolution: Resolution | None = None) -> FleetSums:
        """Where the time of all runs went in `[start, end)`; by the hour up to two days, else by the day, unless told.

        Raises ValueError for a range that ends before it starts, or of more than `MOST_FLEET_BINS` bins.
        """
        if end < start:
            raise ValueError("the range ends before it starts")
        if resolution is None:
            resolution = Resolution.HOUR if end - start <= 2 * Resolution.DAY else Resolution.DAY
        if (end - start) // resolution > MOST_FLEET_BINS:
            raise ValueError(f"the range has more than {MOST_FLEET_BINS} bins of this resolution")
        bins, runs = self._store.fleet_rollup(resolution, start, end)
        return FleetSums(start, end, resolution.value, runs, bins)

    def newest_checkpoints(self, run_id: str, limit: int = 100) -> tuple[Checkpoint, ...]:
        """The checkpoints that were begun last, by their first stamp."""
        return self._store.newest_checkpoints(run_id, limit)

    # --- incidents --------------------------------------------------------------------------------------------------

    def incident(self, incident_id: str) -> IncidentView:
        """One incident with its attempts, neighbours and config."""
        incident = self._store.incident(incident_id)
        if incident is None:
            raise NotFoundError("incident", incident_id)
        view = self.run(incident.run_id)
        numbers = [entry.incident_id for entry in view.incidents]
        position = numbers.index(incident_id) if incident_id in numbers else None
        interrupted = set(incident.attempts)
        last = max(interrupted, default=-1)
        around = tuple(entry for entry in view.attempts if entry.number in interrupted or entry.number == last + 1)
        return IncidentView(
            incident=incident,
            run=self.run_row(incident.run_id),
            attempts=around,
            previous=mark_of(view.incidents[position - 1]) if position else None,
            next=(
                mark_of(view.incidents[position + 1])
                if position is not None and position + 1 < len(view.incidents)
                else None
            ),
            config=next((entry.config for entry in around if entry.number in interrupted), None),
            config_after=next((entry.config for entry in around if entry.number == last + 1), None),
            contradicted_by=None if (against := contradiction(incident, view)) is None else against.sentence,
        )

    def changes_near(self, incident_id: str) -> tuple[ChangeNear, ...]:
        """What changed in the run before an incident, newest first."""
        incident = self._store.incident(incident_id)
        if incident is None:
            raise NotFoundError("incident", incident_id)
        attempts = self.run(incident.run_id).attempts
        first = next((each for each in attempts if each.number == min(incident.attempts)), None)
        nodes = () if first is None else first.nodes[:MOST_MARKS]
        told = self._store.problems.node_told(nodes) if nodes else {}
        histories = [each.history for rows in told.values() for each in rows if each.run == incident.run_id]
        return changes_near(incident, attempts, histories)

    def config_changes_of_incident(self, incident_id: str) -> tuple[ChangeAbout, ...]:
        """Config changes that an incident argued for, or that came before it and touch what its cause points at."""
        incident = self._store.incident(incident_id)
        if incident is None:
            raise NotFoundError("incident", incident_id)
        at = FaultAt(incident.run_id, tuple(incident.attempts), incident.verdict.cause, incident.started_at)
        return self.configs.changes_about(incident_id, () if incident.is_planned else (at,))

    def config_changes_of_problem(self, problem_id: str) -> tuple[ChangeAbout, ...]:
        """The same, of the newest incidents of a problem."""
        found = self.problems.problem(problem_id, 0, MOST_MARKS)
        faults = [
            FaultAt(each.run_id, (int(each.incident_id.rpartition("~")[2]),), each.cause, each.started_at)
            for each in found.occurrences
        ]
        return self.configs.changes_about(found.problem.problem_id, faults)

    largest_artefact_bytes = 64 * 1024 * 1024
    """Of one file that may be given to an incident; the server sets it by its settings."""

    def artefacts(self, incident_id: str) -> tuple[GivenArtefact, ...]:
        """The files given to an incident, oldest first, and whether each counts."""
        incident = self._store.incident(incident_id)
        if incident is None:
            raise NotFoundError("incident", incident_id)
        rows = self._store.artefacts(incident.run_id, incident_id)
        uses = {use.artefact: use for use in self.run(incident.run_id).artefacts} if rows else {}
        given = []
        for row in rows:
            use = uses.get(row.sha256)
            given.append(
                GivenArtefact(
                    row=row,
                    is_withdrawn=use is not None and use.is_withdrawn,
                    is_heard=row.pieces == 0 or (use is not None and use.pieces >= row.pieces),
                    changed_at=None if use is None else use.changed_at,
                    changed_by=None if use is None else use.author,
                    reason=None if use is None else use.reason,
                )
            )
        return tuple(given)

    def artefact(self, sha256: str) -> tuple[ArtefactRow, bytes]:
        """A file as it was given."""
        found = self._store.artefact_content(sha256)
        if found is None:
            raise NotFoundError("artefact", sha256[:80])
        return found

    def incidents(self, run_id: str | None = None, offset: int = 0, limit: int = 100) -> IncidentPage:
        """Incidents of one run, or of all; newest first."""
        if run_id is not None:
            self.run(run_id)
        marks, total = self._store.incident_marks(run_id, offset, limit)
        return IncidentPage(marks, total)

    # --- data -------------------------------------------------------------------------------------------------------

    def emitters(self, run_id: str) -> tuple[EmitterRow, ...]:
        """Who stated facts about a run."""
        found = self._store.emitters(run_id)
        if not found:
            raise NotFoundError("run", run_id)
        return found

    def refused(self, run_id: str | None = None, offset: int = 0, limit: int = 100) -> RefusedPage:
        """Lines that were refused, newest first."""
        return self._store.refused(run_id, offset, limit)

    def blind(self, run_id: str | None = None, offset: int = 0, limit: int = 100) -> BlindPage:
        """Sources that cannot see just now, of all runs that are not over or of one; one row for each source."""
        return blind_page(*self._store.live_rows(run_id, MOST_LIVE), offset, limit)

    def storage(self) -> StorageFigures:
        """What the database holds and how far the views are behind."""
        figures = self._store.storage()
        if figures.oldest_waiting_ns is None:
            return figures
        return replace(figures, oldest_waiting_ns=max(0, self._clock() - figures.oldest_waiting_ns))

    def changes_since(self, cursor: int | None = None, limit: int = 1000) -> Changes:
        """Runs that changed since `cursor`; with None just the cursor of now."""
        if cursor is None:
            return Changes(self._store.newest_revision(), (), *self._store.newest_changes())
        newest = self._store.newest_changes()
        return Changes(*self._store.changes_since(cursor, limit), *newest)


def definition_named(name: str) -> Definition:
    """A definition by its name. Raises `UnknownDefinitionError`."""
    known = definitions()
    if name not in known:
        raise UnknownDefinitionError(name, tuple(known))
    return known[name]


def fitting_window(range_ns: int) -> int:
    """A sliding window that shows something in a range of this length: a twentieth of it, on a round step."""
    wanted = range_ns // 20
    return next((seconds * SECOND for seconds in _WINDOWS if seconds * SECOND >= wanted), _WINDOWS[-1] * SECOND)


_WINDOWS = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 3 * 86_400, 7 * 86_400, 30 * 86_400)


def _instants(view: RunMarks, start: int, end: int, count: int) -> tuple[int, ...]:
    """Evenly spaced instants of the part of a range that the run lived through, its end included."""
    first = start if view.started_at is None else max(start, view.started_at)
    last = min(end, view.as_of if view.ended_at is None else view.ended_at)
    if last <= first or count < 1:
        return ()
    return tuple(first + (last - first) * index // count for index in range(1, count + 1))


def _touches(entry: AttemptMark | IncidentMark, start: int, end: int) -> bool:
    return entry.started_at <= end and (entry.ended_at is None or entry.ended_at >= start)
