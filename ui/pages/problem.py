"""Problem: what is it, why are these the same, where does it strike, and what was done about it?"""

from __future__ import annotations

from collections.abc import Sequence

from dash import Dash, Input, Output, State, dcc
from dash import html as dash_html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from rerail.server.core.fingerprints import PART_NAMES
from rerail.server.core.notes import SubjectKind
from rerail.server.core.problems import ActionKind, Status
from rerail.server.core.rates import DAY_NS
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_problem_results import FacetShare, Occurrence, ProblemRow, ProblemView
from rerail.ui import text
from rerail.ui.address import PROBLEMS, Address, incident_path, node_path, problem_path, run_path
from rerail.ui.elements import Head, badge, copy_table_button, folded, instant, link, panel, table
from rerail.ui.markup import Content, Markup, encoded, html, island
from rerail.ui.pages import changes_about
from rerail.ui.pages.notes_part import notes_part
from rerail.ui.pages.problem_actions import action_button, action_buttons, form, trail
from rerail.ui.pages.problems import assigned, status_badge
from rerail.ui.reading import in_thread

PAGE = "problem"

SHOWN = 200
MOST_LANES = 12
MOST_OTHERS = 300
CALM_AFTER_BARS = 120


async def layout(queries: Queries, wanted: Address, _search: str) -> Component:
    """The page of one problem."""
    found = await in_thread(queries.problems.problem, wanted.name, 0, SHOWN)
    about = await in_thread(changes_about.of_problem, queries, found.problem.problem_id)
    others = await in_thread(lambda: queries.problems.problems(limit=MOST_OTHERS).rows)
    elsewhere = [row for row in others if row.problem_id != found.problem.problem_id]
    return dash_html.Div(
        [
            dcc.Store(id="problem-id", data=found.problem.problem_id),
            dcc.Store(id="problem-live"),
            island(head(found), "problem-head"),
            form(elsewhere, "What to do with this problem"),
            island(body(found, about), "problem-content"),
            await notes_part(queries, SubjectKind.PROBLEM, found.problem.problem_id),
        ],
        id="problem-page",
        className="page-body",
        **{"data-title": found.problem.title},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callback that draws a problem again after somebody acted."""

    @app.callback(
        Output("problem-head", "data-markup"),
        Output("problem-content", "data-markup"),
        Input("problem-live", "data"),
        State("problem-id", "data"),
        prevent_initial_call=True,
    )
    async def refresh(signal: object, problem_id: str | None) -> tuple[str, str]:
        if signal is None or problem_id is None:
            raise PreventUpdate
        try:
            found = await in_thread(queries.problems.problem, problem_id, 0, SHOWN)
            about = await in_thread(changes_about.of_problem, queries, problem_id)
        except NotFoundError as error:
            raise PreventUpdate from error
        return encoded(head(found)), encoded(body(found, about))


def head(found: ProblemView) -> list[Content]:
    """What it is and how it stands, and what can be done."""
    row = found.problem
    return [
        html.Div([link("Problems", PROBLEMS), html.Span("/", className="muted"), row.problem_id], className="crumbs"),
        html.Div([html.H1(row.title), status_badge(row.status), assigned(row)], className="title-row"),
        html.Div(
            [
                html.Span(text.cause(row.cause)),
                html.Span(["first seen ", instant(row.first_at)]),
                html.Span(["last seen ", instant(row.last_at)]),
                html.Span(
                    html.Code(row.problem_id), **{"data-revision": str(row.revision), "data-problem-id": row.problem_id}
                ),
            ],
            className="about",
        ),
        html.P(sentence(found), className="sentence"),
        action_buttons(row),
    ]


def sentence(found: ProblemView) -> str:
    """How often, where, what it cost, and what was done."""
    row = found.problem
    if not row.incidents:
        return "No incident belongs to it now."
    times = f"{text.headline(text.count(row.incidents, 'incident'))} in {text.count(row.runs, 'run')}"
    costs = [text.gpu_hours(row.lost_gpu_ns)] if row.lost_gpu_ns is not None else []
    costs.append(f"{text.duration(row.recover_ns)} of recovery")
    shown = f"{times}: {' and '.join(costs)}."
    node = next((share for share in found.facet_shares if share.facet == "node"), None)
    if node is not None and row.incidents > 1:
        shown += f" {node.sentence}"
    if row.status is Status.REGRESSED:
        shown += " It came back after it was resolved."
    return shown


def body(found: ProblemView, about: Sequence[Content] = ()) -> list[Content]:
    """Everything below the form; `about` are the panels on config changes."""
    return [
        _resolution(found.problem),
        html.Div([_same(found), _where(found)], className="columns"),
        _over_time(found),
        _occurrences(found),
        *about,
        trail(found.history, found.problem.problem_id),
    ]


def _resolution(row: ProblemRow) -> Markup | None:
    if row.resolution is None:
        return None
    resolution = row.resolution
    by = f" by {resolution.author}" if resolution.author else ""
    fixed: list[Content] = [" Fixed by ", html.Code(resolution.fixed_by), "."] if resolution.fixed_by else []
    state = {
        Status.REGRESSED: badge("it came back since", "danger"),
        Status.RESOLVED: badge("in force", "good"),
    }.get(row.status, badge("reopened since", "outline"))
    return panel(
        "Resolution",
        html.P([resolution.text.rstrip(". ") + ".", *fixed], className="verdict"),
        "resolution",
        lead=[f"Resolved{by} ", instant(resolution.at), " ", state],
        wide=True,
    )


def _same(found: ProblemView) -> Markup:
    if found.parts:
        rows: list[Sequence[Content]] = [(PART_NAMES.get(name, name), html.Code(value)) for name, value in found.parts]
        content: list[Content] = [
            table((Head("part", "words"), Head("value", "wide")), rows, "What makes them the same")
        ]
    else:
        parent = found.split_from
        of_which = link(parent.title, problem_path(parent.problem_id)) if parent is not None else "another problem"
        content = [html.P(["People put these together: they were split off ", of_which, "."], className="calm")]
    if found.merged:
        merged = [
            html.Li([link(each.title, problem_path(each.problem_id)), " ", html.Code(each.problem_id)])
            for each in found.merged
        ]
        content += [html.H3("People merged these into it"), html.Ol(merged, className="plain-list")]
    if found.moved:
        others = f"{text.count(len(found.moved), 'incident')} of it {'was' if len(found.moved) == 1 else 'were'}"
        content.append(
            html.P(f"{others} put here by people, whatever the fingerprint: see “moved here”.", className="note")
        )
    lead = "Whatever node, rank or step: these are equal." if found.parts else None
    return panel("Why these are the same", content, "same", lead=lead)


def _where(found: ProblemView) -> Markup:
    if not found.facet_shares:
        return panel("Where it strikes", html.P("Nothing is known of it.", className="calm"), "facets")
    content: list[Content] = []
    for share in found.facet_shares:
        content.append(html.Div([html.P(share.sentence, className="facet-sentence"), *_bars(share)], className="facet"))
    counted = found.facet_shares[0].counted
    lead = f"Of {text.count(counted, 'incident')}" + (
        f", the newest of {text.number(found.occurrence_count)}." if counted < found.occurrence_count else "."
    )
    return panel("Where it strikes", content, "facets", lead=lead)


def _bars(share: FacetShare) -> list[Markup]:
    told = [entry for entry in share.values if entry[1] > 1 or share.distinct <= 3]
    bars = []
    for value, times in told[:5]:
        shown: Content = html.Code(value)
        if share.facet == "node":
            shown = link(value, node_path(value))
        elif share.facet == "run":
            shown = link(value, run_path(value))
        split = None
        if 1 <= times < share.counted:
            split = action_button(ActionKind.SPLIT, "split off", facet=share.facet, value=value)
        bars.append(
            html.Div(
                [
                    html.Span(shown, className="facet-value"),
                    html.Span(html.Span(style={"width": f"{times * 100 / share.counted:.1f}%"}), className="meter"),
                    html.Span(f"{times} of {share.counted}", className="muted nowrap"),
                    split,
                ],
                className="facet-row",
            )
        )
    return bars


def _over_time(found: ProblemView) -> Markup | None:
    """Bars by day over the whole of it, and a lane for each of its newest runs."""
    if not found.days:
        return None
    first, last = found.days[0].at, found.days[-1].at + DAY_NS
    days = (last - first) // DAY_NS
    width = -(-days // CALM_AFTER_BARS)
    bars = [0] * -(-days // width)
    for day in found.days:
        bars[(day.at - first) // DAY_NS // width] += day.incidents
    most = max(bars)
    name = "a day" if width == 1 else f"{width} days"
    pieces = [
        html.Span(
            className="over-bar" if times else "over-none",
            style={"height": f"{max(3, times * 100 // most)}%"},
            title=f"{text.count(times, 'incident')} in {name}",
        )
        for times in bars
    ]
    label = (
        f"{text.count(found.problem.incidents, 'incident')} over {text.count(days, 'day')}, at most {most} in {name}"
    )
    return panel(
        "Over time",
        [
            html.Div(pieces, className="over", role="img", **{"aria-label": label}),
            html.Div([html.Span(instant(first)), html.Span(instant(last))], className="over-axis"),
            *_lanes(found, first, last),
        ],
        "over-time",
        lead=f"A bar is {name}; at most {most}.",
        wide=True,
    )


def _lanes(found: ProblemView, first: int, last: int) -> list[Markup]:
    by_run: dict[str, list[Occurrence]] = {}
    for each in found.occurrences:
        by_run.setdefault(each.run_id, []).append(each)
    lanes = []
    for run_id, inside in list(by_run.items())[:MOST_LANES]:
        marks = [
            html.A(
                className="lane-mark lane-open" if each.is_open else "lane-mark",
                href=incident_path(each.incident_id),
                style={"left": f"{(each.started_at - first) * 100 / (last - first):.2f}%"},
                title=f"{each.incident_id}{' on ' + each.node if each.node else ''}",
                **{"aria-label": each.incident_id},
            )
            for each in inside
        ]
        lanes.append(
            html.Div(
                [html.Span(link(run_id, run_path(run_id)), className="lane-name"), html.Div(marks, className="lane")],
                className="lane-row",
            )
        )
    return lanes


OCCURRENCE_HEADS = (
    Head("incident", "words"),
    Head("began", "words"),
    Head("to recover", "number"),
    Head("cost", "number"),
    Head("node", "words"),
    Head("rank", "number"),
    Head("step", "number"),
    Head("", "wide"),
)


def occurrence_row(each: Occurrence, action: Content = None, *, is_moved: bool = False) -> Sequence[Content]:
    """One incident in a table of such; `is_moved`: people put it there."""
    state: list[Content] = [badge("moved here", "outline")] if is_moved else []
    if each.is_open:
        state.append(badge("open", "danger"))
    if not each.counts:
        state.append(badge("out of account", "outline"))
    return (
        link(each.incident_id, incident_path(each.incident_id)),
        instant(each.started_at),
        text.duration(each.recover_ns) + ("+" if each.is_open else "" if each.ended_at else ", never"),
        text.gpu_hours(each.lost_gpu_ns, text.DASH),
        text.DASH if each.node is None else link(each.node, node_path(each.node)),
        text.number(each.rank, text.DASH),
        text.number(each.step, text.DASH),
        [*state, action],
    )


def _occurrences(found: ProblemView) -> Markup | None:
    if not found.occurrences:
        return None
    rows = [
        occurrence_row(
            each,
            action_button(ActionKind.MOVE, "move", incidents=each.incident_id),
            is_moved=each.incident_id in found.moved,
        )
        for each in found.occurrences
    ]
    lead = text.count(found.occurrence_count, "incident")
    if found.occurrence_count > len(rows):
        lead = f"The newest {len(rows)} of {lead}; all of them: /api/v1/problems/…?offset="
    return panel(
        "Occurrences",
        html.Div(folded(OCCURRENCE_HEADS, rows, "Occurrences", stacks=True), **{"data-walk": "rows"}),
        "occurrences",
        lead=f"{lead}, newest first.",
        actions=copy_table_button(),
        wide=True,
    )
