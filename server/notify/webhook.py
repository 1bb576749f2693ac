"""Webhook: a JSON document by POST, signed so that who gets it knows whom it is from.

`X-Rerail-Signature: v1=<hex of HMAC-SHA256(secret, timestamp + "." + body)>`; the timestamp, in seconds, is in
`X-Rerail-Timestamp`: refuse what is more than five minutes old. `X-Rerail-Message` is the same when it is sent again.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import ssl
import threading
import time
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit, urlunsplit

from rerail.server.notify.messages import Channel, DeliveryError, Message

TIMEOUT_SECONDS = 10
"""For a whole delivery: connection, request and answer."""


_tls = ssl.create_default_context()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What `X-Rerail-Signature` holds."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, "sha256").hexdigest()


def send(channel: Channel, message: Message) -> None:
    """Post it."""
    body = json.dumps(
        {
            "message_id": message.message_id,
            "title": message.title,
            "text": message.text(),
            "group": message.group,
            "count": message.count,
            "link": message.link,
            "alerts": [asdict(each) for each in message.told],
        },
        ensure_ascii=False,
    ).encode()
    headers = {"Content-Type": "application/json", "X-Rerail-Message": str(message.message_id)}
    if channel.secret:
        timestamp = str(int(time.time()))
        headers["X-Rerail-Timestamp"] = timestamp
        headers["X-Rerail-Signature"] = signature(channel.secret, timestamp, body)
    post(channel.address, body, headers)


def post(address: str, body: bytes, headers: dict[str, str], seconds: float = TIMEOUT_SECONDS) -> None:
    """POST, and take nothing but 2xx for delivered, whole and in time. Raises DeliveryError without the address in it.

    `seconds` are for everything from the connection to the end of the answer: a service that sends a byte now and then
    would else hold its channel for as long as it likes. Redirects are not followed and no proxy is asked: a signed body
    goes where it was told to go.
    """
    late = Late()
    clock = threading.Timer(seconds, late.call)
    clock.daemon = True
    clock.start()
    code = None
    try:
        with contextlib.closing(_connected(address, seconds, late)) as connection:
            told = {**headers, "User-Agent": "rerail", "Connection": "close"}
            connection.request("POST", _path(address), body, told)
            with connection.getresponse() as answer:
                code = answer.status
                answer.read(4096)
    except (OSError, HTTPException, ValueError) as error:
        if not late.is_over:
            raise DeliveryError(f"it cannot be reached: {type(error).__name__}") from None
    finally:
        clock.cancel()
        late.forget()
    if late.is_over:
        how = "it did not answer" if code is None else f"it answered {code} and did not end its answer"
        raise DeliveryError(f"{how} within {seconds:g} s")
    if code is None or not 200 <= code < 300:
        raise DeliveryError(f"it answered {code}")


class Late:
    """Ends a connection when its time is over, whatever its thread waits for."""

    def __init__(self) -> None:
        self.is_over = False
        self._socket: socket.socket | None = None

    def watch(self, connected: socket.socket) -> None:
        """Keep a handle of its own: what TLS wraps cannot be reached any more while it shakes hands."""
        self._socket = connected.dup()
        if self.is_over:
            self.call()

    def call(self) -> None:
        """It is over."""
        self.is_over = True
        if (watched := self._socket) is not None:
            with contextlib.suppress(OSError):
                watched.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """The connection ended by itself."""
        if (watched := self._socket) is not None:
            watched.close()


def _path(address: str) -> str:
    where = urlsplit(address)
    return urlunsplit(("", "", where.path or "/", where.query, ""))


def _connected(address: str, seconds: float, late: Late) -> HTTPConnection:
    where = urlsplit(address)
    host = where.hostname or ""
    is_secure = where.scheme == "https"
    connection = HTTPConnection(host, where.port or (443 if is_secure else 80), timeout=seconds)
    connection.default_port = 443 if is_secure else 80
    plain = socket.create_connection((connection.host, connection.port), seconds)
    late.watch(plain)
    connection.sock = _tls.wrap_socket(plain, server_hostname=host) if is_secure else plain
    return connection
