"""Middleware: what surrounds every answer of the pages, as plain ASGI.

Rules
- Nothing but this server is ever asked: the policy forbids foreign scripts, images, connections and forms.
- A callback is only taken from a page of this server (`Origin`, `Sec-Fetch-Site`), and never over a websocket.
- A path that is no page is answered with 404, though the same document draws the page that says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from rerail.server.origins import is_foreign
from rerail.ui.address import parse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

NOT_OURS = ("/api/", "/docs", "/assets/", "/_dash-", "/figures/")
"""Prefixes that are no pages: what is not found below them is said by whoever serves them."""


class Guard:
    """Refuses foreign callbacks, and gives documents their status and their policy."""

    def __init__(self, app: Application, policy: Callable[[], str]) -> None:
        self.app = app
        self.policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if path.startswith("/_dash-") and (scope["type"] == "websocket" or is_foreign(headers)):
            await _refuse(scope, send)
            return
        if scope["type"] == "websocket" or path.startswith(NOT_OURS):
            await self.app(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = self._document_start(message, scope)
            await send(message)

        await self.app(scope, receive, send_with_policy)

    def _document_start(self, message: Message, scope: Scope) -> Message:
        kept = [(name.lower(), value) for name, value in message.get("headers", [])]
        if not any(name == b"content-type" and value.startswith(b"text/html") for name, value in kept):
            return message
        escaped = scope.get("raw_path") or scope["path"].encode()
        status = message["status"]
        if status == 200 and parse(escaped.decode("latin-1").split("?")[0]).page == "unknown":
            status = 404
        kept += [
            (b"content-security-policy", self.policy().encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"x-frame-options", b"DENY"),
            (b"cache-control", b"no-cache"),
        ]
        return {**message, "status": status, "headers": kept}


def content_security_policy(script_hashes: tuple[str, ...]) -> str:
    """The policy of a document: everything from here, no inline script but the ones whose hash is given."""
    return "; ".join(
        (
            "default-src 'self'",
            "script-src 'self' " + " ".join(script_hashes),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "object-src 'none'",
            "frame-src 'none'",
            "frame-ancestors 'none'",
        )
    )


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"callbacks are only taken from pages of this server\n"})
