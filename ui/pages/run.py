"""Run: what happened to this run, and where did the time go?

Rules
- Sentence, figures, picture, waterfall, then tables: nobody has to scroll for the answer.
- Head and tables are drawn again when the server says that the run changed; the picture asks for itself
  (`assets/timeline.js`). Neither moves what is being read.
- What another definition of goodput says is asked for after the page stands (`run_definition.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from rerail.server.core.definitions import OURS, definitions
from rerail.server.core.notes import SubjectKind
from rerail.server.core.view import Checkpoint, RunView
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_results import EmitterRow
from rerail.ui.address import Address
from rerail.ui.figures.run_picture import HEIGHT, empty_figure
from rerail.ui.markup import Content, Markup, encoded, island
from rerail.ui.pages.alerts import run_alerts
from rerail.ui.pages.exclusions import exclude_button, exclude_form
from rerail.ui.pages.notes_part import notes_part
from rerail.ui.pages.run_definition import switch, wanted_definition
from rerail.ui.pages.run_head import head, outdated_note
from rerail.ui.pages.run_losses import losses
from rerail.ui.pages.run_tables import panels
from rerail.ui.reading import in_thread
from rerail.ui.theme import LIGHT

PAGE = "run"

RANGES = (("all", "Whole run"), ("86400", "24 h"), ("21600", "6 h"), ("3600", "1 h"), ("900", "15 min"))

WINDOWS = (
    ("", "fitting window"),
    ("300", "5 min window"),
    ("900", "15 min window"),
    ("3600", "1 h window"),
    ("21600", "6 h window"),
    ("86400", "1 d window"),
    ("604800", "7 d window"),
)

GRAPH = {
    "displaylogo": False,
    "displayModeBar": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": ["sendChartToCloud", "sendDataToCloud"],
    "doubleClick": "autosize",
    "responsive": True,
    "scrollZoom": False,
}
"""No mode bar, hence no button that sends a chart anywhere; what it did has words and keys on the page."""


async def layout(queries: Queries, wanted: Address, search: str) -> Component:
    """The page of one run."""
    reading = await in_thread(_read, queries, wanted.name)
    view = reading.view
    definition = wanted_definition(search)
    title = view.name or view.run_id
    return html.Div(
        [
            dcc.Store(id="run-id", data=view.run_id),
            dcc.Store(id="run-live"),
            dcc.Store(id="timeline-drawn"),
            dcc.Store(id="timeline-shown"),
            dcc.Store(id="run-definition-wanted", data=definition),
            island(reading.head(), "run-head"),
            island(switch(definition), "run-definition"),
            _picture(),
            await notes_part(queries, SubjectKind.RUN, view.run_id),
            island(losses(view), "run-losses", "columns columns-wide-left"),
            island(reading.panels(), "run-panels"),
        ],
        id="run-page",
        className="page-body",
        **{"data-title": title, "data-run": view.run_id},
    )


class _Reading(NamedTuple):
    """What the page is drawn from."""

    view: RunView
    emitters: Sequence[EmitterRow]
    newest_checkpoints: Sequence[Checkpoint]
    trouble: str | None
    """Why the figures stand still, if they do."""
    alerts: Content = None
    is_outdated: bool = False
    """Rules of another version made it."""

    def head(self) -> list[Content]:
        return [*head(self.view, self.trouble), self.alerts, outdated_note() if self.is_outdated else None]

    def panels(self) -> list[Markup]:
        return panels(self.view, self.emitters, self.newest_checkpoints)


def _read(queries: Queries, run_id: str) -> _Reading:
    return _Reading(
        view=queries.run(run_id),
        emitters=queries.emitters(run_id),
        newest_checkpoints=queries.newest_checkpoints(run_id),
        trouble=queries.run_row(run_id).error,
        alerts=run_alerts(queries, run_id),
        is_outdated=queries.is_outdated(run_id),
    )


def _losses(queries: Queries, run_id: str, shown: object) -> list[Markup]:
    """Waterfall and phases; `shown` is the range of the picture as texts of nanoseconds, None of the whole run."""
    view = queries.run(run_id)
    ends = [int(each) for each in shown if str(each).isdecimal()] if isinstance(shown, list) else []
    if len(ends) != 2 or view.started_at is None:
        return losses(view)
    start = max(ends[0], view.started_at)
    end = min(ends[1], view.as_of if view.ended_at is None else view.ended_at)
    return losses(view) if end <= start else losses(view, queries.window(run_id, start, end))


def register(app: Dash, queries: Queries) -> None:
    """Add the callbacks of the page."""

    @app.callback(
        Output("run-head", "data-markup"),
        Output("run-panels", "data-markup"),
        Input("run-live", "data"),
        State("run-id", "data"),
        prevent_initial_call=True,
    )
    async def refresh(signal: object, run_id: str | None) -> tuple[str, str]:
        if signal is None or run_id is None:
            raise PreventUpdate
        try:
            reading = await in_thread(_read, queries, run_id)
        except NotFoundError as error:
            raise PreventUpdate from error
        return encoded(reading.head()), encoded(reading.panels())

    @app.callback(
        Output("run-losses", "data-markup"),
        Input("timeline-shown", "data"),
        Input("run-live", "data"),
        State("run-id", "data"),
        prevent_initial_call=True,
    )
    async def account_for(shown: object, _signal: object, run_id: str | None) -> str:
        if run_id is None:
            raise PreventUpdate
        try:
            return encoded(await in_thread(_losses, queries, run_id, shown))
        except NotFoundError as error:
            raise PreventUpdate from error

    @app.callback(
        Output("run-definition", "data-markup"),
        Input("run-definition-wanted", "data"),
        Input("run-live", "data"),
        State("run-id", "data"),
    )
    async def define(wanted: str | None, _signal: object, run_id: str | None) -> str:
        if run_id is None or wanted not in definitions():
            raise PreventUpdate
        if wanted == OURS:
            return encoded(switch(OURS))
        try:
            found = await in_thread(queries.measured, run_id, wanted)
        except NotFoundError as error:
            raise PreventUpdate from error
        return encoded(switch(wanted, found))

    app.clientside_callback(
        ClientsideFunction("rerail_timeline", "draw"),
        Output("timeline-drawn", "data"),
        Input("timeline", "relayoutData"),
        Input("timeline-window", "value"),
        Input("run-id", "data"),
    )
    app.clientside_callback(
        ClientsideFunction("rerail_timeline", "open"),
        Output("timeline-caption", "lang"),
        Input("timeline", "clickData"),
        prevent_initial_call=True,
    )


def _picture() -> Component:
    ranges = html.Div(
        [html.Button(label, type="button", className="seg", **{"data-range": value}) for value, label in RANGES],
        className="segs",
        role="group",
        **{"aria-label": "Range"},
    )
    window = dmc.Select(
        id="timeline-window",
        data=[{"value": value, "label": label} for value, label in WINDOWS],
        value="",
        size="xs",
        allowDeselect=False,
        checkIconPosition="right",
        className="window",
        **{"aria-label": "Sliding window of the goodput lines"},
    )
    actions = [
        html.Button(
            "Follow",
            type="button",
            className="seg seg-alone",
            id="timeline-follow",
            hidden=True,
            title="Keep the newest in view",
        ),
        exclude_button(),
        html.Button("Copy link", type="button", className="quiet-button", **{"data-copy": "address"}),
        html.Button("Save PNG", type="button", className="quiet-button", **{"data-do": "png"}),
    ]
    graph = dcc.Graph(
        id="timeline", figure=empty_figure(LIGHT), config=GRAPH, style={"height": f"{HEIGHT}px"}, className="timeline"
    )
    return html.Section(
        [
            html.Header(
                [
                    html.H2(html.A("Timeline", href="#timeline-panel")),
                    html.Div([ranges, window, *actions], className="actions"),
                ],
                className="panel-head",
            ),
            html.Div(
                graph,
                id="timeline-frame",
                tabIndex=0,
                role="group",
                **{"aria-label": "Timeline: arrows move, + and − zoom, 0 shows all"},
            ),
            html.Div(id="timeline-legend", className="legend"),
            html.Div(
                [
                    html.Span(id="timeline-caption", **{"aria-live": "polite"}),
                    html.Span(id="timeline-readout", **{"aria-hidden": "true"}),
                ],
                className="caption",
            ),
            exclude_form(),
        ],
        id="timeline-panel",
        className="panel panel-wide",
    )
