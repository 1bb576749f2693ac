"""What would settle it: the evidence that a verdict still wants, without what was given already.

Rules
- A rule names everything that could settle its verdict, in the order in which to ask; here what was given is left out.
- Given is what a piece of evidence came from. A log that was given and held no telling line cannot be seen here.
- A kernel log counts as given where it is of the machine in question, or where either machine is not told.
- Dumps, exit codes and logs of some ranks are not those of all: then the others' are wanted.
- Where all was given the answer is None: nothing that could be asked for is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.flight_recorder.summary import SOURCE, STACK_SOURCE


class Kind(StrEnum):
    """What a piece of evidence is, as far as its being given can be seen."""

    KERNEL_LOG = "kernel log"
    SCHEDULER = "scheduler"
    LAUNCHER_LOG = "launcher's log"
    EXIT_CODES = "exit codes"
    DUMPS = "flight recorder dumps"
    STACKS = "stacks"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A piece of evidence that would settle a verdict."""

    words: str
    """As it stands in a sentence: `the kernel log of the node`."""
    kind: Kind = Kind.OTHER
    of_the_others: str | None = None
    """What is wanted where it was given of some ranks; None where that is enough."""


KINDS = {
    "kernel": Kind.KERNEL_LOG, "dmesg": Kind.KERNEL_LOG, "journal": Kind.KERNEL_LOG, "dcgm": Kind.KERNEL_LOG,
    "slurm": Kind.SCHEDULER, "kubernetes": Kind.SCHEDULER, "torchrun": Kind.LAUNCHER_LOG, "nvrx": Kind.LAUNCHER_LOG,
    SOURCE: Kind.DUMPS, STACK_SOURCE: Kind.STACKS,
}  # fmt: skip
"""Source of evidence → what was given."""


def given(
    evidence: Sequence[TimedEvidence], node: str | None, *, has_exits: bool, has_scheduler: bool
) -> frozenset[Kind]:
    """What was given; `node` is the machine that the verdict is about, where it is known."""
    found = set()
    for item in evidence:
        kind = KINDS.get(item.evidence.source)
        told = item.evidence.node
        if kind is Kind.KERNEL_LOG and node and told and told != node:
            continue
        if kind is not None:
            found.add(kind)
    if has_exits:
        found.add(Kind.EXIT_CODES)
    if has_scheduler:
        found.add(Kind.SCHEDULER)
    return frozenset(found)


def still_wanted(wanted: Sequence[Wanted], had: frozenset[Kind]) -> str | None:
    """The sentence that names what would settle it; None where nothing is left to ask for."""
    words = []
    for each in wanted:
        if each.kind is Kind.OTHER or each.kind not in had:
            words.append(each.words)
        elif each.of_the_others is not None:
            words.append(each.of_the_others)
    if not words:
        return None
    said = words[0] if len(words) == 1 else f"{', '.join(words[:-1])}{',' if len(words) > 2 else ''} or {words[-1]}"
    return f"{said[0].upper()}{said[1:]}."
