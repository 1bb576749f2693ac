"""Note signs: what people wrote, on the time axis: a mark where it is, and a line over the region it is on.

Rules
- A click opens the note on the page. What a note says is escaped: hover boxes read a little HTML.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.query_results import NoteMark
from rerail.ui.figures.axis import Axis, Json
from rerail.ui.theme import Scheme


@dataclass(frozen=True, slots=True)
class NoteSign:
    """One note on the axis."""

    start: int
    end: int | None
    hover: str
    link: str


def note_signs(marks: Sequence[NoteMark], axis: Axis) -> list[NoteSign]:
    """A sign per note."""
    signs = []
    for mark in marks:
        when = axis.clock(mark.start) + ("" if mark.end is None else f" – {axis.clock(mark.end)}")
        lines = textwrap.wrap(" ".join(mark.text.split()), 60)[:3]
        said = "<br>".join(html.escape(line) for line in lines)
        hover = f"<b>{html.escape(mark.author or 'somebody')}</b>  {when} {axis.name}<br>{said}"
        signs.append(NoteSign(mark.start, mark.end, hover, mark.link))
    return signs


def note_traces(signs: Sequence[NoteSign], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """Lines over regions, and a mark for every note."""
    if not signs:
        return []
    traces: list[Json] = []
    regions = [sign for sign in signs if sign.end is not None]
    if regions:
        x: list[str | None] = []
        for sign in regions:
            x += [axis.text(sign.start), axis.text(sign.end or sign.start), None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": [None if at is None else 0.5 for at in x],
                "yaxis": yaxis,
                "line": {"color": scheme.accent, "width": 3},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [axis.text(sign.start) for sign in signs],
            "y": [0.5] * len(signs),
            "yaxis": yaxis,
            "cliponaxis": False,
            "marker": {
                "symbol": "square",
                "size": 9,
                "color": scheme.accent,
                "line": {"width": 1, "color": scheme.surface},
            },
            "hovertext": [sign.hover for sign in signs],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "customdata": [sign.link for sign in signs],
            "showlegend": False,
        }
    )
    return traces
