"""Lines alike: how a step line is written, so that the ones written like it are read at once.

Rules
- Two lines are alike where they differ by numbers alone: those of the stamp, of the step, of the time it took, and any
  other but the number of the speaker and those that are part of a word (`rank0`). Blanks that fill a column up may be
  fewer.
- The stamp stands before the step, the step before its time. Whatever is written otherwise is not told here, and is
  read the long way.
- What is read of a line that is alike is what the rule that read the first would read of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rerail.collectors.sources.log_lines import Line
from rerail.collectors.sources.progress_lines import LONGEST, Progress, places_of
from rerail.server.core.codec import LARGEST_STEP

_NUMBER = rb"[-+\d.,eE]{1,40}"
_NUMBERS = re.compile(rb"( *)([-+]?\d[\d.,]*(?:[eE][-+]?\d{1,4})?)")
_ISO = re.compile(rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d):(\d\d)(?:([.,])(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_SHORT = re.compile(rb"[IWEF](\d{4} \d\d:\d\d):(\d\d)(\.)(\d{6})()(?= )")
_WORD = re.compile(rb"[A-Za-z_]\Z")
_BAR = re.compile(
    rb"(?P<head>[^\d%|\r\n]{0,100}?) {0,3}\d{1,3}%\|[^|\r\n]{0,200}\| {0,4}\d{1,12}/(?P<total>\d{1,12}) "
    rb"\[\d{1,6}(?::\d\d){1,3}<[\d:]{1,20}, {1,4}[\d.]{1,12}(?P<unit>it/s|s/it)\] {0,4}"
)
MORE_BLANKS = 3
SECOND = 1_000_000_000
MOST_TOGETHER = 200
MOST_SECONDS = 1e8
LONGEST_STEP_US = 10**11
TOUCHING_NS = 1_000_000
"""Steps are stated together where the next begins so near the end of the one before."""


@dataclass(frozen=True, slots=True)
class Alike:
    """How lines of one kind are written. Groups of `pattern`: the minute, the second, its fraction, step and time."""

    pattern: re.Pattern[bytes]
    """Matches a whole line with its newline."""
    is_short: bool
    """The stamp is one of `I1103 10:01:12.000000`, which leaves the year out."""
    zone: str | None
    fraction_ns: int
    """What one of the last digit of the fraction is, in ns."""
    counts_from: int
    """What is added to the number of the step."""
    milliseconds: bool
    """The time of a step is told in ms, not in s."""
    line: Line
    """The first of them."""
    is_bar: bool = False
    """A bar that tells its own clock, in place of a stamp, and its rate in place of a time."""
    is_per_second: bool = False
    """That rate is in steps a second."""


def alike(raw: bytes, rule: int, told: Progress, line: Line, *, speaker_ends: int, is_short: bool) -> Alike | None:
    """How a step line is written, which the rule read as `told`; None where that cannot be said.

    `speaker_ends`: so many of its first bytes name the speaker, and stay as they are.
    """
    text = raw.decode("utf-8", "replace")
    places = places_of(rule, text)
    stamp = _SHORT.match(raw) if is_short else _ISO.search(raw)
    if places is None or stamp is None or told.step is None or not raw.isascii() or len(raw) > LONGEST:
        return None
    step, took = places
    counts_from = told.step - int(raw[slice(*step)])
    if not stamp.end() <= step[0] or counts_from not in (0, 1) or (took is not None and took[0] < step[1]):
        return None
    milliseconds = False
    if told.seconds is None:
        took = None
    elif took is None or not (written := float(raw[slice(*took)])):
        return None
    else:
        milliseconds = told.seconds == written / 1000
        if not milliseconds and told.seconds != written:
            return None
    begun = stamp.start() + is_short
    parts = [re.escape(raw[:begun]), rb"(\d{4} \d\d:\d\d)" if is_short else rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d)"]
    parts += [rb":(\d\d)", b"()" if stamp[3] is None else rb"\%b(\d{%d})" % (stamp[3], len(stamp[4]))]
    parts += [re.escape(stamp[5] or b""), *_between(raw, stamp.end(), step[0], speaker_ends, MORE_BLANKS)]
    if took is None:
        parts += [rb"(\d{1,12})", *_between(raw, step[1], len(raw), speaker_ends, MORE_BLANKS), b"()"]
    else:
        parts += [rb"(\d{1,12})", *_between(raw, step[1], took[0], speaker_ends, MORE_BLANKS), rb"([\d.]{1,20})"]
        parts += _between(raw, took[1], len(raw), speaker_ends, MORE_BLANKS)
    return Alike(
        re.compile(b"".join(parts) + b"\n"), is_short, stamp[5].decode() if stamp[5] else None,
        0 if stamp[4] is None else 10 ** (9 - len(stamp[4])), counts_from, milliseconds, line,
    )  # fmt: skip


def alike_bar(raw: bytes, line: Line) -> Alike | None:
    """How a bar without epochs and stamps is written; None for one with anything behind it, or that tells no rate."""
    told = _BAR.fullmatch(raw)
    if told is None or len(raw) > LONGEST:
        return None
    total = re.escape(told["total"])
    pattern = (
        re.escape(told["head"]) + rb" {0,3}\d{1,3}%\|[^|\r\n]{0,200}\| {0,4}()()()(\d{1,12})/" + total
        + rb" \[(\d{1,6}(?::\d\d){1,3})<[\d:]{1,20}, {1,4}([\d.]{1,12})" + told["unit"] + rb"\] {0,4}\n"
    )  # fmt: skip
    return Alike(
        re.compile(pattern), False, None, 0, 0, False, line, is_bar=True, is_per_second=told["unit"] == b"it/s"
    )


def _between(raw: bytes, begin: int, end: int, speaker_ends: int, more: int) -> Iterator[bytes]:
    """A pattern for a part of a line: any numbers where there are numbers, and what stands between them.

    Blanks at its end stand before the step or its time: there may be fewer of them, never more.
    """
    text, at = raw[begin:end], 0
    filling = len(text) - len(text.rstrip(b" "))
    for number in _NUMBERS.finditer(text, 0, len(text) - filling):
        first = begin + number.start(2)
        is_fixed = first < speaker_ends or (not number[1] and _WORD.search(raw[:first]) is not None)
        if is_fixed:
            continue
        yield re.escape(text[at : number.start()])
        if number[1]:
            yield b" {1,%d}" % (len(number[1]) + more)
        yield _NUMBER
        at = number.end()
    yield re.escape(text[at : len(text) - filling])
    if filling:
        yield b" {1,%d}" % filling


@dataclass(frozen=True, slots=True)
class Told:
    """Steps of a run of lines: with `count` they share the one duration, without each has its own."""

    first_step: int
    start: int
    durations_us: tuple[int, ...]
    count: int | None
    end: int
    offset: int
    """The first byte of the last line that tells of them."""
    every: int
    """So many steps lie between two lines."""


@dataclass(slots=True)
class Run:
    """What is known where a run of lines begins, and then where it ended. Instants in ns."""

    step: int
    step_at: int
    """When that step was done."""
    step_offset: int
    heard_at: int
    silence: list[int]
    each_ns: int | None
    untimed: int
    """Steps that were done at `step_at` too, and are not stated yet."""
    bar_base: tuple[int, int] | None
    """`(instant, clock)` from which a bar's own clock counts."""
    pause_ended: int
    together: list[Any]
    """`[first step, start, durations in µs, offset]` of the steps that are not stated yet."""
    every: int = 1
    """So many steps lie between two lines, as of the last two."""
    last_offset: int | None = None
    """The first byte of the last line that was taken; None where none was."""
    told: list[Told] = field(default_factory=list)
    """What is to be stated, in order."""

    def close(self) -> None:
        """What is together is to be stated."""
        if self.together:
            first, start, durations, offset = self.together
            end = start + sum(durations) * 1000
            self.told.append(Told(first, start, tuple(durations), None, end, offset, self.every))
            self.together = []


def steps_between(before: int, step: int) -> int:
    """Each how many-th step is printed, by two lines that follow each other; beside each tenth some print the first."""
    return step if before == 1 and step % 5 == 0 else step - before


def told_every(interval: int, before: int) -> int:
    """Each how many-th step is told, where the last lines are `interval` apart; of a bar, which is drawn when there is
    time, that was `before`, and falls by half at most from one state to the next."""
    return max(interval, (before + 1) // 2)


def _bar_now(kind: Alike, run: Run, count: int, step_at: int, clock: bytes, rate: bytes) -> int:
    """When a bar was drawn: the instant in the second of its clock that fits its rate best; -1: unknown, or earlier."""
    try:
        each = float(rate)
    except ValueError:
        return -1
    if run.bar_base is None or not 0 < each < MOST_SECONDS:
        return -1
    seconds = 0
    for part in clock.split(b":"):
        seconds = seconds * 60 + int(part)
    earliest = run.bar_base[0] + (seconds - run.bar_base[1]) * SECOND
    likely = max(step_at, run.pause_ended) + round((1 / each if kind.is_per_second else each) * SECOND) * count
    now = min(max(likely, earliest, step_at), earliest + SECOND) // 1000 * 1000
    return now if now >= step_at else -1


def read_run(
    run: Run, kinds: list[Alike], block: bytes, at: int, offset: int, minute_at: Callable[[Alike, bytes], int | None]
) -> int:
    """Take the lines from byte `at` of a block on that are written as one of `kinds`; where the first other one begins.

    `offset` is where the block begins; `minute_at` gives the instant of a minute as one kind writes it. A line ends the
    run, and is left, where more than the next step follows from it: a step that comes again, one without a duration.
    """
    step, step_at, heard_at, silence, each_ns = run.step, run.step_at, run.heard_at, run.silence, run.each_ns
    together, untimed, every = run.together, run.untimed, run.every
    durations: list[int] = together[2] if together else []
    end = together[1] + sum(durations) * 1000 if together else 0
    index = 0
    last = len(kinds) - 1
    minute, minute_kind, minute_begun = b"", -1, 0
    taken = -1
    while True:
        kind = kinds[index]
        match = kind.pattern.match(block, at)
        if match is None:
            for index in range(last + 1):
                kind = kinds[index]
                match = kind.pattern.match(block, at)
                if match is not None:
                    break
            else:
                break
        written, second, fraction, number, took, *rate = match.groups()
        if rate:
            now, took = _bar_now(kind, run, int(number) - step, step_at, took, rate[0]), b""
            if now < 0:
                break
        elif written != minute or index != minute_kind:
            known = minute_at(kind, written)
            if known is None:
                break
            minute, minute_kind, minute_begun = written, index, known
        if not rate:
            if second > b"59":
                break
            now = minute_begun + int(second) * SECOND
            if fraction:
                now += int(fraction) * kind.fraction_ns
        done = int(number) + kind.counts_from
        count = done - step
        if count <= 0:
            if count < 0:
                break
            if now - heard_at > (silence[1] - silence[0] if silence else 0):
                silence = [heard_at, now]
            heard_at, taken, at = now, at, match.end()
            index = index + 1 if index < last else 0
            continue
        start = step_at
        if count != every:
            every = told_every(steps_between(step, done), every if rate else 1)
        count += untimed
        if took:
            try:
                seconds = float(took)
            except ValueError:
                break
            if seconds >= MOST_SECONDS:
                break
            began = now - round((seconds / 1000 if kind.milliseconds else seconds) * SECOND) * count
            if began > start:
                start = began
        length = (now - start) // 1000
        if not 0 <= length <= LONGEST_STEP_US * count or done > LARGEST_STEP:
            break
        untimed = 0 if length else count
        if length:
            each_ns = (now - start) // count
        if not length:
            pass
        elif count > 1:
            run.together, run.every = together, every
            run.close()
            together = []
            run.told.append(Told(done - count + 1, start, (length,), count, now, offset + at, every))
        elif (
            together
            and together[0] + len(durations) == done
            and -TOUCHING_NS <= start - end <= TOUCHING_NS
            and len(durations) < MOST_TOGETHER
        ):
            length = max(0, length + (start - end) // 1000)
            durations.append(length)
            end += length * 1000
            together[3] = offset + at
        else:
            run.together, run.every = together, every
            run.close()
            durations = [length]
            together = [done, start, durations, offset + at]
            end = start + length * 1000
        step, step_at, heard_at, silence = done, now, now, []
        run.step_offset = offset + at
        taken, at = at, match.end()
        index = index + 1 if index < last else 0
    run.step, run.step_at, run.heard_at, run.silence, run.each_ns = step, step_at, heard_at, silence, each_ns
    run.together, run.untimed, run.every = together, untimed, every
    run.last_offset = offset + taken if taken >= 0 else None
    return at
