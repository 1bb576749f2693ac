"""Node: what happened on this machine, in every run, and is it the machine?"""

from __future__ import annotations

from collections.abc import Sequence

from dash import Dash, Input, Output, State, dcc
from dash import html as dash_html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from rerail.server.core.lemons import Lemon, LemonLevel
from rerail.server.core.notes import SubjectKind
from rerail.server.core.rates import DAY_NS
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_problem_results import NodeEvent, NodeView, Occurrence
from rerail.ui import text
from rerail.ui.address import NODES, Address, incident_path, problems_of_node_path, run_path
from rerail.ui.elements import Head, badge, copy_table_button, folded, instant, link, panel, tile
from rerail.ui.markup import Content, Markup, encoded, html, island
from rerail.ui.pages.nodes import level_badge
from rerail.ui.pages.notes_part import notes_part
from rerail.ui.pages.problem import OCCURRENCE_HEADS, occurrence_row
from rerail.ui.reading import in_thread

PAGE = "node"

TOO_LITTLE = "too little data yet: from one node-day on"

MOST_LANES = 20
MOST_MARKS = 400
STATES = text.NODE_STATES


async def layout(queries: Queries, wanted: Address, _search: str) -> Component:
    """The page of one node."""
    found = await in_thread(queries.nodes.node, wanted.name)
    return dash_html.Div(
        [
            dcc.Store(id="node-id", data=found.node.node),
            dcc.Store(id="node-live"),
            island(content(found), "node-content"),
            await notes_part(queries, SubjectKind.NODE, found.node.node),
        ],
        id="node-page",
        className="page-body",
        **{"data-title": found.node.node},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callback that draws the node again when something changed."""

    @app.callback(
        Output("node-content", "data-markup"),
        Input("node-live", "data"),
        State("node-id", "data"),
        prevent_initial_call=True,
    )
    async def refresh(signal: object, name: str | None) -> str:
        if signal is None or name is None:
            raise PreventUpdate
        try:
            return encoded(content(await in_thread(queries.nodes.node, name)))
        except NotFoundError as error:
            raise PreventUpdate from error


def content(found: NodeView) -> list[Content]:
    """Everything on the page."""
    row, lemon = found.node, found.node.lemon
    theirs = link("Their problems.", problems_of_node_path(row.node))
    return [
        html.Div([link("Nodes", NODES), html.Span("/", className="muted"), row.node], className="crumbs"),
        html.Div([html.H1(row.node), level_badge(lemon), *_state(found)], className="title-row"),
        html.P(lemon.sentence, className="sentence"),
        html.Div(_tiles(found), className="tiles node-tiles"),
        _reasons(found),
        _history(found),
        _events(found.events),
        _incidents(
            found.blamed,
            found.blamed_count,
            "Incidents it is blamed for",
            "blamed",
            [" ", theirs],
        ),
        _incidents(
            found.programs,
            len(found.programs),
            "Programs that failed on it",
            "programs",
            [" By their own fault: not counted against it. ", theirs],
        ),
        _incidents(found.present, len(found.present), "Incidents it was part of", "present"),
        _runs(found),
    ]


def _state(found: NodeView) -> list[Content]:
    away = found.away[-1] if found.away else None
    if away is None or away.until is not None:
        return []
    return [badge([f"{STATES.get(away.state, away.state)} since ", instant(away.since)], "warn")]


def _tiles(found: NodeView) -> list[Markup]:
    lemon = found.node.lemon
    low, high = lemon.per_1000_node_days_low, lemon.per_1000_node_days_high
    limits = None if low is None or high is None else f"95 % limits {low:.1f} to {high:.0f}"
    return [
        _score(lemon),
        tile("Faults", text.number(found.node.blamed), f"in {text.count(found.node.runs_blamed, 'run')}", "#blamed"),
        _expected(lemon),
        _held(lemon),
        tile("Rate", text.DASH, TOO_LITTLE)
        if lemon.is_thin
        else tile(
            "Rate",
            text.UNKNOWN if lemon.per_1000_node_days is None else f"{lemon.per_1000_node_days:.1f}",
            ["per 1,000 node-days", html.Div(limits) if limits else None],
        ),
        tile("XIDs", text.number(found.node.xids), _told_by(found.events), "#events"),
    ]


def _told_by(events: Sequence[NodeEvent]) -> str:
    """Who told of its XIDs; nothing where there are none, or where it was not kept of one."""
    sources = sorted({event.source for event in events if event.kind == "xid"})
    return f"told by {' and '.join(map(text.teller, sources))}" if all(sources) and sources else ""


def _score(lemon: Lemon) -> Markup:
    """The score; none before there is enough to go by, but where little is enough to make it a lemon."""
    if lemon.is_thin and lemon.level is not LemonLevel.LEMON:
        return tile("Score", text.DASH, TOO_LITTLE)
    return tile("Score", text.UNKNOWN if lemon.score is None else f"{lemon.score:.1f}", "−log10 of the chance")


def _expected(lemon: Lemon) -> Markup:
    about = "by the rate of the others"
    if lemon.is_thin and lemon.level is not LemonLevel.LEMON:
        return tile("Expected", text.DASH, about)
    return tile("Expected", text.UNKNOWN if lemon.expected is None else f"{lemon.expected:.2g}", about)


def _held(lemon: Lemon) -> Markup:
    if lemon.node_days is not None and lemon.is_thin:
        return tile("Held", text.duration(round(lemon.node_days * DAY_NS)), "by runs that name their nodes", "#runs")
    return tile("Held", text.UNKNOWN if lemon.node_days is None else f"{lemon.node_days:.1f}", "node-days", "#runs")


def _reasons(found: NodeView) -> Markup:
    lemon = found.node.lemon
    rows = [html.Li(reason) for reason in lemon.reasons]
    content: list[Content] = [html.Ol(rows, className="plain-list")] if rows else []
    if not rows:
        content = [html.P("Nothing beside the number of its faults speaks against it.", className="calm")]
    return panel("Why", content, "why", lead="What speaks against it beside the count.", wide=True)


def _history(found: NodeView) -> Markup | None:
    """Lanes of its runs over time, with faults, XIDs and periods away on them."""
    instants = [at for stay in found.stays for at in (stay.since, stay.until) if at is not None]
    instants += [event.at for event in found.events] + [each.started_at for each in found.blamed]
    instants += [each.ended_at or each.started_at for each in found.blamed]
    if not instants:
        return None
    first, last = min(instants), max(instants)
    last = max(last, first + DAY_NS // 24)

    def left(at: int) -> str:
        return f"{min(100.0, max(0.0, (at - first) * 100 / (last - first))):.2f}%"

    def bar(since: int, until: int | None, class_name: str, title: str) -> Markup:
        end = last if until is None else until
        width = f"{max(0.3, (end - since) * 100 / (last - first)):.2f}%"
        return html.Span(className=class_name, style={"left": left(since), "width": width}, title=title)

    lanes: list[Content] = []
    if found.away:
        bars = [
            bar(each.since, each.until, "stay stay-away", STATES.get(each.state, each.state)) for each in found.away
        ]
        lanes.append(_lane(html.Span("away", className="muted"), bars))
    xids = [
        html.Span(
            className="lane-mark lane-xid" if event.needs_a_hand else "lane-mark lane-note",
            style={"left": left(event.at)},
            title=f"{event.what}: {event.meaning or ''}",
        )
        for event in found.events[:MOST_MARKS]
        if event.kind == "xid"
    ]
    if xids:
        lanes.append(_lane(html.Span("XIDs", className="muted"), xids))
    runs = list(dict.fromkeys(stay.run_id for stay in found.stays))
    faulty = {each.run_id for each in found.blamed}
    drawn = set(sorted(runs, key=lambda run_id: run_id not in faulty)[:MOST_LANES])
    for run_id in (run_id for run_id in runs if run_id in drawn):
        inside = [stay for stay in found.stays if stay.run_id == run_id and stay.since is not None]
        pieces: list[Content] = [bar(stay.since or 0, stay.until, "stay", f"held by {run_id}") for stay in inside]
        pieces += [
            html.A(
                className="lane-mark",
                href=incident_path(each.incident_id),
                style={"left": left(each.started_at)},
                title=f"{each.incident_id}: {text.cause(each.cause)}",
                **{"aria-label": each.incident_id},
            )
            for each in found.blamed
            if each.run_id == run_id
        ]
        lanes.append(_lane(link(run_id, run_path(run_id)), pieces))
    more = len(runs) - MOST_LANES
    return panel(
        "History",
        [
            *lanes,
            html.Div([html.Span(instant(first)), html.Span(instant(last))], className="over-axis"),
            html.P(f"{text.count(more, 'run')} without such an incident not drawn.", className="note")
            if more > 0
            else None,
        ],
        "history",
        lead="Bars: held by the run; marks: incidents it is blamed for.",
        wide=True,
    )


def _lane(name: Content, pieces: Sequence[Content]) -> Markup:
    return html.Div(
        [html.Span(name, className="lane-name"), html.Div(list(pieces), className="lane")], className="lane-row"
    )


def _events(events: Sequence[NodeEvent]) -> Markup | None:
    if not events:
        return None
    heads = (Head("at", "words"), Head("what", "words"), Head("meaning", "wide"), Head("run", "words"))
    rows: list[Sequence[Content]] = []
    for event in events:
        what = event.what if event.kind == "xid" else STATES.get(event.what, event.what)
        rows.append(
            (
                instant(event.at),
                badge(what, "warn") if event.needs_a_hand else badge(what, "outline"),
                event.meaning or text.DASH,
                link(event.run_id, run_path(event.run_id)),
            )
        )
    return panel(
        "XIDs and states",
        folded(heads, rows, "XIDs and states"),
        "events",
        lead="Those in colour want more than a restart of the program, by their maker's word.",
        actions=copy_table_button(),
        wide=True,
    )


def _incidents(
    incidents: Sequence[Occurrence], total: int, title: str, anchor: str, more: Sequence[Content] = ()
) -> Markup | None:
    if not incidents:
        return None
    lead = text.count(total, "incident")
    lead += "." if total <= len(incidents) else f"; the newest {len(incidents)} are here."
    rows = [occurrence_row(each, text.cause(each.cause)) for each in incidents]
    return panel(
        title,
        folded(OCCURRENCE_HEADS, rows, title, stacks=True),
        anchor,
        lead=[lead, *more],
        actions=copy_table_button(),
        wide=True,
    )


def _runs(found: NodeView) -> Markup | None:
    if not found.stays:
        return None
    heads = (Head("run", "wide"), Head("from", "words"), Head("until", "words"), Head("held", "number"))
    rows: list[Sequence[Content]] = [
        (
            link(stay.run_id, run_path(stay.run_id)),
            instant(stay.since),
            "still" if stay.since is not None and stay.until is None else instant(stay.until),
            text.duration(stay.held_ns),
        )
        for stay in found.stays
    ]
    lead = "Time a run does not tell the nodes of is unknown, not 0."
    return panel("Runs", folded(heads, rows, "Runs"), "runs", lead=lead, actions=copy_table_button(), wide=True)
