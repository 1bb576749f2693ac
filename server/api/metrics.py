"""`/metrics`: the state of this server and its runs for Prometheus, in its text exposition format.

Rules
- Runs that ended more than a day ago have no series of their own; of the others the newest `MOST_RUNS`.
- What is not known has no sample: a gap in a graph is honest, a 0 is not.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from fastapi import APIRouter, Response

from rerail.server.core.view import RunState
from rerail.server.queries import Queries
from rerail.server.query_results import RunRow

MOST_RUNS = 1000
DAY = 86_400 * 10**9

Sample = tuple[Sequence[tuple[str, str]], float]


def metrics_router(queries: Queries) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["operations"])

    @router.get("/metrics", summary="For Prometheus")
    def metrics() -> Response:
        return Response(exposition(queries), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def exposition(queries: Queries, now: int | None = None) -> str:
    """Every metric."""
    now = time.time_ns() if now is None else now
    found = [queries.runs(state=state.value, limit=MOST_RUNS) for state in RunState]
    rows = [row for page in found for row in page.rows if row.ended_at is None or now - row.ended_at < DAY]
    storage = queries.storage()
    totals = queries.alerts.totals()
    lines: list[str] = []
    states = zip(RunState, found, strict=True)
    _metric(
        lines,
        "rerail_runs",
        "gauge",
        "Runs by state",
        [([("state", state.value)], page.total) for state, page in states],
    )
    for name, about, value in (
        ("training_goodput", "Productive time / elapsed, whole life", lambda row: row.training_goodput),
        ("infrastructure_goodput", "1 - time lost to faults / elapsed", lambda row: row.infrastructure_goodput),
        ("steps_at_risk", "Steps that a crash would cost now", lambda row: row.steps_at_risk),
        ("high_water_step", "Highest step ever completed", lambda row: row.high_water_step),
    ):
        _metric(lines, f"rerail_run_{name}", "gauge", about, _of_runs(rows, value))
    _metric(lines, "rerail_faults", "gauge", "Unplanned incidents known, by cause",
            [([("cause", cause)], times) for cause, times in sorted(totals.faults.items())])  # fmt: skip
    _metric(lines, "rerail_alerts_open", "gauge", "Open alerts",
            [([("rule", rule), ("severity", severity)], times)
             for (rule, severity), times in sorted(queries.alerts.open_by_rule().items())])  # fmt: skip
    _metric(lines, "rerail_intake_lines_total", "counter", "Lines of facts, by what became of them",
            [([("result", result)], times) for result, times in totals.intake.items()])  # fmt: skip
    _metric(lines, "rerail_projector_waiting_runs", "gauge", "Runs with facts that no view shows yet",
            [((), storage.waiting_runs)])  # fmt: skip
    lag = (storage.oldest_waiting_ns or 0) / 1e9
    _metric(
        lines, "rerail_projector_lag_seconds", "gauge", "Age of the oldest fact that no view shows yet", [((), lag)]
    )
    _metric(lines, "rerail_projector_failed_runs", "gauge", "Runs whose figures could not be made",
            [((), len(storage.failed_runs))])  # fmt: skip
    _metric(lines, "rerail_messages", "gauge", "Messages of alerts that wait, or were given up",
            [([("state", state)], times) for state, times in sorted(totals.messages.items())])  # fmt: skip
    return "\n".join(lines) + "\n"


def _of_runs(rows: Iterable[RunRow], value) -> list[Sample]:
    return [
        ([("run", row.run_id), ("project", row.project or "")], float(figure))
        for row in rows
        if (figure := value(row)) is not None
    ]


def _metric(lines: list[str], name: str, kind: str, about: str, samples: Iterable[Sample]) -> None:
    lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        lines.append(f"{name}{{{told}}} {value!r}" if told else f"{name} {value!r}")


def _escaped(text: str) -> str:
    sayable = text.encode("utf-8", "backslashreplace").decode()
    return sayable.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
