"""The head of a run's page: name, state, the answer in a sentence, and the key figures."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.infrastructure import infrastructure_goodput, known_words, least_words
from rerail.server.core.statistics import percentile
from rerail.server.core.view import RunState, RunView
from rerail.ui import address, text
from rerail.ui.elements import badge, instant, link, state_badge, tile
from rerail.ui.markup import Markup, html
from rerail.ui.sentences import Phrase, run_now, run_sentence


def head(view: RunView, trouble: str | None = None) -> list[Markup]:
    """Everything above the picture. `trouble`: why what was stated last could not be made into figures."""
    has_open = any(incident.is_open for incident in view.incidents)
    about = [view.project, view.framework, None if view.gpus is None else gpus(view)]
    facts = [html.Span(part) for part in about if part]
    facts += [html.Span(f"{key}={value}", className="label") for key, value in view.labels]
    facts.append(html.Span(["since ", instant(view.started_at)] if view.started_at else "not started"))
    if view.ended_at is not None:
        facts.append(html.Span(["until ", instant(view.ended_at)]))
    return [
        html.Div([link("Runs", address.RUNS), html.Span("/", className="muted")], className="crumbs"),
        html.Div(
            [
                html.H1(view.name or view.run_id),
                state_badge(view.state, view.silent_since, has_open),
                None
                if view.state is RunState.ENDED
                else html.Span(instant(view.as_of), className="as-of", hidden=True),
            ],
            className="title-row",
        ),
        html.Div(
            [html.Code(view.run_id)] * (view.name is not None and view.name != view.run_id) + facts, className="about"
        ),
        *([] if trouble is None else [_stuck(view, trouble)]),
        html.P(phrases(run_sentence(view)), className="sentence"),
        html.P(phrases(run_now(view)), className="sentence-now"),
        html.Div(tiles(view), className="tiles"),
    ]


def _stuck(view: RunView, trouble: str) -> Markup:
    """A fault of rerail itself: the figures are old, and the page must not look as if the run were."""
    return html.P(
        [
            html.Strong("These figures stand still: "),
            "rerail could not work out what was stated since ",
            instant(view.as_of),
            ". No fact is lost; it is tried again every minute. ",
            html.Code(trouble),
        ],
        className="trouble",
        role="alert",
    )


def phrases(pieces: Sequence[Phrase]) -> list[Markup | str]:
    """A sentence as components."""
    shown: list[Markup | str] = []
    for piece in pieces:
        content: Markup | str = html.Strong(piece.words) if piece.is_strong else piece.words
        shown.append(html.A(content, href=piece.href) if piece.href else content)
    return shown


def gpus(view: RunView) -> str:
    """The GPUs of the run as words."""
    kind = f" {view.gpu_type}" if view.gpu_type else ""
    return f"{text.number(view.gpus)}{kind} GPU{'' if view.gpus == 1 else 's'}"


def outdated_note() -> Markup:
    """Says that a run that is over was judged by another version."""
    return html.P(
        [
            badge("earlier rules", "outline"),
            " Figures and verdicts of this page were made by another version of rerail. Runs that are over are derived "
            "again in the background, oldest first; how far that is stands on the page ",
            link("Data", f"{address.DATA}#rules"),
            ". All at once: ",
            html.Code("rerail replay"),
            ".",
        ],
        className="note",
        role="note",
    )


def tiles(view: RunView) -> list[Markup]:
    """The key figures, each a link to what it is made of."""
    account = view.account
    planned = len(view.incidents) - len(view.unplanned_incidents)
    recovered = view.recoveries_ns
    is_open = view.state is not RunState.ENDED
    infrastructure = infrastructure_goodput(view)
    least = least_words(infrastructure.least, infrastructure.untold_ns)
    return [
        tile(
            "Training goodput",
            known_words(account.training_goodput if view.sees_training else None, is_most=view.has_untold_restart),
            f"{text.duration(account.productive_ns)} of {text.duration(account.elapsed_ns)}"
            if view.sees_training
            else "nobody speaks of its steps",
            "#waterfall",
        ),
        tile(
            "Infrastructure goodput",
            known_words(infrastructure.share, is_most=infrastructure.is_most),
            f"{text.duration(account.faults_ns)} {'' if view.sees_training else 'known to be '}down after faults"
            + (f"; {least}" if least else ""),
            "#waterfall",
        ),
        tile(
            "Lost",
            _lost(view),
            "not productive" if view.gpu_account is not None else "no GPU number was told",
            "#waterfall",
        ),
        tile(
            "Faults",
            text.number(view.rates.faults),
            f"MTTF {text.mttf(view.rates)}"
            if view.rates.faults
            else text.count(view.restarts, "restart") + (f", {planned} planned" if planned else ""),
            "#recovery" if view.rates.faults else "#attempts",
        ),
        tile(
            "Time to recover",
            _least_where_unseen(view, text.duration(percentile(recovered, 0.5))) if recovered else text.DASH,
            f"median of {len(recovered)}, max {text.duration(recovered[-1])}"
            if recovered
            else "no incident recovered yet",
            "#recovery",
        ),
        tile(
            "High-water step",
            text.number(view.high_water_step, text.DASH),
            f"of {text.number(view.target_step)}" if view.target_step else "no target told",
            "#timeline-panel",
        ),
        tile(
            "Steps at risk" if is_open else "Steps not saved",
            text.number(view.checkpoint.steps_at_risk),
            "no checkpoint known"
            if view.checkpoint.newest_durable_step is None
            else f"durable at {text.number(view.checkpoint.newest_durable_step)}",
            "#checkpoints",
        ),
        tile(
            "Checkpoint age" if is_open else "Last checkpoint",
            text.duration(view.checkpoint.age_ns),
            f"overdue by {text.duration(view.checkpoint.overdue_ns)}"
            if view.checkpoint.overdue_ns
            else "since its capture"
            if is_open
            else "before the end",
            "#checkpoints",
            "warn" if view.checkpoint.overdue_ns else "",
        ),
    ]


def _lost(view: RunView) -> str:
    """What was not productive, in GPU-hours where GPUs are known."""
    if not view.sees_training:
        return text.UNKNOWN
    account = view.gpu_account
    if account is not None:
        return text.gpu_hours(account.elapsed_ns - account.productive_ns)
    return text.duration(view.account.elapsed_ns - view.account.productive_ns)


def _least_where_unseen(view: RunView, length: str) -> str:
    """A time to recover: where nobody tells of steps it is at least so long."""
    return length if view.sees_training else f"≥ {length}"
