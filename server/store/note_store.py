"""Notes in the database; see the promises in `note_rows.py`.

Rules
- One transaction: lock (the change counter, whose next value is a new note's number), read, judge, write the revision,
  what it names, and the document that search finds.
- Revisions are only ever added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from rerail.server.core.facts import Note as NoteFact
from rerail.server.core.notes import (
    MentionKind,
    Note,
    NoteRevision,
    RevisionKind,
    Subject,
    SubjectKind,
    ToldNote,
    named,
)
from rerail.server.core.search.documents import Document, note_document
from rerail.server.store import engines, tables
from rerail.server.store.append import keepable, key_of, upsert
from rerail.server.store.note_rows import NewNote
from rerail.server.store.search_writing import renew

_note, _revision, _mention, _told = tables.note.c, tables.note_revision.c, tables.note_mention.c, tables.told_note.c
_document = tables.search_document.c
MOST_OF_A_SUBJECT = 500


class SqlNoteStore:
    """Notes of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def write(self, new: NewNote) -> Note:
        """Add a note."""
        from rerail.server.store.derived import next_revision

        with engines.answering(), self._write.begin() as connection:
            note_id = next_revision(connection)
            subject = new.subject
            note = Note(note_id, subject, (new.revision,))
            connection.execute(
                insert(tables.note),
                {
                    "note_id": note_id,
                    "subject_kind": subject.kind.value,
                    "subject": keepable(subject.name),
                    "start_at": subject.start,
                    "end_at": subject.end,
                    "revision": 1,
                    "is_deleted": False,
                    "written_at": new.revision.at,
                },
            )
            _add_revision(connection, note)
        return note

    def change(self, note_id: int, judge: Callable[[Note], NoteRevision]) -> Note | None:
        """Add a revision."""
        from rerail.server.store.derived import next_revision

        with engines.answering(), self._write.begin() as connection:
            next_revision(connection)
            before = next(iter(_notes(connection, [note_id])), None)
            if before is None:
                return None
            revision = judge(before)
            note = Note(note_id, before.subject, (*before.revisions, revision))
            connection.execute(
                update(tables.note)
                .where(_note.note_id == note_id)
                .values(revision=revision.revision, is_deleted=revision.is_deleted)
            )
            _add_revision(connection, note)
        return note

    def note(self, note_id: int) -> Note | None:
        """A note with all of its revisions."""
        with engines.answering(), self._read.begin() as connection:
            return next(iter(_notes(connection, [note_id])), None)

    def about(self, kind: str, name: str, *, with_deleted: bool = False) -> tuple[Note, ...]:
        """The notes on a subject, oldest first."""
        wanted = [_note.subject_kind == kind, _note.subject == keepable(name)]
        if not with_deleted:
            wanted.append(_note.is_deleted.is_(False))
        found = select(_note.note_id).where(*wanted).order_by(_note.note_id.desc()).limit(MOST_OF_A_SUBJECT)
        with engines.answering(), self._read.begin() as connection:
            return tuple(sorted(_notes(connection, connection.execute(found).scalars().all()), key=_by_number))

    def on_incidents(self, run: str, limit: int) -> tuple[Note, ...]:
        """Notes on incidents of a run, newest first."""
        wanted = (
            select(_note.note_id)
            .where(
                _note.subject_kind == SubjectKind.INCIDENT.value,
                _note.subject.startswith(keepable(run) + "~", autoescape=True),
                _note.is_deleted.is_(False),
            )
            .order_by(_note.note_id.desc())
            .limit(limit)
        )
        with engines.answering(), self._read.begin() as connection:
            notes = _notes(connection, connection.execute(wanted).scalars().all())
        return tuple(sorted(notes, key=_by_number, reverse=True))

    def newest(self, offset: int, limit: int) -> tuple[tuple[Note, ...], int]:
        """Notes that are not deleted, newest first."""
        is_there = _note.is_deleted.is_(False)
        found = select(_note.note_id).where(is_there).order_by(_note.note_id.desc()).offset(offset).limit(limit)
        with engines.answering(), self._read.begin() as connection:
            total = connection.execute(select(func.count()).select_from(tables.note).where(is_there)).scalar_one()
            notes = _notes(connection, connection.execute(found).scalars().all())
        return tuple(sorted(notes, key=_by_number, reverse=True)), total

    def mentioning(self, kind: MentionKind, name: str) -> tuple[Note, ...]:
        """Notes that name something, newest first."""
        found = (
            select(_mention.note_id)
            .where(_mention.kind == kind.value, _mention.name == keepable(name))
            .order_by(_mention.note_id.desc())
            .limit(MOST_OF_A_SUBJECT)
        )
        with engines.answering(), self._read.begin() as connection:
            notes = _notes(connection, connection.execute(found).scalars().all())
        return tuple(sorted(notes, key=_by_number, reverse=True))

    def told(self, run: str, limit: int) -> tuple[ToldNote, ...]:
        """Notes that facts tell of a run, newest first."""
        found = select(tables.told_note).where(_told.run_id == key_of(run)).order_by(_told.at.desc()).limit(limit)
        with engines.answering(), self._read.begin() as connection:
            return tuple(
                ToldNote(run, row.emitter, row.seq, row.at, row.author, row.text) for row in connection.execute(found)
            )


def _by_number(note: Note) -> int:
    return note.note_id


def _notes(connection: Connection, numbers: Sequence[int]) -> list[Note]:
    if not numbers:
        return []
    revisions: dict[int, list[NoteRevision]] = {}
    for row in connection.execute(
        select(tables.note_revision)
        .where(_revision.note_id.in_(numbers))
        .order_by(_revision.note_id, _revision.revision)
    ):
        revisions.setdefault(row.note_id, []).append(
            NoteRevision(
                row.revision, row.at, RevisionKind(row.kind), row.text, row.is_deleted, row.author, row.restores
            )
        )
    return [
        Note(
            row.note_id,
            Subject(SubjectKind(row.subject_kind), row.subject, row.start_at, row.end_at),
            tuple(revisions.get(row.note_id, ())),
        )
        for row in connection.execute(select(tables.note).where(_note.note_id.in_(numbers)))
    ]


def all_notes(connection: Connection) -> Iterable[Note]:
    """Every note, a few at a time."""
    numbers = connection.execute(select(_note.note_id).order_by(_note.note_id)).scalars().all()
    for first in range(0, len(numbers), 200):
        yield from _notes(connection, numbers[first : first + 200])


def _add_revision(connection: Connection, note: Note) -> None:
    newest = note.newest
    connection.execute(
        insert(tables.note_revision),
        {
            "note_id": note.note_id,
            "revision": newest.revision,
            "at": newest.at,
            "kind": newest.kind.value,
            "text": keepable(newest.text),
            "is_deleted": newest.is_deleted,
            "author": None if newest.author is None else keepable(newest.author),
            "restores": newest.restores,
        },
    )
    connection.execute(delete(tables.note_mention).where(_mention.note_id == note.note_id))
    names = () if newest.is_deleted else named(newest.text)
    if names:
        connection.execute(
            insert(tables.note_mention),
            [{"note_id": note.note_id, "kind": kind.value, "name": keepable(name)} for kind, name in names],
        )
    renew_note(connection, note)


def renew_note(connection: Connection, note: Note) -> None:
    """The document of a note, or none where it is deleted."""
    document = note_document(note)
    where = [_document.kind == "note", _document.subject == note.name]
    renew(connection, where, [] if document is None else [document])


# --- notes that facts tell --------------------------------------------------------------------------------------------


def write_told(connection: Connection, run_id: int, facts: Sequence[NoteFact]) -> None:
    """Put down notes that facts tell, each once, with the documents that search finds."""
    if not facts:
        return
    connection.execute(
        upsert(connection, tables.told_note).on_conflict_do_nothing(),
        [
            {
                "run_id": run_id,
                "emitter_id": key_of(fact.emitter),
                "seq": fact.seq,
                "emitter": keepable(fact.emitter),
                "at": fact.at,
                "author": None if fact.author is None else keepable(fact.author),
                "text": keepable(fact.text),
            }
            for fact in facts
        ],
    )
    by_name = {told_name(fact.run, fact.emitter, fact.seq): fact for fact in facts}
    names = list(by_name)
    for first in range(0, len(names), 400):
        some = names[first : first + 400]
        where = [_document.kind == "note", _document.subject.in_([keepable(name) for name in some])]
        renew(connection, where, (told_document(name, by_name[name]) for name in some))


def told_name(run: str, emitter: str, seq: int) -> str:
    """How search knows a note that a fact tells: by the run it is on."""
    return f"{run}#{emitter}#{seq}"


def told_document(name: str, fact: NoteFact | ToldNote) -> Document:
    """What is found of a note that a fact tells."""
    by = f" by {fact.author}" if fact.author else ""
    return Document("note", name, fact.at, f"Note on run {fact.run}{by}", fact.text, fact.run)
