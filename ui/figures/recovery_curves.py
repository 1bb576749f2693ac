"""Recovery curves: the share of faults recovered within a time, one stepped line for each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Sides are told apart without colour too."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One side: `(seconds, share)` ascending."""

    title: str
    n: int
    points: tuple[tuple[float, float], ...]


def recovery_figure(curves: Sequence[Curve], ink: str, line: str, colours: Sequence[str]) -> go.Figure:
    """The curves in one picture; faults that never recovered keep a line below 100 %."""
    figure = go.Figure()
    for index, curve in enumerate(curves):
        figure.add_scatter(
            x=[0.0, *(seconds for seconds, _ in curve.points)],
            y=[0.0, *(share * 100 for _, share in curve.points)],
            mode="lines",
            name=f"{curve.title} (n={curve.n})",
            line={
                "shape": "hv",
                "dash": DASHES[index % len(DASHES)],
                "color": colours[index % len(colours)],
                "width": 2,
            },
            hovertemplate="%{y:.0f} % within %{x:.1f} s<extra>%{fullData.name}</extra>",
        )
    longest = max((seconds for curve in curves for seconds, _ in curve.points), default=0.0)
    figure.update_layout(
        margin={"l": 56, "r": 16, "t": 8, "b": 44},
        height=320,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": ink, "size": 12},
        legend={"orientation": "h", "y": -0.25},
        xaxis={"title": {"text": "time to recover, s"}, "gridcolor": line, "range": [0, longest * 1.03 or 1]},
        yaxis={"title": {"text": "% of faults"}, "gridcolor": line, "range": [0, 101]},
    )
    return figure
