"""Note desk: how what people write gets into the store. For the API, the pages and the command alike.

Rules
- A note is on something that is there; where it is on a run, it may be on an instant or a region of its timeline.
- Who changes a note says which revision they saw. Where somebody changed it in between, nothing happens and the answer
  holds both texts (`NoteConflictError`, 409): neither is lost.
- People paste log lines: secrets in a text or a file are masked before it is kept.
- Nothing is edited and nothing deleted: every change is a revision, and can be undone.
- A file that is attached is kept beside the files of incidents, and is no evidence; the text links to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from rerail.collectors.masking import masked, masked_writing
from rerail.collectors.patience import Patience
from rerail.server.artefacts import kept_content, shown_name
from rerail.server.core.notes import (
    LONGEST_BYTES,
    Note,
    NoteRevision,
    Refusal,
    RevisionKind,
    Subject,
    SubjectKind,
    changed,
    written,
)
from rerail.server.core.report import iso
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.instants import parse_instant
from rerail.server.queries import Queries
from rerail.server.query_results import ArtefactRow
from rerail.server.stated import unfit as unfit_field
from rerail.server.store import Store
from rerail.server.store.note_rows import NewNote

LONGEST_NAME = 200
ATTACHED = "notes"
"""What an attachment is kept under, where an incident's id would stand."""

HINT = "docs/knowledge.md, see /api/docs"


class NoteConflictError(RefusedRequestError):
    """Somebody changed the note in between; knows how it stands, what was seen, and what was to be said."""

    def __init__(self, note: Note, seen: NoteRevision | None, text: str | None) -> None:
        self.note = note
        self.seen = seen
        self.text = text
        newest = note.newest
        by = newest.author or "somebody"
        super().__init__(
            409,
            "conflict",
            f"{note.name} changed since you looked: {by} made revision {newest.revision} at "
            f"{(iso(newest.at) or '')[:19]} UTC",
            "both texts are in this answer; nothing was changed",
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody wants of a note."""

    kind: RevisionKind
    revision: int
    """The newest that they saw."""
    text: str | None = None
    restores: int | None = None
    author: str | None = None


class NoteDesk:
    """Takes what people write, for one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._queries = Queries(store, clock)
        self._clock = clock

    def write(self, subject: Subject, text: str, author: str | None) -> Note:
        """A new note. Raises NotFoundError for its subject, RefusedRequestError (413, 422) for what makes no sense."""
        self._queries.notes.know(subject)
        return self._store.notes.write(NewNote(subject, accepted(written(subject, self._clock(), text, author))))

    def change(self, note_id: int, change: Change) -> Note:
        """A new revision. Raises NotFoundError, NoteConflictError (409), RefusedRequestError (413, 422)."""

        def judge(note: Note) -> NoteRevision:
            if change.revision != note.newest.revision:
                seen = next((each for each in note.revisions if each.revision == change.revision), None)
                raise NoteConflictError(note, seen, change.text)
            return accepted(changed(note, change.kind, self._clock(), change.author, change.text, change.restores))

        if change.kind is RevisionKind.EDIT:
            # What is too long is refused before anybody waits for the lock.
            accepted(written(Subject(SubjectKind.NODE, ""), 0, change.text or "", None))
        note = self._store.notes.change(note_id, judge)
        if note is None:
            raise NotFoundError("note", f"note-{note_id}")
        return note

    def attach(self, name: str, content: bytes, author: str | None, patience: Patience | None = None) -> ArtefactRow:
        """Keep a file that a note will link to. The same file again changes nothing.

        Raises RefusedRequestError for one that nobody can mask.
        """
        row = ArtefactRow(
            sha256=sha256(content).hexdigest(), run_id=ATTACHED, incident_id=ATTACHED, name=shown_name(name),
            kind="attachment", size=len(content), received_at=self._clock(),
            author=author and masked(author)[:LONGEST_NAME],
        )  # fmt: skip
        self._store.keep_artefact(row, kept_content(name, content, patience))
        return row


def accepted(judged: NoteRevision | Refusal) -> NoteRevision:
    """The revision, without secrets; raises RefusedRequestError for a refusal."""
    if isinstance(judged, NoteRevision):
        return replace(judged, text=masked_writing(judged.text))  # Only now: what is too long is not looked through.
    if judged.field == "text" and "longer" in judged.reason:
        raise RefusedRequestError(
            413, "too_large", f"text: {judged.reason}; it has {judged.value}",
            f"at most {LONGEST_BYTES} bytes; attach what is longer as a file",
        )  # fmt: skip
    raise unfit(judged.field, judged.value, judged.reason)


def unfit(name: str, value: object, reason: str) -> RefusedRequestError:
    """A field that does not fit."""
    return unfit_field(name, value, reason, HINT)


# --- what a request says ----------------------------------------------------------------------------------------------


def subject_of(stated: Mapping[str, object]) -> Subject:
    """What a note is about, of `subject_kind`, `subject`, `start` and `end`. Raises RefusedRequestError (422)."""
    try:
        kind = SubjectKind(stated.get("subject_kind"))
    except ValueError:
        raise unfit("subject_kind", stated.get("subject_kind"), f"one of {', '.join(SubjectKind)}") from None
    name = stated.get("subject")
    if not isinstance(name, str) or not name or len(name) > 400:
        raise unfit("subject", name, "the id of a run, incident, problem, node or config change")
    return Subject(kind, name, _instant(stated, "start"), _instant(stated, "end"))


def words_of(stated: Mapping[str, object], name: str, longest: int = LONGEST_NAME) -> str | None:
    """A short text of a request. Raises RefusedRequestError (422)."""
    value = stated.get(name)
    if value is not None and not isinstance(value, str):
        raise unfit(name, value, "not text")
    if value is not None and len(value) > longest:
        raise unfit(name, value, f"longer than {longest} characters")
    return masked((value or "").strip())[:longest] or None


def text_of(stated: Mapping[str, object]) -> str:
    """The text of a note."""
    value = stated.get("text")
    if not isinstance(value, str):
        raise unfit("text", value, "not text")
    return value


def number_of(stated: Mapping[str, object], name: str) -> int:
    """A revision's number. Raises RefusedRequestError (422)."""
    value = stated.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise unfit(name, value, "the number of a revision; the one you saw, so that nobody overwrites another")
    return value


def known_fields(stated: Mapping[str, object], *names: str) -> None:
    """Raises RefusedRequestError (422) for a field that is not among these."""
    for name in stated:
        if name not in names:
            raise unfit(name, stated[name], f"not a field: {', '.join(names)}")


def _instant(stated: Mapping[str, object], name: str) -> int | None:
    value = stated.get(name)
    if value in (None, ""):
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError("no instant")
        return parse_instant(str(value))
    except ValueError as error:
        raise unfit(name, value, str(error)) from None
