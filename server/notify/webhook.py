"""Webhook: a JSON document by POST, signed so that who gets it knows whom it is from.

`X-Rerail-Signature: v1=<hex of HMAC-SHA256(secret, timestamp + "." + body)>`; the timestamp, in seconds, is in
`X-Rerail-Timestamp`: refuse what is more than five minutes old. `X-Rerail-Message` is the same when it is sent again.
"""

from __future__ import annotations

import hmac
import json
import time
import urllib.error
import urllib.request
from dataclasses import asdict
from http.client import HTTPException

from rerail.server.notify.messages import Channel, DeliveryError, Message

TIMEOUT_SECONDS = 10


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signed body goes where it was told to go, and nowhere else."""

    def redirect_request(self, *_args: object, **_known: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))


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


def post(address: str, body: bytes, headers: dict[str, str]) -> None:
    """POST, and take nothing but 2xx for delivered. Raises DeliveryError without the address in it."""
    request = urllib.request.Request(address, body, {**headers, "User-Agent": "rerail"}, method="POST")
    try:
        with _opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            answer.read(4096)
    except urllib.error.HTTPError as error:
        code = error.code
        error.close()
        raise DeliveryError(f"it answered {code}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DeliveryError(f"it cannot be reached: {type(reason).__name__}") from None
