"""The store in SQL: one implementation for SQLite and PostgreSQL; see the promises in `rerail.server.store`.

`append.py` writes the log, `derived.py` what is derived from it, `reading.py` gives both back, `retention.py` lets old
logs go, `artefacts.py` keeps files. This file opens the connections and says which part answers.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from rerail.server.store import Batch, DerivedRun, DueRun, LogSlice, Receipt, Sealing, engines
from rerail.server.store.alert_store import SqlAlertStore
from rerail.server.store.append import Appender
from rerail.server.store.artefacts import ArtefactShelf
from rerail.server.store.config_store import SqlConfigStore
from rerail.server.store.derivation import RulesLedger
from rerail.server.store.derived import DerivedWriter
from rerail.server.store.note_store import SqlNoteStore
from rerail.server.store.problem_store import SqlProblemStore
from rerail.server.store.reading import Reader
from rerail.server.store.retention import Retention
from rerail.server.store.search_store import SqlSearchStore


class SqlStore:
    """One database."""

    def __init__(self, database_url: str, sealing: Sealing | None = None) -> None:
        self.database_url = database_url
        self._write = engines.write_engine(database_url)
        self._read = engines.read_engine(database_url)
        self._derive = engines.derive_engine(database_url)
        self._appender = Appender(self._write)
        self._derived = DerivedWriter(self._derive)
        self._reader = Reader(self._read, database_url)
        self._retention = Retention(self._write)
        self.problems = SqlProblemStore(self._write, self._read)
        self.configs = SqlConfigStore(self._write, self._read)
        self.notes = SqlNoteStore(self._write, self._read)
        self.search = SqlSearchStore(self._write, self._read)
        self.alerts = SqlAlertStore(self._write, self._read, sealing)
        self._rules = RulesLedger(self._write, self._read)
        self._artefacts = ArtefactShelf(self._write, self._read)

    @classmethod
    def at(cls, database_url: str, sealing: Sealing | None = None) -> SqlStore:
        """The store behind an address."""
        return cls(engines.normalised(database_url), sealing)

    def append(self, batches: Sequence[Batch]) -> tuple[Receipt, ...]:
        """Put batches into the log in one transaction; one receipt each, in order."""
        with engines.answering():
            return self._appender.append(batches)

    def log(self, run: str, after_ingest: int = 0, upto_ingest: int | None = None) -> LogSlice:
        """Facts of a run since `after_ingest`."""
        with engines.answering():
            return self._reader.log(run, after_ingest, upto_ingest)

    def claim_due(self, now: int, limit: int, lease_ns: int) -> tuple[DueRun, ...]:
        """Runs whose view is to be made; nobody else gets them until the lease is over or they are saved."""
        with engines.answering():
            return self._derived.claim_due(now, limit, lease_ns)

    def save(self, derived: DerivedRun, next_due_at: int | None) -> int | None:
        """Save a view and what belongs to it; its revision."""
        with engines.answering():
            return self._derived.save(derived, next_due_at)

    def save_error(self, run: str, error: str, next_due_at: int) -> None:
        """Note why a run's view could not be made."""
        with engines.answering():
            self._derived.save_error(run, error, next_due_at)

    def make_all_due(self) -> int:
        """Every run is to be derived again."""
        with engines.answering():
            return self._derived.make_all_due()

    def begin_rules(self, rules: str, version: str, now: int, since: int | None = None) -> RulesProgress:
        """From now on views are made by these rules."""
        with engines.answering():
            return self._rules.begin(rules, version, now, since)

    def rules_progress(self) -> RulesProgress | None:
        """How far runs that are over are derived by them."""
        with engines.answering():
            return self._rules.progress()

    def make_outdated_due(self, after: Outdated | None, now: int) -> Outdated | None:
        """Make the next outdated run due."""
        with engines.answering():
            return self._rules.make_next_due(after, now)

    def is_outdated(self, run: str) -> bool:
        """Whether a run still is as other rules made it."""
        with engines.answering():
            return self._rules.is_outdated(run)

    def view(self, run: str) -> tuple[RunView, int] | None:
        """The saved view and its revision."""
        with engines.answering():
            return self._reader.view(run)

    def marks(self, run: str) -> RunMarks | None:
        """The saved marks of its picture."""
        with engines.answering():
            return self._reader.marks(run)

    def run_row(self, run: str) -> RunRow | None:
        """The saved list row."""
        with engines.answering():
            return self._reader.run_row(run)

    def run_states(self) -> dict[str, int]:
        """How many runs are in which state."""
        with engines.answering():
            return self._reader.run_states()

    def run_rows(self, search: str, state: str | None, sort: str, descending: bool, offset: int, limit: int) -> RunPage:
        """A slice of the saved rows."""
        with engines.answering():
            return self._reader.run_rows(search, state, sort, descending, offset, limit)

    def spans(self, run: str, start: int, end: int) -> tuple[Span, ...]:
        """Saved spans that touch a range."""
        with engines.answering():
            return self._reader.spans(run, start, end)

    def span_count(self, run: str, start: int, end: int) -> int:
        """How many saved spans lie around a range."""
        with engines.answering():
            return self._reader.span_count(run, start, end)

    def rollup(self, run: str, resolution: Resolution, start: int, end: int) -> tuple[RollupBin, ...]:
        """Saved bins of a run that touch a range."""
        with engines.answering():
            return self._reader.rollup(run, resolution, start, end)

    def rollups(self, runs: Sequence[str], resolution: Resolution) -> dict[str, tuple[RollupBin, ...]]:
        """Every saved bin of these runs."""
        with engines.answering():
            return self._reader.rollups(runs, resolution)

    def fleet_rollup_by_gpus(self, resolution: Resolution, start: int, end: int) -> FleetBins:
        """The same, apart by whether the GPUs are known."""
        with engines.answering():
            return self._reader.fleet_rollup_by_gpus(resolution, start, end)

    def fleet_rollup(self, resolution: Resolution, start: int, end: int) -> tuple[tuple[RollupBin, ...], int]:
        """The same of all runs together, and how many runs that are."""
        with engines.answering():
            return self._reader.fleet_rollup(resolution, start, end)

    def step_points(self, run: str, start: int, end: int) -> tuple[StepPoint, ...]:
        """Saved step points of a range, with their neighbours."""
        with engines.answering():
            return self._reader.step_points(run, start, end)

    def checkpoints(self, run: str, start: int, end: int) -> tuple[Checkpoint, ...]:
        """Saved checkpoints whose saving touches a range."""
        with engines.answering():
            return self._reader.checkpoints(run, start, end)

    def newest_checkpoints(self, run: str, limit: int) -> tuple[Checkpoint, ...]:
        """The checkpoints that were begun last."""
        with engines.answering():
            return self._reader.newest_checkpoints(run, limit)

    def incident(self, incident_id: str) -> Incident | None:
        """A saved incident."""
        with engines.answering():
            return self._reader.incident(incident_id)

    def incident_marks(self, run: str | None, offset: int, limit: int) -> tuple[tuple[IncidentMark, ...], int]:
        """Saved incidents, newest first, and how many there are."""
        with engines.answering():
            return self._reader.incident_marks(run, offset, limit)

    def emitters(self, run: str) -> tuple[EmitterRow, ...]:
        """Who stated facts about a run."""
        with engines.answering():
            return self._reader.emitters(run)

    def live_rows(self, run: str | None, limit: int) -> tuple[tuple[RunRow, ...], int]:
        """Rows of runs that are not over."""
        with engines.answering():
            return self._reader.live_rows(run, limit)

    def refused(self, run: str | None, offset: int, limit: int) -> RefusedPage:
        """Refused lines, newest first."""
        with engines.answering():
            return self._reader.refused(run, offset, limit)

    def changes_since(self, revision: int, limit: int) -> tuple[int, tuple[str, ...]]:
        """The newest revision looked at, and the runs saved after `revision`."""
        with engines.answering():
            return self._reader.changes_since(revision, limit)

    def newest_changes(self) -> tuple[int, int]:
        """The newest change of any kind, and when an alert changed last."""
        with engines.answering():
            return self._reader.newest_changes()

    def newest_revision(self) -> int:
        """Revision of the view saved last."""
        with engines.answering():
            return self._reader.newest_revision()

    def expired_logs(self, ended_before: int) -> tuple[ExpiredLog, ...]:
        """Logs of runs that are over for long enough."""
        with engines.answering():
            return self._retention.expired(ended_before)

    def let_log_go(self, run: str, ended_before: int) -> bool:
        """Delete the log of such a run for good."""
        with engines.answering():
            return self._retention.let_go(run, ended_before)

    def keep_artefact(self, row: ArtefactRow, content: bytes) -> bool:
        """Keep a file; False where its run has it already."""
        with engines.answering():
            return self._artefacts.keep([(row, content)])[0]

    def keep_artefacts(self, given: Sequence[tuple[ArtefactRow, bytes]]) -> list[bool]:
        """Keep files at once; of each False where its run has it already."""
        with engines.answering():
            return self._artefacts.keep(given)

    def renew_artefact(self, row: ArtefactRow) -> None:
        """Say anew what was understood of a kept file."""
        with engines.answering():
            self._artefacts.renew(row)

    def artefacts(self, run: str, incident_id: str | None = None) -> tuple[ArtefactRow, ...]:
        """The files of a run or of one incident, oldest first."""
        with engines.answering():
            return self._artefacts.of_run(run, incident_id)

    def artefact_content(self, sha256: str) -> tuple[ArtefactRow, bytes] | None:
        """A file by its SHA-256."""
        with engines.answering():
            return self._artefacts.content(sha256)

    def storage(self) -> StorageFigures:
        """What is kept, counted."""
        with engines.answering():
            return self._reader.storage()

    def close(self) -> None:
        """Give back all connections."""
        self._write.dispose()
        self._derive.dispose()
        self._read.dispose()
