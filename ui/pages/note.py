"""Note: one note on its own, with every revision of it and what names it."""

from __future__ import annotations

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.notes import LONGEST_BYTES
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_notes import NotesOf, NoteView
from rerail.ui.address import KNOWLEDGE, Address
from rerail.ui.elements import link, panel
from rerail.ui.markup import Content, html, island
from rerail.ui.pages.notes_part import editor, history, note_item, notes_list, subject_link
from rerail.ui.reading import in_thread

PAGE = "note"


async def layout(queries: Queries, wanted: Address, _search: str) -> Component:
    """The page of one note."""
    number = wanted.name.removeprefix("note-")
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise NotFoundError("note", wanted.name)
    found = await in_thread(queries.notes.note, int(number))
    subject = found.note.subject
    return dash_html.Div(
        [
            island(head(found), "note-head-part"),
            dash_html.Div(editor(), className="notes-editor-alone"),
            island(body(found), "notes-list"),
        ],
        id="notes",
        className="page-body notes",
        **{
            "data-title": found.note.name,
            "data-subject-kind": subject.kind.value,
            "data-subject": subject.name,
            "data-alone": str(found.note.note_id),
            "data-longest": str(LONGEST_BYTES),
        },
    )


def register(app: Dash, queries: Queries) -> None:
    """Nothing on this page changes by itself."""


def head(found: NoteView) -> list[Content]:
    """Where it belongs."""
    note = found.note
    crumbs = [link("Knowledge", KNOWLEDGE), html.Span("/", className="muted"), note.name]
    return [
        html.Div(crumbs, className="crumbs"),
        html.Div(html.H1(["Note on ", subject_link(note)]), className="title-row"),
    ]


def body(found: NoteView) -> list[Content]:
    """The note, what names it, and its revisions."""
    note = found.note
    told = {"data-note-id": str(note.note_id), "data-revision": str(note.newest.revision)}
    revisions = html.Ol(history(note), className="trail", **told)
    lead = "Nothing of it is ever lost; to restore one is a new revision."
    content: list[Content] = [html.Ol(note_item(note), className="note-list note-alone")]
    if found.mentioned_in:
        content += notes_list(NotesOf(note.subject, (), found.mentioned_in))[1:]
    return [*content, panel("Revisions", revisions, "revisions", lead=lead, wide=True)]
