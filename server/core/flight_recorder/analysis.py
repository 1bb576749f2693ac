"""Analysis: what the flight recorders of all ranks say together about one interruption.

Rules, the first that applies decides
1. Ranks called different things under one number of one group: a mismatch. The odd ones by majority are the culprits.
2. The culprit of a hang is the rank for which others wait, and which waits nowhere itself. A rank that is missing in
   one collective because it waits in another one is a victim.
3. Where every other member of a group went on to a later operation and one is still in that which they completed, it
   did not come to the later one.
4. Every member joined, but some so much later that others may have given up: they held the rest up. Where several
   groups have late ones, those of the group that waited first.
5. Every member joined an operation and it does not end: no rank is missing; a kernel or the network is left.
6. Those that were seen wait, and the ranks that left no dump are all that can be missing. They are named and not
   accused: a missing dump is a hint, not a proof.
7. Ranks wait for each other: operations in a different order.
8. Nothing is pending: the hang, if there was one, was not in a collective.

What it does not know: operations that were never recorded (gloo's sends), what happened before a ring wrapped, and
whether all dumps are of the same moment. Dumps of several hangs are told apart first (`dump_sets.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.conclusions import MOST_CULPRITS, Analysis, Conclusion, GroupRow, Place, Ranks
from rerail.server.core.flight_recorder.dump_sets import dump_sets, nearest_set
from rerail.server.core.flight_recorder.groups import Group, Picture, Transfer, picture
from rerail.server.core.flight_recorder.lagging import lagging
from rerail.server.core.flight_recorder.mismatch import Difference, Mismatch, mismatch_in
from rerail.server.core.flight_recorder.ranks import named, packed
from rerail.server.core.flight_recorder.summary import (
    DUMP_CODE,
    GROUPS_CODE,
    SOURCE,
    STACK_SOURCE,
    SUMMARY,
    RankSummary,
    summary_of,
    title_of,
)

LATE_NS = 5_000_000_000
"""Who joins so much later than the first held the others up; clocks of nodes differ by less."""

APART_NS = 3_600_000_000_000
"""Dumps whose last operations lie farther apart may be of different attempts."""

NO_STACKS = "No stacks were recorded: which line of the program called is not known."
MOST_ROWS = 200
LONGEST_RANKS = 200
MOST_PLACES = 16


def is_dump(fact: Evidence) -> bool:
    """Whether a piece of evidence is a flight recorder's."""
    return fact.source == SOURCE and fact.code in (DUMP_CODE, GROUPS_CODE)


def analysis(evidence: Iterable[Evidence], near: int | None = None, world_size: int | None = None) -> Analysis | None:
    """What the flight recorders among the evidence of one attempt say; None where there are none.

    Where they are of several hangs, that nearest to `near`, in ns, is judged; `unknown` says so. `world_size` is how
    many ranks the attempt had, None where nobody tells.
    """
    facts = list(evidence)
    told = tuple(sorted((fact for fact in facts if is_dump(fact)), key=lambda fact: (fact.emitter, fact.seq)))
    if not told:
        return None
    sets = _sets(told)
    found = _analysed(sets[nearest_set(sets, near)] if len(sets) > 1 else told, world_size)
    stood = sorted({fact.rank for fact in facts if fact.source == STACK_SOURCE and fact.rank is not None})
    if found is not None and stood and NO_STACKS in found.unknown:
        whose = "its" if len(stood) == 1 else "their"
        instead = f"The dumps hold no stacks; where {named(stood)} stood is told by {whose} own."
        found = replace(found, unknown=tuple(instead if words == NO_STACKS else words for words in found.unknown))
    return found if found is None or len(sets) < 2 else replace(found, unknown=(several(len(sets)), *found.unknown))


def dumps_near(evidence: Iterable[Evidence], near: int | None) -> tuple[tuple[Evidence, ...], int]:
    """The dumps that `analysis` judges, and of how many hangs dumps were given."""
    told = tuple(sorted((fact for fact in evidence if is_dump(fact)), key=lambda fact: (fact.emitter, fact.seq)))
    sets = _sets(told)
    return (sets[nearest_set(sets, near)], len(sets)) if sets else ((), 0)


def several(count: int) -> str:
    """What to say where dumps of several hangs were given."""
    return f"The dumps are of {count} hangs that can be told apart; this is the one nearest to the interruption."


@lru_cache(maxsize=4)
def _sets(told: tuple[Evidence, ...]) -> tuple[tuple[Evidence, ...], ...]:
    return dump_sets(told)


@lru_cache(maxsize=4)
def _analysed(told: tuple[Evidence, ...], world_size: int | None) -> Analysis | None:
    """Judging an attempt again asks the same again: the last few answers are kept."""
    latest: dict[int, tuple[tuple[int, int, str, int], RankSummary, str | None]] = {}
    side_cars: list[RankSummary] = []
    for fact in told:
        found = summary_of(dict(fact.attributes).get(SUMMARY, ""))
        if found is None:
            continue
        if found.is_side_car:
            side_cars.append(found)
            continue
        pending = sum(group.pending_count for group in found.groups)
        order = (found.last_at or 0, pending, fact.emitter, fact.seq)
        if found.rank not in latest or latest[found.rank][0] < order:
            latest[found.rank] = order, found, fact.node
    if not latest:
        return None
    nodes = {rank: node for rank, (_, _, node) in latest.items() if node}
    return analysed([found for _, found, _ in latest.values()], side_cars, nodes, world_size)


def analysed(
    dumps: Sequence[RankSummary], side_cars: Sequence[RankSummary] = (), nodes: dict[int, str] | None = None,
    world_size: int | None = None,
) -> Analysis:  # fmt: skip
    """What summaries say together. `dumps` has each rank once."""
    seen = picture(dumps, side_cars, world_size)
    return _Judgement(seen, dumps, nodes or {}).analysis()


@dataclass(slots=True)
class _Answer:
    conclusion: Conclusion
    sentence: str
    confidence: float
    culprits: tuple[int, ...] = ()
    operation: str | None = None


class _Judgement:
    """Goes through the rules, the first that applies decides."""

    def __init__(self, seen: Picture, dumps: Sequence[RankSummary], nodes: dict[int, str]) -> None:
        self._picture = seen
        self._nodes = nodes
        self._not_recorded = tuple(sorted(told.rank for told in dumps if not told.is_recorded))
        with_dump = {told.rank for told in dumps}
        self._not_seen = tuple(rank for rank in range(seen.world) if rank not in with_dump)
        self._unheard = frozenset((*self._not_seen, *self._not_recorded))
        self._mismatches: dict[int, Mismatch] = {}
        for index, group in enumerate(seen.groups):
            if (found := mismatch_in(group)) is not None:
                self._mismatches[index] = found

    def analysis(self) -> Analysis:
        if not self._picture.seen:
            answer = _Answer(
                Conclusion.NOT_RECORDED,
                f"The flight recorder of {named(self._not_recorded)} was disabled: its dumps say nothing.",
                0.0,
            )
        else:
            answer = (
                self._mismatch()
                or self._missing()
                or self._lagging()
                or self._late()
                or self._all_joined()
                or self._only_unseen()
                or self._deadlock()
                or _Answer(
                    Conclusion.NOTHING_PENDING,
                    f"No operation is pending on {self._seen_words()}: what held the run up was not a collective.",
                    0.3,
                )
            )
        place = self._place(answer.culprits[0]) if answer.culprits else None
        return Analysis(
            conclusion=answer.conclusion,
            sentence=answer.sentence,
            confidence=answer.confidence,
            culprits=answer.culprits[:MOST_CULPRITS],
            culprit_count=len(answer.culprits),
            culprit_node=self._nodes.get(answer.culprits[0]) if len(answer.culprits) == 1 else None,
            operation=answer.operation,
            frame=_without_line(place.frame) if place is not None and place.frame else None,
            groups=tuple(self._rows())[:MOST_ROWS],
            ranks_seen=len(self._picture.seen),
            world_size=self._picture.world,
            not_seen=_ranks(self._not_seen),
            not_recorded=_ranks(self._not_recorded),
            unknown=tuple(self._unknown(answer.conclusion)),
        )

    def _seen_words(self) -> str:
        seen, world = len(self._picture.seen), self._picture.world
        return f"all {world} ranks" if seen == world else f"the {seen} of {world} ranks that were seen"

    # --- the rules ---

    def _mismatch(self) -> _Answer | None:
        if not self._mismatches:
            return None
        index = min(
            self._mismatches, key=lambda each: (self._mismatches[each].at, self._mismatches[each].sequence, each)
        )
        found, group = self._mismatches[index], self._picture.groups[index]
        where = f"operation #{found.sequence} of {group.title}"
        if found.odd_ranks:
            (majority, most), odd = found.variants[0], found.variants[1][0]
            named_odd, named_most = _upper(named(found.odd_ranks)), named(most)
            call, called = _verb(found.odd_ranks), _verb(most)
            others = " or another" if len(found.variants) > 2 else ""
            if found.difference is Difference.OPERATION:
                words = f"{named_odd} {call} {odd}{others} where {named_most} {called} {majority}"
            else:
                words = (
                    f"{named_odd} {call} {found.call.operation} with {odd}{others} where {named_most} {called} it with"
                )
                words += f" {majority}"
            return _Answer(Conclusion.MISMATCH, f"{words} ({where}).", 0.95, found.odd_ranks, found.call.operation)
        sides = "; ".join(f"{named(ranks)}: {value}" for value, ranks in found.variants[:4])
        return _Answer(
            Conclusion.MISMATCH,
            f"The ranks differ in {where} and neither side is a majority: {sides}.",
            0.85,
            (),
            found.call.operation,
        )

    def _missing(self) -> _Answer | None:
        seen = self._picture
        culprits = tuple(sorted(seen.behind - seen.blocked))
        if not culprits:
            return None
        blamed = set(culprits)
        joined = [group for group in seen.groups if group.waiting and blamed & set(group.behind())]
        transfers = [lone for lone in seen.transfers if lone.peer in blamed]
        if not joined and not transfers:
            return None
        is_one = len(culprits) == 1
        if joined:
            group = min(joined, key=lambda each: (_since(each), len(each.members), each.name))
            missing = sorted(blamed & set(group.behind()))
            sequence = min(group.levels[rank] for rank in missing) + 1
            call = group.call_at(sequence)
            operation = call.operation if call else None
            told = f"{operation or 'operation'} #{sequence} of {group.title}"
            waits = sorted(group.waiting)
            words = f"{_upper(named(culprits))} did not join {told}, where {named(waits)} "
            words += "waits" if len(waits) == 1 else "wait"
            is_sure = not group.is_inferred
        else:
            lone = min(transfers, key=lambda each: (each.call.created_at or 0, each.rank))
            operation, is_sure = lone.call.operation.split(" ", 1)[0], True
            words = f"{_upper(named(culprits))} did not answer {_transfer_words(lone)}"
        words += "; it waits nowhere itself." if is_one else "; they wait nowhere themselves."
        place = self._place(culprits[0])
        if is_one and place is not None:
            words += f" It was last in {place.text}."
        victims = sorted((seen.behind & seen.blocked) - blamed)
        if victims:
            words += (
                f" {_upper(named(victims))} {'is' if len(victims) == 1 else 'are'} missing elsewhere only by waiting."
            )
        confidence = 0.96 if is_sure else 0.92
        if self._unheard:
            confidence -= 0.04
        return _Answer(Conclusion.MISSING, words, confidence, culprits, operation)

    def _lagging(self) -> _Answer | None:
        found = lagging(self._picture)
        if found is None:
            return None
        group, lag = found
        held_in, awaited = group.waiting[lag[0]], group.call_at(group.awaited)
        operation = awaited.operation if awaited is not None else held_in.operation
        waits_in = sorted(rank for rank, call in group.waiting.items() if call.sequence == group.awaited)
        words = f"{_upper(named(lag))} did not come to {operation} #{group.awaited} of {group.title}, where "
        words += f"{named(waits_in)} {'waits' if len(waits_in) == 1 else 'wait'}: "
        words += f"{'it is' if len(lag) == 1 else 'they are'} still in {held_in.operation} #{held_in.sequence}, "
        words += "which all others have left."
        confidence = (0.8 if group.is_inferred else 0.85) - (0.05 if self._unheard else 0.0)
        return _Answer(Conclusion.LAGGING, words, round(confidence, 2), tuple(lag), operation)

    def _late(self) -> _Answer | None:
        found: tuple[int, int, Group, list[int], int] | None = None
        for index, group in enumerate(self._picture.groups):
            sequence = group.awaited or group.highest
            calls = {
                rank: call
                for rank, told in group.told.items()
                for call in told.calls
                if call.sequence == sequence and not call.is_p2p and call.created_at is not None
            }
            if group.behind() or len(calls) < 2 or all(call.state == "completed" for call in calls.values()):
                continue
            moments = {rank: call.created_at or 0 for rank, call in calls.items()}
            first, last = min(moments.values()), max(moments.values())
            if last - first < LATE_NS or (found is not None and (found[0], found[1]) <= (first, index)):
                continue
            late = sorted(rank for rank, at in moments.items() if at - first > (last - first) // 2)
            found = first, index, group, late, last - first
        if found is None:
            return None
        _, _, group, late, spread = found
        sequence = group.awaited or group.highest
        call = group.call_at(sequence)
        operation = call.operation if call is not None else "operation"
        return _Answer(
            Conclusion.LATE,
            f"{_upper(named(late))} joined {operation} #{sequence} of {group.title} {spread / 1e9:.1f} s after "
            "the first, while the others waited. The dumps were made after that: now everybody has joined.",
            0.8,
            tuple(late),
            operation,
        )

    def _all_joined(self) -> _Answer | None:
        stuck = [
            group
            for group in self._picture.groups
            if group.waiting
            and not group.behind()
            and not self._may_lack(group)
            and any(call.is_pending and not call.is_p2p for call in group.waiting.values())
        ]
        if not stuck:
            return None
        group = min(stuck, key=lambda each: (_since(each), -len(each.members), each.name))
        call = min(group.waiting.values(), key=lambda each: (each.sequence, each.record))
        words = f"All {len(group.members)} ranks of {group.title} joined {call.operation} #{call.sequence} and it "
        words += "does not end: no rank is missing. A kernel or the network is left."
        late = sorted(rank for rank, each in group.waiting.items() if each.state == "scheduled")
        if late and len(late) * 2 < len(group.waiting) and any(e.state == "started" for e in group.waiting.values()):
            words += f" On {named(late)} its kernel never started: what ran there before it holds the GPU."
        return _Answer(Conclusion.ALL_JOINED, words, 0.7 if group.is_inferred else 0.85, (), call.operation)

    def _only_unseen(self) -> _Answer | None:
        waiting = [group for group in self._picture.groups if group.waiting and self._may_lack(group)]
        if not waiting:
            return None
        group = min(waiting, key=lambda each: (_since(each), len(each.members), each.name))
        silent = sorted(self._unheard if group.is_inferred else self._unheard & set(group.members))
        call = min(group.waiting.values(), key=lambda each: (each.sequence, each.record))
        waits = sorted(group.waiting)
        words = (
            f"{_upper(named(waits))} {'waits' if len(waits) == 1 else 'wait'} in {call.operation} #{call.sequence} of "
        )
        words += group.title
        if not silent:
            words += "; who else belongs to it is not told by the dumps that were seen."
        else:
            whose = "its members are not told, and" if group.is_inferred else "of its members"
            words += (
                f"; {whose} {named(silent)} left no dump. Whether it joined is not known, and that it left none is a "
            )
            words += "hint: look there first."
        return _Answer(Conclusion.NOT_SEEN, words, 0.6 if silent else 0.3, (), call.operation)

    def _may_lack(self, group: Group) -> bool:
        """Whether a member of a group may be missing without having been seen."""
        if group.is_inferred:
            return bool(self._unheard) or len(group.members) < 2
        return bool(self._unheard & set(group.members))

    def _deadlock(self) -> _Answer | None:
        seen = self._picture
        if not seen.behind:
            return None
        parts = [
            f"{named(sorted(group.waiting))} in {next(iter(group.waiting.values())).operation} of {group.title}"
            for group in seen.groups
            if group.waiting and group.behind()
        ]
        if not parts:
            return None
        return _Answer(
            Conclusion.DEADLOCK,
            f"Ranks wait for each other: {'; '.join(parts[:4])}. Each is missing where another waits, as when "
            "collectives are called in a different order.",
            0.8,
        )

    # --- what is shown ---

    def _rows(self) -> Iterable[GroupRow]:
        rows = []
        for index, group in enumerate(self._picture.groups):
            found = self._mismatches.get(index)
            behind = group.behind()
            if not group.waiting and not behind and found is None:
                continue
            if found is not None:
                sequence, operation = found.sequence, found.call.operation
                detail = "; ".join(f"{value} on {named(ranks)}" for value, ranks in found.variants[:4])
                missing = list(found.odd_ranks)
            else:
                sequence = group.lowest + 1 if behind else max((c.sequence for c in group.waiting.values()), default=0)
                waited = group.call_at(sequence) or next(iter(group.waiting.values()), None)
                operation = waited.operation if waited is not None else ""
                detail = ", ".join(part for part in (waited.sizes, waited.types) if part) if waited is not None else ""
                missing = behind or sorted({each.peer for each in self._picture.transfers if each.group == group.title})
            unseen = self._unheard & set(group.members) if self._unheard else ()
            rows.append(
                GroupRow(
                    name=group.name,
                    title=group.title,
                    member_count=len(group.members),
                    is_inferred=group.is_inferred,
                    operation=operation,
                    sequence=sequence,
                    detail=detail,
                    waiting=_ranks([rank for rank in group.waiting if found is not None or rank not in missing]),
                    missing=_ranks(missing),
                    not_seen=_ranks(unseen),
                    last_places=tuple(
                        place for rank in missing[:MOST_PLACES] if (place := self._place(rank)) is not None
                    ),
                )
            )
        return sorted(rows, key=lambda row: (-row.missing.count, row.member_count, row.title))

    def _place(self, rank: int) -> Place | None:
        told = self._picture.seen.get(rank)
        last = told.last_call if told is not None else None
        if last is None:
            return None
        group, call = last
        at = f" at {call.frame}" if call.frame else ""
        text = f"{call.operation} #{call.sequence} of {title_of(group.name, group.description)}{at}"
        return Place(rank, text, call.frame, call.created_at)

    def _unknown(self, conclusion: Conclusion) -> Iterable[str]:
        if conclusion is Conclusion.LATE:
            yield "Who came when is told by the clocks of the nodes; by how far those differ is not known here."
        if self._not_seen:
            yield (
                f"{_upper(named(self._not_seen))} left no dump. That alone accuses nobody; a rank that cannot write "
                "one was gone, or stuck very deep."
            )
        if self._not_recorded:
            yield f"Recording was disabled on {named(self._not_recorded)}."
        if not self._picture.is_world_told:
            yield (
                f"How many ranks there were is not told: {len(self._picture.seen)} left a dump that was given, and "
                "others may be missing."
            )
        inferred = [group.title for group in self._picture.groups if group.is_inferred and group.told]
        if inferred:
            shown = ", ".join(sorted(inferred)[:4]) + (" …" if len(inferred) > 4 else "")
            yield (
                f"The members of {shown} are not told by the dumps and were inferred from who mentions the group; a "
                "rank that never used it would not be missed. A side-car with the groups settles it."
            )
        wrapped = [rank for rank, told in self._picture.seen.items() if told.first_record]
        if wrapped:
            yield f"The ring of {named(wrapped)} had wrapped: what came before is not known."
        if any(told.left_out for told in self._picture.seen.values()):
            yield "Some dumps were too large to be kept whole: their oldest operations were left out."
        moments = {rank: told.last_at for rank, told in self._picture.seen.items() if told.last_at is not None}
        if moments and max(moments.values()) - min(moments.values()) > APART_NS:
            early = [rank for rank, at in moments.items() if max(moments.values()) - at > APART_NS]
            yield (
                f"The last operation of {named(early)} is more than an hour older than that of others: are all dumps "
                "of the same attempt?"
            )
        framed = any(
            call.frame for told in self._picture.seen.values() for group in told.groups for call in group.calls
        )
        if not framed and self._picture.seen:
            yield NO_STACKS


def _since(group: Group) -> int:
    """When the first that waits in a group began to."""
    return min((call.created_at for call in group.waiting.values() if call.created_at is not None), default=1 << 62)


def _transfer_words(lone: Transfer) -> str:
    if lone.call.operation.startswith("send"):
        return f"the send of rank {lone.rank} to it in {lone.group}"
    return f"the receive of rank {lone.rank} from it in {lone.group}"


def _ranks(ranks: Iterable[int]) -> Ranks:
    ordered = sorted(ranks)
    text = packed(ordered)
    return Ranks(len(ordered), text if len(text) <= LONGEST_RANKS else text[:LONGEST_RANKS].rsplit(",", 1)[0] + ",…")


def _verb(ranks: Sequence[int]) -> str:
    return "calls" if len(ranks) == 1 else "call"


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _without_line(frame: str) -> str:
    """`function (file:12)` as `file:function`: it stays the same when lines above it come and go."""
    function, _, place = frame.partition(" (")
    return f"{place.rsplit(':', 1)[0]}:{function}" if place else function
