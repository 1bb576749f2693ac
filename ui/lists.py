"""Lists that a search, a choice and an order narrow: one bar and one callback for the pages that have one.

Rules
- What is asked for is in the address (`q`, the choice's own name, `sort`, `offset`), so that a link brings it back.
  Names beside these that a page knows (`node`, `cause`) stay as they are while one searches.
- The browser writes the address (`assets/lists.js`), the server the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from rerail.ui.markup import Content, Markup, encoded, island
from rerail.ui.markup import html as markup
from rerail.ui.reading import in_thread

ROWS = 50
"""Of one page of a list."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a list."""

    search: str = ""
    choice: str = ""
    sort: str = ""
    offset: int = 0
    fixed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ListKind:
    """One list: its name, and what it can be narrowed and ordered by."""

    name: str
    placeholder: str
    choice: str
    """Name of the choice in the address: `status`, `level`."""
    choices: Sequence[tuple[str, str]]
    sorts: Sequence[tuple[str, str]]
    """The first is the order unless told."""
    fixed: Sequence[str] = ()

    def wanted(self, query: str) -> Wanted:
        """What an address asks for; nonsense in it is left out."""
        told = {name: values[0] for name, values in parse_qs(query.removeprefix("?")).items()}
        choice, sort = told.get(self.choice, ""), told.get("sort", "")
        offset = told.get("offset", "")
        return Wanted(
            search=told.get("q", ""),
            choice=choice if choice in dict(self.choices) else "",
            sort=sort if sort in dict(self.sorts) else self.sorts[0][0],
            offset=min(int(offset), 10**9) if offset.isascii() and offset.isdecimal() and len(offset) < 10 else 0,
            fixed=tuple((name, told[name]) for name in self.fixed if told.get(name)),
        )

    def bar(self, wanted: Wanted) -> Component:
        """Search, choice and order."""
        return html.Div(
            [
                dmc.TextInput(
                    id=f"{self.name}-search",
                    value=wanted.search,
                    placeholder=self.placeholder,
                    size="sm",
                    debounce=250,
                    className="search",
                    **{"aria-label": f"Search {self.name}"},
                ),
                dmc.SegmentedControl(
                    id=f"{self.name}-choice",
                    data=[{"value": value, "label": label} for value, label in self.choices],
                    value=wanted.choice,
                    size="sm",
                ),
                dmc.Select(
                    id=f"{self.name}-sort",
                    data=[{"value": value, "label": label} for value, label in self.sorts],
                    value=wanted.sort,
                    allowDeselect=False,
                    size="sm",
                    className="list-sort",
                    **{"aria-label": "Order"},
                ),
                dcc.Store(id=f"{self.name}-offset", data=wanted.offset),
                dcc.Store(id=f"{self.name}-fixed", data=dict(wanted.fixed)),
                dcc.Store(id=f"{self.name}-address"),
            ],
            className="filters",
            **{"data-narrows": self.name, "data-order": self.sorts[0][0]},
        )

    def shown(self, content: Content) -> Component:
        """Where the rows are drawn."""
        return island(content, f"{self.name}-list", "list")

    def register(self, app: Dash, rows: Callable[[Wanted], Content]) -> None:
        """Add the callbacks; `rows` is asked in a thread."""
        inputs = [Input(f"{self.name}-{part}", "value") for part in ("search", "choice", "sort")]
        inputs.append(Input(f"{self.name}-offset", "data"))

        @app.callback(
            Output(f"{self.name}-list", "data-markup"),
            *inputs,
            State(f"{self.name}-fixed", "data"),
            prevent_initial_call=True,
        )
        async def draw(
            search: str | None,
            choice: str | None,
            sort: str | None,
            offset: int | None,
            fixed: Mapping[str, str] | None,
        ) -> str:
            told = {"q": search or "", self.choice: choice or "", "sort": sort or "", "offset": str(int(offset or 0))}
            wanted = self.wanted(urlencode({**(fixed or {}), **told}))
            return encoded(await in_thread(rows, wanted))

        app.clientside_callback(
            ClientsideFunction("rerail_lists", f"filter_{self.choice}"),
            Output(f"{self.name}-address", "data"),
            *inputs,
            prevent_initial_call=True,
        )


def pager(kind: ListKind, wanted: Wanted, total: int) -> Markup | None:
    """Which rows these are, and the way to the others."""
    if total <= ROWS and not wanted.offset:
        return None
    last = min(total, wanted.offset + ROWS)
    buttons: list[Content] = []
    for label, offset, is_there in (
        ("← previous", max(0, wanted.offset - ROWS), wanted.offset > 0),
        ("next →", wanted.offset + ROWS, last < total),
    ):
        if is_there:
            told = {"data-list": kind.name, "data-offset": str(offset)}
            buttons.append(markup.Button(label, type="button", className="quiet-button", **told))
    return markup.Div(
        [markup.Span(f"{wanted.offset + 1 if total else 0}–{last} of {total}", className="muted"), *buttons],
        className="pager",
    )


def spark(bars: Sequence[int], label: str) -> Markup:
    """A small picture of how often, over time."""
    most = max(bars, default=0) or 1
    pieces = [
        markup.I(className="spark-bar" if times else "spark-none", style={"height": f"{max(8, times * 100 // most)}%"})
        for times in bars
    ]
    return markup.Span(pieces, className="spark", role="img", title=label, **{"aria-label": label})
