"""The pages on the server's own FastAPI.

    attach(api, queries, settings)

Rules
- One ASGI application: Dash draws on `api`, and nothing here opens a session or calls this server over HTTP.
- Callbacks are coroutines (`reading.py`); what one raises is logged and told to the reader, never swallowed.
- Dash's FastAPI backend sets itself up at the first request to `/`; `attach` does it before, so that a deep link as
  the first request of a process has its scripts and styles.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from dash import Dash, set_props
from fastapi import FastAPI

from rerail.server.queries import Queries
from rerail.ui import routes, shell
from rerail.ui.compression import Compression
from rerail.ui.middleware import Guard, content_security_policy
from rerail.ui.pages import (
    alerts,
    compare,
    config,
    config_changes,
    configs,
    data,
    fleet,
    incident,
    knowledge,
    node,
    nodes,
    note,
    problem,
    problems,
    run,
    runs,
)

logger = logging.getLogger(__name__)

ASSETS = Path(__file__).parent / "assets"

PAGES = (
    fleet, runs, run, incident, problems, problem, nodes, node, configs, config, config_changes, compare, knowledge,
    note, alerts, data,
)  # fmt: skip
"""Modules with `layout(queries, address, search)` and `register(app, queries)`; their order is the navigation's."""


@dataclass(slots=True)
class Pages:
    """The attached pages."""

    app: Dash
    _policy: str | None = field(default=None, repr=False)

    def policy(self) -> str:
        """The content security policy of every document."""
        if self._policy is None:
            self._policy = content_security_policy(tuple(self.app.csp_hashes()))
        return self._policy


def attach(api: FastAPI, queries: Queries, settings: object = None) -> Pages:  # noqa: ARG001 - settings: none needed yet
    """Put the pages on `api`. Call it after the API's own routes are there and before it serves."""
    routes.register(api, queries)
    app = Dash(
        "rerail",
        server=api,
        use_async=True,
        use_pages=False,
        pages_folder="",
        include_pages_meta=False,
        assets_folder=str(ASSETS),
        assets_ignore=r"plotly-cartesian.*|scheme\.js",
        suppress_callback_exceptions=True,
        index_string=shell.INDEX,
        title="rerail",
        update_title=None,
        on_error=_tell,
    )
    app.layout = shell.layout()
    shell.register(app, queries, PAGES)
    for page in PAGES:
        page.register(app, queries)
    app.backend.websocket_capability = False  # else every page opens a socket that no callback uses
    for prepare in app.backend._before_request_funcs:
        prepare()
    pages = Pages(app)
    api.add_middleware(Compression)
    api.add_middleware(Guard, policy=pages.policy)
    return pages


def _tell(error: Exception) -> None:
    """Log what a callback raised, and show the reader that something did not work."""
    logger.error("a page callback failed", exc_info=error)
    set_props(
        "notifications",
        {
            "sendNotifications": [
                {
                    "action": "show",
                    "id": "callback-error",
                    "title": "This part could not be read",
                    "message": f"{type(error).__name__}: the server's log has the details. What is shown may be old.",
                    "color": "red",
                    "autoClose": 12_000,
                }
            ]
        },
    )
