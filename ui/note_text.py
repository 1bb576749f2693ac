"""Note text: Markdown as markup of ours.

Rules
- The Markdown library only takes the text apart. What it found becomes elements of `markup.py`, text nodes and
  addresses from the short lists there; HTML in a note is text, and nothing of a note is ever given to the browser as
  HTML.
- A link goes to a page of ours, to `http`, `https` or `mailto`; every other address is shown as text. A picture is a
  link to it: nothing is asked of another server by looking at a note.
- Ids in the text become links to what they name, but in code.
- What cannot be taken apart in good time is shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rerail.server.core.notes import Mention, MentionKind, mentions
from rerail.ui.address import (
    change_path,
    config_path,
    incident_path,
    node_path,
    note_path,
    problem_path,
    run_path,
)
from rerail.ui.markup import Content, Markup, html

DEEPEST = 24
_parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": DEEPEST}).enable(
    ["table", "strikethrough"]
)

_OURS = re.compile(r"(#|/(?![/\\]))[^\s\\]*")
_ELSEWHERE = re.compile(r"(https?://[^\s/]|mailto:)[^\s\\]*", re.IGNORECASE)
_BARE = re.compile(r"\bhttps?://[^\s<>\"'`]{3,500}", re.IGNORECASE)
_HEADINGS = {"h1": "h3", "h2": "h4"}
_SIMPLE = frozenset(["blockquote", "em", "li", "ol", "p", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"])
MOST_TOKENS = 20_000


@lru_cache(maxsize=256)
def note_markup(text: str) -> tuple[Markup | str, ...]:
    """A note's text as elements."""
    try:
        tokens = _parser.parse(text)
    except (RecursionError, ValueError):
        return (html.Pre(text),)
    if len(tokens) > MOST_TOKENS or any(token.level >= DEEPEST - 1 for token in tokens):
        # Deeper ones would be left out.
        return (html.Pre(text),)
    return tuple(_Tree(tokens).content())


class _Tree:
    """Tokens, which open and close, as elements in each other."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._open: list[tuple[Token | None, list[Markup | str]]] = [(None, [])]
        for token in tokens:
            self._add(token)
        while len(self._open) > 1:
            self._close()

    def content(self) -> list[Markup | str]:
        """The outermost elements."""
        return self._open[0][1]

    def _add(self, token: Token) -> None:
        if token.hidden:
            return
        if token.nesting > 0:
            self._open.append((token, []))
        elif token.nesting < 0:
            if len(self._open) > 1:
                self._close()
        else:
            is_in_link = any(opened is not None and opened.tag == "a" for opened, _ in self._open)
            self._here().extend([token.content] if is_in_link and token.type == "text" else _leaf(token))

    def _here(self) -> list[Markup | str]:
        return self._open[-1][1]

    def _close(self) -> None:
        token, inside = self._open.pop()
        assert token is not None
        self._here().append(_element(token, inside))


def _element(token: Token, inside: Content) -> Markup:
    tag = "del" if token.tag == "s" else token.tag
    if tag == "a":
        return _link(str(token.attrs.get("href", "")), inside)
    if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
        return getattr(html, _HEADINGS.get(tag, "h5"))(inside)
    if tag == "table":
        return html.Div(html.Table(inside, className="table"), className="table-frame", tabIndex=0)
    if tag in _SIMPLE or tag == "del":
        return getattr(html, tag)(inside)
    return html.Span(inside)


def _leaf(token: Token) -> Iterator[Markup | str]:
    if token.type == "inline":
        yield from _Tree(token.children or []).content()
    elif token.type in ("fence", "code_block"):
        yield html.Pre(html.Code(token.content))
    elif token.type == "code_inline":
        yield html.Code(token.content)
    elif token.type == "image":
        yield _link(str(token.attrs.get("src", "")), token.content or "picture")
    elif token.type == "hr":
        yield html.Hr()
    elif token.type == "hardbreak":
        yield html.Br()
    elif token.type == "softbreak":
        yield "\n"
    else:
        yield from linked(token.content)


def _link(href: str, inside: Content) -> Markup:
    if _OURS.fullmatch(href) or _ELSEWHERE.fullmatch(href):
        return html.A(inside, href=href, title=None if href.startswith(("/", "#")) else href)
    return html.Span([inside, f" ({href})" if href else ""], title="an address that is not opened from here")


def linked(text: str) -> Iterator[Markup | str]:
    """Text with the ids and web addresses in it as links."""
    place = 0
    for address in _BARE.finditer(text):
        yield from _mentioned(text[place : address.start()])
        href = address[0].rstrip(".,;:!?)]}…")
        yield html.A(href, href=href)
        place = address.start() + len(href)
    yield from _mentioned(text[place:])


def _mentioned(text: str) -> Iterator[Markup | str]:
    place = 0
    for found in mentions(text):
        if found.start > place:
            yield text[place : found.start]
        yield html.A(text[found.start : found.end], href=mention_path(found), className="mention")
        place = found.end
    if place < len(text):
        yield text[place:]


def mention_path(found: Mention) -> str:
    """Where what is named is shown."""
    if found.kind is MentionKind.NOTE:
        return note_path(f"note-{found.name}")
    paths = {
        MentionKind.RUN: run_path,
        MentionKind.INCIDENT: incident_path,
        MentionKind.PROBLEM: problem_path,
        MentionKind.NODE: node_path,
        MentionKind.CONFIG_CHANGE: change_path,
        MentionKind.CONFIG: config_path,
    }
    return paths[found.kind](found.name)
