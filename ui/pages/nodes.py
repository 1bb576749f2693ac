"""Nodes: is it always the same machine?"""

from __future__ import annotations

from collections.abc import Sequence

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.lemons import Lemon, LemonLevel
from rerail.server.queries import Queries
from rerail.server.query_problem_results import NodePage, NodeRow
from rerail.ui import text
from rerail.ui.address import Address, node_path
from rerail.ui.elements import Head, badge, empty, instant, link, table
from rerail.ui.lists import ROWS, ListKind, Wanted, pager
from rerail.ui.markup import Content, Markup, html
from rerail.ui.reading import in_thread

PAGE = "nodes"

KIND = ListKind(
    "nodes",
    "Search nodes   /",
    "level",
    (
        ("", "All"),
        ("lemon", "Lemons"),
        ("suspect", "Suspects"),
        ("unremarkable", "Unremarkable"),
        ("unknown", "Unknown"),
    ),
    (
        ("score", "Worst first"),
        ("blamed", "Most faults"),
        ("runs", "Most runs"),
        ("node_days", "Held longest"),
        ("xids", "Most XIDs"),
        ("node", "Name"),
    ),
)

TONES = {
    LemonLevel.LEMON: "danger",
    LemonLevel.SUSPECT: "warn",
    LemonLevel.UNREMARKABLE: "quiet",
    LemonLevel.UNKNOWN: "outline",
}

HEADS = (
    Head("node", "words"),
    Head("judgement", "words"),
    Head("score", "number", "−log10 of the chance of so many faults if all nodes failed alike: 3 is one in a thousand"),
    Head("faults", "number", "Blamed on it; those of the workload are nobody's"),
    Head("expected", "number", "Faults that its node-days let one expect, by the rate of the others"),
    Head("node-days", "number"),
    Head("runs", "number"),
    Head("XIDs", "number"),
    Head("last fault", "words"),
    Head("why", "wide"),
)


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page."""
    wanted = KIND.wanted(search)
    return dash_html.Div(
        [dash_html.H1("Nodes"), KIND.bar(wanted), KIND.shown(await in_thread(rows, queries, wanted))],
        className="page-body",
        id="nodes-page",
        **{"data-title": "Nodes"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callbacks of the list."""
    KIND.register(app, lambda wanted: rows(queries, wanted))


def rows(queries: Queries, wanted: Wanted) -> list[Content]:
    """What the list shows."""
    page = queries.nodes.nodes(
        wanted.search, wanted.choice or None, wanted.sort, wanted.sort != "node", wanted.offset, ROWS
    )
    if not sum(times for _, times in page.levels) and not wanted.search and not wanted.choice:
        return [_teach()]
    return [
        html.P(sentence(page), className="sentence"),
        html.Div(table(HEADS, [_row(row) for row in page.rows], "Nodes", stacks=True), **{"data-walk": "rows"})
        if page.rows
        else html.P("No node matches.", className="calm"),
        pager(KIND, wanted, page.total),
    ]


def sentence(page: NodePage) -> str:
    """How many there are, and which want somebody."""
    levels = dict(page.levels)
    total = sum(levels.values())
    shown = text.headline(text.count(total, "node"))
    wants = [
        text.count(levels[name], name)
        for name in (LemonLevel.LEMON.value, LemonLevel.SUSPECT.value)
        if levels.get(name)
    ]
    if page.rows and all(row.lemon.is_thin for row in page.rows):
        about = f": {', '.join(wants)}" if wants else ""
        return f"{shown}{about}; too little data yet to say whether one fails more often than its time in use explains."
    if not wants and levels.get(LemonLevel.UNKNOWN.value, 0) == total:
        return f"{shown}; too little is known to say whether one fails more often than its time in use explains."
    if not wants and not levels.get(LemonLevel.UNKNOWN.value):
        return f"{shown}; none of them fails more often than its time in use explains."
    unknown, well = levels.get(LemonLevel.UNKNOWN.value, 0), levels.get(LemonLevel.UNREMARKABLE.value, 0)
    others = []
    if unknown:
        which = unknown if well else "the other one" if unknown == 1 else f"the other {unknown}"
        others.append(f"of {which} too little is known to say")
    if well:
        others.append("the others fail no more often than their time in use explains")
    return f"{shown}: {'; '.join([', '.join(wants), *others] if wants else others)}."


def level_badge(lemon: Lemon) -> Markup:
    """What to think of a node, as a word with a tone."""
    return badge(lemon.level.value, TONES[lemon.level])


def _row(row: NodeRow) -> Sequence[Content]:
    lemon = row.lemon
    is_unsaid = lemon.is_thin and lemon.level is not LemonLevel.LEMON
    reasons = [html.Div(reason, className="muted") for reason in lemon.reasons]
    return (
        link(html.Strong(row.node), node_path(row.node)),
        level_badge(lemon),
        text.DASH if lemon.score is None or is_unsaid else f"{lemon.score:.1f}",
        text.number(row.blamed) if row.blamed else text.DASH,
        text.DASH if lemon.expected is None or is_unsaid else f"{lemon.expected:.2g}",
        text.DASH
        if lemon.node_days is None
        else f"{lemon.node_days:.2g}"
        if lemon.is_thin
        else f"{lemon.node_days:.1f}",
        text.number(row.runs),
        text.number(row.xids) if row.xids else text.DASH,
        instant(row.last_blamed_at) if row.last_blamed_at else text.DASH,
        [lemon.sentence, *reasons],
    )


def _teach() -> Markup:
    return empty(
        "No node is known yet.",
        "Nodes come with attempts that say where they run (`nodes` of an attempt_started fact), with node_state facts "
        "and with kernel messages. The agent beside the ranks tells all of it:",
        "rerail agent --url {server} --run my-run --launcher-log train.log",
        "rerail import logs train.log --run my-run --url {server}",
        "rerail synth --url {server}",
    )
