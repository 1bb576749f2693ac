"""Queries about sources that cannot see: one row for each source, with the runs that it is blind of."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.sight import how_to_mend
from rerail.server.query_results import BlindPage, BlindRow, RunRow

MOST_LIVE = 5_000
"""Runs that are looked through, those heard last first."""

MOST_BLIND_RUNS = 20


def blind_page(rows: Sequence[RunRow], total: int, offset: int, limit: int) -> BlindPage:
    """The sources that cannot see in `rows`, out of `total` runs that are not over."""
    found: dict[tuple[str, str | None, str | None, str | None], list[tuple[int, str]]] = {}
    for row in rows:
        for each in row.blind:
            key = (each.source, each.node, each.emitter, each.reason)
            found.setdefault(key, []).append((each.since, row.run_id))
    told = []
    for (source, node, emitter, reason), blind in found.items():
        blind.sort()
        words, page = how_to_mend(source, reason) or (None, None)
        runs = tuple(dict.fromkeys(run for _, run in blind))
        told.append(
            BlindRow(
                source, node, emitter, blind[0][0], reason, words, page, runs[:MOST_BLIND_RUNS], len(runs)
            )
        )  # fmt: skip
    told.sort(key=lambda each: (each.since, each.source, each.emitter or ""))
    return BlindPage(tuple(told[offset : offset + limit]), len(told), total, len(rows) == total)
