"""Flight recorder: what the dumps of all ranks say together, on the page of an incident.

Rules
- Only where dumps are among the evidence. The sentence first, then what is not known, then the groups.
- A rank without a dump is named and not accused; members that were inferred are said to be.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.flight_recorder.conclusions import Analysis, Conclusion, GroupRow, Ranks
from rerail.ui import text
from rerail.ui.elements import Head, badge, copy_table_button, folded, panel
from rerail.ui.markup import Content, Markup, html

CONCLUSIONS = {
    Conclusion.MISMATCH: ("ranks differ", "warn"),
    Conclusion.MISSING: ("a rank is missing", "warn"),
    Conclusion.LAGGING: ("a rank lags behind", "warn"),
    Conclusion.LATE: ("a rank came late", "warn"),
    Conclusion.ALL_JOINED: ("no rank is missing", "outline"),
    Conclusion.NOT_SEEN: ("a dump is missing", "outline"),
    Conclusion.DEADLOCK: ("ranks wait for each other", "warn"),
    Conclusion.NOTHING_PENDING: ("nothing pending", "quiet"),
    Conclusion.NOT_RECORDED: ("recording was disabled", "quiet"),
}
PLACES_SHOWN = 3


def flight_recorder_panel(found: Analysis | None) -> Markup | None:
    """The panel; None where no dump is among the evidence."""
    if found is None:
        return None
    words, tone = CONCLUSIONS[found.conclusion]
    if found.conclusion is Conclusion.MISSING and found.culprit_count > 1:
        words = f"{text.number(found.culprit_count)} ranks are missing"
    body: list[Content] = [
        html.P(found.sentence, className="verdict"),
        html.Div(
            [
                badge(words, tone),
                html.Span(_seen(found), className="muted"),
                html.Span(f"{found.confidence * 100:.0f} % confident", className="muted") if found.confidence else None,
            ],
            className="under",
        ),
    ]
    if found.groups:
        heads = (
            Head("group", "words"),
            Head("operation", "words"),
            Head("odd" if found.conclusion is Conclusion.MISMATCH else "who is missing", "words"),
            Head("who waits", "words"),
            Head("where the missing were last", "wide"),
            Head("what differs" if found.conclusion is Conclusion.MISMATCH else "sizes", "words"),
        )
        rows = [_row(row, found) for row in found.groups]
        body.append(
            html.Div(
                folded(heads, rows, "Process groups in which somebody waits", stacks=True), className="recorder-groups"
            )
        )
    if found.unknown:
        body.append(
            html.Div(
                [html.H3("What is not known"), html.Ul([html.Li(each) for each in found.unknown])], className="notes"
            )
        )
    return panel(
        "Flight recorder",
        body,
        "flight-recorder",
        lead="What every rank called last, and who did not come.",
        actions=copy_table_button() if found.groups else None,
        wide=True,
    )


def _seen(found: Analysis) -> str:
    words = f"dumps of {text.number(found.ranks_seen)} of {text.count(found.world_size, 'rank')}"
    if found.not_seen.count:
        words += f"; not seen: {_ranks(found.not_seen)}"
    return words


def _row(row: GroupRow, found: Analysis) -> Sequence[Content]:
    missing: list[Content] = [html.Strong(_ranks(row.missing)) if row.missing.count else text.DASH]
    if row.not_seen.count:
        missing.append(html.Div(f"not seen: {_ranks(row.not_seen)}", className="muted"))
    places: list[Content] = [
        html.Div([html.Strong(f"rank {place.rank}"), " ", place.text]) for place in row.last_places[:PLACES_SHOWN]
    ]
    rest = row.missing.count - min(PLACES_SHOWN, len(row.last_places))
    if places and rest > 0:
        places.append(html.Div(f"and {text.count(rest, 'other')}", className="muted"))
    is_culprit_alone = row.missing.count == 1 and row.missing.text in {str(rank) for rank in found.culprits}
    return (
        [
            html.Span(row.title, className="strong"),
            html.Div(
                text.count(row.member_count, "rank") + (", inferred" if row.is_inferred else ""),
                className="muted nowrap",
            ),
        ],
        html.Span([html.Code(row.operation or "operation"), f" #{row.sequence}"], className="nowrap"),
        [*missing, *([" ", badge("culprit", "warn")] if is_culprit_alone else [])],
        _ranks(row.waiting) if row.waiting.count else text.DASH,
        places or text.DASH,
        row.detail or text.DASH,
    )


def _ranks(ranks: Ranks) -> str:
    """`0–511, 513 (513 ranks)`: all of them where they are few."""
    shown = ", ".join(piece.replace("-", "–") for piece in ranks.text.split(","))
    return shown if ranks.count <= 3 else f"{shown} ({text.number(ranks.count)})"
