"""An incident's past: the problem it belongs to, and earlier incidents like it with what was done about them.

Rules
- The panel is drawn with the rest of the incident's page; the form stands still below it, and the browser asks the API.
- Each likeness is given with its reasons; where the faults differ, that is said too.
"""

from __future__ import annotations

from collections.abc import Sequence

from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.problems import ActionKind, Status
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_problem_results import ProblemOfIncident, SimilarIncident, SimilarIncidents
from rerail.ui import text
from rerail.ui.address import incident_path, problem_path
from rerail.ui.elements import badge, instant, link, panel
from rerail.ui.markup import Content, Markup, html
from rerail.ui.pages.problem_actions import action_button, form, standing_buttons
from rerail.ui.pages.problems import assigned, status_badge

MOST_OTHERS = 300


def history_of(queries: Queries, incident_id: str) -> list[Markup]:
    """The panels about the past of an incident; none for a planned restart."""
    try:
        found = queries.problems.similar(incident_id)
    except NotFoundError:
        return []
    return history(found)


def history(found: SimilarIncidents) -> list[Markup]:
    """The same, of what was found."""
    if found.problem is None:
        return []
    return [html.Div([_problem(found.problem, found.incident_id), _similar(found.similar)], className="columns")]


def history_form(queries: Queries) -> Component:
    """The form behind the buttons of the panels."""
    return dash_html.Div(form(queries.problems.problems(limit=MOST_OTHERS).rows, "Move this incident"))


def _problem(mine: ProblemOfIncident, incident_id: str) -> Markup:
    row = mine.problem
    about: list[Content] = [
        html.P(
            [
                link(html.Strong(row.title), problem_path(row.problem_id)),
                " ",
                status_badge(row.status),
                " ",
                assigned(row),
            ]
        ),
        html.P(problem_sentence(mine), className="verdict"),
    ]
    if row.resolution is not None:
        by = f" by {row.resolution.author}" if row.resolution.author else ""
        fixed = f" Fixed by {row.resolution.fixed_by}." if row.resolution.fixed_by else ""
        came_back = " It came back since." if row.status is Status.REGRESSED else ""
        taken_back = " Reopened since: this is no longer in force." if row.resolution.taken_back_at else ""
        told = f"Last resolved{by}: {row.resolution.text}.{fixed}{came_back}{taken_back}".replace("..", ".")
        about.append(html.P([told, " ", instant(row.resolution.at)]))
    about.append(html.Div(standing_buttons(row), className="problem-buttons"))
    about.append(
        html.Div(
            [
                action_button(ActionKind.MOVE, "move to another problem", incidents=incident_id),
                action_button(ActionKind.SPLIT, "make it a problem of its own", incidents=incident_id),
                html.Span("", hidden=True, **{"data-revision": str(row.revision), "data-problem-id": row.problem_id}),
            ],
            className="under",
        )
    )
    return panel("Its problem", about, "problem")


def problem_sentence(mine: ProblemOfIncident) -> str:
    """The how-manieth time it is, in how many runs."""
    row = mine.problem
    if row.incidents <= 1:
        return "The first time that this happened, in any run."
    times = f"The {ordinal(mine.position)} of {row.incidents} times in {text.count(row.runs, 'run')}"
    so_far = " so far" if row.still_open else ""
    took = text.duration(row.recover_ns)
    if row.lost_gpu_ns is None:
        return f"{times}; all of them took {took} to recover{so_far}, at a cost that is not known."
    return f"{times}; all of them cost {text.gpu_hours(row.lost_gpu_ns)} and {took}{so_far}."


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`, `22nd`."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _similar(similar: Sequence[SimilarIncident]) -> Markup:
    if not similar:
        nothing = "No other incident has the same fault, exception, XID, node or step, and none began near it."
        return panel("Similar incidents", html.P(nothing, className="calm"), "similar")
    entries = [_entry(each) for each in similar]
    return panel(
        "Similar incidents", html.Ol(entries, className="similar"), "similar", lead="The most similar first, and why."
    )


def _entry(each: SimilarIncident) -> Markup:
    other = each.occurrence
    parts: list[Content] = [
        html.Div(
            [
                link(html.Strong(other.incident_id), incident_path(other.incident_id)),
                html.Span(text.cause(other.cause)),
                html.Span(instant(other.started_at), className="muted nowrap"),
                badge("open", "danger")
                if other.is_open
                else html.Span(
                    f"{text.duration(other.recover_ns)} to recover" if other.ended_at else "never regained",
                    className="muted nowrap",
                ),
            ],
            className="similar-head",
        ),
        html.Div(" ".join(each.reasons), className="muted"),
    ]
    if each.difference is not None and each.difference:
        parts.append(html.Details([html.Summary("what differs"), html.P(each.difference, className="muted")]))
    if each.resolution is not None and each.problem_id is not None:
        by = f" by {each.resolution.author}" if each.resolution.author else ""
        parts.append(
            html.Div(
                [
                    badge("resolved", "good")
                    if each.status is Status.RESOLVED
                    else badge("came back", "danger")
                    if each.status is Status.REGRESSED
                    else badge("reopened", "outline"),
                    " ",
                    link(f"{each.resolution.text}", problem_path(each.problem_id)),
                    by,
                ]
            )
        )
    return html.Li(parts)
