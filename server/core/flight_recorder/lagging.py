"""Lagging: who is still in an operation that all other members of its group have left.

The others wait in a later one, to which it did not come; that it waits, too, does not make it a victim, since nobody is
missing where it waits. Where as many are on either side, or where it waits in another group as well, it is not that.
"""

from __future__ import annotations

from rerail.server.core.flight_recorder.groups import Group, Picture


def lagging(seen: Picture) -> tuple[Group, list[int]] | None:
    """The group whose members waited first for those that lag there, and these; None where nobody lags."""
    found = [(group, lag) for group in seen.groups if (lag := _lag(seen, group))]
    return min(found, key=lambda each: (_since(each[0]), each[0].name), default=None)


def _lag(seen: Picture, group: Group) -> list[int]:
    waits = {rank: call for rank, call in group.waiting.items() if not call.is_p2p}
    behind = group.behind()
    if not behind or len(behind) * 2 >= len(group.members) or any(rank not in waits for rank in behind):
        return []
    held_in = max(waits[rank].sequence for rank in behind)
    others = (rank for rank in group.members if rank in group.levels and rank not in behind)
    if any(rank in waits and waits[rank].sequence <= held_in for rank in others):
        return []
    if any(rank in other.waiting for other in seen.groups if other is not group for rank in behind):
        return []
    return behind


def _since(group: Group) -> int:
    return min((call.created_at for call in group.waiting.values() if call.created_at is not None), default=1 << 62)
