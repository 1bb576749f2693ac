"""Pairing: which fault of one arm is the same fault in another.

Rules
- Arms under one fault schedule (the runs' label `fault_schedule`) are paired by the step that each fault cut off; a
  rank may be a step ahead of the one that tells, so two steps of difference are the same fault.
- Where as many faults struck both arms under that schedule, they are paired by their order: each was planned once.
- Arms without the label are paired where their faults say that they are the same: as many of them, at the same steps.
- Every fault is in one pair at most, and order is kept. What finds no partner is counted, not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rerail.server.core.comparison.arms import Arm, ArmFault

NEAR_STEPS = 2


class PairedBy(StrEnum):
    """Why faults are taken for the same."""

    SCHEDULE = "schedule"
    STEPS = "steps"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Pairing:
    """Pairs of faults of two arms."""

    paired_by: PairedBy
    pairs: tuple[tuple[ArmFault, ArmFault], ...] = ()
    alone: tuple[int, int] = (0, 0)
    """Faults of each side without a partner."""


def pairing(first: Arm, second: Arm) -> Pairing:
    """The pairs of two arms; none where nothing says that faults are the same."""
    if first.schedule is not None and first.schedule == second.schedule:
        if len(first.faults) == len(second.faults):
            return Pairing(PairedBy.SCHEDULE, tuple(zip(first.faults, second.faults, strict=True)))
        pairs = _nearest(first.faults, second.faults)
        alone = (len(first.faults) - len(pairs), len(second.faults) - len(pairs))
        return Pairing(PairedBy.SCHEDULE, pairs, alone)
    if first.faults and len(first.faults) == len(second.faults) and first.schedule == second.schedule:
        pairs = _nearest(first.faults, second.faults)
        if len(pairs) == len(first.faults):
            return Pairing(PairedBy.STEPS, pairs)
    return Pairing(PairedBy.NOTHING, (), (len(first.faults), len(second.faults)))


def _nearest(first: Sequence[ArmFault], second: Sequence[ArmFault]) -> tuple[tuple[ArmFault, ArmFault], ...]:
    """Pairs in the order of their steps: each takes the earliest that is near and free."""
    left = sorted((each for each in first if each.step is not None), key=lambda each: each.step or 0)
    right = sorted((each for each in second if each.step is not None), key=lambda each: each.step or 0)
    pairs = []
    place = 0
    for fault in left:
        at = fault.step or 0
        while place < len(right) and (right[place].step or 0) < at - NEAR_STEPS:
            place += 1
        if place < len(right) and abs((right[place].step or 0) - at) <= NEAR_STEPS:
            pairs.append((fault, right[place]))
            place += 1
    return tuple(pairs)
