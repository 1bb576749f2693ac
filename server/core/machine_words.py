"""Machine words: what was told of the machines of a run of which nobody told an attempt.

Rules
- Where attempts are known the same facts are in fault traces; without one there is nothing that they could explain, and
  they would be seen nowhere.
- Of very much the newest is kept. What dumps of the flight recorder tell is a verdict of its own (`dumps_alone.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.server.core.attempt_record import TimedEvidence
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
