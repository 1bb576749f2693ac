"""Problems, similar incidents and nodes under `/api/v1`.

Rules
- What changes something is refused to pages of other sites and asks for the token where one is set, as the intake does.
- An action is answered with 201 when it is durable, and with the problem as it stands then. 409 where somebody acted on
  the problem since the `revision` that the request names; then nothing happened.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.server.api.answers import plain, respond
from rerail.server.api.bodies import invalid_parameter, json_object
from rerail.server.api.intake import authorise, read_body
from rerail.server.api.reads import Limit, Offset
from rerail.server.core.problems import ProblemAction
from rerail.server.problems import ProblemDesk, action_of
from rerail.server.queries import Queries

_EXAMPLE = {
    "action": "resolve",
    "reason": "raised the loader's time-out",
    "fixed_by": "a1b2c3d",
    "author": "Ada",
    "revision": 0,
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
    }
}

ProblemId = Annotated[
    str, Path(description="`1:9f3a…` or `split-12`; of one merged away, the one it is part of answers")
]


def problems_router(queries: Queries, desk: ProblemDesk, token: str | None) -> APIRouter:
    """The routes about problems, similar incidents and nodes."""
    router = APIRouter(tags=["problems"])

    @router.get("/api/v1/problems", summary="What keeps coming back, over all runs")
    def problems(
        request: Request,
        search: str = "",
        status: Annotated[str | None, Query(description="new, known, regressed, resolved or ignored")] = None,
        cause: Annotated[str | None, Query(description="A cause class")] = None,
        node: Annotated[str | None, Query(description="With an incident that this node is blamed for")] = None,
        sort: str = "last_at",
        descending: bool = True,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        try:
            page = queries.problems.problems(search, status, cause, node, sort, descending, offset, limit)
        except ValueError as error:
            raise invalid_parameter(error) from None
        return respond(request, plain(page))

    @router.post(
        "/api/v1/problems/{problem_id}/actions",
        summary="Resolve, reopen, mark known, ignore, assign, rename, merge, split, move, or undo one of these",
        status_code=201,
        openapi_extra=_BODY,
    )
    async def act(request: Request, problem_id: ProblemId) -> Response:
        authorise(request, token)
        action, revision = action_of(json_object(request, await read_body(request)))
        done = await run_in_threadpool(desk.act, problem_id, action, revision)
        answer = respond(request, await run_in_threadpool(acted, queries, done))
        answer.status_code = 201
        return answer

    @router.get("/api/v1/problems/{problem_id}", summary="One problem: why these are the same, and what people did")
    def problem(
        request: Request,
        problem_id: ProblemId,
        run: Annotated[str | None, Query(description="Only incidents of this run")] = None,
        node: Annotated[str | None, Query(description="Only incidents that this node is blamed for")] = None,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        where = tuple((name, value) for name, value in (("run", run), ("node", node)) if value is not None)
        return respond(request, plain(queries.problems.problem(problem_id, offset, limit, where)))

    @router.get(
        "/api/v1/incidents/{incident_id:path}/similar", summary="The problem of an incident, and the incidents like it"
    )
    def similar(request: Request, incident_id: str, limit: Annotated[int, Query(ge=1, le=50)] = 10) -> Response:
        return respond(request, plain(queries.problems.similar(incident_id, limit)))

    @router.get("/api/v1/nodes", summary="Nodes over all runs, those that look worst first")
    def nodes(
        request: Request,
        search: str = "",
        level: Annotated[str | None, Query(description="lemon, suspect, unremarkable or unknown")] = None,
        sort: str = "score",
        descending: bool = True,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        try:
            page = queries.nodes.nodes(search, level, sort, descending, offset, limit)
        except ValueError as error:
            raise invalid_parameter(error) from None
        return respond(request, plain(page))

    @router.get("/api/v1/nodes/{name:path}", summary="One node: its runs, incidents, XIDs, and what to think of it")
    def node(request: Request, name: str) -> Response:
        return respond(request, plain(queries.nodes.node(unquote(name))))

    return router


def acted(queries: Queries, done: ProblemAction) -> dict[str, object]:
    """What was done, and the problem as it stands now."""
    about = done.into or done.made or done.problem
    return {"action": plain(done), "problem": plain(queries.problems.problem(about, limit=1).problem)}
