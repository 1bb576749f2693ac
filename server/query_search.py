"""Search, as pages and the API ask it: everything that is known, by words and fields, best first.

Rules
- How well the words fit counts, and how new it is: what began a month before the newest that is found weighs half of
  what it would (`HALF_LIFE_NS`), and never less than half again. Without words, the newest come first.
- At most `MOST` of the newest that match are looked at; where there are more, the answer says so.
- Parts of one document are one result. Words that cannot be asked for raise `QueryError` with the word at fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from rerail.server.core.search.query import Query, parse_query
from rerail.server.core.search.snippets import Piece, marked, pattern_of, snippet
from rerail.server.store import Store
from rerail.server.store.note_rows import Hit

MOST = 1000
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
        ranked = ranking(found.hits)
        # Which document a number is of has to be known to count each once; the texts are only read of those shown.
        told = self._store.search.names(ranked)
        numbers: list[int] = []
        seen: set[tuple[str, str]] = set()
        kinds: dict[str, int] = {}
        for number in ranked:
            name = told.get(number)
            if name is not None and name not in seen:
                seen.add(name)
                numbers.append(number)
                kinds[name[0]] = kinds.get(name[0], 0) + 1
        shown = numbers[offset : offset + limit]
        documents = self._store.search.documents(shown)
        pattern = pattern_of(query.terms)
        rows = tuple(
            Found(
                kind=one.kind, subject=one.subject, path=path_of(one.kind, one.subject), at=one.at, run_id=one.run,
                status=one.status, title=marked(one.title, pattern), snippet=snippet(one.body, pattern),
            )
            for number in shown
            if (one := documents.get(number)) is not None
        )  # fmt: skip
        return SearchPage(rows, len(numbers), found.is_cut, tuple(sorted(kinds.items())), query)


def ranking(hits: tuple[Hit, ...]) -> list[int]:
    """Numbers, best first: how well, and how new."""
    if not hits:
        return []
    newest = max(hit.number for hit in hits) >> 20

    def worth(hit: Hit) -> tuple[float, int]:
        age_ns = (newest - (hit.number >> 20)) * 1_000_000
        return max(hit.relevance, 1e-9) * (0.5 + 0.5 * 0.5 ** (age_ns / HALF_LIFE_NS)), hit.number

    return [hit.number for hit in sorted(hits, key=worth, reverse=True)]


def path_of(kind: str, subject: str) -> str:
    """The page of a result."""
    name = quote(subject, safe=":")
    if kind == "note":
        run, mark, rest = subject.partition("#")
        return f"/runs/{quote(run, safe='')}#told-{rest.rsplit('#', 1)[-1]}" if mark else f"/notes/{name}"
    if kind == "trace":
        return f"/incidents/{name}#evidence"
    folder = {"incident": "incidents", "problem": "problems", "node": "nodes", "run": "runs"}.get(kind, "configs")
    return f"/{folder}/{name}"
