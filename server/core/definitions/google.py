"""Google's ML Goodput, as `ml-goodput-measurement` 0.2.3 computes it from its log.

    goodput = productive ÷ (end or now − first job start)

- Steps are start stamps; step k lasts until the stamp of step k + 1. The last step counts once the job has ended.
- A **disruption** is a step number that comes again. Up to the step that came again the segment before was productive,
  above it it was wasted: the *first* pass is the loss, and it is so in hindsight.
- From the last stamp before a disruption to the job start after it is infrastructure recovery.
- What the first step of a segment took beyond the mean of the others is program start-up. Custom events that lie wholly
  in a counted step are cut out of it. Blocking saves (for each step the mean of its saves) come off what is productive.
- A bucket that is negative or above the whole is 0 there, and `other` is what is left, never below 0.
- A window is made of the stamps in it: it begins at the first and ends at the last of them.

Which of our facts stand for which of its records: an attempt's start is a job start, `rendezvous` is its accelerator
initialization, `initializing` its training preparation, `data_wait` its data loading, `loading` a restore, `saving` a
save, `evaluating` and `overhead:<name>` custom events. Peculiarities are kept on purpose: a restart from step 0 counts
nothing of what was before it, and the load of data before a disruption counts twice. Where time is out of account the
library goes another way, which has neither of the two, knows no saves and restores, and leaves in the whole what lies
in nothing recorded. Where several ranks report, the stamps are those of the slowest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from rerail.server.core.definitions import Definition, DefinitionInput, Measured, beside, bucket, sentence
from rerail.server.core.definitions.google_figures import deviation, slices, step_lengths
from rerail.server.core.definitions.google_log import TOOL, GoogleLog, google_log
from rerail.server.core.definitions.step_stamps import Segment, StoppedClock
from rerail.server.core.facts import Phase
from rerail.server.core.goodput import clipped, tally
from rerail.server.core.view import SpanKind
from rerail.server.core.words import count, duration

BETWEEN_STAMPS = (
    (SpanKind.UNKNOWN, "silence"),
    (SpanKind.STALL, "stalls"),
    (SpanKind.OVERHEAD, "evaluation, data wait and overhead"),
)
"""What the library cannot tell from a step, in words."""

ELASTIC = ("ELASTIC_SLICE_DOWN", "ELASTIC_SCALE_UP", "ELASTIC_REINITIALIZATION")
"""Overhead phases of these names (in lower case) are elastic badput, not custom events."""


@dataclass(slots=True)
class _Sums:
    """What is added up while the stamps go by."""

    productive: int = 0
    wasted: int = 0
    recovery: int = 0
    program_startup: int = 0
    data_sync: int = 0
    custom: dict[str, int] = field(default_factory=dict)
    disruptions: int = 0
    saves_in_waste: int = 0
    """Blocking saves among steps that were lost: they come off what is productive all the same."""
    bridged: int = 0
    """Counted as a step though an attempt ended and the next began in it."""
    last_step: int | None = None
    last_productive_step: int | None = None


def measure(given: DefinitionInput) -> Measured:
    """Goodput and badput as the library would print them."""
    view, history = given.view, given.history
    assert history is not None
    if not view.sees_training:
        return _unknown(given, "nobody tells of steps: the library, which is told none, would print 0 %")
    clock = StoppedClock([(span.start, span.end) for span in given.spans if span.phase is Phase.EXCLUDED])
    log = google_log(given, history, clock)
    if given.window is None and not log.starts:
        return _unknown(given, "no attempt was told: the library needs a job start")
    if given.window is None:
        end = view.ended_at if view.ended_at is not None else view.as_of
        first, last = log.starts[0], log.end if log.end is not None else clock.counted(end)
        last += log.left_in
    else:
        if log.edges is None:
            return _unknown(given, "the library finds no log entry in this window, and raises an error")
        first, last = log.edges
    elapsed = last - first
    if elapsed <= 0:
        return _unknown(given, "the library sees no time pass between its first and its last log entry")
    sums = _sums(log)
    productive = sums.productive - log.saves
    if not 0 <= productive <= elapsed:
        return _unknown(given, f"the library raises an error: {duration(productive)} of {duration(elapsed)} productive")
    buckets = _buckets(log, sums, productive, elapsed)
    goodput = productive / elapsed
    return Measured(
        difference=_difference(given, log, sums, goodput, dict(buckets)),
        training=goodput,
        productive_ns=productive,
        elapsed_ns=elapsed,
        buckets=tuple(bucket(name, length, elapsed) for name, length in buckets),
        reasons=(("infrastructure_goodput", "Google has badput by cause, and no goodput of the infrastructure alone"),),
        numbers=(
            ("disruptions", sums.disruptions),
            ("last_productive_step", sums.last_productive_step if sums.last_productive_step is not None else 0),
            ("excluded_seconds", (sum(end - start for start, end in clock.windows) - log.left_in) / 1e9),
            *deviation(step_lengths(log)),
            *slices(history.told_by(TOOL), first, last, clock),
        ),
        told=tuple(each for each in history.told_by(TOOL) if each.name.startswith("told_")),
    )


def _unknown(given: DefinitionInput, why: str) -> Measured:
    return Measured(
        difference=sentence(beside("Google", None, given.account, given.view), (why,)),
        reasons=(
            ("training_goodput", why),
            ("infrastructure_goodput", "Google has badput by cause, and no goodput of the infrastructure alone"),
        ),
    )


# --- adding up ---


def _sums(log: GoogleLog) -> _Sums:
    """The stamps in the order in which they came."""
    sums = _Sums()
    saves = _Intervals(log.save_spans)
    segment = Segment()
    loads = list(log.loads)
    is_sync, latest_load = True, None
    custom = [
        (phase.start, phase.end, (phase.name or phase.phase.value).upper())
        for phase in log.phases
        if phase.phase in (Phase.EVALUATING, Phase.OVERHEAD) and (phase.name or "").upper() not in ELASTIC
    ]
    for index, whole in log.runs:
        run = whole
        again = segment.first_known(run)
        if again is not None:
            segment.add(run.until(again))
            run = run.since(again)
            while loads and loads[0][0] <= run.starts[0]:
                latest_load = loads.pop(0)[1]
                sums.data_sync += latest_load if is_sync else 0
                is_sync = False
            sums.disruptions += 1
            if again != 0 or log.excludes:
                _close(segment, again, custom, sums)
                sums.saves_in_waste += saves.within(segment.start_of(again), segment.last_start)
            # The load before the disruption is added once more, and the next one counts as blocking again.
            sums.data_sync += 0 if log.excludes else latest_load or 0
            is_sync, latest_load = True, None
            job_start = log.starts[index] if index >= 0 else None
            if job_start is not None and job_start > segment.last_start:
                sums.recovery += job_start - segment.last_start
            segment = Segment()
        segment.add(run)
    for _, length in loads:
        sums.data_sync += length if is_sync else 0
        is_sync = False
    if segment.runs:
        sums.last_step = last = segment.last_number
        sums.last_productive_step = 0
        if last != 0:
            sums.last_productive_step = _close(segment, last, custom, sums)
        if log.end is not None:
            sums.productive += log.end - segment.start_of(last)
            sums.last_productive_step = last
    return sums


class _Intervals:
    """Intervals in any order, asked for what of them lies in a window; they may overlap, and then count twice."""

    def __init__(self, told: Sequence[tuple[int, int]]) -> None:
        self._ordered = sorted(told)
        self._starts = [start for start, _ in self._ordered]
        # The latest end so far: before the first that reaches into a window, none does.
        self._reached = list(accumulate((end for _, end in self._ordered), max))

    def within(self, start: int, end: int) -> int:
        """How much of them lies in `[start, end)`."""
        first, last = bisect_right(self._reached, start), bisect_left(self._starts, end)
        return sum(max(0, min(until, end) - max(since, start)) for since, until in self._ordered[first:last])


def _close(segment: Segment, step: int, custom: Sequence[tuple[int, int, str]], sums: _Sums) -> int:
    """Count a segment that was resumed from a step; the last step of it that was productive."""
    total = counted = others = last = first_length = 0
    sums.wasted += segment.wasted_above(step)
    lowest = segment.first_number
    for pairs in segment.pairs_up_to(step):
        cut: dict[int, int] = {}
        for start, end, name in custom:
            at = pairs.around(start, end)
            if at is not None:
                cut[at] = cut.get(at, 0) + end - start
                sums.custom[name] = sums.custom.get(name, 0) + end - start
        over = {at: max(0, length - _length(pairs.stamps, at - pairs.first_step)) for at, length in cut.items()}
        total += pairs.length_ns - sum(cut.values()) + sum(over.values())
        counted += pairs.steps
        others += pairs.steps
        last = pairs.last_step
        if pairs.bridges:
            sums.bridged += pairs.length_ns
        if pairs.first_step <= lowest <= pairs.last_step:
            others -= 1
            first_length = max(0, _length(pairs.stamps, lowest - pairs.first_step) - cut.get(lowest, 0))
    if not counted:
        return 0
    extra = 0
    if others:
        # Means are compared in whole nanoseconds; the rounding is below anything that is printed.
        extra = max(0, first_length - (total - first_length) // others)
    sums.program_startup += extra
    sums.productive += total - extra
    return last


def _length(stamps: Sequence[int], index: int) -> int:
    return stamps[index + 1] - stamps[index]


def _buckets(log: GoogleLog, sums: _Sums, productive: int, elapsed: int) -> list[tuple[str, int]]:
    """Badput under the library's names, in its order."""
    elastic = dict.fromkeys(ELASTIC, 0)
    reinitialized = []
    for phase in log.phases:
        if phase.phase is Phase.OVERHEAD and (phase.name or "").upper() in ELASTIC:
            elastic[(phase.name or "").upper()] += phase.end - phase.start
            if (phase.name or "").upper() == "ELASTIC_REINITIALIZATION":
                reinitialized.append((phase.start, phase.end))

    def of(wanted: Phase) -> int:
        """Lengths of a phase, without what an elastic re-initialization has counted already."""
        return sum(
            phase.end
            - phase.start
            - sum(max(0, min(phase.end, until) - max(phase.start, since)) for since, until in reinitialized)
            for phase in log.phases
            if phase.phase is wanted
        )

    all_loads = sum(length for _, length in log.loads)
    found = [
        ("TPU_INITIALIZATION", of(Phase.RENDEZVOUS)),
        ("TRAINING_PREP", of(Phase.INITIALIZING)),
        ("DATA_LOADING_SYNC", sums.data_sync),
        ("DATA_LOADING_ASYNC", all_loads - sums.data_sync),
        ("UNPRODUCTIVE_CHECKPOINT_SAVE_TIME", log.saves),
        ("UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME", log.restores),
        ("PROGRAM_STARTUP", sums.program_startup),
        ("WASTED_PROGRESS_FROM_DISRUPTION", sums.wasted),
        ("INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION", sums.recovery),
        *elastic.items(),
        *((f"CUSTOM_BADPUT_EVENTS.{name}", length) for name, length in sorted(sums.custom.items())),
    ]
    shown = [(name, length if 0 <= length <= elapsed else 0) for name, length in found]
    lost = sum(length for name, length in shown if name != "DATA_LOADING_ASYNC")
    return [*shown, ("OTHER", max(0, elapsed - productive - lost))]


# --- why it differs ---


def _between_stamps(given: DefinitionInput, log: GoogleLog) -> Counter[SpanKind]:
    """What else than steps, by rerail's account, lies between stamps of one attempt."""
    found: Counter[SpanKind] = Counter()
    for _, run in log.runs:
        for (_, kind), length in tally(clipped(given.spans, run.starts[0], run.starts[-1])).ns.items():
            found[kind] += length
    return found


def _difference(given: DefinitionInput, log: GoogleLog, sums: _Sums, goodput: float, buckets: dict[str, int]) -> str:
    account = given.account
    by_phase = dict(account.ns_by_phase)
    between = _between_stamps(given, log)
    second = by_phase.get(Phase.RECOMPUTING, 0) + account.debt_ns
    parts: list[tuple[int, str]] = []
    if sums.wasted or second:
        parts.append(
            (
                max(sums.wasted, second),
                f"it counts the first pass of lost steps as lost ({duration(sums.wasted)}), in hindsight, where rerail "
                f"counts the second ({duration(second)})",
            )
        )
    restarts = max(0, len(log.starts) - 1)
    if sums.bridged and sums.disruptions < restarts:
        missed = restarts - sums.disruptions
        parts.append(
            (
                sums.bridged,
                f"it takes {count(missed, 'restart')} for {'a long step' if missed == 1 else 'long steps'} of "
                f"{duration(sums.bridged)}, since no step number came again",
            )
        )
    if sums.program_startup:
        words = f"{duration(sums.program_startup)} of first steps are program start-up to it, and steps to rerail"
        parts.append((sums.program_startup, words))
    if log.saves:
        words = f"it takes {duration(log.saves)} of blocking saves off"
        if sums.saves_in_waste:
            words += f", {duration(sums.saves_in_waste)} of it a second time, since those steps were lost anyway"
        parts.append((log.saves, words))
    for kind, what in BETWEEN_STAMPS:
        length = between[kind] - (sum(sums.custom.values()) if kind is SpanKind.OVERHEAD else 0)
        if length > 0:
            parts.append((length, f"it takes {duration(length)} of {what} between two stamps for steps"))
    if sums.recovery:
        words = f"{duration(sums.recovery)} from the last stamp before a fault to the next job start are its recovery"
        parts.append((sums.recovery, words))
    if log.end is None and log.runs and given.window is None:
        last = log.runs[-1][1].last_step
        parts.append((1, f"step {last} does not count, as no end of the job was logged"))
    if given.window is not None and log.edges is not None:
        shrunk = given.window[1] - given.window[0] - (log.edges[1] - log.edges[0])
        if shrunk > 0:
            parts.append((shrunk, f"its window is {duration(shrunk)} shorter: from its first stamp to its last"))
    parts.sort(key=lambda part: -part[0])
    if not parts:
        parts.append((0, f"{duration(buckets['OTHER'])} are in neither its goodput nor a named badput"))
    return sentence(beside("Google", goodput, account, given.view), [words for _, words in parts[:3]])


DEFINITION = Definition(
    name="google",
    title="Google",
    stated_by=(
        "Goodput is the time between start stamps of steps that were not done again ÷ time since the first job start; "
        "a step number that comes again is a disruption, and the first pass of what comes again is lost."
    ),
    measure=measure,
    needs_history=True,
)
