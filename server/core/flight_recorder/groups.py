"""Groups over all ranks: who is a member, how far each member got, and who waits for whom.

Rules
- Names of process groups are the same on every rank. Members are those that any dump or side-car tells; where none
  does, those ranks that mention the group, and of the default group all ranks up to the highest one known. Such members
  are inferred, and said to be.
- How far a member got is the sequence number it enqueued last. A member whose ring has wrapped and no longer holds
  anything of the group is unknown there: it is neither behind nor ahead.
- A member waits in a group if something of it is pending there, in the oldest such operation; or if its very last call
  was there, nobody says that it completed, and another member is behind.
- Who is behind is told by the operation in which others wait, not by how far they ran ahead of their GPUs.
- A send waits for its receive and the other way round; both are looked for among what is pending.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rerail.server.core.flight_recorder.dump import COMPLETED, MOST_RANKS
from rerail.server.core.flight_recorder.ranks import unpacked
from rerail.server.core.flight_recorder.summary import Call, GroupSummary, RankSummary, title_of

DEFAULT_NAMES = ("default_pg",)
MOST_MEMBERSHIPS = 2_000_000
"""Of all groups together; beyond it members count as not told. Real ones: ranks × groups that each is in."""

MOST_DEFAULTS = 2
"""Default groups that are taken to hold every rank: a run has one, and a restart in process makes another."""

_P2P = re.compile(r"^(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})$")


@dataclass(slots=True)
class Group:
    """One process group, with what each rank that was seen tells of it."""

    name: str
    description: str
    members: tuple[int, ...]
    is_inferred: bool
    told: dict[int, GroupSummary] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    """Last sequence number enqueued, of members of which it is known."""
    waiting: dict[int, Call] = field(default_factory=dict)
    """Members that wait here, and in what."""

    @property
    def title(self) -> str:
        """What people call it."""
        return title_of(self.name, self.description, "group ")

    @property
    def highest(self) -> int:
        """How far the first member got."""
        return max(self.levels.values(), default=0)

    @property
    def lowest(self) -> int:
        """How far the last member of which it is known got."""
        return min(self.levels.values(), default=0)

    @property
    def awaited(self) -> int:
        """Number of the collective in which its members wait; 0 where none waits in one.

        What was enqueued beyond it says nothing: a program runs ahead of its GPU, on one rank farther than on another.
        """
        return max((call.sequence for call in self.waiting.values() if not call.is_p2p), default=0)

    def behind(self) -> list[int]:
        """Members that did not join the collective in which others wait."""
        awaited = self.awaited
        return sorted(rank for rank, level in self.levels.items() if level < awaited)

    def call_at(self, sequence: int) -> Call | None:
        """An operation by its number, as the first rank that recorded it tells it."""
        for rank in sorted(self.told):
            for call in self.told[rank].calls:
                if call.sequence == sequence and not call.is_p2p:
                    return call
        return None


@dataclass(frozen=True, slots=True)
class Transfer:
    """A pending point-to-point operation whose other side did not come."""

    group: str
    rank: int
    peer: int
    call: Call


@dataclass(slots=True)
class Picture:
    """Everything the summaries say together."""

    seen: dict[int, RankSummary]
    world: int
    groups: list[Group]
    transfers: list[Transfer]
    blocked: set[int]
    """Ranks that wait somewhere, for somebody or for an operation to end."""
    behind: set[int]
    """Ranks for which somebody waits, or that did not join what others joined."""
    is_world_told: bool = True
    """Some dump or side-car tells how many ranks there are, or who belongs to the group of all."""


def picture(dumps: Sequence[RankSummary], side_cars: Sequence[RankSummary], world_size: int | None = None) -> Picture:
    """The groups of these ranks. `dumps` has each rank once; `world_size` is what others tell, None where none does."""
    seen = {told.rank: told for told in dumps if told.is_recorded}
    named = _told_members([*dumps, *side_cars])
    members = _unpacked_members(named)
    world = min(MOST_RANKS, max(_world(dumps, side_cars, members), world_size or 0))
    groups = _groups(seen, named, members, world)
    transfers: list[Transfer] = []
    for group in groups:
        _find_levels(group, seen)
        _find_waiting(group, seen)
        transfers += _lonely_transfers(group)
    blocked = {rank for group in groups for rank in group.waiting}
    behind = {rank for group in groups for rank in group.behind()} | {lone.peer for lone in transfers}
    is_told = (
        bool(world_size)
        or any(told.world_size for told in side_cars)
        or any(not group.is_inferred and _is_default(group.name, group.description) for group in groups)
    )
    return Picture(seen, world, groups, transfers, blocked, behind & set(seen), is_told)


def _unpacked_members(named: dict[str, dict[str, str]]) -> dict[str, tuple[int, ...]]:
    """The members behind each text, as far as the limit goes."""
    found: dict[str, tuple[int, ...]] = {}
    left = MOST_MEMBERSHIPS
    for text in sorted({text for texts in named.values() for text in texts}):
        try:
            found[text] = unpacked(text, min(MOST_RANKS, left))
        except ValueError:
            found[text] = ()
        left -= len(found[text])
    return found


def _told_members(told: Sequence[RankSummary]) -> dict[str, dict[str, str]]:
    """Of each group its members in short, and with them its description."""
    named: dict[str, dict[str, str]] = {}
    for summary in told:
        for group in summary.groups:
            if group.members:
                known = named.setdefault(group.name, {})
                if not known.get(group.members):
                    known[group.members] = group.description
    return named


def _is_default(name: str, description: str) -> bool:
    return description in DEFAULT_NAMES or (name == "0" and not description)


def _world(dumps: Sequence[RankSummary], side_cars: Sequence[RankSummary], members: dict[str, tuple[int, ...]]) -> int:
    """How many ranks there are, as far as anything tells."""
    highest = max((told.rank + 1 for told in (*dumps, *side_cars)), default=0)
    stated = max((told.world_size or 0 for told in (*dumps, *side_cars)), default=0)
    told = max((max(ranks, default=-1) + 1 for ranks in members.values()), default=0)
    return min(MOST_RANKS, max(highest, stated, told))


def _groups(
    seen: dict[int, RankSummary],
    named: dict[str, dict[str, str]],
    unpacked_members: dict[str, tuple[int, ...]],
    world: int,
) -> list[Group]:
    found: dict[tuple[str, str | None], Group] = {}
    for rank in sorted(seen):
        for told in seen[rank].groups:
            texts = named.get(told.name, {})
            text = told.members or (next(iter(texts)) if len(texts) == 1 else None)
            group = found.get((told.name, text))
            if group is None:
                description = told.description or texts.get(text or "", "")
                members = unpacked_members.get(text or "", ())
                group = found[told.name, text] = Group(told.name, description, members, is_inferred=not members)
            group.told[rank] = told
            group.description = group.description or told.description
    defaults = 0
    for group in found.values():
        if group.is_inferred:
            is_all = _is_default(group.name, group.description) and defaults < MOST_DEFAULTS
            defaults += is_all
            group.members = tuple(range(world)) if is_all else tuple(sorted(group.told))
    return list(found.values())


def _find_levels(group: Group, seen: dict[int, RankSummary]) -> None:
    for rank in seen.keys() & set(group.members):
        summary, told = seen[rank], group.told.get(rank)
        if told is not None and told.enqueued is not None:
            group.levels[rank] = told.enqueued
        elif not summary.first_record and not summary.left_out:
            group.levels[rank] = 0


def _find_waiting(group: Group, seen: dict[int, RankSummary]) -> None:
    lowest = group.lowest
    for rank, told in group.told.items():
        pending = [call for call in told.calls if call.is_pending]
        if pending:
            # The oldest one: those after it were only enqueued.
            group.waiting[rank] = next((call for call in pending if not call.is_p2p), pending[0])
            continue
        last = told.calls[-1] if told.calls else None
        is_last = last is not None and seen[rank].last_group == group.name
        if is_last and last is not None and last.state != COMPLETED and not last.is_p2p and last.sequence > lowest:
            group.waiting[rank] = last


def _lonely_transfers(group: Group) -> list[Transfer]:
    """Pending sends without a pending receive, and the other way round, where both sides were seen."""
    pending: dict[tuple[str, int, int], Call] = {}
    for rank, told in group.told.items():
        for call in told.calls:
            if call.is_pending and call.is_p2p and (found := _P2P.match(call.operation)):
                kind, own, other = found.group(1), int(found.group(2)), int(found.group(3))
                if own < len(group.members) and other < len(group.members) and group.members[own] == rank:
                    pending.setdefault((kind, rank, group.members[other]), call)
    return [
        Transfer(group.title, rank, peer, call)
        for (kind, rank, peer), call in sorted(pending.items())
        if peer in group.told and ("recv" if kind == "send" else "send", peer, rank) not in pending
    ]
