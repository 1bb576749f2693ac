"""Drawing of a run: from what a query answered to the picture, and the words under it."""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.query_results import Timeline
from rerail.ui import text
from rerail.ui.figures.axis import Axis, Json
from rerail.ui.figures.curves import goodput_curves, step_curves
from rerail.ui.figures.lanes import attempt_blocks, checkpoint_blocks, incident_blocks, with_left_out
from rerail.ui.figures.run_picture import RunPicture, run_figure
from rerail.ui.figures.signs import alert_signs, config_signs, note_signs, sign_legend
from rerail.ui.figures.timeline import timeline_bars, timeline_columns
from rerail.ui.theme import ORDER, Scheme, css_name

NARROW_PX = 560


@dataclass(frozen=True, slots=True)
class RunDrawing:
    """A figure, and what the browser must know to ask for the next one."""

    figure: Json
    start: int
    end: int
    as_of: int
    is_open: bool
    run_start: int | None
    run_end: int
    window_seconds: int
    caption: str
    legend: tuple[tuple[str, str, str], ...]
    """Phases in the picture, as `(class, name, share of the elapsed time)`."""
    signs: tuple[tuple[str, str, str], ...] = ()
    """Alerts, config changes and notes in the picture, as `(class, name, how many)`."""


def drawing_of(timeline: Timeline, gpus: int | None, offset_minutes: int, scheme: Scheme, width_px: int) -> RunDrawing:
    """The picture of `timeline`, its clock `offset_minutes` east of UTC; `gpus` turns lengths into cost."""
    axis = Axis(timeline.start, max(timeline.end, timeline.start + 1), offset_minutes)
    is_open = timeline.run_ended_at is None
    run_end = timeline.as_of if timeline.run_ended_at is None else timeline.run_ended_at
    spans = timeline.spans
    left_out = dict(timeline.left_out)
    attempts = attempt_blocks(timeline.attempts, run_end, axis)
    checkpoints = checkpoint_blocks(timeline.checkpoints, run_end, axis, _attempt_ends(timeline))
    incidents = incident_blocks(timeline.incidents, run_end, axis, "/incidents/")
    picture = RunPicture(
        axis=axis,
        bars=timeline_bars(spans.spans, axis, gpus),
        columns=timeline_columns(spans.bins),
        attempts=with_left_out(attempts, left_out.get("attempts", 0), axis, "attempts"),
        checkpoints=with_left_out(checkpoints, left_out.get("checkpoints", 0), axis, "checkpoints"),
        incidents=with_left_out(incidents, left_out.get("incidents", 0), axis, "incidents"),
        alerts=alert_signs(timeline.alerts, run_end, axis),
        config_changes=config_signs(timeline.config_changes, axis),
        notes=note_signs(timeline.notes, axis),
        goodput=goodput_curves(timeline.sliding),
        window=text.duration(timeline.window_ns),
        steps=step_curves(timeline.step_points, timeline.checkpoints, min(run_end, axis.end)),
        now=timeline.as_of if is_open else None,
        is_narrow=width_px < NARROW_PX,
    )
    return RunDrawing(
        figure=run_figure(picture, scheme),
        start=axis.start,
        end=axis.end,
        as_of=timeline.as_of,
        is_open=is_open,
        run_start=timeline.run_started_at,
        run_end=run_end,
        window_seconds=timeline.window_ns // text.NANOSECONDS,
        caption=caption(timeline),
        legend=legend(timeline),
        signs=sign_legend([*picture.alerts, *picture.config_changes, *picture.notes]),
    )


def legend(timeline: Timeline) -> tuple[tuple[str, str, str], ...]:
    """Every phase in the range with its share of it, in the order of all legends."""
    lengths: dict[Phase, int] = {}
    for span in timeline.spans.spans:
        lengths[span.phase] = lengths.get(span.phase, 0) + span.end - span.start
    for piece in timeline.spans.bins:
        for phase, length in piece.ns_by_phase:
            lengths[phase] = lengths.get(phase, 0) + length
    elapsed = sum(length for phase, length in lengths.items() if phase is not Phase.EXCLUDED)
    return tuple(
        (
            css_name(phase),
            text.PHASES[phase],
            text.duration(lengths[phase]) if phase is Phase.EXCLUDED else text.share(lengths[phase] / elapsed),
        )
        for phase in ORDER
        if lengths.get(phase)
    )


def _attempt_ends(timeline: Timeline) -> dict[int, int]:
    """When each attempt was over: a write that was in flight then never ended."""
    return {attempt.number: attempt.ended_at for attempt in timeline.attempts if attempt.ended_at is not None}


def caption(timeline: Timeline) -> str:
    """What is shown, how exactly, and what is not."""
    length = text.duration(timeline.end - timeline.start)
    spans = timeline.spans
    if not spans.span_count:
        return f"{length}: nothing is known of this stretch."
    if spans.is_exact:
        shown = f"{length}, every one of {text.count(spans.span_count, 'span')} drawn exactly."
    else:
        shown = (
            f"{length}, {text.count(spans.span_count, 'span')} as shares in {text.count(len(spans.bins), 'column')}; "
            "zoom in for exact ones."
        )
    left_out = [
        text.count(how_many, what.removesuffix("s").replace("_", " "))
        for what, how_many in timeline.left_out
        if how_many and what != "step_points"
    ]
    return shown + (f" Not drawn at this zoom: {', '.join(left_out)}." if left_out else "")
