"""Timeline shape: a timeline as the smallest JSON a browser can draw from.

Rules
- Columns, not rows: one list per field. Instants are integers of microseconds since the Unix epoch (`…_us`), which a
  browser's numbers hold exactly, as they do not hold nanoseconds.
- Spans touch, so *n* spans are *n + 1* edges. Bins are of equal length, so they need no edges; a share that occurred is
  never rounded to 0.
- The whole is below 200 kB for any history: what does not fit was thinned by `queries.py` and is counted in `left_out`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.server.core.facts import Phase
from rerail.server.core.report import iso
from rerail.server.core.view import Checkpoint
from rerail.server.query_results import AttemptMark, Bin, IncidentMark, Timeline

LEAST_SHARE = 1e-5


def timeline_shape(timeline: Timeline) -> dict[str, object]:
    """A timeline, ready to be JSON."""
    return {
        "run_id": timeline.run_id,
        "as_of": iso(timeline.as_of),
        "as_of_us": _us(timeline.as_of),
        "run_started_us": _us(timeline.run_started_at),
        "run_ended_us": _us(timeline.run_ended_at),
        "start_us": _us(timeline.start),
        "end_us": _us(timeline.end),
        "is_exact": timeline.spans.is_exact,
        "span_count": timeline.spans.span_count,
        "spans": _spans(timeline),
        "bins": _bins(timeline.spans.bins),
        "attempts": _attempts(timeline.attempts),
        "checkpoints": _checkpoints(timeline.checkpoints),
        "incidents": [_incident(mark) for mark in timeline.incidents],
        "notes": [
            {"start_us": _us(mark.start), "end_us": _us(mark.end), "author": mark.author, "text": mark.text}
            for mark in timeline.notes
        ],
        "alerts": [
            {
                "start_us": _us(mark.start),
                "end_us": _us(mark.end),
                "rule": mark.rule,
                "sentence": mark.sentence,
                "is_urgent": mark.is_urgent,
                "ended_by": mark.ended_by,
            }
            for mark in timeline.alerts
        ],
        "config_changes": [
            {
                "at_us": _us(mark.at),
                "change_id": mark.change_id,
                "knobs": [{"name": one.name, "old": one.old.value, "new": one.new.value} for one in mark.knobs],
                "changed_by": mark.changed_by,
                "reason": mark.reason,
            }
            for mark in timeline.config_changes
        ],
        "window_seconds": timeline.window_ns / 1e9,
        "sliding": {
            "at_us": [_us(point.at) for point in timeline.sliding],
            "training": [_share(point.training) for point in timeline.sliding],
            "infrastructure": [_share(point.infrastructure) for point in timeline.sliding],
        },
        "steps": {
            "at_us": [_us(point.at) for point in timeline.step_points],
            "step": [point.step for point in timeline.step_points],
            "durable_step": [point.durable_step for point in timeline.step_points],
            "attempt": [point.attempt for point in timeline.step_points],
        },
        "left_out": dict(timeline.left_out),
    }


def _us(instant: int | None) -> int | None:
    return None if instant is None else instant // 1000


def _share(share: float | None) -> float | None:
    return None if share is None else round(share, 5)


def _spans(timeline: Timeline) -> dict[str, object] | None:
    spans = timeline.spans.spans
    if not timeline.spans.is_exact:
        return None
    phases = _dictionary(span.phase.value for span in spans)
    kinds = _dictionary(span.kind.value for span in spans)
    return {
        "phases": list(phases),
        "kinds": list(kinds),
        "edges_us": [_us(span.start) for span in spans] + [_us(span.end) for span in spans[-1:]],
        "phase": [phases[span.phase.value] for span in spans],
        "kind": [kinds[span.kind.value] for span in spans],
        "attempt": [span.attempt for span in spans],
        "first_step": [span.first_step for span in spans],
        "last_step": [span.last_step for span in spans],
        "names": {str(index): span.name for index, span in enumerate(spans) if span.name is not None},
    }


def _dictionary(values: Iterable[str]) -> dict[str, int]:
    return {value: index for index, value in enumerate(dict.fromkeys(values))}


def _bins(bins: Sequence[Bin]) -> dict[str, object] | None:
    if not bins:
        return None
    occurred = {phase for entry in bins for phase, _ in entry.ns_by_phase}
    shares: dict[str, list[float]] = {phase.value: [0] * len(bins) for phase in Phase if phase in occurred}
    for index, entry in enumerate(bins):
        length = entry.end - entry.start
        for phase, length_ns in entry.ns_by_phase:
            share = round(length_ns / length, 5)
            shares[phase.value][index] = 1 if share == 1 else max(LEAST_SHARE, share)
    return {"count": len(bins), "start_us": _us(bins[0].start), "end_us": _us(bins[-1].end), "shares": shares}


def _attempts(attempts: Sequence[AttemptMark]) -> dict[str, object]:
    return {
        "number": [mark.number for mark in attempts],
        "started_us": [_us(mark.started_at) for mark in attempts],
        "ended_us": [_us(mark.ended_at) for mark in attempts],
        "scope": [mark.scope for mark in attempts],
        "outcome": [mark.outcome for mark in attempts],
        "is_interrupted": [int(mark.is_interrupted) for mark in attempts],
        "is_planned": [int(mark.is_planned) for mark in attempts],
        "first_step": [mark.first_step for mark in attempts],
        "last_step": [mark.last_step for mark in attempts],
        "resumed_from_step": [mark.resumed_from_step for mark in attempts],
    }


def _checkpoints(checkpoints: Sequence[Checkpoint]) -> dict[str, object]:
    return {
        "checkpoint_id": [checkpoint.checkpoint_id for checkpoint in checkpoints],
        "step": [checkpoint.step for checkpoint in checkpoints],
        "tier": [checkpoint.tier for checkpoint in checkpoints],
        "mode": [checkpoint.mode for checkpoint in checkpoints],
        "started_us": [_us(checkpoint.started_at) for checkpoint in checkpoints],
        "captured_us": [_us(checkpoint.captured_at) for checkpoint in checkpoints],
        "durable_us": [_us(checkpoint.durable_at) for checkpoint in checkpoints],
        "failed_us": [_us(checkpoint.failed_at) for checkpoint in checkpoints],
    }


def _incident(mark: IncidentMark) -> dict[str, object]:
    return {
        "incident_id": mark.incident_id,
        "started_us": _us(mark.started_at),
        "restarted_us": _us(mark.restarted_at),
        "ended_us": _us(mark.ended_at),
        "is_planned": mark.is_planned,
        "cause": mark.cause,
        "lost_steps": mark.lost_steps,
        "lost_steps_is_least": mark.told_every > 1,
        "time_to_recover_seconds": None
        if mark.time_to_recover_ns is None or mark.is_down_untold
        else round(mark.time_to_recover_ns / 1e9, 3),
    }
