"""How often a run failed and how long recovery took: rates with their limits, distributions with their n."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rerail.server.core.recovery import GROUPINGS
from rerail.server.core.view import FailureRates, Percentiles, RecoveryDistribution, RunView
from rerail.ui import text
from rerail.ui.address import incident_path
from rerail.ui.elements import Head, copy_table_button, count_figure, panel, table
from rerail.ui.figures.strip import recovery_strip
from rerail.ui.markup import Content, Markup, html


def recovery_panel(view: RunView) -> Markup:
    """Failure rates, every recovery as a dot, then the distributions by group."""
    if not view.recovery:
        return html.Div(id="recovery")
    rows = [
        _row(each)
        for each in sorted(view.recovery, key=lambda each: (GROUPINGS.index(each.grouped_by), -each.incidents))
        if not _says_nothing(each, view.recovery)
    ]
    heads = (
        Head("group", "wide"),
        Head("n", "number", "recovered, of how many incidents"),
        Head("restart p50", "number", "detection until the checkpoint is loaded"),
        Head("recover p50", "number", "until the lost ground is regained"),
        Head("p90", "number"),
        Head("p95", "number"),
        Head("max", "number"),
        Head("dead relaunches", "number", "attempts that ended before the lost ground was regained"),
        Head("lost steps", "number"),
        Head("lost", "number", "from start to end of the incidents"),
    )
    return panel(
        "Faults and recovery",
        [_rates(view.rates), *_strip(view), table(heads, rows, "Time to recover by group")],
        "recovery",
        lead="How often it failed, and how long it took to regain the ground; each recovery is a dot on a logarithmic "
        "scale.",
        actions=copy_table_button(),
        wide=True,
    )


def _rates(rates: FailureRates) -> Markup:
    facts = [
        (
            "faults",
            text.number(rates.faults),
            "unplanned incidents; relaunches that died within one are the same fault",
        ),
        ("mean time to failure", text.mttf(rates), "up-time ÷ faults, with the exact 95 % Poisson limits"),
        ("mean time between failures", text.duration(rates.mtbf_ns), "elapsed time ÷ faults"),
    ]
    if rates.per_1000_node_days is not None and rates.per_1000_node_days_high is not None:
        limits = f"{rates.per_1000_node_days_low:.3g} to {rates.per_1000_node_days_high:.3g}"
        rate = f"{rates.per_1000_node_days:.3g} ({limits})"
        facts.append(("faults per 1,000 node-days", rate, "with the exact 95 % Poisson limits"))
    return html.Div([count_figure(value, name, about) for name, value, about in facts], className="counts")


def _strip(view: RunView) -> list[Markup]:
    recovered = [
        incident
        for incident in view.unplanned_incidents
        if incident.time_to_recover_ns is not None and not incident.is_down_untold
    ]
    if not recovered:
        return []
    strip = recovery_strip([(incident.incident_id, incident.so_far_ns) for incident in recovered])
    by_id = {incident.incident_id: incident for incident in recovered}
    dots = [
        html.A(
            className="dot-mark",
            href=incident_path(dot.key),
            style={"left": f"{dot.position * 100:.2f}%", "bottom": f"{dot.row * 12 + 6}px"},
            title=f"{text.cause(by_id[dot.key].verdict.cause)}: {text.duration(by_id[dot.key].so_far_ns)}",
            **{"aria-label": f"{text.cause(by_id[dot.key].verdict.cause)}, {text.duration(by_id[dot.key].so_far_ns)}"},
        )
        for dot in strip.dots
    ]
    marks = [
        html.Span(text.duration(length), className="strip-mark", style={"left": f"{position * 100:.2f}%"})
        for length, position in strip.marks
    ]
    return [html.Div([*dots, *marks], className="strip", style={"height": f"{max(strip.rows, 1) * 12 + 36}px"})]


def _says_nothing(each: RecoveryDistribution, every: Sequence[RecoveryDistribution]) -> bool:
    """A grouping in which nothing is told apart, because the one thing it asks for was never told."""
    siblings = [other for other in every if other.grouped_by == each.grouped_by]
    return each.group == "unknown" and len(siblings) == 1 and each.grouped_by in ("initiator", "config")


def _row(each: RecoveryDistribution) -> Sequence[Content]:
    recover, restart = each.recover, each.restart
    n = 0 if recover is None else recover.n
    lost = text.gpu_hours(each.lost_gpu_ns, text.DASH)
    return (
        html.Span([html.Span(_GROUPINGS[each.grouped_by], className="muted tag"), _name(each)]),
        text.number(n) if n == each.incidents else f"{text.number(n)} of {text.number(each.incidents)}",
        text.DASH if restart is None else text.duration(restart.p50_ns),
        text.DASH if recover is None else text.duration(recover.p50_ns),
        _tail(recover, 10, lambda of: of.p90_ns),
        _tail(recover, 20, lambda of: of.p95_ns),
        text.DASH if recover is None else text.duration(recover.max_ns),
        text.number(each.failed_relaunches),
        text.DASH
        if each.lost_steps is None
        else f"{'at least ' if each.is_loss_least else ''}{text.number(each.lost_steps)}",
        lost,
    )


_GROUPINGS = {"all": "all", "scope": "scope", "cause": "cause", "initiator": "who", "config": "settings"}


def _name(each: RecoveryDistribution) -> str:
    if each.grouped_by == "all":
        return "every incident"
    if each.grouped_by == "scope":
        return f"restart {each.group.replace('_', ' ')}"
    if each.grouped_by == "cause":
        return text.cause(each.group)
    if each.grouped_by == "initiator":
        return {"automatic": "restarted automatically", "manual": "restarted by a person"}.get(each.group, "not told")
    return "not told" if each.group == "unknown" else each.group


def _tail(percentiles: Percentiles | None, least: int, of: Callable[[Percentiles], int]) -> str:
    """A percentile that rests on enough, or what it is instead."""
    if percentiles is None:
        return text.DASH
    return text.duration(of(percentiles)) if percentiles.n >= least else f"max of {percentiles.n}"
