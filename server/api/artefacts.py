"""Artefacts: files that people give to an incident, `/api/v1/incidents/…/artefacts` and `/api/v1/artefacts/…`.

Rules
- The body is the file as it is; a zip or tar stands for the files in it. It is given up as soon as it is too long (413
  names the limit).
- 201 and 200 only after file and evidence are durable. The verdict follows when the run is derived, which takes a
  moment: `heard` in the list says when.
- What changes something is refused to pages of other sites and asks for the token where one is set.
- A file is given back as a download of bytes, never as something that a browser would show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.collectors.archives import is_archive
from rerail.collectors.patience import PATIENCE_SECONDS, Patience
from rerail.server.api.answers import respond
from rerail.server.api.intake import authorise
from rerail.server.artefacts import ArtefactDesk, Gift, stopped
from rerail.server.core.report import iso
from rerail.server.errors import RefusedRequestError
from rerail.server.queries import Queries
from rerail.server.query_results import ArtefactRow, GivenArtefact

AT_ONCE = 4
"""Files that are read and understood at the same time: each is held in memory."""

DRAINED = 4
"""Times the limit that is read on and thrown away, so that the sender sees the answer and not a broken connection."""

Result = TypeVar("Result")
LOOK_SECONDS = 0.25
"""So often it is looked whether somebody still waits for an answer."""
LOOKS_WHEN_CLOSING = 4
"""So often work that should stop is looked at when the server ends, which cuts what does not answer within 3 s."""

MEGABYTE = 1024 * 1024
Digest = Annotated[str, Path(description="SHA-256 of the file", pattern="^[0-9a-f]{64}$")]
Author = Annotated[str | None, Query(description="Who gives it, or says so", max_length=200)]
Reason = Annotated[str | None, Query(description="Why, in words", max_length=2000)]


def artefacts_router(queries: Queries, desk: ArtefactDesk, token: str | None, largest_bytes: int) -> APIRouter:
    """The routes about files."""
    router = APIRouter(tags=["artefacts"])
    places = asyncio.Semaphore(AT_ONCE)

    @router.get("/api/v1/incidents/{incident_id:path}/artefacts", summary="Files given to an incident, oldest first")
    def artefacts(request: Request, incident_id: str) -> Response:
        given = queries.artefacts(incident_id)
        told = {"incident_id": incident_id, "largest_bytes": largest_bytes, "artefacts": [_shown(one) for one in given]}
        return respond(request, told)

    @router.post(
        "/api/v1/incidents/{incident_id:path}/artefacts",
        summary="Give a file to an incident",
        status_code=201,
        description=(
            "The body is the file: a flight recorder dump of one rank, process groups beside one, an error file, a "
            "kernel log or any other log. What is understood becomes evidence. The same file again changes nothing."
        ),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
    async def give(
        request: Request,
        incident_id: str,
        name: Annotated[str, Query(description="The file's name; its rank is read off it", min_length=1)],
        author: Author = None,
        rank: Annotated[int | None, Query(description="Whose dump it is, where its name does not say", ge=0)] = None,
    ) -> Response:
        authorise(request, token)
        async with places:
            content = await file_of(request, largest_bytes)
            patience = Patience(PATIENCE_SECONDS)
            if await run_in_threadpool(is_archive, content):
                given = desk.give_archive, incident_id, content, largest_bytes, author, patience
                gifts, refused = await while_waited_for(request, patience, *given)
                told: dict[str, object] = {
                    "kind": "archive",
                    "name": name,
                    "files": [{**_shown(gift.artefact), "new": gift.is_new} for gift in gifts],
                    "pieces": sum(gift.artefact.row.pieces for gift in gifts),
                    "new": any(gift.is_new for gift in gifts),
                    "refused": refused + [f"{row.name}: {why}" for row in _rows(gifts) for why in row.refused],
                    "remarks": [f"{row.name}: {why}" for row in _rows(gifts) for why in row.remarks],
                }
            else:
                asked = desk.give, incident_id, name, content, author, rank, patience
                gift = await while_waited_for(request, patience, *asked)
                told = {**_shown(gift.artefact), "new": gift.is_new}
        answer = respond(request, told)
        answer.status_code = 201 if told["new"] else 200
        return answer

    @router.delete(
        "/api/v1/incidents/{incident_id:path}/artefacts/{sha256}",
        summary="Withdraw a file: its evidence counts no more",
    )
    def withdraw(
        request: Request, incident_id: str, sha256: Digest, reason: Reason = None, author: Author = None
    ) -> Response:
        authorise(request, token)
        return respond(request, _shown(desk.withdraw(incident_id, sha256, reason, author)))

    @router.post(
        "/api/v1/incidents/{incident_id:path}/artefacts/{sha256}/restore", summary="Let a withdrawn file count again"
    )
    def restore(
        request: Request, incident_id: str, sha256: Digest, reason: Reason = None, author: Author = None
    ) -> Response:
        authorise(request, token)
        return respond(request, _shown(desk.restore(incident_id, sha256, reason, author)))

    @router.get("/api/v1/artefacts/{sha256}", summary="A file as it was given, without its secrets")
    def download(sha256: Digest) -> Response:
        row, content = queries.artefact(sha256)
        plain = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in row.name)
        plain = plain.encode("ascii", "replace").decode().replace("?", "_")
        return Response(
            content,
            media_type="application/octet-stream",
            headers={
                "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(row.name, safe='')}",
                "X-Content-Type-Options": "nosniff",
                "Content-Security-Policy": "default-src 'none'; sandbox",
                "Cache-Control": "private, max-age=31536000, immutable",
            },
        )

    return router


def _rows(gifts: list[Gift]) -> list[ArtefactRow]:
    return [gift.artefact.row for gift in gifts]


def _shown(given: GivenArtefact) -> dict[str, object]:
    row = given.row
    return {
        "sha256": row.sha256,
        "run_id": row.run_id,
        "incident_id": row.incident_id,
        "name": row.name,
        "kind": row.kind,
        "size_bytes": row.size,
        "received_at": iso(row.received_at),
        "author": row.author,
        "pieces": row.pieces,
        "refused": list(row.refused),
        "remarks": list(row.remarks),
        "withdrawn": given.is_withdrawn,
        "heard": given.is_heard,
        "changed_at": iso(given.changed_at),
        "changed_by": given.changed_by,
        "reason": given.reason,
    }


async def while_waited_for(
    request: Request, patience: Patience, work: Callable[..., Result], *arguments: object
) -> Result:
    """What `work` gives in a thread; its patience ends when the client leaves or the server is told to stop.

    Raises RefusedRequestError (503) where the server ends and the work does not see it in time.
    """
    task = asyncio.ensure_future(run_in_threadpool(work, *arguments))
    closing: asyncio.Event = request.app.state.closing
    looks = 0
    while not (await asyncio.wait({task}, timeout=LOOK_SECONDS))[0]:
        if closing.is_set():
            patience.end()
            looks += 1
            if looks > LOOKS_WHEN_CLOSING:
                task.add_done_callback(lambda late: late.cancelled() or late.exception())  # Nobody hears of it.
                raise stopped()
        elif await request.is_disconnected():
            patience.end()
    return task.result()


async def file_of(request: Request, largest: int) -> bytes:
    """The body as sent. Raises RefusedRequestError: 413 with the limit, 422 for an empty one."""
    told = request.headers.get("content-length", "")
    length = int(told) if told.isdigit() and len(told) < 16 else None
    is_too_large = length is not None and length > largest
    if is_too_large and length is not None and length > DRAINED * largest:
        raise _too_large(f"{length} bytes", largest)
    content = bytearray()
    drained = 0
    async for part in request.stream():
        drained += len(part)
        if drained > largest:
            is_too_large = True
            content.clear()
            if drained > DRAINED * largest:
                break
        if not is_too_large:
            content += part
    if is_too_large:
        raise _too_large(f"{length} bytes" if length is not None else f"more than {largest} bytes", largest)
    if not content:
        raise RefusedRequestError(422, "empty", "the file is empty", "send the file itself as the body")
    return bytes(content)


def _too_large(what: str, largest: int) -> RefusedRequestError:
    limit = f"{largest / MEGABYTE:g} MB"
    return RefusedRequestError(
        413,
        "too_large",
        f"the file has {what}; the most is {limit}",
        "send it compressed (gzip is understood), or the part around the fault; the limit is the setting "
        "largest_artefact_mb",
    )
