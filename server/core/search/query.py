"""Query: what somebody typed, as a question; or what is wrong with which word of it.

    nccl timeouts               both words, the last letters of each may be missing; time-out and timeout as well
    "watchdog caught"           these side by side
    -preemption  -node:gpu-3    without that
    cause:oom  node:gpu-17  rank:3  run:llama  status:resolved  kind:note
    after:2026-11-01  before:2026-11-28T12:00

Rules
- All terms must hold. The same field several times means any of its values.
- `after` and `before` take a day, an instant (UTC where no zone is told), or `3d`, `12h`, `2w` before now.
- A word with a colon that is no field is text, since log lines are full of them; but one that is nearly a field is a
  slip, and told.
- A question that only excludes asks for nothing, and is told.
- A word is asked in its other forms too (`words.other_forms`); in a long question, as a pasted line is, not in halves.
- Words in a row that are the field's name for one thing (`out of memory`, `메모리 부족`) are one term, so that it is
  found under its other names (`synonyms.py`).
- A cause is named as its class or as pages write it (`cause_names.py`); what names none is told with what is near.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from rerail.server.core.search.cause_names import causes_named, causes_near
from rerail.server.core.search.synonyms import MOST_WORDS, synonyms
from rerail.server.core.search.words import looked_for, other_forms, plain

LONGEST_QUERY = 1000
MOST_TERMS = 32
MOST_APART = 8
"""Of more words than these none is looked for in two halves."""

NS = 10**9

FIELDS = ("cause", "node", "rank", "run", "status", "kind", "after", "before")
KINDS = ("incident", "trace", "problem", "node", "note", "run", "config_change")
STATUSES = (
    "open", "recovered", "planned", "unrecovered",  # incidents
    "new", "known", "regressed", "resolved", "ignored",  # problems
    "alive", "silent", "ended",  # runs
)  # fmt: skip
_AGO = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": 3600 * NS, "d": 86_400 * NS, "w": 7 * 86_400 * NS}
_FIELD = re.compile(r"([A-Za-z_]{2,20}):(.*)", re.DOTALL)


class QueryError(ValueError):
    """A question that cannot be asked; knows the word at fault."""

    def __init__(self, word: str, reason: str) -> None:
        self.word = word[:80]
        self.reason = reason
        super().__init__(f"{self.word}: {reason}")


@dataclass(frozen=True, slots=True)
class Term:
    """Words that stand side by side."""

    words: tuple[str, ...]
    goes_on: bool
    """The last word may be the beginning of one."""
    typed: str
    """As it was typed, for marking."""
    forms: tuple[Term, ...] = ()
    """Any of them will do instead."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A field with the values of which one must hold, as indexed (`plain_value`)."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A question."""

    terms: tuple[Term, ...] = ()
    without: tuple[Term, ...] = ()
    filters: tuple[Filter, ...] = ()
    without_filters: tuple[Filter, ...] = ()
    after: int | None = None
    """What is found began at or after this instant."""
    before: int | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was typed."""
        return self == Query()


class _Word(NamedTuple):
    shown: str
    is_excluded: bool
    field: str | None
    value: str
    is_quoted: bool


def plain_value(value: str) -> str:
    """A field's value as it is indexed and compared."""
    return " ".join(value.split()).casefold()[:200]


def parse_query(text: str, now: int) -> Query:
    """The question in `text`. Raises QueryError with the word at fault."""
    if len(text) > LONGEST_QUERY:
        raise QueryError(text[:40] + "…", f"{len(text)} letters; the most is {LONGEST_QUERY}")
    terms: list[Term] = []
    without: list[Term] = []
    filters: dict[str, list[str]] = {}
    without_filters: dict[str, list[str]] = {}
    edges: dict[str, int] = {}
    count = 0
    is_short = len(text.split()) <= MOST_APART
    for word in _joined(list(_words(text))):
        count += 1
        if count > MOST_TERMS:
            raise QueryError(word.shown, f"more than {MOST_TERMS} terms")
        if word.field in ("after", "before"):
            if word.is_excluded:
                raise QueryError(word.shown, "a time cannot be excluded; after: and before: are each other's opposite")
            if word.field in edges:
                raise QueryError(word.shown, f"{word.field}: is there twice")
            edges[word.field] = _instant(word, now)
        elif word.field is not None:
            values = _causes(word) if word.field == "cause" else (_value(word),)
            (without_filters if word.is_excluded else filters).setdefault(word.field, []).extend(values)
        else:
            parts, goes_on = looked_for(word.value, may_go_on=not word.is_quoted)
            if not parts:
                if word.is_quoted or word.is_excluded:
                    raise QueryError(word.shown, "there is no letter or digit in it")
                continue  # A lone sign between words, as in pasted lines.
            forms = () if word.is_quoted else _forms(word.value, is_apart=is_short)
            (without if word.is_excluded else terms).append(Term(parts, goes_on, word.value, forms))
    if (without or without_filters) and not (terms or filters or edges):
        raise QueryError(next(_words(text)).shown, "only says what not to find; say also what to find")
    if "after" in edges and "before" in edges and edges["after"] >= edges["before"]:
        raise QueryError("before:", "not later than after:, so nothing can lie between")
    return Query(
        tuple(terms),
        tuple(without),
        tuple(Filter(name, tuple(values)) for name, values in filters.items()),
        tuple(Filter(name, tuple(values)) for name, values in without_filters.items()),
        edges.get("after"),
        edges.get("before"),
    )


def _forms(typed: str, *, is_apart: bool) -> tuple[Term, ...]:
    forms = []
    for form in other_forms(typed, is_apart=is_apart):
        # A half of two letters does not go on: `error` is not the `err or…` of other words.
        parts, goes_on = looked_for(form, may_go_on=len(form.rsplit(" ", 1)[-1]) > 2)
        if parts:
            forms.append(Term(parts, goes_on, form))
    return tuple(forms)


def _joined(told: list[_Word]) -> Iterator[_Word]:
    """Words in a row that are one thing's name as one; all others as they are."""
    place = 0
    while place < len(told):
        for length in range(min(MOST_WORDS, len(told) - place), 1, -1):
            row = told[place : place + length]
            name = " ".join(each.value for each in row)
            is_plain = all(not each.is_quoted and not each.is_excluded and each.field is None for each in row)
            if is_plain and synonyms(plain(name)):
                yield _Word(name, False, None, name, False)
                place += length
                break
        else:
            yield told[place]
            place += 1


def _words(text: str) -> Iterator[_Word]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        start = place
        is_excluded = text[place] == "-" and place + 1 < len(text) and not text[place + 1].isspace()
        place += is_excluded
        if text[place] == '"':
            value, place = _quoted(text, place)
            yield _Word(text[start:place], is_excluded, None, value, True)
            continue
        end = place
        while end < len(text) and not text[end].isspace() and text[end] != '"':
            end += 1
        typed = text[place:end]
        told = _FIELD.fullmatch(typed)
        field = None if told is None else _field(told[1], told[2], typed)
        if field is None or told is None:
            place = end
            yield _Word(text[start:end], is_excluded, None, typed, False)
        elif told[2] == "" and end < len(text) and text[end] == '"':
            value, place = _quoted(text, end)
            yield _Word(text[start:place], is_excluded, field, value, True)
        else:
            place = end
            if not told[2]:
                raise QueryError(text[start:end], f"nothing stands behind it; for instance {field}:{_EXAMPLES[field]}")
            yield _Word(text[start:end], is_excluded, field, told[2], False)


_EXAMPLES = {
    "cause": "oom", "node": "gpu-17", "rank": "3", "run": "llama", "status": "resolved", "kind": "note",
    "after": "2026-11-01", "before": "3d",
}  # fmt: skip


def _field(name: str, value: str, typed: str) -> str | None:
    """The field that a word means; None where it is text."""
    lower = name.lower()
    if lower in FIELDS:
        return lower
    near = difflib.get_close_matches(lower, FIELDS, 1, 0.8)
    if near and value and not value.startswith("/"):
        raise QueryError(typed, f'there is no field {lower}; did you mean {near[0]}:{value}? As text: "{typed}"')
    return None


def _quoted(text: str, place: int) -> tuple[str, int]:
    end = text.find('"', place + 1)
    if end < 0:
        raise QueryError(text[place : place + 40], "the quotation mark is not closed")
    return text[place + 1 : end], end + 1


def _value(word: _Word) -> str:
    value = plain_value(word.value)
    if not value:
        raise QueryError(word.shown, "nothing stands between the quotation marks")
    if word.field == "rank" and not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise QueryError(word.shown, "a rank is a number from 0 on")
    known = {"kind": KINDS, "status": STATUSES}.get(word.field or "")
    if known is not None and value not in known:
        raise QueryError(word.shown, f"{word.field} is one of {', '.join(known)}")
    return str(int(value)) if word.field == "rank" else value


def _causes(word: _Word) -> tuple[str, ...]:
    named = causes_named(_value(word))
    if not named:
        near = " or ".join(f"cause:{each}" for each in causes_near(word.value))
        raise QueryError(word.shown, f"no cause is named so; the nearest: {near}")
    return named


def _instant(word: _Word, now: int) -> int:
    value = word.value.strip()
    ago = _AGO.fullmatch(value)
    if ago is not None:
        return max(0, now - int(ago[1]) * _UNITS[ago[2]])
    try:
        told = datetime.fromisoformat(value)
        told = told.replace(tzinfo=UTC) if told.tzinfo is None else told
        at = int(told.timestamp() * 1e6) * 1000
    except (ValueError, OverflowError, OSError):
        reason = "no day or instant: 2026-11-01, 2026-11-01T12:00, or 3d, 12h, 2w before now"
        raise QueryError(word.shown, reason) from None
    if not 0 <= at < 2**62:
        raise QueryError(word.shown, "before 1970 or after 2116")
    return at
