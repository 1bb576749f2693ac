"""Compare: which recovery config is better, and is it really?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.comparison.article import ARTICLE
from rerail.server.core.comparison.comparing import MOST_ARMS, ROW_WORDS, ArmFigures, Difference
from rerail.server.core.comparison.likeness import CaveatLevel
from rerail.server.core.comparison.pairing import PairedBy
from rerail.server.core.comparison.resampling import Interval
from rerail.server.queries import Queries
from rerail.server.query_config_results import ComparisonView
from rerail.ui import text
from rerail.ui.address import Address, compare_path, config_path, run_path
from rerail.ui.elements import Head, badge, copy_table_button, empty, link, panel, table
from rerail.ui.figures.recovery_curves import Curve, recovery_figure
from rerail.ui.markup import Content, Markup, html, island
from rerail.ui.pages.config import knob_table
from rerail.ui.reading import in_thread

PAGE = "compare"

INK = "#7a828c"
GRID = "rgba(128,128,128,0.25)"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
OFFERED = 30
"""Configs and runs, each, that the field for one more side offers."""

GRAPH = {"displaylogo": False, "displayModeBar": False, "responsive": True}


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page; its sides are in the address, `with=` each."""
    wanted = list(dict.fromkeys(each.strip() for each in parse_qs(search.removeprefix("?")).get("with", [])))
    unknown = await in_thread(queries.configs.unknown_sides, wanted)
    sides = _sides(wanted, await in_thread(_offered, queries, ""), unknown)
    known = [each for each in wanted if each not in unknown]
    if len(known) < 2:
        about = await in_thread(_start, queries) if not unknown and not known else _one_more(known)
        return _page([island(html.H1("Compare"), "compare-title"), sides, island(about, "compare-content")])
    try:
        view = await in_thread(queries.configs.compare, known)
    except ValueError as error:
        said = html.P(text.headline(str(error)) + ".")
        return _page([island(html.H1("Compare"), "compare-title"), sides, island(said, "compare-content")])
    return _page(
        [
            island(html.H1("Compare"), "compare-title"),
            sides,
            island(head(view), "compare-content"),
            dash_html.Section(
                [
                    dash_html.Header(dash_html.H2("How soon training had its ground back"), className="panel-head"),
                    dcc.Graph(id="compare-curves", figure=_curves(view), config=GRAPH),
                ],
                className="panel panel-wide",
            ),
            island(rest(view), "compare-rest"),
        ]
    )


def _page(parts: Sequence[Component]) -> Component:
    return dash_html.Div(list(parts), className="page-body", id="compare-page", **{"data-title": "Compare"})


def _offered(queries: Queries, typed: str) -> list[str]:
    """What a side can be chosen from: runs and configs that hold what is typed, by their names too, and references."""
    words = typed.strip().lower().removeprefix("run:").removeprefix("config:")
    references = [name for name in ARTICLE if not words or words in name]
    return [*queries.configs.sides_like(words, OFFERED), *references]


def _one_more(known: Sequence[str]) -> Content:
    """What is missing for a comparison."""
    if not known:
        return html.P("Two to six runs or configs are compared, each against the first. Add two.", className="sentence")
    return html.P(f"One side: {known[0].removeprefix('run:')}. Add another to compare it with.", className="sentence")


def _sides(wanted: Sequence[str], offered: Sequence[str], unknown: Mapping[str, str]) -> Component:
    """The sides as they stand, each with a way out, those that are not known said so, and a field for one more."""
    chosen = list(dict.fromkeys(wanted))
    taken = {each.removeprefix("run:") for each in chosen}
    told: list[Content] = []
    for index, side in enumerate(chosen):
        rest = [each for each in chosen if each != side]
        told.append(
            html.Span(
                [
                    html.Span("against " if not index else "", className="muted"),
                    side.removeprefix("run:"),
                    " ",
                    badge(unknown[side], "danger") if side in unknown else None,
                    link("make first", compare_path([side, *rest]), "side-way")
                    if index and side not in unknown
                    else None,
                    html.A("×", href=compare_path(rest), className="side-way", **{"aria-label": f"without {side}"}),
                ],
                className="side",
            )
        )
    field = [
        dmc.Autocomplete(
            id="compare-add",
            data=[each for each in offered if each.removeprefix("run:") not in taken],
            placeholder="Add a run or config",
            limit=OFFERED,
            openOnFocus=True,
            size="sm",
            className="search",
            **{"aria-label": "Add a run or config"},
        ),
        dcc.Store(id="compare-chosen", data=chosen),
        dash_html.Button("Add", type="button", className="quiet-button", **{"data-do": "add-side"}),
    ]
    return dash_html.Div(
        [island(told, "compare-sides", "sides"), *(field if len(chosen) < MOST_ARMS else [])], className="filters"
    )


def register(app: Dash, queries: Queries) -> None:
    """What the field for one more side offers follows what is typed."""

    @app.callback(
        Output("compare-add", "data"),
        Input("compare-add", "value"),
        State("compare-chosen", "data"),
        prevent_initial_call=True,
    )
    async def offer(typed: str | None, chosen: Sequence[str] | None) -> list[str]:
        taken = {each.removeprefix("run:") for each in chosen or ()}
        offered = await in_thread(_offered, queries, typed or "")
        return [each for each in offered if each.removeprefix("run:") not in taken]


def _start(queries: Queries) -> Content:
    page = queries.configs.configs(sort="incidents", limit=6)
    sides = [f"config:{row.fingerprint}" for row in page.rows if row.incidents][:4]
    arms = [row.run_id for row in queries.runs("demo arms", sort="run_id", descending=False, limit=6).rows]
    about: list[Content] = ["Two to six runs or configs, each against the first. "]
    if len(arms) > 1:
        about += [link("The demonstration's arms", compare_path([f"run:{run}" for run in arms])), ". "]
    if len(sides) > 1:
        about += [link("The configs with the most faults", compare_path(sides)), ". "]
    about += [link("The article's three arms, as its vendor reported them", compare_path(list(ARTICLE))), "."]
    return empty(
        "Which recovery config is better, and is it really?",
        about,
        "rerail demo --compare --recorded --url {server}",
        "rerail compare RUN RUN",
    )


def head(view: ComparisonView) -> list[Content]:
    """The sentence, what stands in the way, and both goodputs."""
    caveats: list[Content] = []
    seen: set[str] = set()
    for difference in view.comparison.differences:
        for caveat in difference.caveats:
            if caveat.sentence not in seen:
                seen.add(caveat.sentence)
                tone = "danger" if caveat.level is CaveatLevel.REFUSED else "warn"
                caveats.append(html.Li([badge(caveat.level.value, tone), " ", caveat.sentence]))
    return [
        html.P(view.comparison.sentence, className="sentence"),
        panel("Like for like?", html.Ul(caveats), "likeness", wide=True) if caveats else None,
        panel(
            "Both goodputs, and recovery",
            table(HEADS, [_arm(each) for each in view.comparison.arms], "Sides of the comparison", stacks=True),
            "sides",
            lead="Under a figure its 95 % limits by the bootstrap; below three faults there are none.",
            actions=copy_table_button(),
            wide=True,
        ),
    ]


HEADS = (
    Head("side", "wide"),
    Head("training", "number"),
    Head("infrastructure", "words"),
    Head("faults", "number"),
    Head("relaunches failed", "number folds"),
    Head("p50", "words"),
    Head("p90", "words"),
    Head("p99", "words"),
    Head("max", "words"),
    Head("noticed after", "words folds", "Median time to notice a fault"),
    Head("per 1,000 kept steps", "words folds", "GPU-hours; time where no GPU number was told"),
)


def _arm(figures: ArmFigures) -> Sequence[Content]:
    arm = figures.arm
    quantiles = dict(figures.quantiles)
    path = run_path(arm.runs[0]) if len(arm.runs) == 1 else None
    if arm.config is not None and arm.key.startswith("config:"):
        path = config_path(arm.key.removeprefix("config:"))
    title: Content = link(html.Strong(arm.title), path) if path else html.Strong(arm.title)
    low, high = figures.infrastructure_low, figures.infrastructure_high
    limits = None if low is None or high is None else _limits(f"{text.share(low)} to {text.share(high)}")
    cost = arm.gpu_ns_per_1000_steps
    time_cost = arm.ns_per_1000_steps
    return (
        [title, html.Div(badge("vendor-reported", "outline"), className="under") if arm.is_reference else None],
        text.share(arm.training_goodput),
        [text.share(arm.infrastructure_goodput), limits],
        text.number(len(arm.faults)),
        text.number(figures.failed_relaunches),
        *(_interval(quantiles.get(name)) for name in ("p50", "p90")),
        _interval(quantiles.get("p99")) if figures.recovered >= 20 else f"max of {figures.recovered}",
        f"{text.duration(figures.max_ns, text.DASH)} (n={figures.recovered})",
        _interval(figures.detecting_p50),
        text.gpu_hours(round(cost))
        if cost is not None
        else text.duration(None if time_cost is None else round(time_cost)),
    )


def _limits(said: str) -> Markup:
    return html.Div(said, className="under nowrap")


def _interval(each: Interval | None) -> Content:
    if each is None:
        return text.DASH
    shown = text.duration(round(each.figure))
    if each.low is None or each.high is None:
        return f"{shown} (n={each.n})"
    between = f"{text.duration(round(each.low))} to {text.duration(round(each.high))}"
    return [f"{shown} (n={each.n})", _limits(between)]


def rest(view: ComparisonView) -> list[Content]:
    """Each side against the first, row by row."""
    titles = {each.arm.key: each.arm.title for each in view.comparison.arms}
    return [_difference(each, titles) for each in view.comparison.differences]


def _difference(each: Difference, titles: dict[str, str]) -> Markup:
    paired = {
        PairedBy.SCHEDULE: f"{text.count(len(each.pairing.pairs), 'pair')} of faults of one schedule",
        PairedBy.STEPS: f"{text.count(len(each.pairing.pairs), 'pair')} of faults at the same steps",
        PairedBy.NOTHING: "faults are not paired: nothing says that they are the same",
    }[each.pairing.paired_by]
    first, second = titles[each.first], titles[each.second]
    rows: list[Sequence[Content]] = [
        (text.headline(ROW_WORDS.get(row.name, row.name)), text.share(row.first), text.share(row.second),
         _points(row.gain), _bar(row.gain))
        for row in each.rows
    ]  # fmt: skip
    if each.training is not None:
        rows.append(("Training goodput", "", "", html.Strong(_points(each.training)), ""))
    heads = (
        Head("loss", "words"), Head(first, "number"), Head(second, "number"),
        Head("gain", "number", "Points of elapsed time that the second loses less"), Head("", "wide"),
    )  # fmt: skip
    knobs: Content = (
        html.P("How their configs differ is not known.", className="calm")
        if each.knobs is None
        else knob_table(each.knobs, first, second)
    )
    body: list[Content] = [
        html.P(each.sentence),
        html.P(text.headline(paired) + ".", className="note"),
        table(heads, rows, "Difference by phase") if rows else None,
        html.H3("Settings that differ"),
        knobs,
    ]
    panel_id = "against-" + "".join(letter if letter.isalnum() else "-" for letter in each.second)
    return panel(f"{second} against {first}", body, panel_id, wide=True)


def _points(gain: float) -> str:
    return f"{gain * 100:+.1f} points".replace("-", "−")


def _bar(gain: float) -> Markup:
    width = min(50.0, abs(gain) * 100)
    tone = "gain-good" if gain > 0 else "gain-bad"
    words = f"{_points(gain)}"
    return html.Span(
        html.Span(className=tone, style={"width": f"{width:.2f}%", "left": f"{50 if gain > 0 else 50 - width:.2f}%"}),
        className="gain",
        role="img",
        **{"aria-label": words},
    )


def _curves(view: ComparisonView) -> object:
    curves = [
        Curve(each.arm.title, each.recovered, tuple((length / 1e9, share) for length, share in each.curve))
        for each in view.comparison.arms
    ]
    return recovery_figure(curves, INK, GRID, COLOURS)
