"""Notes, as pages and the API read them: on a subject, naming it, and told by facts.

Rules
- What people wrote and what facts tell stand side by side; only the former can be changed.
- A note on an incident is shown on its incident, and on the timeline of its run at the incident's beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from rerail.server.core.notes import Course, MentionKind, Note, Subject, SubjectKind, ToldNote, course
from rerail.server.core.recovery_configs.changes import changes
from rerail.server.errors import NotFoundError
from rerail.server.query_results import NoteMark
from rerail.server.store import Store

MOST_TOLD = 200
MOST_MARKS = 200


@dataclass(frozen=True, slots=True)
class NotesOf:
    """Everything written about one subject."""

    subject: Subject
    notes: tuple[Note, ...]
    """Oldest first; deleted ones at their place, without their text on pages."""
    mentioned_in: tuple[Note, ...]
    """Notes on something else that name it, newest first."""
    told: tuple[ToldNote, ...] = ()
    """Of a run: what its facts tell, oldest first."""


@dataclass(frozen=True, slots=True)
class NoteView:
    """One note with what can be done with it, and who names it."""

    note: Note
    course: Course
    mentioned_in: tuple[Note, ...]


class NoteQueries:
    """Reads of notes of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def know(self, subject: Subject) -> None:
        """Raises NotFoundError where the subject is not known."""
        name, is_known = subject.name, True
        if subject.kind is SubjectKind.RUN:
            is_known = bool(self._store.emitters(name))
        elif subject.kind is SubjectKind.INCIDENT:
            is_known = self._store.incident(name) is not None
        elif subject.kind is SubjectKind.PROBLEM:
            ledger = self._store.problems.ledger()
            is_known = bool(self._store.problems.fingerprints([name])) or ledger.exists_as_split(name)
        elif subject.kind is SubjectKind.NODE:
            is_known = bool(self._store.problems.node_told([name]).get(name))
        elif subject.kind is SubjectKind.CONFIG_CHANGE:
            line = self._store.configs.lines_of(name.rpartition("@")[0])
            is_known = any(each.change_id == name for each in changes(line))
        if not is_known:
            raise NotFoundError(subject.kind.value, name)

    def about(self, kind: SubjectKind, name: str) -> NotesOf:
        """Notes on a subject, and those that name it; of one that is not known none."""
        subject = Subject(kind, name)
        notes = self._store.notes.about(kind.value, name, with_deleted=True)
        mention = next((each for each in MentionKind if each.value == kind.value), None)
        mentioned = () if mention is None else self._store.notes.mentioning(mention, name)
        own = {note.note_id for note in notes}
        told = self._store.notes.told(name, MOST_TOLD)[::-1] if kind is SubjectKind.RUN else ()
        return NotesOf(subject, notes, tuple(note for note in mentioned if note.note_id not in own), told)

    def naming(self, kind: MentionKind, name: str) -> tuple[Note, ...]:
        """Notes that name something, newest first."""
        return self._store.notes.mentioning(kind, name)

    def note(self, note_id: int) -> NoteView:
        """One note."""
        note = self._store.notes.note(note_id)
        if note is None:
            raise NotFoundError("note", f"note-{note_id}")
        mentioned = self._store.notes.mentioning(MentionKind.NOTE, str(note_id))
        return NoteView(note, course(note.revisions), mentioned)

    def newest(self, offset: int = 0, limit: int = 50) -> tuple[tuple[Note, ...], int]:
        """Notes on anything, newest first, and how many there are."""
        return self._store.notes.newest(offset, limit)

    def marks(self, run_id: str, start: int, end: int) -> tuple[NoteMark, ...]:
        """Notes on a run's timeline that touch `[start, end]`, by their beginning; of very many the newest."""
        marks = [
            NoteMark(each.at, None, each.author, each.text[:160], f"#told-{each.seq}")
            for each in self._store.notes.told(run_id, MOST_TOLD)
        ]
        for note in self._store.notes.about(SubjectKind.RUN.value, run_id):
            subject, first = note.subject, note.first
            began = first.at if subject.start is None else subject.start
            marks.append(NoteMark(began, subject.end, first.author, note.newest.text[:160], f"#{note.name}"))
        on_incidents = self._store.notes.on_incidents(run_id, MOST_MARKS)
        if on_incidents:
            known = self._store.marks(run_id)
            began_at = {} if known is None else {each.incident_id: each.started_at for each in known.incidents}
            for note in on_incidents:
                name = note.subject.name
                if name in began_at:
                    link = f"/incidents/{quote(name, safe='~')}#{note.name}"
                    marks.append(NoteMark(began_at[name], None, note.first.author, note.newest.text[:160], link))
        inside = [mark for mark in marks if mark.start <= end and (mark.end or mark.start) >= start]
        return tuple(sorted(inside, key=lambda mark: mark.start)[-MOST_MARKS:])
