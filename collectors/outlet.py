"""Outlets: where lines of facts go. The server over HTTP, or a file, or the terminal.

`deliver` gives what became of the lines, or raises:

    OutletDown      nobody answered for the batch: try again, after `retry_after` seconds where that was asked for
    BatchTooLarge   the batch must be split
    BatchRefused    the batch as a whole made no sense to the server; split it to find the line that does not

A batch may be delivered again at any time: the server knows duplicates.
"""

from __future__ import annotations

import gzip
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import IO, Protocol

TIMEOUT_SECONDS = 20.0


class OutletDown(Exception):  # noqa: N818 - named as the condition it tells
    """Nobody answered for the batch."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class BatchTooLarge(Exception):  # noqa: N818 - named as the condition it tells
    """The batch must be split."""


class BatchRefused(Exception):  # noqa: N818 - named as the condition it tells
    """The batch as a whole was not understood."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A line the server did not take: its number in the batch from 1, and what the server said."""

    line: int
    said: str


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Our clock minus the server's, and half the time the exchange took, which bounds the error."""

    offset_us: int
    error_us: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch."""

    accepted: int
    duplicate: int
    refused: tuple[Refusal, ...] = ()
    clock: ClockReading | None = None


class Outlet(Protocol):
    """Where lines go. One thread at a time."""

    def deliver(self, lines: Sequence[bytes]) -> Delivery:
        """Hand over lines, each ending in a newline."""
        ...


class HttpOutlet:
    """`POST {url}/api/v1/facts`, gzipped JSON lines."""

    def __init__(self, url: str, token: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.url = url.rstrip("/") + "/api/v1/facts"
        self._token = token
        self._timeout = timeout_seconds

    def deliver(self, lines: Sequence[bytes]) -> Delivery:
        """Send one batch and read the answer."""
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        body = gzip.compress(b"".join(lines), compresslevel=5, mtime=0)
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        sent = time.time_ns()
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                answer = response.read(4 * 1024 * 1024)
        except urllib.error.HTTPError as error:
            with error:
                raise _answered_with(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise OutletDown(f"{type(error).__name__}: {error}") from None
        return _delivery(answer, len(lines), sent, time.time_ns())


class FileOutlet:
    """Lines appended to an open binary file or the terminal. It takes everything."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def deliver(self, lines: Sequence[bytes]) -> Delivery:
        """Write and flush."""
        try:
            self._file.write(b"".join(lines))
            self._file.flush()
        except (OSError, ValueError) as error:
            raise OutletDown(str(error)) from None
        return Delivery(len(lines), 0)


def _answered_with(error: urllib.error.HTTPError) -> Exception:
    """The exception that says what to do about a status."""
    try:
        said = error.read(500).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException):
        said = ""
    reason = f"{error.code} {error.reason} {said}".strip()
    if error.code == 413:
        return BatchTooLarge(reason)
    if error.code in (400, 415, 422):
        return BatchRefused(reason)
    return OutletDown(reason, _retry_after(error.headers.get("Retry-After")))


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait: the header holds seconds or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _delivery(answer: bytes, lines: int, sent: int, received: int) -> Delivery:
    """What a 200 says. An answer that is no such object came from something else than the server."""
    try:
        told = json.loads(answer)
        refused = tuple(
            Refusal(int(row["line"]), json.dumps(row, ensure_ascii=False)) for row in told.get("rejected", ())
        )
        accepted, duplicate = int(told["accepted"]), int(told.get("duplicate", 0))
        stamp = told.get("received_at")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise OutletDown("what answered is not a rerail server") from None
    clock = None
    if isinstance(stamp, int) and stamp > 0:
        clock = ClockReading(((sent + received) // 2 - stamp) // 1000, max(1, (received - sent) // 2000))
    return Delivery(accepted, duplicate, tuple(row for row in refused if 1 <= row.line <= lines), clock)
