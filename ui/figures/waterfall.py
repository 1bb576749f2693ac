"""Waterfall: how 100 % of the time became training goodput, as bars that hang from the level before.

Rules
- The bars are exact: each loss starts where the level before it ended, and the last level is what the losses leave.
- A run that ends below its high-water step has rework of which no phase tells: it is in the row all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.goodput import WATERFALL
from rerail.server.core.view import SpanKind, WaterfallRow

KINDS = {"faults": SpanKind.FAULT, **dict(WATERFALL)}

LABELS = {
    "elapsed": "elapsed",
    "faults": "faults, until training could step again",
    "infrastructure_goodput": "infrastructure goodput",
    "startup": "start-up",
    "planned": "planned down-time",
    "checkpoint": "checkpoint stalls",
    "rework": "rework",
    "stalls": "stalls",
    "overhead": "evaluation, data wait, overhead",
    "unknown": "silent",
    "training_goodput": "training goodput",
}


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """One row of the picture: a bar from `left` of the given `width`, both fractions of elapsed."""

    name: str
    label: str
    kind: SpanKind | None
    """None for a level."""
    left: float
    width: float
    length_ns: int
    share: float | None


def waterfall_bars(rows: Sequence[WaterfallRow]) -> list[WaterfallBar]:
    """A bar per row, in the order of the rows."""
    bars = []
    elapsed = next((row.length_ns for row in rows if row.name == "elapsed"), 0)
    level = elapsed
    for row in rows:
        width = row.length_ns / elapsed if elapsed else 0.0
        if row.is_total:
            left = 0.0
            level = row.length_ns
        else:
            level -= row.length_ns
            left = level / elapsed if elapsed else 0.0
        bars.append(
            WaterfallBar(
                row.name,
                LABELS.get(row.name, row.name.replace("_", " ")),
                None if row.is_total else KINDS.get(row.name),
                left,
                width,
                row.length_ns,
                row.share,
            )
        )
    return bars
