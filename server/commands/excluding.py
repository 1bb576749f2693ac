"""`rerail exclude`: windows of a run out of account, from a terminal.

Rules
- Exactly one of: a window A B, `--list`, `--undo ID`, `--redo ID`.
- With a server's address the server is asked; without one the database is written to, and the figures are made anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.asking import ask_server
from rerail.server.core.report import exclusion_figures
from rerail.server.core.view import Exclusion
from rerail.server.errors import RefusedRequestError, RerailError
from rerail.server.exclusions import ExclusionDesk
from rerail.server.instants import parse_instant
from rerail.server.queries import Queries

Shown = Mapping[str, object]


def exclude(parsed: argparse.Namespace) -> int:
    """Declare, list, withdraw or restore."""
    asked = [bool(parsed.window), parsed.list, parsed.undo is not None, parsed.redo is not None]
    if sum(asked) != 1 or len(parsed.window) not in (0, 2):
        raise RerailError("say one of: A B (a window), --list, --undo ID, --redo ID")
    settings = settings_of(parsed)
    url = str(parsed.url or settings.url or "").rstrip("/")
    try:
        windows = _ask(url, settings.token, parsed) if url else _write(parsed)
    except RefusedRequestError as error:
        raise RerailError(f"{error.message}. {error.hint}") from None
    if parsed.json:
        print(json.dumps({"run_id": parsed.run_id, "exclusions": windows}, indent=1, ensure_ascii=False))
    elif not windows:
        print(f"No window of {parsed.run_id} is out of account.")
    for window in () if parsed.json else windows:
        print(sentence(window))
    return 0


def sentence(window: Shown) -> str:
    """One window as a line."""
    changes = window["changes"]
    assert isinstance(changes, list)
    parts = [f"{window['window']}  {str(window['start'])[:19]} – {str(window['end'])[:19]} UTC"]
    if window["reason"]:
        parts.append(str(window["reason"]))
    parts.append(f"declared {str(window['declared_at'])[:19]}{_by(window['author'])}")
    parts += [f"{each['state']} {str(each['at'])[:19]}{_by(each['author'])}" for each in changes]
    return "; ".join(parts)


def _by(author: object) -> str:
    return f" by {author}" if author else ""


def _window(parsed: argparse.Namespace) -> tuple[int, int]:
    edges = []
    for name, text in zip(("A", "B"), parsed.window, strict=True):
        try:
            edges.append(parse_instant(text))
        except ValueError as error:
            raise RerailError(f"{name}: {error}") from None
    return edges[0], edges[1]


def _write(parsed: argparse.Namespace) -> list[dict[str, object]]:
    """Through the database itself."""
    from rerail.server.projector import Projector

    with opened_store(settings_of(parsed)) as store:
        if parsed.list:
            return [exclusion_figures(window) for window in Queries(store).run(parsed.run_id).exclusions]
        desk = ExclusionDesk(store, lambda batch: store.append([batch])[0])
        said: Exclusion
        if parsed.undo is not None:
            said = desk.withdraw(parsed.run_id, parsed.undo, parsed.reason, parsed.author)
        elif parsed.redo is not None:
            said = desk.restore(parsed.run_id, parsed.redo, parsed.reason, parsed.author)
        else:
            said = desk.declare(parsed.run_id, *_window(parsed), parsed.reason, parsed.author)
        projector = Projector(store)
        while projector.derive_due():
            pass
    return [exclusion_figures(said)]


def _ask(url: str, token: str | None, parsed: argparse.Namespace) -> list[dict[str, object]]:
    """Through a server."""
    address = f"{url}/api/v1/runs/{quote(parsed.run_id, safe='')}/exclusions"
    words = {name: value for name in ("reason", "author") if (value := getattr(parsed, name)) is not None}
    query = f"?{urlencode(words)}" if words else ""
    if parsed.list:
        found = ask_server("GET", address, token)["exclusions"]
        assert isinstance(found, list)
        return found
    if parsed.undo is not None:
        return [ask_server("DELETE", f"{address}/{quote(parsed.undo, safe='')}{query}", token)]
    if parsed.redo is not None:
        return [ask_server("POST", f"{address}/{quote(parsed.redo, safe='')}/restore{query}", token)]
    start, end = _window(parsed)
    return [ask_server("POST", address, token, {"start": start, "end": end, **words})]
