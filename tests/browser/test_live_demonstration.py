"""A real training job fails three times while a real browser looks on; the page is right while it happens and after.

The truth is what the training script writes beside its checkpoints: every step, load and fault, by its own clock, each
line a moment after the event itself. Steps, ranks and causes must agree exactly, instants within a second.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.browser.serving import Server, serve

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="trains for real: needs torch"),
]

RUN = "live demonstration/1"
SECONDS = 420


class Truth:
    """What the training script wrote."""

    def __init__(self, folder: Path) -> None:
        self.events = [
            json.loads(line)
            for path in sorted(folder.glob("truth.rank*.jsonl"))
            for line in path.read_text().splitlines()
        ]

    def of(self, event: str, attempt: int) -> list[dict]:
        """Events of one kind in one attempt, by time."""
        found = [told for told in self.events if told["event"] == event and told["attempt"] == attempt]
        return sorted(found, key=lambda told: told["t"])

    @property
    def faults(self) -> list[dict]:
        """The faults that were injected, in order."""
        return sorted((told for told in self.events if told["event"] == "fault"), key=lambda told: told["t"])


def seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def figures(url: str) -> dict:
    with urllib.request.urlopen(f"{url}/api/v1/runs/{urllib.request.quote(RUN, safe='')}", timeout=20) as answer:
        return json.load(answer)


def wait_for(condition, process: subprocess.Popen, folder: Path, what: str):
    """Poll until it holds; the demonstration's own words where it does not."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        if process.poll() not in (None, 0):
            break
        time.sleep(0.25)
    pytest.fail(f"never {what}\n{(folder / 'screen').read_text()[-2000:]}")
    return None


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that knows no run yet."""
    (tmp_path / "server").mkdir()
    yield from serve(tmp_path / "server")


def test_the_page_follows_a_real_run_through_its_faults_and_tells_the_truth(own_server, open_page, tmp_path: Path):
    url = own_server.url
    command = [sys.executable, "-m", "rerail", "demo", "--url", url, "--run", RUN, "--dir", str(tmp_path / "demo")]
    with (tmp_path / "screen").open("w") as screen:
        process = subprocess.Popen(command, stdout=screen, stderr=screen)
    try:
        address = f"{url}/runs/{urllib.request.quote(RUN, safe='')}"
        wait_for(lambda: _is_known(url), process, tmp_path, "known to the server")
        page, _ = open_page(address)
        page.wait_for_selector("#run-page")

        first = wait_for(lambda: _shown_step(page), process, tmp_path, "a step on the page")
        wait_for(lambda: _shown_step(page) > first, process, tmp_path, "more steps without a reload")
        wait_for(
            lambda: page.locator("text=/Not training|incident open/").count(),
            process,
            tmp_path,
            "an incident while open",
        )
        wait_for(lambda: page.locator("a:has-text('loss anomaly')").count(), process, tmp_path, "the first cause")
        process.wait(SECONDS)
        for cause in ("loss anomaly", "sigkill", "hang"):
            wait_for(lambda cause=cause: page.locator(f"a:has-text('{cause}')").count(), process, tmp_path, cause)
        wait_for(lambda: page.locator("text=completed").count(), process, tmp_path, "the end on the page")
    finally:
        process.terminate()
        process.wait(60)
    told = wait_for(lambda: _when_ended(url), process, tmp_path, "ended")
    _compare(told, Truth(tmp_path / "demo"))


def _is_known(url: str) -> bool:
    try:
        return bool(figures(url)["attempts"])
    except urllib.error.HTTPError:
        return False


def _when_ended(url: str) -> dict | None:
    told = figures(url)
    return told if told["state"] == "ended" else None


def _shown_step(page) -> int:
    """The high-water step the page shows; 0 while it shows none."""
    shown = page.evaluate(
        "() => [...document.querySelectorAll('*')].find(each => each.children.length === 0"
        " && each.textContent.trim() === 'High-water step')?.parentElement?.innerText ?? ''"
    )
    numbers = [int(word) for word in shown.replace(" ", "").split() if word.isdigit()]
    return numbers[0] if numbers else 0


def _compare(told: dict, truth: Truth) -> None:
    """Causes, rollbacks and anatomies against what truly happened."""
    faults = truth.faults
    assert [fault["kind"] for fault in faults] == ["exception", "sigkill", "hang"]
    incidents = told["incidents"]
    assert [incident["cause"] for incident in incidents] == ["loss_anomaly", "sigkill", "hang"]
    assert [incident["culprit_rank"] for incident in incidents] == [1, 1, 1], "the hang's by what its ranks answered"
    assert "Rank 1 stood in maybe_fail (train.py:" in incidents[2]["verdict"]
    for number, (incident, fault) in enumerate(zip(incidents, faults, strict=True)):
        steps, (load, *_) = truth.of("step", number), truth.of("load", number + 1)
        high_water = max(step["step"] for step in steps)
        assert incident["rollback"]["from_step"] == high_water
        assert incident["rollback"]["to_step"] == load["step"]
        assert incident["lost_steps"] == high_water - load["step"]
        assert incident["scope"] == "in_job"
        assert incident["attempts"] == [number]
        assert abs(seconds(incident["started_at"]) - max(step["t"] for step in steps)) < 1
        assert -0.1 < seconds(incident["noticed_at"]) - fault["t"] < (16 if fault["kind"] == "hang" else 6)
        passed = next(step for step in truth.of("step", number + 1) if step["step"] == high_water)
        assert abs(seconds(incident["ended_at"]) - passed["t"]) < 1
        parts = incident["parts_seconds"]
        assert sum(parts.values()) == pytest.approx(incident["time_to_recover_seconds"], abs=1e-6)
        detecting = seconds(incident["noticed_at"]) - seconds(incident["started_at"])
        assert parts["detecting"] == pytest.approx(detecting, abs=0.01)
        assert {"detecting", "stopping", "initializing", "loading", "catch_up"} <= set(parts)
    assert incidents[1]["exit_codes"].get("1") == -9
    quality = told["data_quality"]
    assert (quality["duplicates"], quality["contradictory"], quality["rejected"]) == (0, 0, 0)
    assert told["high_water_step"] == told["current_step"] == told["target_step"]
    silent = told["seconds_by_phase"].get("silent", 0)
    assert silent < 0.1 * told["elapsed_seconds"], told["seconds_by_phase"]
