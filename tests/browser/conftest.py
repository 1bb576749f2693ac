"""A real server in a process of its own, and a real Chromium in front of it."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.browser.serving import Server, serve
from tests.browser.stories import SECOND, finished, many_spans, two_faults

playwright_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-default-apps", "--disable-sync", "--no-first-run", "--force-color-profile=srgb",
]  # fmt: skip

START = 1_790_000_000 * SECOND
"""2026-09-21 14:13:20 UTC, 10:13:20 in New York."""

HOSTILE = '<img src=x onerror="window.fired=1"><script>window.fired=1</script>'


@dataclass(slots=True)
class Seen:
    """What a page did besides drawing."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    if not CHROMIUM.exists():
        pytest.skip("no Chromium")
    with playwright_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serve(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows four runs: over, alive, with very many spans, and with a hostile name."""
    for running in serve(tmp_path_factory.mktemp("store")):
        running.tell(finished("done", START, name="seventy-b", project="pretrain", labels={"team": "core"}).lines())
        alive = two_faults("alive", time.time_ns() - 4300 * SECOND, name="live-run")
        running.tell(alive.lines())
        running.tell(many_spans("many", START).lines())
        running.tell(finished("hostile/run <b>", START, name=HOSTILE, project="\x1b[31mred").lines())
        _until_shown(running.url)
        yield running


@pytest.fixture
def open_page(browser: object) -> Iterator[object]:
    """`open_page(url, **context)` → page and what it did; fails on errors and foreign requests at the end."""
    contexts = []

    def open_(url: str, *, tolerated: tuple[str, ...] = (), **context: object) -> tuple[object, Seen]:
        made = browser.new_context(**({"viewport": {"width": 1440, "height": 900}, "locale": "en-GB"} | context))
        page, seen = made.new_page(), Seen()
        contexts.append((made, seen, tolerated))
        page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: seen.errors.append(error.stack or str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(url)
        page.wait_for_selector("#page [data-title]")
        return page, seen

    yield open_
    for made, seen, tolerated in contexts:
        made.close()
        errors = [error for error in seen.errors if not any(part in error for part in tolerated)]
        foreign = [url for url in seen.requests if not url.startswith(("http://127.0.0.1", "data:", "blob:"))]
        assert errors == []
        assert foreign == []


def _until_shown(url: str) -> None:
    for run_id in ("done", "alive", "many"):
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{url}/api/v1/runs/{run_id}", timeout=5).close()
                break
            except urllib.error.HTTPError as error:
                error.close()
                time.sleep(0.1)
