"""Slurm nodes: what is stated of a node that a run cannot use, once each, and of its return.

Rules
- An absence is known by the second it began with: read again, in any form, it is the same.
- Accounting and the controller may stamp one event with different seconds.
- A node that is drained at work is shown at once, and its event begins only when its last job let go of it. Of one that
  only the controller told of, that it is shown at work again is its return.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from rerail.collectors.masking import masked
from rerail.collectors.sources.slurm_records import NodeEvent
from rerail.collectors.sources.slurm_words import SECOND
from rerail.server.core.facts import Evidence, Fact, NodeCondition, NodeState

SLOTS = 64
"""Statements that one second of a job, or of a node, has numbers for."""
AWAY, BACK, IS_SHOWN = 0, 2, 3
SAME_EVENT_SECONDS = 5
_DOWN = re.compile(r"DOWN|\bFAIL(?:ED|ING)?\b|ERROR|POWERED_DOWN|BOOT_FAIL")
_DRAINED = re.compile(r"DRAIN")
_AWAY = re.compile(r"NOT_RESPONDING|\*|MAINT|REBOOT|POWER|INVAL|UNKNOWN|FUTURE|BLOCKED")


def condition_of(state: str) -> NodeCondition:
    """What a node's state means for who runs on it."""
    words = state.upper()
    if _DOWN.search(words):
        return NodeCondition.LOST
    if _DRAINED.search(words):
        return NodeCondition.DRAINED
    return NodeCondition.NOT_READY if _AWAY.search(words) else NodeCondition.READY


def node_words(event: NodeEvent) -> str:
    """A node's state in Slurm's words."""
    by = f" [{event.by}]" if event.by else ""
    return f"NodeName={event.node} State={event.state} Reason={event.reason or 'none'}{by}"


class NodeFacts:
    """States facts of nodes. `memory` maps run, node and second to what was told, and is changed in place."""

    def __init__(self, memory: dict[str, list[int]]) -> None:
        self.memory = memory
        self.facts: list[Fact] = []

    def tell(self, event: NodeEvent, condition: NodeCondition, run: str, job: str | None) -> None:
        assert event.start is not None
        second = self._told_of(run, event)
        told = self.memory.setdefault(f"{run}\n{event.node}\n{second}", [])
        emitter = f"slurm/node/{event.node}"[:200]
        seq = second * SLOTS
        reason = event.reason
        if event.is_shown and IS_SHOWN not in told:
            told.append(IS_SHOWN)
        if AWAY not in told:
            told.append(AWAY)
            self.facts.append(
                NodeState(run=run, emitter=emitter, seq=seq, at=event.start, job=job, node=event.node, state=condition,
                          reason=None if reason is None else masked(reason))
            )  # fmt: skip
            self.facts.append(
                Evidence(
                    run=run,
                    emitter=emitter,
                    seq=seq + 1,
                    at=event.start,
                    job=job,
                    node=event.node,
                    source="slurm",
                    code="node",
                    text=masked(node_words(event)),
                )
            )
        if event.end is not None and BACK not in told:
            told.append(BACK)
            self.facts.append(
                NodeState(
                    run=run, emitter=emitter, seq=seq + BACK, at=event.end, node=event.node, state=NodeCondition.READY
                )
            )

    def _told_of(self, run: str, event: NodeEvent) -> int:
        """The second under which this absence of the node was told already, else the event's own.

        A node that is drained at work is shown at once, and its event begins only when its last job let go of it.
        """
        assert event.start is not None
        own = event.start // SECOND
        prefix = f"{run}\n{event.node}\n"
        near = (own + off for distance in range(SAME_EVENT_SECONDS + 1) for off in {-distance, distance})
        known = next((second for second in near if f"{prefix}{second}" in self.memory), None)
        if known is not None or event.is_shown:
            return own if known is None else known
        shown = (
            int(key[len(prefix) :])
            for key, told in self.memory.items()
            if IS_SHOWN in told and BACK not in told and key.startswith(prefix)
        )
        return max((second for second in shown if second < own), default=own)

    def came_back(self, nodes: Collection[str], as_of: int) -> None:
        """Nodes that are shown at work again, of which only the controller told that they were away."""
        for key, told in self.memory.items():
            run, node, second = key.rsplit("\n", 2)
            if IS_SHOWN in told and BACK not in told and node in nodes:
                told.append(BACK)
                self.facts.append(
                    NodeState(
                        run=run, emitter=f"slurm/node/{node}"[:200], seq=int(second) * SLOTS + BACK, at=as_of,
                        node=node, state=NodeCondition.READY,
                    )
                )  # fmt: skip

    def forget(self, most: int) -> None:
        """Let go of the oldest absences, where more than `most` are remembered."""
        for key in list(self.memory)[: max(0, len(self.memory) - most)]:
            del self.memory[key]
