"""Errors of the server, one tree. What a caller can answer has a class of its own; the rest is a bug.

    RerailError
    ├── NotFoundError            no such run or incident: 404
    ├── UnknownDefinitionError   no such definition of goodput: 422
    ├── NotBegunError            a run as of an instant before its first fact: 404
    ├── LogGoneError             the facts of a run were deleted on purpose, so its past cannot be told: 410
    ├── RefusedRequestError      the request as a whole cannot be taken; knows its HTTP status and what would mend it
    ├── SettingsError            a setting that cannot be used; names it and where it came from
    └── StoreError
        ├── StoreAwayError       the database does not answer now: 503, try again
        └── SchemaError          the database is of another version than this program; says what to run

One refused line of a batch is no error of this tree: it is `core.codec.FactError`, becomes a row of `refused_row`, and
the rest of its batch is kept.
"""

from __future__ import annotations


class RerailError(Exception):
    """Anything the server raises on purpose."""


class NotFoundError(RerailError):
    """No such run or incident."""

    def __init__(self, what: str, name: str) -> None:
        self.what = what
        self.name = name
        super().__init__(f"no {what} named {name}")


class UnknownDefinitionError(RerailError):
    """No definition of goodput has this name; the message lists those that have one."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"definition: {name!r} is none of {', '.join(known)}")


class NotBegunError(RerailError):
    """A run is asked for as of an instant before its first fact."""

    def __init__(self, run: str, asked: str, first: str) -> None:
        super().__init__(f"run {run} had not begun at {asked}: its first fact is of {first}")


class LogGoneError(RerailError):
    """The log of a run was let go, and what was asked can only be told from it."""

    def __init__(self, run: str) -> None:
        super().__init__(f"the facts of run {run} were deleted: its past cannot be told anew")


class RefusedRequestError(RerailError):
    """A request that cannot be taken as a whole, with the answer its sender gets."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", *, retry_after_seconds: int | None = None
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.retry_after_seconds = retry_after_seconds
        super().__init__(f"{code}: {message}")


class SettingsError(RerailError):
    """A setting that cannot be used."""


class StoreError(RerailError):
    """The store could not do what was asked."""


class StoreAwayError(StoreError):
    """The database does not answer now. What was being written is not written; send it again."""


class SchemaError(StoreError):
    """The database is of another version than this program."""
