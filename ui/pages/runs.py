"""Runs: which run?

Rules
- The table reads rows as it scrolls; search, state and order go to the query, and to the address.
- A cell shows the two numbers that belong together: both goodputs, p50 and maximum, current and target step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from rerail.server.core.facts import Phase
from rerail.server.core.infrastructure import known_words
from rerail.server.core.view import RunState
from rerail.server.queries import Queries
from rerail.server.query_results import RunRow
from rerail.server.query_strips import StripColumn
from rerail.ui import text
from rerail.ui.address import Address, incident_path, run_path
from rerail.ui.elements import empty
from rerail.ui.markup import Markup, island
from rerail.ui.reading import in_thread
from rerail.ui.sentences import runs_sentence
from rerail.ui.theme import ORDER, css_name

PAGE = "runs"

BLOCK = 100
"""Rows per request of the table."""

STATES = (("", "All"), ("alive", "Alive"), ("silent", "Silent"), ("ended", "Ended"))

COLUMNS = (
    {"field": "run", "headerName": "Run", "cellRenderer": "RunName", "minWidth": 180, "flex": 2, "sortBy": "run_id"},
    {"field": "state", "headerName": "State", "cellRenderer": "RunStateCell", "width": 150, "sortBy": "last_heard_at"},
    {
        "field": "goodput",
        "headerName": "Goodput",
        "headerTooltip": "Training goodput, and infrastructure goodput under it",
        "cellRenderer": "GoodputPair",
        "width": 156,
        "sortBy": "training_goodput",
    },
    {
        "field": "phases",
        "headerName": "Where the time went",
        "cellRenderer": "PhaseBar",
        "minWidth": 170,
        "flex": 1,
        "sortable": False,
    },
    {
        "field": "strip",
        "headerName": "Over its life",
        "headerTooltip": "What moved it forward, from below, and what took most of the rest, from its beginning on",
        "cellRenderer": "Strip",
        "width": 150,
        "sortable": False,
    },
    {
        "field": "faults",
        "headerName": "Faults",
        "headerTooltip": "Interrupted attempts, and all restarts under it",
        "cellRenderer": "Pair",
        "type": "rightAligned",
        "width": 104,
        "sortBy": "interruptions",
    },
    {
        "field": "recover",
        "headerName": "Time to recover",
        "headerTooltip": "Median, and maximum of how many incidents",
        "cellRenderer": "Pair",
        "type": "rightAligned",
        "width": 148,
        "sortBy": "recover_max_ns",
    },
    {
        "field": "checkpoint",
        "headerName": "Checkpoint",
        "headerTooltip": "Age of the newest durable checkpoint, and the steps a crash would cost now",
        "cellRenderer": "Pair",
        "type": "rightAligned",
        "width": 138,
        "sortBy": "checkpoint_age_ns",
    },
    {
        "field": "step",
        "headerName": "Step",
        "headerTooltip": "High-water step, and the target",
        "cellRenderer": "Pair",
        "type": "rightAligned",
        "width": 118,
        "sortBy": "high_water_step",
    },
)
"""`sortBy` is the field of `RunRow` that the column is ordered by."""

SORT_FIELDS = {column["field"]: column["sortBy"] for column in COLUMNS if "sortBy" in column}


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page."""
    counts = await in_thread(_counts, queries)
    total = sum(counts.values())
    sentence = _sentence(counts)
    head = [html.H1("Runs"), html.P(sentence, className="sentence", id="runs-sentence")]
    if not total:
        return html.Div([*head, island(_teach(), "runs-empty")], className="page-body", **{"data-title": "Runs"})
    wanted = parse_qs(search.removeprefix("?"))
    state = wanted.get("state", [""])[0]
    filters = html.Div(
        [
            dmc.TextInput(
                id="runs-search",
                value=wanted.get("q", [""])[0],
                placeholder="Search id, name, project, labels   /",
                size="sm",
                debounce=250,
                className="search",
                **{"aria-label": "Search runs"},
            ),
            dmc.SegmentedControl(
                id="runs-state",
                data=[{"value": value, "label": label} for value, label in STATES],
                value=state if state in dict(STATES) else "",
                size="sm",
            ),
            html.Span(id="runs-matches", className="muted", role="status"),
        ],
        className="filters",
    )
    return html.Div(
        [*head, filters, _grid(*_order(wanted)), dcc.Store(id="runs-filter")],
        id="runs-page",
        className="page-body page-fill",
        **{"data-title": "Runs"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callbacks of the table."""

    @app.callback(
        Output("runs-grid", "getRowsResponse"),
        Output("runs-matches", "children"),
        Output("runs-sentence", "children"),
        Input("runs-grid", "getRowsRequest"),
        State("runs-search", "value"),
        State("runs-state", "value"),
        prevent_initial_call=True,
    )
    async def rows(request: dict[str, object] | None, search: str | None, state: str | None) -> tuple[object, str, str]:
        request = request or {}
        start, end = int(str(request.get("startRow") or 0)), int(str(request.get("endRow") or BLOCK))
        order = request.get("sortModel")
        first = order[0] if isinstance(order, list) and order else {"colId": "state", "sort": "desc"}
        found = await in_thread(
            queries.runs,
            search=search or "",
            state=state or None,
            sort=SORT_FIELDS.get(first["colId"], "last_heard_at"),
            descending=first["sort"] == "desc",
            offset=start,
            limit=min(end - start, BLOCK),
        )
        strips = await in_thread(queries.strips, found.rows)
        counts = await in_thread(_counts, queries)
        matches = f"{text.count(found.total, 'run')} match" + ("es" if found.total == 1 else "")
        return (
            {
                "rowData": [grid_row(row, strips.get(row.run_id, ())) for row in found.rows],
                "rowCount": found.total,
            },
            matches if search or state else "",
            _sentence(counts),
        )

    app.clientside_callback(
        ClientsideFunction("rerail", "filter_runs"),
        Output("runs-filter", "data"),
        Input("runs-search", "value"),
        Input("runs-state", "value"),
        prevent_initial_call=True,
    )


def grid_row(row: RunRow, strip: Sequence[StripColumn | None] = ()) -> dict[str, object]:
    """A row as the browser draws it: texts, shares and addresses, nothing to compute."""
    by_phase = dict(row.ns_by_phase)
    whole = sum(by_phase.values())
    label = row.name or row.run_id
    about = [part for part in (row.project, row.run_id if row.name else None) if part]
    about += [f"{key}={value}" for key, value in row.labels]
    return {
        "id": row.run_id,
        "href": run_path(row.run_id),
        "run": label,
        "about": " · ".join(about),
        "state": row.state.value,
        "phase": None if row.current_phase in (None, Phase.SILENT) else text.PHASES[row.current_phase],
        "is_stalled": row.current_phase is Phase.STALLED,
        "outcome": None if row.outcome is None else text.OUTCOMES[row.outcome],
        "silent_since": _milliseconds(row.silent_since),
        "last_heard": _milliseconds(row.last_heard_at),
        "open_href": None if row.open_incident_id is None else incident_path(row.open_incident_id),
        "training": row.training_goodput,
        "infrastructure": row.infrastructure_goodput,
        "training_text": known_words(
            row.training_goodput, is_most=row.infrastructure_goodput_is_most, unknown=text.DASH
        ),
        "infrastructure_text": _infrastructure(row),
        "infrastructure_least": ""
        if row.infrastructure_goodput_least is None
        else f", at least {text.share(row.infrastructure_goodput_least)}",
        "phases": [
            [
                css_name(phase),
                by_phase[phase] / whole,
                f"{text.PHASES[phase]} {text.duration(by_phase[phase])}",
            ]
            for phase in ORDER
            if whole and by_phase.get(phase)
        ],
        "strip": _strip(strip),
        "phases_text": f"{text.duration(row.elapsed_ns)}"
        + ("" if row.gpus is None else f" on {text.count(row.gpus, 'GPU')}"),
        "faults": [text.number(row.interruptions), text.count(row.restarts, "restart")],
        "recover": [
            text.duration(row.recover_p50_ns, text.DASH),
            "" if row.recover_max_ns is None else f"max {text.duration(row.recover_max_ns)} of {row.incidents}",
        ],
        "checkpoint": _checkpoint(row),
        "step": [
            text.number(row.high_water_step, text.DASH),
            "" if row.target_step is None else f"of {text.number(row.target_step)}",
        ],
        "error": row.error,
    }


def _infrastructure(row: RunRow) -> str:
    unknown = text.UNKNOWN if row.elapsed_ns else text.DASH
    return known_words(row.infrastructure_goodput, is_most=row.infrastructure_goodput_is_most, unknown=unknown)


def _strip(columns: Sequence[StripColumn | None]) -> dict[str, object] | None:
    """A run's life for the browser to paint: of each column what was productive, and the phase that took the rest.

    `lost` are places in `names`, −1 where nothing was lost or nothing told; `productive` are per cent.
    """
    known = [each for each in columns if each is not None]
    if not known:
        return None
    names = list(dict.fromkeys(each.lost_to for each in known if each.lost_to is not None))
    worst = min(known, key=lambda each: each.productive)
    said = f"Over its life, in {text.count(len(columns), 'column')} of {text.duration(known[0].end - known[0].start)}"
    if worst.lost_to is not None:
        said += f"; least productive {text.share(worst.productive)}, {text.PHASES[worst.lost_to]}"
    return {
        "names": [css_name(phase) for phase in names],
        "lost": [-1 if each is None or each.lost_to is None else names.index(each.lost_to) for each in columns],
        "productive": [0 if each is None else round(100 * each.productive) for each in columns],
        "text": said,
    }


def _checkpoint(row: RunRow) -> list[str]:
    """Age and risk while the run lives; after its end only what is saved."""
    if row.state is RunState.ENDED:
        saved = row.newest_durable_step
        return [text.DASH if saved is None else f"step {text.number(saved)}", "" if saved is None else "saved last"]
    if row.high_water_step is None:
        return [text.DASH, ""]
    risk = "at risk unknown" if row.steps_at_risk is None else f"{text.count(row.steps_at_risk, 'step')} at risk"
    return [text.duration(row.checkpoint_age_ns, text.DASH), risk]


def _milliseconds(at: int | None) -> float | None:
    return None if at is None else at / 1e6


def _counts(queries: Queries) -> dict[RunState, int]:
    return queries.run_states()


def _sentence(counts: dict[RunState, int]) -> str:
    return runs_sentence(sum(counts.values()), counts[RunState.ALIVE], counts[RunState.SILENT], counts[RunState.ENDED])


def _order(wanted: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """The column that the address orders by, and which way; nonsense is left out."""
    column, way = wanted.get("sort", [""])[0], wanted.get("order", ["desc"])[0]
    return (column, "asc" if way == "asc" else "desc") if column in SORT_FIELDS else ("", "desc")


def _grid(sort: str, order: str) -> Component:
    columns = [
        {
            **{key: value for key, value in column.items() if key != "sortBy"},
            **({"sort": order} if column["field"] == sort else {}),
        }
        for column in COLUMNS
    ]
    return dag.AgGrid(
        id="runs-grid",
        rowModelType="infinite",
        columnDefs=columns,
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True, "filter": False},
        getRowId="params.data.id",
        dashGridOptions={
            "rowHeight": 58,
            "headerHeight": 38,
            "cacheBlockSize": BLOCK,
            "maxBlocksInCache": 20,
            "rowBuffer": 10,
            "infiniteInitialRowCount": 1,
            "suppressCellFocus": False,
            "enableCellTextSelection": True,
            "tooltipShowDelay": 400,
            "suppressDragLeaveHidesColumns": True,
            "localeText": {"noRowsToShow": "No run matches."},
            "theme": {"function": "rerailGridTheme(themeQuartz)"},
        },
        className="grid",
        dangerously_allow_code=False,
    )


def _teach() -> Markup:
    return empty(
        "This server has not heard of any run.",
        "A run appears with its first fact. See one train, fail and recover; follow your own; or bring the past:",
        "rerail demo --url {server}",
        "rerail agent --url {server} --run my-run --launcher-log train.log",
        "rerail import logs train.log --run my-run --url {server}",
    )
