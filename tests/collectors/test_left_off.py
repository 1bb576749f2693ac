"""Left off: whether a log of the past is one that nobody writes any more."""

from __future__ import annotations

import pytest

from rerail.collectors.sources.left_off import left_off
from rerail.server.core.facts import AttemptEnded, AttemptStarted, Evidence, Fact, Outcome, RunEnded, Steps

S = 10**9
HOUR = 3600 * S
COMMON = {"run": "r", "emitter": "log/x"}


def log(gap: int, *more: Fact) -> list[Fact]:
    """Ten steps, one each `gap` seconds, and what else it told."""
    steps = [
        Steps(**COMMON, seq=n, at=n * gap * S, first_step=n, start=(n - 1) * gap * S, durations_us=(gap * 10**6,))
        for n in range(1, 11)
    ]
    return [AttemptStarted(**COMMON, seq=0, at=0), *steps, *more]


@pytest.mark.parametrize(
    ("facts", "now", "written_at", "at"),
    [
        (log(10), 100 * S + 2 * HOUR, None, 100 * S),
        (log(10), 100 * S + 2 * HOUR, 100 * S + 2 * HOUR, 100 * S),  # a copy has a new time of writing
        (log(10), 200 * S, 200 * S - 2 * HOUR, 100 * S),  # a zone that nobody told
        (log(10), 100 * S + HOUR, 100 * S, None),
        (log(1000), 10_000 * S + 2 * HOUR, None, None),  # it speaks that seldom
        (log(1000), 10_000 * S + 3 * HOUR, None, 10_000 * S),
        (log(10, RunEnded(**COMMON, seq=99, at=99 * S, outcome=Outcome.COMPLETED)), 3 * HOUR, None, None),
        (log(10, RunEnded(**COMMON, seq=99, at=50 * S, outcome=Outcome.STOPPED)), 3 * HOUR, None, 100 * S),
        (log(10, AttemptEnded(**COMMON, seq=99, at=101 * S, outcome=Outcome.FAILED)), 3 * HOUR, None, 101 * S),
        ([Evidence(**COMMON, seq=1, at=5, source="stderr", text="x")], 3 * HOUR, None, None),
    ],
)
def test_a_run_ended_where_its_log_did_if_nobody_wrote_it_for_long(
    facts: list[Fact], now: int, written_at: int | None, at: int | None
):
    end = left_off(facts, now=now, written_at=written_at, seq=7, run="r", emitter="log/x")
    assert (None if end is None else end.at) == at
    assert end is None or end.outcome is None
