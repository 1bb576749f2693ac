"""Configs: what do we run with, and how does each hold up?"""

from __future__ import annotations

from collections.abc import Sequence

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.recovery_configs.knobs import RecoveryConfig, Setting, Standing
from rerail.server.core.view import Percentiles
from rerail.server.queries import Queries
from rerail.server.query_config_results import ConfigPage, ConfigRow
from rerail.ui import text
from rerail.ui.address import CONFIG_CHANGES, Address, compare_path, config_path
from rerail.ui.elements import Head, badge, empty, instant, link, table
from rerail.ui.lists import ROWS, ListKind, Wanted, pager
from rerail.ui.markup import Content, Markup, html
from rerail.ui.reading import in_thread
from rerail.ui.text import setting as value

PAGE = "configs"

KIND = ListKind(
    "configs",
    "Search fingerprint, setting, run   /",
    "which",
    (("", "All"),),
    (
        ("last_at", "Used last"),
        ("incidents", "Most faults"),
        ("training_goodput", "Training goodput"),
        ("infrastructure_goodput", "Infrastructure goodput"),
        ("runs", "Most runs"),
        ("elapsed_ns", "Used longest"),
    ),
)

HEADS = (
    Head("config", "wide"),
    Head("runs", "number"),
    Head("attempts", "number"),
    Head("training", "number", "Training goodput of the time under it"),
    Head("infrastructure", "number", "Infrastructure goodput of the time under it"),
    Head("faults", "number", "Unplanned incidents that began under it"),
    Head("time to recover", "words", "Of those that recovered: median, 90th percentile, longest, and how many"),
    Head("used last", "words"),
)

SHORT = ("checkpoint_interval_steps", "checkpoint_mode", "restart_scope", "max_restarts", "heartbeat_timeout")


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page."""
    wanted = KIND.wanted(search)
    return dash_html.Div(
        [
            dash_html.H1("Configs"),
            KIND.bar(wanted),
            KIND.shown(await in_thread(rows, queries, wanted)),
        ],
        className="page-body",
        id="configs-page",
        **{"data-title": "Configs"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callbacks of the list."""
    KIND.register(app, lambda wanted: rows(queries, wanted))


def rows(queries: Queries, wanted: Wanted) -> list[Content]:
    """What the list shows."""
    page = queries.configs.configs(wanted.search, wanted.sort, True, wanted.offset, ROWS)
    if not page.total and not wanted.search:
        return [_teach()]
    return [
        html.P(sentence(page), className="sentence"),
        html.P(
            [link("What changed, and what came of it", CONFIG_CHANGES), *_compare_link(page.rows)], className="note"
        ),
        html.Div(table(HEADS, [_row(row) for row in page.rows], "Configs", stacks=True), **{"data-walk": "rows"})
        if page.rows
        else html.P("No config matches.", className="calm"),
        pager(KIND, wanted, page.total),
    ]


def sentence(page: ConfigPage) -> str:
    """How many, and what is wrong with them."""
    said = text.headline(text.count(page.total, "recovery config"))
    wrong = sum(bool(row.violations) for row in page.rows)
    blind = sum(any("Hang detection is off" in remark for remark in row.config.remarks) for row in page.rows)
    if wrong:
        said += f"; {text.number(wrong)} with time-outs in the wrong order"
    if blind:
        said += f"; {text.number(blind)} without hang detection"
    return said + "."


def _compare_link(found: Sequence[ConfigRow]) -> list[Content]:
    sides = [f"config:{row.fingerprint}" for row in found[:4]]
    return [" · ", link("compare these", compare_path(sides))] if len(sides) > 1 else []


def _row(row: ConfigRow) -> Sequence[Content]:
    warnings = [badge("order of time-outs", "danger", " ".join(each.sentence for each in row.violations))]
    blind = [remark for remark in row.config.remarks if "Hang detection is off" in remark]
    return (
        [
            link(html.Strong(row.fingerprint), config_path(row.fingerprint)),
            html.Div(summary(row.config), className="under"),
            html.Div(
                [
                    *(warnings if row.violations else []),
                    *(badge("no hang detection", "warn", remark) for remark in blind),
                    badge(f"{row.contradicted_hangs} healthy killed?", "warn") if row.contradicted_hangs else None,
                ]
            ),
        ],
        text.number(row.runs),
        text.number(row.attempts),
        text.share(row.training_goodput),
        text.share(row.infrastructure_goodput),
        text.number(row.incidents) if row.incidents else text.DASH,
        recovery(row.recover),
        instant(row.last_at),
    )


def recovery(found: Percentiles | None) -> Content:
    """Median, p90, longest, n."""
    if found is None:
        return text.DASH
    return (
        f"{text.duration(found.p50_ns)} · p90 {text.duration(found.p90_ns)} · max {text.duration(found.max_ns)} "
        f"(n={found.n})"
    )


def summary(config: RecoveryConfig) -> str:
    """The settings that matter most, in a line."""
    said = [config.launcher or "launcher unknown"]
    for name in SHORT:
        setting = config.setting(name)
        if setting.is_known:
            said.append(f"{setting.knob.title} {value(setting)}")
    return ", ".join(said)


def standing(setting: Setting) -> Markup:
    """How it is known, as a word with a tone."""
    if setting.standing is Standing.STATED:
        return html.Span(["stated as ", html.Code(setting.source)], className="muted")
    if setting.standing is Standing.DEFAULT:
        return html.Span(f"default of {setting.source}", className="muted")
    return html.Span("unknown", className="muted")


def _teach() -> Markup:
    return empty(
        "No recovery settings were told yet.",
        "They come with attempts: the launcher's log states its flags, a recorder what the training script knows.",
        "rerail agent --url {server} --run my-run --launcher-log train.log",
        "rerail check launch.sh",
        "rerail demo --compare --recorded --url {server}",
    )
