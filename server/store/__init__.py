"""The store: what is kept, and the promises every implementation gives (`tests/store/` holds them to it).

Promises
- `append` is all or nothing and durable when it returns: a crash right after it loses nothing, a crash before it leaves
  nothing behind.
- Identity of a fact is `(run, emitter, seq)`. A second one changes nothing but the count of duplicates; the counts are
  exact under any order, repetition and concurrency.
- `ingest` numbers of a run grow in the order in which its facts became visible: who has read up to *n* and asks for
  what came after *n* misses nothing.
- One run's facts are never mixed with another's. Runs are independent: work on one never waits for work on another
  longer than one append.
- Reads see one committed state from their first row to their last.
- Every method may be called from any thread. A database that does not answer raises `StoreAwayError`, and nothing of
  the call has happened.

This module imports no database: `open_store` does, when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rerail.server.core.facts import Fact, Note
from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.rollup import FleetBins, Resolution, RollupBin
from rerail.server.core.view import Checkpoint, Incident, RunView, Span, StepPoint
from rerail.server.query_results import (
    ArtefactRow,
    EmitterRow,
    ExpiredLog,
    IncidentMark,
    Outdated,
    RefusedPage,
    RulesProgress,
    RunMarks,
    RunPage,
    RunRow,
    StorageFigures,
)
from rerail.server.store.alert_rows import AlertStore
from rerail.server.store.config_rows import ConfigStore
from rerail.server.store.note_rows import NoteStore, SearchStore
from rerail.server.store.problem_rows import ProblemStore


class LoggedFact(NamedTuple):
    """One fact as the log keeps it."""

    seq: int
    at: int
    line: bytes
    """Its line of the wire format, with everything a context told in it."""


class RefusedLine(NamedTuple):
    """A line that is no fact, and why."""

    line: int
    field: str
    value: str
    reason: str
    raw: bytes
    run: str | None
    emitter: str | None


@dataclass(slots=True)
class Stated:
    """What one emitter states about one run in one batch, in the order of its lines."""

    run: str
    emitter: str
    facts: list[LoggedFact] = field(default_factory=list)
    clock_offset_ns: int | None = None
    """Of the last `clock` fact among them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One request's facts and refusals."""

    received_at: int
    stated: Sequence[Stated]
    refused: Sequence[RefusedLine] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a batch."""

    accepted: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Facts of a run that became visible after one `ingest` number, up to and with another."""

    facts: tuple[Fact, ...]
    upto_ingest: int
    last_ingest: int
    """Of the run: more is there to be read where this is larger than `upto_ingest`."""
    duplicates: int
    """Lines of the run that were duplicates, ever."""
    rejected: int
    """Lines of the run that were refused, ever."""
    gone_before: int | None = None
    """What was stated up to this instant was let go for good; None where the log is whole."""


@dataclass(frozen=True, slots=True)
class DerivedRun:
    """Everything derived from one run's facts, to be saved as one."""

    view: RunView
    upto_ingest: int
    spans: Sequence[Span]
    step_points: Sequence[StepPoint]
    checkpoints: Sequence[Checkpoint] = ()
    """By their first stamp."""
    minutes: Sequence[RollupBin] = ()
    """The rollup at each resolution."""
    hours: Sequence[RollupBin] = ()
    days: Sequence[RollupBin] = ()
    nodes: Sequence[NodeHistory] = ()
    """Every node that was named, by name."""
    configs: Sequence[Stretch] = ()
    """How long it trained under which recovery config, in order."""
    told_notes: Sequence[Note] = ()
    """Notes among the facts that came since the view before; more of them do no harm."""
    settled_spans: int = 0
    """That many leading spans equal those saved with `base_revision`; 0 rewrites all."""
    settled_step_points: int = 0
    settled_checkpoints: int = 0
    settled_minutes: int = 0
    settled_hours: int = 0
    settled_days: int = 0
    base_revision: int | None = None
    """Revision the settled counts refer to; where the store holds another, everything is rewritten."""


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run whose view is to be made anew; claimed by the caller for a while."""

    run: str
    last_ingest: int
    is_urgent: bool = False
    """Something else than progress came of it."""


class Store(Protocol):
    """See the promises above."""

    def append(self, batches: Sequence[Batch]) -> tuple[Receipt, ...]:
        """Put batches into the log in one transaction; one receipt each, in order."""

    def log(self, run: str, after_ingest: int = 0, upto_ingest: int | None = None) -> LogSlice:
        """Facts of a run since `after_ingest`, in the order of their `ingest`. Empty for an unknown run."""

    def claim_due(self, now: int, limit: int, lease_ns: int) -> tuple[DueRun, ...]:
        """Runs with new facts or whose time has come; nobody else gets them until saved, or until the lease is over.

        A run whose log was let go is never due: nothing can be derived of it any more.
        """

    def save(self, derived: DerivedRun, next_due_at: int | None) -> int | None:
        """Save a view and what belongs to it; its revision. Due again at `next_due_at`, at once where facts came since.

        `next_due_at` None: only when facts come. Gives None, and changes nothing, where a newer view is there already:
        that one is no base for what this caller settles next.
        """

    def save_error(self, run: str, error: str, next_due_at: int) -> None:
        """Note why a run's view could not be made; the view before stays."""

    def make_all_due(self) -> int:
        """Every run that has its log is to be derived again; how many there are."""

    def begin_rules(self, rules: str, version: str, now: int, since: int | None = None) -> RulesProgress:
        """Views saved after the revision `since` (None: from now on) are made by these rules.

        Where views were made by them already, nothing changes.
        """

    def rules_progress(self) -> RulesProgress | None:
        """How far that is; None before any server said by which rules it derives."""

    def make_outdated_due(self, after: Outdated | None, now: int) -> Outdated | None:
        """Make the next run due that is over and was derived by other rules: the one that ended first.

        `after` is what the last call gave. None where there is no more.
        """

    def is_outdated(self, run: str) -> bool:
        """Whether a run that is over still is as other rules made it."""

    def view(self, run: str) -> tuple[RunView, int] | None:
        """The saved view and its revision; None when there is none."""

    def marks(self, run: str) -> RunMarks | None:
        """The saved marks of its picture; None when there are none."""

    def run_row(self, run: str) -> RunRow | None:
        """The saved list row; None when there is none."""

    def run_states(self) -> dict[str, int]:
        """How many runs are in which state; a state that none is in is not there."""

    def run_rows(self, search: str, state: str | None, sort: str, descending: bool, offset: int, limit: int) -> RunPage:
        """A slice of the saved rows. Unknown values sort last in both directions."""

    def spans(self, run: str, start: int, end: int) -> tuple[Span, ...]:
        """Saved spans that touch `[start, end)`, whole, in order."""

    def span_count(self, run: str, start: int, end: int) -> int:
        """How many saved spans lie around `[start, end)`: whole blocks of them, so somewhat more than touch it."""

    def rollup(self, run: str, resolution: Resolution, start: int, end: int) -> tuple[RollupBin, ...]:
        """Saved bins of a run that touch `[start, end)`, whole, in order; alike ones in a row as one with a count."""

    def rollups(self, runs: Sequence[str], resolution: Resolution) -> dict[str, tuple[RollupBin, ...]]:
        """Every saved bin of each of these runs, as `rollup` gives them; a run without any is not there."""

    def fleet_rollup(self, resolution: Resolution, start: int, end: int) -> tuple[tuple[RollupBin, ...], int]:
        """The same, added up over all runs, bin by bin; and how many runs had any."""

    def fleet_rollup_by_gpus(self, resolution: Resolution, start: int, end: int) -> FleetBins:
        """The same, apart for what is of a known number of GPUs and for what is not."""

    def step_points(self, run: str, start: int, end: int) -> tuple[StepPoint, ...]:
        """Saved step points in `[start, end)`, with the last one before it and the first one after it."""

    def checkpoints(self, run: str, start: int, end: int) -> tuple[Checkpoint, ...]:
        """Saved checkpoints with an instant of their saving in `[start, end]` or around it, by their first stamp."""

    def newest_checkpoints(self, run: str, limit: int) -> tuple[Checkpoint, ...]:
        """The checkpoints that were begun last, by their first stamp."""

    def incident(self, incident_id: str) -> Incident | None:
        """A saved incident."""

    def incident_marks(self, run: str | None, offset: int, limit: int) -> tuple[tuple[IncidentMark, ...], int]:
        """Saved incidents, newest first, and how many there are."""

    def emitters(self, run: str) -> tuple[EmitterRow, ...]:
        """Who stated facts about a run, by name."""

    def live_rows(self, run: str | None, limit: int) -> tuple[tuple[RunRow, ...], int]:
        """Rows of runs that are not over, those heard last first, and how many there are; of `run` alone where told."""

    def refused(self, run: str | None, offset: int, limit: int) -> RefusedPage:
        """Refused lines, newest first; those of all runs where `run` is None."""

    def changes_since(self, revision: int, limit: int) -> tuple[int, tuple[str, ...]]:
        """The newest revision looked at, and the runs saved after `revision`, oldest first."""

    def newest_changes(self) -> tuple[int, int]:
        """Number of the newest change of any kind, and when an alert was last opened, resolved or acted on; or 0."""

    def newest_revision(self) -> int:
        """Revision of the view saved last; 0 when there is none."""

    def expired_logs(self, ended_before: int) -> tuple[ExpiredLog, ...]:
        """Logs of runs that ended, and were heard last, before an instant and whose view has seen all of it."""

    def let_log_go(self, run: str, ended_before: int) -> bool:
        """Delete the log of a run for good, if it still is such a run; what is derived of it stays.

        Which numbers are held stays too: facts that are sent again are duplicates as before.
        """

    def keep_artefact(self, row: ArtefactRow, content: bytes) -> bool:
        """Keep a file that was given to an incident; False, and nothing changes, where its run has it already."""

    def keep_artefacts(self, given: Sequence[tuple[ArtefactRow, bytes]]) -> list[bool]:
        """The same for several files, all of them or none: one after the other costs a transaction each."""
        ...

    def renew_artefact(self, row: ArtefactRow) -> None:
        """Say anew what was understood of a file that is kept; its contents and place stay."""

    def artefacts(self, run: str, incident_id: str | None = None) -> tuple[ArtefactRow, ...]:
        """The files given to a run, or to one incident of it, oldest first; without their contents."""

    def artefact_content(self, sha256: str) -> tuple[ArtefactRow, bytes] | None:
        """A file by its SHA-256; None where nobody gave it."""

    def storage(self) -> StorageFigures:
        """What is kept, counted."""

    @property
    def problems(self) -> ProblemStore:
        """What is kept of problems and nodes."""

    @property
    def configs(self) -> ConfigStore:
        """What is kept of recovery configs and their changes."""

    @property
    def notes(self) -> NoteStore:
        """What people wrote."""

    @property
    def search(self) -> SearchStore:
        """What can be found."""

    @property
    def alerts(self) -> AlertStore:
        """What is kept of alerts, and what waits to be told."""

    def close(self) -> None:
        """Give back all connections."""


SEALED = "sealed:1:"
"""What everything begins with that a `Sealing` gave."""


class Sealing(Protocol):
    """How secrets are kept; `server/sealing.py` has the one there is."""

    def sealed(self, text: str) -> str:
        """What the database keeps of a text; begins with `SEALED`."""

    def opened(self, kept: str) -> str | None:
        """The text of what it keeps; None where no key opens it."""


def open_store(database_url: str, sealing: Sealing | None = None) -> Store:
    """The store behind an address: `sqlite:///path`, `postgresql://…`. The schema must be there (`migrations`).

    Secrets of channels are kept in clear where there is no `sealing`.
    """
    from rerail.server.store.sql import SqlStore

    return SqlStore.at(database_url, sealing)
