"""Fleet: is my fleet good, and what should I look at now?

Rules
- Runs that need a person come right after the sentence, those first that lose most GPU-hours an hour.
- The last seven days stand beside the seven before. GPU-hours are of what has a GPU number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dash import Dash, Input, Output, dcc
from dash import html as dash_html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from rerail.server.core.facts import Phase, Scope
from rerail.server.core.view import RunState
from rerail.server.queries import Queries
from rerail.server.query_fleet import CauseCost, FleetSum, FleetView, ScopeRecovery, WantingRow
from rerail.ui import text
from rerail.ui.address import NODES, RUNS, Address, node_path, run_path
from rerail.ui.elements import Head, badge, empty, instant, link, panel, phase_class, table, tile
from rerail.ui.markup import Content, Markup, encoded, html, island
from rerail.ui.reading import in_thread

PAGE = "fleet"


async def layout(queries: Queries, _address: Address, _search: str) -> Component:
    """The page."""
    view = await in_thread(queries.fleet_page.view)
    return dash_html.Div(
        [dash_html.H1("Fleet"), dcc.Store(id="fleet-live"), island(content(view), "fleet-content")],
        className="page-body",
        id="fleet-page",
        **{"data-title": "Fleet"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callback that draws the page again when something changed."""

    @app.callback(Output("fleet-content", "data-markup"), Input("fleet-live", "data"), prevent_initial_call=True)
    async def refresh(signal: object) -> str:
        if signal is None:
            raise PreventUpdate
        return encoded(content(await in_thread(queries.fleet_page.view)))


def content(view: FleetView) -> list[Content]:
    """Everything under the title."""
    if not sum(times for _, times in view.states):
        return [_teach()]
    return [
        html.P(_unbroken(sentence(view)), className="sentence"),
        _wanting(view),
        html.Div(_tiles(view), className="tiles fleet-tiles"),
        _goodput(view),
        html.Div([_phases(view), _causes(view.causes)], className="columns"),
        html.Div([_recoveries(view.recoveries), _lemons(view)], className="columns"),
    ]


def sentence(view: FleetView) -> str:
    """How good it was, what took most, and whether anybody is needed."""
    goodput = view.now.training_goodput
    if goodput is None:
        lead = "No run lived in the last 7 days"
        if view.runs_unseen:
            lead = (
                f"Training goodput over 7 days is unknown: nobody tells the steps of {_of_runs(view.runs_unseen, view)}"
            )
    else:
        by_gpus = view.now.training_goodput_by_gpus
        lead = f"{text.share(goodput)} training goodput over 7 days by the time of runs"
        lead += f" ({text.share(by_gpus)} by GPU-hours{_left_out(view)})" if by_gpus is not None else _unweighted(view)
        lead += _unseen(view)
        before = view.before.training_goodput
        if before is not None:
            points = (goodput - before) * 100
            lead += f", {abs(points):.1f} points {'better' if points >= 0 else 'worse'} than the 7 before"
        known = [(phase, cost) for phase, cost in view.now.lost_gpu_ns if phase is not Phase.SILENT]
        if known:
            lead += f"; {text.PHASES[known[0][0]]} took most, {text.gpu_hours(known[0][1])}"
        silent = dict(view.now.lost_gpu_ns).get(Phase.SILENT, 0)
        if known and silent > known[0][1]:
            lead += f"; of {text.gpu_hours(silent)} nobody told what they did"
    lead += "."
    needs = text.count(view.wanting_count, "run")
    return (
        f"{lead} {needs} need{'s' if view.wanting_count == 1 else ''} a person."
        if view.wanting_count
        else (f"{lead} No run needs a person.")
    )


def _of_runs(some: int, view: FleetView) -> str:
    return text.count(some, "run") if some == view.runs_lived else f"{some} of {text.count(view.runs_lived, 'run')}"


def _unseen(view: FleetView) -> str:
    """How many runs are in no goodput, since nobody tells their steps."""
    if not view.runs_unseen:
        return ""
    return f", without {_of_runs(view.runs_unseen, view)} of which nobody tells steps"


def _left_out(view: FleetView) -> str:
    """Which runs GPU-hours leave out, since they tell no GPUs."""
    if not view.runs_without_gpus:
        return ""
    verb = "tells" if view.runs_without_gpus == 1 else "tell"
    out = "is" if view.runs_without_gpus == 1 else "are"
    return (
        f"; {view.runs_without_gpus} of {text.count(view.runs_lived, 'run')} {verb} no GPUs and {out} left out of these"
    )


def _unweighted(view: FleetView) -> str:
    return ", whatever their size: none tells its GPUs" if view.runs_without_gpus else ", whatever their size"


def _unbroken(said: str) -> list[Content]:
    """A sentence whose GPU-hours do not break at their hyphen."""
    parts = re.split(r"(\S+GPU-h)", said)
    return [html.Span(part, className="nowrap") if part.endswith("GPU-h") else part for part in parts]


def _tiles(view: FleetView) -> list[Markup]:
    states = dict(view.states)
    before = view.before
    faults = sum(each.incidents for each in view.causes)
    runs = f"{states.get(RunState.ALIVE, 0)} alive, {states.get(RunState.SILENT, 0)} silent"
    if view.wanting_count:
        runs += f", {view.wanting_count} need{'s' if view.wanting_count == 1 else ''} a person"
    return [
        tile("training goodput", text.share(view.now.training_goodput, text.DASH),
             [f"before: {text.share(before.training_goodput)}", html.Br(),
              *_by_gpus(view, view.now.training_goodput_by_gpus)],
             "#goodput"),
        tile("infrastructure goodput", text.share(view.now.infrastructure_goodput, text.DASH),
             [f"before: {text.share(before.infrastructure_goodput)}", html.Br(),
              *_by_gpus(view, view.now.infrastructure_goodput_by_gpus)], "#goodput"),
        tile("lost", _lost(view.now), f"before: {_lost(before)}", "#phases"),
        tile("faults", text.number(faults), f"before: {sum(each.incidents_before for each in view.causes)}", "#causes"),
        tile("runs", text.number(sum(states.values())), runs, RUNS, "warn" if view.wanting_count else ""),
    ]  # fmt: skip


def _by_gpus(view: FleetView, goodput: float | None) -> list[Content]:
    if view.runs_unseen == view.runs_lived > 0:
        return ["nobody tells steps"]
    if goodput is None:
        return ["each run by its time, whatever its size"]
    said: list[Content] = [f"by GPU-hours: {text.share(goodput)}"]
    if view.runs_without_gpus:
        said += [html.Br(), f"without {view.runs_without_gpus} of {text.count(view.runs_lived, 'run')}: no GPUs told"]
    return said


def _lost(period: FleetSum) -> str:
    """What moved no run forward. Where a run told no GPU number it is unknown, or at least what the others lost."""
    known = sum(cost for _, cost in period.lost_gpu_ns)
    if period.uncounted_ns:
        return f"at least {text.gpu_hours(known)}" if known else text.UNKNOWN
    return text.gpu_hours(known)


def _wanting(view: FleetView) -> Markup:
    if not view.wanting:
        return panel("Needs a person", html.P("Nothing does.", className="calm"), "wanting", wide=True)
    left = view.wanting_count - len(view.wanting)
    more = html.P(link(f"{text.number(left)} more", "/alerts"), className="note") if left > 0 else None
    lead: list[Content] = ["What loses most just now comes first."]
    if view.open_alerts:
        lead += [f" {text.count(view.open_alerts, 'open alert')}: ", link("all of them", "/alerts")]
    return panel("Needs a person", [*map(_want, view.wanting), more], "wanting", lead=lead, wide=True)


def _want(wanting: WantingRow) -> Markup:
    run = wanting.run
    what: list[Content] = []
    for each in wanting.alerts[:2]:
        what += [html.Strong(text.headline(each.rule.replace("_", " "))), f": {each.sentence} "]
    if len(wanting.alerts) > 2:
        what.append(f"and {len(wanting.alerts) - 2} more")
    if wanting.reason == "silent":
        what = ["Nothing is heard of it since ", instant(run.silent_since), "."]
    if wanting.reason == "stalled":
        what = [f"Heartbeats and no step, at step {text.number(run.current_step)}."]
    tone = "danger" if wanting.reason != "silent" else "outline"
    return html.Div(
        [
            html.Span(link(run.name or run.run_id, run_path(run.run_id))),
            html.Span(badge(wanting.reason, tone)),
            html.Span([*what, html.Span(wanting.stake.sentence, className="want-stake")]),
        ],
        className="want",
    )


def _goodput(view: FleetView) -> Markup:
    columns = [_column(each) for each in view.columns]
    axis = [instant(view.start), instant((view.start + view.end) // 2), instant(view.end)]
    key = [
        html.Span([html.I(className="fleet-training"), "training goodput"]),
        html.Span([html.I(className="fleet-infrastructure"), "infrastructure goodput"]),
        html.Span("every column is three hours; the height is 100 %"),
    ]
    said = (
        f"Training goodput {text.share(view.now.training_goodput)}, infrastructure goodput "
        f"{text.share(view.now.infrastructure_goodput)} over seven days"
    )
    picture = html.Div(columns, className="fleet-line", role="img", **{"aria-label": said})
    drawn = [html.Div(key, className="fleet-key"), picture, html.Div(axis, className="fleet-axis")]
    return panel("Goodput over seven days", drawn, "goodput", wide=True)


def _column(each: FleetSum) -> Markup:
    training, infrastructure = each.training_goodput, each.infrastructure_goodput
    if training is None or infrastructure is None:
        return html.Span(className="fleet-column", title="no run lived then")
    hint = f"training {text.share(training)}, infrastructure {text.share(infrastructure)}"
    return html.Span(
        [
            html.I(className="fleet-infrastructure", style={"height": f"{infrastructure * 100:.1f}%"}),
            html.I(className="fleet-training", style={"height": f"{training * 100:.1f}%"}),
        ],
        className="fleet-column",
        title=hint,
    )


def _phases(view: FleetView) -> Markup:
    before = dict(view.before.lost_gpu_ns)
    costs = [(phase, cost, before.get(phase, 0)) for phase, cost in view.now.lost_gpu_ns]
    if not costs:
        why = "Unknown: no run told its GPUs." if view.now.uncounted_ns else "Nothing was lost."
        return panel("Lost by phase", html.P(why, className="calm"), "phases")
    most = costs[0][1]
    rows = [_cost(text.PHASES[phase], cost, old, most, phase) for phase, cost, old in costs[:10]]
    return panel("Lost by phase", [_cost_head(), *rows], "phases", lead="GPU-hours that moved no run forward.")


def _cost_head() -> Markup:
    return html.Div(
        [html.Span(), html.Span(className="fleet-place"), html.Span("7 days", className="number muted"),
         html.Span("7 before", className="number muted fleet-old")],
        className="fleet-cost",
    )  # fmt: skip


def _cost(name: Content, cost: int | None, old: int | None, most: int, phase: Phase | None = None) -> Markup:
    width = 0 if not most or cost is None else cost * 100 / most
    bar = html.I(className=f"fleet-bar {phase_class(phase) if phase else ''}".strip(), style={"width": f"{width:.1f}%"})
    return html.Div(
        [
            html.Span(name),
            html.Span(bar, className="fleet-place"),
            html.Span(text.gpu_hours(cost, text.DASH), className="number"),
            html.Span(text.gpu_hours(old, text.DASH), className="number muted fleet-old"),
        ],
        className="fleet-cost",
    )


def _causes(causes: Sequence[CauseCost]) -> Markup:
    if not causes:
        return panel("Lost by cause", html.P("No run failed in these two weeks.", className="calm"), "causes")
    most = max((each.lost_gpu_ns or 0 for each in causes), default=0)
    rows = [
        _cost(
            [link(text.headline(text.cause(each.cause)), f"/problems?cause={each.cause}"), f" × {each.incidents}"],
            each.lost_gpu_ns, each.lost_gpu_before_ns, most,
        )
        for each in causes[:10]
    ]  # fmt: skip
    lead = "GPU-hours from the start to the end of each incident; of open ones what is known so far."
    return panel("Lost by cause", [_cost_head(), *rows], "causes", lead=lead)


def _recoveries(recoveries: Sequence[ScopeRecovery]) -> Markup:
    if not recoveries:
        return panel("Time to recover", html.P("Nothing had to recover.", className="calm"), "recoveries")
    names = {scope.value: words for scope, words in text.SCOPES.items()}
    assert set(names) == {scope.value for scope in Scope}
    heads = (
        Head("scope", "wide"), Head("n", "number"), Head("p50", "number"), Head("p90", "number"), Head("max", "number"),
        Head("p50 before", "number"),
    )  # fmt: skip
    rows = [
        [
            names.get(each.scope, "not restarted yet"),
            text.number(each.n),
            text.duration(each.p50_ns, text.DASH),
            text.duration(each.p90_ns, text.DASH),
            text.duration(each.max_ns, text.DASH),
            "–" if not each.n_before else f"{text.duration(each.p50_before_ns)} of {each.n_before}",
        ]
        for each in recoveries
    ]
    return panel("Time to recover", table(heads, rows, "Time to recover by scope"), "recoveries")


def _lemons(view: FleetView) -> Markup:
    if not view.lemons:
        said = "No node is known to fail more often than chance explains. "
        about = html.P([said, link("All nodes", NODES)], className="calm")
        return panel("Lemon nodes", about, "lemons")
    rows = [
        html.Li(
            [
                link(each.node, node_path(each.node)),
                f": {text.count(each.blamed, 'fault')} in {text.count(each.runs, 'run')}",
            ]
        )
        for each in view.lemons
    ]
    return panel("Lemon nodes", html.Ul(rows, className="plain-list"), "lemons", lead=link("all nodes", NODES))


def _teach() -> Markup:
    return empty(
        "This server has not heard of any run.",
        "A run appears with its first fact. See one train, fail and recover; follow your own; or bring the past:",
        "rerail demo --url {server}",
        "rerail agent --url {server} --run my-run --launcher-log train.log",
        "rerail import logs train.log --run my-run --url {server}",
    )
