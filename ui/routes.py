"""Routes that serve pictures and signs of change to the browser's own scripts.

Rules
- A zoom does not go through a Dash callback: the browser asks here, and aborts the request before it.
- Endpoints are plain functions, which FastAPI runs in threads; they read through `Queries` only.
- Instants in an address are nanoseconds as text: JavaScript's numbers cannot hold them.
"""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Request, Response

from rerail.server.core.notes import LONGEST_BYTES, SubjectKind
from rerail.server.errors import NotFoundError
from rerail.server.origins import is_foreign
from rerail.server.queries import Queries
from rerail.ui.markup import Content, encoded
from rerail.ui.note_text import note_markup
from rerail.ui.pages import knowledge, note
from rerail.ui.pages.notes_part import notes_list
from rerail.ui.reading import in_thread
from rerail.ui.run_drawing import RunDrawing, drawing_of
from rerail.ui.theme import SCHEMES, SchemeName, style_sheet

NANOSECONDS = 1_000_000_000


def register(api: FastAPI, queries: Queries) -> None:
    """Add the routes to `api`."""

    @api.get("/figures/palette.css", include_in_schema=False)
    def palette() -> Response:
        return Response(style_sheet(), media_type="text/css", headers={"cache-control": "no-cache"})

    @api.get("/figures/runs/{run_id:path}/timeline", include_in_schema=False)
    def timeline(
        run_id: str,
        start: Annotated[int | None, Query(alias="from")] = None,
        end: Annotated[int | None, Query(alias="to")] = None,
        window: Annotated[int | None, Query(ge=1, le=366 * 86_400)] = None,
        width: Annotated[int, Query(ge=100, le=4000)] = 1200,
        offset: Annotated[int, Query(ge=-1440, le=1440)] = 0,
        scheme: SchemeName = SchemeName.LIGHT,
    ) -> Response:
        if start is not None and end is not None and start >= end:
            raise HTTPException(422, "`from` must be before `to`")
        try:
            gpus = queries.run_row(run_id).gpus
            found = queries.timeline(run_id, start, end, width, None if window is None else window * NANOSECONDS)
        except NotFoundError as error:
            raise HTTPException(404, f"no run named {run_id}") from error
        drawing = drawing_of(found, gpus, offset_minutes=offset, scheme=SCHEMES[scheme], width_px=width)
        return Response(_json(drawing), media_type="application/json", headers={"cache-control": "no-store"})

    @api.get("/figures/notes", include_in_schema=False)
    def notes(kind: SubjectKind = SubjectKind.RUN, name: str = "", number: Annotated[int, Query(alias="note")] = 0):
        if not number:
            return _markup(notes_list(queries.notes.about(kind, name)))
        try:
            return _markup(note.body(queries.notes.note(number)))
        except NotFoundError as error:
            raise HTTPException(404, str(error)) from error

    @api.post("/figures/notes/preview", include_in_schema=False)
    async def preview(request: Request) -> Response:
        if is_foreign(request.headers):
            raise HTTPException(403, "only pages of this server may ask")
        text = bytearray()
        async for part in request.stream():
            text += part
            if len(text) > LONGEST_BYTES:
                raise HTTPException(413, f"a note has at most {LONGEST_BYTES} bytes")
        shown = await in_thread(note_markup, text.decode("utf-8", "replace"))
        return _markup(shown)

    @api.get("/figures/search", include_in_schema=False)
    def search(q: str = "") -> Response:
        return _markup(knowledge.results(queries, q))


def _markup(content: Content) -> Response:
    """The `data-markup` of an island."""
    return Response(encoded(content), media_type="application/json", headers={"cache-control": "no-store"})


def _json(drawing: RunDrawing) -> str:
    return json.dumps(
        {
            "figure": drawing.figure,
            "start": str(drawing.start),
            "end": str(drawing.end),
            "as_of": str(drawing.as_of),
            "is_open": drawing.is_open,
            "run_start": None if drawing.run_start is None else str(drawing.run_start),
            "run_end": str(drawing.run_end),
            "window": drawing.window_seconds,
            "caption": drawing.caption,
            "legend": drawing.legend,
            "signs": drawing.signs,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
