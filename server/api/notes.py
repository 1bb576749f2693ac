"""Notes and search under `/api/v1`.

Rules
- What changes something is refused to pages of other sites and asks for the token where one is set, as the intake
  does.
- A change names the revision that was seen. Where there is a newer one, the answer is 409 with `yours`, `theirs` and
  what was `seen`: whole texts, so that nobody's words are lost.
- A text is Markdown as it was written. Nothing here makes HTML of it.
- A question that cannot be asked is answered with 422 and the `word` at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.collectors.patience import PATIENCE_SECONDS, Patience
from rerail.server.api.answers import plain, respond
from rerail.server.api.artefacts import file_of, while_waited_for
from rerail.server.api.bodies import json_object
from rerail.server.api.intake import authorise, read_body
from rerail.server.api.reads import Limit, Offset
from rerail.server.core.notes import Note, NoteRevision, RevisionKind, SubjectKind, named
from rerail.server.core.report import iso
from rerail.server.core.search.query import QueryError
from rerail.server.core.search.snippets import Piece
from rerail.server.notes import (
    Change,
    NoteConflictError,
    NoteDesk,
    known_fields,
    number_of,
    subject_of,
    text_of,
    unfit,
    words_of,
)
from rerail.server.queries import Queries
from rerail.server.query_search import SearchPage

_NEW = {
    "subject_kind": "incident",
    "subject": "llama~3",
    "text": "The switch broke, see note-4.",
    "author": "Ada",
}
_CHANGE = {"action": "edit", "revision": 1, "text": "The switch was replaced on Monday.", "author": "Ada"}

NoteNumber = Annotated[int, Path(description="The 12 of note-12", ge=1, lt=2**63)]


def _body(example: dict[str, object]) -> dict[str, object]:
    content = {"application/json": {"schema": {"type": "object"}, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def notes_router(queries: Queries, desk: NoteDesk, token: str | None, largest_bytes: int) -> APIRouter:
    """The routes about notes and search."""
    router = APIRouter(tags=["knowledge"])

    @router.get("/api/v1/search", summary="Everything that is known, by words and fields, best first")
    def search(
        request: Request,
        q: Annotated[str, Query(description='Words, "phrases", -not, cause: node: rank: run: status: kind: after: …')],
        offset: Annotated[int, Query(ge=0, le=1000)] = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> Response:
        return respond(request, search_answer(queries.search.find(q, offset, limit)))

    @router.get("/api/v1/incidents/{incident_id:path}/changes", summary="What changed in its run before an incident")
    def changes(request: Request, incident_id: str) -> Response:
        found = [plain(change) for change in queries.changes_near(incident_id)]
        return respond(request, {"incident_id": incident_id, "changes": found})

    @router.get("/api/v1/notes", summary="Notes on a subject, oldest first; without one the newest of all")
    def notes(
        request: Request,
        subject_kind: Annotated[SubjectKind | None, Query(description="run, incident, problem, node …")] = None,
        subject: Annotated[str | None, Query(description="Its id")] = None,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        if subject_kind is None or subject is None:
            rows, total = queries.notes.newest(offset, limit)
            return respond(request, {"notes": [note_answer(note) for note in rows], "total": total})
        found = queries.notes.about(subject_kind, subject)
        return respond(
            request,
            {
                "subject_kind": subject_kind.value,
                "subject": subject,
                "notes": [note_answer(note) for note in found.notes],
                "mentioned_in": [note_answer(note) for note in found.mentioned_in],
                "told": [
                    {"at": iso(each.at), "author": each.author, "emitter": each.emitter, "text": each.text}
                    for each in found.told
                ],
            },
        )

    @router.post("/api/v1/notes", summary="Write a note", status_code=201, openapi_extra=_body(_NEW))
    async def write(request: Request) -> Response:
        authorise(request, token)
        stated = json_object(request, await read_body(request))
        known_fields(stated, "subject_kind", "subject", "start", "end", "text", "author")
        note = await run_in_threadpool(desk.write, subject_of(stated), text_of(stated), words_of(stated, "author"))
        answer = respond(request, note_answer(note))
        answer.status_code = 201
        return answer

    @router.post("/api/v1/notes/files", summary="Keep a file that a note will link to", status_code=201)
    async def attach(
        request: Request,
        name: Annotated[str, Query(min_length=1, description="The file's name")],
        author: Annotated[str | None, Query(max_length=200)] = None,
    ) -> Response:
        authorise(request, token)
        content = await file_of(request, largest_bytes)
        patience = Patience(PATIENCE_SECONDS)
        row = await while_waited_for(request, patience, desk.attach, name, content, author, patience)
        path = f"/api/v1/artefacts/{row.sha256}"
        answer = respond(request, {"sha256": row.sha256, "name": row.name, "size_bytes": row.size, "path": path})
        answer.status_code = 201
        return answer

    @router.get("/api/v1/notes/{note_id}", summary="A note with its revisions, and the notes that name it")
    def note(request: Request, note_id: NoteNumber) -> Response:
        found = queries.notes.note(note_id)
        return respond(
            request,
            {
                **note_answer(found.note),
                "can_undo": found.course.can_undo,
                "can_redo": found.course.can_redo,
                "revisions": [_revision(each) for each in found.note.revisions],
                "mentioned_in": [note_answer(each) for each in found.mentioned_in],
            },
        )

    @router.post(
        "/api/v1/notes/{note_id}/revisions",
        summary="Edit, delete, restore a revision, undo or redo",
        status_code=201,
        openapi_extra=_body(_CHANGE),
    )
    async def change(request: Request, note_id: NoteNumber) -> Response:
        authorise(request, token)
        stated = json_object(request, await read_body(request))
        known_fields(stated, "action", "revision", "text", "restores", "author")
        done = await run_in_threadpool(desk.change, note_id, change_of(stated))
        answer = respond(request, note_answer(done))
        answer.status_code = 201
        return answer

    return router


def change_of(stated: Mapping[str, object]) -> Change:
    """What a request wants of a note. Raises RefusedRequestError (422)."""
    kinds = [kind for kind in RevisionKind if kind is not RevisionKind.WRITE]
    try:
        kind = kinds[[each.value for each in kinds].index(str(stated.get("action")))]
    except ValueError:
        raise unfit("action", stated.get("action"), f"one of {', '.join(kinds)}") from None
    return Change(
        kind=kind,
        revision=number_of(stated, "revision"),
        text=text_of(stated) if kind is RevisionKind.EDIT else None,
        restores=number_of(stated, "restores") if kind is RevisionKind.RESTORE else None,
        author=words_of(stated, "author"),
    )


def note_answer(note: Note) -> dict[str, object]:
    """A note as it stands; of a deleted one the text is only in its revisions."""
    newest, first, subject = note.newest, note.first, note.subject
    return {
        "note": note.name,
        "note_id": note.note_id,
        "subject_kind": subject.kind.value,
        "subject": subject.name,
        "start": iso(subject.start),
        "end": iso(subject.end),
        "text": None if newest.is_deleted else newest.text,
        "deleted": newest.is_deleted,
        "author": first.author,
        "written_at": iso(first.at),
        "revision": newest.revision,
        "changed_by": newest.author,
        "changed_at": iso(newest.at),
        "mentions": [] if newest.is_deleted else [{"kind": k.value, "name": name} for k, name in named(newest.text)],
    }


def _revision(each: NoteRevision) -> dict[str, object]:
    return {
        "revision": each.revision,
        "action": each.kind.value,
        "at": iso(each.at),
        "author": each.author,
        "restores": each.restores,
        "deleted": each.is_deleted,
        "text": each.text,
    }


def search_answer(page: SearchPage) -> dict[str, object]:
    """What was found; `parts` of a text that match are marked."""
    return {
        "total": page.total,
        "cut": page.is_cut,
        "kinds": dict(page.kinds),
        "results": [
            {
                "kind": row.kind,
                "subject": row.subject,
                "path": row.path,
                "at": iso(row.at),
                "run_id": row.run_id,
                "status": row.status,
                "title": _pieces(row.title),
                "snippet": _pieces(row.snippet),
            }
            for row in page.rows
        ],
    }


def _pieces(pieces: Sequence[Piece]) -> list[dict[str, object]]:
    return [{"text": piece.text, "match": piece.is_match} for piece in pieces]


def add_note_errors(api: FastAPI) -> None:
    """Answers that hold more than an error's three lines."""

    @api.exception_handler(NoteConflictError)
    async def _conflict(request: Request, error: NoteConflictError) -> Response:
        told = {
            "error": {"code": error.code, "message": error.message, "hint": error.hint},
            "yours": error.text,
            "theirs": note_answer(error.note),
            "seen": None if error.seen is None else _revision(error.seen),
        }
        return _told(request, 409, told)

    @api.exception_handler(QueryError)
    async def _unasked(request: Request, error: QueryError) -> Response:
        hint = "docs/knowledge.md has the words and fields of a question"
        told = {"error": {"code": "invalid_query", "message": str(error), "hint": hint, "word": error.word}}
        return _told(request, 422, told)


def _told(request: Request, status: int, told: dict[str, object]) -> Response:
    answer = respond(request, told)
    answer.status_code = status
    del answer.headers["etag"]
    return answer
