"""Config changes: who changed what, why, and what came of it?"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, urlencode

import dash_mantine_components as dmc
from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.notes import SubjectKind
from rerail.server.core.recovery_configs.change_actions import LinkKind
from rerail.server.queries import Queries
from rerail.server.query_config_results import ChangePage, ChangeRow, ChangeSide
from rerail.ui import text
from rerail.ui.address import (
    ARGUED_BY,
    CONFIG_CHANGES,
    CONFIGS,
    Address,
    change_path,
    config_path,
    incident_path,
    problem_path,
    run_path,
)
from rerail.ui.elements import Head, badge, empty, instant, link, panel, table
from rerail.ui.markup import Content, Markup, html, island
from rerail.ui.pages.configs import value
from rerail.ui.pages.notes_part import notes_part
from rerail.ui.reading import in_thread

PAGE = "config_changes"
FILTERS = ("run", "knob", "project", "unexplained")
ROWS = 50

HEADS = (
    Head("when", "words"),
    Head("where", "words"),
    Head("what", "half"),
    Head("who and why", "half"),
    Head("faults", "words", "Before and after"),
    Head("noticed after", "words", "Median time to notice a fault, before and after, with the number of faults"),
    Head("time to recover", "words", "Median, before and after, with the number that recovered"),
    Head("GPU-h per fault", "words"),
    Head("healthy killed", "words", "Hang verdicts that longer healthy gaps contradict"),
)


async def layout(queries: Queries, wanted: Address, search: str) -> Component:
    """The ledger, or one change of it."""
    asked = {name: values[0] for name, values in parse_qs(search.removeprefix("?")).items()}
    if wanted.name:
        row = await in_thread(queries.configs.change, wanted.name)
        about = await notes_part(queries, SubjectKind.CONFIG_CHANGE, row.change.change_id)
        parts = [island(one(row), "change-content"), form(row, asked.get(ARGUED_BY, "")), about]
        return _page(parts, f"Config change {wanted.name}")
    told = {name: value for name, value in asked.items() if name in FILTERS}
    offset = asked.get("offset", "0")
    first = int(offset) if offset.isascii() and offset.isdecimal() and len(offset) < 10 else 0
    page = await in_thread(
        queries.configs.changes,
        told.get("run"),
        told.get("knob"),
        told.get("project"),
        "unexplained" in told,
        first,
        ROWS,
    )
    return _page([island(ledger(page, told, first, asked.get(ARGUED_BY)), "change-content")], "Config changes")


def _page(parts: list[Component], title: str) -> Component:
    return dash_html.Div(parts, className="page-body", id="config-changes-page", **{"data-title": title})


def register(app: Dash, queries: Queries) -> None:
    """What is said goes through the API (`assets/config_changes.js`)."""


def ledger(page: ChangePage, told: dict[str, str], first: int = 0, argued_by: str | None = None) -> list[Content]:
    """Every change, newest first; `argued_by` is what one of them is looked for on account of."""
    kept = {**told, ARGUED_BY: argued_by} if argued_by else told
    lead = f"{text.headline(text.count(page.total, 'config change'))}"
    about = ", ".join(f"{name} {word}" if name != "unexplained" else "unexplained" for name, word in told.items())
    open_ones = {**told, "unexplained": "yes"}
    moves: list[Content] = []
    if first:
        moves.append(link("← newer", f"{CONFIG_CHANGES}?{urlencode({**kept, 'offset': max(0, first - ROWS)})}"))
    if first + ROWS < page.total:
        moves += [" ", link("older →", f"{CONFIG_CHANGES}?{urlencode({**kept, 'offset': first + ROWS})}")]
    return [
        html.Div([link("Configs", CONFIGS), html.Span("/", className="muted"), "changes"], className="crumbs"),
        html.H1("Config changes"),
        html.P([lead, f" ({about})" if about else "", "."], className="sentence"),
        html.P(
            [link("all", CONFIG_CHANGES), " · ", link("nobody said why", f"{CONFIG_CHANGES}?{urlencode(open_ones)}")],
            className="note",
        ),
        _looking_for(argued_by) if argued_by and page.rows else None,
        html.Section(html.Div(change_table(page.rows, argued_by), className="panel-body"), className="panel panel-wide")
        if page.rows
        else _teach(),
        html.P(moves, className="note") if moves else None,
    ]


def _looking_for(argued_by: str) -> Markup:
    path = incident_path(argued_by) if "~" in argued_by else problem_path(argued_by)
    return html.P(["Open the change that ", link(argued_by, path), " argued for, and keep the link."], className="note")


def change_table(rows: Sequence[ChangeRow], argued_by: str | None = None) -> Markup:
    """Changes as a table."""
    return table(HEADS, [_row(row, argued_by) for row in rows], "Config changes", stacks=True)


def _row(row: ChangeRow, argued_by: str | None) -> Sequence[Content]:
    change = row.change
    where: list[Content] = [
        link(change.name or change.run_id, run_path(change.run_id)),
        html.Div(
            f"new run after {change.before_run}" if change.is_between_runs else f"attempt {change.attempt}",
            className="under",
        ),
    ]
    return (
        link(instant(change.at), change_path(change.change_id, argued_by)),
        where,
        _what(row),
        why(row),
        f"{row.before.faults} → {row.after.faults}",
        _two(row, lambda side: (None, 0) if side.detecting is None else (side.detecting.p50_ns, side.detecting.n)),
        _two(row, lambda side: (None, 0) if side.recover is None else (side.recover.p50_ns, side.recover.n)),
        _below(*(text.gpu_hours(side.lost_per_fault_gpu_ns, text.DASH) for side in (row.before, row.after))),
        f"{row.before.contradicted_hangs} → {row.after.contradicted_hangs}",
    )


def _two(row: ChangeRow, figure: object) -> list[Content]:
    def shown(side: ChangeSide) -> str:
        length, count = figure(side)  # type: ignore[operator]
        return text.DASH if length is None else f"{text.duration(length)} (n={count})"

    return _below(shown(row.before), shown(row.after))


def _below(before: str, after: str) -> list[Content]:
    """Before and after, one below the other: beside each other the ledger is wider than a window."""
    return [before, " ", html.Div(f"→ {after}")]


def _what(row: ChangeRow) -> list[Content]:
    shown: list[Content] = [
        html.Div([each.old.knob.title, " ", value(each.old), " → ", html.Strong(value(each.new))])
        for each in row.change.knobs
    ]
    if row.change.told_apart:
        names = ", ".join(each.old.knob.title for each in row.change.told_apart)
        shown.append(html.Div(f"told on one side only: {names}", className="under"))
    return shown


def why(row: ChangeRow) -> list[Content]:
    """Who brought a change and why, as far as anybody said, and what argued for it."""
    said = row.said
    asked = {"operator": "an operator", "fault": "came with the restart after a fault", "scheduler": "the scheduler"}
    shown: list[Content] = []
    if said.changed_by or said.reason:
        shown.append(html.Div([html.Strong(said.changed_by or text.NO_NAME), ": ", said.reason or "no reason given"]))
    elif row.change.initiator:
        shown.append(html.Div(asked.get(row.change.initiator, row.change.initiator), className="muted"))
    else:
        shown.append(html.Div("nobody said", className="muted"))
    for kind, target, _ in said.links:
        path = incident_path(target) if kind is LinkKind.INCIDENT else problem_path(target)
        shown.append(html.Div(["argued for by ", link(target, path)]))
    return shown


def one(row: ChangeRow) -> list[Content]:
    """One change."""
    change = row.change
    compare = f"{config_path(change.before)}?against={change.after}"
    trail = [
        html.Li(
            [
                html.Strong(each.author or text.NO_NAME), f" did “{each.kind.value}” ", instant(each.at), " ",
                badge("undone", "outline") if each.action_id in row.said.undone else None,
                html.Button("undo", type="button", className="quiet-button",
                            **{"data-undo-change": str(each.action_id)})
                if each.undoes is None and each.action_id not in row.said.undone else None,
                html.Div(each.reason or each.target or "", className="under"),
            ]
        )
        for each in row.said.actions
    ]  # fmt: skip
    return [
        html.Div(
            [link("Configs", CONFIGS), html.Span("/", className="muted"), link("changes", CONFIG_CHANGES),
             html.Span("/", className="muted"), change.change_id],
            className="crumbs",
        ),
        html.H1("Config change"),
        html.P(
            [text.headline(text.count(len(change.knobs), "setting")), " changed: ",
             link(change.before, config_path(change.before)), " → ",
             link(change.after, config_path(change.after)), ". ", link("All that differs", compare)],
            className="sentence",
        ),
        panel("What changed, and what came of it", change_table([row]), "change", wide=True),
        panel("What people said", html.Ul(trail) if trail else html.P("Nothing yet.", className="calm"), "said",
              wide=True),
    ]  # fmt: skip


def form(row: ChangeRow, target: str = "") -> Component:
    """Say who changed it and why, or what argued for it (`target`, where that is known)."""
    fields = (
        ("author", "Your name"), ("changed_by", "Who changed it"), ("reason", "Why"),
        ("target", "Incident or problem that argued for it (optional)"),
    )  # fmt: skip
    return dash_html.Section(
        [
            dash_html.Header(dash_html.H2("Say why"), className="panel-head"),
            dash_html.Div(
                [
                    *(
                        dmc.TextInput(
                            id=f"change-{name}", label=label, size="sm", value=target if name == "target" else ""
                        )
                        for name, label in fields
                    ),
                    dmc.PasswordInput(id="change-token", label="Token, where the server asks for one", size="sm"),
                    dash_html.Button("Keep", type="button", className="quiet-button", id="change-send"),
                    dash_html.P("", id="change-status", role="status", className="note"),
                ],
                className="panel-body",
            ),
        ],
        className="panel panel-wide",
        id="change-form",
        **{"data-change-id": row.change.change_id},
    )


def _teach() -> Markup:
    return empty(
        "No recovery config changed yet.",
        "A change shows itself: two attempts of a run, or two runs of one project and name, that told other settings. "
        "Settings come with a launcher's log, a recorder, or a script that you check:",
        "rerail check launch.sh",
        "rerail import logs launcher.log --run my-run --url {server}",
        "rerail demo --compare --recorded --url {server}",
    )
