"""Zones: what a person says of stamps that name no time zone, as `--zone` of `rerail import` and `rerail classify`."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

from rerail.server.errors import RerailError


def zone_seconds(zone: str | None) -> int:
    """`+09:00`, `local` or the name of a zone (as it is today) in seconds east of UTC. Raises RerailError."""
    if zone is None:
        return 0
    if zone == "local":
        return time.localtime().tm_gmtoff
    if told := re.fullmatch(r"([+-])(\d{1,2}):?(\d\d)?", zone):
        hours, minutes = int(told[2]), int(told[3] or 0)
        if hours <= 14 and minutes < 60:
            return (hours * 3600 + minutes * 60) * (-1 if told[1] == "-" else 1)
    else:
        with suppress(ValueError, OSError, KeyError):
            offset = datetime.now(ZoneInfo(zone)).utcoffset()
            if offset is not None:
                return int(offset.total_seconds())
    raise RerailError(f"--zone {zone!r}: neither local, nor an offset like +09:00, nor the name of a time zone")
