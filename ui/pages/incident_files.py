"""Files of an incident: what people gave, what was understood of it, and the place to drop more.

Rules
- The place to drop stands still: it is a component of its own, so that a live incident does not wipe out an upload. The
  list under it is drawn with the rest. Nothing here writes: the browser asks the API, as any program would
  (`assets/artefacts.js`).
- A file is only ever a download; its name is text.
"""

from __future__ import annotations

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.query_results import GivenArtefact
from rerail.ui import text
from rerail.ui.elements import Head, badge, folded, instant
from rerail.ui.markup import Content, Markup, html, island

KINDS = {
    "flight_recorder": "flight recorder dump",
    "process_groups": "process groups",
    "error_file": "error file",
    "kernel_log": "kernel log",
    "log": "log",
    "unknown": "not understood",
}
LIST = "incident-files"


def files_part(given: Sequence[GivenArtefact], largest_bytes: int) -> Component:
    """The whole panel: place to drop, what is under way, and the list."""
    megabytes = f"{largest_bytes / 1024 / 1024:g} MB"
    chooser = dash_html.Div(
        [
            dash_html.Button("Add a log or dump", type="button", className="seg seg-alone", **{"data-give": "choose"}),
            dash_html.Span("or drop files here", className="give-or"),
            dash_html.Span(
                f"Flight recorder dumps, kernel logs, error files, any log; zip and tar too. At most {megabytes}.",
                className="muted",
            ),
        ],
        className="give-zone",
        id="give-zone",
    )
    fields = dash_html.Div(
        [
            dmc.TextInput(id="give-author", label="Who gives it", placeholder="your name", size="xs"),
            dash_html.Div(
                dmc.PasswordInput(id="give-token", label="Token of this server", size="xs"),
                id="give-token-part",
                hidden=True,
            ),
        ],
        className="exclude-row",
    )
    head = dash_html.Header(
        [
            dash_html.H2(dcc.Link("Files", href="#files", refresh=False)),
            dash_html.P("What people gave. The evidence in it counts until it is withdrawn.", className="lead"),
        ],
        className="panel-head",
    )
    body = dash_html.Div(
        [
            chooser,
            fields,
            dash_html.Div(id="give-progress", role="status"),
            island(files_list(given), LIST),
        ],
        className="panel-body",
    )
    return dash_html.Section(
        [head, body], id="files", className="panel panel-wide", **{"data-largest": str(largest_bytes)}
    )


def files_list(given: Sequence[GivenArtefact]) -> list[Markup]:
    """The files, newest first; nothing where there are none."""
    if not given:
        return []
    heads = (
        Head("file", "wide"),
        Head("kind", "words"),
        Head("size", "number"),
        Head("understood", "words"),
        Head("given", "words"),
        Head("state", "words"),
        Head("action", "words"),
    )
    table = folded(heads, [_row(each) for each in reversed(given)], "Files given to the incident")
    return [html.Div(table, className="files")]


def _row(given: GivenArtefact) -> Sequence[Content]:
    row = given.row
    said: list[Content] = [text.count(row.pieces, "piece") + " of evidence" if row.pieces else "nothing"]
    said += [html.Div(each, className="give-bad") for each in row.refused[:3]]
    said += [html.Div(each, className="muted") for each in row.remarks[:3]]
    if given.is_withdrawn:
        by = f"withdrawn by {given.changed_by} " if given.changed_by else "withdrawn "
        changed = [by, instant(given.changed_at)] if given.changed_at else by
        state: Content = [
            badge("does not count", "outline", given.reason),
            html.Div(changed, className="muted", title=given.reason),
        ]
        action, does = "redo", "let it count"
    elif not row.pieces:
        state, action, does = badge("kept", "quiet"), "", ""
    else:
        state = badge("counts", "good") if given.is_heard else badge("being read", "outline")
        action, does = "undo", "withdraw"
    button = (
        html.Button(does, type="button", className="quiet-button", **{f"data-artefact-{action}": row.sha256})
        if action
        else text.DASH
    )
    who = [instant(row.received_at), html.Div(f"by {row.author}", className="muted") if row.author else None]
    return (
        [
            html.A(row.name, href=f"/api/v1/artefacts/{row.sha256}", title=f"Download; SHA-256 {row.sha256}"),
        ],
        KINDS.get(row.kind, row.kind),
        text.size(row.size),
        said,
        who,
        state,
        button,
    )
