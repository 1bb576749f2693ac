"""Search words: how documents lie in the two databases' own indexes of words.

Rules
- What is put in are the words of `core/search/words.py`; neither database takes a text apart itself, so both find the
  same whatever their locale.
- A document's number begins with its instant (milliseconds, 20 bit of its name behind): the newest have the largest,
  so that "the newest thousand" is a walk along the index, and a time a range of it.
- A field's value is one word of its own, which no text can hold: on PostgreSQL `field=value`, on SQLite its hash in a
  column of its own.
- PostgreSQL knows places up to 16,383 in a document; parts are shorter than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from sqlalchemy import Connection, text

from rerail.server.core.facts import Pairs
from rerail.server.core.search.query import Filter, Query, Term
from rerail.server.core.search.words import is_paired, words

TAIL_BITS = 20
_LAST_PLACE = 16_000
_NEWEST_MS = 1 << 42

INSERT_FTS = text("INSERT INTO search_words (rowid, title, body, fields) VALUES (:rowid, :title, :body, :fields)")
DELETE_FTS = text("DELETE FROM search_words WHERE rowid = :rowid")
CLEAR_FTS = text("DELETE FROM search_words")


def number_of(at: int, name: str) -> int:
    """The number a document would have; the next free one is taken where another has it."""
    milliseconds = min(max(at // 1_000_000, 0), _NEWEST_MS)
    tail = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big") & 0xFFFFF
    return (milliseconds << TAIL_BITS) | tail


def first_number(at: int) -> int:
    """No document of an earlier millisecond has this number or a larger one."""
    return min(max(at // 1_000_000, 0), _NEWEST_MS) << TAIL_BITS


def is_sqlite(connection: Connection) -> bool:
    """Whether the words lie in a table beside."""
    return connection.dialect.name == "sqlite"


# --- SQLite -----------------------------------------------------------------------------------------------------------


def fts_row(number: int, title: str, body: str, filters: Pairs) -> dict[str, object]:
    """A document as `search_words` holds it."""
    fields = " ".join(_hashed(name, value) for name, value in filters)
    return {"rowid": number, "title": _fts(words(title)), "body": _fts(words(body)), "fields": fields}


def _hashed(name: str, value: str) -> str:
    return "f" + blake2b(f"{name}={value}".encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _fts(found: Sequence[str]) -> str:
    return " ".join(map(_fts_word, found))


def _fts_word(word: str) -> str:
    """As the tokenizer of FTS5 leaves it alone: what its Unicode does not know is written in hexadecimal."""
    if word.isascii() or (is_paired(word) and max(word) <= "\uffff"):
        return word
    return "x" + word.encode("utf-8", "surrogatepass").hex()


def fts_match(query: Query) -> str | None:
    """The MATCH of a question; None where it only asks for a time."""
    parts = [_fts_term(term) for term in query.terms]
    parts += [_fts_filter(each) for each in query.filters]
    if not parts:
        return None
    wanted = " AND ".join(parts)
    without = [_fts_term(term) for term in query.without] + [_fts_filter(each) for each in query.without_filters]
    return f"({wanted}) NOT ({' OR '.join(without)})" if without else wanted


def _fts_term(term: Term) -> str:
    forms = dict.fromkeys(f'"{_fts(each.words)}"' + (" *" if each.goes_on else "") for each in (term, *term.forms))
    return f"({{title body}} : ({' OR '.join(forms)}))"


def _fts_filter(each: Filter) -> str:
    return "(" + " OR ".join(f'fields : "{_hashed(each.field, value)}"' for value in each.values) + ")"


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def ts_vector(title: str, body: str, filters: Pairs) -> str:
    """A document as its `words`: the title's weigh more."""
    places: dict[str, list[str]] = {}
    place = 0
    for place, word in enumerate(words(title), 1):
        if place > 500:
            break
        places.setdefault(word, []).append(f"{place}A")
    first = place + 2  # No phrase reaches from the title into the body.
    for place, word in enumerate(words(body), first):
        of_word = places.setdefault(word, [])
        if len(of_word) < 255:
            of_word.append(str(min(place, _LAST_PLACE)))
    vector = [f"{_quoted(word)}:{','.join(of_word)}" for word, of_word in places.items()]
    vector += [_quoted(_field(name, value)) for name, value in filters]
    return " ".join(vector)


def ts_query(query: Query) -> str | None:
    """The tsquery of a question; None where it only asks for a time."""
    parts = [_ts_term(term) for term in query.terms] + [_ts_filter(each) for each in query.filters]
    if not parts:
        return None
    parts += [f"!{_ts_term(term)}" for term in query.without]
    parts += [f"!{_ts_filter(each)}" for each in query.without_filters]
    return " & ".join(parts)


def _ts_term(term: Term) -> str:
    forms = dict.fromkeys(map(_ts_phrase, (term, *term.forms)))
    return f"({' | '.join(forms)})"


def _ts_phrase(term: Term) -> str:
    parts = [_quoted(word) for word in term.words]
    if term.goes_on:
        parts[-1] += ":*"
    return f"({' <-> '.join(parts)})"


def _ts_filter(each: Filter) -> str:
    return "(" + " | ".join(_quoted(_field(each.field, value)) for value in each.values) + ")"


def _field(name: str, value: str) -> str:
    """A field as a word that no text has, whose beginning none has either: `ran` must not find every rank."""
    return f"={name}={value}"


def _quoted(word: str) -> str:
    word = word.replace("\x00", "").replace("\\", "\\\\").replace("'", "''")
    return f"'{word}'"
