"""Attempts: the facts that one launcher's lines, in order, state about the attempts of a run.

Rules
- Attempts carry the restart count they began with. NVRx's profiling events and `n/m attempts left` tell it; elsewhere
  it is counted from the ends that were seen.
- Each moment of an attempt is stated once, from the first line that tells it: a launcher prints most of them twice.
- A line without a stamp happened at the stamp of the next line that has one: a traceback is printed before its
  process is found dead. Evidence waits for that stamp, in `held`.
- The state (`attempt_state.py`) is plain data and part of the cursor, so that another instance can go on.
- Which rank a process is and on which machine is worked out in `attempt_places.py`; how much evidence is kept, in
  `evidence_limits.py`.
- What a log cannot tell is left out: a rank that was not named, a cause, the end of the last attempt of a log that
  stops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile

from rerail.collectors.masking import masked
from rerail.collectors.sources.attempt_places import Places
from rerail.collectors.sources.attempt_state import FACTS_PER_BYTE, AttemptState
from rerail.collectors.sources.evidence_limits import has_room
from rerail.collectors.sources.last_words import ending_of
from rerail.collectors.sources.torchrun_lines import relaunched_behind
from rerail.server.core.codec import canonical
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Blind,
    Evidence,
    Exit,
    Fact,
    Initiator,
    MarkStage,
    Outcome,
    RecoveryMark,
    RunEnded,
    Scope,
)

LATE = FACTS_PER_BYTE - 1
"""Of the numbers of a byte, the one for what is stated of its line later."""
TOLD_OVER = FACTS_PER_BYTE - 3
"""Of the numbers of a byte, the first of two for an end that is taken at its word (`end_where_told`)."""
STARTS = frozenset({MarkStage.RENDEZVOUS_STARTED, MarkStage.RENDEZVOUS_COMPLETED, MarkStage.WORKERS_STARTED})
GONE_UNTOLD = "the launcher's process ended, and its log tells neither a failure nor a success"
OF_SLURM = ("slurmstepd: ", "srun: ")
MOST_UNREADABLE = 20
_CANCELLED = re.compile(r"CANCELLED AT \S{1,40} (?:DUE TO (?P<why>PREEMPTION|TIME LIMIT|NODE FAILURE)|\*\*\*)")
_WAITED = re.compile(
    r"[Tt]imed out|[Tt]imeout at NCCL|operation timeout|before timing out|[Nn]o heartbeat|[Dd]id not get \w+ heartbeat"
)


class Attempts:
    """States facts about attempts. Its methods are called in the order of the log."""

    def __init__(
        self, state: AttemptState, *, emitter: str, node: str | None, run: str, run_is_told: bool,
        job: str | None = None, requeue: int | None = None, node_is_told: bool = True,
    ) -> None:  # fmt: skip
        """`node_is_told`: a person named it; else it is where the log is read, and of a job of several machines what a
        rank did was on one that is not known."""
        self.state = state
        self.is_followed = False
        """What was stated cannot be put right any more by what the log tells later."""
        self.places = Places(state, node, node_is_told=node_is_told)
        self._emitter = emitter
        self._node = node
        self._run = run
        self._run_is_told = run_is_told
        self._job = job
        self._requeue = requeue
        self._offset = state.line_at
        self._count = 0
        self._told_over_at: int | None = None
        """The next number while an end is taken at its word."""
        self.facts: list[Fact] = []

    def at_line(self, offset: int) -> None:
        """The next facts come from the line that begins at byte `offset`."""
        self._offset = self.state.line_at = offset
        self._count = 0
        if self.state.used and self.state.open_from is None:
            self.state.used = {seq for seq in self.state.used if seq >= offset * FACTS_PER_BYTE}

    def back_at(self, offset: int) -> None:
        """The next facts come from a line that was taken before, at or behind `AttemptState.open_from`; what it stated
        then has the first numbers."""
        self._offset, self._count = offset, FACTS_PER_BYTE // 2

    @property
    def place(self) -> tuple[int, int]:
        """The line that is being taken, and how much was stated of it: for `return_to`."""
        return self._offset, self._count

    def return_to(self, place: tuple[int, int]) -> None:
        """Go on where `place` was."""
        self._offset, self._count = place

    def unreadable(self, why: str) -> None:
        """The line is no text: what it said cannot be known. The first are told one by one, later ones counted."""
        state = self.state
        state.unreadable_count += 1
        is_told = state.unreadable_count <= MOST_UNREADABLE or state.unreadable_count % 1000 == 0
        if state.last_at is not None and is_told:
            self._tell_unreadable(state.last_at, why)

    def _tell_unreadable(self, at: int, why: str) -> None:
        state = self.state
        state.unreadable_told = state.unreadable_count
        reason = f"the line at byte {self._offset} cannot be read ({why}); {state.unreadable_count} such lines so far"
        self._state(Blind, at, source=f"log of {state.launcher or 'the launcher'}", since=at, until=at, reason=reason)

    def heard(self, at: int) -> None:
        """A stamp: evidence that waited for one happened now."""
        state = self.state
        if state.last_at is None and state.unreadable_count > state.unreadable_told:
            self._tell_unreadable(at, "before the first line with a stamp")
        state.last_at = at
        held, state.held = state.held, []
        for kept in held:
            self.facts.append(Evidence(**self._place(at, kept), **self._evidence_of(kept)))  # type: ignore[arg-type]

    # --- moments ---------------------------------------------------------------------------------------------------

    def begin(self, at: int, attempt: int | None = None) -> None:
        """A worker group begins to form."""
        state = self.state
        if attempt is None:
            attempt = state.attempt + 1 if self.has_ended() else state.attempt
        if attempt < state.attempt or (attempt == state.attempt and state.is_started):
            return
        scope, initiator = self.how_restarted() if attempt else (None, None)
        self.enter(at, attempt)
        ranks, nodes = state.ranks_per_node, state.node_count
        self._state(
            AttemptStarted, at,
            scope=scope,
            initiator=initiator,
            world_size=ranks * nodes if ranks and nodes else None,
            launcher=state.launcher,
            versions=tuple(sorted(state.versions.items())),
            config=canonical(state.config) if state.config else None,
        )  # fmt: skip

    def enter(self, at: int, attempt: int) -> None:
        """Take up an attempt, without a word about when it began: that may have been before the log."""
        state = self.state
        if attempt > state.attempt:
            if state.is_started:
                self.end(at, Outcome.FAILED)
            state.past_processes = (state.past_processes + list(state.exits))[-1000:]
            state.attempt = attempt
            state.told, state.exits, state.evidence_count, state.last_mark_at = [], {}, 0, at
            state.kinds, state.least_enqueued, state.timed_out, state.local_ranks = {}, None, [], {}
            state.iterations, state.last_iteration = {}, 0
            state.cancelled_as = None
            state.is_signalled, state.cancelled_by = False, ""
            state.told_over = []
        state.is_started = True
        state.is_over = state.is_job_over = False

    def how_restarted(self) -> tuple[Scope, Initiator]:
        """What an attempt that follows the current one restarts, and who asked for it: asked before `enter`."""
        if self.state.cancelled_as == Outcome.PREEMPTED:
            return Scope.REQUEUE, Initiator.SCHEDULER  # into the same log: the same job, once more
        if self.state.is_job_over:
            is_stopped = bool(self.state.told_over) and self.state.told_over[0] == Outcome.STOPPED
            return Scope.RESUBMIT, Initiator.OPERATOR if is_stopped else Initiator.FAULT
        if self.state.is_over:
            return Scope.RESUBMIT, Initiator.FAULT  # the launcher had ended, and was started once more
        return Scope.IN_JOB, Initiator.FAULT

    def state_fact(self, kind: type[Fact], at: int, **told: object) -> None:
        """A fact of the current line that says nothing about who begins and ends attempts."""
        self._state(kind, at, **told)

    def late_fact(self, kind: type[Fact], at: int, offset: int, **told: object) -> None:
        """A fact of the line at byte `offset`, which was taken before: under the last number of its first byte that is
        behind those of all other late facts."""
        seq = offset * FACTS_PER_BYTE + LATE
        if seq <= self.state.last_late:
            seq = self.state.last_late + FACTS_PER_BYTE
        self.state.last_late = seq
        self.facts.append(kind(**{**self._common(at), "seq": seq, **told}))  # type: ignore[arg-type]

    @property
    def offset(self) -> int:
        """The first byte of the line that is being taken."""
        return self._offset

    def next_where_untold(self, at: int, *, is_launchers: bool = False) -> None:
        """Workers did something at `at`. Without `LOGLEVEL=INFO` torchrun says nothing between two attempts.

        What comes a second after a death, or ends another process, belongs to the attempt that followed at once.
        """
        state = self.state
        if state.is_over and is_launchers and state.last_exit_at is not None and at > state.last_exit_at:
            self.begin(at, state.attempt + 1)  # launched once more, into the same log
            return
        if state.is_over and not is_launchers and not state.tells_starts:
            self.begin(at, state.attempt + 1)  # the program runs again, and its launcher would not say so
            return
        if state.last_exit_at is not None and at > state.last_exit_at:
            self._next_after_deaths()

    def next_where_printed(self, tail: bytes, offset: int) -> None:
        """Where the log ends for good, or has been silent: workers may have printed something after others of the
        attempt had died, and nothing tells when. `tail`: the last bytes of the log, which is `offset` bytes long."""
        if self.waits_for_relaunch and relaunched_behind(tail):
            self.at_line(offset)
            self._next_after_deaths()

    @property
    def waits_for_relaunch(self) -> bool:
        """Workers have died, and torchrun, which does not tell when it launches again, has not ended."""
        state = self.state
        is_told = (
            state.launcher in ("ft_launcher", "deepspeed")
            or MarkStage.RENDEZVOUS_STARTED.value in state.told
            or state.is_over
        )
        return bool(state.exits) and state.last_exit_at is not None and not is_told

    def _next_after_deaths(self) -> None:
        """Torchrun launched them again when the last of them died."""
        last = self.state.last_exit_at
        if last is not None and self.waits_for_relaunch:
            self._settle_words_of_the_end(last)
            self.end(last, Outcome.FAILED)
            self.begin(last)

    def _settle_words_of_the_end(self, at: int) -> None:
        """What Slurm said without a stamp, at once behind the death of workers, is of them and not of who follows."""
        held = self.state.held
        words = list(takewhile(lambda kept: str(kept["text"]).startswith(OF_SLURM), held))
        if words:
            heard_at, self.state.held = self.state.last_at, words
            self.heard(at)
            self.state.last_at, self.state.held = heard_at, held[len(words) :]

    def mark(self, stage: MarkStage, at: int, by: str, text: str | None = None, attempt: int | None = None) -> None:
        """A moment of a recovery; the first from each speaker counts."""
        state = self.state
        if attempt is not None and attempt < state.attempt:
            return
        if stage in STARTS:
            state.tells_starts = True
        if stage is MarkStage.RENDEZVOUS_STARTED:
            self.begin(at, attempt)
        elif not state.is_started or (attempt is not None and attempt > state.attempt):
            self.enter(at, state.attempt if attempt is None else attempt)
        moment = f"{stage.value} {by}" if stage is MarkStage.NOTICED else stage.value
        if moment in state.told:
            return
        state.told.append(moment)
        state.last_mark_at = at
        if stage is MarkStage.NOTICED:
            state.noticed_at.setdefault(str(state.attempt), at)
        self._state(RecoveryMark, at, stage=stage, by=by, text=text)

    def exit(
        self, at: int, local_rank: int, code: int, process: int, rank: int | None = None, node: str | None = None
    ) -> None:
        """A worker process ended. Said twice, it counts once."""
        state = self.state
        key = str(process)
        if node is not None and rank is not None:
            self.places.place_rank(rank, node)
        if key in state.exits and state.exits[key][1] is None and rank is not None:
            state.exits[key][1] = rank  # for the exit codes of the attempt; the exit itself was stated
            self.places.late_ranks[key] = rank
        if key in state.exits or key in state.past_processes:
            return
        if rank is None:
            rank = self.places.rank_of(local_rank)
        state.exits[key] = [local_rank, rank, code]
        state.last_exit_at = at
        named = {} if node is None else {"node": node}
        signal = -code if code < 0 else None
        seq = self._next()
        if rank is None:
            self.places.rankless[self._offset, local_rank] = key
        if node is None:
            self.places.taken_for_here.add(seq)
        self._state(Exit, at, seq=seq, exit_code=code, signal=signal, rank=rank, local_rank=local_rank, **named)

    def end(self, at: int, outcome: Outcome | None, reason: str | None = None) -> None:
        """The worker group is gone."""
        state = self.state
        if "ended" in state.told:
            return
        state.is_started = True
        if state.cancelled_as is not None and outcome is not Outcome.COMPLETED:
            outcome = Outcome(state.cancelled_as)
        state.told.append("ended")
        state.ended_at = at
        state.ended_as = None if outcome is None else outcome.value
        codes = {rank: code for _, rank, code in state.exits.values() if rank is not None and code is not None}
        self._state(AttemptEnded, at, outcome=outcome, reason=reason, exit_codes=tuple(sorted(codes.items())))

    def end_run(self, at: int, outcome: Outcome, reason: str | None = None) -> None:
        """The launcher is done. Inside a scheduler's job a failed one may come again: then the run is not over."""
        state = self.state
        if state.is_over:
            return
        self.end(at, outcome, reason)
        if state.cancelled_as is not None and outcome is not Outcome.COMPLETED:
            outcome = Outcome(state.cancelled_as)
        state.is_over = True
        if outcome is Outcome.COMPLETED or self._job is None:
            self._state(RunEnded, at, outcome=outcome, reason=reason)

    def end_of_error_alone(self, offset: int) -> None:
        """Nothing came for long, and all that was told is an error, of no attempt: it ended the one there was."""
        state = self.state
        if state.is_started or state.is_over or not state.evidence_count or state.last_at is None:
            return
        self.at_line(offset)
        self._state(AttemptStarted, state.last_at)
        self.end_run(state.last_at, Outcome.FAILED, "its log tells an error and nothing else, and has grown no more")

    def end_with_launcher(self, offset: int, heard_at: int | None, gone_at: int, *, is_accused: bool) -> None:
        """The launcher's process is gone, and no line tells the end. `is_accused`: an error is the last word, told at
        `heard_at`; so is an exit that nothing followed."""
        state = self.state
        if state.is_over:
            return
        self.at_line(offset)
        if heard_at is not None and (is_accused or any(code for _, _, code in state.exits.values())):
            self.end_run(heard_at, Outcome.FAILED, "the launcher's process ended, and its log ends with a failure")
        elif self._job is None and (state.is_started or self._run_is_told):
            self._state(RunEnded, gone_at, outcome=None, reason=GONE_UNTOLD)

    def end_by_signal(self, at: int, words: str, *, is_interrupt: bool) -> None:
        """A signal ended the launcher. An interrupt, or Slurm's word of a cancellation, tells that somebody did so."""
        state = self.state
        is_asked_for = is_interrupt or bool(state.cancelled_by)
        state.is_signalled = not is_asked_for
        self.end_run(at, Outcome.STOPPED if is_asked_for else Outcome.FAILED, words)

    def end_where_told(self, step_offset: int) -> bool:
        """Nothing came for a while: where a line said that the job is ended, it has. Whether an end was stated.

        `step_offset`: the first byte of the last step line; a notice before it announced an end that did not come.
        """
        state = self.state
        is_open = state.is_started and not state.is_over and "ended" not in state.told
        if not (is_open and state.told_over) or state.last_at is None:
            return False
        outcome, words, offset, is_notice = state.told_over
        if is_notice and step_offset > offset:
            return False
        self.end_at_its_word(state.last_at, Outcome(outcome), words, offset)
        return True

    def end_at_its_word(self, at: int, outcome: Outcome, words: str, offset: int) -> None:
        """The run ended at `at`, as the line said that begins at byte `offset`."""
        place, self._told_over_at = self.place, offset * FACTS_PER_BYTE + TOLD_OVER
        self.end_run(at, outcome, words)
        self._told_over_at = None
        self.return_to(place)

    def why_over(self, words: str) -> str:
        """Why the run is over: `words`, what the launcher said, and that restarts are spent where it counts them."""
        state = self.state
        spent = f"all {state.most_restarts} restarts are spent" if state.restarts_left == 0 else ""
        return "; ".join(filter(None, (words, state.last_words, spent)))[:1000]

    def _cancelled(self, words: str, why: str) -> None:
        """Slurm says why it ended the step: whoever stopped the workers before only passed that on."""
        state = self.state
        outcome = Outcome.PREEMPTED if why == "PREEMPTION" else Outcome.FAILED
        if not state.is_started or state.cancelled_as == outcome:
            return
        state.cancelled_as = outcome.value
        if "ended" in state.told and state.ended_at is not None:
            self._end_otherwise(state.ended_at, outcome, words)

    def _asked_for(self, words: str) -> None:
        """Slurm says that the step was cancelled, and no reason: whose signal the launcher got is known then."""
        state = self.state
        state.cancelled_by = words
        if not state.is_signalled or state.ended_at is None:
            return
        state.is_signalled = False
        self._end_otherwise(state.ended_at, Outcome.STOPPED, words)

    def _end_otherwise(self, at: int, outcome: Outcome, words: str) -> None:
        """State an end that was stated already once more, now that it is known how it was."""
        self._state(AttemptEnded, at, outcome=outcome, reason=words)
        if self.state.is_over and self._job is None:
            self._state(RunEnded, at, outcome=outcome, reason=words)

    # --- evidence --------------------------------------------------------------------------------------------------

    def evidence(
        self, at: int | None, source: str, text: str, *, rank: int | None = None, local_rank: int | None = None,
        code: str | None = None, iteration: int | None = None, node: str | None = None,
        is_always_kept: bool = False, **attributes: str,
    ) -> None:  # fmt: skip
        """A piece of evidence; without a stamp it waits for the next."""
        state = self.state
        if not is_always_kept and not has_room(state, f"{source} {code} {text}", rank):
            return
        if rank is None and local_rank is not None:
            rank = self.places.rank_of(local_rank)
        kept: dict[str, object] = {
            "seq": self._next(), "source": source, "text": masked(text) or "?",
            "rank": rank, "local_rank": local_rank, "code": code, "iteration": iteration, "node": node,
            "attributes": {name: value for name, value in attributes.items() if value},
        }  # fmt: skip
        if at is None:
            state.held.append(kept)
        else:
            state.erred_at = at
            if _WAITED.search(text[:2000]):
                state.waited_at = at
            self.facts.append(Evidence(**self._place(at, kept), **self._evidence_of(kept)))  # type: ignore[arg-type]
        if node is not None:
            self.places.names_host(node)
        if (ending := ending_of(text)) is not None and not (state.told_over and ending[1]):
            state.told_over = [ending[0].value, masked(text)[:1000], self._offset, ending[1]]
        if ending is not None and text.startswith("TERM_"):  # LSF's word, after the launcher told of a signal
            if ending[0] is Outcome.STOPPED:
                self._asked_for(masked(text)[:1000])
            else:
                self._cancelled(masked(text)[:1000], "PREEMPTION" if ending[0] is Outcome.PREEMPTED else "")
        if "CANCELLED AT" in text and (told := _CANCELLED.search(text)) is not None:
            words = masked(text)[:1000]
            if told["why"] is not None:
                self._cancelled(words, told["why"])
            else:
                self._asked_for(words)

    def in_process(
        self, at: int, rank: int, kind: str, said: str, initiator: Initiator, has_restart_line: bool
    ) -> None:
        """A line of the in-process wrapper: restarts inside one attempt of the launcher."""
        state = self.state
        state.is_started = True
        iteration = state.iterations.setdefault(str(rank), 0)
        if kind not in ("restart_ex", "completion_ex"):
            self.evidence(at, "nvrx", f"rank={rank} {kind}: {said}", rank=rank, code=kind, iteration=iteration)
        if kind == "term_ex":
            moment = f"noticed in_process {iteration}"
            if moment not in state.told:
                state.told.append(moment)
                self._state(
                    RecoveryMark, at, stage=MarkStage.NOTICED, by="nvrx in-process", text=said[:1000],
                    iteration=iteration,
                )  # fmt: skip
        if kind == "restart_ex" or (kind == "term_ex" and not has_restart_line and "RankShouldRestart" in said):
            state.iterations[str(rank)] = iteration + 1
            if iteration + 1 > state.last_iteration:
                state.last_iteration = iteration + 1
                self._state(
                    AttemptStarted, at, scope=Scope.IN_PROCESS, initiator=initiator, launcher=state.launcher,
                    iteration=iteration + 1,
                )  # fmt: skip

    # --- inside ----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The log ends here for good: what waits for a stamp gets the last there was."""
        if self.state.held and self.state.last_at is not None:
            self.heard(self.state.last_at)

    def finish_before_line(self) -> None:
        """What was printed before the line that is taken, and waits for a stamp, gets the last there was: behind a line
        that is gone back to there is more, of the attempts that follow."""
        held, here = self.state.held, self._offset * FACTS_PER_BYTE
        later = [kept for kept in held if isinstance(kept["seq"], int) and kept["seq"] >= here]
        self.state.held = [kept for kept in held if kept not in later]
        self.finish()
        self.state.held = [*self.state.held, *later]

    @property
    def run(self) -> str:
        """The run these attempts belong to: what the user said, else what the launcher said."""
        return self._run if self._run_is_told else self.state.run or self._run

    def has_ended(self) -> bool:
        """The end of the current attempt was noticed, or told."""
        told = self.state.told
        return "ended" in told or any(moment.startswith("noticed ") and "in_process" not in moment for moment in told)

    def _next(self) -> int:
        """A number that no other fact of this emitter has: of the first byte of the line, and where those are used up,
        of the bytes behind it."""
        if self._told_over_at is not None:
            seq, self._told_over_at = self._told_over_at, self._told_over_at + 1
            return seq
        seq = self._offset * FACTS_PER_BYTE + self._count
        while seq % FACTS_PER_BYTE >= TOLD_OVER or seq in self.state.used:
            seq += 1
        self._count = seq - self._offset * FACTS_PER_BYTE + 1
        self.state.used.add(seq)
        return seq

    def _common(self, at: int) -> dict[str, object]:
        return {
            "run": self.run, "emitter": self._emitter, "at": at, "job": self._job, "requeue": self._requeue,
            "restart": self.state.attempt, "node": self._node,
        }  # fmt: skip

    def _state(self, kind: type[Fact], at: int, **told: object) -> None:
        seq = told.pop("seq", None)
        numbered = {**self._common(at), "seq": self._next() if seq is None else seq}
        self.facts.append(kind(**{**numbered, **told}))  # type: ignore[arg-type]

    def _place(self, at: int, kept: Mapping[str, object]) -> dict[str, object]:
        place = {**self._common(at), "seq": kept["seq"]}
        if kept.get("node") is None and isinstance(kept["seq"], int):
            self.places.taken_for_here.add(kept["seq"])
        for name in ("rank", "local_rank", "iteration", "node"):
            if kept.get(name) is not None:
                place[name] = kept[name]
        return place

    @staticmethod
    def _evidence_of(kept: Mapping[str, object]) -> dict[str, object]:
        attributes = kept.get("attributes")
        pairs = sorted(attributes.items()) if isinstance(attributes, dict) else []
        return {
            "source": kept["source"], "text": kept["text"], "code": kept.get("code"),
            "attributes": tuple((str(name), masked(str(value))) for name, value in pairs),
        }  # fmt: skip
