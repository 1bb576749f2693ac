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

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - instants leave here as wall-clock text, which has no zone
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Json = dict[str, object]
"""A piece of a Plotly figure. Plain dicts: building graph objects costs more than the query behind them."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The shared time axis of a picture: `[start, end]` in nanoseconds, shown `offset_minutes` east of UTC."""

    start: int
    end: int
    offset_minutes: int = 0

    def text(self, at: int) -> str:
        """The instant as Plotly reads it, to the millisecond: finer than any pixel, and shorter."""
        shown = EPOCH + timedelta(microseconds=at // 1000, minutes=self.offset_minutes)
        precision = "milliseconds" if shown.microsecond >= 1000 else "seconds"
        return shown.isoformat(" ", precision)

    def clock(self, at: int) -> str:
        """The instant as a hover says it, with the day only where the picture spans more than one."""
        shown = EPOCH + timedelta(microseconds=at // 1000, minutes=self.offset_minutes)
        # Thousands of these are in one picture, and strftime takes as long as everything else about them.
        clock = f"{shown.hour:02d}:{shown.minute:02d}:{shown.second:02d}"
        if self.end - self.start < 86_400_000_000_000:
            return clock
        return f"{shown.day:02d} {MONTHS[shown.month - 1]} {clock}"

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
