"""Places: which rank a process of an attempt is, and on which machine.

Rules
- A rank is what a line calls it, else worked out of the local rank and the place of its node in the group, where that
  is known; a log of several nodes tells only of the processes whose launcher said its place.
- A machine is what a launcher or a scheduler named for the rank. Else it is where the log is read, of a job that is on
  one machine or where a person said so; of a job of several, none.
- What the log tells later counts for what was stated before, as long as nobody has taken that away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE, AttemptState
from rerail.server.core.facts import AttemptEnded, Evidence, Exit, Fact

MOST_PLACED = 20_000
"""Ranks whose machine is remembered."""


class Places:
    """Knows the ranks and the machines that one log tells."""

    def __init__(self, state: AttemptState, node: str | None, *, node_is_told: bool) -> None:
        """`node`: where the log is read, or what a person said (`node_is_told`)."""
        self._state = state
        self._node = node
        self._node_is_told = node_is_told
        self.taken_for_here: set[int] = set()
        """Facts that carry the node for want of another."""
        self.rankless: dict[tuple[int, int], str] = {}
        """The first byte of a line that told of an end, with its local rank → the process, where no rank was known."""
        self.late_ranks: dict[str, int] = {}
        """Process → the rank that was told of it behind its end."""

    def place_node(self, name: str, group_rank: int) -> None:
        """A launcher's node, named `<address>_<process id>_<count>`, has a place in the group."""
        self._state.group_rank = group_rank
        parts = name.rsplit("_", 2)
        if len(parts) == 3 and len(self._state.group_ranks) < 10_000:
            self._state.group_ranks[parts[1]] = group_rank

    def rank_of(self, local_rank: int, launcher: int | None = None) -> int | None:
        """The global rank of a local one, where the place of its node is known; `launcher`: the process that spoke."""
        state = self._state
        group = state.group_ranks.get(str(launcher), state.group_rank)
        if len(set(state.group_ranks.values())) > 1 and str(launcher) not in state.group_ranks:
            return None
        if group and state.ranks_per_node:
            return group * state.ranks_per_node + local_rank
        if group == 0 or state.node_count == 1:
            return local_rank
        return local_rank + state.rank_offsets[0] if len(state.rank_offsets) == 1 else None

    def place_rank(self, rank: int, node: str) -> None:
        """A launcher or a scheduler says on which machine a rank of the current attempt is."""
        nodes, key = self._state.rank_nodes, f"{self._state.attempt}/{rank}"
        if key in nodes or len(nodes) < MOST_PLACED:
            nodes[key] = node if nodes.get(key, node) == node else ""
        self.names_host(node)

    def names_host(self, node: str) -> None:
        """The log names a machine."""
        short = (self._node or "").partition(".")[0]
        self._state.has_other_hosts |= node.partition(".")[0] != short

    def pair(self, rank: int, local_rank: int) -> None:
        """A launcher told both ranks of one of its workers: all of its node lie as far apart."""
        offsets = self._state.rank_offsets
        if rank - local_rank not in offsets and len(offsets) < 4:
            offsets.append(rank - local_rank)

    def process(self, host: str | None, process: str, local_rank: int | None, most: int) -> int | None:
        """The local rank of a process of a machine: as told, now or before, else the next in order."""
        machines = self._state.local_ranks
        known = machines.setdefault(host or "", {}) if len(machines) < most else {}
        if process not in known and len(known) < most:
            known[process] = len(known) if local_rank is None else local_rank
        return known.get(process)

    def with_nodes(self, facts: Sequence[Fact]) -> list[Fact]:
        """Facts, ends of ranks with the machine that the log names for it; where the node is only where the log is
        read, and the job is of several machines, without it."""
        return [self._with_node(fact) for fact in facts]

    def _with_node(self, fact: Fact) -> Fact:
        if not isinstance(fact, (Evidence, Exit)):
            return fact
        is_guessed = fact.seq in self.taken_for_here and not self._node_is_told
        if isinstance(fact, Exit) and (fact.node is None or is_guessed):  # what else it said may be about another
            named = self._state.rank_nodes.get(f"{fact.restart}/{fact.rank}") if fact.rank is not None else None
            if named:
                return replace(fact, node=named)
        return replace(fact, node=None) if is_guessed and self._is_of_many_nodes() else fact

    def _is_of_many_nodes(self) -> bool:
        state = self._state
        told = state.config.get("max_nodes", state.config.get("nnodes"))
        is_range = isinstance(told, str) and told.partition(":")[2] not in ("", "1")
        return is_range or (state.node_count or 1) > 1 or state.has_other_hosts or len(state.group_ranks) > 1

    def with_ranks(self, facts: Sequence[Fact]) -> list[Fact]:
        """Facts, as `with_nodes`, with global ranks also where the log told only later how to work them out."""
        return self.with_nodes([self._with_rank(fact, facts) for fact in facts])

    def _with_rank(self, fact: Fact, facts: Sequence[Fact]) -> Fact:
        if isinstance(fact, (Evidence, Exit)) and fact.rank is None and fact.local_rank is not None:
            rank = self.rank_of(fact.local_rank)
            if rank is None:
                process = self.rankless.get((fact.seq // FACTS_PER_BYTE, fact.local_rank), "")
                rank = self.late_ranks.get(process)
            return fact if rank is None else replace(fact, rank=rank)
        if isinstance(fact, AttemptEnded) and not fact.exit_codes:
            codes = {
                each.rank: each.exit_code
                for each in (self._with_rank(one, facts) for one in facts if isinstance(one, Exit))
                if isinstance(each, Exit) and each.rank is not None and each.restart == fact.restart
            }
            return replace(fact, exit_codes=tuple(sorted(codes.items())))
        return fact
