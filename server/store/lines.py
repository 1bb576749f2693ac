"""Lines: facts of the wire format, typed for speed. What is certain goes this way, the rest through `core.codec`.

Rules
- A line that decodes here and is `sound` is a fact exactly as the codec would have it; a property test compares both.
  A line that does not decode here may still be a fact: the codec is asked.
- Only kinds that come in masses are here; mappings, lists of names and unknown fields are the codec's.
- Lines come with their context already in them: of a name told twice the last one counts, for msgspec as for the codec.

Why: msgspec checks and decodes a line in under 1 µs, the codec in 10 to 20.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Annotated, Literal

import msgspec
from msgspec import DecodeError, Meta, Struct

from rerail.server.core import codec, facts
from rerail.server.core.codec import (
    EARLIEST_INSTANT,
    LARGEST_INT,
    LARGEST_RANK,
    LARGEST_STEP,
    LATEST_INSTANT,
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_RANKS,
    MOST_STEPS,
)
from rerail.server.core.facts import STATED_PHASES, CheckpointStage, Fact, MarkStage, Outcome

Count = Annotated[int, Meta(ge=0, le=LARGEST_INT)]
Step = Annotated[int, Meta(ge=0, le=LARGEST_STEP)]
Exit = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
Instant = Annotated[int, Meta(ge=EARLIEST_INSTANT, le=LATEST_INSTANT)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
ShortText = Annotated[str, Meta(max_length=LONGEST_NAME)]
LongText = Annotated[str, Meta(max_length=LONGEST_TEXT)]
QUICK_STEPS, QUICK_STEP_US = 2_000, 10**11
"""So many steps of at most 28 hours, begun six years before the last instant there is, need no sum to be judged."""
Durations = Annotated[list[Annotated[int, Meta(ge=0, le=QUICK_STEP_US)]], Meta(min_length=1, max_length=QUICK_STEPS)]
RankNumbers = Annotated[list[Count], Meta(max_length=MOST_RANKS)]
EarlyStart = Annotated[int, Meta(ge=EARLIEST_INSTANT, le=LATEST_INSTANT - 1000 * QUICK_STEPS * QUICK_STEP_US)]
StatedPhase = Literal[tuple(phase.value for phase in STATED_PHASES)]  # type: ignore[valid-type]


class Line(Struct, forbid_unknown_fields=True, tag_field="kind", kw_only=True, gc=False):
    """Fields of every kind."""

    run: Name
    emitter: Name
    seq: Count
    at: Instant
    v: Literal[1] = 1
    job: Name | None = None
    requeue: Count | None = None
    restart: Count | None = None
    iteration: Count | None = None
    rank: Count | None = None
    local_rank: Count | None = None
    node: Name | None = None


class StepsLine(Line, tag="steps"):
    first_step: Step
    start: EarlyStart
    durations_us: Durations
    count: Annotated[int, Meta(ge=1, le=MOST_STEPS)] | None = None


class HeartbeatsLine(Line, tag="heartbeats"):
    start: Instant
    end: Instant
    count: Count
    max_gap_us: Count
    phase: ShortText | None = None
    sketch: LongText | None = None
    armed_timeout_us: Count | None = None
    first_rank: Annotated[int, Meta(ge=0, le=LARGEST_RANK)] | None = None
    rank_counts: RankNumbers = []
    rank_max_gaps_us: RankNumbers = []


class CheckpointLine(Line, tag="checkpoint"):
    step: Step
    stage: CheckpointStage
    checkpoint: Name | None = None
    mode: ShortText | None = None
    tier: ShortText | None = None
    bytes: Count | None = None
    location: LongText | None = None
    checksum: ShortText | None = None
    blocked_us: Count | None = None


class CheckpointLoadedLine(Line, tag="checkpoint_loaded"):
    step: Step
    start: Instant
    end: Instant
    checkpoint: Name | None = None
    tier: ShortText | None = None
    location: LongText | None = None
    outcome: ShortText | None = None


class PhaseLine(Line, tag="phase"):
    phase: StatedPhase
    start: Instant
    end: Instant | None = None
    span: Name | None = None


class MetricLine(Line, tag="metric"):
    name: Name
    value: float
    step: Step | None = None


class MarkLine(Line, tag="recovery_mark"):
    stage: MarkStage
    by: ShortText | None = None
    text: LongText | None = None


class ExitLine(Line, tag="exit"):
    exit_code: Exit
    signal: Count | None = None
    core_dumped: bool | None = None
    oom_killed: bool | None = None


class SchedulerLine(Line, tag="scheduler_state"):
    state: Name
    reason: LongText | None = None


class CapacityLine(Line, tag="capacity"):
    gpus: Count


class EvidenceLine(Line, tag="evidence"):
    source: Name
    text: LongText
    code: ShortText | None = None
    artefact: LongText | None = None


class AttemptEndedLine(Line, tag="attempt_ended"):
    outcome: Outcome | None = None
    reason: LongText | None = None


_FACT_TYPES: dict[type[Line], type[Fact]] = {
    StepsLine: facts.Steps,
    HeartbeatsLine: facts.Heartbeats,
    CheckpointLine: facts.CheckpointMoment,
    CheckpointLoadedLine: facts.CheckpointLoaded,
    PhaseLine: facts.PhaseSpan,
    MetricLine: facts.Metric,
    MarkLine: facts.RecoveryMark,
    ExitLine: facts.Exit,
    SchedulerLine: facts.SchedulerState,
    CapacityLine: facts.Capacity,
    EvidenceLine: facts.Evidence,
    AttemptEndedLine: facts.AttemptEnded,
}
QUICK_KINDS = tuple(kind.__struct_config__.tag for kind in _FACT_TYPES)
"""Kinds that can go this way."""

_decoder = msgspec.json.Decoder(
    StepsLine | HeartbeatsLine | CheckpointLine | CheckpointLoadedLine | PhaseLine | MetricLine | MarkLine | ExitLine
    | SchedulerLine | CapacityLine | EvidenceLine | AttemptEndedLine
)  # fmt: skip


def quick_lines(body: bytes) -> list[Line] | None:
    """Every line of a body; None where one of them needs the codec."""
    try:
        return _decoder.decode_lines(body)
    except (DecodeError, RecursionError):
        return None


def quick_line(line: bytes) -> Line | None:
    """One line; None where it needs the codec."""
    try:
        return _decoder.decode(line)
    except (DecodeError, RecursionError):
        return None


def _steps(line: StepsLine) -> bool:
    return line.count is None or len(line.durations_us) == 1


def _ordered(line: HeartbeatsLine | CheckpointLoadedLine) -> bool:
    return line.end >= line.start


def _beats(line: HeartbeatsLine) -> bool:
    counts, gaps = line.rank_counts, line.rank_max_gaps_us
    if not counts and not gaps and line.first_rank is None:
        return line.end >= line.start
    return (
        line.end >= line.start
        and line.first_rank is not None
        and line.rank is None
        and 0 < len(counts) == len(gaps)
        and line.count == sum(counts)
        and line.max_gap_us == max(gaps)
    )


def _always(_line: Line) -> bool:
    return True


SOUND: dict[type[Line], Callable[..., bool]] = {
    StepsLine: _steps,
    HeartbeatsLine: _beats,
    CheckpointLine: lambda line: line.checkpoint is None or line.checkpoint.isprintable(),
    CheckpointLoadedLine: lambda line: _ordered(line) and (line.checkpoint is None or line.checkpoint.isprintable()),
    PhaseLine: lambda line: (
        (line.end is None or line.end >= line.start) and (line.span is None or line.span.isprintable())
    ),
    MetricLine: lambda line: isfinite(line.value) and line.name.isprintable(),
    MarkLine: _always,
    ExitLine: _always,
    SchedulerLine: lambda line: line.state.isprintable(),
    CapacityLine: _always,
    EvidenceLine: lambda line: line.source.isprintable(),
    AttemptEndedLine: _always,
}
"""Per kind: whether what binds two fields holds, and what types cannot say (run, emitter, job and node apart).

False: the codec must judge, and say why.
"""


def fact_of(line: Line) -> Fact:
    """The fact in a sound line."""
    return msgspec.convert(line, _FACT_TYPES[type(line)], from_attributes=True)


def facts_of(body: bytes) -> list[Fact]:
    """The facts in lines that were taken once. Raises `codec.FactError` where the codec no longer takes one."""
    lines = quick_lines(body)
    if lines is not None:
        return [fact_of(line) for line in lines]
    found = []
    for raw in body.split(b"\n"):
        line = quick_line(raw)
        fact = codec.decode_line(raw) if line is None else fact_of(line)
        assert isinstance(fact, Fact)
        found.append(fact)
    return found
