"""What people do with a problem: the buttons, the one form behind them, and the trail of what was done.

Rules
- The form stands still while the rest of a page is drawn again. Nothing here writes: the browser asks the API, as any
  program would (`assets/problem_actions.js`), and says which revision of the problem it acts on.
- Each action is confirmed once, in the form; every one can be undone from the trail.
"""

from __future__ import annotations

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.fingerprints import FACETS
from rerail.server.core.problems import ActionKind, Status
from rerail.server.query_problem_results import ActionEntry, ProblemRow
from rerail.ui import text
from rerail.ui.address import incident_path, problem_path
from rerail.ui.elements import badge, instant, link, panel
from rerail.ui.markup import Content, Markup, html

LABELS = {
    ActionKind.RESOLVE: "Resolve",
    ActionKind.KNOWN: "Mark known",
    ActionKind.IGNORE: "Ignore",
    ActionKind.REOPEN: "Reopen",
    ActionKind.ASSIGN: "Assign",
    ActionKind.RENAME: "Rename",
    ActionKind.MERGE: "Merge into another",
    ActionKind.SPLIT: "Split",
    ActionKind.MOVE: "Move to another problem",
}

FIELDS = (
    ("assignee", "Who looks after it (empty: nobody)", "name"),
    ("title", "New title", "the loader times out on /data"),
    ("facet", "", ""),
    ("value", "Value", "gpu-17"),
    ("into", "", ""),
    ("reason", "What was done, or why", "raised the loader's time-out to 120 s"),
    ("fixed_by", "Fixed by (commit, config change)", "a1b2c3d"),
    ("author", "Who says so", "your name"),
)


def action_buttons(row: ProblemRow) -> Markup:
    """What can be done with a problem as it stands."""
    return html.Div(
        [
            *standing_buttons(row),
            *(action_button(kind) for kind in (ActionKind.RENAME, ActionKind.MERGE, ActionKind.SPLIT)),
        ],
        className="problem-buttons",
    )


def standing_buttons(row: ProblemRow) -> list[Markup]:
    """What changes how a problem stands and who looks after it."""
    kinds = (ActionKind.RESOLVE, ActionKind.KNOWN, ActionKind.IGNORE, ActionKind.REOPEN, ActionKind.ASSIGN)
    gone = {
        Status.NEW: {ActionKind.REOPEN},
        Status.KNOWN: {ActionKind.KNOWN, ActionKind.REOPEN},
        Status.RESOLVED: {ActionKind.RESOLVE, ActionKind.IGNORE, ActionKind.KNOWN},
        Status.IGNORED: {ActionKind.IGNORE},
        Status.REGRESSED: set(),
    }[row.status]
    return [
        action_button(kind, "Reassign" if kind is ActionKind.ASSIGN and row.assignee else None)
        for kind in kinds
        if kind not in gone
    ]


def action_button(kind: ActionKind, words: str | None = None, **known: str) -> Markup:
    """A button that opens the form; what is `known` (facet, value, incidents) is filled in."""
    told = {f"data-{name}": value for name, value in known.items()}
    class_name = "quiet-button" if known else "seg seg-alone"
    return html.Button(
        words or LABELS[kind], type="button", className=class_name, **{"data-action": kind.value}, **told
    )


def form(others: Sequence[ProblemRow], about: str) -> Component:
    """The one form; the browser shows the fields that an action uses. `others`: problems to merge or move into."""
    inputs: list[Component] = []
    for name, label, example in FIELDS:
        identity = f"problem-{name}"
        if name == "facet":
            inputs.append(_select(identity, "Facet", [{"value": each, "label": each} for each in FACETS]))
        elif name == "into":
            data = [
                {"value": each.problem_id, "label": f"{each.title} ({each.problem_id}, {each.incidents} times)"}
                for each in others
            ]
            inputs.append(_select(identity, "The problem that stays", data))
        else:
            inputs.append(_part(name, dmc.TextInput(id=identity, label=label, placeholder=example, size="xs")))
    token = dmc.PasswordInput(id="problem-token", label="Token of this server", size="xs")
    inputs.append(dash_html.Div(token, id="problem-token-part", hidden=True))
    return dash_html.Div(
        [
            dash_html.Div(
                [dash_html.Strong("", id="problem-form-title"), dash_html.Span("", id="problem-form-about")],
                className="problem-form-head",
            ),
            dash_html.Div(inputs, className="exclude-row"),
            dash_html.Div(
                [
                    dash_html.Button(
                        "Do it", type="button", className="seg seg-alone", id="problem-send", **{"data-problem": "send"}
                    ),
                    dash_html.Button("Cancel", type="button", className="quiet-button", **{"data-problem": "close"}),
                    dash_html.Span(id="problem-said", role="status"),
                ],
                className="exclude-row",
            ),
        ],
        id="problem-form",
        hidden=True,
        role="group",
        className="problem-form",
        **{"aria-label": about},
    )


def _part(name: str, component: Component) -> Component:
    return dash_html.Div(component, className=f"problem-part problem-part-{name}", **{"data-part": name})


def _select(identity: str, label: str, data: list[dict[str, str]]) -> Component:
    name = identity.removeprefix("problem-")
    wide = {"searchable": True, "nothingFoundMessage": "No problem matches"} if name == "into" else {}
    return _part(name, dmc.Select(id=identity, label=label, data=data, size="xs", **wide))


SAYS = {
    ActionKind.MERGE: "merged",
    ActionKind.SPLIT: "split",
    ActionKind.MOVE: "moved",
    ActionKind.RENAME: "renamed",
    ActionKind.RESOLVE: "resolved",
    ActionKind.REOPEN: "reopened",
    ActionKind.KNOWN: "marked known",
    ActionKind.IGNORE: "ignored",
    ActionKind.ASSIGN: "assigned",
    ActionKind.UNDO: "undid",
}


def trail(history: Sequence[ActionEntry], problem_id: str) -> Markup | None:
    """Everything that people did with a problem, newest first; None where nobody did anything."""
    if not history:
        return None
    entries = [_entry(entry, problem_id) for entry in reversed(history)]
    lead = f"{text.count(len(history), 'action')}; none is ever edited or deleted."
    return panel("What people did", html.Ol(entries, className="trail"), "history", lead=lead, wide=True)


def _entry(entry: ActionEntry, problem_id: str) -> Markup:
    action = entry.action
    what: list[Content] = [html.Strong(action.author or text.NO_NAME), f" {SAYS[action.kind]} "]
    if action.kind is ActionKind.MERGE and action.into is not None:
        what += [
            link(action.problem, problem_path(action.problem)),
            " into ",
            link(action.into, problem_path(action.into)),
        ]
    elif action.kind is ActionKind.SPLIT and action.made is not None:
        which = f"{action.facet} = {action.value}" if action.facet else text.count(len(action.incidents), "incident")
        what += [f"off {which} as ", link(action.made, problem_path(action.made))]
    elif action.kind is ActionKind.MOVE and action.into is not None:
        moved = [link(each, incident_path(each)) for each in action.incidents[:3]]
        what += [*moved, " into ", link(action.into, problem_path(action.into))]
    elif action.kind is ActionKind.UNDO:
        what.append(f"action {action.undoes}")
    elif action.kind is ActionKind.ASSIGN:
        what.append(f"it to {action.assignee or 'nobody'}")
    elif action.kind is ActionKind.RENAME:
        what.append(f"it “{action.title}”")
    elif action.problem != problem_id:
        what.append(link(action.problem, problem_path(action.problem)))
    else:
        what.append("it")
    if action.reason:
        what.append(f": {action.reason}")
    if action.fixed_by:
        what += [", fixed by ", html.Code(action.fixed_by)]
    state: list[Content] = []
    if entry.undone_by is not None:
        state = [badge(f"undone by action {entry.undone_by}", "outline")]
    elif not entry.in_force:
        state = [badge("without effect", "outline", "what it was done to was undone")]
    else:
        told = {"data-undo": str(action.action_id), "data-undo-of": action.problem}
        state = [html.Button("undo", type="button", className="quiet-button", **told)]
    return html.Li(
        [
            html.Span(f"#{action.action_id}", className="muted trail-number"),
            html.Span(instant(action.at), className="nowrap muted"),
            html.Span(what, className="trail-what"),
            html.Span(state),
        ],
        className="trail-undone" if not entry.in_force else None,
    )
