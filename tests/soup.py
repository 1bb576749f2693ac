"""Soup: facts of every kind that fit the wire format and nothing else: not each other, not their clock, not their run.

Every field is drawn on its own, from few values, so that facts meet: the same attempt told by two emitters, a phase
over another, a load before its attempt, an exit told twice, an end before its beginning.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from rerail.server.core.facts import (
    STATED_PHASES,
    ArtefactState,
    AttemptEnded,
    AttemptStarted,
    Blind,
    Capacity,
    CheckpointLoaded,
    CheckpointMoment,
    CheckpointStage,
    Clock,
    Evidence,
    Excluded,
    ExclusionState,
    Exit,
    Fact,
    Heartbeats,
    Initiator,
    MarkStage,
    Metric,
    NodeCondition,
    NodeState,
    Note,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunEnded,
    RunStarted,
    SchedulerState,
    Scope,
    Steps,
    WindowState,
)

BEGINNING = 1_760_000_000_000_000_000
SECOND = 1_000_000_000
EMITTERS = ("launcher", "rank/0", "rank/1", "slurm")

instants = st.one_of(
    st.integers(0, 60).map(lambda fives: BEGINNING + 5 * fives * SECOND),
    st.integers(0, 300 * SECOND).map(lambda ns: BEGINNING + ns),
)
steps = st.integers(0, 12)
maybe = st.none
few_us = st.sampled_from([0, 1, 999, 1000, 500_000, 1_000_000, 5_000_000, 40_000_000, 200_000_000])
windows = st.tuples(instants, instants).map(sorted)


def _optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(st.none(), values)


def _span(draw: st.DrawFn) -> dict[str, object]:
    start, end = draw(windows)
    return {"start": start, "end": end}


def _phase(draw: st.DrawFn) -> dict[str, object]:
    phase = draw(st.sampled_from(sorted(STATED_PHASES)))
    fields: dict[str, object] = {"phase": phase, "span": draw(_optional(st.sampled_from(["s", "t"])))}
    name = draw(_optional(st.just("custom"))) if phase is Phase.OVERHEAD else None
    fields["name"] = name
    shape = draw(st.sampled_from(["closed", "open", "end"]))
    if shape == "closed":
        return fields | _span(draw)
    if shape == "end" and fields["span"] is not None:
        return fields | {"end": draw(instants)}
    return fields | {"start": draw(instants)}


def _steps(draw: st.DrawFn) -> dict[str, object]:
    count = draw(_optional(st.integers(1, 9)))
    durations = tuple(draw(st.lists(few_us, min_size=1, max_size=1 if count else 9)))
    return {"first_step": draw(steps), "start": draw(instants), "durations_us": durations, "count": count}


def _beats(draw: st.DrawFn) -> dict[str, object]:
    fields: dict[str, object] = {
        **_span(draw),
        "phase": draw(_optional(st.just("training"))),
        "armed_timeout_us": draw(_optional(few_us)),
    }
    if draw(st.booleans()):
        return fields | {"count": draw(st.integers(0, 9)), "max_gap_us": draw(few_us)}
    counts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    gaps = draw(st.lists(few_us, min_size=len(counts), max_size=len(counts)))
    return fields | {
        "rank": None,
        "first_rank": draw(st.integers(0, 5)),
        "rank_counts": tuple(counts),
        "rank_max_gaps_us": tuple(gaps),
        "count": sum(counts),
        "max_gap_us": max(gaps),
    }


KINDS: dict[type[Fact], Callable[[st.DrawFn], dict[str, object]]] = {
    RunStarted: lambda draw: {
        "gpus": draw(_optional(st.sampled_from([0, 8]))),
        "world_size": draw(_optional(st.just(2))),
        "target_step": draw(_optional(steps)),
    },
    RunEnded: lambda draw: {"outcome": draw(st.sampled_from(Outcome))},
    AttemptStarted: lambda draw: {
        "scope": draw(_optional(st.sampled_from(Scope))),
        "initiator": draw(_optional(st.sampled_from(Initiator))),
        "gpus": draw(_optional(st.sampled_from([0, 4, 8]))),
        "nodes": draw(st.sampled_from([(), ("n0",), ("n0", "n1")])),
        "config": draw(_optional(st.sampled_from(['{"a":1}', '{"a":2,"b":null}']))),
    },
    AttemptEnded: lambda draw: {
        "outcome": draw(_optional(st.sampled_from(Outcome))),
        "exit_codes": draw(st.sampled_from([(), ((0, 0),), ((0, 1), (1, -9))])),
    },
    PhaseSpan: _phase,
    Steps: _steps,
    CheckpointMoment: lambda draw: {
        "step": draw(steps),
        "stage": draw(st.sampled_from(CheckpointStage)),
        "checkpoint": draw(_optional(st.sampled_from(["c", "d"]))),
        "mode": draw(_optional(st.sampled_from(["sync", "async"]))),
        "blocked_us": draw(_optional(few_us)),
    },
    CheckpointLoaded: lambda draw: {
        "step": draw(steps),
        **_span(draw),
        "outcome": draw(_optional(st.sampled_from(["ok", "failed"]))),
    },
    Heartbeats: _beats,
    RecoveryMark: lambda draw: {
        "stage": draw(st.sampled_from(MarkStage)),
        "by": draw(_optional(st.sampled_from(["hang", "exception"]))),
    },
    Exit: lambda draw: {"exit_code": draw(st.sampled_from([0, 1, -9])), "oom_killed": draw(_optional(st.booleans()))},
    Evidence: lambda draw: {
        "source": "stderr",
        "text": draw(st.sampled_from(["CUDA out of memory", "hello"])),
        "artefact": draw(st.sampled_from([None, "file0", "file1"])),
    },
    ArtefactState: lambda draw: {
        "artefact": draw(st.sampled_from(["file0", "file1"])),
        "state": draw(st.sampled_from(WindowState)),
    },
    NodeState: lambda draw: {"node": "n0", "state": draw(st.sampled_from(NodeCondition))},
    Capacity: lambda draw: {"gpus": draw(st.sampled_from([0, 4, 8, 512]))},
    SchedulerState: lambda draw: {"state": draw(st.sampled_from(["queued", "running", "backoff", "preempted", "odd"]))},
    Metric: lambda draw: {"name": "loss", "value": 1.0, "step": draw(_optional(steps))},
    Clock: lambda draw: {"offset_us": draw(st.sampled_from([0, 1, -1, 30_000_000, -90_000_000, 240_000_000]))},
    Blind: lambda draw: {
        "source": "sacct",
        "since": (edges := draw(windows))[0],
        "until": edges[1] if draw(st.booleans()) else None,
    },
    Note: lambda draw: {"text": "hm"},
    Excluded: _span,
    ExclusionState: lambda draw: {
        "window": draw(st.sampled_from([f"{emitter}~{seq}" for emitter in EMITTERS for seq in range(3)])),
        "state": draw(st.sampled_from(WindowState)),
    },
}  # fmt: skip

_WEIGHTED = (
    *KINDS, Steps, Steps, Steps, AttemptStarted, AttemptEnded, PhaseSpan, PhaseSpan, CheckpointMoment,
    CheckpointLoaded, RecoveryMark, RecoveryMark,
)  # fmt: skip
"""What makes a timeline comes more often."""


WAYS = ("all", "launcher without iteration", "iteration alone", "none", "anyhow")
"""Ways in which the emitters of one run count its attempts; in the last each fact counts otherwise."""


def _counts(draw: st.DrawFn, way: str, emitter: str) -> dict[str, object]:
    """What a fact tells of where in the run it is."""
    if way == "none":
        return {}
    if way == "iteration alone":
        return {"iteration": draw(st.sampled_from([None, 1, 2])) if emitter.startswith("rank/") else None}
    if way == "anyhow":
        return {
            "job": draw(st.sampled_from([None, "a", "b"])),
            "requeue": draw(st.sampled_from([None, 0, 1])),
            "restart": draw(st.sampled_from([None, 0, 1, 2])),
            "iteration": draw(st.sampled_from([None, 0, 1])),
        }
    counts: dict[str, object] = {"job": draw(st.sampled_from(["a", "a", "b"])), "requeue": draw(st.integers(0, 1))}
    counts["restart"] = draw(st.integers(0, 2))
    if way == "all" or emitter.startswith("rank/"):
        counts["iteration"] = draw(st.integers(0, 1))
    return counts


@st.composite
def soup(draw: st.DrawFn, fewest: int = 1, most: int = 30) -> list[Fact]:
    """Facts that need not fit each other."""
    facts: list[Fact] = []
    told: dict[str, int] = {}
    way = draw(st.sampled_from(WAYS))
    for _ in range(draw(st.integers(fewest, most))):
        kind = draw(st.sampled_from(_WEIGHTED))
        emitter = draw(st.sampled_from(EMITTERS))
        seq = told[emitter] = told.get(emitter, -1) + 1
        counts = _counts(draw, way, emitter)
        who = {"rank": draw(st.sampled_from([None, 0, 1])), "node": draw(st.sampled_from([None, "n0"]))}
        common = {"run": "soup", "emitter": emitter, "seq": seq, "at": draw(instants), **counts, **who}
        facts.append(kind(**{**common, **KINDS[kind](draw)}))
    return facts
