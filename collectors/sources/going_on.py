"""Going on: what a log tells after an error that was not the end: the same process trains further, or training is done.

An error that the same process trained on after was caught; it is not what ended the run. A log tells it by lines of
progress: two with rising numbers, from the stream that the error came from.

Rules
- A stream is all that names the process before the text (`[rank3]`, `worker-3: `). torch puts `[rank3]` before what
  nobody caught: a log whose lines of progress have it not, tells nothing of such an error.
- What a process still had to write may come behind its own traceback, since standard output waits in a buffer of 8 KiB
  while errors do not wait. Behind a traceback that nobody announced, more than that has to follow; except where less
  than that had been written when a line of progress was already there, or where a logger writes the progress.
- Numbers that fall behind those before the error, or words of a restart, are no going on.
- What a machine's kernel tells is of no stream: any stream that trains on shows that the run survived it.
- A line that says that training is done takes back every error before it, whoever's it was.
- Bounded: what does not go on within 16 MB is not waited for, and of a log 32 MB and 20,000 lines of progress are
  searched for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rerail.collectors.sources.log_lines import Line
from rerail.collectors.sources.telling import is_telling
from rerail.server.core.facts import RUN_TRAINED_ON, TRAINED_ON

BUFFER_BYTES = 8192
MOST_BYTES = 16 * 1024 * 1024
MOST_SEARCHED = 32 * 1024 * 1024
MOST_LINES = 20_000
MOST_STREAMS = 4096
MACHINE = "\0machine"
"""In the place of a stream: what is told of a machine, and of none of the streams."""

_BAR = re.compile(r"\| {0,3}(?P<number>\d{1,12})/\d{1,12} \[")
_NUMBERED = re.compile(
    r"\b(?:global[_ ]?step|train[_ ]?step|step|iter|iteration|epoch|batch|update)s?\b[\"']?(?: ?[:=#\[(]| )? {0,8}"
    r"(?P<number>\d{1,12}(?:\.\d{1,6})?)\b",
    re.IGNORECASE,
)
_HINT = re.compile(
    rb"(?i)\b(?:global[_ ]?step|train[_ ]?step|step|iter|iteration|epoch|batch|update)s?\b"
    rb"[\"']?(?: ?[:=#\[(]| )? {0,8}\d"
    rb"|\d/\d{1,12} \[|\bresum(?:e|ed|ing)\b|\brestor(?:ed|ing)\b|\binit_process_group|\bworld[_ ]size"
)
_OTHER = re.compile(
    r"error|exception|\bfail|traceback|resum|restor|\bload|\bsav(?:e|ing|ed)\b|abort|stopp|\bexit|\bat step|crash",
    re.IGNORECASE,
)
_RESTART = re.compile(
    r"\bresum(?:e|ed|ing)\b|\brestor(?:ed|ing)\b|\b(?:re)?load(?:ed|ing)\b[^\n]{0,40}\bcheckpoint\b|init_process_group"
    r"|initiali[sz](?:ed|ing) (?:distributed|process group|NCCL)|\bworld[_ ]size\b|\bstarting training\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\btraining (?:run )?(?:is |was |has |has been )?(?:now )?(?:done|completed?|finished|ended successfully)\b"
    r"|\b(?:finished|completed|done) training\b",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(r"\b(?:before|after|until|when|once|if|not|unless|while|never|isn't)\b", re.IGNORECASE)
_ANNOUNCED = re.compile(
    r"\b(?:ERROR|WARNING|WARN|CRITICAL|INFO|DEBUG|EXCEPTION)\b|^Exception (?:in thread|ignored)|\bcaught\b|ignor"
    r"|continu|retry|non-?fatal|swallow|skipp"
)


def is_done(text: str) -> bool:
    """Whether a line says that training is done."""
    found = _DONE.search(text[:1000])
    return found is not None and _NOT_DONE.search(text[: found.start()]) is None and not is_telling(text)


def is_announced(before: str) -> bool:
    """Whether the line before a traceback shows that somebody caught what follows and wrote it down."""
    return _ANNOUNCED.search(before[-2000:]) is not None


def number_in(text: str) -> float | None:
    """The number of the step, or whatever else it counts, of a line of progress; None for any other line."""
    text = text[:2000]
    found = _BAR.search(text) or _NUMBERED.search(text)
    if found is None or _OTHER.search(text) or is_telling(text):
        return None
    return float(found["number"])


class Hints:
    """Where lines begin that may tell of going on. What is searched of a log is bounded."""

    def __init__(self) -> None:
        self._left = MOST_SEARCHED

    def next(self, block: bytes, begin: int, end: int) -> int | None:
        """The first such line from `begin` on that begins before `end`; both are where lines begin."""
        if self._left <= 0 or begin >= end:
            return None
        found = _HINT.search(block, begin, end)
        self._left -= (end if found is None else found.end()) - begin
        return None if found is None else max(begin, block.rfind(b"\n", 0, found.start()) + 1)


def hints_before(block: bytes, at: int, most: int) -> list[int]:
    """Where the lines before `at` begin that may tell of progress, the last of them; at most `most` bytes before it."""
    begin = max(0, at - most)
    return sorted({block.rfind(b"\n", 0, found.start()) + 1 for found in _HINT.finditer(block, begin, at)})[-16:]


@dataclass(slots=True)
class _Waiting:
    """An error of a stream after which nothing is known yet."""

    at_byte: int
    attempt: int
    needs_bytes: int
    last: float | None
    """The last number before it, then the last behind it."""
    is_first: bool = True
    """No number was seen behind it."""


class GoingOn:
    """Follows, of streams that had an error, whether they go on. `waiting` maps a stream to its last error."""

    def __init__(self) -> None:
        self.waiting: dict[str, _Waiting] = {}
        self.numbers: dict[str, float] = {}
        """Stream → its last number, as far as that was looked at."""
        self._since: dict[str, _Waiting] = {}
        """Stream → what is seen of it behind the last line about a machine."""
        self._is_ranked = False
        """Lines of progress begin with `[rank3]`."""
        self._lines_left = MOST_LINES

    def passed(self, stream: str, number: float) -> None:
        """A line of progress."""
        self._is_ranked = self._is_ranked or "[rank" in stream
        if len(self.numbers) < MOST_STREAMS:
            self.numbers[stream] = number

    def erred(self, stream: str, at_byte: int, attempt: int, *, is_announced: bool) -> None:
        """A stream had an error on the line that begins at a byte."""
        if self._lines_left <= 0 or ("[rank" in stream and self.numbers and not self._is_ranked):
            return
        if len(self.waiting) >= MOST_STREAMS:
            self.waiting.clear()
        is_unbuffered = at_byte < BUFFER_BYTES and stream in self.numbers
        needed = 0 if is_announced or is_unbuffered else BUFFER_BYTES
        before = self.waiting.get(stream)
        if before is not None and before.attempt == attempt:
            needed = max(needed, before.needs_bytes)
        self.waiting[stream] = _Waiting(at_byte, attempt, needed, self.numbers.get(stream))

    def told_of_machine(self, at_byte: int, attempt: int) -> None:
        """A line that begins at a byte told of a machine."""
        if self._lines_left <= 0:
            return
        needed = 0 if at_byte < BUFFER_BYTES and self.numbers else BUFFER_BYTES
        self.waiting[MACHINE] = _Waiting(at_byte, attempt, needed, None)
        self._since.clear()

    def takes(self, line: Line, at_byte: int, attempt: int) -> str | None:
        """Take a line; the code of what it shows, where its stream went on after an error, or the run after a
        machine's."""
        if _RESTART.search(line.text[:2000]):
            self.waiting.clear()
            return None
        number = number_in(line.text)
        if number is None:
            return None
        self._lines_left -= 1
        if self._lines_left <= 0:
            self.waiting.clear()
            return None
        before = self.numbers.get(line.stream)
        self.passed(line.stream, number)
        if self._goes_on(self.waiting, line, number, at_byte, attempt):
            return TRAINED_ON  # what is told of a machine waits for the next line
        if MACHINE not in self.waiting or len(self._since) >= MOST_STREAMS:
            return None
        if line.stream not in self._since:
            self._since[line.stream] = replace(self.waiting[MACHINE], last=before)
        if not self._goes_on(self._since, line, number, at_byte, attempt):
            return None
        del self.waiting[MACHINE]
        self._since.clear()
        return RUN_TRAINED_ON

    def _goes_on(self, errors: dict[str, _Waiting], line: Line, number: float, at_byte: int, attempt: int) -> bool:
        """Whether a line of progress is the one that shows it; what it shows no longer waits in `errors`."""
        waiting = errors.get(line.stream)
        if waiting is None:
            return False
        if waiting.attempt != attempt or at_byte - waiting.at_byte > MOST_BYTES:
            del errors[line.stream]
            return False
        if waiting.last is not None and number <= waiting.last:
            if number < waiting.last or waiting.is_first:
                del errors[line.stream]
            return False
        is_second = not waiting.is_first
        waiting.last, waiting.is_first = number, False
        is_logged = line.speaker == "logger" and bool(line.level)  # a logger stamps and writes each line at once
        if not is_second or (not is_logged and at_byte - waiting.at_byte < waiting.needs_bytes):
            return False
        del errors[line.stream]
        return True
