"""Thinning: long histories cut to what a picture has pixels for, without hiding what matters.

Rules
- A bin tells every phase that occurred in it, exactly: a short stall inside a long calm does not vanish.
- Checkpoints are thinned evenly; the newest and those that failed stay.
- Step points are thinned between the edges; the two ends of every fall (a rollback) stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.facts import Phase
from rerail.server.core.view import Checkpoint, Span, StepPoint
from rerail.server.query_results import Bin


def binned(spans: Sequence[Span], start: int, end: int, count: int) -> tuple[Bin, ...]:
    """`count` equal bins over `[start, end)`; bins nothing touches are empty."""
    edges = [start + (end - start) * index // count for index in range(count + 1)]
    sums: list[dict[Phase, int]] = [{} for _ in range(count)]
    index = 0
    for span in spans:
        while edges[index + 1] <= span.start:
            index += 1
        at, phase, here = span.start, span.phase, index
        while at < span.end:
            until = min(span.end, edges[here + 1])
            cell = sums[here]
            cell[phase] = cell.get(phase, 0) + until - at
            at = until
            here += 1
    order = {phase: place for place, phase in enumerate(Phase)}
    return tuple(
        Bin(edges[place], edges[place + 1], tuple(sorted(cell.items(), key=lambda entry: order[entry[0]])))
        for place, cell in enumerate(sums)
    )


def thinned_points(points: Sequence[StepPoint], most: int) -> tuple[StepPoint, ...]:
    """At most `most` points: both ends, both sides of the largest falls, and an even choice of the rest."""
    if len(points) <= most:
        return tuple(points)
    falls = [
        (points[index - 1].step - points[index].step, index)
        for index in range(1, len(points))
        if points[index].step < points[index - 1].step or points[index].attempt != points[index - 1].attempt
    ]
    falls.sort(reverse=True)
    kept = {0, len(points) - 1}
    for _, index in falls[: max(0, most // 2 - 2)]:
        kept.update((index - 1, index))
    left = most - len(kept)
    if left > 0:
        kept.update(len(points) * place // left for place in range(left))
    return tuple(points[index] for index in sorted(kept))


def thinned_checkpoints(checkpoints: Sequence[Checkpoint], most: int) -> tuple[Checkpoint, ...]:
    """At most `most` checkpoints: the newest, up to half of them failed ones, and an even choice of the rest."""
    if len(checkpoints) <= most:
        return tuple(checkpoints)
    failed = [place for place, each in enumerate(checkpoints) if each.failed_at is not None]
    kept = {len(checkpoints) - 1, *failed[-(most // 2) :]}
    left = most - len(kept)
    kept.update(len(checkpoints) * place // left for place in range(left))
    return tuple(checkpoints[place] for place in sorted(kept))
