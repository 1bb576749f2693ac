"""Where the time of a run went: the loss waterfall, time by phase, and the incidents."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rerail.server.core.facts import Outcome, Phase
from rerail.server.core.view import Account, Incident, RunView
from rerail.ui import text
from rerail.ui.address import incident_path
from rerail.ui.elements import (
    Head,
    badge,
    copy_table_button,
    count_figure,
    empty,
    folded,
    instant,
    link,
    panel,
    parts_bar,
    phase_class,
    swatch,
    table,
)
from rerail.ui.figures.waterfall import waterfall_bars
from rerail.ui.markup import Content, Markup, html
from rerail.ui.theme import ORDER, PHASE_OF_KIND


def losses(view: RunView, window: Account | None = None) -> list[Markup]:
    """The waterfall and the phases, of the whole run or of the window that the picture shows.

    Where machines or dumps speak and nobody told of an attempt, there is nothing to draw: what would change that
    stands there instead, and in place of the timeline (`#no-timeline` in `assets/style.css`).
    """
    if not view.account.elapsed_ns and (view.machines_say or view.dumps_say is not None):
        return [_nothing_to_draw(view)]
    return [waterfall_panel(view, window), phases_panel(view, window)]


def _nothing_to_draw(view: RunView) -> Markup:
    run = shlex.quote(view.run_id)
    body = empty(
        "No timeline and no losses: nobody told of an attempt.",
        "What was said stands below. A launcher's log tells when the run ran; so does an agent beside its ranks:",
        f"rerail import logs train.log --run {run} --url {{server}}",
        f"rerail agent --url {{server}} --run {run} --launcher-log train.log",
    )
    return panel("Timeline", body, "no-timeline", wide=True)


def _window_gpus(view: RunView) -> int | None:
    """The GPUs that the run had all the time; None where that changed or is not known."""
    told = {each.gpus for each in view.attempts}
    return told.pop() if len(told) == 1 else None


def _window_lead(window: Account) -> list[Content]:
    whole = html.Button("show the whole run", type="button", className="quiet-button", **{"data-range": "all"})
    about = ". The rows add up; ground not yet regained counts in the whole run only. "
    return ["Of what the timeline shows, ", instant(window.start), " – ", instant(window.end), about, whole]


def waterfall_panel(view: RunView, window: Account | None = None) -> Markup:
    """From 100 % to training goodput, loss by loss."""
    account = view.account if window is None else window
    if window is not None:
        gpus = _window_gpus(view)
        weighted = {} if gpus is None else {row.name: row.length_ns * gpus for row in window.waterfall}
    else:
        weighted = {} if view.gpu_account is None else {row.name: row.length_ns for row in view.gpu_account.waterfall}
    rows = []
    for bar in waterfall_bars(account.waterfall):
        if bar.kind is None:
            fill = "level" if bar.name != "training_goodput" else "level level-goodput"
        else:
            fill = phase_class(PHASE_OF_KIND[bar.kind])
        is_nothing = bar.kind is not None and bar.length_ns == 0
        is_unseen = not view.sees_training and bar.name in ("infrastructure_goodput", "training_goodput")
        is_unknown = is_unseen and (bar.name == "training_goodput" or not account.faults_ns)
        cost = weighted.get(bar.name)
        sign = "−" if bar.kind is not None and bar.length_ns else "≤ " if is_unseen else ""
        rows.append(
            html.Tr(
                [
                    html.Th(bar.label, scope="row"),
                    html.Td(
                        html.Div(
                            html.Span(
                                className=f"fall {fill}",
                                style={"left": f"{bar.left * 100:.3f}%", "width": f"{bar.width * 100:.3f}%"},
                            ),
                            className="fall-track",
                        ),
                        className="wide",
                    ),
                    html.Td(
                        text.UNKNOWN
                        if is_unknown
                        else text.DASH
                        if is_nothing
                        else [sign, text.share(bar.share, text.DASH)],
                        className="number",
                    ),
                    html.Td(text.duration(bar.length_ns) if not (is_nothing or is_unknown) else "", className="number"),
                    html.Td(
                        "" if cost is None or is_nothing or is_unknown else text.gpu_hours(cost),
                        className="number muted",
                    ),
                ],
                className="row-level" if bar.kind is None else "row-nothing" if is_nothing else None,
            )
        )
    body = html.Table(
        [
            html.Caption("Loss waterfall: the rows add up exactly", className="unseen"),
            html.Thead(
                html.Tr([html.Td(), html.Td(), html.Th("share"), html.Th("time"), html.Th("GPU-h")]),
                className="unseen",
            ),
            html.Tbody(rows),
        ],
        className="table waterfall",
    )
    return panel(
        "Loss waterfall",
        [html.Div(body, className="table-frame"), _facts(view, account)],
        "waterfall",
        lead="From all the time there was to the time that moved the run forward. The rows add up."
        if window is None
        else _window_lead(window),
        actions=copy_table_button(),
    )


def phases_panel(view: RunView, window: Account | None = None) -> Markup:
    """Every phase that occurred, with its share: the legend of the picture, with numbers."""
    account = view.account if window is None else window
    by_phase = dict(account.ns_by_phase)
    elapsed = account.elapsed_ns
    rows: list[Sequence[Content]] = []
    for phase in ORDER:
        length = by_phase.get(phase, 0)
        if length:
            of = None if phase is Phase.EXCLUDED or not elapsed else length / elapsed
            name = html.Span([swatch(phase), text.PHASES[phase]], title=text.PHASE_MEANINGS[phase])
            rows.append((name, text.share(of, text.DASH), text.duration(length)))
    content: list[Markup] = [
        table((Head("phase", "wide"), Head("share", "number"), Head("time", "number")), rows, "Time by phase")
    ]
    if account.debt_ns:
        content.append(
            html.P(
                f"{text.duration(account.debt_ns)} of training is lost again as long as the run stands below its "
                "high-water step; the waterfall counts it as rework.",
                className="note",
            )
        )
    return panel(
        "Time by phase",
        content,
        "phases",
        lead="Every instant has exactly one." + ("" if window is None else " Of what the timeline shows."),
    )


def _facts(view: RunView, account: Account) -> Markup:
    """Figures that stand beside the waterfall; of a window only those that can be told of it."""
    facts = []
    if account.longest_unproductive_ns is not None and view.sees_training:
        facts.append(("longest stretch without progress", text.duration(account.longest_unproductive_ns)))
    if account.checkpoint_efficiency is not None:
        # Where no save was told there is nothing that could have cost: that is not known to be 100 %.
        is_told = view.checkpoint.count or Phase.SAVING in dict(account.ns_by_phase)
        efficiency = text.share(account.checkpoint_efficiency) if is_told else text.UNKNOWN
        facts.append(("checkpoint efficiency", efficiency))
    if account is not view.account:
        return html.Div([count_figure(value, name) for name, value in facts], className="counts counts-foot")
    if view.undisturbed_step_ns is not None:
        facts.append(("undisturbed step", text.duration(view.undisturbed_step_ns)))
    if view.checkpoint_slowdown is not None:
        facts.append(("step time with a write in flight", f"× {view.checkpoint_slowdown:.2f}"))
    if view.hidden_checkpoint_ns is not None:
        facts.append(("hidden checkpoint cost", text.duration(view.hidden_checkpoint_ns)))
    if view.slowdown_ns is not None:
        facts.append(("steps slower than undisturbed", text.duration(view.slowdown_ns)))
    return html.Div([count_figure(value, name) for name, value in facts], className="counts counts-foot")


def incidents_panel(view: RunView) -> Markup:
    """One row per loss of forward progress."""
    incidents = sorted(view.incidents, key=lambda incident: incident.started_at, reverse=True)
    if not incidents:
        calm = "Nothing stopped this run." if view.sees_training else "Nothing that stopped this run was told."
        calm = "It was stopped by request, and nothing else stopped it." if view.outcome is Outcome.STOPPED else calm
        if not view.account.elapsed_ns:
            calm = "Nobody told of an attempt." if view.machines_say or view.dumps_say else "Nothing has happened yet."
        return panel("Incidents", html.P(calm, className="calm"), "incidents")
    longest = max(incident.so_far_ns for incident in incidents)
    heads = (
        Head("when"),
        Head("cause", "wide"),
        Head("restart", "words"),
        Head("anatomy", hint="detecting → … → catch-up; as long as the time to recover"),
        Head("to restart", "number", "until training stepped again"),
        Head("to recover", "number", "until the high-water step was passed again"),
        Head("lost", "number", "steps that had to be redone"),
        Head("GPU-h", "number"),
    )
    rows = [_incident_row(incident, longest) for incident in incidents]
    planned = sum(incident.is_planned for incident in incidents)
    lead = text.count(len(incidents) - planned, "incident").capitalize()
    lead += f", {text.count(planned, 'planned restart')}" if planned else ""
    return panel(
        "Incidents",
        folded(heads, rows, "Incidents, newest first"),
        "incidents",
        lead=lead + ". From the last completed step to the instant lost ground was regained."
        if view.sees_training
        else lead + ". From the notice until it ran again: what ground was lost is not known.",
        actions=copy_table_button(),
        wide=True,
    )


def _incident_row(incident: Incident, longest: int) -> Sequence[Content]:
    verdict = incident.verdict
    name = "planned restart" if incident.is_planned else text.cause(verdict.cause)
    state = badge("open", "danger") if incident.is_open else None
    about: list[Content] = [badge("out of account", "outline") if incident.is_excluded else state]
    if not incident.is_planned:
        about.append(html.Span(text.DOMAINS[verdict.domain]))
    if verdict.culprit_rank is not None:
        about.append(html.Span(f"rank {verdict.culprit_rank}"))
    if verdict.culprit_node is not None:
        about.append(html.Span(verdict.culprit_node))
    if incident.failed_relaunches:
        about.append(html.Span(text.count(incident.failed_relaunches, "failed relaunch", "failed relaunches")))
    return (
        link(instant(incident.started_at), incident_path(incident.incident_id), "nowrap"),
        html.Div(
            [
                html.Span([link(name, incident_path(incident.incident_id), "strong"), *about[:1]], className="cause"),
                html.Div([*about[1:], html.Span(verdict.sentence)], className="under"),
            ],
        ),
        text.DASH if incident.scope is None else text.SCOPES[incident.scope],
        anatomy_bar(incident, longest),
        _to_restart(incident),
        [
            "at least " if incident.is_down_untold or incident.is_step_untold else "",
            text.duration(incident.so_far_ns),
            " so far" if incident.is_open else "" if incident.ended_at else ", never",
        ],
        text.at_least(text.number(incident.lost_steps), incident.told_every)
        if incident.lost_steps is not None
        else "not yet"
        if incident.is_open
        else text.DASH,
        text.gpu_cost(incident, text.DASH),
    )


def _to_restart(incident: Incident) -> str:
    """A plain length, as tables are saved as values; a dash where nobody told of any of it."""
    if incident.restarted_at is None:
        return text.to_restart(incident)
    return (
        text.DASH
        if (incident.untold_ns or incident.is_down_untold) and not incident.time_to_restart_ns
        else text.duration(incident.time_to_restart_ns)
    )


def anatomy_bar(incident: Incident, longest: int | None = None) -> Markup:
    """The parts of an incident as a bar; with `longest` its length compares with others."""
    whole = incident.so_far_ns
    parts = [
        (
            part_class(part.name),
            text.PARTS.get(part.name, part.name),
            part.length_ns / whole,
            text.duration(part.length_ns),
        )
        for part in incident.parts
        if whole
    ]
    said = ", ".join(f"{name} {length}" for _, name, _, length in parts)
    bar = parts_bar(parts, said or "nothing")
    if longest is None:
        return bar
    return html.Div(
        html.Div(bar, style={"width": f"{max(100 * whole / longest if longest else 0, 1.5):.2f}%"}), className="anatomy"
    )


def part_class(name: str) -> str:
    """The class of a part of an incident: its phase's, and rework's for the catch-up."""
    return phase_class(Phase.RECOMPUTING if name == "catch_up" else Phase(name))
