"""Stated: the fields of what a person says about a problem, an alert or a config change, checked and named.

People paste log lines into reasons: what they say is masked like a log before it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rerail.collectors.masking import masked
from rerail.server.errors import RefusedRequestError

HINT = "docs/reading.md, see /api/docs"


def unfit(name: str, value: object, reason: str, hint: str = HINT) -> RefusedRequestError:
    """A field that does not fit; `hint` says where its fields are told of."""
    shown = json.dumps(value, ensure_ascii=True, default=str)[:200]
    return RefusedRequestError(422, "invalid_field", f"{name}: {reason} (got {shown})", hint)


def words(stated: Mapping[str, object], name: str, longest: int) -> str | None:
    """A text without secrets and control characters; None where nothing was said. Raises RefusedRequestError (422)."""
    value = stated.get(name)
    if value is not None and not isinstance(value, str):
        raise unfit(name, value, "not text")
    text = (value or "").strip()
    if len(text) > longest:
        raise unfit(name, text, f"longer than {longest} characters")
    return masked(text)[:longest] or None


def whole(stated: Mapping[str, object], name: str) -> int | None:
    """A whole number, or None where none was said. Raises RefusedRequestError (422)."""
    value = stated.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise unfit(name, value, "not a whole number")
    return value
