"""The fold: one run's facts to everything that is known of it, incrementally.

Rules
- `add` takes facts in any order; `view` answers as of an instant. The answer depends only on the set of facts.
- An attempt that is over and whose facts did not change is not computed again; the open one is.
- What was settled stays: `settled_spans` says how many leading spans the last `view` left as they were, so that a
  store rewrites the tail only.

What it does not know: who asks, what time it is, and where facts come from.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rerail.server.core.attempt_pass import AttemptPass, Carry, Surroundings, attempt_pass
from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.attempts import scope_between
from rerail.server.core.causes import Case, judge
from rerail.server.core.checkpoints import CheckpointRecord, CheckpointShelf
from rerail.server.core.durations import AttemptSamples, DurationCounts, Window
from rerail.server.core.facts import Fact, Initiator, MarkStage, Outcome, Pairs, Phase, Scope
from rerail.server.core.gathering import Gathering
from rerail.server.core.goodput import Capacities, Tally, account_of, gpu_tally, tally
from rerail.server.core.incidents import IncidentBounds, IncidentFindings, Interruption, incident, incident_bounds
from rerail.server.core.progress import first_pass_ns, resumed_from, rollback_of, step_path, step_points
from rerail.server.core.quality import Suspicion, footing, grouped, suspicions_of
from rerail.server.core.recovery import recovery_distributions
from rerail.server.core.timeline import Claim, TrainingStretch
from rerail.server.core.view import (
    Account,
    Attempt,
    BlindPeriod,
    DataQuality,
    EvidenceLine,
    Incident,
    Rollback,
    RunState,
    RunView,
    Span,
    SpanKind,
    StepPoint,
    Verdict,
)

OPEN_BLOCKS = 128
"""Blocks of steps at the end of an attempt that stay open: facts that come late by less than that cost little."""


@dataclass(frozen=True, slots=True)
class _Sealed:
    """The settled beginning of a long attempt: its facts were let go, its part of the timeline stays."""

    until: int
    carry: Carry
    past: tuple[object, ...]
    """What of the surroundings it was made from."""
    spans: int
    points: int
    tally: Tally
    gpu_tally: Tally
    stretches: tuple[TrainingStretch, ...]


@dataclass(slots=True)
class _Folded:
    """What was computed of one attempt, and from what."""

    version: tuple[int, int]
    around: Surroundings
    gpus: tuple[tuple[int, int], ...]
    carry_in: Carry
    result: AttemptPass
    span_count: int
    point_count: int
    tally: Tally
    gpu_tally: Tally
    stretches: tuple[TrainingStretch, ...]
    rollback: Rollback | None
    passes_at: int | None
    """Start of its first completed step above the high-water step before it."""
    sealed: _Sealed | None = None


@dataclass(frozen=True, slots=True)
class _Life:
    """The edges of a run's life as of an instant."""

    start: int
    end: int
    ended_at: int | None
    outcome: Outcome | None
    reason: str | None


class RunFold:
    """One run's facts → timeline, figures, incidents."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.spans: list[Span] = []
        """As of the last view: ordered, touching, none empty."""
        self.step_points: list[StepPoint] = []
        """Corners of the step sawtooth as of the last view, in order."""
        self.settled_spans = 0
        self.settled_step_points = 0
        self._gathering = Gathering()
        self._folded: list[_Folded] = []
        self._order: list[int] = []
        self._samples: dict[int, AttemptSamples] = {}
        self._counts = DurationCounts()
        self._checkpoints: dict[str, list[CheckpointRecord]] = {}
        self._saves: dict[int, dict[tuple[str, int], CheckpointRecord]] = {}
        """Checkpoints by the attempt that began them."""
        self._shelf = CheckpointShelf()
        self._changed_saves: set[int] = set()
        self._sampled: list[_Folded] = []
        self._verdicts: dict[int, tuple[tuple[object, ...], Verdict, tuple[EvidenceLine, ...]]] = {}
        self._suspected: dict[int, tuple[tuple[int, int], list[Suspicion]]] = {}
        self._shown: dict[int, tuple[tuple[object, ...], Attempt]] = {}
        self._incidents: dict[tuple[object, ...], Incident] = {}

    def add(self, facts: Iterable[Fact]) -> None:
        """Take facts, in any order and any number of times."""
        self._gathering.add(facts)

    @property
    def capacities(self) -> Capacities:
        """How many GPUs the run held, over time."""
        return Capacities(self._gathering.run_wide.gpus)

    # --- the view ---

    def view(self, as_of: int, *, duplicates: int = 0, rejected: int = 0) -> RunView:
        """Everything known of the run as of an instant. `duplicates` and `rejected` were counted at the door."""
        records = self._gathering.settle()
        self._renew_checkpoints(records)
        life = self._life(records, as_of)
        capacities = self.capacities
        if life is None:
            return self._view_of_nothing(as_of, duplicates, rejected)
        suspicions: list[Suspicion] = []
        surroundings = self._surroundings(records, life, suspicions)
        if not self._fold(records, surroundings, capacities):
            self._gathering.regather()
            return self.view(as_of, duplicates=duplicates, rejected=rejected)
        self._renew_samples(records, surroundings)
        rollbacks = tuple(folded.rollback for folded in self._folded if folded.rollback is not None)
        high_water_step = self._folded[-1].result.carry.high_water_step if self._folded else None
        current_step = self._current_step(high_water_step)
        account, gpu_account = self._accounts(life, current_step, high_water_step, capacities)
        attempts = self._attempts(records, surroundings, life)
        incidents = self._all_incidents(records, surroundings, attempts, life, capacities, rollbacks)
        checkpoints = self._shelf.all()
        if self._folded:
            self._seal(records, surroundings)
        state, last_heard_at, silent_since = self._liveness(life, as_of)
        wide = self._gathering.run_wide
        metadata = _Metadata(self._gathering)
        quality = DataQuality(
            duplicates=duplicates + self._gathering.repeated,
            late=self._gathering.late,
            contradictory=0,
            rejected=rejected,
            clock_spread_ns=self._clock_spread_ns(),
            unexplained_ns=dict(account.ns_by_phase).get(Phase.SILENT, 0),
            blind=tuple(
                BlindPeriod(source, since, until, reason)
                for source, since, until, reason in sorted(wide.blind, key=lambda entry: (entry[1], entry[0]))
            ),
            contradictions=grouped([*suspicions, *self._suspicions(records)]),
            notes=footing(records, metadata.world_size, bool(checkpoints), current_step is not None),
        )
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
            name=metadata.name,
            project=metadata.project,
            labels=metadata.labels,
            framework=metadata.framework,
            gpu_type=metadata.gpu_type,
            world_size=metadata.world_size,
            gpus=capacities.at(life.end),
            target_step=metadata.target_step,
            outcome=life.outcome,
            reason=life.reason,
            current_phase=self.spans[-1].phase if self.spans and life.ended_at is None else None,
            high_water_step=high_water_step,
            current_step=current_step,
            attempts=attempts,
            restarts=max(0, len(attempts) - 1),
            interruptions=sum(attempt.is_interrupted for attempt in attempts),
            rollbacks=rollbacks,
            incidents=incidents,
            recovery=recovery_distributions(incidents),
            checkpoint=self._shelf.freshness(high_water_step, as_of),
            checkpoints=checkpoints,
            heartbeat=tuple(beats.figures(phase) for phase, beats in sorted(wide.beats.items())),
            undisturbed_step_ns=self._counts.median(),
            checkpoint_slowdown=self._counts.slowdown(),
            data_quality=quality,
        )

    def _view_of_nothing(self, as_of: int, duplicates: int, rejected: int) -> RunView:
        metadata = _Metadata(self._gathering)
        wide = self._gathering.run_wide
        heard = max((hearing.last_at for hearing in wide.hearings.values()), default=None)
        ended = sorted(wide.ended, key=lambda entry: entry[:3])
        silent_from = max((hearing.silent_after for hearing in wide.hearings.values()), default=None)
        is_silent = silent_from is not None and as_of > silent_from
        return RunView(
            run_id=self.run_id,
            as_of=as_of,
            state=RunState.ENDED if ended else RunState.SILENT if is_silent else RunState.ALIVE,
            started_at=None,
            ended_at=ended[-1][0] if ended else None,
            last_heard_at=heard,
            silent_since=heard if is_silent and not ended else None,
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
            outcome=ended[-1][3].outcome if ended else None,
            data_quality=DataQuality(
                duplicates=duplicates + self._gathering.repeated,
                rejected=rejected,
                notes=("Nothing was stated of any attempt yet: no timeline can be drawn.",),
            ),
        )

    # --- life and surroundings ---

    def _life(self, records: Sequence[AttemptRecord], as_of: int) -> _Life | None:
        starts = [record.life_starts_at for record in records]
        starts += [since for since, _ in self._gathering.queue_intervals()]
        if not starts:
            return None
        start = min(starts)
        ended = sorted(self._gathering.run_wide.ended, key=lambda entry: entry[:3])
        latest_start = max((record.started_at for record in records if not record.is_only_queued), default=start)
        if ended and ended[-1][0] >= latest_start and ended[-1][0] <= as_of:
            at, _, _, fact = ended[-1]
            return _Life(start, max(start, at), at, fact.outcome, fact.reason)
        return _Life(start, max(start, as_of), None, None, None)

    def _surroundings(
        self, records: Sequence[AttemptRecord], life: _Life, suspicions: list[Suspicion]
    ) -> list[Surroundings]:
        starts = [record.started_at for record in records]
        if starts:
            starts[0] = life.start
        for index in range(1, len(starts)):
            if starts[index] < starts[index - 1]:
                suspicions.append(
                    Suspicion("an attempt began before the one it follows", f"attempt {index}", starts[index])
                )
                starts[index] = starts[index - 1]
        queue = []
        attempt_starts = sorted(record.started_at for record in records if not record.is_only_queued)
        for since, until in self._gathering.queue_intervals():
            following = next((at for at in attempt_starts if at > since), life.end)
            queue.append(Claim(since, min(life.end if until is None else until, following), Phase.QUEUED))
        excluded = [Claim(since, until, Phase.EXCLUDED) for since, until in sorted(self._gathering.run_wide.excluded)]
        around = []
        for index, record in enumerate(records):
            is_last = index == len(records) - 1
            start = starts[index]
            end = max(start, life.end if is_last else starts[index + 1])
            following = None if is_last else records[index + 1]
            is_interrupted, is_planned = _ending(record, following, life)
            around.append(
                Surroundings(
                    start=start,
                    end=end,
                    is_last=is_last,
                    is_interrupted=is_interrupted,
                    is_planned=is_planned,
                    is_over=not is_last or life.ended_at is not None or record.outcome is not None,
                    queue=tuple(claim for claim in queue if claim.end > start and claim.start < end),
                    excluded=tuple(claim for claim in excluded if claim.end > start and claim.start < end),
                )
            )
        return around

    # --- folding ---

    def _version(self, record: AttemptRecord) -> tuple[int, int]:
        """Changes with everything told about an attempt."""
        return self._gathering.gatherings, record.version

    def _fold(
        self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings], capacities: Capacities
    ) -> bool:
        """Bring the timeline up to date. False when what was sealed no longer holds and must be gathered anew."""
        carry = Carry()
        before, after = self._folded, list[_Folded]()
        old_spans, old_points = self.spans, self.step_points
        spans_at = points_at = 0
        unchanged = True
        for number, (record, around) in enumerate(zip(records, surroundings, strict=True)):
            known = before[number] if number < len(before) else None
            gpus = tuple(capacities.between(around.start, around.end)) if capacities.is_known else ()
            version = self._version(record)
            if (
                unchanged
                and known is not None
                and (known.version, known.around, known.carry_in) == (version, around, carry)
                and known.gpus == gpus
            ):
                after.append(known)
                carry = known.result.carry
                spans_at += known.span_count
                points_at += known.point_count
                continue
            sealed = known.sealed if known is not None and known.version[0] == version[0] else None
            if record.sealed_until is not None and (
                not unchanged
                or record.sealed_until > around.end
                or sealed is None
                or known is None
                or known.carry_in != carry
                or sealed.past != _past(around, sealed.until, capacities)
            ):
                self.spans, self.step_points = old_spans, old_points
                return False
            if unchanged:
                unchanged = False
                kept_spans = spans_at + (0 if sealed is None else sealed.spans)
                kept_points = points_at + (0 if sealed is None else sealed.points)
                self.spans, self.step_points = old_spans[:kept_spans], old_points[:kept_points]
                self.settled_spans, self.settled_step_points = kept_spans, kept_points
            folded = self._fold_one(number, record, around, carry, sealed, after, capacities, gpus)
            after.append(folded)
            spans_at += folded.span_count
            points_at += folded.point_count
            carry = folded.result.carry
        if unchanged:
            self.spans, self.step_points = old_spans[:spans_at], old_points[:points_at]
            self.settled_spans, self.settled_step_points = spans_at, points_at
        else:
            self.settled_spans = _equal_until(old_spans, self.spans, self.settled_spans)
            self.settled_step_points = _equal_until(old_points, self.step_points, self.settled_step_points)
        self._folded = after
        return True

    def _fold_one(
        self,
        number: int,
        record: AttemptRecord,
        around: Surroundings,
        carry: Carry,
        sealed: _Sealed | None,
        before: Sequence[_Folded],
        capacities: Capacities,
        gpus: tuple[tuple[int, int], ...],
    ) -> _Folded:
        """One attempt's part of the timeline, appended to the run's spans and step points."""
        if sealed is None:
            result = attempt_pass(record, around, carry)
        else:
            result = attempt_pass(record, replace(around, start=sealed.until), sealed.carry)
        spans = [replace(span, attempt=number) for span in result.painted.spans]
        points = step_points(step_path(record), number)
        total = Tally()
        gpu_total = Tally()
        stretches = result.painted.stretches
        if sealed is not None:
            total.add(sealed.tally)
            gpu_total.add(sealed.gpu_tally)
            stretches = sealed.stretches + stretches
        total.add(tally(spans))
        if capacities.is_known:
            gpu_total.add(gpu_tally(spans, capacities))
        self.spans.extend(spans)
        self.step_points.extend(points)
        known = self._folded[number] if sealed is not None else None
        mark = carry.high_water_step
        return _Folded(
            version=self._version(record),
            around=around,
            gpus=gpus,
            carry_in=carry,
            result=result,
            span_count=len(spans) + (0 if sealed is None else sealed.spans),
            point_count=len(points) + (0 if sealed is None else sealed.points),
            tally=total,
            gpu_tally=gpu_total,
            stretches=stretches,
            rollback=rollback_of(number, record, mark, [folded.stretches for folded in reversed(before)]),
            passes_at=known.passes_at if known is not None and known.passes_at else _passes_at(record, mark),
            sealed=sealed,
        )

    def _seal(self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]) -> None:
        """Settle the beginning of the open attempt once it has grown long, so that a step more stays cheap."""
        number = len(records) - 1
        record, around, folded = records[number], surroundings[number], self._folded[number]
        blocks = record.blocks()
        if around.is_interrupted or around.is_over or len(blocks) < 2 * OPEN_BLOCKS or around.end < blocks[-1].end:
            return
        cut = len(blocks) - OPEN_BLOCKS
        until, last_step = blocks[cut].start, blocks[cut - 1].last_step
        limits = [record.earliest_open_phase, folded.result.last_activity_at, *(load.end for load in record.loads)]
        if any(limit is not None and limit < until for limit in limits[:2]) or any(
            load.end > until for load in record.loads
        ):
            return
        capacities = self.capacities
        start = self._offset_of(number)
        of_attempt = self.spans[start:]
        past = [span for span in of_attempt if span.end <= until]
        if len(past) < len(of_attempt) and of_attempt[len(past)].start < until:
            # Only whole spans are sealed: cutting one in two would make the timeline depend on when it was sealed.
            until = of_attempt[len(past)].start
            cut = bisect_left([block.start for block in blocks], until)
            if cut <= OPEN_BLOCKS // 2 or cut >= len(blocks) or blocks[cut].start != until:
                return
            last_step = blocks[cut - 1].last_step
        points_start = sum(each.point_count for each in self._folded[:number])
        points = [point for point in self.step_points[points_start:] if point.at <= until and point.step <= last_step]
        mark = folded.carry_in.high_water_step
        total, gpu_total = tally(past), Tally()
        if capacities.is_known:
            gpu_total = gpu_tally(past, capacities)
        stretches = tuple(each for each in folded.stretches if each.end <= until)
        sealed = _Sealed(
            until=until,
            carry=Carry(high_water_step=max(last_step, -1 if mark is None else mark), kind=SpanKind.OVERHEAD, spill=()),
            past=_past(around, until, capacities),
            spans=len(past),
            points=len(points),
            tally=total,
            gpu_tally=gpu_total,
            stretches=stretches,
        )
        self._saves[number] = {
            key: save
            for key, save in self._saves.get(number, {}).items()
            if save.in_flight_until is None or save.in_flight_until > until
        }
        self._samples[number].seal(cut)
        record.seal(until, last_step)
        folded.sealed = sealed
        folded.version = (folded.version[0], -1)

    def _offset_of(self, number: int) -> int:
        return sum(folded.span_count for folded in self._folded[:number])

    def _renew_checkpoints(self, records: Sequence[AttemptRecord]) -> None:
        gatherings = self._gathering.gatherings
        order = [(gatherings, record.job, record.key) for record in records]
        names = set(self._gathering.changed_checkpoints)
        if order[: len(self._order)] != self._order:
            names |= set(self._gathering.moments) | self._shelf.names()
        self._order = order
        for name in names:
            for number, old in enumerate(self._checkpoints.pop(name, ())):
                if old.attempt is not None:
                    self._saves[old.attempt].pop((name, number), None)
                    self._changed_saves.add(old.attempt)
            known = self._gathering.checkpoints(name) if name in self._gathering.moments else []
            for number, new in enumerate(known):
                if new.attempt is not None:
                    self._saves.setdefault(new.attempt, {})[name, number] = new
                    self._changed_saves.add(new.attempt)
            if known:
                self._checkpoints[name] = known
            self._shelf.put(name, [each.view() for each in known])
        self._gathering.changed_checkpoints.clear()

    def _renew_samples(self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]) -> None:
        """Bring step durations up to date for the attempts of which anything changed."""
        if self._sampled and self._folded and self._sampled[0].version[0] != self._gathering.gatherings:
            self._samples, self._counts, self._sampled = {}, DurationCounts(), []
        for number, (record, around) in enumerate(zip(records, surroundings, strict=True)):
            folded = self._folded[number]
            is_sampled = number < len(self._sampled) and self._sampled[number] is folded
            if is_sampled and number not in self._changed_saves:
                continue
            ended = record.ended_at if around.is_over and record.ended_at is not None else around.end
            windows = []
            for save in self._saves.get(number, {}).values():
                started, until = save.started_at, save.in_flight_until
                if started is not None:
                    windows.append(Window(started, ended if until is None else min(until, ended)))
            windows.sort(key=lambda window: (window.start, window.end))
            samples = self._samples.setdefault(number, AttemptSamples())
            samples.update(record.blocks(), windows, folded.result.overlays, self._counts)
        for number in [number for number in self._samples if number >= len(records)]:
            self._samples.pop(number).forget(self._counts)
        self._changed_saves.clear()
        self._sampled = list(self._folded)

    # --- figures ---

    def _current_step(self, high_water_step: int | None) -> int | None:
        if high_water_step is None:
            return None
        return self.step_points[-1].step if self.step_points else None

    def _accounts(
        self, life: _Life, current_step: int | None, high_water_step: int | None, capacities: Capacities
    ) -> tuple[Account, Account | None]:
        total, gpu_total = Tally(), Tally()
        for folded in self._folded:
            total.add(folded.tally)
            gpu_total.add(folded.gpu_tally)
        if not self._folded:
            waiting = [
                Claim(since, life.end if until is None else min(until, life.end), Phase.QUEUED)
                for since, until in self._gathering.queue_intervals()
            ]
            total, gpu_total = self._only_waiting(waiting, life, capacities)
        debt = gpu_debt = 0
        if current_step is not None and high_water_step is not None and current_step < high_water_step:
            stretches = [folded.stretches for folded in reversed(self._folded)]
            debt = first_pass_ns(stretches, current_step)
            gpu_debt = first_pass_ns(stretches, current_step, capacities) if capacities.is_known else 0
        account = account_of(total, life.start, life.end, debt)
        return account, account_of(gpu_total, life.start, life.end, gpu_debt) if capacities.is_known else None

    def _only_waiting(self, waiting: list[Claim], life: _Life, capacities: Capacities) -> tuple[Tally, Tally]:
        from rerail.server.core.timeline import Mode, paint
        from rerail.server.core.view import SpanKind

        excluded = [Claim(since, until, Phase.EXCLUDED) for since, until in self._gathering.run_wide.excluded]
        modes = [Mode(life.start, SpanKind.STARTUP)]
        self.spans = list(paint([*waiting, *excluded], life.start, life.end, None, modes).spans)
        self.settled_spans = 0
        return tally(self.spans), gpu_tally(self.spans, capacities) if capacities.is_known else Tally()

    def _attempts(
        self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings], life: _Life
    ) -> tuple[Attempt, ...]:
        attempts = []
        for number, (record, around) in enumerate(zip(records, surroundings, strict=True)):
            before = None if number == 0 else (records[number - 1].job, records[number - 1].key)
            signature = (self._version(record), around, before, life.outcome if around.is_last else None)
            shown = self._shown.get(number)
            if shown is not None and shown[0] == signature:
                attempts.append(shown[1])
                continue
            blocks = record.blocks()
            first = record.first_block
            resumed = resumed_from(record)
            merged = _Started(record)
            result = self._folded[number].result
            ended_at = record.ended_at
            if ended_at is None and around.is_over:
                ended_at = around.end
            attempts.append(
                Attempt(
                    number=number,
                    started_at=record.started_at,
                    ended_at=ended_at,
                    job=record.job,
                    requeue=record.key.requeue,
                    restart=record.key.restart,
                    iteration=record.key.iteration,
                    scope=_scope(records, number),
                    initiator=merged.initiator,
                    noticed_at=result.noticed_at,
                    last_activity_at=result.last_activity_at,
                    first_step_at=first.start if first is not None else None,
                    first_step=first.first_step if first is not None else None,
                    last_step=blocks[-1].last_step if blocks else None,
                    step_count=record.step_count,
                    resumed_from_step=None if resumed is None else resumed[1],
                    world_size=merged.world_size,
                    gpus=merged.gpus,
                    nodes=merged.nodes,
                    launcher=merged.launcher,
                    versions=merged.versions,
                    config=merged.config,
                    outcome=record.outcome or (life.outcome if around.is_last else None),
                    reason=record.reason,
                    exit_codes=record.exit_codes(),
                    is_interrupted=around.is_interrupted,
                    is_planned=around.is_planned,
                )
            )
            self._shown[number] = (signature, attempts[-1])
        return tuple(attempts)

    def _all_incidents(
        self,
        records: Sequence[AttemptRecord],
        surroundings: Sequence[Surroundings],
        attempts: Sequence[Attempt],
        life: _Life,
        capacities: Capacities,
        rollbacks: Sequence[Rollback],
    ) -> tuple[Incident, ...]:
        interruptions = []
        for attempt, around, folded, record in zip(attempts, surroundings, self._folded, records, strict=True):
            blocks = record.blocks()
            interruptions.append(
                Interruption(
                    number=attempt.number,
                    is_interrupted=around.is_interrupted,
                    is_planned=around.is_planned,
                    noticed_at=folded.result.noticed_at,
                    scope=attempt.scope,
                    first_step_at=attempt.first_step_at,
                    last_step_end=blocks[-1].end if blocks else None,
                    passes_high_water_at=folded.passes_at,
                )
            )
        by_attempt = {rollback.attempt: rollback for rollback in rollbacks}
        return tuple(
            self._incident(bounds, records, surroundings, life, capacities, by_attempt)
            for bounds in incident_bounds(interruptions)
        )

    def _incident(
        self,
        bounds: IncidentBounds,
        records: Sequence[AttemptRecord],
        surroundings: Sequence[Surroundings],
        life: _Life,
        capacities: Capacities,
        rollbacks: dict[int, Rollback],
    ) -> Incident:
        last = bounds.attempts[-1] + 1
        involved = range(bounds.attempts[0], min(last + 1, len(records)))
        inside = tuple(rollbacks[number] for number in involved if number > bounds.attempts[0] and number in rollbacks)
        verdict, evidence = self._verdict(bounds.attempts[0], records, surroundings)
        signature = (
            bounds,
            tuple(self._folded[number].version for number in involved),
            tuple(surroundings[number] for number in involved if bounds.end is None or number < last),
            inside,
            verdict,
            life.end if bounds.end is None or bounds.end > life.end else None,
        )
        known = self._incidents.get(signature)
        if known is not None:
            return known
        lowest = min(inside, key=lambda each: each.to_step, default=None)
        exit_codes = records[bounds.attempts[0]].exit_codes()
        findings = IncidentFindings(
            verdict=verdict,
            exit_codes=exit_codes,
            evidence=evidence,
            rollback=inside[-1] if inside else None,
            lost_steps=0 if lowest is None else lowest.steps,
            lost_ns=0 if lowest is None else lowest.lost_ns,
        )
        made = incident(self.run_id, bounds, self.spans, life.end, capacities, findings)
        if bounds.end is not None:
            if len(self._incidents) > 20_000:
                self._incidents.clear()
            self._incidents[signature] = made
        return made

    def _verdict(
        self, number: int, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings]
    ) -> tuple[Verdict, tuple[EvidenceLine, ...]]:
        record, around = records[number], surroundings[number]
        following = records[number + 1] if number + 1 < len(records) else None
        initiator = None if following is None else _Started(following).initiator
        states = tuple(
            fact.state.lower()
            for at, _, _, fact in sorted(self._gathering.run_wide.scheduler, key=lambda entry: entry[:3])
            if around.start < at <= around.end
        )
        signature = (self._version(record), around.is_planned, initiator, states)
        known = self._verdicts.get(number)
        if known is not None and known[0] == signature:
            return known[1], known[2]
        blocks = record.blocks()
        case = Case(
            evidence=record.evidence,
            exits=record.exits,
            exit_codes=record.exit_codes(),
            reason=record.reason,
            outcome=record.outcome,
            noticed_by=record.noticed_by,
            lost_nodes=record.lost_nodes,
            scheduler_states=states,
            next_initiator=initiator,
            is_planned=around.is_planned,
            last_step=blocks[-1].last_step if blocks else None,
        )
        verdict, evidence = judge(case)
        self._verdicts[number] = (signature, verdict, evidence)
        return verdict, evidence

    def _suspicions(self, records: Sequence[AttemptRecord]) -> list[Suspicion]:
        found: list[Suspicion] = []
        for number, record in enumerate(records):
            version = self._version(record)
            known = self._suspected.get(number)
            if known is None or known[0] != version:
                known = self._suspected[number] = (version, suspicions_of(number, record))
            found.extend(known[1])
        return found

    def _liveness(self, life: _Life, as_of: int) -> tuple[RunState, int | None, int | None]:
        hearings = self._gathering.run_wide.hearings.values()
        heard = max((hearing.last_at for hearing in hearings), default=None)
        if life.ended_at is not None:
            return RunState.ENDED, heard, None
        if hearings and as_of > max(hearing.silent_after for hearing in hearings):
            return RunState.SILENT, heard, heard
        return RunState.ALIVE, heard, None

    def _clock_spread_ns(self) -> int | None:
        offsets = [clock.largest_offset_ns for clock in self._gathering.clocks.values()]
        if not offsets:
            return None
        return max(*offsets, 0) - min(*offsets, 0) if offsets else None


class _Metadata:
    """What `run_started` facts said, the latest word of each field."""

    def __init__(self, gathering: Gathering) -> None:
        self.name: str | None = None
        self.project: str | None = None
        self.labels: Pairs = ()
        self.framework: str | None = None
        self.gpu_type: str | None = None
        self.world_size: int | None = None
        self.target_step: int | None = None
        for *_, fact in sorted(gathering.run_wide.started, key=lambda entry: entry[:3]):
            self.name = fact.name if fact.name is not None else self.name
            self.project = fact.project if fact.project is not None else self.project
            self.labels = fact.labels or self.labels
            self.framework = fact.framework if fact.framework is not None else self.framework
            self.gpu_type = fact.gpu_type if fact.gpu_type is not None else self.gpu_type
            self.world_size = fact.world_size if fact.world_size is not None else self.world_size
            self.target_step = fact.target_step if fact.target_step is not None else self.target_step


class _Started:
    """What `attempt_started` facts of one attempt said, the latest word of each field."""

    def __init__(self, record: AttemptRecord) -> None:
        self.scope: Scope | None = None
        self.initiator: Initiator | None = None
        self.world_size: int | None = None
        self.gpus: int | None = None
        self.nodes: tuple[str, ...] = ()
        self.launcher: str | None = None
        self.versions: Pairs = ()
        self.config: str | None = None
        for *_, fact in record.started:
            self.scope = fact.scope or self.scope
            self.initiator = fact.initiator or self.initiator
            self.world_size = fact.world_size if fact.world_size is not None else self.world_size
            self.gpus = fact.gpus if fact.gpus is not None else self.gpus
            self.nodes = tuple(sorted({*self.nodes, *fact.nodes}))
            self.launcher = fact.launcher or self.launcher
            self.versions = fact.versions or self.versions
            self.config = fact.config if fact.config is not None else self.config


def _scope(records: Sequence[AttemptRecord], number: int) -> Scope | None:
    if number == 0:
        return None
    told = _Started(records[number]).scope
    if told is not None:
        return told
    before, after = records[number - 1], records[number]
    return scope_between(before.job, before.key, after.job, after.key)


def _ending(record: AttemptRecord, following: AttemptRecord | None, life: _Life) -> tuple[bool, bool]:
    """Whether an attempt was interrupted, and whether that was planned."""
    outcome = record.outcome
    if following is not None:
        if outcome in (Outcome.STOPPED, Outcome.COMPLETED):
            return True, True
        initiator = _Started(following).initiator
        if outcome is None and initiator is Initiator.OPERATOR:
            return True, True
        without_fault = not record.exits and MarkStage.NOTICED not in record.marks and not record.lost_nodes
        return True, outcome is None and initiator is Initiator.MONITOR and without_fault
    if outcome in (Outcome.FAILED, Outcome.PREEMPTED):
        return True, False
    if outcome is Outcome.COMPLETED:
        return False, False
    if life.ended_at is not None:
        return outcome is None and life.outcome is Outcome.FAILED, False
    if outcome is Outcome.STOPPED:
        return True, True
    blocks = record.blocks()
    last_began = -1
    if blocks:
        last = blocks[-1]
        last_began = last.ends[-2] if len(last.ends) > 1 else last.start
    return any(last_began < at <= life.end for at in record.notices), False


def _passes_at(record: AttemptRecord, high_water_step: int | None) -> int | None:
    """Start of an attempt's first completed step above a step."""
    for block in record.blocks():
        if high_water_step is None:
            return block.start
        if block.last_step > high_water_step:
            return block.end_of(max(high_water_step, block.first_step - 1))
    return None


def _past(around: Surroundings, until: int, capacities: Capacities) -> tuple[object, ...]:
    """What of an attempt's surroundings bears on its timeline before an instant."""
    return (
        around.start,
        tuple((claim.start, min(claim.end, until), claim.phase) for claim in around.queue if claim.start < until),
        tuple((claim.start, min(claim.end, until)) for claim in around.excluded if claim.start < until),
        tuple(capacities.between(around.start, until)) if capacities.is_known else (),
    )


def _equal_until(before: Sequence[object], after: Sequence[object], known_equal: int) -> int:
    """How many leading entries are the same, given how many are known to be."""
    for index in range(known_equal, min(len(before), len(after))):
        if before[index] != after[index]:
            return index
    return min(len(before), len(after))
