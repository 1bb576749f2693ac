"""Asking: commands that go to a running server instead of its database."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from rerail.server.commands.importing import error_of
from rerail.server.errors import RerailError, StoreError


def ask_server(method: str, address: str, token: str | None, body: object = None) -> dict[str, object]:
    """The JSON object that a server answers. Raises RerailError for a refusal, StoreError where nobody answers."""
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(address, data, headers, method=method), timeout=60
        ) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise RerailError(error_of(error)) from None
    except (urllib.error.URLError, TimeoutError) as error:
        raise StoreError(f"{address} does not answer: {getattr(error, 'reason', error)}") from None
