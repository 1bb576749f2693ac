"""Windows out of account, on a run's page: the form that declares one, and the list of them with its undoing.

Rules
- The form stands still: it is a component of its own, so that a live run does not wipe out what is being typed. It is
  filled with the range that the timeline shows, in the reader's zone (`assets/exclusions.js`).
- The list is drawn with the rest of the run. Nothing here writes: the browser asks the API, as any program would.
"""

from __future__ import annotations

import dash_mantine_components as dmc
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.view import Exclusion, ExclusionChange, RunView
from rerail.ui import text
from rerail.ui.elements import Head, badge, copy_table_button, folded, instant, panel
from rerail.ui.markup import Content, Markup, html


def exclude_button() -> Component:
    """Opens the form, filled with the range that is shown."""
    return dash_html.Button(
        "Exclude this range",
        type="button",
        className="quiet-button",
        title="Declare the range that is shown out of account, for instance for maintenance",
        **{"data-exclude": "open"},
    )


def exclude_form() -> Component:
    """From, to, why and who; hidden until it is asked for."""
    fields = (
        ("exclude-start", "From", "2026-03-01 02:00:00+00:00", "exclude-instant"),
        ("exclude-end", "Until", "2026-03-01 04:30:00+00:00", "exclude-instant"),
        ("exclude-reason", "Why", "power maintenance", "exclude-words"),
        ("exclude-author", "Who says so", "your name", "exclude-name"),
    )
    inputs: list[Component] = [
        dmc.TextInput(id=name, label=label, placeholder=example, size="xs", className=kind)
        for name, label, example, kind in fields
    ]
    token = dmc.PasswordInput(id="exclude-token", label="Token of this server", size="xs", className="exclude-name")
    return dash_html.Div(
        [
            dash_html.Div(
                [*inputs, dash_html.Div(token, id="exclude-token-part", hidden=True)], className="exclude-row"
            ),
            dash_html.Div(
                [
                    dash_html.Button(
                        "Exclude",
                        type="button",
                        className="seg seg-alone",
                        id="exclude-send",
                        **{"data-exclude": "send"},
                    ),
                    dash_html.Button("Cancel", type="button", className="quiet-button", **{"data-exclude": "close"}),
                    dash_html.Span(id="exclude-said", role="status"),
                ],
                className="exclude-row",
            ),
        ],
        id="exclude-form",
        hidden=True,
        role="group",
        **{"aria-label": "Declare a window out of account"},
    )


def exclusions_panel(view: RunView) -> Markup | None:
    """The windows of a run; None where none was ever declared."""
    if not view.exclusions:
        return None
    heads = (
        Head("from"),
        Head("until"),
        Head("length", "number"),
        Head("why", "wide"),
        Head("declared"),
        Head("by", "words"),
        Head("state", "words"),
        Head("action", "words"),
    )
    rows = [_row(window) for window in reversed(view.exclusions)]
    in_force = sum(not window.is_withdrawn for window in view.exclusions)
    lead = f"{text.count(in_force, 'window')} that people declared out of account: in no figure, in no length."
    return panel(
        "Out of account",
        folded(heads, rows, "Windows out of account", [_row_id(window) for window in reversed(view.exclusions)]),
        "exclusions",
        lead=lead,
        actions=copy_table_button(),
        wide=True,
    )


def _row_id(window: Exclusion) -> str:
    return f"window-{window.window}"


def _row(window: Exclusion) -> tuple[Content, ...]:
    if window.is_withdrawn:
        state: Content = [badge("counts again", "outline"), " ", _change(window.changes[-1])]
        action, does = "redo", "exclude again"
    else:
        state = [badge("excluded", "quiet"), *([" ", _change(window.changes[-1])] if window.changes else [])]
        action, does = "undo", "undo"
    return (
        instant(window.start),
        instant(window.end),
        text.duration(window.end - window.start),
        window.reason or text.DASH,
        instant(window.declared_at),
        window.author or text.DASH,
        state,
        html.Button(does, type="button", className="quiet-button", **{f"data-window-{action}": window.window}),
    )


def _change(change: ExclusionChange) -> Markup:
    """Who undid it, or undid that, and when."""
    by = f" by {change.author}" if change.author else ""
    return html.Span([f"{change.state}{by} ", instant(change.at)], className="muted", title=change.reason)
