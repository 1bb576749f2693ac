"""A second reading of AWS Signature Version 4, for tests: what a server that checks a signature computes of a request.

Standard library alone, so that it shares nothing with the library that signs.
"""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/"
    r"aws4_request), SignedHeaders=(?P<signed>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def signature(method: str, target: str, headers: Mapping[str, str], body: bytes, secret: str, told: str) -> str:
    """The signature that a request must have whose `Authorization` says `told`; `target` is the path with its query."""
    claims = AUTHORIZATION.fullmatch(told)
    assert claims is not None, told
    parts = urlsplit(target)
    pairs = [
        (unquote(name), unquote(value)) for name, _, value in (p.partition("=") for p in parts.query.split("&")) if name
    ]
    query = "&".join(
        f"{name}={value}" for name, value in sorted((quote(n, safe="-_.~"), quote(v, safe="-_.~")) for n, v in pairs)
    )
    lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    written = "".join(f"{name}:{lower[name]}\n" for name in claims["signed"].split(";"))
    canonical = "\n".join(
        (
            method,
            quote(parts.path or "/", safe="/-_.~"),
            query,
            written,
            claims["signed"],
            hashlib.sha256(body).hexdigest(),
        )
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = "\n".join(("AWS4-HMAC-SHA256", lower["x-amz-date"], claims["scope"], digest))
    key = f"AWS4{secret}".encode()
    for word in (claims["day"], claims["region"], claims["service"], "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    return hmac.new(key, to_sign.encode(), "sha256").hexdigest()


class CheckingServer(http.server.ThreadingHTTPServer):
    """Answers a query where its signature is right, and 403 as Amazon does where it is not."""

    def __init__(self, secret: str, region: str) -> None:
        super().__init__(("127.0.0.1", 0), _Checking)
        self.secret = secret
        self.region = region
        self.queries: list[str] = []
        """Of the requests that were let in."""


class _Checking(http.server.BaseHTTPRequestHandler):
    server: CheckingServer

    def do_GET(self) -> None:
        told = self.headers.get("Authorization", "")
        claims = AUTHORIZATION.fullmatch(told)
        is_right = claims is not None and (claims["region"], claims["service"]) == (self.server.region, "aps")
        if is_right:
            right = signature("GET", self.path, dict(self.headers.items()), b"", self.server.secret, told)
            is_right = claims["signature"] == right
        if is_right:
            found = re.search(r"(?:^|&)query=([^&]*)", urlsplit(self.path).query)
            self.server.queries.append("" if found is None else unquote(found[1]))
        answer = {"status": "success", "data": {"resultType": "matrix", "result": []}} if is_right else {
            "message": "The request signature we calculated does not match the signature you provided."
        }  # fmt: skip
        body = json.dumps(answer).encode()
        self.send_response(200 if is_right else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
