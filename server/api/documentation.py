"""Documentation of the API, at `/docs` and `/api/docs`. Everything is served from here: no content delivery network.

The page has no inline script, so that a strict content security policy does not have to know about it.
"""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response
from starlette.responses import HTMLResponse

from rerail.server.api.answers import refusal

_TYPES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript", "docs.js": "text/javascript"}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rerail API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/api/static/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/api/static/swagger-ui-bundle.js"></script>
<script src="/api/static/docs.js"></script>
</body>
</html>
"""


def documentation_router() -> APIRouter:
    """The routes that show the API to people."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    @router.get("/api/docs")
    def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE)

    @router.get("/api/static/{name}")
    def static(name: str) -> Response:
        if name not in _TYPES:
            return refusal(404, "unknown_path", f"there is no /api/static/{name}")
        content = files("rerail.server").joinpath("api", "static", name).read_bytes()
        return Response(content, media_type=_TYPES[name], headers={"Cache-Control": "public, max-age=86400"})

    return router
