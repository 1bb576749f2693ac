"""App: one ASGI application out of the parts, and the threads that live and end with it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

import rerail
from rerail.server.alert_watch import AlertWatch
from rerail.server.alerts import AlertDesk
from rerail.server.api.alerts import alerts_router
from rerail.server.api.answers import add_error_answers, refusal, respond
from rerail.server.api.artefacts import MEGABYTE, artefacts_router
from rerail.server.api.configs import configs_router
from rerail.server.api.documentation import documentation_router
from rerail.server.api.events import events_router
from rerail.server.api.exclusions import exclusions_router
from rerail.server.api.intake import intake_router
from rerail.server.api.metrics import metrics_router
from rerail.server.api.notes import add_note_errors, notes_router
from rerail.server.api.parameters import known_parameters
from rerail.server.api.problems import problems_router
from rerail.server.api.reads import EncodedRunIds, reads_router
from rerail.server.artefacts import ArtefactDesk
from rerail.server.config_changes import ChangeDesk
from rerail.server.errors import StoreAwayError
from rerail.server.exclusions import ExclusionDesk
from rerail.server.ingest import Ingest
from rerail.server.notes import NoteDesk
from rerail.server.notify.dispatch import Dispatch
from rerail.server.problems import ProblemDesk
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.rederiving import Rederiving
from rerail.server.rounds import Rounds
from rerail.server.sealing import sealing_of
from rerail.server.settings import Role, Settings
from rerail.server.store import open_store

logger = logging.getLogger(__name__)


def create_app(settings: Settings) -> FastAPI:
    """The application for these settings, pages included. Its database must be prepared (`preparing.py`)."""
    api = create_api(settings)
    if settings.role in (Role.ALL, Role.WEB):
        _attach_pages(api, api.state.queries, settings)
    return api


def create_api(settings: Settings) -> FastAPI:
    """The application without its pages. Its threads start and end with its lifespan."""
    store = open_store(settings.database_url, sealing_of(settings))
    queries = Queries(store)
    watching: tuple[Rounds, ...] = ()
    projector = None
    if settings.role in (Role.ALL, Role.WORKER):
        watch = AlertWatch(store)
        watching = (watch, Dispatch(store, queries, settings.public_url))
        projector = Projector(store, on_urgent=watch.wake)
        watching = (*watching, Rederiving(store, on_due=projector.wake))
    ingest = Ingest(store) if projector is None else Ingest(store, on_commit=projector.wake)
    closing = asyncio.Event()

    @asynccontextmanager
    async def lifespan(_api: FastAPI) -> AsyncIterator[None]:
        ingest.start()
        for part in reversed(watching):  # Rederiving first: what is derived before it is of an earlier version.
            part.start()
        if projector is not None:
            projector.start()
        try:
            yield
        finally:
            closing.set()
            # Facts first: what was answered with 200 is committed, what waits is still written.
            await run_in_threadpool(ingest.close)
            if projector is not None:
                await run_in_threadpool(projector.close)
            for part in watching:
                await run_in_threadpool(part.close)
            store.close()

    api = FastAPI(
        title="rerail",
        version=rerail.__version__,
        description="What every restart of a training run cost, and why.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(known_parameters)],
    )
    api.state.queries = queries
    api.state.closing = closing
    add_error_answers(api)
    api.add_middleware(EncodedRunIds)

    @api.get("/healthz", tags=["operations"], summary="Whether facts can be taken and views are made")
    def healthz(request: Request) -> Response:
        try:
            revision = queries.changes_since(None).cursor
        except StoreAwayError as error:
            return refusal(503, "database_away", f"the database does not answer: {error}", "see rerail doctor")
        parts = [
            ("writer", ingest),
            ("projector", projector),
            *zip(("alerts", "notifier", "rederiving"), watching, strict=False),
        ]
        stopped = [name for name, part in parts if part and not part.is_running]
        if stopped:
            return refusal(503, "stopped", f"{' and '.join(stopped)} stopped", "restart the server; its log says why")
        return respond(request, {"status": "ok", "version": rerail.__version__, "revision": revision})

    if settings.role in (Role.ALL, Role.WEB):
        api.include_router(intake_router(ingest, settings.token))
        api.include_router(events_router(queries, closing))
        desk = ExclusionDesk(store, lambda batch: ingest.submit(batch).result())
        api.include_router(exclusions_router(queries, desk, settings.token))
        api.include_router(problems_router(queries, ProblemDesk(store), settings.token))
        api.include_router(configs_router(queries, ChangeDesk(store), settings.token))
        api.include_router(alerts_router(queries, AlertDesk(store), settings.token))
        api.include_router(metrics_router(queries))
        queries.largest_artefact_bytes = settings.largest_artefact_mb * MEGABYTE
        artefacts = ArtefactDesk(store, lambda batch: ingest.submit(batch).result())
        largest = queries.largest_artefact_bytes
        api.include_router(artefacts_router(queries, artefacts, settings.token, largest))
        api.include_router(notes_router(queries, NoteDesk(store), settings.token, largest))
        add_note_errors(api)
        api.include_router(reads_router(queries))
        api.include_router(documentation_router())
        _add_unknown_paths(api)
    return api


def _add_unknown_paths(api: FastAPI) -> None:
    """The pages answer every unknown GET with 200 and their shell; under /api that would hide a wrong address."""

    @api.api_route(
        "/api/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], include_in_schema=False
    )
    def unknown(request: Request, rest: str) -> Response:
        allowed = _methods_of(api, request)
        if allowed:
            message = f"{request.method} /api/{rest}: it takes {', '.join(allowed)}"
            return refusal(405, "method_not_allowed", message, "see /api/docs", {"Allow": ", ".join(allowed)})
        message = f"there is no {request.method} /api/{rest}"
        return refusal(404, "unknown_path", message, "see /api/docs for what there is")


def _methods_of(api: FastAPI, request: Request) -> list[str]:
    """What the path of a request takes, where it is one of ours; read off the documentation, which names every path."""
    for template, methods in api.openapi()["paths"].items():
        pattern = re.sub(r"\\\{[^/]+?\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, request.url.path):
            return sorted(map(str.upper, methods))
    return []


def _attach_pages(api: FastAPI, queries: Queries, settings: Settings) -> None:
    try:
        from rerail.ui.app import attach
    except ModuleNotFoundError as error:
        # Without their extra the API serves alone. Anything else that is missing is a broken install.
        if error.name is None or not (error.name.startswith(("dash", "plotly")) or error.name == "rerail.ui.app"):
            raise
        logger.warning("no pages: %s is not installed; pip install 'rerail[ui]' brings them", error.name)
        return
    attach(api, queries, settings)
