"""Knowledge: have we seen this before?

Rules
- One box. What is typed is in the address (`assets/notes.js` writes it), so that a link asks again.
- What cannot be asked is said under the box, with the word at fault; what was found before stays away, not wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.search.query import QueryError
from rerail.server.core.search.snippets import Piece
from rerail.server.queries import Queries
from rerail.server.query_search import Found, SearchPage
from rerail.ui import text
from rerail.ui.address import Address, knowledge_path, run_path
from rerail.ui.elements import badge, empty, instant, link
from rerail.ui.markup import Content, Markup, html, island
from rerail.ui.pages.notes_part import note_item, subject_link
from rerail.ui.reading import in_thread

PAGE = "knowledge"

ROWS = 20
NEWEST = 8
KINDS = {
    "incident": "incident", "trace": "fault trace", "problem": "problem", "node": "node", "note": "note", "run": "run",
    "config_change": "config change",
}  # fmt: skip
MANY = {
    "incident": "incidents", "trace": "fault traces", "problem": "problems", "node": "nodes", "note": "notes",
    "run": "runs", "config_change": "config changes",
}  # fmt: skip

EXAMPLES = (
    ("watchdog timeout", "both words, wherever they stand"),
    ('"CUDA out of memory" -kind:trace', "these words side by side, but not in fault traces"),
    ("cause:hang after:7d", "hangs of the last week"),
    ("체크포인트 status:resolved", "Korean finds what has a particle glued to it"),
    ("node:gpu-17 kind:note", "what people wrote about a node"),
)


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page."""
    told = {name: values[0] for name, values in parse_qs(search.removeprefix("?")).items()}
    question, offset = told.get("q", ""), told.get("offset", "0")
    start = int(offset) if offset.isascii() and offset.isdecimal() and len(offset) < 5 else 0
    return dash_html.Div(
        [
            dash_html.H1("Knowledge"),
            dash_html.Div(
                dash_html.Div(
                    [
                        dash_html.Span("", id="knowledge-value", hidden=True, **{"data-value": question}),
                        dash_html.Div(id="knowledge-box"),
                    ]
                ),
                className="knowledge-bar",
                role="search",
            ),
            island(await in_thread(results, queries, question, start), "knowledge-results"),
        ],
        className="page-body knowledge",
        id="knowledge-page",
        **{"data-title": f"{question} · Knowledge" if question else "Knowledge"},
    )


def register(app: Dash, queries: Queries) -> None:
    """The browser asks by a route of its own, so that a slow question never answers after a later one."""


def results(queries: Queries, question: str, offset: int = 0) -> list[Content]:
    """What a question finds, or what to ask."""
    try:
        page = queries.search.find(question, offset, ROWS)
    except QueryError as error:
        return [
            html.P([html.Code(error.word), f" {error.reason}."], className="query-error", role="alert"),
            _fields(),
        ]
    if page.query.is_empty:
        return [_start(queries)]
    if not page.rows:
        nothing = html.P(["Nothing holds all of ", html.Strong(question), "."], className="calm")
        return [nothing, html.P("Fewer words find more; a word in quotation marks must be whole.", className="note")]
    return [
        html.P(_sentence(page), className="sentence"),
        _kinds(page, question),
        html.Ol([_row(row) for row in page.rows], className="found", **{"data-walk": "rows"}),
        _pager(page, question, offset),
    ]


def _sentence(page: SearchPage) -> str:
    parts = [f"{text.number(count)} {KINDS[kind] if count == 1 else MANY[kind]}" for kind, count in page.kinds]
    cut = "; there are older ones too: narrow it with after: and before:" if page.is_cut else ""
    return f"Found {', '.join(parts)}{cut}."


def _kinds(page: SearchPage, question: str) -> Markup | None:
    if len(page.kinds) < 2:
        return None
    links = [
        html.A(f"{MANY[kind]} {text.number(count)}", href=knowledge_path(f"{question} kind:{kind}"), className="chip")
        for kind, count in page.kinds
    ]
    return html.Div(links, className="chips")


def _row(row: Found) -> Markup:
    about: list[Content] = [badge(KINDS.get(row.kind, row.kind), "outline")]
    if row.status is not None:
        about.append(
            badge(row.status, {"open": "danger", "regressed": "danger", "new": "warn"}.get(row.status, "quiet"))
        )
    about.append(html.Span(instant(row.at) if row.at else None, className="muted nowrap"))
    if row.run_id is not None and row.kind != "run":
        about.append(html.Span(["run ", link(row.run_id, run_path(row.run_id))], className="muted"))
    return html.Li(
        [
            html.Div(
                [html.A(_pieces(row.title), href=row.path, className="found-title"), *about], className="found-head"
            ),
            html.Div(_pieces(row.snippet), className="found-text"),
        ]
    )


def _pieces(pieces: Sequence[Piece]) -> list[Content]:
    return [html.Mark(piece.text) if piece.is_match else piece.text for piece in pieces]


def _pager(page: SearchPage, question: str, offset: int) -> Markup | None:
    if page.total <= ROWS:
        return None
    last = min(page.total, offset + ROWS)
    moves: list[Content] = [html.Span(f"{offset + 1}–{last} of {page.total}{'+' if page.is_cut else ''}")]
    if offset:
        moves.append(link("← previous", f"{knowledge_path(question)}&offset={max(0, offset - ROWS)}"))
    if last < page.total:
        moves.append(link("next →", f"{knowledge_path(question)}&offset={offset + ROWS}"))
    return html.Div(moves, className="pager")


def _fields() -> Markup:
    rows = [(link(example, knowledge_path(example)), about) for example, about in EXAMPLES]
    pairs = [piece for example, about in rows for piece in (html.Dt(example), html.Dd(about))]
    fields = (
        "Fields: cause: node: rank: run: status: kind: after: before:. The same field twice means either; a minus "
        "before a word or field means without it."
    )
    return html.Div([html.Dl(pairs, className="examples"), html.P(fields, className="note")])


def _start(queries: Queries) -> Markup:
    notes, total = queries.notes.newest(0, NEWEST)
    content: list[Content] = [_fields()]
    if notes:
        lead = f"The newest of {text.count(total, 'note')}" if total > len(notes) else "What people wrote"
        content.append(html.H2(lead))
        items = [
            html.Li(
                [
                    html.Div(["on ", subject_link(note)], className="muted"),
                    html.Ol(note_item(note, with_actions=False), className="note-list"),
                ]
            )
            for note in notes
        ]
        content.append(html.Ol(items, className="plain-list newest-notes"))
    else:
        content.append(
            empty(
                "Nobody has written a note yet.",
                "Notes stand on the pages of runs, incidents, problems and nodes. These and fault traces can be "
                "found without any.",
                "rerail note incident:RUN~0 'what happened' --url {server}",
                "rerail import logs train.log --run my-run --url {server}",
            )
        )
    return html.Div(content)
