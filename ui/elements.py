"""Elements: the small pieces every page is made of, as markup that carries classes of `assets/style.css`.

Rules
- An instant is a `<time>` with the UTC instant in it; the browser shows it in the reader's zone, with UTC as a hint.
- Text that came from facts goes in as text only; an address made of it is escaped by `address.py`.
- A number is a link to what it is made of, where there is such a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.report import iso
from rerail.server.core.view import RunState
from rerail.ui import text
from rerail.ui.markup import Content, Markup, html
from rerail.ui.theme import css_name

SHOWN = 12
"""Rows of a long table that are there at once; the rest unfolds."""

MOST_ROWS = 200
"""Rows that a page carries of one table."""


def instant(at: int | None, form: str = "full") -> Markup | str:
    """An instant; `form` is `full` (day and time), `clock` (time), `ago` (how long since) or `precise` (with ms)."""
    if at is None:
        return text.UNKNOWN
    precise = iso(at)
    shown = precise[:19].replace("T", " ")
    return html.Time(shown, dateTime=precise, title=f"{shown} UTC", className="at", **{"data-form": form})


def link(content: Content, href: str, class_name: str = "") -> Markup:
    """A link to a page or a panel of ours."""
    return html.A(content, href=href, className=class_name or None)


def badge(content: Content, tone: str = "quiet", hint: str | None = None) -> Markup:
    """A word with a tone: `quiet`, `good`, `warn`, `danger`, `outline`."""
    return html.Span(content, className=f"badge badge-{tone}", title=hint)


def state_badge(state: RunState, silent_since: int | None, has_open_incident: bool) -> Markup:
    """Alive, silent since when, or ended."""
    if state is RunState.SILENT:
        return badge(["silent since ", instant(silent_since, "full")], "outline")
    if state is RunState.ENDED:
        return badge("ended", "quiet")
    if has_open_incident:
        return badge([html.I(className="dot dot-danger"), "incident open"], "danger")
    return badge([html.I(className="dot dot-good"), "alive"], "good")


def panel(
    title: str, content: Content, panel_id: str, lead: Content = None, actions: Content = None, wide: bool = False
) -> Markup:
    """A titled part of a page, with an anchor."""
    head = [html.H2(link(title, f"#{panel_id}"))]
    if lead is not None:
        head.append(html.P(lead, className="lead"))
    if actions is not None:
        head.append(html.Div(actions, className="actions"))
    return html.Section(
        [html.Header(head, className="panel-head"), html.Div(content, className="panel-body")],
        id=panel_id,
        className="panel panel-wide" if wide else "panel",
    )


def tile(name: str, value: Content, about: Content = None, href: str | None = None, tone: str = "") -> Markup:
    """A key figure: its name, the number, and what to know of it."""
    inside = [
        html.Span(name, className="tile-name"),
        html.Span(value, className="tile-value"),
        html.Span(about, className="tile-about"),
    ]
    class_name = f"tile tile-{tone}" if tone else "tile"
    return html.A(inside, href=href, className=class_name) if href else html.Div(inside, className=class_name)


def count_figure(value: str, name: str, hint: str | None = None, is_worrying: bool = False) -> Markup:
    """A number and what it counts, in a row of such."""
    return html.Div(
        [html.Span(value, className="count-value"), html.Span(name, className="count-name")],
        className="count count-some" if is_worrying else "count",
        title=hint,
    )


@dataclass(frozen=True, slots=True)
class Head:
    """A column of a table."""

    name: str
    kind: str = ""
    """`number` (right, tabular), `words` (not broken), `wide` (takes what is left), `half` (shares it with another)."""
    hint: str | None = None


def table(
    heads: Sequence[Head],
    rows: Sequence[Sequence[Content]],
    caption: str,
    row_ids: Sequence[str] | None = None,
    *,
    stacks: bool = False,
) -> Markup:
    """A dense table; `caption` is read by screen readers.

    On a phone it scrolls sideways, or where it `stacks` each row becomes a card: its first cell, then name and value.
    """
    head = html.Thead(
        html.Tr(
            [
                html.Th(column.name, className=column.kind or None, title=column.hint, scope="col")
                if column.name
                else html.Td(className=column.kind or None)
                for column in heads
            ]
        )
    )
    body = []
    for index, row in enumerate(rows):
        cells = [
            html.Td(cell, className=column.kind or None, **({"data-head": column.name} if stacks else {}))
            for column, cell in zip(heads, row, strict=True)
        ]
        body.append(html.Tr(cells, id=row_ids[index]) if row_ids else html.Tr(cells))
    return html.Div(
        html.Table(
            [html.Caption(caption, className="unseen"), head, html.Tbody(body)],
            className="table table-stacks" if stacks else "table",
        ),
        className="table-frame",
        tabIndex=0,
    )


def folded(
    heads: Sequence[Head],
    rows: Sequence[Sequence[Content]],
    caption: str,
    ids: Sequence[str] | None = None,
    *,
    stacks: bool = False,
) -> Content:
    """A table; where it is long, its first rows, and the rest behind a line to unfold, up to `MOST_ROWS`."""
    if len(rows) <= SHOWN + 3:
        return table(heads, rows, caption, ids, stacks=stacks)
    last = min(len(rows), MOST_ROWS)
    rest: list[Content] = [
        html.Summary(f"{text.number(last - SHOWN)} more"),
        table(heads, rows[SHOWN:last], f"{caption}, continued", ids and ids[SHOWN:last], stacks=stacks),
    ]
    if last < len(rows):
        rest.append(html.P(f"{text.number(len(rows) - last)} others are not listed here.", className="note"))
    return [
        table(heads, rows[:SHOWN], caption, ids and ids[:SHOWN], stacks=stacks),
        html.Details(rest, className="more"),
    ]


def phase_class(phase: Phase) -> str:
    """The class that fills something with a phase's colour and pattern."""
    return f"ph ph-{css_name(phase)}"


def swatch(phase: Phase) -> Markup:
    """The small square of a phase's colour."""
    return html.I(className=f"swatch {phase_class(phase)}")


def parts_bar(parts: Sequence[tuple[str, str, float, str]], whole: str, class_name: str = "") -> Markup:
    """A bar of parts `(class, name, share, length)`; `whole` is what a screen reader says."""
    pieces = [
        html.Span(
            className=piece_class,
            style={"width": f"{share * 100:.3f}%"},
            title=f"{name}: {length} ({text.share(share)})",
        )
        for piece_class, name, share, length in parts
        if share > 0
    ]
    return html.Div(pieces, className=f"parts {class_name}".strip(), role="img", **{"aria-label": whole})


def command(line: str) -> Markup:
    """A command to copy; `{server}` in it becomes the address the reader has in front of them."""
    return html.Div(
        [
            html.Code(line, className="command-line"),
            html.Button("copy", className="copy", type="button", **{"data-copy": "command"}),
        ],
        className="command",
    )


def empty(title: str, about: Content, *lines: str) -> Markup:
    """What stands where there is nothing yet: why, and the command that changes it."""
    return html.Div(
        [html.P(title, className="empty-title"), html.P(about, className="empty-about"), *map(command, lines)],
        className="empty",
    )


def copy_table_button() -> list[Markup]:
    """Copies the tables of a panel as CSV, or saves them as a file."""
    return [
        html.Button("copy CSV", className="quiet-button", type="button", **{"data-copy": "table"}),
        html.Button("save CSV", className="quiet-button", type="button", **{"data-do": "csv"}),
    ]
