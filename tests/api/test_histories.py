"""Recorded histories through the real intake, read back by the queries: the figures that were worked out by hand."""

from __future__ import annotations

import httpx
import pytest

from tests.histories import History, differences, histories


@pytest.mark.parametrize("history", histories(), ids=lambda history: history.name)
def test_a_history_sent_over_http_gives_its_figures(shared: httpx.Client, history: History) -> None:
    answer = shared.post("/api/v1/facts", content=history.lines).json()
    assert answer["rejected"] == []
    expected = history.expected
    path = f"/api/v1/runs/{expected['run_id']}"
    figures = shared.get(path, params={"as_of": expected["as_of"]}).json()
    windows = (
        (
            want,
            shared.get(path, params={"from": want["from_ns"], "to": want["to_ns"], "as_of": expected["as_of"]}).json(),
        )
        for want in expected["windows"]
    )
    assert differences(expected, figures, windows) == []
