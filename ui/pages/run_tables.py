"""What stands under the picture of a run: waterfall, incidents, recovery, attempts, checkpoints, heartbeats."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.facts import Phase
from rerail.server.core.view import Attempt, Checkpoint, Incident, RecoveryDistribution, RunState, RunView
from rerail.server.query_results import EmitterRow
from rerail.ui import text
from rerail.ui.address import incident_path
from rerail.ui.elements import (
    Head,
    badge,
    copy_table_button,
    folded,
    instant,
    link,
    panel,
    parts_bar,
    phase_class,
    swatch,
    table,
)
from rerail.ui.figures.strip import recovery_strip
from rerail.ui.figures.waterfall import waterfall_bars
from rerail.ui.markup import Content, Markup, html
from rerail.ui.pages.quality import quality_panel
from rerail.ui.theme import ORDER, PHASE_OF_KIND


def panels(view: RunView, emitters: Sequence[EmitterRow]) -> list[Markup]:
    """Everything under the picture, in reading order."""
    return [
        html.Div([waterfall_panel(view), phases_panel(view)], className="columns columns-wide-left"),
        incidents_panel(view),
        recovery_panel(view),
        attempts_panel(view),
        html.Div([checkpoints_panel(view), heartbeats_panel(view)], className="columns"),
        quality_panel(view, emitters),
    ]


def waterfall_panel(view: RunView) -> Markup:
    """From 100 % to training goodput, loss by loss."""
    weighted = {} if view.gpu_account is None else {row.name: row.length_ns for row in view.gpu_account.waterfall}
    rows = []
    for bar in waterfall_bars(view.account.waterfall):
        if bar.kind is None:
            fill = "level" if bar.name != "training_goodput" else "level level-goodput"
        else:
            fill = phase_class(PHASE_OF_KIND[bar.kind])
        is_nothing = bar.kind is not None and bar.length_ns == 0
        cost = weighted.get(bar.name)
        sign = "−" if bar.kind is not None and bar.length_ns else ""
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
                        [sign, text.share(bar.share, text.DASH)] if not is_nothing else text.DASH, className="number"
                    ),
                    html.Td(text.duration(bar.length_ns) if not is_nothing else "", className="number"),
                    html.Td("" if cost is None or is_nothing else text.gpu_hours(cost), className="number muted"),
                ],
                className="row-level" if bar.kind is None else "row-nothing" if is_nothing else None,
            )
        )
    body = html.Table(
        [
            html.Caption("Loss waterfall: the rows add up exactly", className="unseen"),
            html.Thead(
                html.Tr([html.Th(""), html.Th(""), html.Th("share"), html.Th("time"), html.Th("GPU-h")]),
                className="unseen",
            ),
            html.Tbody(rows),
        ],
        className="table waterfall",
    )
    return panel(
        "Loss waterfall",
        [html.Div(body, className="table-frame"), _facts(view)],
        "waterfall",
        lead="From all the time there was to the time that moved the run forward. The rows add up.",
        actions=copy_table_button(),
    )


def phases_panel(view: RunView) -> Markup:
    """Every phase that occurred, with its share: the legend of the picture, with numbers."""
    by_phase = dict(view.account.ns_by_phase)
    elapsed = view.account.elapsed_ns
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
    if view.account.debt_ns:
        content.append(
            html.P(
                f"{text.duration(view.account.debt_ns)} of training is lost again as long as the run stands below its "
                "high-water step; the waterfall counts it as rework.",
                className="note",
            )
        )
    return panel("Time by phase", content, "phases", lead="Every instant has exactly one.")


def _facts(view: RunView) -> Markup:
    """Figures that stand beside the waterfall."""
    facts = []
    if view.account.longest_unproductive_ns is not None:
        facts.append(("longest stretch without progress", text.duration(view.account.longest_unproductive_ns)))
    if view.account.checkpoint_efficiency is not None:
        facts.append(("checkpoint efficiency", text.share(view.account.checkpoint_efficiency)))
    if view.undisturbed_step_ns is not None:
        facts.append(("undisturbed step", text.duration(view.undisturbed_step_ns)))
    if view.checkpoint_slowdown is not None:
        facts.append(("step time with a write in flight", f"× {view.checkpoint_slowdown:.2f}"))
    return html.Div(
        [
            html.Div(
                [html.Span(value, className="count-value"), html.Span(name, className="count-name")], className="count"
            )
            for name, value in facts
        ],
        className="counts counts-foot",
    )


def incidents_panel(view: RunView) -> Markup:
    """One row per loss of forward progress."""
    incidents = sorted(view.incidents, key=lambda incident: incident.started_at, reverse=True)
    if not incidents:
        calm = "Nothing stopped this run." if view.account.elapsed_ns else "Nothing has happened yet."
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
        lead=lead + ". From the last completed step to the instant lost ground was regained.",
        actions=copy_table_button(),
        wide=True,
    )


def _incident_row(incident: Incident, longest: int) -> Sequence[Content]:
    verdict = incident.verdict
    name = "planned restart" if incident.is_planned else text.cause(verdict.cause)
    about: list[Content] = [badge("open", "danger") if incident.is_open else None]
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
        text.duration(incident.time_to_restart_ns) if incident.restarted_at is not None else "not yet",
        [text.duration(incident.so_far_ns), " so far" if incident.is_open else ""],
        text.number(incident.lost_steps),
        text.gpu_hours(incident.lost_gpu_ns, text.DASH),
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


def recovery_panel(view: RunView) -> Markup:
    """How long recovery took: every one of them, then by scope and cause."""
    recovered = [incident for incident in view.incidents if not incident.is_planned and not incident.is_open]
    if not recovered:
        return html.Div(id="recovery")
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
    picture = html.Div([*dots, *marks], className="strip", style={"height": f"{max(strip.rows, 1) * 12 + 36}px"})
    heads = (
        Head("group", "wide"),
        Head("n", "number"),
        Head("p50", "number"),
        Head("p90", "number"),
        Head("p95", "number"),
        Head("max", "number"),
    )
    rows = [
        _distribution(group)
        for group in sorted(view.recovery, key=lambda group: (group.grouped_by != "scope", -group.n))
    ]
    return panel(
        "Time to recover",
        [picture, table(heads, rows, "Time to recover by scope and cause")] if rows else [picture],
        "recovery",
        lead=f"Each of {text.count(len(recovered), 'recovery', 'recoveries')} is a dot, on a logarithmic scale.",
        actions=copy_table_button(),
        wide=True,
    )


def _distribution(group: RecoveryDistribution) -> Sequence[Content]:
    is_scope = group.grouped_by == "scope"
    name = f"restart {group.group.replace('_', ' ')}" if is_scope else text.cause(group.group)
    tail = text.duration(group.p95_ns) if group.n >= 20 else f"max of {group.n}"
    ninety = text.duration(group.p90_ns) if group.n >= 10 else f"max of {group.n}"
    return (
        html.Span([html.Span(group.grouped_by, className="muted tag"), name]),
        text.number(group.n),
        text.duration(group.p50_ns),
        ninety,
        tail,
        text.duration(group.max_ns),
    )


def attempts_panel(view: RunView) -> Markup:
    """One row per life of the worker group."""
    if not view.attempts:
        return panel("Attempts", html.P("No attempt has been told yet.", className="calm"), "attempts")
    rollbacks = {rollback.attempt: rollback for rollback in view.rollbacks}
    end = view.as_of if view.ended_at is None else view.ended_at
    heads = (
        Head("attempt", "number"),
        Head("started"),
        Head("lasted", "number"),
        Head("began with", "words"),
        Head("ended"),
        Head("steps", "number"),
        Head("resumed from", "number"),
        Head("thrown back", "number", "high-water step minus the step it resumed from"),
        Head("world", "number"),
        Head("exit codes", "wide"),
    )
    rows, ids = [], []
    for attempt in sorted(view.attempts, key=lambda attempt: attempt.number, reverse=True):
        rollback = rollbacks.get(attempt.number)
        rows.append(
            (
                html.Strong(attempt.number),
                instant(attempt.started_at),
                text.duration((attempt.ended_at or end) - attempt.started_at),
                _beginning(attempt),
                _ending(attempt, view.state),
                _steps(attempt),
                text.number(attempt.resumed_from_step, text.DASH),
                text.DASH if rollback is None else f"{text.number(rollback.steps)} · {text.duration(rollback.lost_ns)}",
                _world(attempt),
                exit_codes(attempt.exit_codes),
            )
        )
        ids.append(f"attempt-{attempt.number}")
    lead = f"{text.count(len(view.attempts), 'attempt')}, {text.count(view.restarts, 'restart')}, newest first."
    return panel(
        "Attempts",
        folded(heads, rows, "Attempts, newest first", ids),
        "attempts",
        lead=lead,
        actions=copy_table_button(),
        wide=True,
    )


def _beginning(attempt: Attempt) -> Content:
    if attempt.number == 0:
        return "first start"
    scope = "restart" if attempt.scope is None else f"restart {text.SCOPES[attempt.scope]}"
    return scope if attempt.initiator is None else f"{scope}, by {text.INITIATORS[attempt.initiator]}"


def _ending(attempt: Attempt, state: RunState) -> Content:
    if attempt.ended_at is None:
        return badge("running", "good") if state is RunState.ALIVE else badge("not known", "outline")
    outcome = "ended" if attempt.outcome is None else text.OUTCOMES[attempt.outcome]
    if attempt.is_interrupted and not attempt.is_planned:
        return badge(outcome if attempt.outcome else "interrupted", "warn", attempt.reason)
    return badge(f"{outcome}, planned" if attempt.is_interrupted else outcome, "quiet", attempt.reason)


def _steps(attempt: Attempt) -> str:
    if attempt.first_step is None or attempt.last_step is None:
        return "none"
    return f"{text.number(attempt.first_step)}–{text.number(attempt.last_step)}"


def _world(attempt: Attempt) -> str:
    if attempt.world_size is None and attempt.gpus is None:
        return text.DASH
    if attempt.gpus is None or attempt.gpus == attempt.world_size:
        return text.number(attempt.world_size)
    return f"{text.number(attempt.world_size, text.DASH)} on {text.number(attempt.gpus)} GPUs"


def exit_codes(codes: Sequence[tuple[int, int]]) -> Content:
    """Exit codes with the ranks that had them: `−9 SIGKILL: rank 3`."""
    ranks_by_code: dict[int, list[int]] = {}
    for rank, code in codes:
        ranks_by_code.setdefault(code, []).append(rank)
    if not ranks_by_code:
        return text.DASH
    return html.Div(
        [
            html.Span([html.Code(text.exit_code(code)), f" rank {text.rank_ranges(tuple(ranks))}"], className="exit")
            for code, ranks in sorted(ranks_by_code.items(), key=lambda pair: (pair[0] == 0, len(pair[1])))
        ]
    )


def checkpoints_panel(view: RunView) -> Markup:
    """What was saved, and how long until it counted."""
    freshness = view.checkpoint
    if not view.checkpoints:
        about = "No checkpoint has been told. What a crash would cost is not known."
        return panel("Checkpoints", html.P(about, className="calm"), "checkpoints")
    heads = (
        Head("step", "number"),
        Head("started"),
        Head("fate"),
        Head("blocked", "number", "how long training stood still for it"),
        Head("commit lag", "number", "from capture to durable"),
        Head("size", "number"),
        Head("kind", "wide"),
    )
    newest_first = sorted(view.checkpoints, key=_checkpoint_order, reverse=True)
    rows = [
        _checkpoint_row(checkpoint, checkpoint.checkpoint_id == freshness.newest_durable_id)
        for checkpoint in newest_first
    ]
    lag = ""
    if freshness.commit_lag_p95_ns is not None:
        name = "p95" if freshness.commit_lag_count >= 20 else f"max of {freshness.commit_lag_count}"
        lag = f" Commit lag {name}: {text.duration(freshness.commit_lag_p95_ns)}."
    durable = sum(checkpoint.durable_at is not None for checkpoint in view.checkpoints)
    failed = sum(checkpoint.failed_at is not None for checkpoint in view.checkpoints)
    lead = f"{text.number(durable)} of {text.number(len(view.checkpoints))} became durable"
    lead += f", {text.number(failed)} failed." if failed else "."
    return panel(
        "Checkpoints",
        folded(heads, rows, "Checkpoints, newest first"),
        "checkpoints",
        lead=lead + lag,
        actions=copy_table_button(),
    )


def _checkpoint_order(checkpoint: Checkpoint) -> tuple[int, int]:
    moments = (checkpoint.started_at, checkpoint.captured_at, checkpoint.durable_at, checkpoint.failed_at)
    return (max((at for at in moments if at is not None), default=0), checkpoint.step)


def _checkpoint_row(checkpoint: Checkpoint, is_newest: bool) -> Sequence[Content]:
    if checkpoint.failed_at is not None and checkpoint.durable_at is None:
        fate: Content = badge("failed", "warn")
    elif checkpoint.durable_at is None:
        fate = badge("not durable", "outline")
    elif checkpoint.deleted_at is not None:
        fate = badge("deleted", "quiet")
    else:
        fate = badge("newest durable", "good") if is_newest else "durable"
    kind = " · ".join(part for part in (checkpoint.mode, checkpoint.tier) if part)
    return (
        html.Strong(text.number(checkpoint.step), title=checkpoint.checkpoint_id),
        instant(checkpoint.started_at or checkpoint.captured_at or checkpoint.durable_at),
        fate,
        text.duration(checkpoint.blocked_ns, text.DASH),
        text.duration(checkpoint.commit_lag_ns, text.DASH),
        text.size(checkpoint.bytes, text.DASH),
        html.Span(kind or text.DASH, title=checkpoint.location),
    )


def heartbeats_panel(view: RunView) -> Markup:
    """Longest healthy silence by phase, against the time-out that would end it."""
    if not view.heartbeat:
        about = "No heartbeat has been told, so nothing can be said about time-outs."
        return panel("Heartbeat gaps", html.P(about, className="calm"), "heartbeats")
    heads = (
        Head("phase", "wide"),
        Head("n", "number", "gaps seen"),
        Head("longest gap", "number"),
        Head("rank", "number"),
        Head("armed time-out", "number"),
        Head("headroom", "number", "armed time-out ÷ longest healthy gap"),
    )
    rows: list[Sequence[Content]] = []
    for figures in view.heartbeat:
        headroom = figures.headroom
        if headroom is None:
            judged: Content = text.DASH
        elif headroom < 1.5:
            judged = badge(f"× {headroom:.1f}", "warn", "a false kill is near")
        elif headroom > 20:
            judged = badge(f"× {headroom:.0f}", "quiet", "detection is slow: the time-out could be much shorter")
        else:
            judged = f"× {headroom:.1f}"
        rows.append(
            (
                text.PARTS.get(figures.phase, figures.phase),
                text.number(figures.n),
                text.duration(figures.max_gap_ns),
                text.number(figures.max_gap_rank, text.DASH),
                text.duration(figures.armed_timeout_ns, "none armed"),
                judged,
            )
        )
    return panel(
        "Heartbeat gaps",
        table(heads, rows, "Heartbeat gaps by phase"),
        "heartbeats",
        lead="The longest healthy silence of any rank, and how far the armed time-out is above it.",
        actions=copy_table_button(),
    )
