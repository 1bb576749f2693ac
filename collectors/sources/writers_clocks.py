"""Writers' clocks: one log into which several wrote, whose clocks are whole zone offsets apart.

A container keeps UTC and its host local time; both write into one file, and neither names its zone. Within one file the
order of lines is the truth: where a writer's stamps contradict it by half an hour or more, and whole quarters of an
hour put them where their lines stand, its clock is off by that much, and what it said is dated anew.

Rules
- Writers are told apart by the form of their stamp and by who they are (kernel, scheduler, launcher, torch's C++, a
  logger). Steps are the reference, since there are most of them; without steps, who spoke most often.
- Only a contradiction moves a writer: a line that is behind what stands before it, or ahead of what stands behind it.
  A long silence is none. Most of a writer's lines have to agree on one distance.
- What a machine or a scheduler says may be old and printed late (`dmesg` at the end of a log): there the lines have to
  be put within minutes of their neighbours, elsewhere within three quarters of an hour.
- Who agrees with the reference helps to date the others. Lines that are read quickly (steps) are not moved.
- Bounded: of each writer the first and the last lines count, and of writers the first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE
from rerail.collectors.sources.log_lines import Line, LocalClock
from rerail.server.core.facts import CLOCK_OFF, Evidence, Fact, Steps

MINUTE = 60_000_000_000
QUARTER = 15 * MINUTE
HOUR = 60 * MINUTE
LEAST = 25 * MINUTE
"""A contradiction of less is no zone's."""
FARTHEST_HOURS = 14
"""From UTC to the farthest zone of the earth."""
NEAR = QUARTER
"""A stamp so near its neighbours agrees with them."""
MOST_WRITERS = 64
MOST_KEPT = 400
LATE = frozenset({"kernel", "scheduler"})
"""Who may be quoted long after."""
_DIGITS = re.compile(r"\d{1,40}")
_SCHEDULER = re.compile(r"^(?:slurmstepd|srun|sbatch|scontrol)\b|\bCANCELLED AT \d{4}-")
_CANCELLED_AT = re.compile(r"\bCANCELLED AT (\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)")


@dataclass(slots=True)
class _Writer:
    kind: str
    first: list[tuple[int, int]] = field(default_factory=list)
    """`(byte, instant)` of its lines, the first of them."""
    last: list[tuple[int, int]] = field(default_factory=list)

    def heard(self, offset: int, at: int) -> None:
        if len(self.first) < MOST_KEPT:
            self.first.append((offset, at))
            return
        self.last.append((offset, at))
        if len(self.last) > 2 * MOST_KEPT:
            del self.last[:MOST_KEPT]

    def lines(self) -> list[tuple[int, int]]:
        return [*self.first, *self.last[-MOST_KEPT:]]


@dataclass(slots=True)
class _Span:
    """Facts that the stamps of one writer date: from number `begin` on, as far as the next span."""

    begin: int
    key: str
    first: int
    last: int
    """Its first and its last instant."""


@dataclass(frozen=True, slots=True)
class OffClock:
    """A writer whose clock is off."""

    kind: str
    off_ns: int
    """How far it is ahead of the others'."""

    @property
    def said(self) -> str:
        """In words: `the kernel's clock is 1 h behind the others'`."""
        return f"the {self.kind}'s clock is {off_words(self.off_ns)}"


def off_words(off_ns: int) -> str:
    """`8 h 30 min ahead of the others'`."""
    hours, minutes = divmod(abs(off_ns) // MINUTE, 60)
    parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes)
    return f"{' '.join(parts)} {'ahead of' if off_ns > 0 else 'behind'} the others'"


def cancelled_at(text: str, clock: LocalClock) -> int | None:
    """When Slurm says that it cancelled a job or a step: its stamp stands behind its words. None for other lines."""
    told = _CANCELLED_AT.search(text) if "CANCELLED AT" in text else None
    return None if told is None else clock.instant(f"{told[1]} {told[2]}")


class WritersClocks:
    """Who dated which facts of a log, and whose clock is off."""

    def __init__(self) -> None:
        self._writers: dict[str, _Writer] = {}
        self._dated: list[_Span] = []

    def heard(self, line: Line, offset: int, facts: int, clock: LocalClock) -> None:
        """A line is taken; `facts` were stated before it. Only those with a stamp count."""
        at = line.at
        if at is None:
            at = cancelled_at(line.raw[:400], clock)
        if at is None:
            return
        kind, key = _writer_of(line)
        writer = self._writers.get(key)
        if writer is None:
            if len(self._writers) >= MOST_WRITERS:
                return
            writer = self._writers[key] = _Writer(kind)
        writer.heard(offset, at)
        last = self._dated[-1] if self._dated else None
        if last is not None and last.key == key:
            last.first, last.last = min(last.first, at), max(last.last, at)
        elif last is not None and last.begin == facts:
            last.key, last.first, last.last = key, at, at
        else:
            self._dated.append(_Span(facts, key, at, at))

    def set_right(self, facts: list[Fact]) -> list[OffClock]:
        """Date the facts anew, in place, that writers with another clock dated; who they were."""
        if len(self._writers) < 2 and not any(isinstance(fact, Steps) for fact in facts):
            return []
        off = self._off(facts)
        if not off:
            return []
        ends = [*(span.begin for span in self._dated[1:]), len(facts)]
        for span, end in zip(self._dated, ends, strict=True):
            if span.key not in off:
                continue
            for place in range(span.begin, end):
                if span.first - NEAR < facts[place].at < span.last + NEAR:  # else a step dates it
                    facts[place] = _moved(facts[place], off[span.key])
        return [OffClock(self._writers[key].kind, off[key]) for key in off]

    def _off(self, facts: Sequence[Fact]) -> dict[str, int]:
        """Writer → how far its clock is ahead, of those that are off."""
        reference = sorted(
            point
            for fact in facts
            if isinstance(fact, Steps)
            for point in [(fact.seq // FACTS_PER_BYTE, fact.start + sum(fact.durations_us) * 1000)]
        )
        others = dict(self._writers)
        if not reference:
            most = max(
                (key for key in others if others[key].kind not in LATE),
                key=lambda key: len(others[key].lines()),
                default=None,
            )
            if most is None:
                return {}
            reference = sorted(others.pop(most).lines())
        off: dict[str, int] = {}
        agreeing = [key for key, writer in others.items() if _distance(writer, reference) == 0]
        wider = sorted([*reference, *(line for key in agreeing for line in others[key].lines())])
        wider = _rising(wider)
        for key, writer in others.items():
            if key in agreeing:
                continue
            distance = _distance(writer, reference)
            if distance is None:
                distance = _distance(writer, wider)
            if distance:
                off[key] = distance
        return off


def _rising(lines: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lines of a file whose instants fall back by no more than a zone's least distance."""
    kept: list[tuple[int, int]] = []
    for line in lines:
        if not kept or line[1] > kept[-1][1] - LEAST:
            kept.append(line)
    return kept


def _writer_of(line: Line) -> tuple[str, str]:
    if line.source == "kernel":
        return "kernel", f"kernel {line.is_zoned}"
    if _SCHEDULER.search(line.raw[:200]):
        return "scheduler", "scheduler"
    kind = {"torchrun": "launcher", "nvrx": "launcher", "monitor": "launcher", "cpp": "worker"}.get(
        line.speaker, "logger"
    )
    begins = _DIGITS.sub("0", line.raw[:32])
    form = begins[: begins.rfind("0") + 1] if kind == "logger" else line.speaker
    return kind, f"{kind} {form} {line.is_zoned}"


def _distance(writer: _Writer, reference: Sequence[tuple[int, int]]) -> int | None:
    """How far a writer is ahead of the reference: 0 where most of its lines agree; None where nothing tells."""
    votes: Counter[int] = Counter()
    offsets = [offset for offset, _ in reference]
    for offset, at in writer.lines():
        place = bisect_left(offsets, offset)
        before = reference[place - 1][1] if place else None
        after = reference[place][1] if place < len(reference) else None
        vote = _vote(at, before, after, is_late=writer.kind in LATE)
        if vote is not None:
            votes[vote] += 1
    if not votes:
        return None
    distance, count = votes.most_common(1)[0]
    return distance if 2 * count > votes.total() else None


def _vote(at: int, before: int | None, after: int | None, *, is_late: bool) -> int | None:
    """How far one stamp is ahead of where its line stands; None where it may be anywhere."""
    if before is not None and after is not None and after < before:
        return None  # another attempt, or another clock: no place to be in
    is_behind = before is not None and at < before - LEAST
    is_ahead = after is not None and at > after + LEAST
    if not is_behind and not is_ahead:
        near = [each for each in (before, after) if each is not None and abs(at - each) <= NEAR]
        return 0 if near or (before is not None and after is not None) else None
    anchor = before if before is not None else after
    assert anchor is not None
    for step in [*range(4, 4 * FARTHEST_HOURS + 1, 4), *range(2, 4 * FARTHEST_HOURS)]:
        off = step * QUARTER * (-1 if is_behind else 1)
        put, is_whole_hour = at - off, step % 4 == 0
        early, late = (2 * MINUTE, 5 * MINUTE if is_late else 45 * MINUTE) if is_whole_hour else (MINUTE // 2, MINUTE)
        if before is None:
            early, late = late, early  # it stands in front of its anchor
        if anchor - early <= put <= anchor + late and (before is None or after is None or put <= after + early):
            return off
    return None


def _moved(fact: Fact, off: int) -> Fact:
    """A fact by the clock of the others."""
    if isinstance(fact, Steps) or fact.at <= off:
        return fact
    if isinstance(fact, Evidence):
        attributes = tuple(sorted({**dict(fact.attributes), CLOCK_OFF: off_words(off)}.items()))
        return replace(fact, at=fact.at - off, attributes=attributes)
    return replace(fact, at=fact.at - off)
