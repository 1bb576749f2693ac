"""Problems: what keeps coming back?"""

from __future__ import annotations

from collections.abc import Sequence

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.problems import Status
from rerail.server.queries import Queries
from rerail.server.query_problem_results import ProblemPage, ProblemRow
from rerail.ui import text
from rerail.ui.address import NODES, PROBLEMS, Address, node_path, problem_path
from rerail.ui.elements import Head, badge, empty, instant, link, table
from rerail.ui.lists import ROWS, ListKind, Wanted, pager, spark
from rerail.ui.markup import Content, Markup, html
from rerail.ui.reading import in_thread

PAGE = "problems"

KIND = ListKind(
    "problems",
    "Search title, cause, resolution   /",
    "status",
    (
        ("", "All"),
        ("new", "New"),
        ("regressed", "Regressed"),
        ("known", "Known"),
        ("resolved", "Resolved"),
        ("ignored", "Ignored"),
    ),
    (
        ("last_at", "Seen last"),
        ("incidents", "Most often"),
        ("lost_gpu_ns", "Most GPU-hours"),
        ("recover_ns", "Most time"),
        ("runs", "Most runs"),
        ("first_at", "Newest kind"),
        ("title", "Title"),
    ),
    fixed=("node", "cause"),
)

TONES = {
    Status.NEW: "warn",
    Status.REGRESSED: "danger",
    Status.KNOWN: "quiet",
    Status.RESOLVED: "good",
    Status.IGNORED: "outline",
}

HEADS = (
    Head("problem", "wide"),
    Head("status", "words"),
    Head("times", "number", "Unplanned incidents, without those out of account"),
    Head("when", "words", "Incidents over the time that the list spans"),
    Head("runs", "number"),
    Head("nodes", "number", "Different nodes that are blamed"),
    Head("cost", "number", "GPU-hours from the start to the end of each incident"),
    Head("recovering", "number", "Times to recover, summed"),
    Head("first seen", "words"),
    Head("last seen", "words"),
)


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page."""
    wanted = KIND.wanted(search)
    return dash_html.Div(
        [
            dash_html.H1("Problems"),
            KIND.bar(wanted),
            KIND.shown(await in_thread(rows, queries, wanted)),
        ],
        className="page-body",
        id="problems-page",
        **{"data-title": "Problems"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callbacks of the list."""
    KIND.register(app, lambda wanted: rows(queries, wanted))


def rows(queries: Queries, wanted: Wanted) -> list[Content]:
    """What the list shows: a sentence, the rows, and the way to others."""
    fixed = dict(wanted.fixed)
    page = queries.problems.problems(
        wanted.search,
        wanted.choice or None,
        fixed.get("cause"),
        fixed.get("node"),
        wanted.sort,
        wanted.sort != "title",
        wanted.offset,
        ROWS,
    )
    is_narrowed = bool(wanted.search or wanted.choice or fixed)
    if not page.rows and not sum(times for _, times in page.statuses) and not is_narrowed:
        return [_teach()]
    return [
        html.P(sentence(page, fixed), className="sentence"),
        html.P(["Of ", *_fixed(fixed)], className="note") if fixed else None,
        html.Div(table(HEADS, [_row(row, page) for row in page.rows], "Problems", stacks=True), **{"data-walk": "rows"})
        if page.rows
        else html.P("No problem matches.", className="calm"),
        pager(KIND, wanted, page.total),
    ]


def sentence(page: ProblemPage, fixed: dict[str, str]) -> str:
    """How many there are, and which of them want somebody."""
    counts = dict(page.statuses)
    total = sum(counts.values())
    shown = f"{text.headline(text.count(total, 'problem'))}"
    wants = [f"{counts[name]} {name}" for name in ("regressed", "new") if counts.get(name)]
    calm = [f"{counts[name]} {name}" for name in ("known", "resolved", "ignored") if counts.get(name)]
    shown += f": {', '.join([*wants, *calm])}." if total else "."
    if page.rows and not fixed:
        worst = max(page.rows, key=lambda row: row.lost_gpu_ns or 0)
        if worst.lost_gpu_ns:
            shown += f" The costliest of these: {worst.title}, {text.gpu_hours(worst.lost_gpu_ns)}."
    return shown


def _fixed(fixed: dict[str, str]) -> list[Content]:
    told: list[Content] = []
    for name, value in fixed.items():
        told += [f"{name} ", link(value, node_path(value)) if name == "node" else html.Strong(text.cause(value)), " "]
    return [*told, "only; ", link("show all", PROBLEMS)]


def status_badge(status: Status) -> Markup:
    """How a problem stands, as a word with a tone."""
    return badge(status.value, TONES[status])


def _row(row: ProblemRow, page: ProblemPage) -> Sequence[Content]:
    about: list[Content] = [] if row.cause.split("_")[0] in row.title.lower() else [text.cause(row.cause)]
    if row.still_open:
        about.append(badge(f"{row.still_open} open", "danger"))
    if row.resolution is not None:
        by = f" by {row.resolution.author}" if row.resolution.author else ""
        was = "was once " if row.resolution.taken_back_at else ""
        about.append(html.Span(f"{was}resolved{by}: {row.resolution.text}", className="cut", title=row.resolution.text))
    span = "" if page.occurrences_from is None else f"{text.count(row.incidents, 'incident')} over the time shown"
    return (
        [link(html.Strong(row.title), problem_path(row.problem_id)), html.Div(about, className="under")],
        [status_badge(row.status), html.Div(row.assignee, className="under") if row.assignee else None],
        text.number(row.incidents),
        spark(row.occurrences, span),
        text.number(row.runs),
        text.number(row.nodes) if row.nodes else text.DASH,
        cost(row),
        text.duration(row.recover_ns),
        instant(row.first_at),
        instant(row.last_at),
    )


def cost(row: ProblemRow) -> Content:
    """GPU-hours; with a sign where they are not known of every incident."""
    shown = text.gpu_hours(row.lost_gpu_ns, text.DASH)
    if row.cost_unknown and row.lost_gpu_ns is not None:
        hint = f"of {text.count(row.cost_unknown, 'incident')} no GPU number is known"
        return html.Span(f"{shown}+", title=hint)
    return shown


def _teach() -> Markup:
    about = [
        "A problem is a kind of fault: incidents of all runs with the same cause, exception, place in the code and "
        "phase, whatever node, rank or step they struck. The first unplanned incident makes the first one. See also ",
        link("nodes", NODES),
        ".",
    ]
    return empty(
        "No run has failed yet.",
        about,
        "rerail demo --url {server}",
        "rerail import logs train.log --run my-run --url {server}",
        "rerail synth --url {server}",
    )


def assigned(row: ProblemRow) -> Markup | None:
    """Who looks after a problem; None where nobody was told to."""
    return badge(f"{row.assignee} looks after it", "outline") if row.assignee else None
