"""Notes on a page: what people wrote about what it shows, what names it, and the place to write more.

    await notes_part(queries, SubjectKind.INCIDENT, incident_id)

Rules
- The editor stands still (`assets/notes.js`): drawing the rest of a page again never takes away what is being typed.
- Nothing here writes: the browser asks the API, as any program would, and says which revision it saw.
- A deleted note leaves a line with the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.notes import LONGEST_BYTES, Note, SubjectKind, ToldNote, course
from rerail.server.queries import Queries
from rerail.server.query_notes import NotesOf
from rerail.ui import text
from rerail.ui.address import change_path, incident_path, node_path, note_path, problem_path, run_path
from rerail.ui.elements import badge, instant, link, panel
from rerail.ui.markup import Content, Markup, html, island
from rerail.ui.note_text import note_markup
from rerail.ui.reading import in_thread

LIST = "notes-list"

WORDS = {
    SubjectKind.RUN: "run",
    SubjectKind.INCIDENT: "incident",
    SubjectKind.PROBLEM: "problem",
    SubjectKind.NODE: "node",
    SubjectKind.CONFIG_CHANGE: "config change",
}


async def notes_part(queries: Queries, kind: SubjectKind, name: str) -> Component:
    """The panel of notes on a subject."""
    found = await in_thread(queries.notes.about, kind, name)
    head = [
        dash_html.H2(dcc.Link("Notes", href="#notes", refresh=False)),
        dash_html.P("Markdown. Every revision is kept; ids in a text link both ways.", className="lead"),
        dash_html.Div(
            [
                dash_html.Button(
                    "Note on the range shown", type="button", className="quiet-button", **{"data-note": "region"}
                )
                if kind is SubjectKind.RUN
                else None,
                dash_html.Button(
                    "Write a note", type="button", className="quiet-button", title="n", **{"data-note": "new"}
                ),
            ],
            className="actions",
        ),
    ]
    return dash_html.Section(
        [
            dash_html.Header(head, className="panel-head"),
            dash_html.Div([editor(), island(notes_list(found), LIST)], className="panel-body"),
        ],
        id="notes",
        className="panel panel-wide notes",
        **{"data-subject-kind": kind.value, "data-subject": name, "data-longest": str(LONGEST_BYTES)},
    )


def editor() -> Component:
    """Where a text is written; hidden until it is asked for."""
    tabs = [
        dash_html.Button("Write", type="button", className="seg", **{"data-note": "write", "aria-pressed": "true"}),
        dash_html.Button(
            "Preview", type="button", className="seg", **{"data-note": "preview", "aria-pressed": "false"}
        ),
    ]
    buttons = [
        dash_html.Button("Save", type="button", className="seg seg-alone", title="Ctrl+Enter", **{"data-note": "save"}),
        dash_html.Button("Close", type="button", className="quiet-button", title="Esc", **{"data-note": "close"}),
        dash_html.Button("Attach a file", type="button", className="quiet-button", **{"data-note": "attach"}),
        dash_html.Button("Throw draft away", type="button", className="quiet-button", **{"data-note": "discard"}),
        dash_html.Span(id="note-said", role="status"),
    ]
    return dash_html.Div(
        [
            dash_html.Div(
                [
                    dash_html.Strong("", id="note-about"),
                    dash_html.Div(tabs, className="segs", role="group"),
                    dash_html.Span("", id="note-size", className="muted"),
                ],
                className="note-editor-head",
            ),
            dash_html.Div(id="note-merge", hidden=True),
            dash_html.Textarea(
                id="note-text", rows=8, placeholder="What happened, what was tried, what helped …",
                **{"aria-label": "Text of the note, in Markdown"},
            ),
            island(None, "note-preview", "note-text note-preview"),
            dash_html.Div(
                [
                    dmc.TextInput(id="note-author", placeholder="your name", size="xs", **{"aria-label": "Who writes"}),
                    dash_html.Div(
                        dmc.PasswordInput(id="note-token", placeholder="token of this server", size="xs"),
                        id="note-token-part",
                        hidden=True,
                    ),
                    *buttons,
                ],
                className="note-editor-foot",
            ),
        ],
        id="note-editor",
        className="note-editor",
        hidden=True,
    )  # fmt: skip


def notes_list(found: NotesOf) -> list[Content]:
    """The notes, oldest first; then what names this elsewhere."""
    shown: list[tuple[int, Markup]] = [(note.first.at, note_item(note)) for note in found.notes]
    shown += [(each.at, _told_item(each)) for each in found.told]
    shown.sort(key=lambda pair: pair[0])
    content: list[Content] = []
    if shown:
        content.append(html.Ol([item for _, item in shown], className="note-list"))
    else:
        words = WORDS[found.subject.kind]
        content.append(html.P(f"Nobody has written about this {words} yet.", className="calm"))
    if found.mentioned_in:
        content.append(html.H3("Named in"))
        content.append(html.Ol([_mention(note) for note in found.mentioned_in], className="plain-list mentioned"))
    return content


def named_in(notes: Sequence[Note]) -> Content:
    """Notes that name something on which none are written; nothing where there are none."""
    if not notes:
        return None
    listed = html.Ol([_mention(note) for note in notes], className="plain-list mentioned")
    return panel("Named in", listed, "named-in", lead="Notes that name it, newest first.", wide=True)


def note_item(note: Note, *, with_actions: bool = True) -> Markup:
    """One note, or the line that a deleted one leaves."""
    newest, stands = note.newest, course(note.revisions)
    told = {"data-note-id": str(note.note_id), "data-revision": str(newest.revision)}
    if newest.is_deleted:
        by = newest.author or text.NO_NAME
        line = [html.Span(f"{by} deleted {note.name} ", className="muted"), instant(newest.at), " "]
        return html.Li([*line, _button("undo", "undo")], id=note.name, className="note-item note-gone", **told)
    head: list[Content] = [
        html.Strong(note.first.author or text.NO_NAME),
        html.Span(instant(note.first.at), className="muted nowrap"),
    ]
    if note.subject.start is not None:
        when: list[Content] = ["on ", instant(note.subject.start)]
        if note.subject.end is not None:
            when += [" – ", instant(note.subject.end)]
        head.append(html.Span(when, className="note-when"))
    if newest.revision > 1:
        by = newest.author or text.NO_NAME
        head.append(html.Span([f"revision {newest.revision} by {by}, ", instant(newest.at)], className="muted nowrap"))
    head.append(link(note.name, note_path(note.name), "note-link"))
    if with_actions:
        does = [_button("edit", "edit")]
        does += [_button("undo", "undo")] if stands.can_undo else []
        does += [_button("redo", "redo")] if stands.can_redo else []
        does.append(_button("delete", "delete"))
        head.append(html.Span(does, className="note-does"))
    return html.Li(
        [html.Div(head, className="note-head"), html.Div(note_markup(newest.text), className="note-text")],
        id=note.name,
        className="note-item",
        **told,
    )


def _button(action: str, words: str) -> Markup:
    return html.Button(words, type="button", className="quiet-button", **{"data-note": action})


def _told_item(told: ToldNote) -> Markup:
    head: list[Content] = [
        html.Strong(told.author or told.emitter),
        html.Span(instant(told.at), className="muted nowrap"),
        badge("told by a fact", "outline", f"a fact of {told.emitter}: it cannot be changed here"),
    ]
    body = html.Div(note_markup(told.text), className="note-text")
    return html.Li([html.Div(head, className="note-head"), body], id=f"told-{told.seq}", className="note-item")


def _mention(note: Note) -> Markup:
    first_line = next((line for line in note.newest.text.splitlines() if line.strip()), "")
    return html.Li(
        [
            link(note.name, note_path(note.name)),
            html.Span([" on ", subject_link(note), f", {note.first.author or text.NO_NAME}: "], className="muted"),
            html.Span(first_line[:160]),
        ]
    )


def subject_link(note: Note) -> Content:
    """What a note is on, as a link."""
    subject = note.subject
    words = f"{WORDS[subject.kind]} {subject.name}"
    if subject.kind is SubjectKind.RUN:
        return link(words, run_path(subject.name, note.name))
    paths = {
        SubjectKind.INCIDENT: incident_path,
        SubjectKind.PROBLEM: problem_path,
        SubjectKind.NODE: node_path,
        SubjectKind.CONFIG_CHANGE: change_path,
    }
    return link(words, f"{paths[subject.kind](subject.name)}#{note.name}")


def history(note: Note) -> Sequence[Markup]:
    """Every revision, newest first, with the way back to it."""
    return [
        html.Li(
            [
                html.Span(f"#{each.revision}", className="muted trail-number"),
                html.Span(instant(each.at), className="nowrap muted"),
                html.Span(
                    [
                        html.Strong(each.author or text.NO_NAME),
                        f" {each.kind.value}",
                        f" (revision {each.restores} again)" if each.restores is not None else None,
                        html.Details([html.Summary("text"), html.Pre(each.text)]),
                    ],
                    className="trail-what",
                ),
                html.Button(
                    "restore", type="button", className="quiet-button",
                    **{"data-note": "restore", "data-restores": str(each.revision)},
                )
                if each.revision != note.newest.revision
                else badge("as it stands", "good"),
            ]
        )
        for each in reversed(note.revisions)
    ]  # fmt: skip
