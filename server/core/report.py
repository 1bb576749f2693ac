"""Reports: views as plain JSON values under the names of `docs/facts.md`.

Rules
- Lengths leave as seconds (floats), GPU lengths as GPU-hours, instants as ISO 8601 in UTC with microseconds.
- Unknown is `null`, never 0. Nothing is rounded here beyond what a float is.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from rerail.server.core.definitions import OURS, Definition, Measured
from rerail.server.core.flight_recorder.figures import flight_recorder_figures
from rerail.server.core.infrastructure import infrastructure_goodput
from rerail.server.core.rates import DAY_NS
from rerail.server.core.recovery import GROUPINGS
from rerail.server.core.view import (
    Account,
    Attempt,
    Contradiction,
    Exclusion,
    FailureRates,
    HeartbeatFigures,
    Incident,
    IntervalAdvice,
    MachineWord,
    Percentiles,
    QuietRanks,
    RecoveryDistribution,
    RelaunchVerdict,
    Rollback,
    RunView,
    Unexplained,
    Verdict,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(at: int | None) -> str | None:
    """An instant in ns as ISO 8601 UTC with microseconds."""
    if at is None:
        return None
    moment = _EPOCH + timedelta(microseconds=at // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def seconds(length_ns: int | None) -> float | None:
    """A length in ns as seconds."""
    return None if length_ns is None else length_ns / 1e9


def gpu_hours(gpu_ns: int | None) -> float | None:
    """GPU·ns as GPU-hours."""
    return None if gpu_ns is None else gpu_ns / 3.6e12


def figures(view: RunView) -> dict[str, object]:
    """All figures of a run, as `rerail show RUN --json` prints them."""
    account = view.account
    freshness = view.checkpoint
    quality = view.data_quality
    infrastructure = infrastructure_goodput(view)
    return {
        "run_id": view.run_id,
        "name": view.name,
        "project": view.project,
        "labels": dict(view.labels),
        "state": view.state.value,
        "outcome": None if view.outcome is None else view.outcome.value,
        "reason": view.reason,
        "as_of": iso(view.as_of),
        "started_at": iso(view.started_at),
        "ended_at": iso(view.ended_at),
        "last_heard_at": iso(view.last_heard_at),
        "silent_since": iso(view.silent_since),
        "definition": view.definition,
        "world_size": view.world_size,
        "gpus": view.gpus,
        "target_step": view.target_step,
        "current_phase": None if view.current_phase is None else view.current_phase.value,
        **account_figures(account),
        **({} if view.sees_training else {"training_goodput": None, "productive_seconds": None}),
        "infrastructure_goodput": infrastructure.share,
        "infrastructure_goodput_is_most": infrastructure.is_most,
        "infrastructure_goodput_least": infrastructure.least,
        "infrastructure_untold_seconds": seconds(infrastructure.untold_ns),
        "sees_training": view.sees_training,
        "high_water_step": view.high_water_step,
        "current_step": view.current_step,
        "attempts": [attempt_figures(attempt) for attempt in view.attempts],
        "restarts": view.restarts,
        "interruptions": view.interruptions,
        "rollbacks": [rollback_figures(rollback) for rollback in view.rollbacks],
        "incidents": [incident_figures(incident) for incident in view.incidents],
        "recovery": _recovery(view.recovery),
        "rates": _rates(view.rates),
        "checkpoint": {
            "newest_durable_step": freshness.newest_durable_step,
            "age_seconds": seconds(freshness.age_ns),
            "steps_at_risk": freshness.steps_at_risk,
            "commit_lag_p95_seconds": seconds(freshness.commit_lag_p95_ns),
            "commit_lag_count": freshness.commit_lag_count,
            "count": freshness.count,
            "durable": freshness.durable_count,
            "failed": freshness.failed_count,
            "age_started_seconds": seconds(freshness.age_started_ns),
            "interval_seconds": seconds(freshness.interval_ns),
            "overdue_seconds": seconds(freshness.overdue_ns),
            "exposed_gpu_hours": gpu_hours(freshness.exposed_gpu_ns),
            "stuck": list(freshness.stuck),
            "blocked_p50_seconds": seconds(freshness.blocked_ns),
            "commit_lag_p50_seconds": seconds(freshness.commit_lag_p50_ns),
            "advised_interval": _interval(view.interval_advice),
            "suspect_steps": list(freshness.suspect_steps),
        },
        "heartbeat": {each.phase: _heartbeat(each) for each in view.heartbeat},
        "quiet_ranks": _quiet_ranks(view.quiet_ranks),
        "dumps_say": _dumps_say(view.dumps_say),
        "machines_say": [_machine_word(each) for each in view.machines_say],
        "undisturbed_step_seconds": seconds(view.undisturbed_step_ns),
        "checkpoint_slowdown": view.checkpoint_slowdown,
        "slowdown_seconds": seconds(view.slowdown_ns),
        "hidden_checkpoint_seconds": seconds(view.hidden_checkpoint_ns),
        "gpu_weighted": None if view.gpu_account is None else account_figures(view.gpu_account),
        "data_quality": {
            "duplicates": quality.duplicates,
            "late": quality.late,
            "contradictory": quality.contradictory,
            "rejected": quality.rejected,
            "clock_spread_seconds": seconds(quality.clock_spread_ns),
            "unexplained_seconds": seconds(quality.unexplained_ns),
            "unexplained": [unexplained_figures(each) for each in quality.unexplained],
            "blind": [
                {
                    "source": each.source,
                    "node": each.node,
                    "emitter": each.emitter,
                    "since": iso(each.since),
                    "until": iso(each.until),
                    "reason": each.reason,
                }
                for each in quality.blind
            ],
            "contradictions": [_contradiction(each) for each in quality.contradictions],
            "notes": list(quality.notes),
        },
        "exclusions": [exclusion_figures(window) for window in view.exclusions],
    }


def account_figures(account: Account) -> dict[str, object]:
    """The figures of one window, or of the whole life; of one weighted by GPUs every `…_seconds` is in GPU-seconds."""
    return {
        "elapsed_seconds": seconds(account.elapsed_ns),
        "training_goodput": account.training_goodput,
        "infrastructure_goodput": account.infrastructure_goodput,
        "checkpoint_efficiency": account.checkpoint_efficiency,
        "productive_seconds": seconds(account.productive_ns),
        "debt_seconds": seconds(account.debt_ns),
        "seconds_by_phase": {phase.value: seconds(length) for phase, length in account.ns_by_phase},
        "longest_unproductive_seconds": seconds(account.longest_unproductive_ns),
        "waterfall": [
            {
                "name": row.name,
                "seconds": seconds(row.length_ns),
                "share": row.share,
                "is_total": row.is_total,
            }
            for row in account.waterfall
        ],
    }


def definition_figures(definition: Definition, measured: Measured, account: Account) -> dict[str, object]:
    """What takes the place of rerail's figures where another definition is in force, and the details of it."""
    in_force: dict[str, object] = {"definition": definition.name}
    if definition.name != OURS:
        in_force |= {
            "training_goodput": measured.training,
            "infrastructure_goodput": measured.infrastructure,
            "productive_seconds": seconds(measured.productive_ns),
            "elapsed_seconds": seconds(measured.elapsed_ns),
        }
    return {
        **in_force,
        "definition_details": {
            "title": definition.title,
            "statement": definition.stated_by,
            "difference": measured.difference,
            "buckets": [
                {"name": each.name, "seconds": seconds(each.length_ns), "share": each.share}
                for each in measured.buckets
            ],
            "reasons": dict(measured.reasons),
            "numbers": dict(measured.numbers),
            "told": [
                {"name": each.name, "at": iso(each.at), "value": each.value, "step": each.step}
                for each in measured.told
            ],
            "rerail": {
                "training_goodput": account.training_goodput,
                "infrastructure_goodput": account.infrastructure_goodput,
                "productive_seconds": seconds(account.productive_ns),
                "elapsed_seconds": seconds(account.elapsed_ns),
            },
        },
    }


def attempt_figures(attempt: Attempt) -> dict[str, object]:
    """One attempt."""
    return {
        "attempt": attempt.number,
        "job": attempt.job,
        "requeue": attempt.requeue,
        "restart": attempt.restart,
        "iteration": attempt.iteration,
        "scope": None if attempt.scope is None else attempt.scope.value,
        "initiator": None if attempt.initiator is None else attempt.initiator.value,
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "noticed_at": iso(attempt.noticed_at),
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "steps": attempt.step_count,
        "resumed_from_step": attempt.resumed_from_step,
        "world_size": attempt.world_size,
        "gpus": attempt.gpus,
        "nodes": list(attempt.nodes),
        "launcher": attempt.launcher,
        "versions": dict(attempt.versions),
        "config": None if attempt.config is None else json.loads(attempt.config),
        "outcome": None if attempt.outcome is None else attempt.outcome.value,
        "reason": attempt.reason,
        "exit_codes": {str(rank): code for rank, code in attempt.exit_codes},
        "interrupted": attempt.is_interrupted,
        "planned": attempt.is_planned,
    }


def rollback_figures(rollback: Rollback) -> dict[str, object]:
    """One rollback."""
    return {
        "attempt": rollback.attempt,
        "at": iso(rollback.at),
        "from_step": rollback.from_step,
        "to_step": rollback.to_step,
        "steps": rollback.steps,
        "seconds": seconds(rollback.lost_ns),
        "is_least": rollback.is_least,
    }


def incident_figures(incident: Incident) -> dict[str, object]:
    """One incident with its anatomy, verdict and evidence."""
    verdict = incident.verdict
    return {
        "incident_id": incident.incident_id,
        "run_id": incident.run_id,
        "attempts": list(incident.attempts),
        "failed_relaunches": incident.failed_relaunches,
        "cause": verdict.cause,
        "domain": verdict.domain.value,
        "confidence": verdict.confidence,
        "verdict": verdict.sentence,
        "culprit_rank": verdict.culprit_rank,
        "culprit_node": verdict.culprit_node,
        "advice": verdict.advice,
        "missing_evidence": verdict.missing_evidence,
        "traits": dict(verdict.traits),
        "fingerprint": None if incident.fingerprint is None else incident.fingerprint.text,
        "fingerprint_parts": {} if incident.fingerprint is None else dict(incident.fingerprint.parts),
        "facets": dict(incident.facets),
        "started_at": iso(incident.started_at),
        "noticed_at": iso(incident.noticed_at),
        "restarted_at": iso(incident.restarted_at),
        "ended_at": iso(incident.ended_at),
        "planned": incident.is_planned,
        "excluded": incident.is_excluded,
        "open": incident.is_open,
        "scope": None if incident.scope is None else incident.scope.value,
        "parts_seconds": {part.name: seconds(part.length_ns) for part in incident.parts},
        "time_to_restart_seconds": None if incident.is_down_untold else seconds(incident.time_to_restart_ns),
        "time_to_recover_seconds": None if incident.is_down_untold else seconds(incident.time_to_recover_ns),
        "down_untold": incident.is_down_untold,
        "step_untold": incident.is_step_untold,
        "lost_steps": incident.lost_steps,
        "lost_seconds": seconds(incident.lost_ns),
        "lost_steps_is_least": incident.is_loss_least,
        "steps_told_every": incident.told_every,
        "lost_gpu_hours": gpu_hours(incident.lost_gpu_ns),
        "lost_gpu_hours_is_least": incident.is_cost_least,
        "rollback": None if incident.rollback is None else rollback_figures(incident.rollback),
        "exit_codes": {str(rank): code for rank, code in incident.exit_codes},
        "evidence": [
            {
                "at": iso(line.at),
                "source": line.source,
                "role": line.role.value,
                "rank": line.rank,
                "node": line.node,
                "code": line.code,
                "text": line.text,
                "meaning": line.meaning,
            }
            for line in incident.evidence
        ],
        "relaunches": [relaunch_figures(each) for each in incident.relaunches],
        "flight_recorder": flight_recorder_figures(incident.flight_recorder),
    }


def relaunch_figures(relaunch: RelaunchVerdict) -> dict[str, object]:
    """Why one restart of an incident failed in its turn."""
    verdict = relaunch.verdict
    return {
        "attempt": relaunch.attempt,
        "cause": verdict.cause,
        "domain": verdict.domain.value,
        "confidence": verdict.confidence,
        "verdict": verdict.sentence,
        "culprit_rank": verdict.culprit_rank,
        "culprit_node": verdict.culprit_node,
        "traits": dict(verdict.traits),
        "evidence": [
            {"at": iso(line.at), "source": line.source, "role": line.role.value, "rank": line.rank, "node": line.node,
             "text": line.text}
            for line in relaunch.evidence
        ],
    }  # fmt: skip


def unexplained_figures(each: Unexplained) -> dict[str, object]:
    """Silent time with one likely reason."""
    return {
        "reason": each.reason,
        "detail": each.detail,
        "seconds": seconds(each.length_ns),
        "count": each.count,
        "example": {
            "at": iso(each.example_at),
            "seconds": seconds(each.example_ns),
            "attempt": each.example_attempt,
            "after_step": each.example_after_step,
        },
    }


def exclusion_figures(window: Exclusion) -> dict[str, object]:
    """One window that a person declared out of account, and what became of it."""
    return {
        "window": window.window,
        "start": iso(window.start),
        "end": iso(window.end),
        "reason": window.reason,
        "author": window.author,
        "declared_at": iso(window.declared_at),
        "withdrawn": window.is_withdrawn,
        "changes": [
            {"at": iso(each.at), "state": each.state, "reason": each.reason, "author": each.author}
            for each in window.changes
        ],
    }


def _recovery(distributions: tuple[RecoveryDistribution, ...]) -> dict[str, dict[str, object]]:
    groups: dict[str, dict[str, object]] = {grouping: {} for grouping in GROUPINGS}
    for each in distributions:
        groups[each.grouped_by][each.group] = {
            **(percentile_figures(each.recover) or {"n": 0}),
            "restart": percentile_figures(each.restart),
            "incidents": each.incidents,
            "failed_relaunches": each.failed_relaunches,
            "lost_steps": each.lost_steps,
            "lost_seconds": seconds(each.lost_ns),
            "lost_steps_is_least": each.is_loss_least,
            "lost_gpu_hours": gpu_hours(each.lost_gpu_ns),
        }
    return groups


def percentile_figures(percentiles: Percentiles | None) -> dict[str, object] | None:
    """A distribution of lengths, in seconds."""
    if percentiles is None:
        return None
    return {
        "n": percentiles.n,
        "p50": seconds(percentiles.p50_ns),
        "p90": seconds(percentiles.p90_ns),
        "p95": seconds(percentiles.p95_ns),
        "p99": seconds(percentiles.p99_ns),
        "max": seconds(percentiles.max_ns),
    }


def _interval(advice: IntervalAdvice) -> dict[str, object]:
    return {
        "formula": advice.formula,
        "seconds": seconds(advice.advised_ns),
        "low_seconds": seconds(advice.low_ns),
        "high_seconds": seconds(advice.high_ns),
        "floor_seconds": seconds(advice.floor_ns),
        "refusal": advice.refusal,
    }


def _rates(rates: FailureRates) -> dict[str, object]:
    return {
        "faults": rates.faults,
        "up_seconds": seconds(rates.up_ns),
        "mttf_seconds": seconds(rates.mttf_ns),
        "mttf_low_seconds": seconds(rates.mttf_low_ns),
        "mttf_high_seconds": seconds(rates.mttf_high_ns),
        "mtbf_seconds": seconds(rates.mtbf_ns),
        "node_days": None if rates.node_ns is None else rates.node_ns / DAY_NS,
        "per_1000_node_days": rates.per_1000_node_days,
        "per_1000_node_days_low": rates.per_1000_node_days_low,
        "per_1000_node_days_high": rates.per_1000_node_days_high,
    }


def _heartbeat(each: HeartbeatFigures) -> dict[str, object]:
    return {
        "n": each.n,
        "max_gap_seconds": seconds(each.max_gap_ns),
        "max_gap_rank": each.max_gap_rank,
        "armed_timeout_seconds": seconds(each.armed_timeout_ns),
        "headroom": each.headroom,
        "ranks": each.ranks,
        "slowest": [{"rank": gap.rank, "max_gap_seconds": seconds(gap.max_gap_ns)} for gap in each.slowest],
    }


def _quiet_ranks(quiet: QuietRanks | None) -> dict[str, object] | None:
    return None if quiet is None else {"n": quiet.count, "ranks": list(quiet.ranks), "since": iso(quiet.since)}


def _dumps_say(verdict: Verdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return {
        "cause": verdict.cause,
        "confidence": verdict.confidence,
        "verdict": verdict.sentence,
        "culprit_rank": verdict.culprit_rank,
        "advice": verdict.advice,
        "missing_evidence": verdict.missing_evidence,
    }


def _machine_word(word: MachineWord) -> dict[str, object]:
    return {
        "at": iso(word.at),
        "node": word.node,
        "source": word.source or None,
        "code": word.code,
        "text": word.text,
    }


def _contradiction(each: Contradiction) -> dict[str, object]:
    return {"reason": each.reason, "count": each.count, "example": each.example}
