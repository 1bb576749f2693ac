"""Markup: the still parts of a page, as one value that the browser turns into elements.

Rules
- Dash wraps every component and tells all of them of every change: a table of 140 rows as components took half a
  minute to appear. So only what is interactive (inputs, grid, graph) is a component; everything else is markup, sent as
  JSON in the `data-markup` of one element (`island`) and drawn by `assets/markup.js`.
- Text is text: the browser makes text nodes of it, never HTML. Tags and attributes are from the short lists below, and
  an address is a path or an anchor of ours, or (in notes) begins with http, https or mailto and opens elsewhere; the
  browser checks all three again.
- A new value is laid over the old elements, so an update keeps the scroll position, the selection and what is unfolded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dash import html as dash_html
from dash.development.base_component import Component

TAGS = frozenset(
    re.findall(
        r"\w+",
        """a b blockquote br button caption code dd del details div dl dt em h1 h2 h3 h4 h5 header hr i li mark ol p pre
        section span strong summary table tbody td th thead time tr ul""",
    )
)

ATTRIBUTES = frozenset(
    re.findall(r"\w+", "class colspan datetime hidden href id role scope style tabindex target title type")
)
"""Beside these, anything that begins with `aria-` or `data-`."""

RENAMED = {"className": "class", "dateTime": "datetime", "tabIndex": "tabindex", "colSpan": "colspan"}


@dataclass(frozen=True, slots=True)
class Markup:
    """An element with its attributes and what is in it."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Markup | str, ...]

    def words(self) -> str:
        """The text in it, for tests and for whoever reads aloud."""
        return "".join(child if isinstance(child, str) else child.words() for child in self.children)

    def find(self, tag: str) -> list[Markup]:
        """Every element of that tag inside, in reading order."""
        inside = [child for child in self.children if isinstance(child, Markup)]
        return [found for child in inside for found in ([child] if child.tag == tag else []) + child.find(tag)]


Content = str | int | float | Markup | None | Sequence["str | int | float | Markup | None"]
"""What an element may hold; None is nothing."""


class _Tags:
    """`html.Div(content, className=…)`: an element of that tag, spelled as Dash spells it."""

    def __getattr__(self, name: str) -> _Tag:
        tag = name.lower()
        if tag not in TAGS:
            raise AttributeError(f"markup has no <{tag}>")
        made = self.__dict__[name] = _Tag(tag)  # found before this is asked again
        return made


@dataclass(frozen=True, slots=True)
class _Tag:
    tag: str

    def __call__(self, content: Content = None, **attributes: object) -> Markup:
        return Markup(self.tag, tuple(_attributes(attributes)), _children(content))


html = _Tags()


def island(content: Content, element_id: str, class_name: str = "") -> Component:
    """One Dash element that shows `content`."""
    return dash_html.Div(id=element_id, className=class_name or None, **{"data-markup": encoded(content)})


def encoded(content: Content) -> str:
    """The `data-markup` of an island; what a callback returns to change one."""
    return json.dumps([_json(child) for child in _children(content)], ensure_ascii=False, separators=(",", ":"))


def _json(node: Markup | str) -> object:
    if isinstance(node, str):
        return node
    return [node.tag, dict(node.attributes), *(_json(child) for child in node.children)]


def _children(content: Content) -> tuple[Markup | str, ...]:
    if content is None:
        return ()
    if isinstance(content, (str, Markup)):
        return (content,)
    if isinstance(content, (int, float)):
        return (str(content),)
    return tuple(child for part in content for child in _children(part))


def _attributes(attributes: Mapping[str, object]) -> list[tuple[str, str]]:
    shown = []
    for key, value in attributes.items():
        name = _name(key)
        if value is None or value is False:
            continue
        if isinstance(value, Mapping):
            value = ";".join(f"{part}:{size}" for part, size in value.items())
        shown.append((name, "" if value is True else str(value)))
    return shown


@cache
def _name(key: str) -> str:
    """An attribute as the browser knows it; those of the pages are few, and asked for ten thousand times."""
    name = RENAMED.get(key, key)
    if name not in ATTRIBUTES and not name.startswith(("aria-", "data-")):
        raise ValueError(f"markup has no attribute {key}")
    return name
