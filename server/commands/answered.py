"""Answered: what a reading command shows, asked of a server where one is named, else read from the database.

Rules
- `--url` names a server, and so does RERAIL_URL where no `--database-url` is given.
- Both ways give the same JSON, and what is printed is made of it: a command prints the same text whoever answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.asking import ask_server
from rerail.server.errors import RerailError
from rerail.server.queries import Queries


def server_of(parsed: argparse.Namespace) -> str:
    """The address of the server to ask, without a slash at its end; empty where the database is read."""
    url = parsed.url or ("" if parsed.database_url else settings_of(parsed).url)
    return str(url or "").rstrip("/")


def told_by_server(parsed: argparse.Namespace, place: str, asked: Mapping[str, object] | None = None) -> Any:
    """What the server answers at `/api/v1/` and `place`; values of `asked` that are None or empty are left out."""
    given = {name: value for name, value in (asked or {}).items() if value not in (None, "", False)}
    query = "?" + urlencode(given, doseq=True) if given else ""
    return ask_server("GET", f"{server_of(parsed)}/api/v1/{place}{query}", settings_of(parsed).token)


def answered(
    parsed: argparse.Namespace, place: str, asked: Mapping[str, object], read: Callable[[Queries], object]
) -> Any:  # fmt: skip
    """The JSON of a server, or what `read` makes of the database. Raises RerailError for what is asked wrongly."""
    if server_of(parsed):
        return told_by_server(parsed, place, asked)
    with opened_store(settings_of(parsed)) as store:
        try:
            return read(Queries(store))
        except ValueError as error:
            raise RerailError(str(error)) from None


class Told:
    """A JSON object by its names, for printing."""

    def __init__(self, told: object) -> None:
        self.told = told if isinstance(told, dict) else {}

    @property
    def rows(self) -> list[Told]:
        """The rows of a page."""
        return self.each("rows")

    @property
    def total(self) -> int:
        """How many rows there are in all."""
        return int(self.told.get("total") or 0)

    def text(self, name: str, unknown: str = "unknown") -> str:
        """A value as text; `unknown` where it is not there."""
        value = self.told.get(name)
        return unknown if value is None else str(value)

    def second(self, name: str, unknown: str = "unknown") -> str:
        """An instant, to the second."""
        return self.text(name, unknown)[:19]

    def flag(self, name: str) -> bool:
        """Whether something is told to be so."""
        return self.told.get(name) is True

    def whole(self, name: str) -> int | None:
        """A whole number."""
        value = self.told.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def real(self, name: str) -> float | None:
        """A number."""
        value = self.told.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def nanoseconds(self, name: str) -> int | None:
        """A length that is told in seconds."""
        value = self.real(name)
        return None if value is None else round(value * 1e9)

    def decimal(self, name: str) -> str:
        """A number with one decimal."""
        value = self.real(name)
        return "unknown" if value is None else f"{value:.1f}"

    def inner(self, name: str) -> Told:
        """A value that has values of its own."""
        return Told(self.told.get(name))

    def each(self, name: str) -> list[Told]:
        """Values of a list that have values of their own."""
        found = self.told.get(name)
        return [Told(each) for each in found] if isinstance(found, list) else []

    def pairs(self, name: str) -> list[tuple[str, Any]]:
        """Names and values of an inner object."""
        found = self.told.get(name)
        return list(found.items()) if isinstance(found, dict) else []
