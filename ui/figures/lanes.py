"""Lanes: attempts, checkpoints and incidents as blocks on the time axis under the phase band.

Rules
- A block that is still open ends at `as_of`; right of it is nothing.
- Attempts are neutral; only what went wrong has colour, and only what is open now is red.
- A checkpoint runs from its start to durable and ends in a diamond; a failed one is hollow, one in flight is hatched.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from rerail.server.core.facts import Phase
from rerail.server.core.view import Checkpoint
from rerail.server.query_results import AttemptMark, IncidentMark
from rerail.ui import text
from rerail.ui.figures.axis import Axis, Json, milliseconds
from rerail.ui.theme import Scheme


class Tone(StrEnum):
    """How a block looks."""

    NEUTRAL = "neutral"
    OTHER = "other"
    """Neutral too, a shade darker: every second attempt."""
    PLANNED = "planned"
    FAULT = "fault"
    OPEN = "open"
    SAVE = "save"
    FAILED_SAVE = "failed_save"
    SAVE_IN_FLIGHT = "save_in_flight"
    LEFT_OUT = "left_out"
    """More of them than can be drawn: zoom in."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a lane."""

    start: int
    end: int
    tone: Tone
    label: str
    hover: str
    link: str | None = None


def attempt_blocks(attempts: Sequence[AttemptMark], as_of: int, axis: Axis) -> list[Block]:
    """A block per attempt."""
    blocks = []
    for attempt in attempts:
        end = as_of if attempt.ended_at is None else attempt.ended_at
        ended = "running" if attempt.ended_at is None else "ended" if attempt.outcome is None else attempt.outcome.value
        lines = [f"<b>attempt {attempt.number}</b>  {text.duration(end - attempt.started_at)}, {ended}"]
        lines.append(f"{axis.clock(attempt.started_at)} – {axis.clock(end)} {axis.name}")
        if attempt.scope is not None:
            lines.append(f"began with a restart {text.SCOPES[attempt.scope]}")
        if attempt.first_step is None or attempt.last_step is None:
            lines.append("no step completed")
        else:
            lines.append(f"steps {text.number(attempt.first_step)}–{text.number(attempt.last_step)}")
        tone = Tone.OTHER if attempt.number % 2 else Tone.NEUTRAL
        link = f"#attempt-{attempt.number}"
        blocks.append(Block(attempt.started_at, end, tone, str(attempt.number), "<br>".join(lines), link))
    return blocks


def checkpoint_blocks(
    checkpoints: Sequence[Checkpoint], as_of: int, axis: Axis, attempt_ends: Mapping[int, int]
) -> list[Block]:
    """A block per checkpoint whose time is known; one that never became durable ends with its attempt."""
    blocks = []
    for checkpoint in checkpoints:
        known = checkpoint.moments
        if not known:
            continue
        if checkpoint.durable_at is not None:
            tone, end, fate = Tone.SAVE, checkpoint.durable_at, "durable"
        elif checkpoint.failed_at is not None:
            tone, end, fate = Tone.FAILED_SAVE, checkpoint.failed_at, "failed"
        else:
            over = as_of if checkpoint.attempt is None else attempt_ends.get(checkpoint.attempt, as_of)
            tone, end, fate = Tone.SAVE_IN_FLIGHT, max(over, *known), "not durable"
        kind = " ".join(html.escape(word) for word in (checkpoint.mode, checkpoint.tier) if word)
        hover = (
            f"<b>checkpoint of step {text.number(checkpoint.step)}</b>  {fate} after {text.duration(end - min(known))}"
        )
        hover += f"<br>{axis.clock(min(known))} – {axis.clock(end)} {axis.name}" + (f"<br>{kind}" if kind else "")
        blocks.append(Block(min(known), end, tone, "", hover, "#checkpoints"))
    return blocks


def _running_again(incident: IncidentMark) -> str:
    if incident.is_down_untold:
        return text.DOWN_UNTOLD
    return f"running again after {text.duration(incident.time_to_restart_ns)}"


def incident_blocks(incidents: Sequence[IncidentMark], as_of: int, axis: Axis, link: str) -> list[Block]:
    """A block per incident; `link` is the address of an incident without its id."""
    blocks = []
    for incident in incidents:
        end = as_of if incident.ended_at is None else incident.ended_at
        name = "planned restart" if incident.is_planned else text.cause(incident.cause)
        tone = Tone.OPEN if incident.is_open else Tone.PLANNED if incident.is_planned else Tone.FAULT
        lost = (
            "lost steps unknown"
            if incident.lost_steps is None
            else text.steps_lost(incident.lost_steps, incident.told_every)
        )
        cost = "" if incident.lost_gpu_ns is None else " · " + text.gpu_hours(incident.lost_gpu_ns)
        at_least = "at least " if incident.is_down_untold else ""
        ending = f"recovered in {at_least}{text.duration(incident.time_to_recover_ns)}"
        if incident.time_to_recover_ns is None:
            ending = "not over yet" if incident.is_open else "never regained"
        hover = (
            f"<b>{html.escape(name)}</b>  {ending}<br>"
            f"{axis.clock(incident.started_at)} – {axis.clock(end)} {axis.name}<br>"
            f"{_running_again(incident)} · {lost}{cost}"
        )
        blocks.append(Block(incident.started_at, end, tone, name, hover, link + quote(incident.incident_id, safe="")))
    return blocks


def with_left_out(blocks: list[Block], left_out: int, axis: Axis, many: str) -> list[Block]:
    """The blocks, and one over the stretch before them where some are not drawn: an empty lane would lie."""
    if not left_out:
        return blocks
    first = min((block.start for block in blocks), default=axis.end)
    hover = f"<b>{text.number(left_out)} {many} are not drawn at this zoom</b><br>zoom in to see them"
    return [Block(axis.start, max(first, axis.start + 1), Tone.LEFT_OUT, "", hover), *blocks]


def block_traces(blocks: Sequence[Block], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """One bar trace per tone, and a diamond where a checkpoint became durable or failed."""
    traces: list[Json] = []
    for tone in Tone:
        of_tone = [block for block in blocks if block.tone is tone]
        if not of_tone:
            continue
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "base": [axis.text(block.start) for block in of_tone],
                "x": milliseconds(max(block.end - block.start, 1) for block in of_tone),
                "y": [0.5] * len(of_tone),
                "width": 0.5 if tone in _SAVES else 1,
                "yaxis": yaxis,
                "marker": _marker(tone, scheme),
                "text": [html.escape(block.label) for block in of_tone],
                "textposition": "inside",
                "insidetextanchor": "start" if tone in _LABELLED else "middle",
                "textangle": 0,
                "textfont": {"color": _ink(tone, scheme), "size": 11},
                "constraintext": "inside",
                "hovertext": [block.hover for block in of_tone],
                "hovertemplate": "%{hovertext}<extra></extra>",
                "customdata": [block.link for block in of_tone],
                "showlegend": False,
                "cliponaxis": True,
            }
        )
        if tone in (Tone.SAVE, Tone.FAILED_SAVE):
            traces.append(_ends(of_tone, tone, axis, scheme, yaxis))
    return traces


_SAVES = frozenset({Tone.SAVE, Tone.FAILED_SAVE, Tone.SAVE_IN_FLIGHT})
_LABELLED = frozenset({Tone.FAULT, Tone.OPEN, Tone.PLANNED})


def _ends(blocks: Sequence[Block], tone: Tone, axis: Axis, scheme: Scheme, yaxis: str) -> Json:
    hollow = tone is Tone.FAILED_SAVE
    color = scheme.danger if hollow else scheme.durable
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [axis.text(block.end) for block in blocks],
        "y": [0.5] * len(blocks),
        "yaxis": yaxis,
        "cliponaxis": False,
        "marker": {
            "symbol": "diamond-open" if hollow else "diamond",
            "size": 8,
            "color": color,
            "line": {"width": 1.5 if hollow else 0, "color": color},
        },
        "hovertext": [block.hover for block in blocks],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": [block.link for block in blocks],
        "showlegend": False,
    }


def _marker(tone: Tone, scheme: Scheme) -> Json:
    fills = {
        Tone.NEUTRAL: scheme.raised,
        Tone.OTHER: scheme.line,
        Tone.PLANNED: scheme.surface,
        Tone.FAULT: scheme.phase(Phase.DETECTING),
        Tone.OPEN: scheme.danger,
        Tone.SAVE: scheme.phase(Phase.SAVING),
        Tone.FAILED_SAVE: scheme.surface,
        Tone.SAVE_IN_FLIGHT: scheme.phase(Phase.SAVING),
        Tone.LEFT_OUT: scheme.raised,
    }
    edges = {Tone.PLANNED: scheme.phase(Phase.QUEUED), Tone.FAILED_SAVE: scheme.danger}
    marker: Json = {"color": fills[tone], "line": {"color": edges.get(tone, fills[tone]), "width": 1}}
    if tone in (Tone.SAVE_IN_FLIGHT, Tone.LEFT_OUT):
        ink = scheme.surface if tone is Tone.SAVE_IN_FLIGHT else scheme.line
        marker["pattern"] = {"shape": "/", "fgcolor": ink, "bgcolor": fills[tone], "size": 5}
    return marker


def _ink(tone: Tone, scheme: Scheme) -> str:
    return (
        "#FFFFFF"
        if tone is Tone.FAULT and scheme.name == "light"
        else (scheme.page if tone in (Tone.FAULT, Tone.OPEN) else scheme.muted)
    )
