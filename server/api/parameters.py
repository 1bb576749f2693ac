"""Parameters: a query parameter that nobody reads is refused; it would else be a filter that does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from rerail.server.errors import RefusedRequestError

PREFIX = "/api/v1/"


def known_parameters(request: Request) -> None:
    """Raises RefusedRequestError (422) naming the first parameter that the addressed question does not have."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute) or not route.path.startswith(PREFIX):
        return
    known = _known(route)
    for name in request.query_params:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            message = f"{name[:100]}: not a parameter of {request.method} {route.path}"
            raise RefusedRequestError(422, "unknown_parameter", message, hint)


def _known(route: APIRoute) -> tuple[str, ...]:
    """Those of its function, and those that it reads by hand and documents."""
    read = _read_by(route.dependant)
    told = (route.openapi_extra or {}).get("parameters", ())
    return tuple(sorted({*read, *(each["name"] for each in told if each["in"] == "query")}))


def _read_by(dependant: Dependant) -> Iterator[str]:
    for each in dependant.query_params:
        yield each.alias
    for needed in dependant.dependencies:
        yield from _read_by(needed)
