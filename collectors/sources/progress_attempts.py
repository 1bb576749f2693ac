"""Own attempts: those that a training log tells itself, where nobody else says when they begin.

Rules
- Where no launcher says when attempts start, the log tells its attempts itself: the program that begins anew, or a step
  that comes again, is a restart. What was printed last before it is the end of the attempt before. Words of a launcher
  about an end alone (a signal it passes on) say nothing about what starts after it.
- A step that comes again does not say when its attempt began: the longest silence since the last step is between the
  two, unless an error ended it or somebody waited in it. A load that began before it belongs to the later attempt.
- Where a restart is dated by nothing but what was told before it, how long the run was down is not known
  (`down_untold`).
- Of what was known of the attempt before only what is true of the whole log is kept (`_forget`).
- An attempt is brought up when its loop begins or its load ended, as far as that is told; else nothing is said of it.
- Where a line says last that training is done, and no step follows, the attempt was completed: what comes after it is
  more work, and no restart.
- A log that ends for good behind an error, or a word of the kernel, ends its attempt there.
"""

from __future__ import annotations

import re

from rerail.collectors.sources.alike_lines import SECOND
from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE
from rerail.collectors.sources.progress_lines import Progress, Told
from rerail.collectors.sources.progress_state import ProgressState
from rerail.collectors.sources.progress_steps import DoneSteps
from rerail.collectors.sources.progress_training import Training
from rerail.server.core.facts import (
    AttemptStarted,
    Evidence,
    Initiator,
    MarkStage,
    Outcome,
    RecoveryMark,
    RunStarted,
    Scope,
)

_OF_A_PART = re.compile(r"\b(?:epochs?|steps?|phase|stage|batch|fold|round|iterations?)\b", re.I)
"""Of what a line says that it is done, where that is not the whole."""


class OwnAttempts:
    """States when attempts begin and end, and forgets what was known of those before."""

    def __init__(self, training: Training, steps: DoneSteps) -> None:
        self._training = training
        self._attempts = training.attempts
        self._steps = steps

    def hear(self, at: int) -> None:
        """A stamp: the longest silence since the last step is where one attempt ends and the next begins."""
        state = self._training.state
        if state.began_at is None:
            state.began_at = at
        if state.begins:
            self.begin_where_due(at)
            state = self._training.state
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
        known, silence = self._attempts.state, self._training.state.silence
        was_there = bool(silence) and (known.erred_at == silence[1] or (known.waited_at or 0) >= silence[1])
        return [] if was_there else silence

    def banner(self, told: Progress, at: int | None) -> None:
        """The program begins anew; when that is, its first stamp tells."""
        state = self._training.state
        if at is None and state.bars and not any(one[0] == Told.BANNER for one in state.waiting):
            state.waiting.append([Told.BANNER.value, told.framework, None, None, False])
            return
        state.world_size = told.world_size
        is_done = any(one[0] == Told.FINISHED for one in state.waiting)
        state.broke_off = int(state.is_fitting and not (state.has_steps or is_done))
        state.is_fitting, state.is_fresh, state.unnamed = False, told.framework == "lightning", []
        if state.has_steps or not self._attempts.state.is_started:
            state.begins = True
        if at is not None:
            self.begin_where_due(at)

    def fitting(self) -> None:
        """A program shows the model that it is to train."""
        self._training.state.is_fitting = not self._training.state.has_steps

    def goes_on(self) -> None:
        """A program loads: where the one before told nothing but that it was to train, it broke off."""
        state = self._training.state
        state.is_fresh = False
        if state.broke_off and not state.is_fitting:
            state.broke_off = 2 if state.begins else 0
            state.begins = True

    def follow_launcher(self) -> None:
        """Where a launcher says that another attempt is on, nothing that was known of the one before holds."""
        if self._attempts.state.attempt != self._training.state.attempt:
            self._forget()

    def begin_where_due(self, at: int) -> None:
        """The first stamp of a program that began anew."""
        state = self._training.state
        if state.begins:
            state.begins = False
            is_fresh = state.is_fresh
            if state.broke_off == 2:
                self._restart(at)  # of the one before nothing else is known
            self._restart(at)
            self._training.state.is_fresh = is_fresh

    def come_again(self, step: int | None, at: int, told: Progress | None) -> None:
        """A step that was done comes again, or the loop begins again: another attempt."""
        state = self._training.state
        length = 0 if told is None or told.told is not Told.STEP else round((told.seconds or 0) * SECOND)
        loading = state.loading
        load_began = loading[1] if loading and loading[1] is not None else at
        begun = min(at - length, load_began, self._between[1] if self._between else at)
        self._restart(max(begun, state.step_at or begun))
        state = self._training.state
        state.loading = loading
        if step is not None and told is not None and told.told is Told.STEP:
            state.base = step - 1 if told.seconds is not None else None

    def _restart(self, at: int) -> None:
        """Another attempt begins at `at`."""
        attempts, state = self._attempts, self._training.state
        if state.has_steps and state.step_at is not None and at < state.step_at:
            at = max(state.step_at, attempts.state.last_at or 0)  # what was printed before was not done after
        if self._training.tells_attempts:
            known = attempts.state
            if known.is_started:
                if known.last_at is not None:
                    attempts.finish_before_line()  # what waited for a stamp was printed before
                ended = known.last_at or at
                if state.silence:
                    ended = state.silence[0] if self._between else state.heard_at or at
                is_untold = self._training.is_counted_on and at <= max(ended, state.step_at or ended)
                outcome = Outcome.FAILED if known.evidence_count else None
                attempts.end(min(at, ended), Outcome.COMPLETED if self._was_done else outcome)
                attempt = known.attempt + 1
            else:
                attempt, is_untold = known.attempt, False
                at = min(at, state.began_at or at)
            self._forget()
            self._begin(at, attempt, is_down_untold=is_untold)
        else:
            attempts.next_where_untold(at)
            self._forget()

    def _forget(self) -> None:
        """Another attempt: what was known of the one before does not hold for it."""
        self._steps.tell_ahead()
        self._steps.flush_all()
        state = self._training.state
        self._training.state = ProgressState(
            framework=state.framework, undated=state.undated, is_told=state.is_told,
            bar_total=state.bar_total, world_size=state.world_size, is_async=state.is_async,
            attempt=self._attempts.state.attempt, heard_at=state.heard_at,
            waiting=state.waiting, dated_back=state.dated_back, captured=state.captured, is_counted=state.is_counted,
            behind_ns=state.behind_ns, went_back=state.went_back,
            every=state.every, saved=state.saved, is_clocked=state.is_clocked, tells_saves=state.tells_saves,
            each_before=state.each_ns or state.each_before,
        )  # fmt: skip

    def begin_first(self, at: int) -> None:
        """The first thing that is told of a run belongs to its first attempt."""
        if self._training.tells_attempts and not self._attempts.state.is_started:
            began = self._training.state.began_at
            self._begin(at if began is None else min(at, began), self._attempts.state.attempt)

    def _begin(self, at: int, attempt: int, *, is_down_untold: bool = False) -> None:
        state, known = self._training.state, self._attempts.state
        is_first = not known.is_started
        scope, initiator = (None, None) if is_first else self._attempts.how_restarted()
        if known.ended_as == Outcome.COMPLETED:
            scope, initiator = Scope.RESUBMIT, Initiator.OPERATOR  # it was done: what follows is more work
        if not is_first:
            at = max(at, known.ended_at or at)
            self._attempts.enter(at, attempt)
        known.is_started = True
        state.attempt = attempt
        if state.began_at is None:
            state.began_at = at  # of a whole log the next line that is looked at may be one of steps
        self._training.say(
            AttemptStarted, at, scope=scope, initiator=initiator, world_size=state.world_size,
            down_untold=is_down_untold or None,
        )  # fmt: skip
        self._training.say(RecoveryMark, at, stage=MarkStage.WORKERS_STARTED, by="log")
        if not state.is_told and state.framework not in (None, "any"):
            state.is_told = True
            self._training.say(RunStarted, at, framework=state.framework, world_size=state.world_size)

    def ready(self, at: int) -> None:
        """The loop begins."""
        state = self._training.state
        if state.has_steps:
            self.come_again(None, at, None)
            state = self._training.state
        self.begin_first(at)
        state.since = at
        state.bar_base = [at, 0]
        if state.base is None:
            state.base = 0
        self.mark_ready()

    def mark_ready(self) -> None:
        """Bring-up is over, as far as that is known."""
        since = self._training.state.since
        if since is not None and MarkStage.INITIALIZED.value not in self._attempts.state.told:
            self._attempts.state.told.append(MarkStage.INITIALIZED.value)
            self._training.say(RecoveryMark, since, stage=MarkStage.INITIALIZED, by="log")

    def is_done(self, at: int | None, words: str) -> None:
        """A line by which training is done: it is, where no step follows."""
        state = self._training.state
        at = state.heard_at if at is None else at
        is_of_a_part = _OF_A_PART.search(words[:1000]) is not None
        if at is not None and state.has_steps and self._training.tells_attempts and not is_of_a_part:
            state.done = [at, self._attempts.offset, self._attempts.state.evidence_count, words[:1000]]

    @property
    def _was_done(self) -> bool:
        """Training was done behind the last step, and nothing went wrong after that."""
        known, done = self._attempts.state, self._training.state.done
        return bool(done) and known.evidence_count <= done[2] + (done[2] > 0)  # the line itself may be evidence

    def end_where_done(self) -> None:
        """Nothing follows: where a line said last that training is done, it is."""
        state, known = self._training.state, self._attempts.state
        is_open = known.is_started and not known.is_over and "ended" not in known.told and not known.exits
        if is_open and self._training.tells_attempts and self._was_done and known.attempt == state.attempt:
            self._steps.flush_all()
            at, offset, _, words = state.done
            self._attempts.end_at_its_word(max(at, known.last_at or at), Outcome.COMPLETED, words, offset)

    def end_where_it_broke(self) -> None:
        """The log ends here for good: after a traceback, or a word of the kernel, behind its last step it broke off."""
        state, known = self._training.state, self._attempts.state
        is_of_log = self._training.tells_attempts and known.is_started and state.has_steps
        if not is_of_log or known.is_over or "ended" in known.told:
            return
        behind = [
            fact.at for fact in self._attempts.facts
            if isinstance(fact, Evidence) and fact.restart == state.attempt
            and fact.seq >= (state.step_offset + 1) * FACTS_PER_BYTE
            and (fact.source == "kernel" or "frame" in dict(fact.attributes))
        ]  # fmt: skip
        if behind and known.last_at is not None:
            self._attempts.end(max(known.last_at, *behind), Outcome.FAILED)
