"""Events: which runs changed, as they change. Server-sent events, with polling as the fallback.

Rules
- An event says *that* a run changed, not how: the reader asks for what it shows. So nothing is lost by reading late.
- Beside the runs it has the number of the newest change of any kind, and when an alert changed last: pages that are of
  no one run look again when these are others.
- The id of an event is a cursor. A browser that reconnects sends it back (`Last-Event-ID`) and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from rerail.server.api.answers import respond
from rerail.server.errors import StoreAwayError
from rerail.server.queries import Changes, Queries

POLL_SECONDS = 1.0
SIGN_OF_LIFE_SECONDS = 15.0
"""A comment is sent this often, so that proxies keep the stream and a browser notices a dead one."""


def events_router(queries: Queries, closing: asyncio.Event) -> APIRouter:
    """The routes for live updates; streams end when `closing` is set."""
    router = APIRouter(tags=["live"])

    @router.get("/api/v1/changes", summary="Runs that changed since a cursor (the fallback for /api/v1/events)")
    def changes(request: Request, since: Annotated[int | None, Query(ge=0)] = None) -> Response:
        return respond(request, _shape(queries.changes_since(since)))

    @router.get("/api/v1/events", summary="Runs that change, as server-sent events")
    async def events(
        last_event_id: Annotated[int | None, Header()] = None,
        since: Annotated[int | None, Query(ge=0, description="As Last-Event-ID, for a first connection")] = None,
    ) -> StreamingResponse:
        cursor = last_event_id if last_event_id is not None else since
        return StreamingResponse(
            _stream(queries, cursor, closing),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )

    return router


def _shape(changes: Changes) -> dict[str, object]:
    # Instants are text: a browser's numbers hold no nanoseconds, and it only compares them.
    return {
        "cursor": changes.cursor, "run_ids": list(changes.run_ids), "newest": changes.newest,
        "alerts_at": str(changes.alerts_at),
    }  # fmt: skip


async def _stream(queries: Queries, cursor: int | None, closing: asyncio.Event) -> AsyncIterator[bytes]:
    changes = await run_in_threadpool(queries.changes_since, cursor)
    yield b"retry: 2000\n\n" + _event(changes)
    quiet = 0.0
    while True:
        try:
            await asyncio.wait_for(closing.wait(), POLL_SECONDS)
            return
        except TimeoutError:
            pass
        try:
            found = await run_in_threadpool(queries.changes_since, changes.cursor)
        except StoreAwayError:
            continue  # The cursor stays: nothing is missed once the database is back.
        if found.run_ids or (found.newest, found.alerts_at) != (changes.newest, changes.alerts_at):
            changes, quiet = found, 0.0
            yield _event(found)
            continue
        quiet += POLL_SECONDS
        if quiet >= SIGN_OF_LIFE_SECONDS:
            quiet = 0.0
            yield b": still here\n\n"


def _event(changes: Changes) -> bytes:
    data = msgspec.json.encode(_shape(changes))
    return b"id: %d\nevent: changes\ndata: %s\n\n" % (changes.cursor, data)
