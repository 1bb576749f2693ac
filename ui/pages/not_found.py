"""Not found: what was asked for is not here. Says why that may be and where to go on."""

from __future__ import annotations

from dash import html as dash_html
from dash.development.base_component import Component

from rerail.ui import address
from rerail.ui.elements import command, link
from rerail.ui.markup import html, island


def layout(what: str, name: str) -> Component:
    """The page for a run, an incident or an address that is not known."""
    about = {
        "run": "No fact of it has come. A run appears with its first fact; check the id its emitters use.",
        "problem": "A problem comes with its first incident. One that was split off goes away when that is undone.",
        "node": "No run has named it. Nodes come with attempts that say where they run.",
        "incident": "Incidents are derived from facts. A late fact can join two of them, and then an id goes away.",
    }.get(what, "There is no page at this address.")
    is_known_kind = what in ("run", "incident", "problem", "node")
    title = f"No {what} named {name}" if is_known_kind else "No such page"
    more = [link("All runs", address.RUNS, "button"), link("What data has come", address.DATA, "button")]
    lines = [command("curl {server}/api/v1/runs")] if what in ("run", "incident") else []
    shown = [html.H1(title), html.P(about, className="sentence"), html.Div(more, className="buttons"), *lines]
    return dash_html.Div(island(shown, "not-found"), className="narrow-page", **{"data-title": title})
