"""Intake: `POST /api/v1/facts`, the door every fact comes through.

Rules
- 200 only after the facts are durable. A batch may be sent again at any time, whatever the answer was, or none.
- A body is at most 8 MB unpacked, and is never unpacked further than that.
- One bad line costs that line: it is named in the answer, kept for people to read, and the rest is taken.
- A browser that states facts for a page of another site is refused: nobody's visit elsewhere writes into the log.
"""

from __future__ import annotations

import asyncio
import hmac
import time
import zlib
from collections.abc import Callable

import msgspec
import zstandard
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.server.decoding import Decoded, decode_body
from rerail.server.errors import RefusedRequestError
from rerail.server.ingest import Ingest
from rerail.server.origins import is_foreign

LARGEST_BODY = 8 * 1024 * 1024
LARGEST_DRAINED = 64 * 1024 * 1024
MOST_REJECTED_TOLD = 1000
"""Refused lines named in an answer; all of them are counted and, up to the daily cap, kept."""

_LARGE = 1024 * 1024
"""From this size on a body is decoded off the event loop, so that others are not kept waiting."""

_ZSTD_SLICE = 256
"""Bytes given to the zstd decompressor at once: at most 64 blocks, which give back at most 8 MB."""

_encode = msgspec.json.Encoder().encode


def intake_router(ingest: Ingest, token: str | None, clock: Callable[[], int] = time.time_ns) -> APIRouter:
    """The routes that facts come through."""
    router = APIRouter(tags=["facts"])

    @router.post(
        "/api/v1/facts",
        summary="State facts",
        description=(
            "JSON lines, one fact each (`docs/facts.md`); `Content-Encoding: gzip` or `zstd`; at most 8 MB unpacked. "
            "Answers after the facts are durable. Sending a batch again changes nothing."
        ),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/x-ndjson": {"schema": {"type": "string"}, "example": _EXAMPLE}},
            },
            "responses": {
                "200": {"description": "Committed", "content": {"application/json": {"example": _ANSWER}}},
                **{str(status): {"description": text} for status, text in _REFUSALS.items()},
            },
        },
    )
    async def state_facts(request: Request) -> Response:
        authorise(request, token)
        packed = await read_body(request)
        received_at = clock()
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if len(packed) > _LARGE:
            decoded = await run_in_threadpool(_decode, packed, encoding, received_at)
        else:
            decoded = _decode(packed, encoding, received_at)
        receipt = await asyncio.wrap_future(ingest.submit(decoded.batch))
        refused = decoded.batch.refused
        answer: dict[str, object] = {
            "accepted": receipt.accepted,
            "duplicate": receipt.duplicate,
            "rejected": [
                {"line": line.line, "field": line.field, "value": _sayable(line.value), "reason": line.reason}
                for line in refused[:MOST_REJECTED_TOLD]
            ],
            "received_at": received_at,
        }
        if len(refused) > MOST_REJECTED_TOLD:
            answer["rejected_not_listed"] = len(refused) - MOST_REJECTED_TOLD
        return Response(_encode(answer), media_type="application/json")

    return router


def _sayable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def authorise(request: Request, token: str | None) -> None:
    """Let a request pass that may change something. Raises RefusedRequestError: 403 for a foreign page, 401."""
    if is_foreign(request.headers):
        raise RefusedRequestError(
            403, "foreign_page", "a page of another site asked for this", "only pages of this server, and programs, may"
        )
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise RefusedRequestError(
            401, "unauthorised", "a valid token is needed", "send Authorization: Bearer <the server's RERAIL_TOKEN>"
        )


async def read_body(request: Request) -> bytes:
    """The body as sent, given up as soon as it is too long. Raises RefusedRequestError (413).

    Many clients send all of it before they read the answer, and see a broken pipe where the server hangs up in the
    middle. So what is too long is read on, and thrown away, as far as somebody may have sent it by mistake.
    """
    told = request.headers.get("content-length", "")
    too_large = f"{int(told)} bytes" if told.isdigit() and int(told) > LARGEST_BODY else None
    if too_large and int(told) > LARGEST_DRAINED:
        raise _too_large(too_large)
    parts: list[bytes] = []
    length = 0
    async for part in request.stream():
        length += len(part)
        if length > LARGEST_DRAINED:
            break
        if length > LARGEST_BODY and too_large is None:
            too_large = f"more than {LARGEST_BODY} bytes"
        if too_large:
            parts.clear()
        else:
            parts.append(part)
    if too_large:
        raise _too_large(too_large)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decode(packed: bytes, encoding: str, received_at: int) -> Decoded:
    body = unpacked(packed, encoding)
    decoded = decode_body(body, received_at)
    if decoded.batch.refused and not decoded.batch.stated and _is_no_batch(body):
        raise RefusedRequestError(
            400,
            "not_json_lines",
            "the body is not JSON lines",
            "one JSON object per line; for a compressed body set Content-Encoding to gzip or zstd",
        )
    return decoded


def _is_no_batch(body: bytes) -> bool:
    """Not one line of it even looks like a JSON object: another format altogether, not bad facts."""
    return not any(line.lstrip().startswith(b"{") for line in body.splitlines())


def unpacked(packed: bytes, encoding: str) -> bytes:
    """The body behind a content encoding. Raises RefusedRequestError: 415, 400, or 413 before it grows too large."""
    if encoding in ("", "identity"):
        return packed
    try:
        if encoding in ("gzip", "x-gzip"):
            return _gunzipped(packed)
        if encoding == "zstd":
            return _unzstd(packed)
    except (zlib.error, zstandard.ZstdError) as error:
        raise RefusedRequestError(
            400, "undecodable", f"the body is not {encoding}: {error}", "send it again, or without compression"
        ) from None
    raise RefusedRequestError(
        415, "unknown_encoding", f"Content-Encoding {encoding} is not known", "use gzip, zstd or none"
    )


def _gunzipped(packed: bytes) -> bytes:
    """All members of a gzip stream."""
    parts, length = [], 0
    while packed:
        stream = zlib.decompressobj(wbits=31)
        part = stream.decompress(packed, LARGEST_BODY - length + 1)
        length += len(part)
        if length > LARGEST_BODY:
            raise _too_large(f"more than {LARGEST_BODY} bytes unpacked")
        if not stream.eof:
            raise zlib.error("cut off")
        parts.append(part)
        packed = stream.unused_data.lstrip(b"\0")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unzstd(packed: bytes) -> bytes:
    """All frames of a zstd stream. In slices, because the decompressor has no limit of its own for its output."""
    parts, length, position = [], 0, 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**27)
    stream = decompressor.decompressobj()
    is_between_frames = True
    while position < len(packed):
        part = stream.decompress(packed[position : position + _ZSTD_SLICE])
        position += _ZSTD_SLICE
        length += len(part)
        if length > LARGEST_BODY:
            raise _too_large(f"more than {LARGEST_BODY} bytes unpacked")
        parts.append(part)
        is_between_frames = stream.eof
        if stream.eof:
            position -= len(stream.unused_data)
            stream = decompressor.decompressobj()
    if not is_between_frames:
        raise zstandard.ZstdError("cut off")
    return b"".join(parts)


def _too_large(what: str) -> RefusedRequestError:
    return RefusedRequestError(
        413,
        "too_large",
        f"the body has {what}; the most is {LARGEST_BODY} unpacked",
        "send smaller batches: 500 to 2,000 facts are best",
    )


_EXAMPLE = (
    '{"kind":"context","run":"llama-7b","emitter":"rank/node0/0/b1","rank":0}\n'
    '{"kind":"steps","seq":0,"at":1760000082064123666,"first_step":1,"start":1760000075965506666,'
    '"durations_us":[6098617]}\n'
)
_ANSWER = {
    "accepted": 1,
    "duplicate": 0,
    "rejected": [{"line": 17, "field": "durations_us[3]", "value": "-5", "reason": "negative"}],
    "received_at": 1760000083000000000,
}
_REFUSALS = {
    400: "The body cannot be unpacked, or is not JSON lines at all",
    401: "A token is needed",
    413: "More than 8 MB unpacked",
    415: "A content encoding that is not known",
    429: "Too much waits to be written; come back after Retry-After seconds",
    503: "The database does not answer; nothing of the batch was kept",
}
