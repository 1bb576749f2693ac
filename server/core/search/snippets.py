"""Snippets: the part of a text around what was looked for, with the matching words marked.

Rules
- What is shown is the text as it was written; marks lie on letters of it. A word that is written in another form than
  it was typed (full width, accents) is found and may stand unmarked.
- The stretch with most different terms is shown, the earliest of these; without any, how the text begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.search.query import Term
from rerail.server.core.search.words import is_paired, plain, words

LENGTH = 220
MOST_MATCHES = 400
_RUNS_OF_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text."""

    text: str
    is_match: bool = False


def pattern_of(terms: Sequence[Term]) -> re.Pattern[str] | None:
    """What marks the terms in a text; a group each. None without terms."""
    parts = [f"({part})" for part in map(_of_any_form, terms) if part]
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def _of_any_form(term: Term) -> str:
    return "|".join(dict.fromkeys(part for part in map(_pattern, (term, *term.forms)) if part))


def _pattern(term: Term) -> str:
    pieces = re.findall(r"[^\W_]+", plain(term.typed))
    if not pieces:
        return ""
    shown = r"[\W_]*".join(re.escape(piece) for piece in pieces)
    before = "" if is_paired(pieces[0]) else r"(?<![^\W_])" if not _glued(pieces[0]) else ""
    after = r"[^\W_]*" if term.goes_on and not is_paired(words(term.typed)[-1]) else ""
    return before + shown + after


def _glued(piece: str) -> bool:
    return any(is_paired(letter) for letter in piece)


def marked(text: str, pattern: re.Pattern[str] | None) -> tuple[Piece, ...]:
    """All of a text, with the matches marked."""
    if pattern is None or not text:
        return (Piece(text),) if text else ()
    pieces: list[Piece] = []
    place = 0
    for count, found in enumerate(pattern.finditer(text)):
        if count >= MOST_MATCHES:
            break
        if found.start() > place:
            pieces.append(Piece(text[place : found.start()]))
        if found.end() > found.start():
            pieces.append(Piece(found[0], True))
        place = found.end()
    if place < len(text):
        pieces.append(Piece(text[place:]))
    return tuple(pieces)


def snippet(text: str, pattern: re.Pattern[str] | None, length: int = LENGTH) -> tuple[Piece, ...]:
    """The best stretch of a text, about `length` letters of it; dots say that there is more."""
    first = _best(text, pattern, length)
    if first > 0:
        # Begin at a word.
        space = text.rfind(" ", max(0, first - 24), first + 1)
        first = space + 1 if space >= 0 else first
    last = min(len(text), first + length)
    if last < len(text):
        space = text.rfind(" ", last - 24, last)
        last = space if space > first else last
    shown = _RUNS_OF_SPACE.sub(" ", text[first:last]).strip()
    pieces = list(marked(shown, pattern))
    if first > 0:
        pieces.insert(0, Piece("… "))
    if last < len(text):
        pieces.append(Piece(" …"))
    return tuple(pieces)


def _best(text: str, pattern: re.Pattern[str] | None, length: int) -> int:
    if pattern is None:
        return 0
    found: list[tuple[int, int]] = []
    for each in pattern.finditer(text):
        found.append((each.start(), each.lastindex or 0))
        if len(found) >= MOST_MATCHES:
            break
    best, most = 0, 0
    for place, (start, _) in enumerate(found):
        inside = {group for at, group in found[place : place + 40] if at < start + length * 3 // 4}
        if len(inside) > most:
            best, most = start, len(inside)
    return max(0, best - length // 4) if most and best > length * 3 // 4 else 0
