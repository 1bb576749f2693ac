"""Progress: the facts about steps, checkpoints and evaluations that a training log states by itself, in order.

Rules
- A step line says that its step is done. The steps since the line before share the time: that which the line tells,
  else that between the two lines, less a save or an evaluation that followed the line before at once.
- The first step line of an attempt tells steps where it is known how many: since the checkpoint that was loaded, or
  since 0 where the log shows the beginning (the loop begins in it, or the first line tells as many steps as lie between
  it and the next). Where it is not told when the loop began, those steps took as long as the next ones.
- An instant is the line's own stamp, else the stamp that whoever received the line put in front; lines of Megatron-LM
  and NeMo 2 without either are counted on from the last stamp by the times they tell. What has no instant is not
  stated, and counted (`undated`).
- Of a whole log in which nothing tells an instant, but lines of steps how long those took (`counted`), a second reading
  counts on from so long before the file was written last. What stood still in between (saves, restarts) took no time
  that is known.
- A bar without a stamp is dated by its own clock, from an instant that is known: the loop that began, the stamp of the
  next line, or when the file was written last. Bars of an epoch that nothing dates stay without an instant: how long it
  took until the next epoch began is not known.
- Where no launcher says when attempts start, the log tells its attempts itself: the program that begins anew, or a step
  that comes again, is a restart. What was printed last before it is the end of the attempt before. Words of a launcher
  about an end alone (a signal it passes on) say nothing about what starts after it.
- Steps are told by one speaker; what the others print of them is the same.
- A save that says that it is done is durable then. Where that line has no instant, it is durable at the stamp before at
  least, which holds whatever follows; the next stamp tells, in a second statement, until when training waited for it.
- A save that only begins is durable when training goes on or is done, where the framework saves while training waits.
- A load lasts from the line that it begins with to the one it ends with, where the program itself had told the time
  since its last step, or for as long as it says. Otherwise how long it took is not known, and the time before it stays
  unexplained. What only names a checkpoint to go on from begins one, which the first step ends at the latest.
- What a framework tells of how long training waited for a save is both its `saving` and what it blocked; where it tells
  neither, both are unknown.
- A save that only says it was scheduled is captured; one that is loaded later was durable by then.
- Where a restart is dated by nothing but what was told before it, how long the run was down is not known
  (`down_untold`).
- Where a log prints only each so-many-th step it is said with the steps (`every`): more may be done than are told.
- Steps that follow each other are stated together, at most `MOST_TOGETHER`: whoever calls says when to state them.
- The state is plain data and part of the cursor, so that another instance can go on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from rerail.collectors.sources.alike_lines import (
    LONGEST_STEP_US,
    MOST_SECONDS,
    MOST_TOGETHER,
    SECOND,
    Alike,
    Run,
    alike,
    alike_bar,
    read_run,
    steps_between,
    told_every,
)
from rerail.collectors.sources.attempts import FACTS_PER_BYTE, Attempts
from rerail.collectors.sources.line_wrappings import may_be_record
from rerail.collectors.sources.log_lines import Line, LocalClock, zoned_instant
from rerail.collectors.sources.progress_lines import (
    LONGEST,
    Progress,
    Told,
    may_tell,
    read_again,
    read_progress,
    total_of_trainer,
)
from rerail.collectors.sources.progress_state import ProgressState
from rerail.server.core.codec import LARGEST_STEP
from rerail.server.core.facts import (
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Evidence,
    MarkStage,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunStarted,
    Steps,
)

MOST_WAITING = 100
MOST_CAPTURED = 16
"""Captured checkpoints that are remembered until something says that they are durable."""
MOST_BARS = 500
"""Bars that wait for an instant; of more the first are let go."""
MOST_ALIKE = 4
MOST_ALIKE_MADE = 200
"""So many ways of writing a step line are looked at, of those of one log, and so many remembered at a time."""
MOST_UNDATED = 200
"""After so many lines of steps without an instant, and none with one, a log is not asked for steps any more."""
STAMP_WITHIN = 120
"""So many characters of a line of no known logger may hold its stamp."""

COUNTED = frozenset({"nemo", "megatron", "maxtext"})
"""Their lines tell how long a step took, and often no instant."""
BRING_UP = frozenset({Told.BANNER, Told.LOADING, Told.RESUMING, Told.LOADED, Told.READY, Told.FRESH})
NOT_OF_TRAINING = frozenset({"cpp", "torchrun", "nvrx", "monitor"})
"""Whose lines come whether training goes on or not: watchdogs and launchers."""
TELLS_NO_STEP = frozenset({"nemo", "lightning"})
"""Who may tell of a load and not of what: the first step tells."""
SAVES_WHILE_WAITING = frozenset({"transformers", "lightning"})
ONE_SAVE_AT_A_TIME = frozenset({"maxtext"})
"""Whose checkpointer waits for the save before, where another one begins."""
OF_SAVES = frozenset({Told.SAVING, Told.SCHEDULED, Told.SAVED, Told.STALLED})
SOONER = 5
"""Steps that took this part of the usual time were not done but loaded."""
MOST_AHEAD = 2
"""A save may hold so many steps more than were told: MaxText tells a step when the next one is under way."""
_RECEIVED = re.compile(rb"^(\d{9,10})\.(\d{1,9}) ")
LABEL_WITHIN = 100
LONGEST_PREFIX = 24
_LABEL = re.compile(rb"(?:^|\[rank|\[default|\[Rank |rank=|<[np]|worker-|\[\d{1,7},)(\d{1,7})(?:\]|>|: )")
_BEGINS_WITH_BAR = re.compile(rb"\s{0,8}\d{1,3}%\|")
_TIME_OF_DAY = re.compile(rb"(?<![\d:])\d\d:\d\d:\d\d(?![\d:])|^\d{9,10}\.\d{1,9} ", re.MULTILINE)
_SHORT_STAMP = re.compile(r"[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d\.\d{6}) ")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")


class ProgressLog:
    """Reads progress lines, in the order of the log, and states what they tell through `attempts`."""

    def __init__(self, attempts: Attempts, clock: LocalClock, state: ProgressState | None = None) -> None:
        self.attempts = attempts
        self.state = state or ProgressState()
        self._clock = clock
        self._raw = b""
        self.read_at: int | None = None
        """When the lines that are taken were written, at the latest: for a log that is followed and tells no time."""
        self._is_counted_on = False
        """The instant of what is told now is that of no stamp: it follows from what was told before, or after."""
        self._prefix = b""
        """What every line of the speaker begins with, where nothing but its name stands there."""
        self._likes: dict[int, Line] = {}
        """Rules by which steps of the speaker were read, each with the last line that was read the long way."""
        self._alikes: list[Alike] = []
        """How lines of its steps are written; the last first."""
        self._alikes_left = MOST_ALIKE_MADE

    def knows_what(self, before: ProgressLog) -> None:
        """The same log was read up to here by `before`: how its step lines are written is known."""
        self._prefix, self._likes = before._prefix, before._likes
        self._alikes, self._alikes_left = before._alikes, before._alikes_left

    @property
    def dates_by_reading(self) -> bool:
        """Nothing in the log tells a time, and it is read as it grows: what is new happened just now."""
        return self.read_at is not None and not self.state.is_clocked

    def was_read_to_its_end(self) -> None:
        """Of a log that is followed: the last bar that waits was drawn when the file was written last."""
        if self.dates_by_reading and self.state.bars and self.read_at is not None:
            self.date_back(self.read_at)

    def look_ahead(self, block: bytes) -> None:
        """Learn from whole lines, before they are taken, whether they tell times, and which bar is that of training."""
        if self.read_at is not None and not self.state.is_clocked:
            self.state.is_clocked = _TIME_OF_DAY.search(block) is not None
        if self.state.bar_total is None and not self.state.has_steps:
            self.state.bar_total = total_of_trainer(block)

    def take(self, raw: bytes, line: Line) -> bool:
        """One line; whether it told something of progress."""
        self._raw = raw
        found: list[tuple[Progress, str]] = []
        is_of_a_terminal = False
        if may_tell(raw) and not self._tells_no_instants:
            is_of_a_terminal = (b"%|" in raw or b"\r" in raw[:-2]) and raw[:1] != b"{"
            found = read_progress(
                raw.decode("utf-8", "replace").rstrip() if is_of_a_terminal else line.raw or line.text
            )
        is_in_between = line.rank is not None and _BEGINS_WITH_BAR.match(raw) is not None
        drawn = (
            replace(line, rank=None, stream="") if is_in_between else line
        )  # who is named behind a bar did not draw it
        if line.at is not None:
            self.date_back(line.at)
            self._settle(line.at, found[0][0] if found else None, by_another=line.speaker in NOT_OF_TRAINING)
            self._hear(line.at)
        if b"async_mode" in raw:
            self.state.is_async = b"disabled" not in raw
        stamp = None
        if line.at is None and (self._is_own or found):
            parts = [part for _, part in found] or (
                [line.raw[:STAMP_WITHIN]] if line.speaker in ("plain", "rank") else []
            )
            stamp = next((at for part in parts if (at := self._stamp_in(part)) is not None), None)
            if stamp is None and self.dates_by_reading and any(told.bar_seconds is None for told, _ in found):
                stamp = self.read_at
            if stamp is not None:
                self.date_back(stamp)
            if stamp is not None and not found:
                self._settle(stamp, None)
                self._hear(stamp)
                self.attempts.heard(stamp)
        for told, _ in found:
            speaks = line if told.bar_seconds is None else drawn
            at = self._instant(raw, speaks, told, stamp)
            if at is None:
                self.state.undated += told.told is Told.STEP
                self._count(told, line)
            elif line.at is None:
                self._settle(at, told)
                if self._is_own:
                    self._hear(at)
                    self.attempts.heard(at)
            self._is_counted_on = at is not None and line.at is None and stamp is None and not _RECEIVED.match(raw)
            self._follow_launcher()
            if at is None and told.told is Told.STEP and told.bar_seconds is not None:
                self._wait_for_an_instant(told, speaks)
                continue
            self._tell(told, at, speaks)
            is_dated = at is not None and not self._is_counted_on and not self.state.bar_base
            if is_dated and told.bar_seconds is not None and told.epoch is None and speaks.stream == self.state.stream:
                self.state.bar_base = [at, told.bar_seconds]
            if told.told is Told.STEP and speaks.stream == self.state.stream:
                if told.rule is not None:
                    self._likes[told.rule] = line
                elif at is not None and line.at is None and stamp is None and told.epoch is None:
                    self._learn_bar(raw, line)
        self._is_counted_on = False
        return bool(found) and not is_of_a_terminal  # what stands behind a bar is still to be read

    def take_quickly(self, raw: bytes, offset: int) -> bool:
        """One line that is a step of the speaker whose steps count, written as one before; False for any other."""
        if not self._likes or not self.wants(raw) or b"\r" in raw or may_be_record(raw) or not self._is_undisturbed:
            return False
        text = raw[:LONGEST].decode("utf-8", "replace")
        found = ((rule, line, read_again(rule, text)) for rule, line in self._likes.items())
        rule, line, told = next((each for each in found if each[2] is not None), (-1, None, None))
        if line is None or told is None:
            return False
        is_short = line.speaker == "torchrun" and line.file is not None and _SHORT_STAMP.match(text) is not None
        at = self._short_stamp_in(text) if is_short else self._stamp_in(text)
        if at is None:
            return False
        self._learn(raw, rule, told, line, is_short=is_short)
        self._take_step(told, at, line, offset)
        return True

    def _take_step(self, told: Progress, at: int, line: Line, offset: int) -> None:
        self.attempts.at_line(offset)
        self._hear(at)
        if line.at is None:
            self.attempts.heard(at)
        self._follow_launcher()
        self._tell(told, at, line)
        if line.at is not None:  # as where the line is taken the long way: an attempt ends with what was heard before
            self.attempts.heard(at)

    @property
    def _is_undisturbed(self) -> bool:
        """Nothing waits for the next line but that it is a step."""
        return not (self.state.waiting or self.state.begins or self.attempts.state.is_job_over)

    def _learn(self, raw: bytes, rule: int, told: Progress, line: Line, *, is_short: bool) -> None:
        """Remember how a step line is written."""
        if self._alikes_left <= 0 or any(one.pattern.fullmatch(raw + b"\n") for one in self._alikes):
            return
        self._alikes_left -= 1
        label = _LABEL.search(raw[:LABEL_WITHIN])
        speaker_ends = max(len(self._prefix), 0 if label is None else label.end())
        made = alike(raw, rule, told, line, speaker_ends=speaker_ends, is_short=is_short)
        if made is not None:
            self._alikes = [made, *self._alikes[: MOST_ALIKE - 1]]

    def _learn_bar(self, raw: bytes, line: Line) -> None:
        """Remember how a bar without a stamp is written."""
        if self._alikes_left <= 0 or any(one.pattern.fullmatch(raw + b"\n") for one in self._alikes):
            return
        self._alikes_left -= 1
        if (made := alike_bar(raw, line)) is not None:
            self._alikes = [made, *self._alikes[: MOST_ALIKE - 1]]

    def take_alike(self, block: bytes, at: int, offset: int) -> int:
        """Take the lines from byte `at` of a block on that are steps, each written like one before.

        Gives where the first other line begins; `offset` is where the block begins. What is stated is what
        `take_quickly` states, line by line.
        """
        state, known, alikes = self.state, self.attempts.state, self._alikes
        if (
            not alikes or not self._is_undisturbed or not state.has_steps or state.bars or state.saving or state.first
            or known.held or not known.is_started or known.last_at is None or state.step_at is None
            or (state.pause_began is not None and state.pause_began >= state.step_at)
            or known.attempt != state.attempt
        ):  # fmt: skip
            return at
        heard_at = state.step_at if state.heard_at is None else state.heard_at
        has_bar = state.bar_base and state.bar_epoch is None and self._is_own
        bar_base = (state.bar_base[0], state.bar_base[1]) if has_bar else None
        run = Run(
            state.step or 0, state.step_at, state.step_offset, heard_at, state.silence, state.each_ns, state.untimed,
            bar_base, state.pause_ended or 0, state.together, state.every,
        )  # fmt: skip
        at = read_run(run, alikes, block, at, offset, self._minute_at)
        if run.last_offset is None:
            return at
        self._follow_launcher()
        for told in run.told:
            if told.count is None:
                self.attempts.late_fact(
                    Steps, told.end, told.offset, restart=state.attempt, first_step=told.first_step, start=told.start,
                    durations_us=told.durations_us, every=told.every if told.every > 1 else None,
                )  # fmt: skip
            else:
                self.attempts.at_line(told.offset)
                self._say(
                    Steps, told.end, first_step=told.first_step, start=told.start, durations_us=told.durations_us,
                    count=told.count, every=told.every if told.every > 1 else None,
                )  # fmt: skip
        state.step, state.step_at, state.step_offset, state.each_ns = (
            run.step,
            run.step_at,
            run.step_offset,
            run.each_ns,
        )
        state.heard_at, state.silence, state.together, state.untimed = (
            run.heard_at,
            run.silence,
            run.together,
            run.untimed,
        )
        state.every = run.every
        known.last_at = run.heard_at
        self.attempts.at_line(run.last_offset)
        return at

    def _minute_at(self, kind: Alike, written: bytes) -> int | None:
        """The instant of a minute, as lines of one kind write it."""
        text = written.decode()
        if kind.is_short:
            return self._clock.without_year(text[:2], text[2:4], f"{text[5:]}:00")
        stamp = f"{text.replace('T', ' ')}:00"
        return zoned_instant(stamp, kind.zone) if kind.zone else self._clock.instant(stamp)

    def _short_stamp_in(self, text: str) -> int | None:
        told = _SHORT_STAMP.match(text)
        return None if told is None else self._clock.without_year(told["month"], told["day"], told["clock"])

    def wants(self, raw: bytes) -> bool:
        """Whether a line that may tell of progress is worth reading: of many ranks that say the same, one is read."""
        if self._tells_no_instants:
            return False
        if self._prefix:
            return raw.startswith(self._prefix) or (self._prefix[:1] == b"[" and raw[:1] != b"[")  # it names nobody
        known = self.state.label
        if known is None or self.state.step is None:
            return True
        label = _LABEL.search(raw[:LABEL_WITHIN])
        return label is None or label[1].decode() == known

    @property
    def _tells_no_instants(self) -> bool:
        """Many lines of steps, and none that anything dates."""
        state = self.state
        return state.undated > MOST_UNDATED and not (state.has_steps or state.bars or state.counted)

    @property
    def _done_before(self) -> int | None:
        """Steps that were done before the line that is read; None where that is not known."""
        return self.state.step if self.state.has_steps else self.state.base

    @property
    def _since(self) -> int | None:
        """Since when the next steps are done; None where that is not known."""
        return self.state.step_at if self.state.has_steps else self.state.since

    def flush(self) -> None:
        """State the steps that wait for company."""
        state = self.state
        if state.together:
            first, start, durations, offset = state.together
            state.together = []
            end = start + sum(durations) * 1000
            self.attempts.late_fact(
                Steps, end, offset, restart=state.attempt, first_step=first, start=start,
                durations_us=tuple(durations), every=self._every,
            )  # fmt: skip

    def flush_all(self) -> None:
        """State what waits for company, and the steps of the last instant: nothing will tell how long they took."""
        self.flush()
        state = self.state
        count, state.untimed = state.untimed, 0
        if count and state.step is not None and state.step_at is not None:
            self.attempts.late_fact(
                Steps, state.step_at, state.step_offset, restart=state.attempt, first_step=state.step - count + 1,
                start=state.step_at, durations_us=(0,), count=count, every=self._every,
            )  # fmt: skip

    def end_where_it_broke(self) -> None:
        """The log ends here for good: after a traceback, or a word of the kernel, behind its last step it broke off."""
        state, known = self.state, self.attempts.state
        if not (self._is_own and known.is_started and state.has_steps) or known.is_over or "ended" in known.told:
            return
        behind = [
            fact.at for fact in self.attempts.facts
            if isinstance(fact, Evidence) and fact.restart == state.attempt
            and fact.seq >= (state.step_offset + 1) * FACTS_PER_BYTE
            and (fact.source == "kernel" or "frame" in dict(fact.attributes))
        ]  # fmt: skip
        if behind and known.last_at is not None:
            self.attempts.end(max(known.last_at, *behind), Outcome.FAILED)

    # --- when --------------------------------------------------------------------------------------------------------

    def _hear(self, at: int) -> None:
        """A stamp: the longest silence since the last step is where one attempt ends and the next begins."""
        state = self.state
        if state.began_at is None:
            state.began_at = at
        if state.begins:
            self._begin_where_due(at)
            state = self.state
        state.silence = self._between
        if state.heard_at is not None and at - state.heard_at > (
            state.silence[1] - state.silence[0] if state.silence else 0
        ):
            state.silence = [state.heard_at, at]
        state.heard_at = at

    @property
    def _between(self) -> list[int]:
        """The longest silence since the last step, where it may lie between two attempts: not where an error ended it,
        or where somebody said behind it that he had waited in vain."""
        known, silence = self.attempts.state, self.state.silence
        was_there = bool(silence) and (known.erred_at == silence[1] or (known.waited_at or 0) >= silence[1])
        return [] if was_there else silence

    def _instant(self, raw: bytes, line: Line, told: Progress, stamp: int | None) -> int | None:
        if line.at is not None:
            return line.at
        if (received := _RECEIVED.match(raw)) is not None:
            return int(received[1]) * SECOND + int(received[2].ljust(9, b"0"))
        if stamp is not None:
            return stamp
        state = self.state
        if told.told is not Told.STEP or told.step is None:
            return None
        if state.is_counted and state.speaker is not None and line.stream != state.stream:
            return state.heard_at
        if told.bar_seconds is not None and told.epoch == state.bar_epoch and state.bar_base:
            if state.bars or (state.has_steps and state.step is not None and told.step < state.step):
                return None  # another process drew it: its clock began when that process began, nobody says when
            return self._bar_instant(told, told.bar_seconds)
        before, begun = self._done_before, self._since
        if told.seconds is not None and (told.framework == "nemo" or (state.is_counted and told.framework in COUNTED)):
            known = [at for at in (begun, state.pause_ended, state.heard_at) if at is not None]
            count = told.step - before if before is not None and told.step > before else 1
            return max(known) + round(told.seconds * SECOND) * count if known else None
        if told.seconds is not None and told.framework == "maxtext":
            # It prints steps without a stamp, and the stamps around are those of other threads too.
            known = [at for at in (begun, state.pause_ended) if at is not None]
            count = told.step - before if before is not None and told.step > before else 1
            after = max(known) + round(told.seconds * SECOND) * count if known else state.heard_at
            return None if after is None else max(after, state.heard_at or after)
        if told.seconds is not None and told.framework == "megatron" and before is not None and begun is not None:
            if state.pause_ended is not None and state.pause_ended > begun:
                begun = state.pause_ended
            return begun + round(told.seconds * SECOND) * max(0, told.step - before)
        return None

    def _count(self, told: Progress, line: Line) -> None:
        """A line of a step that nothing dates: of the one speaker, how long its steps took."""
        step, seconds = told.step, told.seconds
        if told.told is not Told.STEP or told.framework not in COUNTED or step is None or seconds is None:
            return
        if told.bar_seconds is not None or not 0 <= seconds < MOST_SECONDS:
            return
        if not self.state.counted:
            self.state.counted = [round(seconds * SECOND), step, line.stream, 1, seconds]
            return
        total, last, stream, first, each = self.state.counted
        if stream != line.stream or step == last:
            return
        if first == 1 and last > 1 and total == round(each * SECOND) and step == 2 * last:
            first, total = last, round(each * SECOND) * last  # one line in so many steps
        total += round(seconds * SECOND) * (step - last if step > last else 1)
        self.state.counted = [total, step, stream, first, each]

    def begin_at(self, at: int, counted: list[Any]) -> None:
        """The log began at `at`, as far as the times that its lines tell of steps say so (`counted` by another)."""
        self.state.is_counted, self.state.counted = True, counted
        self.state.began_at = self.state.heard_at = at
        if counted[3] > 1:
            self.state.base = 0

    def _stamp_in(self, text: str) -> int | None:
        """The first date and time that stands in a text."""
        found = _STAMP.search(text)
        if found is None:
            return None
        stamp = f"{found[1]} {found[2]}"
        return zoned_instant(stamp, found[3]) if found[3] else self._clock.instant(stamp)

    def _wait_for_an_instant(self, told: Progress, line: Line) -> None:
        """A bar that nothing dates yet. The last state of a bar that is drawn again and again is enough of them all."""
        bars = self.state.bars
        if not self._is_training_bar(told):
            return
        if len(bars) >= MOST_BARS:
            half = MOST_BARS // 2
            kept = [  # the last state of an epoch tells its steps; a save that is told beside a bar is placed by it
                bar for before, bar, after in zip([bars[0], *bars], bars[:half], bars[1:], strict=False)
                if not (before[9] == bar[9] == after[9] and bar[3] == after[3])
            ][-half // 2 :]  # fmt: skip
            epochs = {bar[3] for bar in [*kept, *bars[half:]]}
            self.state.undated -= sum(bar[3] in epochs for bar in bars[:half]) - len(kept)
            bars[:half] = kept
        bars.append(
            [told.step, told.bar_seconds, told.seconds, told.epoch, told.total, self.attempts.offset, told.framework,
             line.stream, line.rank, len(self.state.waiting)]
        )  # fmt: skip
        self.attempts.state.open_from = bars[0][5]

    def peek(self, raw: bytes) -> None:
        """The line behind the one that was taken: where it tells when it was, the bars before were drawn by then."""
        text = raw[:STAMP_WITHIN].decode("utf-8", "replace")
        if self.state.bars and "%|" not in text and (at := self._stamp_in(text)) is not None:
            self.date_back(at)

    def date_back(self, until: int) -> None:
        """Date the bars that wait by their own clock: the last of them was drawn at `until`.

        Of those before it, the ones of its epoch, and where no step is dated yet those of the epochs before: each was
        over when the next began, as far as that is known. The others stay undated.
        """
        bars, self.state.bars = self.state.bars, []
        self.attempts.state.open_from = None
        epochs: list[list[list[Any]]] = []
        ended = until
        while bars:
            epoch = _last_epoch(bars, self.state.waiting)
            begins = ended - epoch[-1][1] * SECOND
            if epochs and not self._may_come_before(epoch, begins, epochs[-1]):
                break
            epochs.append(epoch)
            del bars[len(bars) - len(epoch) :]
            ended = begins
        if not epochs:
            return
        waiting, self.state.waiting = self.state.waiting, []
        settled = 0
        self._is_counted_on = True
        for epoch in reversed(epochs):
            ended += epoch[-1][1] * SECOND
            settled = self._date_epoch(epoch, ended, waiting, settled)
        self._is_counted_on = False
        self.state.waiting = [*waiting[settled:], *self.state.waiting]

    def _may_come_before(self, epoch: list[list[Any]], began: int, following: list[list[Any]]) -> bool:
        """Whether an epoch that began at `began`, were it over when the next one began, fits what is known.

        The next one is the same again where the program began anew: the trainer of Transformers draws one bar over all
        epochs, and a bar of an epoch is begun again by another process alone.
        """
        state, number = self.state, epoch[0][3]
        earliest = state.heard_at if state.heard_at is not None else state.began_at
        if number is None:
            is_next = following[0][3] is None and {epoch[0][6], following[0][6]} == {"transformers"}
        else:
            is_next = following[0][3] in (number, number + 1)
        return not state.has_steps and is_next and (earliest is None or began >= earliest)

    def _date_epoch(self, bars: list[list[Any]], until: int, waiting: list[list[Any]], settled: int) -> int:
        """Date bars of one epoch, the last of which was drawn at `until`.

        `waiting` is what was told without a stamp, `settled` how much of it has its place already; so much has after.
        """
        first_bar, last = bars[0], bars[-1]
        began = until - last[1] * SECOND
        place = self.attempts.place
        self.attempts.back_at(first_bar[5])
        self.state.waiting = waiting[settled : first_bar[9]]
        settled = max(settled, first_bar[9])
        self._begin_where_due(began)
        self._settle(began, None)
        self._bar_begins(began, first_bar)
        at = began
        for step, clock, seconds, epoch, total, first, framework, stream, rank, ahead in bars:
            before, at = at, began + clock * SECOND
            if first != self.attempts.offset:
                self.attempts.back_at(first)
            if ahead > settled:
                self._settle_between(waiting[settled:ahead], before, at)
                settled = ahead
            self._step(
                Progress(Told.STEP, framework, step, seconds, clock, total, epoch=epoch), at,
                Line("", rank=rank, stream=stream),
            )  # fmt: skip
            self.state.undated -= 1
            self.state.dated_back += 1
        self.attempts.return_to(place)
        if self._is_own:
            self.attempts.state.last_at = until
        self.state.bar_base, self.state.bar_epoch = [until, last[1]], last[3]
        return settled

    def date_end(self, at: int) -> None:
        """Nothing follows for now, and the log was written last at `at`: what it says behind its last bar was then."""
        self.date_back(at)
        state = self.state
        while state.waiting and state.waiting[0][0] in (Told.SAVING, Told.FINISHED):
            kind, framework, step, seconds, *_ = state.waiting.pop(0)
            self._moment(Progress(Told(kind), framework, step, seconds), at)

    def _settle_between(self, waiting: list[list[Any]], before: int, at: int) -> None:
        """What was told between two states of a bar: what begins began behind the first."""
        for kind, framework, step, seconds, *_ in waiting:
            told = Progress(Told(kind), framework, step, seconds)
            self._moment(told, before if told.told in (Told.SAVING, Told.LOADING, Told.EVALUATING) else at)

    def _bar_begins(self, at: int, bar: list[Any]) -> None:
        """An epoch began when its bar's clock was at 0: its steps, but those that were loaded, came after that."""
        step, _, _, epoch, total, _, framework, *_ = bar
        self.state.framework = self.state.framework or framework
        self._own_attempt(at)
        state = self.state
        done_before = 0 if epoch is None else epoch * (total or 0)
        if epoch is None or step is None or not 0 <= step - done_before <= (total or 0):
            return
        if state.has_steps and state.step is not None and state.step < done_before:
            self._done(Progress(Told.STEP, framework, done_before), at, done_before)  # of epochs that nothing dated
            state.step, state.step_at, state.heard_at = done_before, at, at
        elif state.has_steps:
            state.pause_began, state.pause_ended = state.step_at, at
        else:
            state.base, state.since = max(done_before, state.base or 0), at

    def _bar_instant(self, told: Progress, clock: int) -> int:
        """A bar tells whole seconds, and how long a step takes: the instant in that second that fits best."""
        state = self.state
        earliest = state.bar_base[0] + (clock - state.bar_base[1]) * SECOND
        before = self._done_before
        if state.heard_at is not None and state.heard_at - earliest > SECOND:  # its clock began later than was said
            count = 0 if before is None or told.step is None else max(told.step - before, 0)
            rate = round((told.seconds or 0) * SECOND)
            each = min(rate, state.each_ns or state.each_before or rate)
            earliest = max(state.heard_at, state.pause_ended or 0) + each * count
            state.bar_base = [earliest, clock]
            return earliest // 1000 * 1000
        if told.seconds is None or before is None or state.step_at is None or told.step is None:
            return earliest
        likely = max(state.step_at, state.pause_ended or 0) + round(told.seconds * SECOND) * (told.step - before)
        return min(max(likely, earliest, state.step_at), earliest + SECOND) // 1000 * 1000  # as steps are told

    # --- what --------------------------------------------------------------------------------------------------------

    def _tell(self, told: Progress, at: int | None, line: Line) -> None:
        told = self._counted_from_one(told)
        state = self.state
        if state.framework is None or state.framework == "any":
            state.framework = told.framework
        if told.framework == "any" and state.framework != "any" and told.told is not Told.STEP:
            if told.told not in OF_SAVES or state.tells_saves or not state.has_steps:
                return  # the framework says so in its own words
        elif told.told in OF_SAVES and told.framework != "any":
            state.tells_saves = True
        if told.step is not None and told.step > LARGEST_STEP:
            return
        if at is not None and told.told is not Told.BANNER:
            self._begin_where_due(at)
        if told.told is Told.BANNER:
            self._banner(told, at)
        elif told.told is Told.TARGET:
            state.bar_total = told.total
        elif told.told is Told.FRESH:
            state.base = 0 if not state.has_steps else state.base
        elif told.told is Told.FINISHED and not (at is None and state.bars):
            self._finished(at if at is not None else state.heard_at)
        elif at is None:
            self._undated(told)
        elif told.told is Told.STEP:
            self._step(told, at, line)
        else:
            state.said_at = at
            self._moment(told, at)

    def _counted_from_one(self, told: Progress) -> Progress:
        """What names a checkpoint by a number, with the steps that are done in it."""
        state = self.state
        if told.step is None:
            return told
        if told.framework == "orbax":  # MaxText names it by the last step, which it counts from 0
            is_maxtext = state.framework in (None, "maxtext")
            return replace(told, framework="maxtext" if is_maxtext else "any", step=told.step + is_maxtext)
        if told.or_next or (told.framework == "lightning" and state.framework == "nemo"):
            known = [state.step] if told.or_next else state.saved
            return told if told.step in known and told.step + 1 not in known else replace(told, step=told.step + 1)
        return told

    def _undated(self, told: Progress) -> None:
        """What begins without a stamp begins at the last one; what ends waits for the next."""
        state = self.state
        is_placed = state.heard_at is not None and not state.bars
        if told.told is Told.SAVE_TOOK:
            self._save_took(told)
        elif told.told is Told.LOAD_TOOK:
            loaded = next((one for one in reversed(state.waiting) if one[0] == Told.LOADED.value), None)
            if loaded is not None:
                loaded[3] = told.seconds
        elif told.told is Told.LOADING and is_placed and state.heard_at != state.said_at:
            state.loading = [told.step, None]
        elif told.told in (Told.SAVING, Told.LOADING, Told.EVALUATING) and is_placed and state.heard_at is not None:
            self._moment(told, state.heard_at)
        elif told.told not in (Told.STEP, Told.CLOCK, Told.STILL_SAVING) and self._has_room_to_wait():
            is_stated = told.told is Told.SAVED and is_placed and state.heard_at is not None and not state.begins
            if is_stated and state.heard_at is not None:
                self._durable_by(told, state.heard_at)
            state.waiting.append([told.told.value, told.framework, told.step, told.seconds, is_stated])

    def _has_room_to_wait(self) -> bool:
        """Beside bars that nothing dates the first are let go for it: the last save is the one that counts."""
        state = self.state
        if len(state.waiting) >= MOST_WAITING and state.bars:
            del state.waiting[: MOST_WAITING // 2]
            for bar in state.bars:
                bar[9] = max(0, bar[9] - MOST_WAITING // 2)
        return len(state.waiting) < MOST_WAITING

    def _durable_by(self, told: Progress, at: int) -> None:
        """A save is over, and no stamp says since when: it is durable though nothing more should follow."""
        state = self.state
        step = told.step if told.step is not None else state.saving[0] if state.saving else state.step
        if step is None or (told.framework == "torchtitan" and state.is_async):
            return
        self._own_attempt(at)
        self._say(CheckpointMoment, at, step=step, stage=CheckpointStage.DURABLE)

    def _save_took(self, told: Progress) -> None:
        """How long training waited for saves that no stamp ends: they are over so long after they began."""
        state = self.state
        if not state.saving or state.bars or told.seconds is None:
            return
        ended = [one for one in state.waiting if one[0] in (Told.SAVED, Told.SCHEDULED)]
        state.waiting = [one for one in state.waiting if one not in ended]
        at = state.saving[1] + round(told.seconds * SECOND)
        for kind, framework, step, *_ in ended:
            self._saved(Progress(Told(kind), framework, step), at)

    def _settle(self, at: int, told: Progress | None, *, by_another: bool = False) -> None:
        """What waited for a stamp was before the steps that this one ends, where it tells how long they took.

        Where training did not go on after a save, the stamp does not tell until when it saved: another program begins,
        or a launcher or a watchdog speaks (`by_another`).
        """
        state = self.state
        if not state.waiting:
            return
        is_another = by_another or state.begins or (told is not None and told.told in BRING_UP)
        if is_another or any(one[0] in BRING_UP for one in state.waiting):
            state.waiting = [one for one in state.waiting if one[4:5] != [True]]
        if told is not None and told.told is Told.STEP and told.seconds is not None and told.step is not None:
            before = self._done_before
            for kind, _, step, *_ in state.waiting:
                if kind in (Told.RESUMING, Told.LOADED) and step is not None and step < told.step:
                    before = step
            if before is not None and told.bar_seconds is None and told.step > before:
                at -= round(told.seconds * SECOND) * (told.step - before)
        elif told is not None and told.told is Told.STEP and told.bar_seconds is None:
            # Steps were done before this stamp too, and nobody says how long they took: so is not how long it saved.
            state.waiting = [one for one in state.waiting if one[4:5] != [True] or one[3] is not None]
        at = max(at, state.heard_at or at)
        waiting, state.waiting = state.waiting, []
        for kind, framework, step, seconds, *_ in waiting:
            self._moment(Progress(Told(kind), framework, step, seconds), at)

    def _moment(self, told: Progress, at: int) -> None:
        state = self.state
        match told.told:
            case Told.READY:
                self._ready(at)
            case Told.SAVING:
                self._saving(told, at)
            case Told.SCHEDULED | Told.SAVED:
                self._saved(told, at)
            case Told.STALLED:
                self._stalled(told, at)
            case Told.STILL_SAVING:
                self._still_saving(told, at)
            case Told.LOADING:
                state.loading = [told.step, at]
            case Told.RESUMING:
                self._resuming(told, at)
            case Told.LOADED:
                self._loaded(told, at)
            case Told.FINISHED:
                self._finished(at)
            case Told.EVALUATING:
                self._pause(at)
                state.evaluating = at
            case Told.EVALUATED:
                if state.evaluating is not None and at > state.evaluating:
                    self._say(PhaseSpan, at, phase=Phase.EVALUATING, start=state.evaluating, end=at)
                    state.pause_ended = at
                state.evaluating = None

    def _step(self, told: Progress, at: int, line: Line) -> None:
        state, step = self.state, told.step
        speaker = f"{line.rank if line.rank is not None else line.stream}"
        if step is None or (told.total is not None and not self._is_training_bar(told)):
            return
        if state.speaker is None:
            state.speaker = speaker
            state.stream = line.stream
            label = _LABEL.search(self._raw[:LABEL_WITHIN])
            state.label = None if label is None else label[1].decode()
            if label is not None and label.end() < LONGEST_PREFIX:
                self._prefix = self._raw[: label.end()]
        elif state.speaker != speaker:
            return
        is_another_job = self.attempts.state.is_job_over and self._is_own
        if state.has_steps and state.step is not None and (step < state.step or is_another_job):
            self._come_again(step, at, told)
            state = self.state
            state.speaker, state.stream = speaker, line.stream
        self._own_attempt(at)
        if state.has_steps and step == state.step:
            return
        if not state.has_steps:
            if told.epoch is not None and state.base is None and step == told.epoch * (told.total or 0) + 1:
                state.base = step - 1  # an epoch begins with it, and its bar's clock then
                state.since = max(state.since or 0, at - (told.bar_seconds or 0) * SECOND)
            self._load_is_over(step)
        if self._jumps(told, step):
            state.base, state.step = step - 1, step - 1
        self._went_on(at)
        self._done(told, at, step)
        if not state.has_steps:
            self._mark_ready()
        state.step, state.step_at, state.has_steps, state.step_offset = step, at, True, self.attempts.offset
        state.silence, state.heard_at = [], at

    def _jumps(self, told: Progress, step: int) -> bool:
        """Whether a bar of Transformers passes over steps that were loaded: behind a restart its first state that
        counts any comes far too soon to have done them all. It is drawn when the first of its own is done."""
        state = self.state
        is_first = state.step == 0 or (not state.has_steps and not state.base)
        if told.framework != "transformers" or told.seconds is None or not is_first or step <= 1:
            return False
        usual = state.each_before
        return usual is not None and told.seconds * SECOND * SOONER < usual

    def _is_training_bar(self, told: Progress) -> bool:
        """Bars of evaluations and of loading shards have another total."""
        if told.epoch is not None or told.framework != "transformers":
            return True
        return self.state.bar_total is not None and told.total == self.state.bar_total

    def _done(self, told: Progress, at: int, step: int) -> None:
        """Steps up to one are done."""
        state = self.state
        before = self._done_before
        is_bar = told.bar_seconds is not None  # its rate is an average
        each = None if told.seconds is None or (is_bar and state.has_steps) else round(told.seconds * SECOND)
        count = step - before if before is not None else 1 if each is not None else 0
        interval = count
        if before is not None and count > 0:
            interval = steps_between(before, step)
            if state.has_steps:
                state.every = told_every(interval, state.every if is_bar else 1)
            else:
                state.every = max(interval, state.every)
        count += state.untimed if count > 0 else 0
        if count <= 0:
            state.first = [] if state.has_steps else [step, at]
            return
        if each is not None:
            start = at - each * count
        else:
            begun = self._since
            if begun is None:
                state.first = [step, at]
                return
            start = begun
            began, ended = state.pause_began, state.pause_ended
            if began is not None and ended is not None and begun <= began <= ended < at:
                is_next = began - begun <= (state.each_ns or SECOND) // 2
                start = ended if is_next else start
        floor = self._since
        if floor is not None:
            start = max(start, floor)
        if is_bar:
            at = max(at, start)
        total_us = (at - start) // 1000
        state.untimed = count if total_us == 0 else 0
        if not 0 < total_us <= LONGEST_STEP_US * count:
            return
        state.each_ns = (at - start) // count
        if state.first:
            self._first_steps(interval)
        if count == 1:
            self._together(step, start, total_us)
        else:
            self.flush()
            self._say(
                Steps, at, first_step=step - count + 1, start=start, durations_us=(total_us,), count=count,
                every=self._every,
            )  # fmt: skip

    @property
    def _every(self) -> int | None:
        """As a fact says it: None where each step is told."""
        return self.state.every if self.state.every > 1 else None

    def _first_steps(self, interval: int) -> None:
        """What the first step line of the attempt told, now that it is known how long a step takes."""
        state = self.state
        step, at = state.first
        state.first = []
        base = state.base if state.base is not None else 0 if step == interval else None
        if base is None or state.each_ns is None or not base < step:
            return
        start = at - state.each_ns * (step - base)
        earliest = self.attempts.state.last_mark_at if not self._is_own else state.began_at
        start = start if earliest is None else max(start, min(earliest, at))
        self.flush()
        self._say(
            Steps, at, first_step=base + 1, start=start, durations_us=((at - start) // 1000,), count=step - base,
            every=self._every,
        )  # fmt: skip

    def _together(self, step: int, start: int, length_us: int) -> None:
        state = self.state
        if state.together:
            first, begun, durations, _ = state.together
            end = begun + sum(durations) * 1000
            if first + len(durations) != step or abs(start - end) > 1_000_000 or len(durations) >= MOST_TOGETHER:
                self.flush()
            else:
                durations.append(max(0, length_us + (start - end) // 1000))
                state.together[3] = self.attempts.offset
                return
        state.together = [step, start, [length_us], self.attempts.offset]

    def _saving(self, told: Progress, at: int) -> None:
        state = self.state
        self._went_on(at)
        step = told.step if told.step is not None else state.step
        self._own_attempt(at)
        self._pause(at)
        if step is not None and not (state.saving and state.saving[0] == step):
            state.saving = [step, at, told.framework]
            self._say(CheckpointMoment, at, step=step, stage=CheckpointStage.STARTED)

    def _stalled(self, told: Progress, at: int) -> None:
        """Training waited for a save until now, and its line says how long; what follows says whether it is written."""
        state = self.state
        if told.step is None or told.seconds is None:
            return
        self._own_attempt(at)
        length = round(told.seconds * SECOND)
        begun = max(at - length, state.step_at or 0)  # its stamp has whole seconds
        at = begun + length
        self._say(PhaseSpan, at, phase=Phase.SAVING, start=begun, end=at)
        self._say(
            CheckpointMoment, begun, step=told.step, stage=CheckpointStage.STARTED, blocked_us=(at - begun) // 1000
        )
        state.pause_began, state.pause_ended = begun, at
        state.stalled = told.step

    def _still_saving(self, told: Progress, at: int) -> None:
        """It saved until now at least: how long it does is not told."""
        state = self.state
        if not state.saving or told.step != state.saving[0]:
            return
        begun = max(state.saving[1], state.pause_ended or 0)
        if begun < at:
            self._say(PhaseSpan, at, phase=Phase.SAVING, start=begun, end=at)
            state.pause_ended = at

    def _saved(self, told: Progress, at: int) -> None:
        state = self.state
        self._own_attempt(at)
        begun = state.saving[1] if state.saving else None
        step = told.step if told.step is not None else state.saving[0] if state.saving else state.step
        if begun is not None and state.saving[0] != step:
            begun = None
        if begun is None and told.seconds is not None:
            begun = at - round(told.seconds * SECOND)
        is_captured = told.told is Told.SCHEDULED or (told.framework == "torchtitan" and state.is_async)
        blocked = None
        if begun is not None and at >= begun:
            blocked = (at - begun) // 1000
            self._say(PhaseSpan, at, phase=Phase.SAVING, start=begun, end=at)
            state.pause_began, state.pause_ended = begun, at
            state.saving = []
        if step is None:
            return
        stage = CheckpointStage.CAPTURED if is_captured else CheckpointStage.DURABLE
        if told.framework in ONE_SAVE_AT_A_TIME:
            self._follows_save(step, at)
        before = state.captured
        captured = [one for one in before if one != step]
        state.stalled = None if told.told is Told.SCHEDULED else state.stalled
        state.captured = [*captured, step][-MOST_CAPTURED:] if is_captured else captured
        is_sync = blocked is not None or (state.stalled == step and step not in before)
        mode = "async" if is_captured else "sync" if is_sync else None
        if told.framework == "nemo":
            state.saved = [*(one for one in state.saved if one != step), step][-MOST_CAPTURED:]
        self._say(CheckpointMoment, at, step=step, stage=stage, mode=mode, blocked_us=blocked)

    def _follows_save(self, step: int, at: int) -> None:
        """A save of MaxText's checkpointer: those before it are over, and its steps are done, told or not."""
        state = self.state
        for before in [one for one in state.captured if one < step]:
            self._say(CheckpointMoment, at, step=before, stage=CheckpointStage.DURABLE)
        state.captured = [one for one in state.captured if one >= step]
        if state.has_steps and state.step is not None and state.step < step <= state.step + MOST_AHEAD:
            state.ahead = [step, at, self.attempts.offset]

    def tell_ahead(self) -> None:
        """No line of a step follows in this attempt: the steps of its last save were done by then."""
        state = self.state
        ahead, state.ahead = state.ahead, []
        if not ahead or state.step is None or state.step_at is None or not ahead[0] > state.step:
            return
        self.flush_all()
        (step, at, offset), begun = ahead, state.step_at
        self.attempts.late_fact(
            Steps, max(at, begun), max(offset, state.step_offset), restart=state.attempt, first_step=state.step + 1,
            start=begun, durations_us=(max(at - begun, 0) // 1000,), count=step - state.step,
        )  # fmt: skip
        state.step, state.step_at = step, max(at, begun)

    def _went_on(self, at: int) -> None:
        """A save that nothing ends, of a framework that waits for it: training went on, so it was over."""
        if not self.state.saving or self.state.saving[2] not in SAVES_WHILE_WAITING:
            return
        step, begun, _ = self.state.saving
        self.state.saving = []
        self._say(CheckpointMoment, at, step=step, stage=CheckpointStage.DURABLE)
        self.state.pause_ended = max(begun, self.state.pause_ended or 0)

    def _resuming(self, told: Progress, at: int) -> None:
        """It says which checkpoint it goes on from: the load begins, and may be told of no more."""
        state, step = self.state, told.step
        if step is None or (state.has_steps and step > (state.step or 0)):
            return  # weights of another run, or a remark: training does not go forward by loading
        if state.has_steps:
            self._come_again(step, at, told)
            state = self.state
        elif state.base == step:
            return  # it is loaded already, or another rank said so
        self._own_attempt(at)
        self._was_durable(step, at)
        state.loading, state.base = [step, at], step

    def _was_durable(self, step: int, at: int) -> None:
        """What can be loaded was written, though nothing before said so."""
        state = self.state
        if step in state.captured:
            state.captured = [one for one in state.captured if one != step]
            self._say(CheckpointMoment, at, step=step, stage=CheckpointStage.DURABLE)

    def _loaded(self, told: Progress, at: int) -> None:
        state = self.state
        step = told.step if told.step is not None else state.loading[0] if state.loading else None
        begun = state.loading[1] if state.loading else None
        state.loading = []
        if told.seconds is not None:
            begun = max(at - round(told.seconds * SECOND), begun or 0)
        if step is None and (begun is None or told.framework not in TELLS_NO_STEP):
            return
        if state.has_steps:
            if step is not None and step > (state.step or 0):
                return  # weights of another run, or a remark: training does not go forward by loading
            self._come_again(step, at if begun is None else begun, told)
            state = self.state
            state.loading = []
        elif step is not None and state.base == step and (begun is None or state.loaded):
            return  # every rank says so
        begun = at if begun is None else min(begun, at)
        self._own_attempt(begun)
        if step is None:
            self._say(PhaseSpan, at, phase=Phase.LOADING, start=begun, end=at)
            state.loaded, state.since = [begun, at], at
            return
        self._was_durable(step, begun)
        self._say(CheckpointLoaded, at, step=step, start=begun, end=at)
        state.base, state.since = step, at

    def _load_is_over(self, step: int) -> None:
        """The first step of an attempt that told of a load, and not of its end or not of its step."""
        state = self.state
        if state.loading and None not in state.loading and state.base == state.loading[0]:
            at = state.loading[1]
            if state.base > 0:  # "starting from step 0" loads nothing
                self._say(CheckpointLoaded, at, step=state.base, start=at, end=at)
            state.loading = []
        if state.loaded and state.base is None and state.every == 1 and state.each_before is not None:
            state.base = step - 1
        if state.loaded and state.base:
            begun, at = state.loaded
            state.loaded = []
            self._say(CheckpointLoaded, at, step=state.base, start=begun, end=at)

    def _ready(self, at: int) -> None:
        state = self.state
        if state.has_steps:
            self._come_again(None, at, None)
            state = self.state
        self._own_attempt(at)
        state.since = at
        state.bar_base = [at, 0]
        if state.base is None:
            state.base = 0
        self._mark_ready()

    def _mark_ready(self) -> None:
        """Bring-up is over, as far as that is known."""
        since = self.state.since
        if since is not None and MarkStage.INITIALIZED.value not in self.attempts.state.told:
            self.attempts.state.told.append(MarkStage.INITIALIZED.value)
            self._say(RecoveryMark, since, stage=MarkStage.INITIALIZED, by="log")

    def _pause(self, at: int) -> None:
        self.state.pause_began, self.state.pause_ended = at, None

    def _finished(self, at: int | None) -> None:
        state = self.state
        if at is None:
            return
        if state.pause_ended is not None and 0 < state.pause_ended - at < SECOND:
            at = state.pause_ended  # a save took so many milliseconds; the stamp is of whole seconds
        self._went_on(at)
        self.tell_ahead()
        self.flush_all()
        if state.has_steps and self._is_own:
            self.attempts.end_run(at, Outcome.COMPLETED)

    # --- attempts that the log itself tells ---------------------------------------------------------------------------

    @property
    def _is_own(self) -> bool:
        """Nobody else tells here when attempts begin: no launcher that says so, and no in-process wrapper.

        A launcher that only tells of ends (a signal it passes on, at torchrun's usual log level) is silent about what
        comes after them; an exit it reaped is followed by `Attempts.next_where_untold`.
        """
        known = self.attempts.state
        return not (known.tells_starts or known.exits or known.iterations)

    def _banner(self, told: Progress, at: int | None) -> None:
        state = self.state
        state.world_size = told.world_size
        if state.has_steps or not self.attempts.state.is_started:
            state.begins = True
        if at is not None:
            self._begin_where_due(at)

    def _follow_launcher(self) -> None:
        """Where a launcher says that another attempt is on, nothing that was known of the one before holds."""
        if self.attempts.state.attempt != self.state.attempt:
            self._forget()

    def _begin_where_due(self, at: int) -> None:
        if self.state.begins:
            self.state.begins = False
            self._restart(at)

    def _come_again(self, step: int | None, at: int, told: Progress | None) -> None:
        """A step that was done comes again, or the loop begins again: another attempt."""
        length = 0 if told is None or told.told is not Told.STEP else round((told.seconds or 0) * SECOND)
        loading = self.state.loading
        load_began = loading[1] if loading and loading[1] is not None else at
        begun = min(at - length, load_began, self._between[1] if self._between else at)
        self._restart(max(begun, self.state.step_at or begun))
        self.state.loading = loading
        if step is not None and told is not None and told.told is Told.STEP:
            self.state.base = step - 1 if told.seconds is not None else None

    def _restart(self, at: int) -> None:
        """Another attempt begins at `at`."""
        attempts = self.attempts
        if self.state.has_steps and self.state.step_at is not None and at < self.state.step_at:
            at = max(self.state.step_at, attempts.state.last_at or 0)  # what was printed before was not done after
        if self._is_own:
            known = attempts.state
            if known.is_started:
                if known.last_at is not None:
                    attempts.finish_before_line()  # what waited for a stamp was printed before
                ended = known.last_at or at
                if self.state.silence:
                    ended = self.state.silence[0] if self._between else self.state.heard_at or at
                is_untold = self._is_counted_on and at <= max(ended, self.state.step_at or ended)
                attempts.end(min(at, ended), Outcome.FAILED if known.evidence_count else None)
                attempt = known.attempt + 1
            else:
                attempt, is_untold = known.attempt, False
                at = min(at, self.state.began_at or at)
            self._forget()
            self._begin(at, attempt, is_down_untold=is_untold)
        else:
            attempts.next_where_untold(at)
            self._forget()

    def _forget(self) -> None:
        """Another attempt: what was known of the one before does not hold for it."""
        self.tell_ahead()
        self.flush_all()
        state = self.state
        self.state = ProgressState(
            framework=state.framework, undated=state.undated, is_told=state.is_told,
            bar_total=state.bar_total, world_size=state.world_size, is_async=state.is_async,
            attempt=self.attempts.state.attempt, heard_at=state.heard_at,
            waiting=state.waiting, dated_back=state.dated_back, captured=state.captured, is_counted=state.is_counted,
            every=state.every, saved=state.saved, is_clocked=state.is_clocked, tells_saves=state.tells_saves,
            each_before=state.each_ns or state.each_before,
        )  # fmt: skip

    def _own_attempt(self, at: int) -> None:
        """The first thing that is told of a run belongs to its first attempt."""
        if self._is_own and not self.attempts.state.is_started:
            began = self.state.began_at
            self._begin(at if began is None else min(at, began), self.attempts.state.attempt)

    def _begin(self, at: int, attempt: int, *, is_down_untold: bool = False) -> None:
        known = self.attempts.state
        is_first = not known.is_started
        scope, initiator = (None, None) if is_first else self.attempts.how_restarted()
        if not is_first:
            at = max(at, known.ended_at or at)
            self.attempts.enter(at, attempt)
        known.is_started = True
        self.state.attempt = attempt
        if self.state.began_at is None:
            self.state.began_at = at  # of a whole log the next line that is looked at may be one of steps
        self._say(
            AttemptStarted, at, scope=scope, initiator=initiator, world_size=self.state.world_size,
            down_untold=is_down_untold or None,
        )  # fmt: skip
        self._say(RecoveryMark, at, stage=MarkStage.WORKERS_STARTED, by="log")
        if not self.state.is_told and self.state.framework not in (None, "any"):
            self.state.is_told = True
            self._say(RunStarted, at, framework=self.state.framework, world_size=self.state.world_size)

    def _say(self, kind: type, at: int, **told: Any) -> None:
        self.attempts.state_fact(kind, at, **{"restart": self.state.attempt, **told})


def _last_epoch(bars: list[list[Any]], waiting: list[list[Any]]) -> list[list[Any]]:
    """The bars at the end that are states of one: of one epoch, none of them goes back, and nothing that was told
    between them (`waiting`) loads a step before them."""
    begin = len(bars) - 1
    while begin and bars[begin - 1][3] == bars[-1][3] and all(
        earlier <= later for earlier, later in zip(bars[begin - 1][:2], bars[begin][:2], strict=True)
    ) and not any(
        kind in (Told.LOADING, Told.RESUMING, Told.LOADED) and step is not None and step < bars[begin - 1][0]
        for kind, _, step, *_ in waiting[bars[begin - 1][9] : bars[begin][9]]
    ):  # fmt: skip
        begin -= 1
    return bars[begin:]
