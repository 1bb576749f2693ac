"""Notes: what people write beside what the facts tell, with every revision that there ever was.

Rules
- A note is about one subject: a run (or an instant or a region of it), an incident, a problem, a node, a config
  change.
- Revisions only grow. Each holds the whole text as it stands after it, so none depends on another.
- Undo takes back the newest revision in force, redo brings back what was undone last, and writing anew forgets what
  could be brought back: the history itself forgets nothing. A deleted note is a revision too.
- Whoever changes a note says which revision they saw; where that is not the newest, nothing happens
  (`server/notes.py`).
- A text names what it speaks of: `run:ID`, `node:ID`, `incident:ID`, `problem:ID` (quoted where the id has spaces),
  and ids that can be nothing else: `run~3`, `note-12`, `1:9f3a2c1b7d4e`, `split-4`. A web address is never read as
  one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

LONGEST_BYTES = 64 * 1024
"""Of one text, as UTF-8."""

MOST_MENTIONS = 200


class SubjectKind(StrEnum):
    """What a note may be about."""

    RUN = "run"
    INCIDENT = "incident"
    PROBLEM = "problem"
    NODE = "node"
    CONFIG_CHANGE = "config_change"


class RevisionKind(StrEnum):
    """What somebody did to a note."""

    WRITE = "write"
    EDIT = "edit"
    DELETE = "delete"
    RESTORE = "restore"
    """The text of an earlier revision again."""
    UNDO = "undo"
    REDO = "redo"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a note is about; of a run also when."""

    kind: SubjectKind
    name: str
    start: int | None = None
    """Of a run: the instant, or where the region begins."""
    end: int | None = None
    """Where the region ends; None for an instant."""


@dataclass(frozen=True, slots=True)
class NoteRevision:
    """One state of a note, and who brought it about."""

    revision: int
    """From 1 on, without gaps."""
    at: int
    kind: RevisionKind
    text: str
    is_deleted: bool = False
    author: str | None = None
    restores: int | None = None
    """The revision whose text this is again."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note with its history, oldest first; never without a revision."""

    note_id: int
    subject: Subject
    revisions: tuple[NoteRevision, ...]

    @property
    def name(self) -> str:
        """As people and links say it."""
        return f"note-{self.note_id}"

    @property
    def newest(self) -> NoteRevision:
        """How it stands."""
        return self.revisions[-1]

    @property
    def first(self) -> NoteRevision:
        """Who wrote it, and when."""
        return self.revisions[0]


@dataclass(frozen=True, slots=True)
class ToldNote:
    """A note that a fact tells: it is of the log, and changed by nobody."""

    run: str
    emitter: str
    seq: int
    at: int
    author: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Course:
    """What undo and redo would bring: numbers of revisions, the nearest last."""

    done: tuple[int, ...]
    undone: tuple[int, ...]

    @property
    def can_undo(self) -> bool:
        """The first writing is not undone, but deleted."""
        return len(self.done) > 1

    @property
    def can_redo(self) -> bool:
        """Something was undone, and nothing written since."""
        return bool(self.undone)


def course(revisions: Sequence[NoteRevision]) -> Course:
    """Where a history stands between undo and redo."""
    done: list[int] = []
    undone: list[int] = []
    for each in revisions:
        if each.kind is RevisionKind.UNDO and len(done) > 1:
            undone.append(done.pop())
        elif each.kind is RevisionKind.REDO and undone:
            done.append(undone.pop())
        else:
            done.append(each.revision)
            undone.clear()
    return Course(tuple(done), tuple(undone))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something cannot be said."""

    field: str
    value: object
    reason: str


def written(subject: Subject, at: int, text: str, author: str | None) -> NoteRevision | Refusal:
    """The first revision of a note."""
    if (subject.start is not None or subject.end is not None) and subject.kind is not SubjectKind.RUN:
        return Refusal("start", subject.start, f"only a note on a run has a time, not one on a {subject.kind.value}")
    if subject.end is not None and (subject.start is None or subject.end <= subject.start):
        return Refusal("end", subject.end, "not after start: a region has a length")
    return refusal_of_text(text) or NoteRevision(1, at, RevisionKind.WRITE, text, False, author)


def changed(
    note: Note, kind: RevisionKind, at: int, author: str | None, text: str | None = None, restores: int | None = None
) -> NoteRevision | Refusal:
    """The next revision of a note; `text` for an edit, `restores` for a restoration."""
    number, newest = note.newest.revision + 1, note.newest
    if kind is RevisionKind.WRITE:
        return Refusal("action", kind.value, "this note is written already: edit it")
    if kind is RevisionKind.EDIT:
        if newest.is_deleted:
            return Refusal("action", kind.value, f"{note.name} is deleted: undo that first")
        return refusal_of_text(text or "") or NoteRevision(number, at, kind, text or "", False, author)
    if kind is RevisionKind.DELETE:
        if newest.is_deleted:
            return Refusal("action", kind.value, f"{note.name} is deleted already")
        return NoteRevision(number, at, kind, newest.text, True, author)
    if kind is RevisionKind.RESTORE:
        wanted = restores
    else:
        stands = course(note.revisions)
        if kind is RevisionKind.UNDO:
            if not stands.can_undo:
                return Refusal("action", kind.value, f"nothing of {note.name} is left to undo: delete it instead")
            wanted = stands.done[-2]
        else:
            if not stands.can_redo:
                return Refusal("action", kind.value, f"nothing of {note.name} was undone last")
            wanted = stands.undone[-1]
    found = next((each for each in note.revisions if each.revision == wanted), None)
    if found is None:
        return Refusal("restores", wanted, f"{note.name} has the revisions 1 to {newest.revision}")
    return NoteRevision(number, at, kind, found.text, found.is_deleted, author, found.revision)


def refusal_of_text(text: str) -> Refusal | None:
    """Why a text cannot be a note."""
    if not text.strip():
        return Refusal("text", text[:40], "empty: a note says something")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LONGEST_BYTES:
        return Refusal("text", f"{size} bytes", f"longer than {LONGEST_BYTES} bytes ({LONGEST_BYTES // 1024} kB)")
    return None


# --- mentions ---------------------------------------------------------------------------------------------------------


class MentionKind(StrEnum):
    """What a text may name."""

    RUN = "run"
    INCIDENT = "incident"
    PROBLEM = "problem"
    NODE = "node"
    NOTE = "note"
    CONFIG_CHANGE = "config_change"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Mention:
    """Something named in a text, and where."""

    kind: MentionKind
    name: str
    start: int
    end: int


_MENTION = re.compile(
    r"""(?<![\w/:.~@-])@?(?:
        (?P<kind>run|incident|problem|node|note|config_change|change|config):(?:"(?P<quoted>[^"\n]{1,200})"|(?P<plain>[^\s"'`<>()\[\]{},;]{1,200}))
        | (?P<incident>[A-Za-z0-9][\w.-]{0,150}~\d{1,9})(?![\w~])
        | note-(?P<note>\d{1,18})(?![\w-])
        | (?P<problem>split-\d{1,18}|\d:[0-9a-f]{12})(?![\w:-])
    )""",
    re.VERBOSE,
)


def mentions(text: str) -> Iterator[Mention]:
    """Everything a text names, in reading order."""
    for found in _MENTION.finditer(text):
        start, end = found.span()
        if found["kind"] is not None:
            name = found["quoted"]
            if name is None:
                # A sentence ends behind a name; a full stop, a colon or the like there is the sentence's.
                name = found["plain"].rstrip(".:!?…*_")
                end -= len(found["plain"]) - len(name)
            if found["kind"] == "note":
                name = name.removeprefix("note-")
                if not (name.isascii() and name.isdecimal()):
                    continue
            if name and not name.startswith("//"):
                kind = "config_change" if found["kind"] == "change" else found["kind"]
                yield Mention(MentionKind(kind), name, start, end)
        elif found["incident"] is not None:
            yield Mention(MentionKind.INCIDENT, found["incident"], start, end)
        elif found["note"] is not None:
            yield Mention(MentionKind.NOTE, found["note"], start, end)
        else:
            yield Mention(MentionKind.PROBLEM, found["problem"], start, end)


def named(text: str) -> tuple[tuple[MentionKind, str], ...]:
    """What a text names, each once, as far as is kept of it."""
    found = dict.fromkeys((each.kind, each.name) for each in mentions(text))
    return tuple(found)[:MOST_MENTIONS]
