"""Timeline: the phase band of a run, exact bars where they can be seen and stacked shares where they cannot.

Rules
- What to draw is decided first (`timeline_bars`, `timeline_columns`), then drawn.
- Losses are drawn after training and are never thinner than a pixel: a short stall in a long run does not vanish.
- A column of a binned band is stacked by share, losses at the foot; it never shows only the largest phase.
- Texts a person or an emitter wrote are escaped here: hover boxes read a little HTML.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.view import Span
from rerail.server.query_results import Bin
from rerail.ui import text
from rerail.ui.figures.axis import Axis, Json, milliseconds
from rerail.ui.theme import HATCHED, ORDER, OUTLINED, Scheme

RASTER_ROWS = 24
"""Height of a stacked column in cells; a share that is there at all has one."""

MOST_HOVERS = 150
"""So many places of a binned band answer a hover; more could not be told apart with a pointer, and weigh a lot."""

BOTTOM_UP = (
    Phase.STALLED,
    Phase.DETECTING,
    Phase.STOPPING,
    Phase.QUEUED,
    Phase.RENDEZVOUS,
    Phase.INITIALIZING,
    Phase.LOADING,
    Phase.SAVING,
    Phase.RECOMPUTING,
    Phase.EVALUATING,
    Phase.DATA_WAIT,
    Phase.OVERHEAD,
    Phase.SILENT,
    Phase.EXCLUDED,
    Phase.TRAINING,
)
"""Order inside a column: losses stand on the ground line, where the eye compares them."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One span of the band."""

    start: int
    end: int
    phase: Phase
    hover: str
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One bin of the band: shares from the ground up, summing to 1 where the run lived through all of it."""

    start: int
    end: int
    shares: tuple[tuple[Phase, float], ...]


def timeline_bars(spans: Sequence[Span], axis: Axis, gpus: int | None = None) -> list[Bar]:
    """A bar per span, with what a reader wants to know of it; `gpus` turns lengths into cost."""
    return [Bar(span.start, span.end, span.phase, _hover(span, axis, gpus), span.attempt) for span in spans]


def timeline_columns(bins: Sequence[Bin]) -> list[Column]:
    """A column per bin."""
    columns = []
    for piece in bins:
        length = piece.end - piece.start
        if len(piece.ns_by_phase) == 1 and piece.ns_by_phase[0][1] == length:
            columns.append(Column(piece.start, piece.end, ((piece.ns_by_phase[0][0], 1.0),)))
            continue
        by_phase = dict(piece.ns_by_phase)
        shares = tuple((phase, by_phase[phase] / length) for phase in BOTTOM_UP if by_phase.get(phase))
        columns.append(Column(piece.start, piece.end, shares))
    return columns


def bar_traces(bars: Sequence[Bar], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """One bar trace per phase that occurs."""
    traces: list[Json] = []
    for phase in ORDER:
        of_phase = [bar for bar in bars if bar.phase is phase]
        if of_phase:
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": text.PHASES[phase],
                    "base": [axis.text(bar.start) for bar in of_phase],
                    "x": milliseconds(bar.end - bar.start for bar in of_phase),
                    "y": [0.5] * len(of_phase),
                    "width": 1,
                    "yaxis": yaxis,
                    "marker": phase_marker(phase, scheme),
                    "hovertext": [bar.hover for bar in of_phase],
                    "hovertemplate": "%{hovertext}<extra></extra>",
                    "customdata": [None if bar.attempt is None else f"#attempt-{bar.attempt}" for bar in of_phase],
                    "showlegend": False,
                }
            )
    return traces


def column_traces(columns: Sequence[Column], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """The binned band as one raster: a cell per share, coloured by phase."""
    if not columns:
        return []
    cells = [_cells(column) for column in columns]
    hovered = _merged(columns, -(-len(columns) // MOST_HOVERS))
    upright = b"".join(cells)
    raster = b"".join(upright[row::RASTER_ROWS] for row in range(RASTER_ROWS))
    last = len(ORDER) - 1
    scale = []
    for index, phase in enumerate(ORDER):
        scale += [[index / (last + 1), scheme.phase(phase)], [(index + 1) / (last + 1), scheme.phase(phase)]]
    step = (columns[-1].end - columns[0].start) / len(columns)
    return [
        {
            "type": "heatmap",
            "x0": axis.text(int(columns[0].start + step / 2)),
            "dx": step / 1e6,
            "y0": 0.5 / RASTER_ROWS,
            "dy": 1 / RASTER_ROWS,
            "z": {
                "dtype": "u1",
                "bdata": base64.b64encode(raster).decode(),
                "shape": f"{RASTER_ROWS}, {len(columns)}",
            },
            "zmin": -0.5,
            "zmax": last + 0.5,
            "colorscale": scale,
            "showscale": False,
            "yaxis": yaxis,
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "marker": {"opacity": 0, "size": 18},
            "x": [axis.text((column.start + column.end) // 2) for column in hovered],
            "y": [0.5] * len(hovered),
            "yaxis": yaxis,
            "hovertext": [_column_hover(column, axis) for column in hovered],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "showlegend": False,
        },
    ]


def phase_marker(phase: Phase, scheme: Scheme) -> Json:
    """How a phase looks in a bar: filled, hatched, or outlined."""
    color = scheme.phase(phase)
    if phase in OUTLINED:
        return {"color": scheme.surface, "line": {"color": color, "width": 1}}
    if phase in HATCHED:
        pattern = {"shape": "/", "fgcolor": scheme.surface, "bgcolor": color, "size": 5, "solidity": 0.25}
        return {"color": color, "pattern": pattern, "line": {"color": color, "width": 1}}
    return {"color": color, "line": {"color": color, "width": 0 if phase is Phase.TRAINING else 1}}


def _merged(columns: Sequence[Column], width: int) -> list[Column]:
    """Every `width` neighbours as one column, their shares weighted by length."""
    merged = []
    for first in range(0, len(columns), width):
        group = columns[first : first + width]
        length = group[-1].end - group[0].start
        lengths: dict[Phase, float] = {}
        for column in group:
            for phase, share in column.shares:
                lengths[phase] = lengths.get(phase, 0.0) + share * (column.end - column.start)
        shares = tuple((phase, part / length) for phase, part in lengths.items())
        merged.append(Column(group[0].start, group[-1].end, shares))
    return merged


_CELL = {phase: bytes([place]) for place, phase in enumerate(ORDER)}
_WHOLE = {phase: cell * RASTER_ROWS for phase, cell in _CELL.items()}


def _cells(column: Column) -> bytes:
    """Phase indices from the ground up. Every share that is there has a cell; the largest gives them up."""
    if len(column.shares) == 1 and column.shares[0][1] == 1:
        return _WHOLE[column.shares[0][0]]
    counts = {phase: max(1, round(share * RASTER_ROWS)) for phase, share in column.shares}
    while sum(counts.values()) > RASTER_ROWS:
        counts[max(counts, key=lambda phase: counts[phase])] -= 1
    cells = b"".join(_CELL[phase] * height for phase, height in counts.items())
    return cells + bytes([255]) * (RASTER_ROWS - len(cells)) if not cells else cells.ljust(RASTER_ROWS, cells[-1:])


def _hover(span: Span, axis: Axis, gpus: int | None) -> str:
    name = text.PHASES[span.phase]
    if span.name:
        name += " " + html.escape(span.name)
    lines = [f"<b>{name}</b>  {text.duration(span.end - span.start)}"]
    lines.append(f"{axis.clock(span.start)} – {axis.clock(span.end)} {axis.name}")
    about = []
    if span.attempt is not None:
        about.append(f"attempt {span.attempt}")
    if span.first_step is not None and span.last_step is not None:
        steps = (
            f"step {text.number(span.first_step)}"
            if span.first_step == span.last_step
            else f"steps {text.number(span.first_step)}–{text.number(span.last_step)}"
        )
        about.append(steps)
    if gpus is not None:
        about.append(text.gpu_hours((span.end - span.start) * gpus))
    if about:
        lines.append(" · ".join(about))
    return "<br>".join(lines)


def _column_hover(column: Column, axis: Axis) -> str:
    rows = [
        f"{text.PHASES[phase]} {text.share(share)}" for phase, share in sorted(column.shares, key=lambda pair: -pair[1])
    ]
    head = f"<b>{axis.clock(column.start)} – {axis.clock(column.end)} {axis.name}</b>"
    return "<br>".join([head, *(rows or ["outside the run"])])
