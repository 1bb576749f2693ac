"""Curves: goodput in a sliding window, and the step number with its rollbacks, over the shared time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.view import Checkpoint, SlidingPoint, StepPoint
from rerail.ui.figures.axis import Axis, Json
from rerail.ui.theme import Scheme


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of values over time; None breaks it."""

    name: str
    points: tuple[tuple[int, float | None], ...]


def goodput_curves(points: Sequence[SlidingPoint]) -> tuple[Curve, Curve]:
    """Training goodput, and infrastructure goodput, which is never below it."""
    return (
        Curve("training goodput", tuple((point.at, point.training) for point in points)),
        Curve("infrastructure goodput", tuple((point.at, point.infrastructure) for point in points)),
    )


def is_unseen(curve: Curve) -> bool:
    """Whether a curve has instants and not one value: nobody saw what it is about."""
    return bool(curve.points) and all(value is None for _, value in curve.points)


def step_curves(points: Sequence[StepPoint], checkpoints: Sequence[Checkpoint], end: int) -> tuple[Curve, Curve]:
    """The step the run stands at until `end`, and the newest durable one.

    A fall-back is a drop at the instant it is known, not a slope through the outage before it.
    """
    steps: list[tuple[int, float | None]] = []
    for point in points:
        if steps and steps[-1][1] is not None and point.step < steps[-1][1]:
            steps.append((point.at, steps[-1][1]))
        steps.append((point.at, point.step))
    if steps and steps[-1][0] < end:
        steps.append((end, steps[-1][1]))
    return Curve("step", tuple(steps)), Curve("durable step", _durable(points, checkpoints, end))


def _durable(
    points: Sequence[StepPoint], checkpoints: Sequence[Checkpoint], end: int
) -> tuple[tuple[int, float | None], ...]:
    """The newest durable step over time: as the points tell it, else from the checkpoints in the picture."""
    told = [(point.at, point.durable_step) for point in points if point.durable_step is not None]
    if not told:
        durable = sorted((saved.durable_at, saved.step) for saved in checkpoints if saved.durable_at is not None)
        told = [(at, step) for at, step in durable if at < end]
    return (*told, (end, told[-1][1])) if told else ()


def goodput_traces(curves: tuple[Curve, Curve], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """Training solid over a faint area, infrastructure dotted."""
    training, infrastructure = curves
    hover = "%{y:.1%}"
    most = "at most %{y:.1%}" if is_unseen(training) else hover
    return [
        _line(infrastructure, axis, yaxis, {"color": scheme.accent, "width": 1.5, "dash": "dot"}, most),
        _line(training, axis, yaxis, {"color": scheme.good, "width": 2}, hover)
        | {"fill": "tozeroy", "fillcolor": _faint(scheme.good)},
    ]


def step_traces(curves: tuple[Curve, Curve], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """The step as a line, the durable one as stairs under it: the distance between them is at risk.

    Without any step the line is there and empty: the time axis stands on this row, and Plotly gives a row without a
    trace no height before it draws the axis.
    """
    step, durable = curves
    if not step.points:
        step = Curve(step.name, ((axis.start, None), (axis.end, None)))
    stairs: Json = {"color": scheme.durable, "width": 1.5, "shape": "hv"}
    return [
        _line(durable, axis, yaxis, stairs, "%{y:,d}"),
        _line(step, axis, yaxis, {"color": scheme.ink, "width": 1.5}, "%{y:,d}"),
    ]


def _line(curve: Curve, axis: Axis, yaxis: str, line: Json, value: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": curve.name,
        "x": [axis.text(at) for at, _ in curve.points],
        "y": [None if y is None else round(y, 5) for _, y in curve.points],
        "yaxis": yaxis,
        "line": line,
        "connectgaps": False,
        "hovertemplate": f"<b>{curve.name}</b>  {value}<br>%{{x|%d %b %H:%M:%S}} {axis.name}<extra></extra>",
        "showlegend": False,
    }


def _faint(color: str) -> str:
    red, green, blue = (int(color[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.09)"
