"""Queries: the only read path. Pages call it as Python, the API serialises what it returns.

Rules
- Plain and synchronous: call it from a thread, never on an event loop.
- A run or incident that is not known raises `NotFound`; a range that is empty gives an empty result.
- Reads a consistent snapshot; never waits for a writer.
"""

from __future__ import annotations

from rerail.server.core.view import RunView
from rerail.server.query_results import (
    Changes,
    EmitterRow,
    IncidentPage,
    IncidentView,
    RefusedPage,
    RunPage,
    Spans,
    StorageFigures,
    Timeline,
)


class NotFound(LookupError):
    """No such run or incident."""


class Queries:
    """Reads of one store. Safe to share between threads."""

    def runs(
        self,
        search: str = "",
        state: str | None = None,
        sort: str = "last_heard_at",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
    ) -> RunPage:
        """Runs whose id, name, project or labels hold every word of `search`; `sort` is a field of `RunRow`."""
        raise NotImplementedError

    def run(self, run_id: str, as_of: int | None = None) -> RunView:
        """The run now, or as it was known by the facts up to `as_of`."""
        raise NotImplementedError

    def spans(self, run_id: str, start: int | None = None, end: int | None = None, max_spans: int = 1500) -> Spans:
        """Spans of a range: exact, or `max_spans` bins of shares where there are more."""
        raise NotImplementedError

    def timeline(
        self,
        run_id: str,
        start: int | None = None,
        end: int | None = None,
        width_px: int = 1200,
        window_ns: int | None = None,
    ) -> Timeline:
        """Everything a timeline picture of `width_px` needs; None means the run's whole life, and a fitting window."""
        raise NotImplementedError

    def incident(self, incident_id: str) -> IncidentView:
        """One incident with its attempts, neighbours and config."""
        raise NotImplementedError

    def incidents(self, run_id: str | None = None, offset: int = 0, limit: int = 100) -> IncidentPage:
        """Incidents of one run, or of all; newest first."""
        raise NotImplementedError

    def emitters(self, run_id: str) -> tuple[EmitterRow, ...]:
        """Who stated facts about a run."""
        raise NotImplementedError

    def refused(self, run_id: str | None = None, offset: int = 0, limit: int = 100) -> RefusedPage:
        """Lines that were refused, newest first."""
        raise NotImplementedError

    def storage(self) -> StorageFigures:
        """What the database holds and how far the views are behind."""
        raise NotImplementedError

    def changes_since(self, cursor: int | None = None, limit: int = 1000) -> Changes:
        """Runs that changed since `cursor`; with None just the cursor of now."""
        raise NotImplementedError
