"""Recorded histories come out with the figures they must give, in any order, any batches, any number of times."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from rerail.server.core import goodput, report, run_timeline
from rerail.server.core.fold import RunFold
from rerail.server.core.view import RunView
from tests.histories import History, differences, histories

every_history = pytest.mark.parametrize("history", histories(), ids=lambda history: history.name)


def as_json(value: dict[str, object]) -> dict:
    """What a reader of the JSON sees."""
    return json.loads(json.dumps(value))


def comparable(view: RunView) -> RunView:
    """The view without the two counts that tell how facts arrived, not what they say."""
    return replace(view, data_quality=replace(view.data_quality, late=0, duplicates=0))


@every_history
def test_a_recorded_history_gives_its_figures(history: History):
    expected = history.expected
    facts = history.facts()
    folded = RunFold(facts[0].run)
    folded.add(facts)
    figures = as_json(report.figures(folded.view(expected["as_of"])))
    windows = (
        (want, as_json(report.account_figures(goodput.account(folded.spans, want["from_ns"], want["to_ns"]))))
        for want in expected["windows"]
    )
    assert differences(expected, figures, windows) == []


@every_history
@pytest.mark.parametrize("open_blocks", [2, 128], ids=["sealing early", "sealing late"])
def test_order_duplicates_and_batches_change_nothing(history: History, open_blocks: int, monkeypatch):
    monkeypatch.setattr(run_timeline, "OPEN_NS", 0)
    monkeypatch.setattr(run_timeline, "FEWEST_OPEN_BLOCKS", open_blocks)
    monkeypatch.setattr(run_timeline, "SEALED_AT_ONCE", max(1, open_blocks // 2))
    as_of = history.expected["as_of"]
    facts = history.facts()
    whole = RunFold(facts[0].run)
    whole.add(facts)
    expected = comparable(whole.view(as_of))
    for seed in range(2):
        chance = random.Random(f"{history.name}/{seed}")
        told = [*facts, *chance.choices(facts, k=len(facts) // 4)]
        if seed:
            chance.shuffle(told)
        piecewise = RunFold(facts[0].run)
        while told:
            size = chance.randint(1, 40)
            piecewise.add(told[:size])
            del told[:size]
            before = list(piecewise.spans)
            piecewise.view(as_of)
            assert before[: piecewise.settled_spans] == piecewise.spans[: piecewise.settled_spans]
        assert comparable(piecewise.view(as_of)) == expected
        assert piecewise.spans == whole.spans
        assert piecewise.step_points == whole.step_points
