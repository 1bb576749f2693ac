"""Dump sets: which dumps are of one hang, where the dumps of several were given together.

A set has one process of each rank. Two dumps of one rank are of the same process where an operation that both recorded
was called at the same instant; then the later one tells more. Processes of different ranks belong together where they
called the same operation of the same group about the same time.

Rules
- Dumps of which it is told that they are of different attempts (the folder that each lay in) are of different hangs.
- As long as no rank has two processes, no group has two lists of members, and no operation was called by its ranks more
  than an hour apart, all dumps are one set: a rank whose last operation is old may be the one that hangs, but one that
  made the same calls an hour before is a dump that was left behind.
- Else the processes of the rank that has the most of them are the beginnings of the sets, and each other process joins
  the set whose operations are nearest in time, unless that has a process of this rank or other members of a group.
- Side-cars have no operations: they go with the dump of their rank whose groups they name.
- The order of the sets is that of their attempts, where all are told, and of their last operations. Nothing is thrown
  away: every dump is in one set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.summary import SUMMARY, RankSummary, summary_of

ATTEMPT = "attempt"
"""The attribute of a dump that tells the attempt it is of."""
APART_NS = 3_600_000_000_000
"""Operations that lie farther apart are hardly of one hang."""
MOST_SETS = 64
MOST_PROCESSES = 20_000


@dataclass(slots=True)
class _Process:
    """The dumps of one process, at one moment or several."""

    rank: int
    attempt: str | None = None
    """Which attempt it is told to be of; None where nothing tells."""
    told: list[RankSummary] = field(default_factory=list)
    facts: list[Evidence] = field(default_factory=list)
    calls: dict[int, int] = field(default_factory=dict)
    """Record → when the operation was called."""
    operations: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Group, its description and the operation's number → when it was called."""
    members: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    last_at: int = 0

    def add(self, fact: Evidence, told: RankSummary) -> None:
        """One more dump of it."""
        self.facts.append(fact)
        self.told.append(told)
        self.last_at = max(self.last_at, told.last_at or 0)
        for group in told.groups:
            if group.members is not None:
                self.members.setdefault(group.name, group.members)
            if group.description:
                self.descriptions.setdefault(group.name, group.description)
            for call in group.calls:
                if call.created_at is not None:
                    self.calls[call.record] = call.created_at
                    if not call.is_p2p:
                        self.operations[group.name, group.description, call.sequence] = call.created_at

    def is_of(self, told: RankSummary, attempt: str | None) -> bool:
        """Whether a dump of the same rank is of this process."""
        if _differ(attempt, self.attempt):
            return False
        calls = {
            call.record: call.created_at for group in told.groups for call in group.calls if call.created_at is not None
        }
        shared = calls.keys() & self.calls.keys()
        if shared:
            return any(calls[record] == self.calls[record] for record in shared)
        if not calls or not self.calls or told.last_at is None:
            return True
        described = {group.name: group.description for group in told.groups if group.description}
        if _contradict(described, self.descriptions):
            return False
        is_later = min(calls) > max(self.calls)
        return is_later == (told.last_at > self.last_at) and abs(told.last_at - self.last_at) < APART_NS


@dataclass(slots=True)
class _Set:
    """The processes of one hang, by rank."""

    processes: dict[int, _Process] = field(default_factory=dict)
    operations: dict[tuple[str, str, int], int] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    attempt: str | None = None
    last_at: int = 0

    def add(self, process: _Process) -> None:
        """One more rank."""
        self.attempt = self.attempt if process.attempt is None else process.attempt
        self.processes[process.rank] = process
        self.last_at = max(self.last_at, process.last_at)
        for key, at in process.operations.items():
            self.operations.setdefault(key, at)
        for name, members in process.members.items():
            self.members.setdefault(name, members)

    def distance(self, process: _Process) -> int | None:
        """How far apart in ns a process of another rank is; None where it is of another hang."""
        if process.rank in self.processes or _contradict(self.members, process.members):
            return None
        if _differ(process.attempt, self.attempt):
            return None
        shared = process.operations.keys() & self.operations.keys()
        if shared:
            apart = min(abs(process.operations[key] - self.operations[key]) for key in shared)
            return apart if apart < APART_NS else None
        apart = abs(process.last_at - self.last_at)
        return APART_NS + apart if apart < APART_NS else None


def attempt_of(fact: Evidence) -> str | None:
    """The attempt that a dump is told to be of: by whoever stated it, else by the folder that it lay in."""
    if fact.restart is not None:
        return str(fact.restart)
    told = dict(fact.attributes).get(ATTEMPT, "")
    return told if told.isascii() and told.isdigit() and len(told) < 10 else None


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _contradict(one: dict[str, str], other: dict[str, str]) -> bool:
    return any(one[name] != other[name] for name in one.keys() & other.keys())


def dump_sets(dumps: Sequence[Evidence]) -> tuple[tuple[Evidence, ...], ...]:
    """The dumps and side-cars among pieces of evidence, as sets of one hang each, in the order of time."""
    processes: dict[int, list[_Process]] = {}
    side_cars: list[tuple[Evidence, RankSummary]] = []
    others: list[Evidence] = []
    for fact in sorted(dumps, key=lambda each: (each.at, each.emitter, each.seq)):
        told = summary_of(dict(fact.attributes).get(SUMMARY, ""))
        if told is None:
            others.append(fact)
        elif told.is_side_car:
            side_cars.append((fact, told))
        else:
            of_rank = processes.setdefault(told.rank, [])
            attempt = attempt_of(fact)
            process = next((each for each in of_rank if each.is_of(told, attempt)), None)
            if process is None:
                process = _Process(told.rank, attempt)
                of_rank.append(process)
            process.add(fact, told)
    every = [each for of_rank in processes.values() for each in of_rank]
    if not _are_several(processes, every):
        return (tuple(dumps),) if dumps else ()
    gathered = _gathered(processes, every)
    are_told = all(each.attempt is not None for each in gathered)
    sets = sorted(
        gathered, key=lambda each: (int(each.attempt or 0) if are_told else 0, each.last_at, min(each.processes))
    )
    facts = [[fact for each in found.processes.values() for fact in each.facts] for found in sets]
    for fact, told in side_cars:
        facts[_owner(sets, fact, told)].append(fact)
    facts[-1] += others
    return tuple(tuple(found) for found in facts)


def _are_several(processes: dict[int, list[_Process]], every: list[_Process]) -> bool:
    if len(every) > MOST_PROCESSES:
        return False
    if any(len(of_rank) > 1 for of_rank in processes.values()):
        return True
    if len({each.attempt for each in every} - {None}) > 1:
        return True
    members: dict[str, str] = {}
    called: dict[tuple[str, str, int], tuple[int, int]] = {}
    for each in every:
        if _contradict(members, each.members):
            return True
        members.update(each.members)
        for key, at in each.operations.items():
            first, last = called.get(key, (at, at))
            called[key] = (min(first, at), max(last, at))
    return any(last - first >= APART_NS for first, last in called.values())


def _gathered(processes: dict[int, list[_Process]], every: list[_Process]) -> list[_Set]:
    first = max(sorted(processes), key=lambda rank: len(processes[rank]))
    sets: list[_Set] = []
    for process in processes[first][:MOST_SETS]:
        sets.append(_Set())
        sets[-1].add(process)
    # Who shares an operation with a set joins it before those that are merely near it in time.
    waiting = [each for each in sorted(every, key=lambda each: (each.last_at, each.rank)) if each.rank != first]
    waiting += processes[first][MOST_SETS:]
    for process in waiting:
        apart = [
            (distance, index) for index, each in enumerate(sets) if (distance := each.distance(process)) is not None
        ]
        if apart:
            sets[min(apart)[1]].add(process)
        elif len(sets) < MOST_SETS:
            sets.append(_Set())
            sets[-1].add(process)
        else:
            nearest = min(sets, key=lambda each: abs(each.last_at - process.last_at))
            held = nearest.processes.get(process.rank)
            nearest.add(process)
            if held is not None:
                process.facts += held.facts
    return sets


def _owner(sets: Sequence[_Set], fact: Evidence, told: RankSummary) -> int:
    """The set a side-car goes with: that of a dump of its rank with its groups, else the nearest in time."""
    named = {(group.name, group.description) for group in told.groups}

    def unlike(index: int) -> tuple[int, int, int]:
        process = sets[index].processes.get(told.rank)
        if _differ(attempt_of(fact), sets[index].attempt):
            return 2, 0, abs(sets[index].last_at - fact.at)
        if process is None:
            return 1, 0, abs(sets[index].last_at - fact.at)
        used = {(name, description) for name, description, _ in process.operations}
        return 0, len(used - named), abs(process.last_at - fact.at)

    return min(range(len(sets)), key=unlike)


def nearest_set(sets: Sequence[Sequence[Evidence]], near: int | None) -> int:
    """Which set is about an interruption at `near`; without an instant the one with the most ranks, then the latest."""
    if near is None:
        return max(range(len(sets)), key=lambda index: (len({fact.rank for fact in sets[index]}), index))
    return min(range(len(sets)), key=lambda index: min(abs(fact.at - near) for fact in sets[index]))
