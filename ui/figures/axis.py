"""Axis: instants as wall-clock text, so that a date axis shows the hours its reader chose.

Rules
- Plotly shows numbers on a date axis in the browser's own zone, and drops the zone of a text. So every instant leaves
  here as wall-clock text, shifted by one fixed offset, and the axis says which offset that is.
- One offset per picture: a change to or from summer time inside it never bends the axis.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - instants leave here as wall-clock text, which has no zone
DAY_NS = 86_400_000_000_000
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Json = dict[str, object]
"""A piece of a Plotly figure. Plain dicts: building graph objects costs more than the query behind them."""


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    return (EPOCH + timedelta(days=day)).date().isoformat()


@lru_cache(maxsize=4096)
def _day_and_month(day: int) -> str:
    shown = EPOCH + timedelta(days=day)
    return f"{shown.day:02d} {MONTHS[shown.month - 1]}"


@dataclass(frozen=True, slots=True)
class Axis:
    """The shared time axis of a picture: `[start, end]` in nanoseconds, shown `offset_minutes` east of UTC."""

    start: int
    end: int
    offset_minutes: int = 0

    def text(self, at: int) -> str:
        """The instant as Plotly reads it, to the millisecond: finer than any pixel, and shorter."""
        day, clock, millisecond = self._shown(at)
        return f"{_date(day)} {clock}.{millisecond:03d}" if millisecond else f"{_date(day)} {clock}"

    def clock(self, at: int) -> str:
        """The instant as a hover says it, with the day only where the picture spans more than one."""
        day, clock, _ = self._shown(at)
        return clock if self.end - self.start < DAY_NS else f"{_day_and_month(day)} {clock}"

    def _shown(self, at: int) -> tuple[int, str, int]:
        """The day since 1970, the clock on it, and the milliseconds.

        Thousands of these are in one picture, and datetime takes as long as everything else about them.
        """
        day, rest = divmod(at // 1_000_000 + self.offset_minutes * 60_000, 86_400_000)
        seconds, millisecond = divmod(rest, 1000)
        return day, f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}", millisecond

    @property
    def name(self) -> str:
        """`UTC`, `UTC+09:00`."""
        if self.offset_minutes == 0:
            return "UTC"
        sign = "+" if self.offset_minutes > 0 else "−"
        hours, minutes = divmod(abs(self.offset_minutes), 60)
        return f"UTC{sign}{hours:02d}:{minutes:02d}"


def milliseconds(lengths_ns: Iterable[int]) -> Json:
    """Lengths in the unit of a date axis, packed."""
    return packed(length / 1e6 for length in lengths_ns)


def packed(values: Iterable[float]) -> Json:
    """Numbers as a base64 array, which Plotly reads without parsing each of them."""
    return {"dtype": "f8", "bdata": base64.b64encode(array("d", values).tobytes()).decode()}
