"""Mismatches: ranks that called different things under one number of one group.

Rules
- Compared is what must be equal for the operation: its name always; type and number of elements where the operation
  needs them equal. A gather or scatter has another shape at its root, and uneven operations exist: those are compared
  by name only.
- An all_gather may be uneven; it counts as a mismatch only while it is pending.
- The majority is taken to be right. Where there is none, nobody is blamed and both sides are named.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from rerail.server.core.flight_recorder.groups import Group
from rerail.server.core.flight_recorder.summary import Call

EVEN = frozenset(
    {
        "all_reduce", "allreduce", "all_reduce_coalesced", "allreduce_coalesced", "broadcast", "_broadcast_oop",
        "reduce", "_reduce_oop", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced", "_all_gather_base", "_allgather_base", "all_gather_into_tensor",
    }
)  # fmt: skip
"""Operations whose inputs have the same type and number of elements on every rank."""

EVEN_WHILE_PENDING = frozenset({"all_gather", "allgather"})


class Difference(StrEnum):
    """In what the ranks differ."""

    OPERATION = "operation"
    TYPE = "type"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One operation that is not the same on all ranks."""

    sequence: int
    difference: Difference
    variants: tuple[tuple[str, tuple[int, ...]], ...]
    """What was called and by whom; the most frequent first."""
    odd_ranks: tuple[int, ...]
    """Those against the majority; empty where there is none."""
    at: int
    """When the first of them called it; 0 where unknown."""
    call: Call
    """As the majority, or the first rank, called it."""


def mismatch_in(group: Group) -> Mismatch | None:
    """The first operation of a group on which its ranks differ."""
    by_sequence: dict[int, list[tuple[int, Call]]] = {}
    for rank, told in group.told.items():
        for call in told.calls:
            if not call.is_p2p and call.sequence > 0 and call.operation != "coalesced":
                by_sequence.setdefault(call.sequence, []).append((rank, call))
    for sequence in sorted(by_sequence):
        calls = by_sequence[sequence]
        if len(calls) > 1 and (found := _differ(sequence, calls)) is not None:
            return found
    return None


def _differ(sequence: int, calls: list[tuple[int, Call]]) -> Mismatch | None:
    operations = {call.operation for _, call in calls}
    if len(operations) > 1:
        return _mismatch(sequence, Difference.OPERATION, [(rank, call.operation, call) for rank, call in calls])
    (operation,) = operations
    is_pending = any(call.is_pending for _, call in calls)
    if operation not in EVEN and not (operation in EVEN_WHILE_PENDING and is_pending):
        return None
    types = {call.types for _, call in calls if call.types}
    if len(types) > 1:
        return _mismatch(sequence, Difference.TYPE, [(rank, call.types, call) for rank, call in calls if call.types])
    elements = {call.input_elements for _, call in calls if call.input_elements is not None}
    if len(elements) > 1:
        told = [
            (rank, call.sizes or f"{call.input_elements} elements", call)
            for rank, call in calls
            if call.input_elements is not None
        ]
        return _mismatch(sequence, Difference.SIZE, told)
    return None


def _mismatch(sequence: int, difference: Difference, told: list[tuple[int, str, Call]]) -> Mismatch:
    counts = Counter(value for _, value, _ in told)
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    right = ordered[0] if counts[ordered[0]] * 2 > len(told) else None
    return Mismatch(
        sequence=sequence,
        difference=difference,
        variants=tuple((value, tuple(sorted(rank for rank, each, _ in told if each == value))) for value in ordered),
        odd_ranks=() if right is None else tuple(sorted(rank for rank, value, _ in told if value != right)),
        at=min((call.created_at for _, _, call in told if call.created_at is not None), default=0),
        call=next(call for _, value, call in told if value == (right or ordered[0])),
    )
