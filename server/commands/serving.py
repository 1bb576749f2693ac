"""`rerail serve`: one process that takes facts, derives runs and draws pages."""

from __future__ import annotations

import argparse
import gc
import socket
import sys

from rerail.server.commands import opened_store, settings_of

GRACEFUL_SECONDS = 3
"""Connections that do not end by themselves are cut after this."""


GARBAGE_THRESHOLDS = (50_000, 20, 100)
"""Objects made between two looks for garbage cycles, and looks between two deeper ones. A batch makes thousands of
objects that die without a cycle; to look for cycles among them at Python's own thresholds costs a fifth of the intake.
"""


SWITCH_SECONDS = 0.0005
"""After so long a thread that computes gives the interpreter to one that waits for it. A page that reads rows gives it
away at each of them; at Python's own five milliseconds, a tenth of a second of work beside a busy projector takes one.
"""


def calm_interpreter() -> None:
    """Set what the program itself consists of aside, look for garbage cycles more rarely, let threads take turns."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)


def serve(parsed: argparse.Namespace) -> int:
    """Serve until told to stop."""
    import uvicorn

    from rerail.server.app import create_app
    from rerail.server.preparing import prepare_database
    from rerail.server.store import engines

    settings = settings_of(parsed)
    prepare_database(settings.database_url)
    shown = engines.shown(engines.normalised(settings.database_url))
    print(f"database {shown}  (from {settings.sources['database_url']})", file=sys.stderr)
    with opened_store(settings, may_make=True) as store:
        sealed = store.alerts.reseal(everything=False).sealed
    if sealed:
        print(f"sealed the secrets of {sealed} channels that lay in clear", file=sys.stderr)
    api = create_app(settings)
    calm_interpreter()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                print(f"rerail serves at http://{settings.host}:{settings.port}", file=sys.stderr)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # The lifespan ends after the last connection, and an event stream is one: tell it first.
            api.state.closing.set()
            await super().shutdown(sockets)

    Server(
        uvicorn.Config(
            api,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=GRACEFUL_SECONDS,
        )
    ).run()
    return 0
