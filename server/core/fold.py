"""The fold: one run's facts to everything that is known of it, incrementally.

Rules
- `add` takes facts in any order; `view` answers as of an instant. The answer depends only on the set of facts.
- What was settled stays: `settled_spans` says how many leading spans the last `view` left as they were, so that a
  store rewrites the tail only.

The way of a fact: `gathering` sorts it into its attempt, `run_timeline` folds attempts into spans, `saves` keeps
checkpoints and step times, `incidents` and `causes` say what an interruption was, and `view` puts it together.

What it does not know: who asks, what time it is, and where facts come from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter

from rerail.server.core.attempt_pass import Surroundings
from rerail.server.core.attempt_record import AttemptRecord, TimedEvidence
from rerail.server.core.causes import Case, judge
from rerail.server.core.checkpoint_interval import advised_interval
from rerail.server.core.dumps_alone import verdict_of_dumps
from rerail.server.core.facts import Evidence, Fact, Outcome, Phase, Scope
from rerail.server.core.fingerprints import facets_of, fingerprint_of, struck_phase
from rerail.server.core.flight_recorder.conclusions import Analysis
from rerail.server.core.flight_recorder.verdict import aged_analysis
from rerail.server.core.freshness import freshness_of
from rerail.server.core.gathering import Gathering, Recall
from rerail.server.core.goodput import Capacities, Tally, account_of
from rerail.server.core.incidents import IncidentBounds, IncidentFindings, Interruption, incident, incident_bounds
from rerail.server.core.life import Around, Life, ended_too_soon, life_of, surroundings_of
from rerail.server.core.machine_words import machine_words
from rerail.server.core.node_histories import NodeBook, NodeHistory
from rerail.server.core.progress import resumed_from
from rerail.server.core.quality import (
    Suspicion,
    footing,
    grouped,
    loads_beyond,
    loads_of_nothing,
    steps_without_gpus,
    suspicions_of,
    suspicions_of_windows,
    unearned_checkpoints,
)
from rerail.server.core.rates import failure_rates
from rerail.server.core.recovery import recovery_distributions
from rerail.server.core.run_timeline import RunTimeline, Version
from rerail.server.core.saves import Saves
from rerail.server.core.steadiness import Steadiness
from rerail.server.core.told import Metadata, Started, initiator_of, scope_of, world_size_of
from rerail.server.core.unexplained import Circumstances, Gaps, explained
from rerail.server.core.view import (
    Account,
    Attempt,
    BlindPeriod,
    CausalRole,
    Checkpoint,
    DataQuality,
    EvidenceLine,
    Incident,
    MachineWord,
    RecoveryDistribution,
    RelaunchVerdict,
    Rollback,
    RunState,
    RunView,
    Span,
    StepPoint,
    Unexplained,
    Verdict,
)

UNTOLD_STEPS = 10
UNTOLD_NS = 10_000_000_000
"""So many steps, or so long, may pass untold before a run counts as silent now."""

RELAUNCH_LINES = 5
"""Pieces of evidence kept of every attempt after the first of an incident."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Why one attempt ended."""

    made_of: tuple[object, ...]
    verdict: Verdict
    trace: tuple[EvidenceLine, ...]
    flight_recorder: Analysis | None


class RunFold:
    """One run's facts → timeline, figures, incidents.

    With `recall` facts are not held: what came so late that everything must be gathered anew is read again. Without it
    the fold holds every fact, and one may be added any number of times.
    """

    def __init__(self, run_id: str, recall: Recall | None = None) -> None:
        self.run_id = run_id
        self._gathering = Gathering(recall)
        self._timeline = RunTimeline(self._gathering)
        self._saves = Saves(self._gathering)
        self._judged: dict[int, _Judged] = {}
        """By attempt."""
        self._scheduler: tuple[tuple[int, int], list[tuple[int, str]]] = ((0, 0), [])
        self._steadiness = Steadiness()
        self._around = Around()
        self._suspected: dict[int, tuple[Version, list[Suspicion]]] = {}
        self._shown: dict[int, tuple[tuple[object, ...], Attempt]] = {}
        self._attempts_before: tuple[Attempt, ...] = ()
        self._interruptions: list[Interruption] = []
        self._incidents: dict[int, tuple[IncidentBounds, Incident]] = {}
        """By their first attempt: those that were regained."""
        self._are_steps_told = False
        self._recovered: tuple[tuple[object, ...], tuple[RecoveryDistribution, ...]] = ((), ())
        self._said: tuple[object, Verdict | None, tuple[MachineWord, ...]] = (None, None, ())
        """While nobody told of an attempt: what dumps and machines say, and of which facts."""
        self._gaps = Gaps()
        self._node_book = NodeBook()
        self.node_histories: tuple[NodeHistory, ...] = ()
        """Every node that was named, by name, as of the last view; the same object while nothing of it changed."""
        self._endings: tuple[tuple[Attempt, ...], Sequence[Surroundings]] = ((), ())
        self.settled_checkpoints = 0
        """How many leading checkpoints the last view left as they were."""

    def add(self, facts: Iterable[Fact]) -> None:
        """Take facts, in any order and any number of times."""
        self._gathering.add(facts)

    @property
    def capacities(self) -> Capacities:
        """How many GPUs the run held, over time."""
        return Capacities(self._gathering.run_wide.gpus)

    @property
    def spans(self) -> Sequence[Span]:
        """As of the last view: ordered, touching, none empty."""
        return self._timeline.spans

    @property
    def step_points(self) -> Sequence[StepPoint]:
        """Corners of the step sawtooth as of the last view, in order."""
        return self._timeline.step_points

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """As of the last view, by their first stamp."""
        return self._saves.shelf.ordered

    @property
    def settled_spans(self) -> int:
        """How many leading spans the last view left as they were."""
        return self._timeline.settled_spans

    @property
    def settled_step_points(self) -> int:
        """How many leading step points the last view left as they were."""
        return self._timeline.settled_step_points

    # --- the view ---

    def view(self, as_of: int, *, duplicates: int = 0, rejected: int = 0) -> RunView:
        """Everything known of the run as of an instant. `duplicates` and `rejected` were counted at the door."""
        records = self._gathering.settle()
        self._saves.renew_checkpoints(records)
        life = life_of(self._gathering, records, as_of)
        capacities = self.capacities
        if life is None:
            return self._view_of_nothing(as_of, duplicates, rejected)
        timeline = self._timeline
        before, self._steadiness = self._steadiness, Steadiness.of(self._gathering, records, life)
        steady = min(self._steadiness.steady_since(before), len(timeline.folded))
        self._around = surroundings_of(self._gathering, records, life, self._around, steady)
        surroundings = self._around.surroundings
        if not timeline.fold(records, surroundings, capacities, steady):
            self._steadiness = Steadiness()
            self._gathering.regather()
            return self.view(as_of, duplicates=duplicates, rejected=rejected)
        self._saves.renew_samples(records, surroundings, timeline.folded)
        told_every = _told_every(records)
        rollbacks = tuple(
            replace(folded.rollback, told_every=told_every[folded.rollback.attempt - 1])
            for folded in timeline.folded
            if folded.rollback is not None
        )
        high_water_step = timeline.folded[-1].result.carry.high_water_step if timeline.folded else None
        current_step = timeline.current_step(high_water_step)
        account, gpu_account = timeline.accounts(life, current_step, high_water_step, capacities, steady)
        attempts = self._attempts_before = self._attempts(records, surroundings, life, steady)
        self._endings = (attempts, surroundings)
        incidents = self._all_incidents(
            records, surroundings, attempts, life, capacities, rollbacks, told_every, steady
        )
        withdrawn = self._gathering.run_wide.artefacts.withdrawn()
        evidence = [_counted(record, withdrawn) for record in records]
        changes = self._gathering.run_wide.node_changes
        version = (self._gathering.gatherings, withdrawn)
        self.node_histories = self._node_book.renew(attempts, evidence, changes, life.ended_at, version)
        shelf = self._saves.shelf
        self.settled_checkpoints = shelf.settle()
        sealed = timeline.seal(records, surroundings, capacities)
        if sealed is not None:
            self._saves.seal(len(records) - 1, *sealed)
        state, last_heard_at, silent_since = self._liveness(life.ended_at, as_of)
        wide = self._gathering.run_wide
        blind = wide.blind.periods()
        metadata = Metadata(self._gathering)
        quality = DataQuality(
            duplicates=duplicates + self._gathering.repeated,
            late=self._gathering.late,
            contradictory=0,
            rejected=rejected,
            clock_spread_ns=self._clock_spread_ns(),
            unexplained_ns=dict(account.ns_by_phase).get(Phase.SILENT, 0),
            unexplained=self._unexplained(records, attempts, life, account, state, blind),
            blind=blind,
            contradictions=grouped(
                [
                    *ended_too_soon(self._gathering, records, life),
                    *chain.from_iterable(self._around.suspicions),
                    *self._suspicions(records, steady),
                    *unearned_checkpoints(shelf, high_water_step),
                    *self._saves.suspicions(),
                    *steps_without_gpus(timeline.spans, capacities),
                    *loads_of_nothing(records, shelf),
                    *loads_beyond(records, [folded.carry_in.high_water_step for folded in timeline.folded]),
                    *suspicions_of_windows(wide.exclusions),
                ]
            ),
            notes=footing(
                records,
                metadata.world_size,
                bool(shelf.ordered),
                current_step is not None,
                wide.speaks_for_ranks,
                self._unnoticed(records, surroundings),
                untold_restarts=[number for number, record in enumerate(records) if number and record.is_down_untold],
                told_every=max(
                    (every for every, around in zip(told_every, surroundings, strict=True) if around.is_interrupted),
                    default=1,
                ),
            ),
        )
        faults = sum(incident.counts for incident in incidents)
        rates = failure_rates(account, attempts, faults, metadata.nodes)
        freshness = freshness_of(shelf, records, surroundings, capacities, high_water_step, life.end)
        slowdown = self._saves.counts.slowdown()
        quality = replace(quality, contradictory=sum(each.count for each in quality.contradictions))
        return RunView(
            run_id=self.run_id,
            as_of=as_of,
            state=state,
            started_at=life.start,
            ended_at=life.ended_at,
            last_heard_at=last_heard_at,
            silent_since=silent_since,
            account=account,
            gpu_account=gpu_account,
            sees_training=wide.speaks_for_ranks or not attempts,
            name=metadata.name,
            project=metadata.project,
            labels=metadata.labels,
            framework=metadata.framework,
            gpu_type=metadata.gpu_type,
            world_size=metadata.world_size
            or next((attempt.world_size for attempt in reversed(attempts) if attempt.world_size), None),
            gpus=capacities.at(life.end),
            target_step=metadata.target_step,
            outcome=life.outcome,
            reason=life.reason,
            current_phase=None if life.ended_at is not None else self._current_phase(),
            high_water_step=high_water_step,
            current_step=current_step,
            attempts=attempts,
            restarts=max(0, len(attempts) - 1),
            interruptions=sum(attempt.is_interrupted for attempt in attempts),
            rollbacks=rollbacks,
            incidents=incidents,
            recovery=self._recovery(incidents, attempts),
            rates=rates,
            interval_advice=advised_interval(freshness, rates, slowdown),
            checkpoint=freshness,
            heartbeat=tuple(beats.figures(phase) for phase, beats in sorted(wide.beats.items())),
            quiet_ranks=records[-1].last_heard.quiet() if records and not surroundings[-1].is_over else None,
            undisturbed_step_ns=self._saves.counts.median(),
            checkpoint_slowdown=slowdown,
            slowdown_ns=self._saves.counts.slowdown_ns(),
            hidden_checkpoint_ns=self._saves.counts.hidden_checkpoint_ns(),
            data_quality=quality,
            exclusions=wide.exclusions.windows(),
            artefacts=wide.artefacts.uses(),
        )

    def _view_of_nothing(self, as_of: int, duplicates: int, rejected: int) -> RunView:
        metadata = Metadata(self._gathering)
        ended = max(self._gathering.run_wide.ended, key=lambda entry: entry[:3], default=None)
        ended_at = None if ended is None else ended[0]
        state, heard, silent_since = self._liveness(ended_at, as_of)
        dumps_say, machines_say = self._without_attempts()
        return RunView(
            run_id=self.run_id,
            as_of=as_of,
            state=state,
            started_at=None,
            ended_at=ended_at,
            last_heard_at=heard,
            silent_since=silent_since,
            account=account_of(Tally(), as_of, as_of, 0),
            gpu_account=None,
            name=metadata.name,
            project=metadata.project,
            labels=metadata.labels,
            framework=metadata.framework,
            gpu_type=metadata.gpu_type,
            world_size=metadata.world_size,
            gpus=self.capacities.at(as_of),
            target_step=metadata.target_step,
            outcome=None if ended is None else ended[3].outcome,
            data_quality=DataQuality(
                duplicates=duplicates + self._gathering.repeated,
                rejected=rejected,
                blind=self._gathering.run_wide.blind.periods(),
                notes=("Nothing was stated of any attempt yet: no timeline can be drawn.",),
            ),
            exclusions=self._gathering.run_wide.exclusions.windows(),
            dumps_say=dumps_say,
            machines_say=machines_say,
        )

    def _without_attempts(self) -> tuple[Verdict | None, tuple[MachineWord, ...]]:
        """What dumps and machines say of a run of which nobody told an attempt; its nodes are known by the latter."""
        wide = self._gathering.run_wide
        withdrawn = wide.artefacts.withdrawn()
        unplaced = self._gathering.unplaced
        version = (len(unplaced), self._gathering.gatherings, withdrawn, len(wide.node_changes))
        if self._said[0] != version:
            told = [
                TimedEvidence(at, fact) for at, _, fact in unplaced
                if isinstance(fact, Evidence) and fact.artefact not in withdrawn
            ]  # fmt: skip
            dumps_say = verdict_of_dumps((each.at, each.evidence) for each in told)
            self._said = version, dumps_say, machine_words(told, wide.node_changes)
            self.node_histories = self._node_book.renew((), [told], wide.node_changes, None, version)
        return self._said[1:]

    def _attempts(
        self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings], life: Life, steady: int
    ) -> tuple[Attempt, ...]:
        attempts = list(self._attempts_before[:steady])
        reached = max((each.last_step or 0 for each in attempts), default=0)
        for number in range(steady, len(records)):
            record, around = records[number], surroundings[number]
            before = None if number == 0 else (records[number - 1].job, records[number - 1].key)
            scope = scope_of(records, number)
            # A process that goes on keeps the settings it had, whether or not it says so again.
            kept = attempts[-1] if attempts and scope is Scope.IN_PROCESS else None
            carried = None if kept is None else (kept.config, kept.launcher, kept.versions)
            outcome = life.outcome if around.is_last else None
            reached = max(reached, (attempts[-1].last_step if attempts else None) or 0)
            signature = (self._timeline.version(record), around, before, outcome, carried, reached)
            shown = self._shown.get(number)
            if shown is not None and shown[0] == signature:
                attempts.append(shown[1])
                continue
            blocks = record.blocks()
            first = record.first_block
            resumed = resumed_from(record)
            if resumed is not None and number and not record.loads and resumed[1] > reached:
                resumed = None  # nobody came so far: steps before it were not told
            merged = Started(record)
            result = self._timeline.folded[number].result
            began_at = around.within(record.started_at)
            ended_at = record.ended_at
            if ended_at is not None and ended_at < began_at:
                ended_at = None
            if ended_at is None and around.is_over:
                ended_at = around.end
            attempts.append(
                Attempt(
                    number=number,
                    started_at=began_at,
                    ended_at=ended_at,
                    job=record.job,
                    requeue=record.key.requeue,
                    restart=record.key.restart,
                    iteration=record.key.iteration,
                    scope=scope,
                    initiator=merged.initiator,
                    noticed_at=result.noticed_at,
                    last_activity_at=result.last_activity_at,
                    first_step_at=around.within(first.start) if first is not None else None,
                    first_step=first.first_step if first is not None else None,
                    last_step=blocks[-1].last_step if blocks else None,
                    step_count=record.step_count,
                    resumed_from_step=None if resumed is None else resumed[1],
                    world_size=merged.world_size,
                    gpus=merged.gpus,
                    nodes=merged.nodes,
                    launcher=merged.launcher or (kept.launcher if kept else None),
                    versions=merged.versions or (kept.versions if kept else ()),
                    config=merged.config if merged.config is not None or kept is None else kept.config,
                    outcome=record.outcome or (life.outcome if around.is_last else None),
                    reason=record.reason,
                    exit_codes=record.exit_codes(),
                    is_interrupted=around.is_interrupted,
                    is_planned=around.is_planned,
                )
            )
            self._shown[number] = (signature, attempts[-1])
        return tuple(attempts)

    def _recovery(
        self, incidents: tuple[Incident, ...], attempts: tuple[Attempt, ...]
    ) -> tuple[RecoveryDistribution, ...]:
        made_of = (incidents, [(each.initiator, each.config, each.launcher, each.versions) for each in attempts])
        if self._recovered[0] != made_of:
            self._recovered = (made_of, recovery_distributions(incidents, attempts))
        return self._recovered[1]

    def _all_incidents(
        self,
        records: Sequence[AttemptRecord],
        surroundings: Sequence[Surroundings],
        attempts: Sequence[Attempt],
        life: Life,
        capacities: Capacities,
        rollbacks: Sequence[Rollback],
        told_every: Sequence[int],
        steady: int,
    ) -> tuple[Incident, ...]:
        del self._interruptions[steady:]
        interruptions = self._interruptions
        for number in range(steady, len(records)):
            attempt, around, folded = attempts[number], surroundings[number], self._timeline.folded[number]
            blocks = records[number].blocks()
            runs_from = folded.result.runs_from
            interruptions.append(
                Interruption(
                    number=attempt.number,
                    is_interrupted=around.is_interrupted,
                    is_planned=around.is_planned,
                    noticed_at=folded.result.noticed_at,
                    scope=attempt.scope,
                    goes_on_at=attempt.first_step_at if runs_from is None else runs_from,
                    last_step_end=around.within(blocks[-1].end) if blocks else None,
                    passes_high_water_at=folded.passes_at if runs_from is None else runs_from,
                )
            )
        by_attempt = {rollback.attempt: rollback for rollback in rollbacks}
        are_steps_told = any(record.step_count for record in records)
        known, self._incidents = self._incidents if are_steps_told == self._are_steps_told else {}, {}
        self._are_steps_told = are_steps_told
        incidents = []
        for bounds in incident_bounds(interruptions, is_run_over=life.ended_at is not None):
            first = bounds.attempts[0]
            before = known.get(first) if bounds.attempts[-1] + 2 <= steady else None
            if before is not None and before[0] == bounds:
                made = before[1]
            else:
                made = self._incident(
                    bounds, records, surroundings, attempts, life, capacities, by_attempt, told_every[first]
                )
            incidents.append(made)
            if bounds.end is not None and bounds.end <= life.end:
                self._incidents[first] = bounds, made
        return tuple(incidents)

    def _incident(
        self,
        bounds: IncidentBounds,
        records: Sequence[AttemptRecord],
        surroundings: Sequence[Surroundings],
        attempts: Sequence[Attempt],
        life: Life,
        capacities: Capacities,
        rollbacks: dict[int, Rollback],
        told_every: int,
    ) -> Incident:
        last = bounds.attempts[-1] + 1
        involved = range(bounds.attempts[0], min(last + 1, len(records)))
        inside = tuple(rollbacks[number] for number in involved if number > bounds.attempts[0] and number in rollbacks)
        judged = self._verdict(bounds.attempts[0], records, surroundings)
        lowest = min(inside, key=lambda each: each.to_step, default=None)
        first = bounds.attempts[0]
        struck = struck_phase(records[first], bounds.noticed_at, are_steps_told=self._are_steps_told)
        findings = IncidentFindings(
            verdict=judged.verdict,
            exit_codes=records[first].exit_codes(),
            evidence=judged.trace,
            rollback=inside[-1] if inside else None,
            lost_steps=None if lowest is None else lowest.steps,
            lost_ns=None if lowest is None else lowest.lost_ns,
            told_every=told_every,
            is_down_untold=any(records[number].is_down_untold for number in involved[1:]),
            is_step_untold=not self._gathering.run_wide.speaks_for_ranks,
            fingerprint=fingerprint_of(judged.verdict, struck, self.run_id, is_planned=bounds.is_planned),
            facets=facets_of(judged.verdict, attempts[first], self.run_id),
            relaunches=tuple(self._relaunch(number, records, surroundings) for number in bounds.attempts[1:]),
            flight_recorder=judged.flight_recorder,
        )
        silent_since = self._liveness(life.ended_at, life.end)[2] if bounds.is_open else None
        return incident(self.run_id, bounds, self._timeline.spans, life.end, capacities, findings, silent_since)

    def _relaunch(
        self, number: int, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]
    ) -> RelaunchVerdict:
        judged = self._verdict(number, records, surroundings)
        resting = tuple(line for line in judged.trace if line.role is CausalRole.INITIATING)
        if not resting:  # an exit that nothing explains
            resting = tuple(line for line in judged.trace if line.role is CausalRole.CONFIRMATION)
        return RelaunchVerdict(number, judged.verdict, resting[:RELAUNCH_LINES])

    def endings(self) -> list[tuple[Attempt, Verdict, tuple[EvidenceLine, ...]]]:
        """Of the last view: every attempt that did not complete, why, and its fault trace."""
        records = self._gathering.settle()
        found = []
        attempts, surroundings = self._endings
        for number, attempt in enumerate(attempts):
            if attempt.is_interrupted or attempt.outcome in (Outcome.FAILED, Outcome.STOPPED, Outcome.PREEMPTED):
                judged = self._verdict(number, records, surroundings)
                found.append((attempt, judged.verdict, judged.trace))
        return found

    def _scheduler_states(self) -> Sequence[tuple[int, str]]:
        """`(at, state)` of everything schedulers said, in order; put in order once for each version of it."""
        wide = self._gathering.run_wide
        version = (self._gathering.gatherings, len(wide.scheduler))
        if self._scheduler[0] != version:
            ordered = sorted(wide.scheduler, key=lambda entry: entry[:3])
            self._scheduler = (version, [(at, fact.state.lower()) for at, _, _, fact in ordered])
        return self._scheduler[1]

    def _verdict(self, number: int, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]) -> _Judged:
        record, around = records[number], surroundings[number]
        following = records[number + 1] if number + 1 < len(records) else None
        initiator = None if following is None else initiator_of(following)
        told = self._scheduler_states()
        first = bisect_right(told, around.start, key=itemgetter(0))
        states = tuple(told[first : bisect_right(told, around.end, key=itemgetter(0))])
        withdrawn = self._gathering.run_wide.artefacts.withdrawn()
        blocks = record.blocks()
        version = (self._gathering.gatherings, record.job, record.key, record.fault_version)
        last_step = (blocks[-1].last_step, around.within(blocks[-1].end)) if blocks else (None, None)
        world_size = world_size_of(record, self._gathering.run_wide.started)
        clocks = self._gathering.clock_errors
        signature = (
            version,
            around.start,
            around.is_planned,
            initiator,
            states,
            last_step,
            world_size,
            clocks,
            withdrawn,
        )
        known = self._judged.get(number)
        if known is not None and known.made_of == signature:
            return known
        counted = _counted(record, withdrawn)
        case = Case(
            evidence=counted,
            exits=record.exits,
            exit_codes=record.exit_codes(),
            reason=record.reason,
            outcome=record.outcome,
            noticed_by=record.noticed_by,
            lost_nodes=record.lost_nodes,
            scheduler_told=states,
            next_initiator=initiator,
            is_planned=around.is_planned,
            last_step=last_step[0],
            started_at=around.start,
            last_step_at=last_step[1],
            blocks=blocks,
            ended_at=record.ended_at,
            world_size=world_size,
            clock_errors={
                emitter: clock.error_ns
                for emitter, clock in self._gathering.clocks.items()
                if clock.error_ns is not None
            },
        )
        verdict, trace = judge(case)
        judged = self._judged[number] = _Judged(
            signature, verdict, trace, aged_analysis(counted, case.noticed_at, case.last_step_at, world_size)
        )
        return judged

    def _suspicions(self, records: Sequence[AttemptRecord], steady: int) -> list[Suspicion]:
        found: list[Suspicion] = []
        for number, record in enumerate(records):
            known = self._suspected.get(number)
            version = self._timeline.version(record) if number >= steady or known is None else known[0]
            if known is None or known[0] != version:
                known = self._suspected[number] = (version, suspicions_of(number, record))
            found.extend(known[1])
        return found

    def _unexplained(
        self,
        records: Sequence[AttemptRecord],
        attempts: Sequence[Attempt],
        life: Life,
        account: Account,
        state: RunState,
        blind: tuple[BlindPeriod, ...],
    ) -> tuple[Unexplained, ...]:
        """What the run's own facts make of its silent time."""
        wide = self._gathering.run_wide
        checkpoints = self._saves.shelf.ordered
        phases = dict(account.ns_by_phase)
        around = Circumstances(
            attempts=attempts,
            loaded_steps=frozenset(load.step for record in records for load in record.loads if load.is_ok),
            checkpoints=checkpoints,
            blind=blind,
            speaks_for_ranks=wide.speaks_for_ranks,
            saw_scheduler=bool(wide.scheduler),
            saw_saves=bool(checkpoints) or Phase.SAVING in phases,
            is_open=life.ended_at is None,
            is_silent=state is RunState.SILENT,
            step_ns=self._saves.counts.median(),
        )
        return explained(self._gaps.renew(self._timeline.spans, self._timeline.settled_spans), around)

    def _unnoticed(self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]) -> list[int]:
        """Interrupted attempts of whose fault nobody told: it counts as noticed when the next attempt began."""
        return [
            number
            for number, (record, around) in enumerate(zip(records, surroundings, strict=True))
            if around.is_interrupted
            and not around.is_last
            and self._timeline.folded[number].result.noticed_at == around.end
            and around.end not in record.notices
        ]

    def _current_phase(self) -> Phase | None:
        """What the run does, as far as last told: between two steps nothing is told, and that is no silence yet."""
        spans = self._timeline.spans
        if not spans:
            return None
        last = spans[-1]
        usual = UNTOLD_STEPS * (self._saves.counts.median() or 0)
        if last.phase is Phase.SILENT and len(spans) > 1 and last.end - last.start <= max(usual, UNTOLD_NS):
            return spans[-2].phase
        return last.phase

    def _liveness(self, ended_at: int | None, as_of: int) -> tuple[RunState, int | None, int | None]:
        """Its state, when it was heard last, and since when it is silent."""
        hearings = self._gathering.run_wide.hearings.values()
        heard = max((hearing.last_at for hearing in hearings), default=None)
        if ended_at is not None:
            return RunState.ENDED, heard, None
        if hearings and as_of > max(hearing.silent_after for hearing in hearings):
            return RunState.SILENT, heard, heard
        return RunState.ALIVE, heard, None

    def _clock_spread_ns(self) -> int | None:
        offsets = [clock.largest_offset_ns for clock in self._gathering.clocks.values()]
        if not offsets:
            return None
        return max(*offsets, 0) - min(*offsets, 0)


def _told_every(records: Sequence[AttemptRecord]) -> list[int]:
    """Of each attempt, each how many-th step is told of it; one that told of none tells as the one before."""
    told, last = [], 1
    for record in records:
        every = record.told_every
        last = last if every is None else every
        told.append(last)
    return told


def _counted(record: AttemptRecord, withdrawn: frozenset[str]) -> Sequence[TimedEvidence]:
    """The evidence of an attempt that counts: without that of artefacts that somebody withdrew."""
    if not withdrawn:
        return record.evidence
    return [item for item in record.evidence if item.evidence.artefact not in withdrawn]
