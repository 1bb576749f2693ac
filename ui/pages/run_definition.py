"""Whose goodput: the switch between definitions on a run's page, and one definition's figure beside rerail's.

Rules
- Under rerail's own definition there is the switch and nothing else.
- What another definition says comes after the page: some are worked out from the whole log, and the page never waits.
- The choice is in the address (`?definition=`), so a link shows the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

from rerail.server.core.definitions import OURS, Bucket, Definition, ToldFigure, definitions
from rerail.server.query_results import Measurement
from rerail.ui import text
from rerail.ui.elements import Head, table
from rerail.ui.markup import Markup, html


def wanted_definition(search: str) -> str:
    """The definition an address asks for; rerail's where it asks for none that is there."""
    asked = parse_qs(search.removeprefix("?")).get("definition", [OURS])[-1]
    return asked if asked in definitions() else OURS


def switch(wanted: str, found: Measurement | None = None) -> list[Markup]:
    """The switch, with what the wanted definition says; None while that is worked out."""
    buttons = [
        html.Button(
            each.title,
            type="button",
            className="seg",
            title=each.stated_by,
            **{"data-definition": each.name, "aria-pressed": "true" if each.name == wanted else "false"},
        )
        for each in definitions().values()
    ]
    row = html.Div(
        [
            html.Span("Goodput as defined by", className="muted", id="definition-label"),
            html.Div(buttons, className="segs", role="group", **{"aria-labelledby": "definition-label"}),
        ],
        className="definition-switch",
    )
    if wanted == OURS:
        return [row]
    if found is None:
        return [row, html.Div("Working it out from the log …", className="definition muted", role="status")]
    return [row, _compared(found)]


def _compared(found: Measurement) -> Markup:
    definition, measured = found.definition, found.measured
    ours = found.account.training_goodput if found.view.sees_training else None
    reasons = dict(measured.reasons)
    figures = html.Dl(
        [
            html.Dt(f"{definition.title}, training"),
            html.Dd(text.share(measured.training), title=reasons.get("training_goodput")),
            html.Dt("rerail, training", className="muted"),
            html.Dd(text.share(ours), className="muted"),
            *_infrastructure(found),
        ],
        className="definition-figures",
    )
    return html.Div(
        [
            figures,
            html.Div(
                [
                    html.P(measured.difference, className="definition-difference"),
                    html.P(definition.stated_by, className="note"),
                    _details(definition, measured.buckets, measured.numbers, measured.told),
                ],
                className="definition-words",
            ),
        ],
        className="definition",
    )


def _infrastructure(found: Measurement) -> list[Markup]:
    """The second figure, where the definition has one."""
    if found.measured.infrastructure is None:
        return []
    return [
        html.Dt(f"{found.definition.title}, infrastructure"),
        html.Dd(text.share(found.measured.infrastructure)),
        html.Dt("rerail, infrastructure", className="muted"),
        html.Dd(text.share(found.account.infrastructure_goodput), className="muted"),
    ]


def _details(
    definition: Definition,
    buckets: Sequence[Bucket],
    numbers: Sequence[tuple[str, int | float | None]],
    told: Sequence[ToldFigure],
) -> Markup | None:
    """Its buckets and further figures, folded."""
    rows: list[Sequence[str]] = [
        (_words(each.name), text.duration(each.length_ns), text.share(each.share, text.DASH))
        for each in buckets
        if each.length_ns
    ]
    rows += [(_words(name), _number(value), "") for name, value in numbers]
    rows += [(f"{_words(each.name)}, as it was printed", _number(each.value), "") for each in told]
    if not rows:
        return None
    heads = (Head("What", "wide"), Head("How much", "number"), Head("Share", "number"))
    return html.Details(
        [html.Summary(f"{definition.title}'s own figures"), table(heads, rows, f"Figures of {definition.title}")],
        className="more",
    )


def _words(name: str) -> str:
    return name.replace("CUSTOM_BADPUT_EVENTS.", "custom: ").replace("_", " ").lower().replace("tpu", "TPU")


def _number(value: float | None) -> str:
    if value is None:
        return text.UNKNOWN
    return text.number(value) if isinstance(value, int) else f"{value:.6g}"
