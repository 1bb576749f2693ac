"""Search, as pages and the API ask it: everything that is known, by words and fields, best first.

Rules
- How well the words fit counts, and how new it is: what began a month before the newest that is found weighs half of
  what it would (`HALF_LIFE_NS`), and never less than half again. Without words, the newest come first.
- At most `MOST` of the newest that match are looked at; where there are more, the answer says so.
- Parts of one document are one result. Words that cannot be asked for raise `QueryError` with the word at fault.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from rerail.server.core.search.query import Query, Term, parse_query
from rerail.server.core.search.snippets import Piece, marked, pattern_of, snippet
from rerail.server.store import Store
from rerail.server.store.note_rows import Hit

MOST = 200
AVERAGE_LENGTH = 600
TAIL_BITS = 20
"""Below them a document's number is its milliseconds."""

HALF_LIFE_NS = 30 * 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Found:
    """One result."""

    kind: str
    subject: str
    """Its id."""
    path: str
    """Where it is shown."""
    at: int
    run_id: str | None
    status: str | None
    title: tuple[Piece, ...]
    snippet: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A slice of what a question finds."""

    rows: tuple[Found, ...]
    total: int
    """How many were looked at; more match where `is_cut`."""
    is_cut: bool
    kinds: tuple[tuple[str, int], ...]
    """How many of each kind are among them."""
    query: Query


class SearchQueries:
    """Questions to one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._clock = clock

    def find(self, text: str, offset: int = 0, limit: int = 20) -> SearchPage:
        """What a question finds. Raises QueryError; nothing typed finds nothing."""
        query = parse_query(text, self._clock())
        if query.is_empty:
            return SearchPage((), 0, False, (), query)
        found = self._store.search.hits(query, MOST)
        pattern = pattern_of(query.terms)
        numbers: list[int] = []
        seen: set[tuple[str, str]] = set()
        kinds: dict[str, int] = {}
        for hit in ranking(found.hits, query.terms):
            if (hit.kind, hit.subject) not in seen:
                seen.add((hit.kind, hit.subject))
                numbers.append(hit.number)
                kinds[hit.kind] = kinds.get(hit.kind, 0) + 1
        shown = numbers[offset : offset + limit]
        documents = self._store.search.documents(shown)
        rows = tuple(
            Found(
                kind=one.kind, subject=one.subject, path=path_of(one.kind, one.subject), at=one.at, run_id=one.run,
                status=one.status, title=marked(one.title, pattern), snippet=snippet(one.body, pattern),
            )
            for number in shown
            if (one := documents.get(number)) is not None
        )  # fmt: skip
        return SearchPage(rows, len(numbers), found.is_cut, tuple(sorted(kinds.items())), query)


def ranking(hits: Sequence[Hit], terms: Sequence[Term]) -> list[Hit]:
    """Best first: how well, and how new. `hits` come newest first."""
    needles = [_needle(each) for each in terms]
    if not needles or not hits:
        return list(hits)
    newest = hits[0].number >> TAIL_BITS

    def worth(hit: Hit) -> float:
        age_ns = (newest - (hit.number >> TAIL_BITS)) * 1_000_000
        return fitness(hit, needles) * (0.5 + 0.5 * 0.5 ** (age_ns / HALF_LIFE_NS))

    return sorted(hits, key=worth, reverse=True)


def _needle(term: Term) -> str:
    """What is counted of a term: its longest word, without the ending that another form of it lacks."""
    longest = max(re.findall(r"[^\W_]+", term.typed.lower()) or [""], key=len)
    return min((each.typed for each in term.forms if longest.startswith(each.typed)), key=len, default=longest)


def fitness(hit: Hit, needles: Sequence[str]) -> float:
    """How well a text fits: a word in the title counts as much as two that are in the text all the time."""
    title, text = hit.title.lower(), hit.beginning.lower()
    length = 1 + len(text) / AVERAGE_LENGTH
    fits = 0.1
    for needle in needles:
        count = text.count(needle)
        fits += count / (count + 0.6 * length) + 2.0 * (needle in title)
    return fits


def path_of(kind: str, subject: str) -> str:
    """The page of a result."""
    name = quote(subject, safe=":")
    if kind == "note":
        run, mark, rest = subject.partition("#")
        return f"/runs/{quote(run, safe='')}#told-{rest.rsplit('#', 1)[-1]}" if mark else f"/notes/{name}"
    if kind == "trace":
        return f"/incidents/{name}#evidence"
    if kind == "config_change":
        return f"/configs/changes/{quote(subject, safe='')}"
    folder = {"incident": "incidents", "problem": "problems", "node": "nodes", "run": "runs"}.get(kind, "configs")
    return f"/{folder}/{name}"
