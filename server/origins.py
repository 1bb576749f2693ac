"""Origins: whether a request was made by a page of another site.

A browser says so (`Sec-Fetch-Site`, `Origin`) and scripts cannot change it; a program that is no browser says neither,
and is held to the token alone. So whatever changes something refuses a request that is foreign.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a browser made this request for another site. Header names in lower case."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    if origin is None:
        return False
    own = {headers.get("host", ""), headers.get("x-forwarded-host", "")} - {""}
    return urlsplit(origin).netloc not in own
