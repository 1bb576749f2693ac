"""Run rows: what a list of runs shows of a view, and the columns it can be searched and sorted by."""

from __future__ import annotations

from rerail.server.core.infrastructure import infrastructure_goodput
from rerail.server.core.statistics import percentile
from rerail.server.core.view import Attempt, Incident, RunView
from rerail.server.query_results import MOST_BLIND, AttemptMark, IncidentMark, RunMarks, RunRow

SORTABLE = (
    "run_id", "state", "name", "project", "outcome", "current_phase", "as_of", "started_at", "ended_at",
    "last_heard_at", "silent_since", "elapsed_ns", "productive_ns", "faults_ns", "training_goodput",
    "infrastructure_goodput", "gpus", "lost_gpu_ns", "attempts", "restarts", "interruptions", "incidents",
    "recover_p50_ns", "recover_max_ns", "high_water_step", "current_step", "target_step", "checkpoint_age_ns",
    "newest_durable_step", "steps_at_risk",
)  # fmt: skip
"""Fields of `RunRow` a list can be sorted by; each is a column of `run_view`."""


def row_of_view(view: RunView) -> RunRow:
    """The list row of a view."""
    account, gpu_account = view.account, view.gpu_account
    recoveries = view.recoveries_ns
    infrastructure = infrastructure_goodput(view)
    still_open = [incident.incident_id for incident in view.incidents if incident.is_open]
    return RunRow(
        run_id=view.run_id,
        state=view.state,
        as_of=view.as_of,
        name=view.name,
        project=view.project,
        labels=view.labels,
        outcome=view.outcome,
        current_phase=view.current_phase,
        started_at=view.started_at,
        ended_at=view.ended_at,
        last_heard_at=view.last_heard_at,
        silent_since=view.silent_since,
        elapsed_ns=account.elapsed_ns,
        productive_ns=account.productive_ns,
        faults_ns=account.faults_ns,
        ns_by_phase=account.ns_by_phase,
        training_goodput=account.training_goodput if view.sees_training else None,
        infrastructure_goodput=infrastructure.share,
        infrastructure_goodput_is_most=infrastructure.is_most,
        infrastructure_goodput_least=infrastructure.least,
        gpus=view.gpus,
        lost_gpu_ns=None
        if gpu_account is None or not view.sees_training
        else gpu_account.elapsed_ns - gpu_account.productive_ns,
        attempts=len(view.attempts),
        restarts=view.restarts,
        interruptions=view.rates.faults,
        incidents=len(view.incidents),
        open_incident_id=still_open[-1] if still_open else None,
        recover_p50_ns=percentile(recoveries, 0.5) if recoveries else None,
        recover_max_ns=recoveries[-1] if recoveries else None,
        high_water_step=view.high_water_step,
        current_step=view.current_step,
        target_step=view.target_step,
        checkpoint_age_ns=view.checkpoint.age_ns,
        newest_durable_step=view.checkpoint.newest_durable_step,
        steps_at_risk=view.checkpoint.steps_at_risk,
        blind=tuple(each for each in view.data_quality.blind if each.until is None)[:MOST_BLIND],
    )


def row_columns(row: RunRow) -> dict[str, object]:
    """The columns of `run_view` that a list is searched and sorted by."""
    columns: dict[str, object] = {name: _column(getattr(row, name)) for name in SORTABLE if name != "run_id"}
    columns["run"] = row.run_id
    labels = [f"{key}={value}" for key, value in row.labels]
    words = " ".join(filter(None, (row.run_id, row.name, row.project, *labels)))
    columns["search_text"] = _column(words.lower())
    return columns


def _column(value: object) -> object:
    # PostgreSQL cannot keep NUL or half surrogates in text; the document beside these columns holds the text whole.
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode().replace("\0", "")
    return value


def mark_of(incident: Incident) -> IncidentMark:
    """An incident as timelines and lists show it."""
    verdict = incident.verdict
    return IncidentMark(
        incident_id=incident.incident_id,
        run_id=incident.run_id,
        attempts=incident.attempts,
        started_at=incident.started_at,
        noticed_at=incident.noticed_at,
        restarted_at=incident.restarted_at,
        ended_at=incident.ended_at,
        is_planned=incident.is_planned,
        is_open=incident.is_open,
        scope=incident.scope,
        cause=verdict.cause,
        domain=verdict.domain.value,
        confidence=verdict.confidence,
        sentence=verdict.sentence,
        culprit_rank=verdict.culprit_rank,
        culprit_node=verdict.culprit_node,
        time_to_restart_ns=incident.time_to_restart_ns,
        time_to_recover_ns=incident.time_to_recover_ns,
        lost_steps=incident.lost_steps,
        lost_ns=incident.lost_ns,
        lost_gpu_ns=incident.lost_gpu_ns,
        told_every=incident.told_every,
        is_down_untold=incident.is_down_untold,
        is_step_untold=incident.is_step_untold,
        untold_ns=incident.untold_ns,
    )


def marks_of(view: RunView) -> RunMarks:
    """What the picture of a run marks."""
    return RunMarks(
        as_of=view.as_of,
        started_at=view.started_at,
        ended_at=view.ended_at,
        attempts=tuple(map(mark_of_attempt, view.attempts)),
        incidents=tuple(map(mark_of, view.incidents)),
        sees_training=view.sees_training,
    )


def mark_of_attempt(attempt: Attempt) -> AttemptMark:
    """An attempt as timelines draw it."""
    return AttemptMark(
        number=attempt.number,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        scope=attempt.scope,
        outcome=attempt.outcome,
        is_interrupted=attempt.is_interrupted,
        is_planned=attempt.is_planned,
        first_step=attempt.first_step,
        last_step=attempt.last_step,
        resumed_from_step=attempt.resumed_from_step,
    )
