"""Signs: notes, alerts and config changes on the time axis: a mark where each is, and a line over how long it lasts.

Rules
- Every kind has a form of its own, so that nobody needs to tell colours apart; red is an alert that is open now.
- A click opens what it stands for. What people and facts say is escaped: hover boxes read a little HTML.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rerail.server.query_results import AlertMark, ConfigMark, NoteMark
from rerail.ui import text
from rerail.ui.figures.axis import Axis, Json
from rerail.ui.theme import Scheme

MOST_KNOBS = 6


class SignKind(StrEnum):
    """What a sign stands for; the value is the class of its swatch."""

    OPEN_ALERT = "open-alert"
    ALERT = "alert"
    """It was resolved."""
    CONFIG = "config"
    NOTE = "note"


NAMES = {
    SignKind.OPEN_ALERT: "open alert",
    SignKind.ALERT: "resolved alert",
    SignKind.CONFIG: "config change",
    SignKind.NOTE: "note",
}

SYMBOLS = {
    SignKind.OPEN_ALERT: "triangle-up",
    SignKind.ALERT: "triangle-up-open",
    SignKind.CONFIG: "diamond",
    SignKind.NOTE: "square",
}


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing on the axis."""

    kind: SignKind
    start: int
    end: int | None
    """None for an instant."""
    hover: str
    link: str


def note_signs(marks: Sequence[NoteMark], axis: Axis) -> list[Sign]:
    """A sign per note."""
    return [
        Sign(
            SignKind.NOTE, mark.start, mark.end,
            _hover(mark.author or text.NO_NAME, _when(mark.start, mark.end, axis), [mark.text]), mark.link,
        )
        for mark in marks
    ]  # fmt: skip


def alert_signs(marks: Sequence[AlertMark], as_of: int, axis: Axis) -> list[Sign]:
    """A sign per episode; one that is open lasts until `as_of`."""
    signs = []
    for mark in marks:
        kind = SignKind.OPEN_ALERT if mark.end is None else SignKind.ALERT
        over = f"resolved by {mark.ended_by}" if mark.ended_by else "over by itself"
        if mark.end is None:
            over = "still open"
        name = text.headline(mark.rule.replace("_", " "))
        hover = _hover(f"{name}, {over}", _when(mark.start, mark.end, axis), [mark.sentence or ""])
        signs.append(Sign(kind, mark.start, max(as_of, mark.start) if mark.end is None else mark.end, hover, mark.link))
    return signs


def config_signs(marks: Sequence[ConfigMark], axis: Axis) -> list[Sign]:
    """A sign per change, with what differs, who did it and why."""
    signs = []
    for mark in marks:
        shown = mark.knobs[:MOST_KNOBS]
        lines = [f"{one.old.knob.title}: {text.setting(one.old)} → {text.setting(one.new)}" for one in shown]
        if len(mark.knobs) > MOST_KNOBS:
            lines.append(f"and {len(mark.knobs) - MOST_KNOBS} more")
        lines.append(f"why: {mark.reason}" if mark.reason else "nobody said why")
        by = f" by {mark.changed_by}" if mark.changed_by else ""
        hover = _hover(f"config change{by}", _when(mark.at, None, axis), lines)
        signs.append(Sign(SignKind.CONFIG, mark.at, None, hover, mark.link))
    return signs


def _when(start: int, end: int | None, axis: Axis) -> str:
    return f"{axis.clock(start)}{'' if end is None else f' – {axis.clock(end)}'} {axis.name}"


def _hover(head: str, when: str, said: Sequence[str]) -> str:
    lines = [line for each in said for line in textwrap.wrap(" ".join(each.split()), 60)[:3]]
    told = "".join(f"<br>{html.escape(line)}" for line in lines)
    return f"<b>{html.escape(head)}</b>  {when}{told}"


def sign_traces(signs: Sequence[Sign], axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    """Of each kind lines over what lasts, and a mark for every sign."""
    traces: list[Json] = []
    for kind in reversed(SignKind):  # what is open lies on top
        of_kind = [sign for sign in signs if sign.kind is kind]
        if of_kind:
            traces += _of_kind(of_kind, kind, axis, scheme, yaxis)
    return traces


def _of_kind(signs: Sequence[Sign], kind: SignKind, axis: Axis, scheme: Scheme, yaxis: str) -> list[Json]:
    color = {
        SignKind.OPEN_ALERT: scheme.danger,
        SignKind.ALERT: scheme.muted,
        SignKind.CONFIG: scheme.ink,
        SignKind.NOTE: scheme.accent,
    }[kind]
    traces: list[Json] = []
    lasting = [sign for sign in signs if sign.end is not None]
    if lasting:
        x: list[str | None] = []
        for sign in lasting:
            x += [axis.text(sign.start), axis.text(sign.end or sign.start), None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": [None if at is None else 0.5 for at in x],
                "yaxis": yaxis,
                "line": {"color": color, "width": 3},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    # What began before the range is marked at its edge, where it can be hovered and clicked.
    places = [sign.start if sign.end is None else min(max(sign.start, axis.start), sign.end) for sign in signs]
    is_hollow = kind is SignKind.ALERT
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [axis.text(at) for at in places],
            "y": [0.5] * len(signs),
            "yaxis": yaxis,
            "cliponaxis": False,
            "marker": {
                "symbol": SYMBOLS[kind],
                "size": 9,
                "color": color,
                "line": {"width": 1.5 if is_hollow else 1, "color": color if is_hollow else scheme.surface},
            },
            "hovertext": [sign.hover for sign in signs],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "customdata": [sign.link for sign in signs],
            "showlegend": False,
        }
    )
    return traces


def sign_legend(signs: Sequence[Sign]) -> tuple[tuple[str, str, str], ...]:
    """Every kind in the picture as `(class, name, how many)`."""
    counted = ((kind, sum(sign.kind is kind for sign in signs)) for kind in SignKind)
    return tuple((kind.value, NAMES[kind], text.number(times)) for kind, times in counted if times)
