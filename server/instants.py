"""Instants as people and programs write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_NS = 10**14
"""Numbers from here on are nanoseconds, below it seconds: 10^14 s is three million years away, 10^14 ns is 1970."""


def parse_instant(text: str) -> int:
    """Nanoseconds from ISO 8601 (UTC where no zone is given), seconds, or nanoseconds. Raises ValueError."""
    text = text.strip()
    if text.lstrip("-").isdigit():
        number = int(text)
        return number if abs(number) >= _FIRST_NS else number * 10**9
    try:
        return round(float(text) * 1e6) * 1000
    except (ValueError, OverflowError):
        pass
    try:
        # A plus sign that was not encoded in an address arrives as a space.
        moment = datetime.fromisoformat(text.replace(" +", "+") if text.count(" ") < 2 else text)
    except ValueError:
        raise ValueError(f"{text!r} is not an instant") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
