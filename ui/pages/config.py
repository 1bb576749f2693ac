"""Config: what is set, how it is known, what is wrong with it, and how it differs from another."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.notes import MentionKind
from rerail.server.core.recovery_configs.changes import KnobChange
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.nesting import Violation
from rerail.server.queries import Queries
from rerail.server.query_config_results import ConfigDifference, ConfigRow, ConfigView
from rerail.ui import text
from rerail.ui.address import CONFIGS, Address, compare_path, config_path, run_path
from rerail.ui.elements import Head, badge, copy_table_button, folded, instant, link, panel, table, tile
from rerail.ui.markup import Content, Markup, html, island
from rerail.ui.pages.config_changes import change_table
from rerail.ui.pages.configs import recovery, standing, summary, value
from rerail.ui.pages.notes_part import named_in
from rerail.ui.reading import in_thread

PAGE = "config"

SETTING_HEADS = (
    Head("setting", "words"), Head("value", "words"), Head("how it is known", "words"), Head("", "wide"),
)  # fmt: skip


async def layout(queries: Queries, wanted: Address, search: str) -> Component:
    """The page of one config; with `against` in the address, of two."""
    against = next(iter(parse_qs(search.removeprefix("?")).get("against", [])), None)
    if against:
        shown = difference(await in_thread(queries.configs.config_difference, wanted.name, against))
    else:
        found = await in_thread(queries.configs.config, wanted.name)
        names = await in_thread(queries.notes.naming, MentionKind.CONFIG, found.row.fingerprint)
        shown = [*content(found), named_in(names)]
    return dash_html.Div(
        island(shown, "config-content"),
        id="config-page",
        className="page-body",
        **{"data-title": f"Config {wanted.name}"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Nothing on this page changes by itself."""


def content(found: ConfigView) -> list[Content]:
    """Everything of one config."""
    row = found.row
    return [
        _crumbs(row.fingerprint),
        html.Div([html.H1(f"Config {row.fingerprint}"), *_badges(row)], className="title-row"),
        html.P(_sentence(row), className="sentence"),
        *warnings(row.config, row.violations),
        html.Div(_tiles(row), className="tiles node-tiles"),
        settings_panel(row.config),
        _uses(found),
        panel(
            "Changes to it and from it",
            change_table(found.changes) if found.changes else html.P("None is known.", className="calm"),
            "changes",
            wide=True,
        ),
    ]


def warnings(config: RecoveryConfig, found: Sequence[Violation]) -> list[Content]:
    """What must be said aloud."""
    said = [html.P([badge("time-outs", "danger"), " ", each.sentence], className="note") for each in found]
    return [*said, *(html.P([badge("note", "warn"), " ", remark], className="note") for remark in config.remarks)]


def settings_panel(config: RecoveryConfig) -> Markup:
    """Every knob with its value and how it is known."""
    known: list[Sequence[Content]] = [
        (
            html.Span(each.knob.title, title=each.knob.meaning),
            html.Strong(value(each)),
            standing(each),
            each.knob.meaning,
        )
        for each in config.known
    ]
    unknown = [each.knob.title for each in config.settings if not each.is_known]
    parts: list[Content] = [
        table(SETTING_HEADS, known, "Settings"),
        html.P(f"Unknown: {', '.join(unknown)}.", className="note") if unknown else None,
    ]  # fmt: skip
    if config.refused:
        parts.append(
            html.P(
                "Not understood: " + "; ".join(f"{name} = {told} ({why})" for name, told, why in config.refused) + ".",
                className="note",
            )
        )
    return panel("Settings", parts, "settings", actions=copy_table_button(), wide=True)


def _sentence(row: ConfigRow) -> str:
    faults = text.count(row.incidents, "fault") if row.incidents else "no fault"
    return (
        f"{text.share(row.training_goodput)} training and {text.share(row.infrastructure_goodput)} infrastructure "
        f"goodput in {text.duration(row.elapsed_ns)} of {text.count(row.runs, 'run')}, with {faults}: "
        f"{summary(row.config)}."
    )


def _badges(row: ConfigRow) -> list[Content]:
    return [badge("order of time-outs", "danger")] if row.violations else []


def _tiles(row: ConfigRow) -> list[Markup]:
    return [
        tile("Training goodput", text.share(row.training_goodput), f"of {text.duration(row.elapsed_ns)}"),
        tile("Infrastructure goodput", text.share(row.infrastructure_goodput), "of the same time"),
        tile("Faults", text.number(row.incidents), f"in {text.count(row.attempts, 'attempt')}"),
        tile("Time to recover", text.DASH if row.recover is None else text.duration(row.recover.p50_ns),
             "nothing recovered yet" if row.recover is None
             else f"median of {row.recover.n}, max {text.duration(row.recover.max_ns)}"),
        tile("Healthy ranks killed", text.number(row.contradicted_hangs),
             "hang verdicts that longer healthy gaps contradict", tone="warn" if row.contradicted_hangs else ""),
        tile("Runs", text.number(row.runs), "used it", "#uses"),
    ]  # fmt: skip


def _uses(found: ConfigView) -> Markup:
    heads = (
        Head("run", "wide"), Head("attempts", "words"), Head("from", "words"), Head("training", "number"),
        Head("infrastructure", "number"), Head("time", "number"),
    )  # fmt: skip
    rows: list[Sequence[Content]] = [
        (
            link(each.name or each.run_id, run_path(each.run_id)),
            f"{each.first_attempt}–{each.last_attempt}",
            instant(each.started_at),
            text.share(each.training_goodput),
            text.share(each.infrastructure_goodput),
            text.duration(each.elapsed_ns),
        )
        for each in found.uses
    ]
    runs = list(dict.fromkeys(each.run_id for each in found.uses))[:6]
    lead: Content = link("compare these runs", compare_path([f"run:{run}" for run in runs])) if len(runs) > 1 else None
    return panel("Runs under it", folded(heads, rows, "Runs"), "uses", lead=lead, wide=True)


def difference(found: ConfigDifference) -> list[Content]:
    """Two configs side by side."""
    first, second = found.first, found.second
    said = text.count(len(found.knobs), "setting differs", "settings differ")
    sides = compare_path([f"config:{first.fingerprint}", f"config:{second.fingerprint}"])
    return [
        _crumbs(f"{first.fingerprint} against {second.fingerprint}"),
        html.H1("How two configs differ"),
        html.P([text.headline(said), ". ", link("Compare what happened under them", sides)], className="sentence"),
        panel("Settings that differ", knob_table(found.knobs, first.fingerprint, second.fingerprint), "settings",
              actions=copy_table_button(), wide=True),
        panel(
            "What happened",
            table(
                (Head("config", "wide"), Head("training", "number"), Head("infrastructure", "number"),
                 Head("faults", "number"), Head("time to recover", "words")),
                [
                    (link(row.fingerprint, config_path(row.fingerprint)), text.share(row.training_goodput),
                     text.share(row.infrastructure_goodput), text.number(row.incidents), recovery(row.recover))
                    for row in (first, second)
                ],
                "Both configs",
            ),
            "what-happened",
            wide=True,
        ),
    ]  # fmt: skip


def knob_table(knobs: Sequence[KnobChange], first: str, second: str) -> Markup:
    """Old and new of settings."""
    if not knobs:
        return html.P("No setting differs, as far as both are known.", className="calm")
    heads = (Head("setting", "words"), Head(first, "wide"), Head(second, "wide"))
    return table(
        heads, [(each.old.knob.title, value(each.old), html.Strong(value(each.new))) for each in knobs], "Settings"
    )


def _crumbs(name: str) -> Markup:
    return html.Div([link("Configs", CONFIGS), html.Span("/", className="muted"), name], className="crumbs")
