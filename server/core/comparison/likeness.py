"""Likeness: whether two arms may be compared, in plain words.

Rules
- *Flagged*: the difference is shown, with what stands in its way. *Refused*: both sides are shown and no difference is
  computed, since it would be about something else than recovery.
- Under one fault schedule the faults are the same by plan. Without one the mix of causes, and how often they struck,
  must be alike, also where the faults struck at the same steps: mostly other causes are refused, somewhat other ones
  flagged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rerail.server.core.comparison.arms import Arm
from rerail.server.core.comparison.pairing import PairedBy, Pairing
from rerail.server.core.words import count, duration, number

MOST_UNLIKE_MIX = 0.2
"""Half the summed difference of the shares of causes: beyond it the mixes differ."""
OTHER_MIX = 0.5
"""Beyond it most faults of one side have no like on the other."""
MOST_UNLIKE_SIZE = 2.0
FEW_FAULTS = 5


class CaveatLevel(StrEnum):
    """How bad it is."""

    REFUSED = "refused"
    FLAGGED = "flagged"


@dataclass(frozen=True, slots=True)
class Caveat:
    """One thing that stands in the way."""

    level: CaveatLevel
    about: str
    """`data`, `faults`, `world_size`, `target_steps`, `interval`, `reference` or `few`."""
    sentence: str


def caveats(first: Arm, second: Arm, pairs: Pairing) -> tuple[Caveat, ...]:
    """What stands in the way of comparing two arms; refusals first."""
    found = [
        *_data(first, second),
        *_reference(first, second),
        *_faults(first, second, pairs),
        *_sizes(first, second),
        *_interval(first, second),
    ]
    return tuple(sorted(found, key=lambda each: each.level is not CaveatLevel.REFUSED))


def _data(first: Arm, second: Arm) -> Iterator[Caveat]:
    for arm in (first, second):
        if not arm.elapsed_ns:
            yield Caveat(CaveatLevel.REFUSED, "data", f"{arm.title}: no time passed in it yet.")
        elif arm.productive_ns is None:
            yield Caveat(
                CaveatLevel.FLAGGED, "data",
                f"{arm.title}: nobody told of steps, so its training goodput and rework are unknown.",
            )  # fmt: skip
        if arm.is_reference:
            yield Caveat(CaveatLevel.FLAGGED, "reference", f"{arm.title}: {arm.about}")


def _reference(first: Arm, second: Arm) -> Iterator[Caveat]:
    if first.is_reference != second.is_reference and (first.schedule is None or first.schedule != second.schedule):
        reference, measured = (first, second) if first.is_reference else (second, first)
        yield Caveat(
            CaveatLevel.REFUSED, "reference",
            f"{measured.title} did not run under the fault schedule of {reference.title}, nor on its machines: both "
            "are shown, and no difference is computed.",
        )  # fmt: skip


def _faults(first: Arm, second: Arm, pairs: Pairing) -> Iterator[Caveat]:
    if bool(first.faults) != bool(second.faults):
        calm, hit = (first, second) if second.faults else (second, first)
        yield Caveat(
            CaveatLevel.REFUSED, "faults",
            f"{calm.title} had no fault and {hit.title} had {number(len(hit.faults))}: no recovery to compare.",
        )  # fmt: skip
        return
    fewest = min(len(first.faults), len(second.faults))
    if fewest < FEW_FAULTS and not (first.is_reference or second.is_reference):
        yield Caveat(
            CaveatLevel.FLAGGED, "few",
            f"{count(fewest, 'fault')} on one side: one slow recovery more or less would change the picture.",
        )  # fmt: skip
    if pairs.paired_by is not PairedBy.NOTHING and any(pairs.alone):
        yield Caveat(
            CaveatLevel.FLAGGED, "faults",
            f"{count(sum(pairs.alone), 'fault')} without a partner on the other side; they are in the goodput, "
            "and in no pair.",
        )  # fmt: skip
    if pairs.paired_by is PairedBy.SCHEDULE or not first.faults:
        return
    distance = _distance(_known_causes(first), _known_causes(second))
    if distance > MOST_UNLIKE_MIX:
        mixes = f"{_mix(first)} in {first.title}, {_mix(second)} in {second.title}"
        yield Caveat(
            CaveatLevel.REFUSED, "faults",
            f"Most faults are of other causes: {mixes}. A difference would be one of the faults, not of the recovery.",
        ) if distance > OTHER_MIX else Caveat(
            CaveatLevel.FLAGGED, "faults", f"The faults are not alike: {mixes}. What differs may be the faults."
        )  # fmt: skip
    if pairs.paired_by is not PairedBy.NOTHING:
        return
    rates = [len(arm.faults) / arm.elapsed_ns for arm in (first, second) if arm.elapsed_ns]
    if len(rates) == 2 and max(rates) > MOST_UNLIKE_SIZE * min(rates):
        yield Caveat(
            CaveatLevel.FLAGGED, "faults",
            f"Faults came at different rates: every {duration(round(1 / rates[0]))} and every "
            f"{duration(round(1 / rates[1]))}. Goodput depends on that too.",
        )  # fmt: skip


def _sizes(first: Arm, second: Arm) -> Iterator[Caveat]:
    for name, words, here, there in (
        ("world_size", "world size", first.world_sizes, second.world_sizes),
        ("target_steps", "target step", first.target_steps, second.target_steps),
    ):
        if not here or not there or here == there:
            continue
        unlike = max(*here, *there) > MOST_UNLIKE_SIZE * max(1, min(*here, *there))
        level = CaveatLevel.REFUSED if unlike and name == "world_size" else CaveatLevel.FLAGGED
        more = "Start-up, saves and rendezvous take longer with more ranks" if name == "world_size" else (
            "Start-up weighs more in a shorter run"
        )  # fmt: skip
        yield Caveat(
            level, name,
            f"The {words} differs: {_all(here)} and {_all(there)}. {more}; that is not the config's doing.",
        )  # fmt: skip


def _interval(first: Arm, second: Arm) -> Iterator[Caveat]:
    if first.config is None or second.config is None:
        return
    for name in ("checkpoint_interval_steps", "checkpoint_interval_seconds"):
        here, there = first.config.setting(name), second.config.setting(name)
        if here.is_known and there.is_known and here.value != there.value:
            yield Caveat(
                CaveatLevel.FLAGGED, "interval",
                f"The checkpoint interval differs ({here.value} and {there.value} {here.knob.unit}): rework and "
                "checkpoint stalls follow it, whatever the way of recovering.",
            )  # fmt: skip


def _known_causes(arm: Arm) -> list[str]:
    return [each.cause for each in arm.faults if each.cause != "unknown"]


def _distance(first: Sequence[str], second: Sequence[str]) -> float:
    """How far two mixes are from each other, 0…1; 0 where a side has none that is known."""
    if not first or not second:
        return 0.0
    here, there = Counter(first), Counter(second)
    return sum(abs(here[cause] / len(first) - there[cause] / len(second)) for cause in here | there) / 2


def _mix(arm: Arm) -> str:
    counted = Counter(each.cause for each in arm.faults).most_common(3)
    return ", ".join(f"{times} × {cause.replace('_', ' ')}" for cause, times in counted)


def _all(values: Sequence[int]) -> str:
    return " or ".join(number(value) for value in values[:4])
