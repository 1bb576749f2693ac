"""Answers: results as JSON responses, and errors as one shape everywhere.

Rules
- An error is `{"error": {"code", "message", "hint"}}`, whatever went wrong; `hint` says what would mend it.
- Instants are ISO 8601 in UTC with microseconds, lengths are seconds, names end in their unit. Unknown is null.
- A read carries an ETag, so that a page that polls an unchanged run is answered 304 without a body.
"""

from __future__ import annotations

import gzip
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from rerail.server.core.report import account_figures, definition_figures, figures, incident_figures, iso
from rerail.server.core.view import Account
from rerail.server.errors import (
    LogGoneError,
    NotBegunError,
    NotFoundError,
    RefusedRequestError,
    StoreAwayError,
    UnknownDefinitionError,
)
from rerail.server.queries import Queries
from rerail.server.query_results import FleetSums, IncidentView

_encode = msgspec.json.Encoder().encode
_SMALL = 1400
"""Bytes that fit one packet: not worth compressing."""


def plain(value: object, name: str = "") -> object:
    """A result as JSON holds it: field names and values by the rules above."""
    if is_dataclass(value) and not isinstance(value, type):
        shown: dict[str, object] = {}
        for entry in fields(value):
            new_name, scale = _unit(entry.name)
            field_value = getattr(value, entry.name)
            if scale is not None:
                shown[new_name] = _scaled(field_value, scale)
            else:
                shown[new_name] = plain(field_value, new_name)
        return shown
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        if name in _MAPPINGS and all(isinstance(entry, tuple) for entry in value):
            return {str(plain(key)): plain(entry) for key, entry in value}
        return [plain(entry) for entry in value]
    if isinstance(value, int) and not isinstance(value, bool) and (name in _INSTANTS or name.endswith("_at")):
        return iso(value)
    return value


_INSTANTS = frozenset(
    {"at", "as_of", "start", "end", "silent_since", "since", "until", "occurrences_from", "occurrences_to"}
)
_MAPPINGS = frozenset(
    {"labels", "left_out", "failed_runs", "versions", "exit_codes", "facets", "parts", "statuses", "levels"}
)


def _unit(name: str) -> tuple[str, float | None]:
    if name == "ns_by_phase":
        return "seconds_by_phase", 1e9
    if name.endswith("_gpu_ns"):
        return name.removesuffix("_ns") + "_hours", 3.6e12
    if name.endswith("_ns"):
        return name.removesuffix("_ns") + "_seconds", 1e9
    return name, None


def _scaled(value: object, scale: float) -> object:
    if isinstance(value, tuple):
        return {str(plain(key)): entry / scale for key, entry in value}
    return None if value is None else value / scale  # type: ignore[operator]


def incident_answer(found: IncidentView) -> dict[str, object]:
    """An incident and what stands around it; the incident itself in the words of `docs/facts.md`."""
    shape = plain(found)
    assert isinstance(shape, dict)
    return {**shape, "incident": {**incident_figures(found.incident), "contradicted_by": found.contradicted_by}}


def run_answer(
    queries: Queries, run_id: str, as_of: int | None, window: tuple[int, int] | None, definition: str | None
) -> dict[str, object]:
    """The figures of a run, or of a window of it; under a definition where one is named."""
    if definition is None:
        if window is None:
            return figures(queries.run(run_id, as_of))
        return _window_figures(run_id, window, queries.window(run_id, *window, as_of))
    found = queries.measured(run_id, definition, as_of, window)
    shown = figures(found.view) if window is None else _window_figures(run_id, window, found.account)
    return {**shown, **definition_figures(found.definition, found.measured, found.account)}


def _window_figures(run_id: str, window: tuple[int, int], account: Account) -> dict[str, object]:
    return {"run_id": run_id, "from_ns": window[0], "to_ns": window[1], **account_figures(account)}


def fleet_answer(sums: FleetSums) -> dict[str, object]:
    """Sums over all runs; `account` is the row of the loss waterfall a phase goes on."""
    return {
        "start": iso(sums.start),
        "end": iso(sums.end),
        "resolution_seconds": sums.resolution_ns / 1e9,
        "runs": sums.runs,
        "bins": [
            {
                "start": iso(each.start),
                "cells": [
                    {
                        "phase": cell.phase.value,
                        "account": cell.kind.value,
                        "seconds": cell.ns / 1e9,
                        "gpu_hours": None if cell.gpu_ns is None else cell.gpu_ns / 3.6e12,
                    }
                    for cell in each.cells
                ],
            }
            for each in sums.bins
        ],
    }


def respond(request: Request, body: object) -> Response:
    """A read's answer: encoded, tagged, compressed where that pays, or 304 where the reader has it already."""
    content = _encode(body)
    tag = f'W/"{blake2b(content, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if tag in (known.strip() for known in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    if len(content) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 3, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type="application/json", headers=headers)


def refusal(status: int, code: str, message: str, hint: str = "", headers: dict[str, str] | None = None) -> Response:
    """An error as everybody gets it."""
    body = {"error": {"code": code, "message": message, "hint": hint}}
    return Response(_encode(body), status_code=status, media_type="application/json", headers=headers)


LISTED_AT = {
    "alert rule": "/api/v1/alerts/rules", "alert group": "/api/v1/alerts", "channel": "/api/v1/alerts/channels",
    "message": "/api/v1/alerts/messages", "dry run": "",
}  # fmt: skip
"""Where those things are listed that have no list of their own name."""


def add_error_answers(api: FastAPI) -> None:
    """Let every error leave the API in the one shape."""

    @api.exception_handler(RefusedRequestError)
    async def _refused(_request: Request, error: RefusedRequestError) -> Response:
        headers = {}
        if error.retry_after_seconds is not None:
            headers["Retry-After"] = str(error.retry_after_seconds)
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return refusal(error.status, error.code, error.message, error.hint, headers)

    @api.exception_handler(NotFoundError)
    async def _unknown(_request: Request, error: NotFoundError) -> Response:
        what = error.what.replace(" ", "_")
        path = LISTED_AT.get(error.what, f"/api/v1/{what}s")
        hint = f"GET {path} lists those that are known" if path else "begin another"
        return refusal(404, f"unknown_{what}", str(error), hint)

    @api.exception_handler(NotBegunError)
    async def _not_begun(_request: Request, error: NotBegunError) -> Response:
        return refusal(404, "not_begun", str(error), "ask as of that instant or a later one")

    @api.exception_handler(UnknownDefinitionError)
    async def _undefined(_request: Request, error: UnknownDefinitionError) -> Response:
        return refusal(422, "invalid_parameter", str(error), "leave it out for rerail's own")

    @api.exception_handler(LogGoneError)
    async def _gone(_request: Request, error: LogGoneError) -> Response:
        return refusal(410, "log_gone", str(error), "without as_of the run is told as it was derived last")

    @api.exception_handler(StoreAwayError)
    async def _away(_request: Request, error: StoreAwayError) -> Response:
        hint = "send it again after Retry-After seconds; what was not answered with 200 was not kept"
        return refusal(503, "database_away", f"the database does not answer: {error}", hint, {"Retry-After": "5"})

    @api.exception_handler(Exception)
    async def _bug(_request: Request, error: Exception) -> Response:
        # Starlette raises it again after this answer, so that the server's log has the traceback.
        return refusal(500, "bug", f"{type(error).__name__} in the server", "its log has the details; please report it")

    @api.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return refusal(422, "invalid_parameter", f"{where}: {first['msg']}", "see /api/docs")

    @api.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        code = {404: "unknown_path", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        hint = "see /api/docs" if error.status_code in (404, 405) else ""
        message = f"{request.method} {request.url.path}: {error.detail}"
        return refusal(error.status_code, code, message, hint, dict(error.headers or {}))
