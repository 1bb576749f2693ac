"""The picture of a run: phase band, lanes, goodput and steps over one time axis.

Rules
- One x axis for all rows: zooming any of them zooms all.
- Only the x axis can be zoomed; double click shows the whole run again.
- Heights are fixed in pixels, so that an update never moves what stands below the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.ui.figures.axis import Axis, Json
from rerail.ui.figures.curves import Curve, goodput_traces, is_unseen, step_traces
from rerail.ui.figures.lanes import Block, block_traces
from rerail.ui.figures.signs import Sign, sign_traces
from rerail.ui.figures.timeline import Bar, Column, bar_traces, column_traces
from rerail.ui.theme import FONT, Scheme

TOP = 8
BOTTOM = 44
GAP = 10
ROWS = (
    ("phases", 44),
    ("attempts", 20),
    ("checkpoints", 18),
    ("incidents", 24),
    ("alerts", 14),
    ("config", 14),
    ("notes", 14),
    ("goodput", 168),
    ("steps", 132),
)
"""Rows from the top, with their heights in pixels."""

GAP_BEFORE_CURVE = 34
TICKS = [
    {"dtickrange": [None, 1000], "value": "%H:%M:%S.%L\n%-d %b %Y"},
    {"dtickrange": [1000, 60_000], "value": "%H:%M:%S\n%-d %b %Y"},
    {"dtickrange": [60_000, 86_400_000], "value": "%H:%M\n%-d %b %Y"},
    {"dtickrange": [86_400_000, "M1"], "value": "%-d %b\n%Y"},
    {"dtickrange": ["M1", None], "value": "%b\n%Y"},
]
"""The hour first, the day under it where it changes; as the tables write them."""

HEIGHT = TOP + sum(height for _, height in ROWS) + (len(ROWS) - 3) * GAP + 2 * GAP_BEFORE_CURVE + BOTTOM


@dataclass(frozen=True, slots=True)
class RunPicture:
    """Everything the picture shows. Either `bars` or `columns`."""

    axis: Axis
    bars: Sequence[Bar] = ()
    columns: Sequence[Column] = ()
    attempts: Sequence[Block] = ()
    checkpoints: Sequence[Block] = ()
    incidents: Sequence[Block] = ()
    alerts: Sequence[Sign] = ()
    config_changes: Sequence[Sign] = ()
    notes: Sequence[Sign] = ()
    goodput: tuple[Curve, Curve] | None = None
    window: str = ""
    """The sliding window as words."""
    steps: tuple[Curve, Curve] | None = None
    now: int | None = None
    """Where to draw the line of now; None for a run that ended."""
    is_narrow: bool = False
    """A phone: lane names stand above their lanes instead of beside them."""


def run_figure(picture: RunPicture, scheme: Scheme) -> Json:
    """The picture as a Plotly figure."""
    axis = picture.axis
    names = {name: f"y{index + 1}" if index else "y" for index, (name, _) in enumerate(ROWS)}
    traces: list[Json] = []
    traces += bar_traces(picture.bars, axis, scheme, names["phases"])
    traces += column_traces(picture.columns, axis, scheme, names["phases"])
    for lane, blocks in (
        ("attempts", picture.attempts),
        ("checkpoints", picture.checkpoints),
        ("incidents", picture.incidents),
    ):
        traces += block_traces(blocks, axis, scheme, names[lane])
    for lane, signs in (("alerts", picture.alerts), ("config", picture.config_changes), ("notes", picture.notes)):
        traces += sign_traces(signs, axis, scheme, names[lane])
    if picture.goodput is not None:
        traces += goodput_traces(picture.goodput, axis, scheme, names["goodput"])
    if picture.steps is not None:
        traces += step_traces(picture.steps, axis, scheme, names["steps"])
    if not traces:
        traces = [{"type": "scatter", "x": [], "y": []}]
    return {"data": traces, "layout": _layout(picture, scheme)}


def empty_figure(scheme: Scheme) -> Json:
    """What stands there until the first answer: the same size, nothing in it."""
    blank = {"visible": False, "fixedrange": True}
    return {
        "data": [],
        "layout": {
            "height": HEIGHT,
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "paper_bgcolor": scheme.surface,
            "plot_bgcolor": scheme.surface,
            "xaxis": blank,
            "yaxis": blank,
        },
    }


def _layout(picture: RunPicture, scheme: Scheme) -> Json:
    axis = picture.axis
    domains = _domains()
    left = 44 if picture.is_narrow else 92
    layout: Json = {
        "height": HEIGHT,
        "autosize": True,
        "margin": {"l": left, "r": 20, "t": TOP, "b": BOTTOM, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": scheme.muted},
        "barmode": "overlay",
        "bargap": 0,
        "dragmode": "zoom",
        "hovermode": "closest",
        "hoverdistance": 24,
        "hoverlabel": {
            "bgcolor": scheme.surface,
            "bordercolor": scheme.line,
            "align": "left",
            "font": {"family": FONT, "size": 12, "color": scheme.ink},
        },
        "uniformtext": {"mode": "hide", "minsize": 10},
        "showlegend": False,
        "xaxis": {
            "type": "date",
            "range": [axis.text(axis.start), axis.text(axis.end)],
            "anchor": f"y{len(ROWS)}",
            "domain": [0, 1],
            "showgrid": True,
            "gridcolor": scheme.grid,
            "linecolor": scheme.line,
            "showline": True,
            "zeroline": False,
            "ticks": "outside",
            "ticklen": 4,
            "tickcolor": scheme.line,
            "tickfont": {"size": 11},
            "nticks": 5 if picture.is_narrow else 10,
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "spikethickness": 1,
            "spikedash": "solid",
            "spikecolor": scheme.muted,
            "tickformatstops": TICKS,
        },
        "shapes": [],
        "annotations": [],
    }
    for index, (name, _) in enumerate(ROWS):
        key = f"yaxis{index + 1}" if index else "yaxis"
        layout[key] = _vertical(name, domains[name], scheme)
    if picture.steps is None or not any(curve.points for curve in picture.steps):
        # Nothing scales it.
        layout[f"yaxis{len(ROWS)}"] |= {"range": [0, 1], "showticklabels": False}
    layout["annotations"] = _titles(picture, scheme, domains)
    if picture.now is not None and axis.start < picture.now <= axis.end:
        layout["shapes"] = [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": axis.text(picture.now),
                "x1": axis.text(picture.now),
                "y0": 0,
                "y1": 1,
                "line": {"color": scheme.good, "width": 1.5},
            }
        ]
    return layout


def _domains() -> dict[str, tuple[float, float]]:
    inner = HEIGHT - TOP - BOTTOM
    domains = {}
    top = 0
    for index, (name, height) in enumerate(ROWS):
        if index:
            top += GAP_BEFORE_CURVE if name in ("goodput", "steps") else GAP
        domains[name] = (1 - (top + height) / inner, 1 - top / inner)
        top += height
    return domains


def _vertical(name: str, domain: tuple[float, float], scheme: Scheme) -> Json:
    bottom, top = domain
    common: Json = {"domain": [max(bottom, 0), min(top, 1)], "fixedrange": True, "zeroline": False}
    if name == "goodput":
        return common | {
            "range": [0, 1.02],
            "tickformat": ".0%",
            "tickvals": [0, 0.25, 0.5, 0.75, 1],
            "gridcolor": scheme.grid,
            "tickfont": {"size": 11},
        }
    if name == "steps":
        return common | {
            "rangemode": "tozero",
            "nticks": 4,
            "gridcolor": scheme.grid,
            "tickfont": {"size": 11},
            "tickformat": "~s",
        }
    return common | {"range": [0, 1], "visible": False}


def _titles(picture: RunPicture, scheme: Scheme, domains: dict[str, tuple[float, float]]) -> list[Json]:
    titles = []
    for name in ("phases", "attempts", "checkpoints", "incidents", "alerts", "config", "notes"):
        bottom, top = domains[name]
        titles.append(
            {
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": (bottom + top) / 2,
                "xanchor": "right",
                "yanchor": "middle",
                "xshift": -10,
                "text": {
                    "phases": "ph.",
                    "attempts": "att.",
                    "checkpoints": "ckpt",
                    "incidents": "inc.",
                    "alerts": "alert",
                    "config": "conf.",
                    "notes": "note",
                }[name]
                if picture.is_narrow
                else name,
                "showarrow": False,
                "font": {"size": 11, "color": scheme.muted},
            }
        )
    window = f" · window of {picture.window}" if picture.window else ""
    unseen = picture.goodput is not None and is_unseen(picture.goodput[0])
    training = "━ training goodput"
    if unseen:
        training = "training goodput unknown" + ("" if picture.is_narrow else ": nobody tells steps")
    captions = {
        "goodput": f'<span style="color:{scheme.good}">{training}</span>   '
        f'<span style="color:{scheme.accent}">┅ infrastructure goodput</span>{"" if picture.is_narrow else window}',
        "steps": f'<span style="color:{scheme.ink}">━ step</span>   '
        f'<span style="color:{scheme.durable}">━ newest durable step</span>',
    }
    titles.append(
        {
            "name": "zone",
            "xref": "paper",
            "yref": "paper",
            "x": 0,
            "y": 0,
            "xanchor": "right",
            "yanchor": "top",
            "xshift": -10,
            "yshift": -3,
            "text": picture.axis.name,
            "showarrow": False,
            "font": {"size": 11, "color": scheme.muted},
        }
    )
    for name, caption in captions.items():
        titles.append(
            {
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": min(domains[name][1], 1),
                "xanchor": "left",
                "yanchor": "bottom",
                "yshift": 5,
                "text": caption,
                "showarrow": False,
                "font": {"size": 12, "color": scheme.muted},
            }
        )
    return titles
