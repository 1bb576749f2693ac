"""`rerail serve`."""

from __future__ import annotations

import argparse
import sys

from rerail.server.commands import settings_of

GRACEFUL_SECONDS = 3
"""An open event stream keeps uvicorn from ending for ever without it."""


def serve(parsed: argparse.Namespace) -> int:
    """Serve until told to stop."""
    import uvicorn

    from rerail.server.app import create_app
    from rerail.server.preparing import prepare_database
    from rerail.server.store import engines

    settings = settings_of(parsed)
    prepare_database(settings.database_url)
    shown = engines.shown(engines.normalised(settings.database_url))
    print(f"rerail {settings.role} at http://{settings.host}:{settings.port}", file=sys.stderr)
    print(f"database {shown}  (from {settings.sources['database_url']})", file=sys.stderr)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    return 0
