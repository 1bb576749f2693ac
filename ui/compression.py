"""Compression: scripts and styles as brotli, made once and kept; figures and callbacks made as they go.

Rules
- Scripts and styles are the same for as long as the process lives, so each is compressed at its first request, in a
  thread, and kept with a tag; a browser that has it already gets 304.
- Plotly's script is answered with the cartesian bundle of the same version: a third of the size, all the pages need.
- Streams (`text/event-stream`) pass untouched.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path

import brotli

from rerail.ui.middleware import Application, Message, Receive, Scope, Send

KEPT = ("/assets/", "/_dash-component-suites/")
MADE = ("/figures/", "/_dash-layout", "/_dash-dependencies", "/_dash-update-component")
LEAST_BYTES = 1024
MOST_KEPT = 300
PLOTLY = "/_dash-component-suites/plotly/package_data/plotly."
CARTESIAN = Path(__file__).parent / "assets" / "plotly-cartesian.min.js"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file as it is sent."""

    body: bytes
    content_type: bytes
    tag: bytes
    is_brotli: bool


class Compression:
    """Compresses what the pages load. Plain ASGI, nothing to configure."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.kept: dict[tuple[str, bool], Kept] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(KEPT + MADE):
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        takes_brotli = b"br" in headers.get(b"accept-encoding", b"")
        if scope["method"] == "GET" and path.startswith(KEPT):
            await self._kept(scope, receive, send, takes_brotli, headers.get(b"if-none-match"))
        elif takes_brotli:
            await self._made(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _kept(self, scope: Scope, receive: Receive, send: Send, takes_brotli: bool, known: bytes | None) -> None:
        path = scope["path"]
        key = (path, takes_brotli)
        kept = self.kept.get(key)
        if kept is None:
            if path.startswith(PLOTLY) and path.endswith(".js"):
                start: Message = {"status": 200, "headers": [(b"content-type", b"text/javascript; charset=utf-8")]}
                body = await asyncio.to_thread(CARTESIAN.read_bytes)
            else:
                start, body = await _answer(self.app, _unconditional(scope), receive)
            if start["status"] != 200:
                await _send(send, start["status"], start["headers"], body)
                return
            kept = await asyncio.to_thread(_keep, body, dict(start["headers"]), takes_brotli)
            if len(self.kept) < MOST_KEPT:
                self.kept[key] = kept
        is_fingerprinted = ".v" in path or b"m=" in scope.get("query_string", b"")
        headers = [
            (b"content-type", kept.content_type),
            (b"etag", kept.tag),
            (b"vary", b"accept-encoding"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"public, max-age=31536000, immutable" if is_fingerprinted else b"no-cache"),
        ]
        if known == kept.tag:
            await _send(send, 304, headers, b"")
            return
        if kept.is_brotli:
            headers.append((b"content-encoding", b"br"))
        await _send(send, 200, headers, kept.body)

    async def _made(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, body = await _answer(self.app, scope, receive)
        headers = list(start["headers"])
        if len(body) >= LEAST_BYTES and not any(name == b"content-encoding" for name, _ in headers):
            body = await asyncio.to_thread(brotli.compress, body, quality=4)
            headers += [(b"content-encoding", b"br"), (b"vary", b"accept-encoding")]
        await _send(send, start["status"], headers, body)


def _keep(body: bytes, headers: dict[bytes, bytes], takes_brotli: bool) -> Kept:
    content_type = headers.get(b"content-type", b"application/octet-stream")
    is_text = any(word in content_type for word in (b"javascript", b"text/", b"json", b"svg"))
    is_brotli = takes_brotli and is_text and len(body) >= LEAST_BYTES
    sent = brotli.compress(body, quality=9) if is_brotli else body
    tag = b'"' + hashlib.sha256(body).hexdigest()[:20].encode() + (b"-br" if is_brotli else b"") + b'"'
    return Kept(sent, content_type, tag, is_brotli)


def _unconditional(scope: Scope) -> Scope:
    """The same request, asking for the whole file as it is: tags and encodings are ours."""
    ours = (b"if-none-match", b"if-modified-since", b"accept-encoding", b"range")
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name not in ours]}


async def _answer(app: Application, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
    """What the application answers, whole."""
    start: Message = {}
    pieces: list[bytes] = []

    async def collect(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    await app(scope, receive, collect)
    return start, b"".join(pieces)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    if status != 304:
        kept.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": kept})
    await send({"type": "http.response.body", "body": body})
