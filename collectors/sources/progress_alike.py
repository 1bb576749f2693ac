"""Steps read quickly: lines of steps that are written like one that was read the long way.

Rules
- How the speaker writes its steps is learned from lines that were read the long way (`alike_lines.py` says which lines
  are alike); what is stated of those that follow is what would be stated of them line by line.
- Nothing is read quickly while anything waits for the next line.
- It is remembered while a log is read, and saves work alone: no cursor holds it.
"""

from __future__ import annotations

from collections.abc import Callable

from rerail.collectors.sources.alike_lines import Alike, Run, alike, alike_bar, read_run
from rerail.collectors.sources.line_wrappings import may_be_record
from rerail.collectors.sources.log_lines import Line
from rerail.collectors.sources.progress_attempts import OwnAttempts
from rerail.collectors.sources.progress_instants import BACK_LEAST, RECEIVED, SHORT_STAMP, Instants, received_at
from rerail.collectors.sources.progress_lines import LONGEST, Progress, read_again
from rerail.collectors.sources.progress_speaker import Speaker, label_in
from rerail.collectors.sources.progress_training import Training
from rerail.server.core.facts import Steps

MOST_ALIKE = 4
MOST_ALIKE_MADE = 200
"""So many ways of writing a step line are looked at, of those of one log, and so many remembered at a time."""


class AlikeSteps:
    """Knows how lines of steps are written, and states what those that are written so tell."""

    def __init__(
        self, training: Training, instants: Instants, speaker: Speaker, own: OwnAttempts,
        tell: Callable[[Progress, int, Line], None],
    ) -> None:  # fmt: skip
        """`tell` takes what a line told, when that was and the line."""
        self._training = training
        self._attempts = training.attempts
        self._instants = instants
        self._speaker = speaker
        self._own = own
        self._tell = tell
        self._likes: dict[int, Line] = {}
        """Rules by which steps of the speaker were read, each with the last line that was read the long way."""
        self._alikes: list[Alike] = []
        """How lines of its steps are written; the last first."""
        self._alikes_left = MOST_ALIKE_MADE

    def knows_what(self, before: AlikeSteps) -> None:
        """The same log was read up to here by `before`."""
        self._likes, self._alikes, self._alikes_left = before._likes, before._alikes, before._alikes_left

    def reads_by(self, rule: int, line: Line) -> None:
        """A step of the speaker was read the long way, by a rule."""
        self._likes[rule] = line

    def take_alike(self, block: bytes, at: int, offset: int) -> int:
        """Take the lines from byte `at` of a block on that are steps, each written like one before.

        Gives where the first other line begins; `offset` is where the block begins. What is stated is what
        `take_quickly` states, line by line.
        """
        state, known, alikes = self._training.state, self._attempts.state, self._alikes
        if (
            not alikes or not self._is_undisturbed or not state.has_steps or state.bars or state.saving or state.first
            or state.loading or state.done
            or known.held or not known.is_started or known.last_at is None or state.step_at is None
            or (state.pause_began is not None and state.pause_began >= state.step_at)
            or known.attempt != state.attempt
        ):  # fmt: skip
            return at
        heard_at = state.step_at if state.heard_at is None else state.heard_at
        has_bar = state.bar_base and state.bar_epoch is None and self._training.tells_attempts
        bar_base = (state.bar_base[0], state.bar_base[1]) if has_bar else None
        run = Run(
            state.step or 0, state.step_at, state.step_offset, heard_at, state.silence, state.each_ns, state.untimed,
            bar_base, state.pause_ended or 0, state.together, state.every,
        )  # fmt: skip
        at = read_run(run, alikes, block, at, offset, self._instants.minute_at)
        if run.last_offset is None:
            return at
        self._own.follow_launcher()
        for told in run.told:
            every = told.every if told.every > 1 else None
            if told.count is None:
                self._attempts.late_fact(
                    Steps, told.end, told.offset, restart=state.attempt, first_step=told.first_step, start=told.start,
                    durations_us=told.durations_us, every=every,
                )  # fmt: skip
            else:
                self._attempts.at_line(told.offset)
                self._training.say(
                    Steps, told.end, first_step=told.first_step, start=told.start, durations_us=told.durations_us,
                    count=told.count, every=every,
                )  # fmt: skip
        state.step, state.step_at, state.step_offset = run.step, run.step_at, run.step_offset
        state.each_ns, state.every, state.untimed = run.each_ns, run.every, run.untimed
        state.heard_at, state.silence, state.together = run.heard_at, run.silence, run.together
        known.last_at = run.heard_at
        self._attempts.at_line(run.last_offset)
        return at

    def take_quickly(self, raw: bytes, offset: int) -> bool:
        """One line that is a step of the speaker whose steps count, written as one before; False for any other."""
        is_wanted = bool(self._likes) and self._speaker.wants(raw)
        if not is_wanted or b"\r" in raw or may_be_record(raw) or not self._is_undisturbed:
            return False
        text = raw[:LONGEST].decode("utf-8", "replace")
        found = ((rule, line, read_again(rule, text)) for rule, line in self._likes.items())
        rule, line, told = next((each for each in found if each[2] is not None), (-1, None, None))
        if line is None or told is None:
            return False
        is_short = line.speaker == "torchrun" and line.file is not None and SHORT_STAMP.match(text) is not None
        received = RECEIVED.match(raw)
        if received is not None:  # whoever received the lines dates them all, whatever else they say
            self._take_step(told, received_at(received), line, offset)
            return True
        at = self._instants.short_stamp_in(text) if is_short else self._instants.stamp_in(text)
        if at is None:
            return False
        if self._training.state.step_at is not None and at < self._training.state.step_at - BACK_LEAST:
            return False
        self._learn(raw, rule, told, line, is_short=is_short)
        self._take_step(told, at, line, offset)
        return True

    def _take_step(self, told: Progress, at: int, line: Line, offset: int) -> None:
        self._attempts.at_line(offset)
        self._own.hear(at)
        if line.at is None:
            self._attempts.heard(at)
        self._own.follow_launcher()
        self._tell(told, at, line)
        if line.at is not None:  # as where the line is taken the long way: an attempt ends with what was heard before
            self._attempts.heard(at)

    @property
    def _is_undisturbed(self) -> bool:
        """Nothing waits for the next line but that it is a step."""
        return not (self._training.state.waiting or self._training.state.begins or self._attempts.state.is_job_over)

    def learn_bar(self, raw: bytes, line: Line) -> None:
        """Remember how a bar without a stamp is written."""
        if self._is_new(raw):
            self._remember(alike_bar(raw, line))

    def _learn(self, raw: bytes, rule: int, told: Progress, line: Line, *, is_short: bool) -> None:
        """Remember how a step line is written."""
        if self._is_new(raw):
            label = label_in(raw)
            speaker_ends = max(len(self._speaker.prefix), 0 if label is None else label.end())
            self._remember(alike(raw, rule, told, line, speaker_ends=speaker_ends, is_short=is_short))

    def _is_new(self, raw: bytes) -> bool:
        """Whether a line is written like none that is remembered, and may still be looked at: it is counted then."""
        if self._alikes_left <= 0 or any(one.pattern.fullmatch(raw + b"\n") for one in self._alikes):
            return False
        self._alikes_left -= 1
        return True

    def _remember(self, made: Alike | None) -> None:
        if made is not None:
            self._alikes = [made, *self._alikes[: MOST_ALIKE - 1]]
