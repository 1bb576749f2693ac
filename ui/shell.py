"""Shell: what stands around every page, and which page an address gets.

Rules
- Navigation lists only pages that exist.
- Scheme and zone are the reader's, remembered in their browser; the scheme is set before the first paint.
- The document asks for nothing but this server.
- A page is drawn when the path changes. Its script may write the query (a zoom, a filter) without drawing it again; a
  link to the same path with another query, and the way back from it, draw it again by `again` (`assets/shell.js`).
"""

from __future__ import annotations

from types import ModuleType

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.ui import address
from rerail.ui.pages import not_found

INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
<link rel="icon" href="/assets/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/figures/palette.css">
<script src="/assets/scheme.js"></script>
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>"""

NAVIGATION = (
    ("Fleet", address.FLEET),
    ("Runs", address.RUNS),
    ("Alerts", address.ALERTS),
    ("Problems", address.PROBLEMS),
    ("Nodes", address.NODES),
    ("Configs", address.CONFIGS),
    ("Compare", address.COMPARE),
    ("Knowledge", address.KNOWLEDGE),
    ("Data", address.DATA),
)

KEYS = (
    ("/", "search the list, or everything that is known"),
    ("g f", "go to the fleet"),
    ("g r", "go to runs"),
    ("g a", "go to alerts"),
    ("g p", "go to problems"),
    ("g n", "go to nodes"),
    ("g c", "go to configs"),
    ("g d", "go to data"),
    ("g k", "go to knowledge"),
    ("n", "write a note on what is shown"),
    ("[ ]", "previous, next incident"),
    ("j k", "next, previous row of a list; Enter opens it"),
    ("a s e", "acknowledge, silence for 8 h, resolve: the alert or the group in focus"),
    ("← →", "move through time, with the timeline in focus"),
    ("+ −", "zoom in, out"),
    ("0", "the whole run"),
    ("?", "this list"),
)

THEME = {
    "primaryColor": "blue",
    "fontFamily": "var(--font)",
    "defaultRadius": "sm",
    "cursorType": "pointer",
}


def layout() -> Component:
    """The shell, with an empty page in it."""
    return dmc.MantineProvider(
        [
            dcc.Location(id="location", refresh=False),
            dcc.Store(id="scheme"),
            dcc.Store(id="live"),
            dcc.Store(id="again"),
            dmc.NotificationContainer(id="notifications", position="bottom-right"),
            html.A("Skip to the page", href="#page", className="skip"),
            html.Div(_header(), className="header", role="banner"),
            html.Div(
                [html.Strong("Not connected. "), html.Span(id="stale-since"), " What is shown may be old."],
                id="stale",
                role="status",
                hidden=True,
            ),
            html.Main(html.Div(className="loading"), id="page", tabIndex=-1),
            dmc.Modal(_help(), id="help", title="Keys", opened=False, size="sm"),
        ],
        id="mantine",
        defaultColorScheme="auto",
        theme=THEME,
    )


def register(app: Dash, queries: Queries, pages: tuple[ModuleType, ...]) -> None:
    """Add the callbacks of the shell: the router, and the reader's choices."""
    layouts = {page.PAGE: page.layout for page in pages}

    @app.callback(
        Output("page", "children"),
        Input("location", "pathname"),
        Input("again", "data"),
        State("location", "search"),
    )
    async def show(path: str | None, _again: object, search: str | None) -> object:
        wanted = address.parse(path or "/")
        if wanted.page not in layouts:
            return not_found.layout("page", wanted.name)
        try:
            return await layouts[wanted.page](queries, wanted, search or "")
        except NotFoundError:
            return not_found.layout(wanted.page, wanted.name)

    app.clientside_callback(
        ClientsideFunction("rerail", "choose_zone"),
        Output("zone", "id"),
        Input("zone", "value"),
        prevent_initial_call=False,
    )


def _header() -> list[Component]:
    return [
        html.A([_mark(), html.Span("rerail")], href="/", className="brand", **{"aria-label": "rerail: the fleet"}),
        html.Nav(
            [html.A(name, href=path, className="nav-link") for name, path in NAVIGATION],
            className="nav",
            **{"aria-label": "Pages"},
        ),
        html.Div(
            [
                html.Div(
                    [html.I(className="dot"), html.Span(id="live-text")],
                    id="live-dot",
                    title="When what you see was read",
                ),
                html.Span(id="zone-name", className="zone-name"),
                dmc.SegmentedControl(
                    id="zone",
                    data=[{"value": "local", "label": "Local"}, {"value": "utc", "label": "UTC"}],
                    value="local",
                    size="xs",
                    persistence=True,
                    persistence_type="local",
                ),
                dmc.ColorSchemeToggle(
                    id="color-scheme",
                    lightIcon=html.Span("☀", **{"aria-hidden": "true"}),
                    darkIcon=html.Span("☾", **{"aria-hidden": "true"}),
                    variant="subtle",
                    color="gray",
                    size="md",
                    **{"aria-label": "Light or dark"},
                ),
                html.Button("?", className="round", type="button", title="Keys", **{"data-do": "help"}),
            ],
            className="header-right",
        ),
    ]


def _mark() -> Component:
    """The sign: a track that is thrown off and comes back."""
    return html.Span(className="brand-mark", **{"aria-hidden": "true"})


def _help() -> Component:
    return html.Dl([piece for key, does in KEYS for piece in (html.Dt(_keys(key)), html.Dd(does))], className="keys")


def _keys(keys: str) -> list[Component]:
    return [dmc.Kbd(key) for key in keys.split()]
