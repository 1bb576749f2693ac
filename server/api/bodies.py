"""Bodies: JSON objects that people and programs send, and how a value that cannot be is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fastapi import Request

from rerail.server.errors import RefusedRequestError


def json_object(request: Request, body: bytes) -> Mapping[str, object]:
    """The JSON object in a body. Raises RefusedRequestError (415, 400)."""
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json":
        raise RefusedRequestError(
            415, "not_json", f"Content-Type {media_type or 'missing'}", "send Content-Type: application/json"
        )
    try:
        stated = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedRequestError(400, "not_json", f"the body is not JSON: {error}", "see /api/docs") from None
    if not isinstance(stated, dict):
        raise RefusedRequestError(400, "not_json", "the body is not a JSON object", "see /api/docs")
    return stated


def invalid_parameter(error: ValueError) -> RefusedRequestError:
    """A parameter whose value cannot be, in the words of who looked at it."""
    return RefusedRequestError(422, "invalid_parameter", str(error), "see /api/docs")
