"""Machine words: what was told of the machines of a run of which nobody told an attempt.

Rules
- Where attempts are known the same facts are in fault traces; without one there is nothing that they could explain, and
  they would be seen nowhere.
- What is most serious is said first: in the order in which a verdict weighs such lines, among those of one weight the
  one that asks for most (a lost GPU before a failed remapping before an error of memory), of equal ones the newest.
- Of very much the newest is kept. What dumps of the flight recorder tell is a verdict of its own (`dumps_alone.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.cause_rules import Case, Weight
from rerail.server.core.causes import judged_signs
from rerail.server.core.causes.gpu_hardware import FARTHEST
from rerail.server.core.facts import Evidence
from rerail.server.core.node_histories import NodeChange
from rerail.server.core.view import MachineWord

MOST_WORDS = 100
LONGEST_WORD = 500
NO_MACHINE = frozenset({"flight_recorder"})


def machine_words(
    evidence: Iterable[TimedEvidence], changes: Sequence[tuple[str, NodeChange]]
) -> tuple[MachineWord, ...]:
    """What the evidence tells of nodes, and how their conditions changed, oldest first."""
    found = {
        MachineWord(each.at, each.evidence.node, each.evidence.source, each.evidence.text[:LONGEST_WORD],
                    each.evidence.code)
        for each in evidence
        if each.evidence.node and each.evidence.source not in NO_MACHINE
    }  # fmt: skip
    found |= {
        MachineWord(change.at, node, "", (change.reason or "")[:LONGEST_WORD], change.state) for node, change in changes
    }
    ordered = sorted(found, key=lambda word: (word.at, word.node, word.code or "", word.source, word.text))
    return tuple(ordered[-MOST_WORDS:])


CONDITIONS = {"lost": (Weight.ESTABLISHED, 0.9), "drained": (Weight.LINE, 0.5), "not_ready": (Weight.LINE, 0.5)}
"""What the condition of a node weighs beside what was said of one; another condition is no bad news."""


def most_serious(words: Sequence[MachineWord]) -> MachineWord:
    """The one that matters most; the newest where none is bad news. There must be one."""
    return max(enumerate(words), key=lambda each: (_gravity(each[1]), each[0]))[1]


def _gravity(word: MachineWord) -> tuple[int, float, int]:
    """`(weight, confidence, how far NVIDIA's action goes)`; below 0 where nothing is wrong with the machine."""
    if not word.source:
        weight, confidence = CONDITIONS.get(word.code or "", (-1, 0.0))
        return int(weight), confidence, 0
    told = Evidence(
        run="-", emitter="-", seq=0, at=word.at, source=word.source, text=word.text, node=word.node, code=word.code
    )
    case = Case([TimedEvidence(word.at, told)], [], (), None, None, (), [], [], None, False, None)
    return max(
        (
            (int(sign.reading.weight), sign.reading.confidence, FARTHEST.get(sign.reading.advice or "", 0))
            for sign in judged_signs(case)
            if sign.accuses
        ),
        default=(0, 0.0, 0),
    )
