"""Reads: what pages show, as JSON, under `/api/v1`.

Rules
- Nothing is computed here: `queries.py` answers, this file names parameters and shapes results.
- A run id may hold slashes: as they are, or percent-encoded. Where it ends like one of the paths below it must be
  encoded (`/api/v1/runs/a%2Ftimeline` is the run `a/timeline`).
- An instant is ISO 8601, or a number of seconds or nanoseconds since 1970.
"""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rerail.server.api.answers import fleet_answer, incident_answer, plain, respond, run_answer
from rerail.server.api.timeline_shape import timeline_shape
from rerail.server.core.rollup import Resolution
from rerail.server.core.view import RunState
from rerail.server.errors import RefusedRequestError
from rerail.server.instants import parse_instant
from rerail.server.queries import Queries

RUNS_PREFIX = "/api/v1/runs/"


class EncodedRunIds:
    """Keeps the path of `/api/v1/runs/…` as it was sent, so that an encoded slash in a run id is not a path's slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw and scope["path"].startswith(RUNS_PREFIX):
            scope = {**scope, "path": raw.split(b"?")[0].decode("ascii", "replace")}
        await self._app(scope, receive, send)


def _run_id(run_id: Annotated[str, Path(description="The run's id; slashes as they are or encoded")]) -> str:
    return unquote(run_id)


def _instant(name: str):
    def parse(request: Request) -> int | None:
        text = request.query_params.get(name)
        if text is None or text == "":
            return None
        try:
            return parse_instant(text)
        except ValueError as error:
            raise RefusedRequestError(
                422, "invalid_parameter", f"{name}: {error}", "ISO 8601, or seconds or nanoseconds since 1970"
            ) from None

    return parse


_DESCRIBED = {
    "as_of": "The run as its facts up to this instant tell it",
    "from": "Begin of the range",
    "to": "End of the range",
}


def _documented(*names: str) -> dict[str, object]:
    """OpenAPI parameters of instants, which are parsed by hand."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": _DESCRIBED[name],
                "schema": {"type": "string"},
            }
            for name in names
        ]
    }


RunId = Annotated[str, Depends(_run_id)]
AsOf = Annotated[int | None, Depends(_instant("as_of"))]
From = Annotated[int | None, Depends(_instant("from"))]
To = Annotated[int | None, Depends(_instant("to"))]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
Limit = Annotated[int, Query(ge=1, le=1000)]


def reads_router(queries: Queries) -> APIRouter:
    """The routes that answer questions."""
    router = APIRouter(tags=["reads"])

    @router.get("/api/v1/runs", summary="Runs, searched, filtered and sorted")
    def runs(
        request: Request,
        search: str = "",
        state: Annotated[RunState | None, Query(description="alive, silent or ended")] = None,
        sort: str = "last_heard_at",
        descending: bool = True,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        try:
            page = queries.runs(search, state and state.value, sort, descending, offset, limit)
        except ValueError as error:
            raise RefusedRequestError(422, "invalid_parameter", str(error), "see /api/docs") from None
        return respond(request, plain(page))

    @router.get(
        "/api/v1/runs/{run_id:path}/timeline",
        summary="Everything a timeline picture needs of a range",
        openapi_extra=_documented("from", "to"),
    )
    def timeline(
        request: Request,
        run_id: RunId,
        start: From,
        end: To,
        width: Annotated[int, Query(ge=50, le=4000, description="Pixels of the picture")] = 1200,
        window: Annotated[float | None, Query(gt=0, description="Length of the sliding window in seconds")] = None,
    ) -> Response:
        window_ns = None if window is None else round(window * 1e9)
        try:
            found = queries.timeline(run_id, start, end, width, window_ns)
        except ValueError as error:
            raise RefusedRequestError(422, "invalid_parameter", str(error), "from must be before to") from None
        return respond(request, timeline_shape(found))

    @router.get("/api/v1/runs/{run_id:path}/incidents", summary="Incidents of a run, newest first")
    def incidents_of_run(request: Request, run_id: RunId, offset: Offset = 0, limit: Limit = 100) -> Response:
        return respond(request, plain(queries.incidents(run_id, offset, limit)))

    @router.get("/api/v1/runs/{run_id:path}/emitters", summary="Who stated facts about a run")
    def emitters_of_run(request: Request, run_id: RunId) -> Response:
        return respond(request, plain(queries.emitters(run_id)))

    @router.get(
        "/api/v1/runs/{run_id:path}",
        summary="The figures of a run, now or as of an instant, or of a window of it",
        openapi_extra=_documented("as_of", "from", "to"),
    )
    def run(
        request: Request,
        run_id: RunId,
        as_of: AsOf,
        start: From,
        end: To,
        definition: Annotated[str | None, Query(description="Whose goodput: rerail, aws, ett, google, …")] = None,
    ) -> Response:
        window = None
        if start is not None or end is not None:
            if start is None or end is None or end < start:
                raise RefusedRequestError(
                    422, "invalid_parameter", "from and to: a window has both, in order", "?from=…&to=…"
                )
            window = (start, end)
        return respond(request, run_answer(queries, run_id, as_of, window, definition))

    @router.get(
        "/api/v1/fleet",
        summary="Where the time of all runs went, in bins of an hour or a day (the last 30 days, unless told)",
        openapi_extra=_documented("from", "to"),
    )
    def fleet(
        request: Request,
        start: From,
        end: To,
        resolution: Annotated[str | None, Query(description="minute, hour or day")] = None,
    ) -> Response:
        names = {each.name.lower(): each for each in Resolution}
        if resolution is not None and resolution not in names:
            raise RefusedRequestError(
                422, "invalid_parameter", f"resolution: {resolution!r}", f"one of {', '.join(names)}"
            )
        end = time.time_ns() if end is None else end
        start = end - 30 * Resolution.DAY if start is None else start
        try:
            sums = queries.fleet(start, end, None if resolution is None else names[resolution])
        except ValueError as error:
            raise RefusedRequestError(422, "invalid_parameter", str(error), "a shorter range, in order") from None
        return respond(request, fleet_answer(sums))

    @router.get("/api/v1/incidents", summary="Incidents of all runs, newest first")
    def incidents(request: Request, offset: Offset = 0, limit: Limit = 100) -> Response:
        return respond(request, plain(queries.incidents(None, offset, limit)))

    @router.get("/api/v1/incidents/{incident_id:path}", summary="One incident and what stands around it")
    def incident(request: Request, incident_id: str) -> Response:
        return respond(request, incident_answer(queries.incident(incident_id)))

    @router.get("/api/v1/refused", summary="Lines that were refused, newest first, and why")
    def refused(request: Request, run: str | None = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        return respond(request, plain(queries.refused(run, offset, limit)))

    @router.get("/api/v1/blind", summary="Sources that cannot see just now: since when, why, and what would mend it")
    def blind(request: Request, run: str | None = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        return respond(request, plain(queries.blind(run, offset, limit)))

    @router.get("/api/v1/emitters", summary="Who stated facts about a run")
    def emitters(request: Request, run: str) -> Response:
        return respond(request, plain(queries.emitters(run)))

    @router.get("/api/v1/storage", summary="What the database holds, and how far the figures are behind it")
    def storage(request: Request) -> Response:
        return respond(request, plain(queries.storage()))

    return router
