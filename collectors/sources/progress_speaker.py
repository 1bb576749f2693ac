"""The speaker: whose lines of steps count, of the many ranks that print the same.

Rules
- Steps are told by one speaker, the first that tells one in an attempt; what the others print of them is the same.
- Lines of others are not worth reading where every line says who wrote it. Lines that say nothing about that are read.
- A log in which many lines tell steps, and none of them when, is not asked for steps any more.
"""

from __future__ import annotations

import re

from rerail.collectors.sources.log_lines import Line
from rerail.collectors.sources.progress_training import Training

MOST_UNDATED = 200
"""After so many lines of steps without an instant, and none with one, a log is not asked for steps any more."""
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
