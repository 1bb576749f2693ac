"""Incident: why did it stop, what did it cost, what do I do?

Rules
- The verdict comes with its confidence and with what would settle it; below certainty nothing is put as fact.
- Evidence is in the order of its instants and keeps its source; what started it stands out, what followed is quiet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dash import Dash, Input, Output, State, dcc
from dash import html as dash_html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from rerail.server.core.notes import SubjectKind
from rerail.server.core.recovery_configs.stretches import attempt_config
from rerail.server.core.view import CausalRole, EvidenceLine, Incident
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_results import IncidentMark, IncidentView
from rerail.ui import address, text
from rerail.ui.address import Address, config_path, incident_path, node_path, run_changes_path, run_path
from rerail.ui.elements import Head, badge, copy_table_button, instant, link, panel, table
from rerail.ui.markup import Content, Markup, encoded, html, island
from rerail.ui.pages import changes_about, incident_changes, incident_files, incident_history
from rerail.ui.pages.incident_files import files_list, files_part
from rerail.ui.pages.incident_flight_recorder import flight_recorder_panel
from rerail.ui.pages.notes_part import notes_part
from rerail.ui.pages.run_head import phrases
from rerail.ui.pages.run_losses import anatomy_bar, part_class
from rerail.ui.pages.run_tables import exit_codes
from rerail.ui.reading import in_thread
from rerail.ui.sentences import incident_sentence

PAGE = "incident"

EVIDENCE_SHOWN = 400
MOST_RELAUNCHES = 20


async def layout(queries: Queries, wanted: Address, _search: str) -> Component:
    """The page of one incident."""
    found = await in_thread(queries.incident, wanted.name)
    past = await in_thread(incident_history.history_of, queries, wanted.name)
    past += await in_thread(incident_changes.changes_of, queries, wanted.name)
    past += await in_thread(changes_about.of_incident, queries, wanted.name)
    given = await in_thread(queries.artefacts, wanted.name)
    return dash_html.Div(
        [
            dcc.Store(id="incident-id", data=wanted.name),
            dcc.Store(id="incident-live"),
            await in_thread(incident_history.history_form, queries),
            island(content(found, past), "incident-content"),
            files_part(given, queries.largest_artefact_bytes),
            await notes_part(queries, SubjectKind.INCIDENT, wanted.name),
        ],
        id="incident-page",
        className="page-body",
        **{
            "data-title": title(found.incident),
            "data-run": found.incident.run_id,
            "data-incident": found.incident.incident_id,
        },
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callback that keeps an open incident up to date."""

    @app.callback(
        Output("incident-content", "data-markup"),
        Output(incident_files.LIST, "data-markup"),
        Input("incident-live", "data"),
        State("incident-id", "data"),
        prevent_initial_call=True,
    )
    async def refresh(signal: object, incident_id: str | None) -> tuple[str, str]:
        if signal is None or incident_id is None:
            raise PreventUpdate
        try:
            found = await in_thread(queries.incident, incident_id)
            given = await in_thread(queries.artefacts, incident_id)
            past = await in_thread(incident_history.history_of, queries, incident_id)
            past += await in_thread(incident_changes.changes_of, queries, incident_id)
            past += await in_thread(changes_about.of_incident, queries, incident_id)
        except NotFoundError as error:
            raise PreventUpdate from error
        return encoded(content(found, past)), encoded(files_list(given))


def title(incident: Incident) -> str:
    """What happened, as a headline."""
    if incident.is_planned:
        return "Planned restart"
    return text.headline(text.cause(incident.verdict.cause))


def content(found: IncidentView, past: Sequence[Markup] = ()) -> list[Markup]:
    """Everything on the page; `past` is what `incident_history.py` says of earlier ones."""
    incident = found.incident
    # Of a run of which nobody tells steps the row knows no training goodput, though time has passed.
    sees_training = found.run.training_goodput is not None or not found.run.elapsed_ns
    return [
        _crumbs(found),
        html.Div(
            [
                html.H1(title(incident)),
                _state_badge(incident),
                badge("planned", "outline") if incident.is_planned else None,
                html.Span(instant(found.run.as_of), className="as-of", hidden=True) if incident.is_open else None,
            ],
            className="title-row",
        ),
        html.Div(_about(found), className="about"),
        html.P(phrases(incident_sentence(incident, sees_training=sees_training)), className="sentence"),
        html.Div([_anatomy(incident), _verdict(found)], className="columns columns-wide-left"),
        flight_recorder_panel(incident.flight_recorder),
        *past,
        _evidence(incident),
        _attempts(found),
        _config(found),
    ]


def _crumbs(found: IncidentView) -> Markup:
    run_name = found.run.name or found.run.run_id
    moves = [
        _neighbour(found.previous, "← previous", "previous-incident"),
        _neighbour(found.next, "next →", "next-incident"),
    ]
    return html.Div(
        [
            link("Runs", address.RUNS),
            html.Span("/", className="muted"),
            link(run_name, run_path(found.incident.run_id)),
            html.Span("/", className="muted"),
            link("incidents", run_path(found.incident.run_id, "incidents")),
            html.Span(moves, className="moves"),
        ],
        className="crumbs",
    )


def _neighbour(mark: IncidentMark | None, label: str, element_id: str) -> Markup:
    if mark is None:
        return html.Span(label, className="muted")
    return html.A(label, href=incident_path(mark.incident_id), id=element_id, title=text.cause(mark.cause))


def _until(incident: Incident) -> list[Content]:
    """Until when it lasted: of one whose ground was never regained, until its run ended."""
    if incident.ended_at is not None:
        return [instant(incident.ended_at)]
    if incident.is_open:
        return ["now"]
    return [instant(incident.started_at + incident.so_far_ns), ", when the run ended"]


def _about(found: IncidentView) -> list[Markup]:
    incident = found.incident
    pieces = [html.Span([instant(incident.started_at), " – ", *_until(incident)])]
    if incident.noticed_at is not None:
        pieces.append(html.Span(["noticed ", instant(incident.noticed_at)]))
    if incident.scope is not None:
        pieces.append(html.Span(f"restart {text.SCOPES[incident.scope]}"))
    if incident.verdict.culprit_rank is not None:
        pieces.append(html.Span(["rank ", html.Strong(incident.verdict.culprit_rank)]))
    if incident.verdict.culprit_node is not None:
        pieces.append(
            html.Span(
                [
                    "node ",
                    link(html.Strong(incident.verdict.culprit_node), node_path(incident.verdict.culprit_node)),
                ]
            )
        )
    pieces.append(html.Code(incident.incident_id))
    return pieces


def _state_badge(incident: Incident) -> Markup:
    if incident.is_open:
        return badge("open", "danger")
    return badge("recovered", "quiet") if incident.ended_at is not None else badge("never regained", "warn")


def _recovery_words(incident: Incident) -> str:
    if incident.is_open:
        return f"{text.duration(incident.so_far_ns)} so far"
    if incident.ended_at is None:
        return f"never: the run ended {text.duration(incident.so_far_ns)} later"
    known = text.duration(incident.time_to_recover_ns)
    if incident.is_step_untold:
        return f"at least {known}: when it stepped again nobody tells"
    return f"at least {known}: {text.DOWN_UNTOLD}" if incident.is_down_untold else known


def _anatomy(incident: Incident) -> Markup:
    whole = incident.so_far_ns
    rows: list[Sequence[Content]] = [
        (
            html.Span([html.I(className=f"swatch {part_class(part.name)}"), text.PARTS.get(part.name, part.name)]),
            text.share(part.length_ns / whole if whole else None, text.DASH),
            text.duration(part.length_ns),
        )
        for part in incident.parts
    ]
    unknown = "not known yet" if incident.is_open else "unknown: no restart told a step"

    def lost(known: str) -> str:
        return text.told_lost(known, incident.told_every)

    cost = [
        ("time to restart", text.to_restart(incident)),
        ("time to recover", _recovery_words(incident)),
        ("steps lost", unknown if incident.lost_steps is None else lost(text.number(incident.lost_steps))),
        ("training to redo", unknown if incident.lost_ns is None else lost(text.duration(incident.lost_ns))),
        ("cost", text.gpu_cost(incident, "unknown: no GPU number was told")),
    ]
    if incident.rollback is not None:
        rollback = incident.rollback
        cost.append(("thrown back", f"from step {text.number(rollback.from_step)} to {text.number(rollback.to_step)}"))
    return panel(
        "Anatomy",
        [
            html.Div(anatomy_bar(incident), className="anatomy-large"),
            html.Div(
                [
                    table(
                        (Head("part", "wide"), Head("share", "number"), Head("time", "number")),
                        rows,
                        "Parts of the incident",
                    ),
                    html.Dl(
                        [piece for name, value in cost for piece in (html.Dt(name), html.Dd(value))], className="pairs"
                    ),
                ],
                className="columns columns-tight",
            ),
        ],
        "anatomy",
        lead="The parts sum to the time to recover.",
    )


def _verdict(found: IncidentView) -> Markup:
    verdict = found.incident.verdict
    confidence = verdict.confidence
    against = found.contradicted_by
    body: list[Content] = [
        html.P(verdict.sentence or "Nothing says why.", className="verdict"),
        html.P([html.Strong("Against that: "), against], className="note") if against is not None else None,
        html.Div(
            [
                badge(text.cause(verdict.cause), "outline"),
                badge(text.DOMAINS[verdict.domain], "outline"),
                html.Span(
                    [
                        html.Span(html.Span(style={"width": f"{confidence * 100:.0f}%"}), className="meter"),
                        f"{confidence * 100:.0f} % confident" if confidence else "no confidence",
                    ],
                    className="confidence",
                ),
            ],
            className="under",
        ),
    ]
    if verdict.advice:
        body.append(html.Div([html.H3("What to do"), html.P(verdict.advice)]))
    if verdict.missing_evidence:
        body.append(html.Div([html.H3("What would settle it"), html.P(verdict.missing_evidence)]))
    if found.incident.relaunches:
        body.append(_relaunches(found.incident))
    if found.incident.exit_codes:
        body.append(html.Div([html.H3("Exit codes"), exit_codes(found.incident.exit_codes)]))
    return panel("Verdict", body, "verdict")


def _relaunches(incident: Incident) -> Markup:
    """Restarts that failed in their turn, each with its own cause."""
    rows = [
        html.Li(
            [
                f"Attempt {each.attempt}: {text.cause(each.verdict.cause)}. {each.verdict.sentence}",
                *(html.Div(html.Code(line.text), className="note spoken") for line in each.first_lines(1)),
            ]
        )
        for each in incident.relaunches[:MOST_RELAUNCHES]
    ]
    left = len(incident.relaunches) - len(rows)
    more = [html.P(f"and {left} more", className="calm")] if left else []
    return html.Div([html.H3("Restarts that failed too"), html.Ul(rows), *more])


def _evidence(incident: Incident) -> Markup:
    lines = sorted(incident.evidence, key=lambda line: line.at)
    if not lines:
        about = [
            "No evidence came with it. Log lines, kernel messages and exit codes come from ",
            html.Code("rerail agent"),
            " beside the ranks; what a scheduler knows from ",
            html.Code("rerail collect"),
            "; a log or dump can be added below.",
        ]
        return panel("Evidence", html.P(about, className="calm"), "evidence", actions=_give_button(), wide=True)
    shown = lines[:EVIDENCE_SHOWN]
    more = (
        [html.P(f"{text.number(len(lines) - len(shown))} more lines are not shown.", className="note")]
        if len(lines) > len(shown)
        else []
    )
    return panel(
        "Evidence",
        [html.Ol([_line(line, incident.started_at) for line in shown], className="evidence"), *more],
        "evidence",
        lead=f"{text.count(len(lines), 'line')}, in the order of time, from the last completed step.",
        actions=_give_button(),
        wide=True,
    )


def _give_button() -> Markup:
    """Opens the browser's chooser; the files appear under `Files`."""
    return html.Button("add a log or dump", type="button", className="quiet-button", **{"data-give": "choose"})


def _line(line: EvidenceLine, started_at: int) -> Markup:
    where = [f"rank {line.rank}" if line.rank is not None else None, line.node]
    since = line.at - started_at
    return html.Li(
        [
            html.Div(
                [
                    html.Span(instant(line.at, "precise"), className="nowrap"),
                    html.Span(("+" if since >= 0 else "") + text.duration(since), className="muted"),
                ],
                className="evidence-when",
            ),
            html.Div(
                [
                    badge(
                        text.ROLES[line.role], "role-initiating" if line.role is CausalRole.INITIATING else "outline"
                    ),
                    html.Span(line.source, className="strong"),
                    html.Span(line.code, className="label") if line.code else None,
                    *(html.Span(part) for part in where if part),
                ],
                className="evidence-what",
            ),
            html.Div([html.Pre(line.text), html.P(line.meaning, className="meaning") if line.meaning else None]),
        ],
        className=f"evidence-{line.role.value}",
        title=f"{line.emitter} #{line.seq}" if line.emitter else None,
    )


def _attempts(found: IncidentView) -> Markup:
    heads = (
        Head("attempt", "number"),
        Head("started"),
        Head("lasted", "number"),
        Head("ended"),
        Head("steps", "number"),
        Head("resumed from", "number"),
        Head("reason", "wide"),
    )
    rows: list[Sequence[Content]] = []
    interrupted = set(found.incident.attempts)
    for attempt in found.attempts:
        end = attempt.ended_at if attempt.ended_at is not None else found.run.as_of
        outcome = "ended" if attempt.outcome is None else text.OUTCOMES[attempt.outcome]
        steps = (
            "none"
            if attempt.first_step is None or attempt.last_step is None
            else f"{text.number(attempt.first_step)}–{text.number(attempt.last_step)}"
        )
        rows.append(
            (
                link(html.Strong(attempt.number), run_path(found.incident.run_id, f"attempt-{attempt.number}")),
                instant(attempt.started_at),
                text.duration(end - attempt.started_at),
                badge(outcome, "warn" if attempt.number in interrupted else "quiet")
                if attempt.ended_at
                else badge("running", "good"),
                steps,
                text.number(attempt.resumed_from_step, text.DASH),
                attempt.reason or text.DASH,
            )
        )
    return panel(
        "Attempts",
        table(heads, rows, "Attempts of the incident", stacks=True),
        "attempts",
        lead="The interrupted ones and the one that followed.",
        actions=copy_table_button(),
        wide=True,
    )


def _config(found: IncidentView) -> Markup:
    before, after = _settings(found.config), _settings(found.config_after)
    if not before and not after:
        about = [
            "No recovery settings were told. An ",
            html.Code("attempt_started"),
            " fact carries them as ",
            html.Code("config"),
            ".",
        ]
        known = html.P(config_links(found), className="note")
        return panel("Recovery config in force", [html.P(about, className="calm"), known], "config", wide=True)
    differing = [key for key in sorted(before | after) if after and before.get(key) != after.get(key)]
    kept = [key for key in sorted(before) if key not in differing]
    body: list[Content] = []
    if differing:
        rows = [
            (html.Code(key), html.Code(before.get(key, "not set")), badge(after.get(key, "gone"), "warn"))
            for key in differing
        ]
        heads = (Head("setting", "words"), Head("when it began", "wide"), Head("of the attempt that followed", "wide"))
        body.append(table(heads, rows, "Settings that differ", stacks=True))
    if kept:
        pairs = [html.Div([html.Dt(html.Code(key)), html.Dd(html.Code(before[key]))]) for key in kept]
        body.append(html.Dl(pairs, className="settings"))
    body.append(html.P(config_links(found), className="note"))
    return panel(
        "Recovery config in force",
        body,
        "config",
        lead=_config_lead(bool(after), len(differing)),
        actions=copy_table_button() if differing else None,
        wide=True,
    )


def _config_lead(is_followed: bool, differing: int) -> str:
    if not is_followed:
        return "When it began; no settings were told of an attempt that followed."
    if differing:
        return f"{text.count(differing, 'setting')} of the attempt that followed differ{'s' if differing == 1 else ''}."
    return "The attempt that followed ran with the same settings."


def _settings(config: str | None) -> dict[str, str]:
    """Settings as text; a config that is no JSON object is shown whole."""
    if config is None:
        return {}
    try:
        settings = json.loads(config)
    except ValueError:
        return {"config": config}
    if not isinstance(settings, dict):
        return {"config": config}
    return {
        str(key): value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in settings.items()
    }


def config_links(found: IncidentView) -> list[Content]:
    """The way from an incident to the config in force, and to what changed in its run."""
    first = next((entry for entry in found.attempts if entry.number in found.incident.attempts), None)
    config = None if first is None else attempt_config(first)
    changes = run_changes_path(found.run.run_id, found.incident.incident_id)
    if config is None or config.fingerprint is None:
        return [link("Config changes of this run", changes)]
    return [
        "In force: ", link(f"config {config.fingerprint}", config_path(config.fingerprint)), " · ",
        link("config changes of this run", changes),
    ]  # fmt: skip
