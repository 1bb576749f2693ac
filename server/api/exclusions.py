"""Windows out of account: `/api/v1/runs/…/exclusions`.

Rules
- What changes something is refused to pages of other sites and asks for the token where one is set, as the intake does.
- 201 and 200 only after the fact is durable. The figures follow when the run is derived, which takes a moment.
- An instant is ISO 8601, or a number of seconds or nanoseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.server.api.answers import respond
from rerail.server.api.bodies import json_object
from rerail.server.api.intake import authorise, read_body
from rerail.server.api.reads import RunId
from rerail.server.core.report import exclusion_figures
from rerail.server.core.view import Exclusion
from rerail.server.errors import RefusedRequestError
from rerail.server.exclusions import ExclusionDesk
from rerail.server.instants import parse_instant
from rerail.server.queries import Queries

_FIELDS = ("start", "end", "reason", "author")
_EXAMPLE = {
    "start": "2026-03-01T02:00:00Z",
    "end": "2026-03-01T04:30:00Z",
    "reason": "power maintenance",
    "author": "night shift",
}


def _window(window: Annotated[str, Path(description="`window` of the list, percent-encoded")]) -> str:
    return unquote(window)


Window = Annotated[str, Depends(_window)]
Reason = Annotated[str | None, Query(description="Why, in words")]
Author = Annotated[str | None, Query(description="Who says so")]


def exclusions_router(queries: Queries, desk: ExclusionDesk, token: str | None) -> APIRouter:
    """The routes about windows out of account."""
    router = APIRouter(tags=["exclusions"])

    @router.get("/api/v1/runs/{run_id:path}/exclusions", summary="Windows out of account, withdrawn ones too")
    def exclusions(request: Request, run_id: RunId) -> Response:
        found = queries.run(run_id).exclusions
        return respond(request, {"run_id": run_id, "exclusions": [exclusion_figures(window) for window in found]})

    @router.post(
        "/api/v1/runs/{run_id:path}/exclusions",
        summary="Declare a window out of account",
        status_code=201,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
            }
        },
    )
    async def declare(request: Request, run_id: RunId) -> Response:
        authorise(request, token)
        stated = _object(request, await read_body(request))
        start, end = _instant(stated, "start"), _instant(stated, "end")
        reason, author = _words(stated, "reason"), _words(stated, "author")
        return _said(request, await run_in_threadpool(desk.declare, run_id, start, end, reason, author), 201)

    @router.post(
        "/api/v1/runs/{run_id:path}/exclusions/{window}/restore", summary="Put a withdrawn window out of account again"
    )
    def restore(
        request: Request, run_id: RunId, window: Window, reason: Reason = None, author: Author = None
    ) -> Response:
        authorise(request, token)
        return _said(request, desk.restore(run_id, window, reason, author))

    @router.delete("/api/v1/runs/{run_id:path}/exclusions/{window}", summary="Withdraw a window: its time counts again")
    def withdraw(
        request: Request, run_id: RunId, window: Window, reason: Reason = None, author: Author = None
    ) -> Response:
        authorise(request, token)
        return _said(request, desk.withdraw(run_id, window, reason, author))

    return router


def _said(request: Request, window: Exclusion, status: int = 200) -> Response:
    answer = respond(request, exclusion_figures(window))
    answer.status_code = status
    return answer


def _object(request: Request, body: bytes) -> Mapping[str, object]:
    """The JSON object in a body. Raises RefusedRequestError: 415, 400, or 422 for a field that is not known."""
    stated = json_object(request, body)
    for name in stated:
        if name not in _FIELDS:
            raise _refused(name, stated[name], f"not a field: {', '.join(_FIELDS)}")
    return stated


def _instant(stated: Mapping[str, object], name: str) -> int:
    value = stated.get(name)
    if value is None:
        raise _refused(name, value, "missing")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _refused(name, value, "not an instant")
    try:
        return parse_instant(str(value))
    except ValueError as error:
        raise _refused(name, value, str(error)) from None


def _words(stated: Mapping[str, object], name: str) -> str | None:
    """Text, or None where nothing was said. What is too long is said by the codec."""
    value = stated.get(name)
    if value is not None and not isinstance(value, str):
        raise _refused(name, value, "not text")
    return (value or "").strip() or None


def _refused(name: str, value: object, reason: str) -> RefusedRequestError:
    shown = json.dumps(value, ensure_ascii=True)[:200]
    return RefusedRequestError(422, "invalid_field", f"{name}: {reason} (got {shown})", "see /api/docs")
