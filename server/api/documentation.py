"""Documentation of the API, at `/docs` and `/api/docs`. Everything is served from here: no content delivery network."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse

_TYPES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


def documentation_router(api: FastAPI) -> APIRouter:
    """The routes that show the API to people."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    @router.get("/api/docs")
    def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=api.openapi_url or "/api/openapi.json",
            title=f"{api.title} API",
            swagger_js_url="/api/static/swagger-ui-bundle.js",
            swagger_css_url="/api/static/swagger-ui.css",
            swagger_favicon_url="data:,",
        )

    @router.get("/api/static/{name}")
    def static(name: str) -> Response:
        if name not in _TYPES:
            return Response(status_code=404)
        content = files("rerail.server").joinpath("api", "static", name).read_bytes()
        return Response(content, media_type=_TYPES[name], headers={"Cache-Control": "public, max-age=86400"})

    return router
