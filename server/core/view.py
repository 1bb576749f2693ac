"""Views: everything a page, a rule or a command may know about one run, as of an instant.

Rules
- Instants are integers of nanoseconds since the Unix epoch, already corrected to the server's clock; lengths end in
  `_ns`. GPU-weighted lengths are nanoseconds × GPUs. Shares are fractions 0…1.
- `None` means *unknown*, never 0.
- Everything here is derived from facts by `fold.py` and can be thrown away and made again.

The names that leave this package (API, `rerail show --json`) are in `report.py` and `docs/facts.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rerail.server.core.facts import Initiator, Outcome, Pairs, Phase, Scope
from rerail.server.core.flight_recorder.conclusions import Analysis


class RunState(StrEnum):
    """Whether anything is heard of a run."""

    ALIVE = "alive"
    SILENT = "silent"
    ENDED = "ended"


class Domain(StrEnum):
    """On whose side the cause of an interruption lies."""

    WORKLOAD = "workload"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class CausalRole(StrEnum):
    """What a piece of evidence is to the interruption it belongs to."""

    INITIATING = "initiating"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONFIRMATION = "confirmation"
    INFORMATIONAL = "informational"
    UNKNOWN = "unknown"


class SpanKind(StrEnum):
    """On whose account a span goes: the rows of the loss waterfall."""

    EXCLUDED = "excluded"
    FAULT = "fault"
    STARTUP = "startup"
    PLANNED = "planned"
    CHECKPOINT = "checkpoint"
    REWORK = "rework"
    STALL = "stall"
    OVERHEAD = "overhead"
    UNKNOWN = "unknown"
    PRODUCTIVE = "productive"


@dataclass(frozen=True, slots=True)
class Span:
    """`[start, end)` of a run's life with one phase. Spans of a run are ordered, touch, and none is empty."""

    start: int
    end: int
    phase: Phase
    kind: SpanKind
    attempt: int | None = None
    name: str | None = None
    """The custom name of `overhead`."""
    first_step: int | None = None
    last_step: int | None = None
    """Steps this span worked on, for `training`, `recomputing` and `stalled`."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of the worker group."""

    number: int
    started_at: int
    ended_at: int | None
    """When it was over; None while it is open."""
    job: str | None = None
    requeue: int | None = None
    restart: int | None = None
    iteration: int | None = None
    scope: Scope | None = None
    """Of the restart that began it; None for attempt 0."""
    initiator: Initiator | None = None
    noticed_at: int | None = None
    last_activity_at: int | None = None
    first_step_at: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    step_count: int = 0
    resumed_from_step: int | None = None
    world_size: int | None = None
    gpus: int | None = None
    nodes: tuple[str, ...] = ()
    launcher: str | None = None
    versions: Pairs = ()
    config: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    exit_codes: tuple[tuple[int, int], ...] = ()
    """`(rank, exit code)`; negative codes are signals."""
    is_interrupted: bool = False
    """It ended before the run did."""
    is_planned: bool = False
    """It ended because a person or a plan said so, or without any fault."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """How far one restart threw the run back."""

    attempt: int
    """The attempt that began with it."""
    at: int
    from_step: int
    """High-water step when the attempt before ended."""
    to_step: int
    """Step the attempt resumed from."""
    lost_ns: int
    """First-pass training time of the steps `(to_step, from_step]`."""
    told_every: int = 1
    """Only each so-many-th step was told where the attempts before ended: `from_step` may lie so far above it, less
    one."""

    @property
    def is_least(self) -> bool:
        """Steps that nobody told of may have been thrown back too."""
        return self.told_every > 1

    @property
    def steps(self) -> int:
        """Steps thrown back; 0 is still a restart."""
        return self.from_step - self.to_step


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One saved state and how far its saving got."""

    checkpoint_id: str
    step: int
    attempt: int | None = None
    mode: str | None = None
    tier: str | None = None
    started_at: int | None = None
    captured_at: int | None = None
    durable_at: int | None = None
    failed_at: int | None = None
    deleted_at: int | None = None
    blocked_ns: int | None = None
    bytes: int | None = None
    location: str | None = None

    @property
    def commit_lag_ns(self) -> int | None:
        """From capture to durable; None too where nothing but that it was durable was told."""
        if self.durable_at is None or self.captured_at is None:
            return None
        if self.started_at is None and self.captured_at == self.durable_at:
            return None
        return self.durable_at - self.captured_at

    @property
    def moments(self) -> tuple[int, ...]:
        """The known instants of its saving, whatever became of it; a deletion is none of them."""
        known = (self.started_at, self.captured_at, self.durable_at, self.failed_at)
        return tuple([at for at in known if at is not None])


@dataclass(frozen=True, slots=True)
class CheckpointFreshness:
    """What a crash right now would cost."""

    newest_durable_step: int | None = None
    newest_durable_id: str | None = None
    age_ns: int | None = None
    """Since the capture of the newest durable checkpoint."""
    steps_at_risk: int | None = None
    commit_lag_p95_ns: int | None = None
    commit_lag_count: int = 0
    """Below 20 the p95 is the maximum."""
    count: int = 0
    """Checkpoints told of, whatever became of them."""
    durable_count: int = 0
    failed_count: int = 0
    age_started_ns: int | None = None
    """Since the newest save began, whatever became of it."""
    interval_ns: int | None = None
    """Median time between the captures of the latest durable checkpoints; None below two of one attempt."""
    overdue_ns: int | None = None
    """How far an open run is beyond interval + 1.5 × p95 of the commit lag; 0: in time; None: cannot be told."""
    exposed_gpu_ns: int | None = None
    """GPU·ns since the capture of the newest durable checkpoint: what is gone if the run dies now."""
    stuck: tuple[str, ...] = ()
    """Saves that began and are neither durable nor failed after 2 × p95 of the commit lag; newest first."""
    blocked_ns: int | None = None
    """Median of what the latest saves of the prevailing mode blocked training; None where none said."""
    commit_lag_p50_ns: int | None = None
    is_asynchronous: bool = False
    """Of the latest saves that said how they were made, most were asynchronous."""
    suspect_steps: tuple[int, ...] = ()
    """Steps of checkpoints that were loaded at least twice, and each time the attempt failed before it saved anew."""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One piece of evidence of an interruption, in the order of its instant."""

    at: int
    source: str
    text: str
    role: CausalRole
    rank: int | None = None
    node: str | None = None
    code: str | None = None
    emitter: str | None = None
    seq: int | None = None
    meaning: str | None = None
    """What the maker of the code says of it and what to do, e.g. of an XID; None where the text speaks for itself."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an attempt ended, as far as known."""

    cause: str
    """A cause class: the name of a rule in `causes/`, or `unknown`."""
    domain: Domain
    confidence: float
    """0…1; 0 for `unknown`."""
    sentence: str
    """What a person should read first."""
    culprit_rank: int | None = None
    culprit_node: str | None = None
    advice: str | None = None
    missing_evidence: str | None = None
    """What would settle it, where the evidence does not."""
    traits: Pairs = ()
    """What makes this fault the same as another, sorted by name: `exception`, `frame`, `operation`, `xid`, …; values
    without numbers that differ from one time to the next."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes a fault the same as another one, on any server: see `fingerprints.py`."""

    text: str
    """Version and hash, `1:9f3a2c1b7d4e`."""
    parts: Pairs
    """What it was made of, in the order of `fingerprints.PARTS`."""


@dataclass(frozen=True, slots=True)
class RelaunchVerdict:
    """Why a restart of an incident failed in its turn."""

    attempt: int
    verdict: Verdict
    evidence: tuple[EvidenceLine, ...] = ()
    """The pieces its verdict rests on."""

    def first_lines(self, most: int) -> tuple[EvidenceLine, ...]:
        """At most so many of those pieces, for where there is little room: what began it goes first."""
        return tuple(sorted(self.evidence, key=lambda line: line.role is not CausalRole.INITIATING)[:most])


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an incident's anatomy."""

    name: str
    """A phase name, or `catch_up`."""
    length_ns: int


@dataclass(frozen=True, slots=True)
class Incident:
    """One loss of forward progress: from the last completed step before it until the high-water step is passed."""

    incident_id: str
    run_id: str
    attempts: tuple[int, ...]
    """The interrupted attempts, first to last; more than one when relaunches failed."""
    started_at: int
    noticed_at: int | None
    restarted_at: int | None
    """Start of the first completed step after it; None while there is none."""
    ended_at: int | None
    """None while it is open."""
    is_planned: bool
    is_open: bool
    """The ground is not regained, and the run goes on. One that is neither open nor has an end was never regained."""
    scope: Scope | None
    """Of the restart that succeeded; of an open incident, of the latest one."""
    verdict: Verdict
    parts: tuple[Part, ...]
    """Sums to `time_to_recover_ns`; of an open incident, to the time it has taken so far."""
    time_to_restart_ns: int
    """Down phases up to the latest restart that completed a step; so far, while there is none."""
    time_to_recover_ns: int | None
    """None while it is open: the ground is not regained."""
    lost_steps: int | None
    """Steps to do again; None while no restart has told from which step it goes on."""
    lost_ns: int | None
    """First-pass time of the steps that had to be redone; None as for them."""
    lost_gpu_ns: int | None
    """GPU·ns from start to end of the incident; None where no GPU number was told."""
    exit_codes: tuple[tuple[int, int], ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    rollback: Rollback | None = None
    flight_recorder: Analysis | None = None
    """What the flight recorder dumps of its first attempt say together; None where there are none."""
    is_excluded: bool = False
    """All of it lies in windows out of account: it is shown, and no rate and no distribution counts it."""
    fingerprint: Fingerprint | None = None
    """None for a planned restart."""
    facets: Pairs = ()
    """Where, when and to whom: node, rank, step, checkpoint, config, run; what is not known is left out."""
    relaunches: tuple[RelaunchVerdict, ...] = ()
    """Of every attempt after the first that ended too: why. `verdict` is that of the first."""
    is_cost_least: bool = False
    """`lost_gpu_ns` stops where an open incident's run was heard last: its GPUs may be held, and nobody knows."""
    told_every: int = 1
    """Only each so-many-th step was told where it struck: so many more, less one, may be lost, and their time."""

    is_down_untold: bool = False
    """Nothing dates a restart of it: how long it was down is not known, and its lengths are at least so much."""
    is_step_untold: bool = False
    """Nobody tells of steps: when it stepped again is not known, and its lengths are at least so much."""

    @property
    def is_loss_least(self) -> bool:
        """`lost_steps` and `lost_ns` are at least so much: steps that nobody told of may be lost too."""
        return self.told_every > 1

    @property
    def counts(self) -> bool:
        """Whether rates and distributions are of it: nobody asked for it, and it is not out of account."""
        return not self.is_planned and not self.is_excluded

    @property
    def failed_relaunches(self) -> int:
        """Attempts that ended before they had passed the ground lost."""
        return len(self.attempts) - 1

    @property
    def untold_ns(self) -> int:
        """Of its time, what nobody told anything of before training stepped again: it may have been down or not."""
        return sum(part.length_ns for part in self.parts if part.name == Phase.SILENT.value)

    @property
    def so_far_ns(self) -> int:
        """What its parts sum to: the time to recover, or what has passed of it."""
        return sum(part.length_ns for part in self.parts)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A distribution of lengths. Below 20 of them p95 and p99 are the maximum."""

    n: int
    p50_ns: int
    p90_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class RecoveryDistribution:
    """How long recovery took and what it cost, over the unplanned incidents of one group."""

    grouped_by: str
    """One of `recovery.GROUPINGS`."""
    group: str
    incidents: int
    """Those that did not recover yet among them."""
    failed_relaunches: int
    recover: Percentiles | None
    """Time to recover of those that did; None where none did."""
    restart: Percentiles | None
    """Time to restart of those after which a step was completed."""
    lost_steps: int | None
    """Of those of which it is known; None where it is known of none."""
    lost_ns: int | None
    """First-pass time of the steps that had to be redone, likewise."""
    lost_gpu_ns: int | None
    """GPU·ns from start to end of each; None where that is not known of all."""
    is_loss_least: bool = False
    """`lost_steps` and `lost_ns` are at least so much, of one of them or more."""


@dataclass(frozen=True, slots=True)
class FailureRates:
    """How often the run fails: see `rates.py`. Limits are 95 % Poisson limits; without a fault only one is a limit."""

    faults: int = 0
    """Unplanned incidents; the relaunches that died within one are not faults of their own."""
    up_ns: int = 0
    elapsed_ns: int = 0
    node_ns: int | None = None
    """Nodes × up-time; None where the number of nodes is not known."""
    mttf_ns: int | None = None
    """Up-time ÷ faults; None without a fault."""
    mttf_low_ns: int | None = None
    mttf_high_ns: int | None = None
    """None without a fault: there is no upper limit."""
    mtbf_ns: int | None = None
    """Elapsed time ÷ faults."""
    per_1000_node_days: float | None = None
    per_1000_node_days_low: float | None = None
    per_1000_node_days_high: float | None = None


@dataclass(frozen=True, slots=True)
class IntervalAdvice:
    """How often to save, by the run's own figures; or why that cannot be said. See `checkpoint_interval.py`."""

    formula: str | None = None
    """`daly` or `asynchronous`."""
    low_ns: int | None = None
    """At the lower limit of the MTTF."""
    advised_ns: int | None = None
    high_ns: int | None = None
    floor_ns: int | None = None
    """Asynchronous saves that come faster than this queue behind each other."""
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class RankGap:
    """The longest healthy gap of one rank."""

    rank: int
    max_gap_ns: int


@dataclass(frozen=True, slots=True)
class QuietRanks:
    """Ranks of the attempt at hand that are heard no longer while others are."""

    count: int
    ranks: tuple[int, ...]
    """The lowest of them."""
    since: int
    """None of them was heard after this instant."""


@dataclass(frozen=True, slots=True)
class HeartbeatFigures:
    """Gaps between signs of life in one phase."""

    phase: str
    n: int
    max_gap_ns: int
    max_gap_rank: int | None = None
    armed_timeout_ns: int | None = None
    ranks: int | None = None
    """How many ranks were heard; None where no beat was told of a rank."""
    slowest: tuple[RankGap, ...] = ()
    """The ranks with the longest gaps, the longest first."""

    @property
    def headroom(self) -> float | None:
        """Armed time-out ÷ longest healthy gap."""
        if self.armed_timeout_ns is None or self.max_gap_ns == 0:
            return None
        return self.armed_timeout_ns / self.max_gap_ns


@dataclass(frozen=True, slots=True)
class BlindPeriod:
    """A source could not see; `until` None means still."""

    source: str
    since: int
    until: int | None
    reason: str | None = None
    emitter: str | None = None
    """Who said so."""
    node: str | None = None
    """Where it looks from; None where that was not said."""


@dataclass(frozen=True, slots=True)
class ExclusionChange:
    """A person undid a window, or undid that."""

    at: int
    state: str
    """`withdrawn` or `restored`."""
    reason: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`[start, end)` was declared out of account by a person."""

    window: str
    """Its identity, `<emitter>~<seq>`."""
    start: int
    end: int
    declared_at: int
    reason: str | None = None
    author: str | None = None
    is_withdrawn: bool = False
    """It counts again."""
    changes: tuple[ExclusionChange, ...] = ()
    """What became of it since, oldest first; the last one holds."""


@dataclass(frozen=True, slots=True)
class ArtefactUse:
    """What the facts say of a file that somebody gave."""

    artefact: str
    """Its SHA-256."""
    pieces: int
    """Pieces of evidence that were read from it."""
    is_withdrawn: bool = False
    """They do not count."""
    changed_at: int | None = None
    """When somebody withdrew or restored it last."""
    reason: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Facts that cannot all be true: how many, why, and one of them."""

    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Silent time with one likely reason: how much, in how many pieces, and the longest of them."""

    reason: str
    """A reason of `unexplained.py`; `unknown` where the facts give none."""
    detail: str
    """The reason in words."""
    length_ns: int
    count: int
    example_at: int
    example_ns: int
    example_attempt: int | None = None
    example_after_step: int | None = None
    """Last step before it in its attempt; None before any."""


@dataclass(frozen=True, slots=True)
class DataQuality:
    """How far the figures can be trusted."""

    duplicates: int = 0
    late: int = 0
    """Facts that arrived after facts of a later instant and made a rebuild of the timeline necessary."""
    contradictory: int = 0
    rejected: int = 0
    clock_spread_ns: int | None = None
    unexplained_ns: int = 0
    unexplained: tuple[Unexplained, ...] = ()
    """Where it is likely to have gone, the longest first; sums to `unexplained_ns`."""
    blind: tuple[BlindPeriod, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    notes: tuple[str, ...] = ()
    """What the figures rest on where not everything is known, in sentences (only rank 0 reports, no saves seen, …)."""


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """One row of the loss waterfall; losses are positive lengths. The rows add up exactly."""

    name: str
    """elapsed | faults | infrastructure_goodput | startup | planned | checkpoint | rework | stalls | overhead |
    unknown | training_goodput"""
    length_ns: int
    share: float | None
    """Of elapsed; None when nothing elapsed."""
    is_total: bool
    """A level (elapsed, the two goodputs), not a loss."""


@dataclass(frozen=True, slots=True)
class Account:
    """Where the time of a window went. In a GPU-weighted account every length is in GPU·ns."""

    start: int
    end: int
    elapsed_ns: int
    """Without `excluded`."""
    ns_by_phase: tuple[tuple[Phase, int], ...]
    """Only phases that occurred; all but `excluded` sum to `elapsed_ns`."""
    productive_ns: int
    debt_ns: int
    faults_ns: int
    """Down phases that followed a fault."""
    startup_ns: int
    planned_ns: int
    longest_unproductive_ns: int | None
    waterfall: tuple[WaterfallRow, ...]

    @property
    def training_goodput(self) -> float | None:
        """Productive ÷ elapsed; None when nothing elapsed."""
        return self.productive_ns / self.elapsed_ns if self.elapsed_ns else None

    @property
    def infrastructure_goodput(self) -> float | None:
        """1 − faults ÷ elapsed; None when nothing elapsed."""
        return 1 - self.faults_ns / self.elapsed_ns if self.elapsed_ns else None

    @property
    def checkpoint_efficiency(self) -> float | None:
        """1 − saving ÷ time in the training loop; None when there was none."""
        by_phase = dict(self.ns_by_phase)
        loop = sum(by_phase.get(phase, 0) for phase in TRAINING_LOOP)
        return 1 - by_phase.get(Phase.SAVING, 0) / loop if loop else None


TRAINING_LOOP = (
    Phase.SAVING,
    Phase.EVALUATING,
    Phase.DATA_WAIT,
    Phase.OVERHEAD,
    Phase.STALLED,
    Phase.RECOMPUTING,
    Phase.TRAINING,
)


@dataclass(frozen=True, slots=True)
class SlidingPoint:
    """Goodput of the window that ends at `at`; None where nothing of it lies in the run.

    Where nobody sees the steps, training goodput is unknown and infrastructure goodput is its upper limit.
    """

    at: int
    training: float | None
    infrastructure: float | None


@dataclass(frozen=True, slots=True)
class StepPoint:
    """Where the run stood at `at`, for the step sawtooth."""

    at: int
    step: int
    durable_step: int | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class MachineWord:
    """Something told of a machine: evidence that names it, or its new condition."""

    at: int
    node: str
    source: str
    """Who told: `kernel`, `dcgm`, `prometheus`, …; empty for a condition, of which that is not kept."""
    text: str
    code: str | None = None
    """`xid:79`, …; of a condition that itself: `not_ready`."""


@dataclass(frozen=True, slots=True)
class RunView:
    """The run as of `as_of`: all figures but the timeline's spans, which are read by range."""

    run_id: str
    as_of: int
    state: RunState
    started_at: int | None
    """First queue or attempt fact; None while nothing but `run_started` is known."""
    ended_at: int | None
    last_heard_at: int | None
    silent_since: int | None
    account: Account
    gpu_account: Account | None
    """The same in GPU·ns; None where no GPU number was told."""
    definition: str = "rerail"
    sees_training: bool = True
    """Somebody speaks for the ranks. Where only a launcher does, steps are unseen and training goodput is unknown."""
    name: str | None = None
    project: str | None = None
    labels: Pairs = ()
    framework: str | None = None
    gpu_type: str | None = None
    world_size: int | None = None
    gpus: int | None = None
    target_step: int | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    current_phase: Phase | None = None
    high_water_step: int | None = None
    current_step: int | None = None
    attempts: tuple[Attempt, ...] = ()
    restarts: int = 0
    interruptions: int = 0
    """Attempts that ended before the run did, failed relaunches and planned stops among them; faults: `rates`."""
    rollbacks: tuple[Rollback, ...] = ()
    incidents: tuple[Incident, ...] = ()
    recovery: tuple[RecoveryDistribution, ...] = ()
    rates: FailureRates = FailureRates()
    interval_advice: IntervalAdvice = IntervalAdvice()
    checkpoint: CheckpointFreshness = CheckpointFreshness()
    heartbeat: tuple[HeartbeatFigures, ...] = ()
    quiet_ranks: QuietRanks | None = None
    """None where the run is over, or no rank is quieter than the others."""
    undisturbed_step_ns: int | None = None
    checkpoint_slowdown: float | None = None
    """κ: mean step time with a write in flight ÷ undisturbed step time."""
    slowdown_ns: int | None = None
    """What steps took beyond the undisturbed step time, over all of them; below 0 where most were faster."""
    hidden_checkpoint_ns: int | None = None
    """The part of it that steps with a write in flight took; None where there were none."""
    data_quality: DataQuality = DataQuality()
    exclusions: tuple[Exclusion, ...] = ()
    artefacts: tuple[ArtefactUse, ...] = ()
    """Files that evidence was read from, by their SHA-256."""
    """Windows that people declared out of account, withdrawn ones too, by their start."""
    dumps_say: Verdict | None = None
    """What flight recorder dumps tell of a run of which nobody told an attempt; None where one is known."""
    machines_say: tuple[MachineWord, ...] = ()
    """What was told of its machines, oldest first, while nobody told of an attempt; the newest where there is much."""

    @property
    def unplanned_incidents(self) -> tuple[Incident, ...]:
        """Incidents that nobody asked for and that are not out of account; rates and distributions are of these."""
        return tuple(incident for incident in self.incidents if incident.counts)

    @property
    def has_untold_restart(self) -> bool:
        """Nothing dates a restart of it: more time has passed than is counted, and goodputs are at most so much."""
        return any(each.is_down_untold for each in self.unplanned_incidents)

    @property
    def recoveries_ns(self) -> tuple[int, ...]:
        """Time to recover of each unplanned incident that recovered, ascending."""
        lengths = (each.time_to_recover_ns for each in self.unplanned_incidents if not each.is_down_untold)
        return tuple(sorted(length for length in lengths if length is not None))
