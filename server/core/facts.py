"""Facts: everything an emitter may state about a run, as frozen dataclasses.

Rules
- A fact is a statement by one emitter about an instant and is never edited. `(run, emitter, seq)` is its identity.
- Instants are integers of nanoseconds since the Unix epoch by the emitter's clock; durations carry their unit in
  their name. Nothing here knows what time it is.
- `None` means *not told*, never 0.
- Kinds and fields this version does not know are kept (`UnknownFact`, `extra`), so that an old server loses nothing
  a new emitter says.

The wire format of these classes is `docs/facts.md`; `codec.py` reads and writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

SCHEMA_VERSION = 1

Pairs = tuple[tuple[str, str], ...]
"""A mapping of text to text, frozen: sorted `(key, value)` pairs."""


class Phase(StrEnum):
    """What a run is doing at an instant; in order of precedence where facts overlap (docs/accounting.md)."""

    EXCLUDED = "excluded"
    DETECTING = "detecting"
    STOPPING = "stopping"
    QUEUED = "queued"
    RENDEZVOUS = "rendezvous"
    LOADING = "loading"
    INITIALIZING = "initializing"
    SAVING = "saving"
    EVALUATING = "evaluating"
    DATA_WAIT = "data_wait"
    OVERHEAD = "overhead"
    STALLED = "stalled"
    RECOMPUTING = "recomputing"
    TRAINING = "training"
    SILENT = "silent"


STATED_PHASES = frozenset(Phase) - {Phase.EXCLUDED, Phase.STALLED, Phase.RECOMPUTING, Phase.TRAINING, Phase.SILENT}
"""Phases an emitter may state in a `phase` fact. The others are derived, or said by a person (`excluded`)."""


class Scope(StrEnum):
    """How much was restarted between two attempts."""

    IN_PROCESS = "in_process"
    IN_JOB = "in_job"
    REQUEUE = "requeue"
    RESUBMIT = "resubmit"


class Initiator(StrEnum):
    """Who asked for a restart."""

    FAULT = "fault"
    OPERATOR = "operator"
    SCHEDULER = "scheduler"
    MONITOR = "monitor"


class Outcome(StrEnum):
    """How a run or an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    PREEMPTED = "preempted"


class CheckpointStage(StrEnum):
    """A moment in the life of a checkpoint. Only `durable` counts for a rollback."""

    STARTED = "started"
    CAPTURED = "captured"
    DURABLE = "durable"
    FAILED = "failed"
    DELETED = "deleted"


class MarkStage(StrEnum):
    """A moment of a recovery, in the order a clean one has them."""

    NOTICED = "noticed"
    ABORTING = "aborting"
    WORKERS_GONE = "workers_gone"
    RENDEZVOUS_STARTED = "rendezvous_started"
    RENDEZVOUS_COMPLETED = "rendezvous_completed"
    WORKERS_STARTED = "workers_started"
    INITIALIZED = "initialized"


class NodeCondition(StrEnum):
    """Whether a machine can be used."""

    READY = "ready"
    NOT_READY = "not_ready"
    DRAINED = "drained"
    LOST = "lost"


class WindowState(StrEnum):
    """What became of a window that a person had declared out of account, or of a file that a person had given."""

    WITHDRAWN = "withdrawn"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What every fact carries: who says it, when, and about which part of the run."""

    kind: ClassVar[str] = ""

    run: str
    emitter: str
    seq: int
    at: int
    v: int = SCHEMA_VERSION
    job: str | None = None
    requeue: int | None = None
    restart: int | None = None
    iteration: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    extra: str | None = None
    """Fields this version does not know, as one JSON object; None when there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Fact):
    """The run exists. Its life starts with its first queue or attempt fact, not here."""

    kind: ClassVar[str] = "run_started"
    name: str | None = None
    project: str | None = None
    labels: Pairs = ()
    world_size: int | None = None
    gpus: int | None = None
    nodes: int | None = None
    framework: str | None = None
    target_step: int | None = None
    gpu_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Fact):
    """Nothing more will come of this run. An outcome of None: how it ended is unknown."""

    kind: ClassVar[str] = "run_ended"
    outcome: Outcome | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Fact):
    """A worker group begins to form."""

    kind: ClassVar[str] = "attempt_started"
    scope: Scope | None = None
    initiator: Initiator | None = None
    world_size: int | None = None
    gpus: int | None = None
    nodes: tuple[str, ...] = ()
    launcher: str | None = None
    versions: Pairs = ()
    config: str | None = None
    """Raw recovery settings as one JSON object."""
    down_untold: bool | None = None
    """How long none ran before it is not known: nothing dates it, and its instant only follows what was told before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Fact):
    """The worker group is gone."""

    kind: ClassVar[str] = "attempt_ended"
    outcome: Outcome | None = None
    reason: str | None = None
    exit_codes: tuple[tuple[int, int], ...] = ()
    """`(rank, exit code)`; negative codes are signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan(Fact):
    """The run, or one rank of it, was in a phase: `[start, end)`; `end` is None while it is open.

    An open phase carries a `span` id, and the fact that closes it repeats that id.
    """

    kind: ClassVar[str] = "phase"
    phase: Phase
    name: str | None = None
    """The custom name of an `overhead:<name>` phase."""
    start: int | None = None
    end: int | None = None
    span: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Fact):
    """Optimizer steps that were completed, contiguous in number and in time.

    `durations_us` has one entry per step; or `count` steps share the one entry of `durations_us` between them.
    Who sees only each `every`-th step says so: up to `every` − 1 more may be done than are told. None means each.
    """

    kind: ClassVar[str] = "steps"
    first_step: int
    start: int
    durations_us: tuple[int, ...]
    count: int | None = None
    loss: tuple[float, ...] = ()
    every: int | None = None

    @property
    def step_count(self) -> int:
        """Number of completed steps this fact stands for."""
        return len(self.durations_us) if self.count is None else self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMoment(Fact):
    """A checkpoint reached a stage."""

    kind: ClassVar[str] = "checkpoint"
    step: int
    stage: CheckpointStage
    checkpoint: str | None = None
    mode: str | None = None
    tier: str | None = None
    bytes: int | None = None
    location: str | None = None
    ranks_missing: tuple[int, ...] = ()
    checksum: str | None = None
    blocked_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLoaded(Fact):
    """A checkpoint was read into the workers during `[start, end)`. A failed load moves nothing."""

    kind: ClassVar[str] = "checkpoint_loaded"
    step: int
    start: int
    end: int
    checkpoint: str | None = None
    tier: str | None = None
    location: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeats(Fact):
    """Signs of life in `[start, end]`, folded: how many, and the longest gap between two of one rank.

    Of one rank (`rank`), of somebody, or of the ranks from `first_rank` on, with a count and a longest gap each.
    """

    kind: ClassVar[str] = "heartbeats"
    start: int
    end: int
    count: int
    max_gap_us: int
    phase: str | None = None
    sketch: str | None = None
    armed_timeout_us: int | None = None
    first_rank: int | None = None
    rank_counts: tuple[int, ...] = ()
    rank_max_gaps_us: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryMark(Fact):
    """A moment of a recovery, seen by whoever leads it."""

    kind: ClassVar[str] = "recovery_mark"
    stage: MarkStage
    by: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Fact):
    """A worker process ended."""

    kind: ClassVar[str] = "exit"
    exit_code: int
    signal: int | None = None
    core_dumped: bool | None = None
    oom_killed: bool | None = None


CLOCK_OFF = "clock_off"
"""Attribute of evidence that was dated anew: how its writer's clock stood to those of its file's other writers."""
TRAINED_ON, RUN_TRAINED_ON, TRAINING_DONE = "trained_on", "run_trained_on", "training_done"
"""Codes of evidence that takes back what its log said before: its rank trained on; the run did, whatever a machine told
of itself; all of them did, to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Fact):
    """A piece of raw evidence for a cause: a log line, an event, an XID."""

    kind: ClassVar[str] = "evidence"
    source: str
    text: str
    code: str | None = None
    attributes: Pairs = ()
    artefact: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState(Fact):
    """A machine's condition changed."""

    kind: ClassVar[str] = "node_state"
    state: NodeCondition
    reason: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity(Fact):
    """How many GPUs the run holds from now on."""

    kind: ClassVar[str] = "capacity"
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState(Fact):
    """What the scheduler says of the job: queued, running, suspended, preempted, backoff, …"""

    kind: ClassVar[str] = "scheduler_state"
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Fact):
    """A number that advice and correctness checks need (loss, gradient norm)."""

    kind: ClassVar[str] = "metric"
    name: str
    value: float
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(Fact):
    """The emitter's clock minus the server's."""

    kind: ClassVar[str] = "clock"
    offset_us: int
    error_us: int | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind(Fact):
    """A source could not see from `since` until `until` (None: still)."""

    kind: ClassVar[str] = "blind"
    source: str
    since: int
    until: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Fact):
    """What a person wrote about this instant."""

    kind: ClassVar[str] = "note"
    text: str
    author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded(Fact):
    """A person declared `[start, end)` out of account (maintenance).

    The window is known by the identity of this fact, `<emitter>~<seq>`.
    """

    kind: ClassVar[str] = "excluded"
    start: int
    end: int
    reason: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionState(Fact):
    """A window that was declared out of account counts again (withdrawn), or no more (restored)."""

    kind: ClassVar[str] = "exclusion_state"
    window: str
    """`<emitter>~<seq>` of the fact that declared it."""
    state: WindowState
    reason: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactState(Fact):
    """The evidence read from an uploaded file counts no more (withdrawn), or again (restored)."""

    kind: ClassVar[str] = "artefact_state"
    artefact: str
    """SHA-256 of the file, as evidence names it."""
    state: WindowState
    reason: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFact(Fact):
    """A kind this version does not know, kept whole: its own fields are in `extra`."""

    kind: ClassVar[str] = "unknown"
    stated_kind: str


FACT_TYPES: dict[str, type[Fact]] = {
    fact_type.kind: fact_type
    for fact_type in (
        RunStarted, RunEnded, AttemptStarted, AttemptEnded, PhaseSpan, Steps, CheckpointMoment, CheckpointLoaded,
        Heartbeats, RecoveryMark, Exit, Evidence, NodeState, Capacity, SchedulerState, Metric, Clock, Blind, Note,
        Excluded, ExclusionState, ArtefactState,
    )
}  # fmt: skip
"""Every kind of the wire format and the class that holds it."""
