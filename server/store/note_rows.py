"""Notes and search in the store: what is kept, and what every implementation promises.

- A note changes under a lock: `act` gives the note as it stands to whoever judges, and adds the revision they make of
  it. Two at once are judged one after the other.
- The index of what can be found is written with what it is derived of, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rerail.server.core.notes import MentionKind, Note, NoteRevision, Subject, ToldNote
from rerail.server.core.search.query import Query


class NewNote(NamedTuple):
    """A note to be written."""

    subject: Subject
    revision: NoteRevision


class FoundDocument(NamedTuple):
    """A document that a question finds."""

    number: int
    kind: str
    subject: str
    run: str | None
    at: int
    status: str | None
    title: str
    body: str


class Hit(NamedTuple):
    """That one is found, with enough of it to say how well."""

    number: int
    kind: str
    subject: str
    title: str
    beginning: str
    """Of its body."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The newest that match, newest first; there are more where `is_cut`."""

    hits: tuple[Hit, ...]
    is_cut: bool


class NoteStore(Protocol):
    """See the promises above."""

    def write(self, new: NewNote) -> Note:
        """Add a note; the note with its number."""

    def change(self, note_id: int, judge: Callable[[Note], NoteRevision]) -> Note | None:
        """Add the revision that `judge` makes of a note; None where there is no such note. What it raises is raised."""

    def note(self, note_id: int) -> Note | None:
        """A note with all of its revisions; None where there is none."""

    def about(self, kind: str, name: str, *, with_deleted: bool = False) -> tuple[Note, ...]:
        """The notes on a subject, in the order in which they were written."""

    def on_incidents(self, run: str, limit: int) -> tuple[Note, ...]:
        """Notes on incidents of a run that are not deleted, newest first."""

    def newest(self, offset: int, limit: int) -> tuple[tuple[Note, ...], int]:
        """Notes that are not deleted, newest first, and how many there are."""

    def mentioning(self, kind: MentionKind, name: str) -> tuple[Note, ...]:
        """Notes whose newest text names something, newest first."""

    def told(self, run: str, limit: int) -> tuple[ToldNote, ...]:
        """Notes that facts tell of a run, newest first."""


class SearchStore(Protocol):
    """See the promises above."""

    def hits(self, query: Query, most: int) -> Hits:
        """What a question finds."""

    def documents(self, numbers: Sequence[int]) -> dict[int, FoundDocument]:
        """Documents by their numbers."""

    def rebuild(self) -> None:
        """Empty the index and fill it from what is saved; runs that are derived anew fill in theirs."""
