"""Incidents: one loss of forward progress each, with an anatomy whose parts add up to the time to recover.

Rules
- An incident begins at the end of the last completed step before the interruption (without one, at the notice) and
  ends where the first step above the high-water step begins. A death before that continues the same incident.
- Its parts are the down phases inside it; `catch_up` is the rest. Excluded time is in neither. Before anything resumed
  there is nothing to catch up: what is not told until then is `silent`, as where a log says nothing between the end of
  the old workers and the first step of the new ones.
- Planned restarts are incidents too, marked planned: their cost is shown, rates and rules leave them out.
- The time to restart is its down phases up to the latest restart that completed a step: what came after a death that
  no restart followed led nowhere.
- Its scope is that of the restart that succeeded.
- Where nobody tells of steps it begins at the notice and ends once the next attempt is known to run (`running.py`): a
  later fault is an incident of its own, and only a relaunch that died in its bring-up failed. What ground was lost and
  how long it took to regain is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Pairs, Phase, Scope
from rerail.server.core.flight_recorder.conclusions import Analysis
from rerail.server.core.goodput import Capacities, clipped
from rerail.server.core.timeline import DOWN_PHASES
from rerail.server.core.view import (
    EvidenceLine,
    Fingerprint,
    Incident,
    Part,
    RelaunchVerdict,
    Rollback,
    Span,
    Verdict,
)

CATCH_UP = "catch_up"

ANATOMY = (
    Phase.DETECTING,
    Phase.STOPPING,
    Phase.QUEUED,
    Phase.RENDEZVOUS,
    Phase.INITIALIZING,
    Phase.LOADING,
)
"""The parts before catch-up, in the order they are shown."""


@dataclass(frozen=True, slots=True)
class IncidentBounds:
    """Which attempts one incident took, and when."""

    attempts: tuple[int, ...]
    start: int
    noticed_at: int | None
    restarted_at: int | None
    end: int | None
    scope: Scope | None
    is_planned: bool
    is_open: bool
    """The ground is not regained and the run is not over."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """What bounds need to know of one attempt."""

    number: int
    is_interrupted: bool
    is_planned: bool
    noticed_at: int | None
    scope: Scope | None
    """Of the restart that began it."""
    goes_on_at: int | None
    """Start of its first completed step; where nobody tells of steps, when it was known to run."""
    last_step_end: int | None
    passes_high_water_at: int | None
    """Start of its first completed step above the high-water step of all attempts before it; where nobody tells of
    steps, when it was known to run: ground is neither lost nor regained as far as told."""


def incident_bounds(attempts: Sequence[Interruption], *, is_run_over: bool) -> list[IncidentBounds]:
    """The incidents of a run, in order; only the last may be open."""
    bounds: list[IncidentBounds] = []
    open_attempts: list[int] = []
    start = 0
    noticed_at: int | None = None
    restarted_at: int | None = None
    scope: Scope | None = None
    is_planned = False
    last_step_end: int | None = None

    def close(end: int | None) -> None:
        is_open = end is None and not is_run_over
        bounds.append(
            IncidentBounds(tuple(open_attempts), start, noticed_at, restarted_at, end, scope, is_planned, is_open)
        )
        open_attempts.clear()

    for attempt in attempts:
        if open_attempts:
            scope = attempt.scope
            if attempt.goes_on_at is not None:
                restarted_at = attempt.goes_on_at
            if attempt.passes_high_water_at is not None:
                close(attempt.passes_high_water_at)
        if attempt.last_step_end is not None:
            last_step_end = attempt.last_step_end
        if not attempt.is_interrupted:
            continue
        if open_attempts:
            open_attempts.append(attempt.number)
            is_planned = is_planned and attempt.is_planned
            continue
        open_attempts.append(attempt.number)
        noticed_at = attempt.noticed_at
        start = last_step_end if last_step_end is not None else (noticed_at or 0)
        restarted_at = None
        scope = None
        is_planned = attempt.is_planned
    if open_attempts:
        close(None)
    return bounds


@dataclass(frozen=True, slots=True)
class IncidentFindings:
    """What is known of an incident beside its bounds."""

    verdict: Verdict
    exit_codes: tuple[tuple[int, int], ...]
    evidence: tuple[EvidenceLine, ...]
    rollback: Rollback | None
    lost_steps: int | None
    lost_ns: int | None
    told_every: int = 1
    is_down_untold: bool = False
    is_step_untold: bool = False
    fingerprint: Fingerprint | None = None
    facets: Pairs = ()
    relaunches: tuple[RelaunchVerdict, ...] = ()
    flight_recorder: Analysis | None = None


def incident(
    run_id: str,
    bounds: IncidentBounds,
    spans: Sequence[Span],
    as_of: int,
    capacities: Capacities,
    findings: IncidentFindings,
    silent_since: int | None = None,
) -> Incident:
    """One incident with its anatomy and cost. `spans` are the run's.

    `silent_since`, of an open incident, is when a run was heard last that is heard no more: it costs nothing after
    that, since nobody knows whether its GPUs are still held.
    """
    end = as_of if bounds.end is None else bounds.end
    paid_until = end if silent_since is None else silent_since
    by_phase: dict[Phase, int] = {}
    total = restart = silent = gpu_ns = 0
    is_excluded = any(span.phase is Phase.EXCLUDED for span in clipped(spans, bounds.start - 1, end + 1))
    for span in clipped(spans, bounds.start, end):
        if span.phase is Phase.EXCLUDED:
            continue
        length = span.end - span.start
        total += length
        by_phase[span.phase] = by_phase.get(span.phase, 0) + length
        if bounds.restarted_at is None or span.end <= bounds.restarted_at:
            restart += length if span.phase in DOWN_PHASES else 0
            silent += length if span.phase is Phase.SILENT else 0
        if capacities.is_known and span.start < paid_until:
            gpu_ns += capacities.gpu_ns(span.start, min(span.end, paid_until))
    down = sum(length for phase, length in by_phase.items() if phase in DOWN_PHASES)
    parts = [Part(phase.value, by_phase[phase]) for phase in ANATOMY if by_phase.get(phase)]
    if silent:
        parts.append(Part(Phase.SILENT.value, silent))
    if total > down + silent or not parts:
        parts.append(Part(CATCH_UP, total - down - silent))
    return Incident(
        incident_id=f"{run_id}~{bounds.attempts[0]}",
        run_id=run_id,
        attempts=bounds.attempts,
        started_at=bounds.start,
        noticed_at=bounds.noticed_at,
        restarted_at=bounds.restarted_at,
        ended_at=bounds.end,
        is_planned=bounds.is_planned,
        is_open=bounds.is_open,
        scope=bounds.scope,
        verdict=findings.verdict,
        parts=tuple(parts),
        time_to_restart_ns=restart,
        time_to_recover_ns=None if bounds.end is None else total,
        lost_steps=findings.lost_steps,
        lost_ns=findings.lost_ns,
        lost_gpu_ns=gpu_ns if capacities.is_known else None,
        exit_codes=findings.exit_codes,
        is_excluded=bounds.end is not None and is_excluded and not total,
        evidence=findings.evidence,
        flight_recorder=findings.flight_recorder,
        rollback=findings.rollback,
        fingerprint=findings.fingerprint,
        facets=findings.facets,
        relaunches=findings.relaunches,
        is_cost_least=capacities.is_known and paid_until < end,
        told_every=findings.told_every,
        is_down_untold=findings.is_down_untold,
        is_step_untold=findings.is_step_untold,
    )
