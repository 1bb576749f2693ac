"""What stands under the picture of a run; here are attempts, checkpoints and heartbeats."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.recovery_configs.stretches import attempt_config
from rerail.server.core.view import Attempt, Checkpoint, HeartbeatFigures, QuietRanks, RunState, RunView
from rerail.server.query_results import EmitterRow
from rerail.ui import text
from rerail.ui.address import config_path
from rerail.ui.elements import (
    Head,
    badge,
    copy_table_button,
    folded,
    instant,
    link,
    panel,
    table,
)
from rerail.ui.markup import Content, Markup, html
from rerail.ui.pages.exclusions import exclusions_panel
from rerail.ui.pages.quality import quality_panel
from rerail.ui.pages.run_losses import incidents_panel
from rerail.ui.pages.run_machines import machines_panel
from rerail.ui.pages.run_recovery import recovery_panel


def panels(view: RunView, emitters: Sequence[EmitterRow], newest_checkpoints: Sequence[Checkpoint]) -> list[Markup]:
    """Everything under the waterfall, in reading order."""
    return [
        *([] if (said := machines_panel(view)) is None else [said]),
        incidents_panel(view),
        recovery_panel(view),
        attempts_panel(view),
        html.Div([checkpoints_panel(view, newest_checkpoints), heartbeats_panel(view)], className="columns"),
        *([] if (windows := exclusions_panel(view)) is None else [windows]),
        quality_panel(view, emitters),
    ]


def _config(attempt: Attempt) -> Content:
    config = attempt_config(attempt)
    if config is None or config.fingerprint is None:
        return text.DASH
    return link(config.fingerprint, config_path(config.fingerprint))


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
        Head("config", "words", "Recovery config in force"),
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
                text.DASH
                if rollback is None
                else text.at_least(
                    f"{text.number(rollback.steps)} · {text.duration(rollback.lost_ns)}", rollback.told_every
                ),
                _world(attempt),
                _config(attempt),
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


def checkpoints_panel(view: RunView, newest: Sequence[Checkpoint]) -> Markup:
    """What was saved, and how long until it counted."""
    freshness = view.checkpoint
    if not freshness.count:
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
    newest_first = sorted(newest, key=_checkpoint_order, reverse=True)
    rows = [
        _checkpoint_row(checkpoint, checkpoint.checkpoint_id == freshness.newest_durable_id)
        for checkpoint in newest_first
    ]
    lag = ""
    if freshness.commit_lag_p95_ns is not None:
        name = "p95" if freshness.commit_lag_count >= 20 else f"max of {freshness.commit_lag_count}"
        lag = f" Commit lag {name}: {text.duration(freshness.commit_lag_p95_ns)}."
    lead = f"{text.number(freshness.durable_count)} of {text.number(freshness.count)} became durable"
    lead += f", {text.number(freshness.failed_count)} failed." if freshness.failed_count else "."
    if len(newest) < freshness.count:
        lead += f" The newest {text.number(len(newest))} are listed."
    return panel(
        "Checkpoints",
        [*_findings(view), folded(heads, rows, "Checkpoints, newest first")],
        "checkpoints",
        lead=lead + lag,
        actions=copy_table_button(),
    )


def _findings(view: RunView) -> list[Markup]:
    """What should worry somebody, and the usual interval."""
    freshness = view.checkpoint
    said: list[Content] = []
    if freshness.overdue_ns:
        said.append(
            f"The next checkpoint is overdue by {text.duration(freshness.overdue_ns)}: the newest durable one is "
            f"{text.duration(freshness.age_ns)} old; usually one comes every {text.duration(freshness.interval_ns)}."
        )
    if freshness.stuck:
        said.append(
            f"{text.count(len(freshness.stuck), 'save')} began and did not become durable for far longer than usual: "
            f"{', '.join(freshness.stuck[:3])}."
        )
    for step in freshness.suspect_steps:
        said.append(
            f"The checkpoint of step {text.number(step)} was loaded at least twice, and each time the attempt failed "
            "before it saved anew: it may be damaged, or the fault lies just after it."
        )
    findings = [html.P([badge("finding", "warn"), " ", each], className="note") for each in said]
    usual = "" if freshness.interval_ns is None else f"Usually one every {text.duration(freshness.interval_ns)}. "
    return [*findings, html.P([usual, _advice(view)], className="note")]


def _advice(view: RunView) -> str:
    """How often this run should save, with what that rests on; or why that cannot be said."""
    advice, freshness = view.interval_advice, view.checkpoint
    if advice.advised_ns is None:
        return f"How often to save cannot be advised: {advice.refusal}."
    formula = "Daly's formula" if advice.formula == "daly" else "The optimum of asynchronous saves"
    costs = f"{text.duration(freshness.blocked_ns)} blocked by each save"
    if advice.floor_ns is not None:
        costs += f" and {text.duration(freshness.commit_lag_p50_ns)} to write it"
    return (
        f"{formula} gives one every {text.duration(advice.advised_ns)} of training "
        f"({text.duration(advice.low_ns)} to {text.duration(advice.high_ns)} over the 95 % limits of the MTTF), from "
        f"{costs} and an MTTF of {text.duration(view.rates.mttf_ns)}."
    )


def _checkpoint_order(checkpoint: Checkpoint) -> tuple[int, int]:
    return (max(checkpoint.moments, default=0), checkpoint.step)


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


def _quiet(quiet: QuietRanks) -> Markup:
    """Who is heard no longer."""
    return html.P(
        [
            html.Strong(f"{text.count(quiet.count, 'rank')} heard no longer"),
            f" while others are: {text.rank_ranges(quiet.ranks)}",
            f" and {text.number(quiet.count - len(quiet.ranks))} more" if quiet.count > len(quiet.ranks) else "",
            ", since ",
            instant(quiet.since),
            ".",
        ],
        className="trouble",
    )


def _slowest(figures: HeartbeatFigures) -> Markup | None:
    """The ranks with the longest gaps, in words."""
    if len(figures.slowest) < 2:
        return None
    phase = text.PARTS.get(figures.phase, figures.phase)
    named = ", ".join(f"{gap.rank} ({text.duration(gap.max_gap_ns)})" for gap in figures.slowest)
    return html.P(f"Longest gaps while {phase}, by rank: {named}.", className="note")


def heartbeats_panel(view: RunView) -> Markup:
    """Longest healthy silence by phase, against the time-out that would end it."""
    if not view.heartbeat:
        about = "No heartbeat has been told, so nothing can be said about time-outs."
        return panel("Heartbeat gaps", html.P(about, className="calm"), "heartbeats")
    heads = (
        Head("phase", "wide"),
        Head("n", "number", "gaps seen"),
        Head("longest gap", "number"),
        Head("rank", "number", "the rank with the longest gap"),
        Head("of ranks", "number", "ranks that were heard in this phase"),
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
                text.number(figures.ranks, text.DASH),
                text.duration(figures.armed_timeout_ns, "none armed"),
                judged,
            )
        )
    quiet = [] if view.quiet_ranks is None else [_quiet(view.quiet_ranks)]
    return panel(
        "Heartbeat gaps",
        [*quiet, table(heads, rows, "Heartbeat gaps by phase"), *map(_slowest, view.heartbeat)],
        "heartbeats",
        lead="The longest healthy silence of any rank, and how far the armed time-out is above it.",
        actions=copy_table_button(),
    )
