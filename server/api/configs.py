"""Recovery configs, their changes, and comparisons under `/api/v1`.

Rules
- What changes something is refused to pages of other sites and asks for the token where one is set, as the intake does.
- What is said of a change is answered with 201 when it is durable, and with the change as it stands then.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.server.api.answers import respond
from rerail.server.api.bodies import invalid_parameter, json_object
from rerail.server.api.config_answers import (
    change_about_answer,
    change_answer,
    change_page_answer,
    comparison_answer,
    config_page_answer,
    config_view_answer,
    difference_answer,
)
from rerail.server.api.intake import authorise, read_body
from rerail.server.api.reads import Limit, Offset
from rerail.server.config_changes import ChangeDesk
from rerail.server.queries import Queries

_EXAMPLE = {"action": "explain", "changed_by": "Ada", "reason": "hangs took 45 min to be noticed", "author": "Ada"}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
    }
}


def configs_router(queries: Queries, desk: ChangeDesk, token: str | None) -> APIRouter:
    """The routes about recovery configs."""
    router = APIRouter(tags=["configs"])

    @router.get("/api/v1/configs", summary="Recovery configs over all runs")
    def configs(
        request: Request,
        search: str = "",
        sort: str = "last_at",
        descending: bool = True,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        try:
            page = queries.configs.configs(search, sort, descending, offset, limit)
        except ValueError as error:
            raise invalid_parameter(error) from None
        return respond(request, config_page_answer(page))

    @router.get("/api/v1/configs/changes", summary="The change ledger, newest first")
    def changes(
        request: Request,
        run: Annotated[str | None, Query(description="Changes that took effect in this run")] = None,
        knob: Annotated[str | None, Query(description="Changes of this knob")] = None,
        project: str | None = None,
        unexplained: Annotated[bool, Query(description="Only those of which nobody said why")] = False,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        page = queries.configs.changes(run, knob, project, unexplained, offset, limit)
        return respond(request, change_page_answer(page))

    @router.post(
        "/api/v1/configs/changes/{change_id:path}/actions",
        summary="Say who changed it and why, link an incident or problem that argued for it, or undo one of these",
        status_code=201,
        openapi_extra=_BODY,
    )
    async def say(request: Request, change_id: str) -> Response:
        authorise(request, token)
        stated = json_object(request, await read_body(request))
        await run_in_threadpool(desk.say, unquote(change_id), stated)
        row = await run_in_threadpool(queries.configs.change, unquote(change_id))
        answer = respond(request, change_answer(row))
        answer.status_code = 201
        return answer

    @router.get("/api/v1/configs/changes/{change_id:path}", summary="One change, what people say of it, and its score")
    def change(request: Request, change_id: str) -> Response:
        return respond(request, change_answer(queries.configs.change(unquote(change_id))))

    @router.get(
        "/api/v1/incidents/{incident_id:path}/config-changes",
        summary="Config changes that it argued for, and those before it that its cause points at",
    )
    def changes_of_incident(request: Request, incident_id: str) -> Response:
        found = queries.config_changes_of_incident(incident_id)
        return respond(request, {"incident_id": incident_id, "changes": [change_about_answer(each) for each in found]})

    @router.get("/api/v1/problems/{problem_id}/config-changes", summary="The same of the incidents of a problem")
    def changes_of_problem(request: Request, problem_id: str) -> Response:
        found = queries.config_changes_of_problem(problem_id)
        return respond(request, {"problem_id": problem_id, "changes": [change_about_answer(each) for each in found]})

    @router.get("/api/v1/configs/{fingerprint}", summary="One recovery config; with `against`, how it differs")
    def config(
        request: Request,
        fingerprint: str,
        against: Annotated[str | None, Query(description="The fingerprint of another config")] = None,
    ) -> Response:
        if against:
            return respond(request, difference_answer(queries.configs.config_difference(fingerprint, against)))
        return respond(request, config_view_answer(queries.configs.config(fingerprint)))

    @router.get("/api/v1/compare", summary="Two to six runs or configs side by side, each against the first")
    def compare(
        request: Request,
        sides: Annotated[
            list[str] | None,
            Query(alias="with", description="A run id, a config's fingerprint, `run:…`, `config:…` or `article:…`"),
        ] = None,
    ) -> Response:
        try:
            view = queries.configs.compare(sides or [])
        except ValueError as error:
            raise invalid_parameter(error) from None
        return respond(request, comparison_answer(view))

    return router
