"""The speaker: whose lines of steps count, of the many ranks that print the same.

Rules
- Steps are told by one speaker, the first that tells one in an attempt; what the others print of them is the same.
- Where lines do not say who wrote them, and their steps alternate between two counters, two print them: the one that is
  ahead counts, and the other begins nothing anew.
- Lines of others are not worth reading where every line says who wrote it. Lines that say nothing about that are read.
- A log in which many lines tell steps, and none of them when, is not asked for steps any more.
"""

from __future__ import annotations

import re

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.log_lines import Line
from rerail.collectors.sources.progress_lines import Progress
from rerail.collectors.sources.progress_training import Training

MOST_UNDATED = 200
"""After so many lines of steps without an instant, and none with one, a log is not asked for steps any more."""
SOONEST = 2 * SECOND
"""No program that begins anew does a step sooner, where a step takes less."""
LABEL_WITHIN = 100
LONGEST_PREFIX = 24
_LABEL = re.compile(rb"(?:^|\[rank|\[default|\[Rank |rank=|<[np]|worker-|\[\d{1,7},)(\d{1,7})(?:\]|>|: )")


class Speaker:
    """Who tells the steps of one log."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.prefix = b""
        """What every line of the speaker begins with, where nothing but its name stands there."""

    def is_heard(self, line: Line, raw: bytes) -> bool:
        """Whether steps of a line count: the first that tells one makes its writer the speaker. `raw` is the line that
        is taken, which names it."""
        state, speaker = self._training.state, _name_of(line)
        if state.speaker is not None:
            return state.speaker == speaker
        self.goes_on(line)
        label = label_in(raw)
        state.label = None if label is None else label[1].decode()
        if label is not None and label.end() < LONGEST_PREFIX:
            self.prefix = raw[: label.end()]
        return True

    def is_of_another(self, told: Progress, step: int, at: int) -> bool:
        """Whether a line that tells a step lower than the last is of another that prints the same steps later, and that
        nothing names: no program begins anew and does a step in less than the time of one, and none without a word."""
        state, known = self._training.state, self._training.attempts.state
        lengths = sorted(state.together[2]) if state.together else []
        each = lengths[len(lengths) // 2] * 1000 if len(lengths) > 2 else 0  # one of them may hold a save, or a hang
        each = each or state.each_ns or state.each_before
        if told.bar_seconds is not None or not self._training.tells_attempts or state.step_at is None or each is None:
            return False
        erred = known.held or (known.erred_at is not None and known.erred_at >= state.step_at)
        if erred or state.loading or state.begins or state.done or not at >= state.step_at:
            return False
        usual = each * max(state.every, 1)
        is_next = bool(state.behind) and 0 <= step - state.behind[0] <= state.every and at - state.behind[1] < 2 * usual
        soonest = max(each * 9 // 10, min(usual * 9 // 10, SOONEST))
        if not is_next and at - state.step_at >= soonest:
            return False
        state.behind = [step, at]
        return True

    def goes_on(self, line: Line) -> None:
        """Another attempt: who wrote the line tells its steps too."""
        self._training.state.speaker, self._training.state.stream = _name_of(line), line.stream

    def wants(self, raw: bytes) -> bool:
        """Whether a line that may tell of progress is worth reading: of many ranks that say the same, one is read."""
        if self.tells_no_instants:
            return False
        if self.prefix:
            return raw.startswith(self.prefix) or (self.prefix[:1] == b"[" and raw[:1] != b"[")  # it names nobody
        known = self._training.state.label
        if known is None or self._training.state.step is None:
            return True
        label = label_in(raw)
        return label is None or label[1].decode() == known

    @property
    def tells_no_instants(self) -> bool:
        """Many lines of steps, and none that anything dates."""
        state = self._training.state
        return state.undated > MOST_UNDATED and not (state.has_steps or state.bars or state.counted)


def label_in(raw: bytes) -> re.Match[bytes] | None:
    """What names the writer of a line by a number: its rank, local rank or worker."""
    return _LABEL.search(raw[:LABEL_WITHIN])


def _name_of(line: Line) -> str:
    return f"{line.rank if line.rank is not None else line.stream}"
