"""Channels: the kinds there are, what an address of each must be, and what of it may be shown."""

from __future__ import annotations

from urllib.parse import urlsplit

KINDS = ("webhook", "alertmanager", "apprise")


def check_address(kind: str, address: str) -> str | None:
    """Why an address cannot be one of this kind; None where it can."""
    if any(character in address for character in "\r\n\0 \t"):
        return "holds blanks or control characters"
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "not an address"
    if kind == "apprise":
        return None if "://" in address else "an Apprise address begins like slack:// or mailto://"
    if parts.scheme not in ("http", "https") or not host:
        return "begins with http:// or https:// and names a host"
    if parts.username or parts.password:
        return "holds a user name or a password; a webhook signs with its secret instead"
    return None


def masked(kind: str, address: str) -> str:
    """An address as pages, answers and the log show it. What follows the host may be a token: it is not shown."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "…"
    if kind == "apprise":
        return f"{parts.scheme}://…"
    if kind == "alertmanager":
        return f"{parts.scheme}://{host}{port}{parts.path}"
    return f"{parts.scheme}://{host}{port}" + ("/…" if parts.path.strip("/") or parts.query else "")
