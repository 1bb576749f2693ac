"""Figures: an analysis as plain JSON values under the names of `docs/facts.md`."""

from __future__ import annotations

from rerail.server.core.flight_recorder.conclusions import Analysis, Ranks


def _ranks(ranks: Ranks) -> dict[str, object]:
    return {"count": ranks.count, "ranks": ranks.text}


def flight_recorder_figures(found: Analysis | None) -> dict[str, object] | None:
    """What the flight recorders of an incident say together; None where there are none."""
    if found is None:
        return None
    return {
        "conclusion": found.conclusion.value,
        "sentence": found.sentence,
        "confidence": found.confidence,
        "culprits": list(found.culprits),
        "culprit_count": found.culprit_count,
        "culprit_node": found.culprit_node,
        "operation": found.operation,
        "frame": found.frame,
        "ranks_seen": found.ranks_seen,
        "world_size": found.world_size,
        "not_seen": _ranks(found.not_seen),
        "not_recorded": _ranks(found.not_recorded),
        "unknown": list(found.unknown),
        "groups": [
            {
                "group": row.title,
                "members": row.member_count,
                "members_inferred": row.is_inferred,
                "operation": row.operation,
                "sequence": row.sequence,
                "detail": row.detail,
                "waiting": _ranks(row.waiting),
                "missing": _ranks(row.missing),
                "not_seen": _ranks(row.not_seen),
                "last_places": [{"rank": place.rank, "place": place.text} for place in row.last_places],
            }
            for row in found.groups
        ],
    }
