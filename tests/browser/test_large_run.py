"""A run of 10,000 ranks, 30 days and 200 faults: told over HTTP, its page is small, folded, and can be zoomed."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from rerail.server.cli import main
from tests.browser.serving import Server, serve

pytestmark = [pytest.mark.browser, pytest.mark.anywhere]
RUN = "synth-5-large"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was told of the run by `rerail synth`, and has derived it."""
    for running in serve(tmp_path_factory.mktemp("large")):
        assert main(["synth", "--runs", "0", "--seed", "5", "--url", running.url]) == 0
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"{running.url}/api/v1/storage", timeout=20) as answer:
                    if json.load(answer)["waiting_runs"] == 0:
                        break
            except urllib.error.URLError:
                pass
            time.sleep(0.1)
        yield running


def test_its_page_is_read_without_scrolling_through_hundreds_of_rows(large: Server, open_page: Callable) -> None:
    page, seen = open_page(f"{large.url}/runs/{RUN}")
    page.wait_for_function("() => document.querySelector('#timeline-caption').textContent.includes('spans as shares')")
    assert "10,000 GPUs" in page.inner_text("h1")
    for panel in ("incidents", "attempts"):
        visible = page.locator(f"#{panel} tbody tr").evaluate_all(
            "rows => rows.filter(row => row.checkVisibility()).length"
        )
        assert visible == 12
        page.click(f"#{panel} details summary")
        assert page.locator(f"#{panel} tbody tr").count() > 150
    assert any("/figures/runs/" in url for url in seen.requests)


def test_what_its_page_transfers_is_small(large: Server) -> None:
    """Without the scripts that every page shares, which a browser keeps."""
    for path, most in ((f"/runs/{RUN}", 30_000), (f"/figures/runs/{RUN}/timeline?width=1400", 120_000)):
        request = urllib.request.Request(large.url + path, headers={"Accept-Encoding": "br"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert len(answer.read()) < most, path


def test_it_is_zoomed_down_to_exact_spans(large: Server, open_page: Callable) -> None:
    page, _ = open_page(f"{large.url}/runs/{RUN}")
    page.wait_for_function("() => document.querySelector('#timeline-caption').textContent.includes('spans as shares')")
    page.click("[data-range='86400']")
    page.wait_for_function("() => document.querySelector('#timeline-caption').textContent.includes('drawn exactly')")
