"""Query results: what `queries.py` answers, as frozen dataclasses; pages draw them and the API serialises them.

Rules
- Instants are integers of nanoseconds since the Unix epoch, lengths end in `_ns`, shares are fractions 0…1.
- `None` means *unknown*, never 0.
- Lists come cut to what one picture or table can hold; where something was left out, the result says how much.

The results of a whole run (`RunView`, `Span`, `Incident`, …) are the dataclasses of `core/view.py` themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rerail.server.core.definitions import Definition, Measured
from rerail.server.core.facts import Outcome, Pairs, Phase, Scope
from rerail.server.core.recovery_configs.changes import KnobChange
from rerail.server.core.rollup import RollupBin
from rerail.server.core.view import (
    Account,
    Attempt,
    BlindPeriod,
    Checkpoint,
    Incident,
    RunState,
    RunView,
    SlidingPoint,
    Span,
    StepPoint,
)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a list of runs."""

    run_id: str
    state: RunState
    as_of: int
    """The instant the figures hold for."""
    name: str | None = None
    project: str | None = None
    labels: Pairs = ()
    outcome: Outcome | None = None
    current_phase: Phase | None = None
    started_at: int | None = None
    ended_at: int | None = None
    last_heard_at: int | None = None
    silent_since: int | None = None
    elapsed_ns: int = 0
    productive_ns: int = 0
    faults_ns: int = 0
    ns_by_phase: tuple[tuple[Phase, int], ...] = ()
    """For a bar of phases in a table cell; all but `excluded` sum to `elapsed_ns`."""
    training_goodput: float | None = None
    infrastructure_goodput: float | None = None
    """None where it is unknown, as `core/infrastructure.py` has it; so are the next two."""
    infrastructure_goodput_is_most: bool = False
    infrastructure_goodput_least: float | None = None
    gpus: int | None = None
    lost_gpu_ns: int | None = None
    """GPU·ns that were not productive; None where no GPU number was told."""
    attempts: int = 0
    restarts: int = 0
    interruptions: int = 0
    """By faults; planned stops are none."""
    incidents: int = 0
    open_incident_id: str | None = None
    recover_p50_ns: int | None = None
    recover_max_ns: int | None = None
    high_water_step: int | None = None
    current_step: int | None = None
    target_step: int | None = None
    checkpoint_age_ns: int | None = None
    newest_durable_step: int | None = None
    steps_at_risk: int | None = None
    error: str | None = None
    """Why the figures could not be brought up to date; None while they could."""
    blind: tuple[BlindPeriod, ...] = ()
    """Sources that cannot see just now, the longest blind first; at most `MOST_BLIND`."""


MOST_BLIND = 50


@dataclass(frozen=True, slots=True)
class BlindRow:
    """A source that cannot see just now, and the runs that it is blind of."""

    source: str
    node: str | None
    emitter: str | None
    since: int
    reason: str | None
    mend: str | None
    """What would let it see again; None where nothing is known that would."""
    page: str | None
    """The file of `docs/` that tells more of it."""
    runs: tuple[str, ...]
    """The longest blind first; at most `MOST_BLIND_RUNS`."""
    run_count: int


@dataclass(frozen=True, slots=True)
class BlindPage:
    """Sources that cannot see, the longest blind first; of runs that are over nothing is told."""

    rows: tuple[BlindRow, ...]
    total: int
    runs: int
    """Runs that are not over: what the sources are looked for in."""
    is_whole: bool
    """False where there are more such runs than are looked at: `rows` are of those heard last."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A slice of the runs that match; `total` counts all that do."""

    rows: tuple[RunRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Bin:
    """What `[start, end)` consisted of. Shares of every phase that occurred, never only the largest one."""

    start: int
    end: int
    ns_by_phase: tuple[tuple[Phase, int], ...]
    """Exact; sums to `end − start` where the run lived through all of it."""


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans that touch a range, clipped to it; as bins where there are too many to draw."""

    start: int
    end: int
    spans: tuple[Span, ...] = ()
    """Exact spans; empty when `bins` are given instead."""
    bins: tuple[Bin, ...] = ()
    span_count: int = 0
    """How many exact spans lie in the range, also when they are binned."""

    @property
    def is_exact(self) -> bool:
        """Whether every span is here as itself."""
        return not self.bins


@dataclass(frozen=True, slots=True)
class AttemptMark:
    """An attempt as the timeline draws it."""

    number: int
    started_at: int
    ended_at: int | None
    scope: Scope | None
    outcome: Outcome | None
    is_interrupted: bool
    is_planned: bool
    first_step: int | None
    last_step: int | None
    resumed_from_step: int | None


@dataclass(frozen=True, slots=True)
class IncidentMark:
    """An incident as the timeline and lists draw it."""

    incident_id: str
    run_id: str
    attempts: tuple[int, ...]
    started_at: int
    noticed_at: int | None
    restarted_at: int | None
    ended_at: int | None
    is_planned: bool
    is_open: bool
    scope: Scope | None
    cause: str
    domain: str
    confidence: float
    sentence: str
    culprit_rank: int | None
    culprit_node: str | None
    time_to_restart_ns: int
    time_to_recover_ns: int | None
    """None while it is open."""
    lost_steps: int | None
    """None while no restart has told from which step it goes on; so is `lost_ns`."""
    lost_ns: int | None
    lost_gpu_ns: int | None
    told_every: int = 1
    """As of `Incident`: above 1 `lost_steps` and `lost_ns` are at least so much."""
    is_down_untold: bool = False
    """As of `Incident`: how long it was down is not known, its lengths are at least so much."""
    is_step_untold: bool = False
    """As of `Incident`: nobody tells of steps, its lengths are at least so much."""
    untold_ns: int = 0
    """As of `Incident`: what nobody told anything of before training stepped again."""


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """A slice of the incidents that match, newest first; `total` counts all that do."""

    rows: tuple[IncidentMark, ...]
    total: int


@dataclass(frozen=True, slots=True)
class RunMarks:
    """What the picture of a run marks, whatever the range: a small part of its view."""

    as_of: int
    started_at: int | None
    ended_at: int | None
    attempts: tuple[AttemptMark, ...]
    incidents: tuple[IncidentMark, ...]
    sees_training: bool = True


@dataclass(frozen=True, slots=True)
class NoteMark:
    """A note on a timeline."""

    start: int
    end: int | None
    """None for an instant."""
    author: str | None
    text: str
    """Its beginning."""
    link: str


@dataclass(frozen=True, slots=True)
class AlertMark:
    """One episode of an alert on a timeline."""

    start: int
    end: int | None
    """When it was resolved; None while it is not."""
    rule: str
    sentence: str | None
    """What the rule saw when it opened."""
    is_urgent: bool
    ended_by: str | None
    """None where it went away by itself."""
    link: str


@dataclass(frozen=True, slots=True)
class ConfigMark:
    """A config change on a timeline."""

    at: int
    change_id: str
    knobs: tuple[KnobChange, ...]
    """What differs, also what only one side tells."""
    changed_by: str | None
    reason: str | None
    link: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything one timeline picture needs of `[start, end)`."""

    run_id: str
    as_of: int
    run_started_at: int | None
    run_ended_at: int | None
    start: int
    end: int
    spans: Spans
    attempts: tuple[AttemptMark, ...]
    checkpoints: tuple[Checkpoint, ...]
    incidents: tuple[IncidentMark, ...]
    window_ns: int
    """Length of the sliding window of `sliding`."""
    sliding: tuple[SlidingPoint, ...]
    step_points: tuple[StepPoint, ...]
    """Thinned where there are many; every edge of a rollback is kept."""
    notes: tuple[NoteMark, ...] = ()
    """Notes on the run, told and written, that touch the range."""
    alerts: tuple[AlertMark, ...] = ()
    """Episodes of the run's alerts that touch the range."""
    config_changes: tuple[ConfigMark, ...] = ()
    """Changes of the recovery config that took effect in the range."""
    left_out: tuple[tuple[str, int], ...] = ()
    """`(what, how many)` lie in the range and are not here: attempts, checkpoints, incidents, alerts, config_changes,
    step_points."""


@dataclass(frozen=True, slots=True)
class ArtefactRow:
    """A file that somebody gave to an incident, and what was understood of it."""

    sha256: str
    run_id: str
    incident_id: str
    name: str
    kind: str
    """`flight_recorder`, `process_groups`, `error_file`, `kernel_log`, `log` or `unknown`."""
    size: int
    """Bytes as it was given."""
    received_at: int
    author: str | None = None
    pieces: int = 0
    """Pieces of evidence read from it."""
    refused: tuple[str, ...] = ()
    """What could not be taken and why."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenArtefact:
    """A file, and whether what was read from it counts."""

    row: ArtefactRow
    is_withdrawn: bool
    is_heard: bool
    """The view has heard of all its evidence."""
    changed_at: int | None = None
    """When somebody withdrew or restored it last."""
    changed_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class IncidentView:
    """One incident with what stands around it."""

    incident: Incident
    run: RunRow
    attempts: tuple[Attempt, ...]
    """The interrupted attempts, and the one that followed where there is one."""
    previous: IncidentMark | None
    next: IncidentMark | None
    config: str | None
    """Recovery settings in force when it began, as one JSON object; None where none were told."""
    config_after: str | None
    """The same of the attempt that followed."""
    contradicted_by: str | None = None
    """What speaks against the hang it is taken for, as a sentence."""


@dataclass(frozen=True, slots=True)
class EmitterRow:
    """One emitter of a run and how well it is heard."""

    run_id: str
    emitter: str
    accepted: int
    duplicate: int
    rejected: int
    highest_seq: int | None
    last_at: int | None
    """Latest instant it stated, by its own clock."""
    last_received_at: int | None
    least_delay_ns: int | None
    """Smallest `received_at − at` ever seen; below 0 its clock runs ahead of ours."""
    clock_offset_ns: int | None
    """Emitter minus server as it stated last in a `clock` fact; None where it never did."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One line that was refused, and why."""

    received_at: int
    run: str | None
    emitter: str | None
    line: int
    """Line number in its batch, from 1."""
    field: str
    value: str
    reason: str
    raw: str
    """The line as it came, cut at 4 kB."""


@dataclass(frozen=True, slots=True)
class RefusedPage:
    """Refused lines, newest first. `total` counts all, also those beyond the daily cap that were not kept."""

    rows: tuple[RefusedRow, ...]
    kept: int
    total: int


class Outdated(NamedTuple):
    """A run that is over, as rules of another version made it."""

    ended_at: int
    run_key: int
    run_id: str


@dataclass(frozen=True, slots=True)
class RulesProgress:
    """How far runs that are over are derived by the rules of this version."""

    rules: str
    """Of the code that views are derived by: see `rules_version.py`."""
    version: str
    """Of rerail, when a server with these rules started first."""
    revision: int
    """Views with a revision up to this one were made by other rules."""
    started_at: int
    total: int
    """Runs that were over then, of which the log is there."""
    left: int
    without_log: int
    """Runs whose log was let go: they stay as other rules made them."""


@dataclass(frozen=True, slots=True)
class StorageFigures:
    """What the database holds and how far the figures are behind it."""

    database: str
    """Address without a password."""
    dialect: str
    schema: str | None
    """Migration the database stands at."""
    size_bytes: int | None
    free_bytes: int | None
    """Free on the disk of an embedded database; None for a server elsewhere."""
    runs: int
    facts: int
    segments: int
    """Batches of facts, each one row."""
    refused: int
    waiting_runs: int
    """Runs with facts that no view shows yet."""
    oldest_waiting_ns: int | None
    failed_runs: tuple[tuple[str, str], ...]
    """`(run id, error)` of runs whose figures could not be made."""


@dataclass(frozen=True, slots=True)
class FleetSums:
    """Where the time of all runs went in `[start, end)`, in bins of one resolution."""

    start: int
    end: int
    resolution_ns: int
    runs: int
    """Runs that lived through any of it."""
    bins: tuple[RollupBin, ...]
    """Over all runs; a bin is the sum of the same bin of each. The first and the last may reach beyond the range."""


@dataclass(frozen=True, slots=True)
class ExpiredLog:
    """The log of a run that is over, and old enough to be let go."""

    run_id: str
    ended_at: int
    facts: int
    bytes: int
    """Of its compressed lines."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Runs whose view was saved since a cursor. Ask again with `cursor`."""

    cursor: int
    run_ids: tuple[str, ...]
    newest: int = 0
    """Number of the newest change of any kind: a view, what somebody did, what a rule saw. Another one is a reason to
    look again at what is not of one run."""
    alerts_at: int = 0
    """When an alert was last opened, resolved, or acted on; 0 where there is none."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run, or a window of it, under one definition, beside rerail's own account of the same time."""

    definition: Definition
    measured: Measured
    view: RunView
    account: Account
    """rerail's, of the window or of the whole life."""
