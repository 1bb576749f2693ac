"""Unexplained time: the gaps that no fact explains, each with the reason that the run's own facts make most likely.

Rules
- A reason is read off facts: what was told before and after a gap, where in an attempt it lies, whether a source was
  blind, at which steps gaps come back. Where they say nothing, no reason is known, and that is said.
- A likely reason moves no time: the gap stays `silent`, and unknown in every figure.
- The lengths of all reasons add up to the silent time exactly.
- Of the reasons below the first that fits counts, for the part of a gap it fits.

| reason | what makes it likely |
|---|---|
| `blind_source` | a source could not see then |
| `only_the_launcher` | nobody speaks for the ranks: what follows bring-up cannot be seen |
| `not_told_yet` | the end of an open run of which something was heard a moment ago |
| `end_not_noticed` | the end of an open run that fell silent: a crash without a notice, or emitters gone |
| `between_attempts` | after an attempt ended, before the next began, and no scheduler ever spoke |
| `bring_up` | after an attempt began, before its first step |
| `steps_not_told` | the next step told is not the next step: some were taken that nobody told |
| `save_without_its_stall` | a checkpoint began there, and how long it blocked was not told |
| `checkpoint_not_logged` | after every so many steps, or after one that was loaded later, and no save was stated |
| `before_the_end` | after the last thing told of a run that ended, before it was told to have ended |
| `unknown` | nothing of this |
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from rerail.server.core.checkpoints import first_stamp
from rerail.server.core.facts import Phase
from rerail.server.core.view import Attempt, BlindPeriod, Checkpoint, Span, Unexplained

FEWEST_IN_STEP = 3
"""So many steps at the same distance, the run's beginning among them, make a rhythm."""

MOST_OUT_OF_STEP = 1 / 3
"""With more than this share of the gaps elsewhere it is none."""

STEP_NS = 1_000_000_000
"""How long a step is taken to be where no step time is known."""

SHORTEST_BEAT = 10
"""Gaps shorter than this part of a step are not asked for a rhythm: a loop may take that much between two steps."""


class Reason(StrEnum):
    """Why a stretch of time is likely to be unexplained; in order of precedence."""

    BLIND_SOURCE = "blind_source"
    ONLY_THE_LAUNCHER = "only_the_launcher"
    NOT_TOLD_YET = "not_told_yet"
    END_NOT_NOTICED = "end_not_noticed"
    BETWEEN_ATTEMPTS = "between_attempts"
    BRING_UP = "bring_up"
    STEPS_NOT_TOLD = "steps_not_told"
    SAVE_WITHOUT_ITS_STALL = "save_without_its_stall"
    CHECKPOINT_NOT_LOGGED = "checkpoint_not_logged"
    BEFORE_THE_END = "before_the_end"
    UNKNOWN = "unknown"


DETAILS: dict[Reason, str] = {
    Reason.BLIND_SOURCE: "a source could not see then",
    Reason.ONLY_THE_LAUNCHER: "nobody tells of steps: what the ranks did is not seen",
    Reason.NOT_TOLD_YET: "it is told when it is over: the run was heard a moment ago",
    Reason.END_NOT_NOTICED: "nothing was heard since: a crash that nobody noticed, or emitters that are gone",
    Reason.BETWEEN_ATTEMPTS: "between attempts, and no scheduler spoke: queueing or an image pull that was not seen",
    Reason.BRING_UP: "before an attempt's first step: bring-up that was not told",
    Reason.STEPS_NOT_TOLD: "steps were taken there that nobody told",
    Reason.SAVE_WITHOUT_ITS_STALL: "a checkpoint began there, and how long it blocked was not told",
    Reason.CHECKPOINT_NOT_LOGGED: "unlogged checkpoint stalls are likely: no checkpoint was stated",
    Reason.BEFORE_THE_END: "after the last step, before the run was told to have ended: a last save, or teardown",
    Reason.UNKNOWN: "no reason is known",
}
"""Each reason in words."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A silent stretch, with the steps of its attempt around it."""

    index: int
    """Of its span."""
    start: int
    end: int
    attempt: int | None
    step_before: int | None
    step_after: int | None
    is_last: bool
    """Nothing of its run follows."""
    seen_until: int
    """The index of the furthest span that was looked at for it; one past the last where all were."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What of a run bears on the reasons."""

    attempts: Sequence[Attempt]
    loaded_steps: frozenset[int]
    """Of successful loads."""
    checkpoints: Sequence[Checkpoint]
    blind: Sequence[BlindPeriod]
    speaks_for_ranks: bool
    saw_scheduler: bool
    saw_saves: bool
    """A checkpoint or a saving phase was stated."""
    is_open: bool
    is_silent: bool
    step_ns: int | None


class Gaps:
    """The silent spans of a run, kept up as its timeline grows."""

    def __init__(self) -> None:
        self._gaps: list[Gap] = []
        self._scanned = 0
        """Spans before this one were looked at."""

    def renew(self, spans: Sequence[Span], settled: int) -> Sequence[Gap]:
        """The gaps in these spans, of which the first `settled` are those of the last call."""
        gaps = self._gaps
        first = settled = min(settled, self._scanned)
        while gaps and gaps[-1].seen_until >= settled:
            first = min(first, gaps.pop().index)
        self._scanned = len(spans)
        before = _step_before(spans, first)
        for index in range(first, len(spans)):
            span = spans[index]
            if index and span.attempt != spans[index - 1].attempt:
                before = None
            if span.last_step is not None:
                before = span.last_step
            elif span.phase is Phase.SILENT:
                seen_until = _look_ahead(spans, index)
                follows = spans[seen_until] if seen_until < len(spans) else None
                after = follows.first_step if follows is not None and follows.attempt == span.attempt else None
                is_last = index == len(spans) - 1
                gaps.append(Gap(index, span.start, span.end, span.attempt, before, after, is_last, seen_until))
        return gaps


def _step_before(spans: Sequence[Span], index: int) -> int | None:
    """The last step worked on before a span, in the attempt of the span before it."""
    for earlier in range(index - 1, -1, -1):
        if spans[earlier].attempt != spans[index - 1].attempt:
            return None
        if spans[earlier].last_step is not None:
            return spans[earlier].last_step
    return None


def _look_ahead(spans: Sequence[Span], index: int) -> int:
    """The index of the next span that works on a step, or is of another attempt; the number of spans where none is."""
    attempt = spans[index].attempt
    for later in range(index + 1, len(spans)):
        if spans[later].first_step is not None or spans[later].attempt != attempt:
            return later
    return len(spans)


def explained(gaps: Sequence[Gap], around: Circumstances) -> tuple[Unexplained, ...]:
    """The likely reasons of the gaps, the longest first; their lengths add up to those of the gaps."""
    found: dict[Reason, list[tuple[Gap, int, int]]] = {}
    plain: list[Gap] = []
    for gap in gaps:
        for start, end, is_blind in _split_by_blindness(gap, around.blind):
            reason = Reason.BLIND_SOURCE if is_blind else _placed(gap, around)
            if reason is None:
                plain.append(gap if (start, end) == (gap.start, gap.end) else _part(gap, start, end))
            else:
                found.setdefault(reason, []).append((gap, start, end))
    rhythm = None if around.saw_saves else _rhythm(plain, around.step_ns)
    for gap in plain:
        is_save = not around.saw_saves and (
            gap.step_before in around.loaded_steps
            or (rhythm is not None and gap.step_before is not None and gap.step_before % rhythm[0] == rhythm[1])
        )
        reason = Reason.BEFORE_THE_END if gap.is_last and not around.is_open else Reason.UNKNOWN
        if is_save:
            reason = Reason.CHECKPOINT_NOT_LOGGED
        found.setdefault(reason, []).append((gap, gap.start, gap.end))
    results = [_told(reason, parts, rhythm) for reason, parts in found.items()]
    return tuple(sorted(results, key=lambda each: (-each.length_ns, each.reason)))


def _told(reason: Reason, parts: Sequence[tuple[Gap, int, int]], rhythm: tuple[int, int] | None) -> Unexplained:
    gap, start, end = max(parts, key=lambda part: (part[2] - part[1], -part[1]))
    detail = DETAILS[reason]
    if reason is Reason.CHECKPOINT_NOT_LOGGED:
        detail += f", and these gaps come every {rhythm[0]} steps" if rhythm else ", and one was loaded later"
    return Unexplained(
        reason=reason.value,
        detail=detail,
        length_ns=sum(until - since for _, since, until in parts),
        count=len(parts),
        example_at=start,
        example_ns=end - start,
        example_attempt=gap.attempt,
        example_after_step=gap.step_before,
    )


def _part(gap: Gap, start: int, end: int) -> Gap:
    return Gap(
        gap.index,
        start,
        end,
        gap.attempt,
        gap.step_before,
        gap.step_after,
        gap.is_last and end == gap.end,
        gap.seen_until,
    )


def _split_by_blindness(gap: Gap, blind: Sequence[BlindPeriod]) -> list[tuple[int, int, bool]]:
    """`(start, end, a source was blind)` pieces of a gap, none empty."""
    pieces: list[tuple[int, int, bool]] = []
    at = gap.start
    for period in blind:
        since, until = max(period.since, at), gap.end if period.until is None else min(period.until, gap.end)
        if until <= since:
            continue
        if since > at:
            pieces.append((at, since, False))
        pieces.append((since, until, True))
        at = until
    if at < gap.end:
        pieces.append((at, gap.end, False))
    return pieces


def _placed(gap: Gap, around: Circumstances) -> Reason | None:
    """The reason that the place of a gap gives it; None where only a rhythm could."""
    attempt = None if gap.attempt is None else around.attempts[gap.attempt]
    if attempt is None:
        return Reason.UNKNOWN
    if not around.speaks_for_ranks:
        return Reason.ONLY_THE_LAUNCHER
    if gap.is_last and around.is_open:
        return Reason.END_NOT_NOTICED if around.is_silent else Reason.NOT_TOLD_YET
    over = attempt.noticed_at if attempt.is_interrupted else attempt.ended_at
    if over is not None and gap.start >= over and attempt.number + 1 < len(around.attempts):
        return Reason.UNKNOWN if around.saw_scheduler else Reason.BETWEEN_ATTEMPTS
    if attempt.first_step_at is None or gap.end <= attempt.first_step_at:
        return Reason.BRING_UP
    if gap.step_before is not None and gap.step_after is not None and gap.step_after > gap.step_before + 1:
        return Reason.STEPS_NOT_TOLD
    return Reason.SAVE_WITHOUT_ITS_STALL if _a_save_began(gap, around.checkpoints) else None


def _a_save_began(gap: Gap, checkpoints: Sequence[Checkpoint]) -> bool:
    """Whether a save was told to have begun in a gap. Checkpoints are in the order of their first stamp."""
    first = bisect_left(checkpoints, gap.start, key=first_stamp)
    for index in range(first, len(checkpoints)):
        each = checkpoints[index]
        if first_stamp(each) >= gap.end:
            return False
        if each.started_at is not None and gap.start <= each.started_at < gap.end:
            return True
    return False


def _rhythm(gaps: Iterable[Gap], step_ns: int | None) -> tuple[int, int] | None:
    """`(distance, remainder)` of the steps after which gaps come back; None where they come anyhow.

    The distance is the one that most neighbours have. The beginning of the run counts as a beat where it is in step.
    """
    shortest = (STEP_NS if step_ns is None else step_ns) // SHORTEST_BEAT
    steps = sorted({gap.step_before for gap in gaps if gap.step_before is not None and gap.end - gap.start >= shortest})
    if not steps:
        return None
    distances = Counter(later - earlier for earlier, later in pairwise([0, *steps]) if later - earlier > 1)
    if not distances:
        return None
    distance = min(distances, key=lambda each: (-distances[each], each))
    remainders = Counter(step % distance for step in steps)
    remainder = min(remainders, key=lambda each: (-remainders[each], each))
    in_step = remainders[remainder]
    if in_step + (remainder == 0) < FEWEST_IN_STEP or len(steps) - in_step > MOST_OUT_OF_STEP * len(steps):
        return None
    return distance, remainder
