"""A small run as the results of queries, for tests that need no server."""

from __future__ import annotations

from rerail.server.core.facts import Outcome, Phase, Scope
from rerail.server.core.view import (
    Account,
    Attempt,
    CausalRole,
    Checkpoint,
    CheckpointFreshness,
    DataQuality,
    Domain,
    EvidenceLine,
    FailureRates,
    HeartbeatFigures,
    Incident,
    Part,
    Percentiles,
    RecoveryDistribution,
    Rollback,
    RunState,
    RunView,
    Span,
    SpanKind,
    Verdict,
    WaterfallRow,
)

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
"""2026-09-21 14:13:20 UTC."""


def at(seconds: float) -> int:
    """An instant of the sample."""
    return START + int(seconds * SECOND)


SPANS = (
    Span(at(0), at(40), Phase.INITIALIZING, SpanKind.STARTUP, 0),
    Span(at(40), at(640), Phase.TRAINING, SpanKind.PRODUCTIVE, 0, None, 1, 600),
    Span(at(640), at(730), Phase.DETECTING, SpanKind.FAULT, 0),
    Span(at(730), at(760), Phase.LOADING, SpanKind.FAULT, 1),
    Span(at(760), at(860), Phase.RECOMPUTING, SpanKind.REWORK, 1, None, 501, 600),
    Span(at(860), at(1000), Phase.TRAINING, SpanKind.PRODUCTIVE, 1, None, 601, 740),
)

ACCOUNT = Account(
    start=at(0),
    end=at(1000),
    elapsed_ns=1000 * SECOND,
    ns_by_phase=(
        (Phase.DETECTING, 90 * SECOND),
        (Phase.LOADING, 30 * SECOND),
        (Phase.INITIALIZING, 40 * SECOND),
        (Phase.RECOMPUTING, 100 * SECOND),
        (Phase.TRAINING, 740 * SECOND),
    ),
    productive_ns=740 * SECOND,
    debt_ns=0,
    faults_ns=120 * SECOND,
    startup_ns=40 * SECOND,
    planned_ns=0,
    longest_unproductive_ns=220 * SECOND,
    waterfall=(
        WaterfallRow("elapsed", 1000 * SECOND, 1.0, True),
        WaterfallRow("faults", 120 * SECOND, 0.12, False),
        WaterfallRow("infrastructure_goodput", 880 * SECOND, 0.88, True),
        WaterfallRow("startup", 40 * SECOND, 0.04, False),
        WaterfallRow("planned", 0, 0.0, False),
        WaterfallRow("checkpoint", 0, 0.0, False),
        WaterfallRow("rework", 100 * SECOND, 0.1, False),
        WaterfallRow("stalls", 0, 0.0, False),
        WaterfallRow("overhead", 0, 0.0, False),
        WaterfallRow("unknown", 0, 0.0, False),
        WaterfallRow("training_goodput", 740 * SECOND, 0.74, True),
    ),
)

RECOVERED = Percentiles(1, *[220 * SECOND] * 5)
RESTARTED = Percentiles(1, *[120 * SECOND] * 5)

CHECKPOINTS = (
    Checkpoint("c500", 500, 0, "async", "global", at(500), at(520), at(560), blocked_ns=4 * SECOND),
    Checkpoint("c600", 600, 0, "async", "global", at(620), at(630), failed_at=at(635)),
)

INCIDENT = Incident(
    incident_id="run/a~0",
    run_id="run/a",
    attempts=(0,),
    started_at=at(640),
    noticed_at=at(730),
    restarted_at=at(760),
    ended_at=at(860),
    is_planned=False,
    is_open=False,
    scope=Scope.IN_JOB,
    verdict=Verdict("gpu_oom", Domain.WORKLOAD, 0.9, "Rank 3 ran out of GPU memory.", 3, "node00", "Lower the batch."),
    parts=(Part("detecting", 90 * SECOND), Part("loading", 30 * SECOND), Part("catch_up", 100 * SECOND)),
    time_to_restart_ns=120 * SECOND,
    time_to_recover_ns=220 * SECOND,
    lost_steps=100,
    lost_ns=100 * SECOND,
    lost_gpu_ns=220 * 8 * SECOND,
    exit_codes=((3, -9), (0, 1), (1, 1)),
    evidence=(EvidenceLine(at(720), "stderr", "<b>CUDA out of memory</b>", CausalRole.INITIATING, 3, "node00"),),
    rollback=Rollback(1, at(760), 600, 500, 100 * SECOND),
)

VIEW = RunView(
    run_id="run/a",
    as_of=at(1000),
    state=RunState.ENDED,
    started_at=at(0),
    ended_at=at(1000),
    last_heard_at=at(1000),
    silent_since=None,
    account=ACCOUNT,
    gpu_account=None,
    name="<i>sample</i>",
    gpus=8,
    target_step=740,
    outcome=Outcome.COMPLETED,
    high_water_step=740,
    attempts=(
        Attempt(
            0,
            at(0),
            at(730),
            first_step=1,
            last_step=600,
            outcome=Outcome.FAILED,
            is_interrupted=True,
            exit_codes=((3, -9),),
        ),
        Attempt(1, at(730), at(1000), scope=Scope.IN_JOB, first_step=501, last_step=740, resumed_from_step=500),
    ),
    restarts=1,
    interruptions=1,
    rollbacks=(Rollback(1, at(760), 600, 500, 100 * SECOND),),
    incidents=(INCIDENT,),
    recovery=(
        RecoveryDistribution("all", "all", 1, 0, RECOVERED, RESTARTED, 100, 100 * SECOND, 1760 * SECOND),
        RecoveryDistribution("scope", "in_job", 1, 0, RECOVERED, RESTARTED, 100, 100 * SECOND, 1760 * SECOND),
        RecoveryDistribution("initiator", "unknown", 1, 0, RECOVERED, RESTARTED, 100, 100 * SECOND, 1760 * SECOND),
    ),
    rates=FailureRates(
        1, 900 * SECOND, 1000 * SECOND, None, 900 * SECOND, 161 * SECOND, 35_549 * SECOND, 1000 * SECOND
    ),
    checkpoint=CheckpointFreshness(500, "c500", 480 * SECOND, 240, 40 * SECOND, 1, 2, 1, 1),
    heartbeat=(HeartbeatFigures("training", 400, 2 * SECOND, 3, 600 * SECOND),),
    data_quality=DataQuality(notes=("Only rank 0 reports.",)),
)
