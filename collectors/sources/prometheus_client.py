"""Prometheus client: a range of a query, through `prometheus-api-client`, with what that leaves to its caller.

Rules
- Every request has a time-out; the library alone would wait for ever. It does not try again by itself: its caller
  looks again, and waits longer each time.
- A range is asked for in pieces below the server's limit of 11,000 points a series. Where a server says that a piece
  is too much, it is halved.
- `QueryFailed` is about one query, `SourceDown` about the server. Neither is an answer without series.
- Requests to Amazon Managed Service for Prometheus are signed (SigV4) by botocore, which finds the credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rerail.collectors.source import NotConfigured, SourceDown

MOST_POINTS = 10_000
TIMEOUT_SECONDS = 30.0
_TOO_MUCH = re.compile(r"exceeded maximum resolution|too many samples|response too large|query length", re.IGNORECASE)


class QueryFailed(Exception):  # noqa: N818 - named as the condition it tells
    """The server did not answer this query; the message says why."""


class _TooMuch(QueryFailed):
    """Fewer points may be answered."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a server is, and how it lets us in."""

    url: str
    token_file: Path | None = None
    """Holds a bearer token; read for each request, since tokens are renewed."""
    ca: Path | None = None
    sigv4_region: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS


class PrometheusClient:
    """Asks one server. Raises `NotConfigured` where a library is missing."""

    def __init__(self, reach: Reach) -> None:
        parts = urlsplit(reach.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise NotConfigured(f"--prometheus: {reach.url[:200]!r} is no address such as http://prometheus:9090")
        try:
            import prometheus_api_client
        except ImportError:
            raise NotConfigured("prometheus-api-client is missing: pip install 'rerail[prometheus]'") from None
        self._reach = reach
        self._auth = _signing(reach.sigv4_region) if reach.sigv4_region else None
        self._connection: Any = prometheus_api_client.PrometheusConnect(
            url=reach.url.rstrip("/"), retry=0, timeout=reach.timeout_seconds, headers={}, auth=self._auth  # type: ignore[arg-type]
        )  # fmt: skip
        if reach.ca is not None:
            self._connection._session.verify = str(reach.ca)
        self._failed = prometheus_api_client.PrometheusApiClientException
        self._most_points = MOST_POINTS

    def close(self) -> None:
        """Give connections back."""
        self._connection.close()

    def ranges(self, query: str, start: int, end: int, step: int) -> Iterator[tuple[int, int, object]]:
        """`(first, last, result)` of pieces that tile `[start, end]`, seconds on the grid of `step`, both included.

        Raises `QueryFailed` and `SourceDown`; pieces that were given before hold.
        """
        while start <= end:
            last = min(end, start + (self._most_points - 1) * step)
            last = start + (last - start) // step * step
            try:
                result = self._ask(query, start, last, step)
            except _TooMuch:
                if self._most_points <= 1:
                    raise
                self._most_points = max(1, min(self._most_points, (last - start) // step + 1) // 2)
                continue
            yield start, last, result
            start = last + step

    def _ask(self, query: str, start: int, end: int, step: int) -> object:
        import requests

        if self._reach.token_file is not None:
            try:
                token = self._reach.token_file.read_text().strip()
            except OSError as error:
                raise SourceDown(f"--token-file {self._reach.token_file}: {error.strerror}") from None
            self._connection.headers["Authorization"] = f"Bearer {token}"
        first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end))
        limit = {"timeout": f"{max(1, round(self._reach.timeout_seconds))}s"}
        try:
            return self._connection.custom_query_range(query, first, last, str(step), params=limit)
        except self._failed as error:
            raise _failure(str(error)) from None
        except requests.exceptions.ReadTimeout:
            raise QueryFailed(f"no answer within {self._reach.timeout_seconds:g} s") from None
        except requests.exceptions.JSONDecodeError:
            raise SourceDown(f"{self._reach.url}: what answered is not Prometheus") from None
        except (requests.exceptions.RequestException, OSError) as error:
            raise SourceDown(f"{self._reach.url}: {_words(error)}") from None
        except (KeyError, TypeError, ValueError):
            raise SourceDown(f"{self._reach.url}: what answered is not Prometheus") from None
        except Exception as error:  # botocore's tree has no root that can be named without it
            if self._auth is None:
                raise
            raise SourceDown(f"the request cannot be signed: {error}"[:300]) from None


def _words(error: Exception) -> str:
    told = str(error)
    for short in ("Connection refused", "Name or service not known", "timed out", "certificate verify failed"):
        if short in told:
            return short
    return f"{type(error).__name__}: {told}"[:200]


def _failure(told: str) -> Exception:
    """What a status means: of the query, or of the server."""
    status = re.search(r"HTTP Status Code (\d{3})", told)
    code = int(status[1]) if status else 0
    said = re.search(r'"error":\s*"((?:[^"\\]|\\.){1,400})', told)
    reason = f"HTTP {code}: {said[1] if said else told[:200]}"
    if _TOO_MUCH.search(told):
        return _TooMuch(reason)
    if code in (401, 403, 404, 407, 429, 502, 504) or code < 400:
        return SourceDown(reason)
    return QueryFailed(reason)


def _signing(region: str) -> Any:
    """Signs requests for Amazon Managed Service for Prometheus. Raises `NotConfigured`."""
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import Session
    except ImportError:
        raise NotConfigured("--sigv4: botocore is missing: pip install 'rerail[aws]'") from None
    credentials = Session().get_credentials()
    if credentials is None:
        raise NotConfigured("--sigv4: no AWS credentials were found (environment, profile, role of this machine)")

    def sign(request: Any) -> Any:
        path, mark, query = request.url.partition("?")
        request.url = path + mark + query.replace("+", "%20")  # a signature knows no other way to write a blank
        told = AWSRequest(method=request.method, url=request.url, data=request.body or b"")
        SigV4Auth(credentials.get_frozen_credentials(), "aps", region).add_auth(told)
        request.headers.update(dict(told.headers.items()))
        return request

    return sign
