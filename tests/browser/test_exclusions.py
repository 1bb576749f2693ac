"""A window out of account, declared with the mouse: seen in picture, list and figures, undone, and done again."""

from __future__ import annotations

import re

import pytest

from tests.browser.stories import SECOND, finished

playwright_api = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.browser

START = 1_790_000_000 * SECOND
HOSTILE = '<img src=x onerror="window.fired=1">'


def infrastructure(page: object) -> str:
    return page.inner_text(".tiles").replace("\u202f", " ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_range_that_is_shown_is_excluded_and_the_figures_follow(server, open_page, scheme):
    run = f"excluded-{scheme}"
    server.tell(finished(run, START).lines())
    page, seen = open_page(server.url + f"/runs/{run}", color_scheme=scheme, timezone_id="America/New_York")
    page.wait_for_function("() => window.rerailTimeline && window.rerailTimeline.shown()")
    before = infrastructure(page)
    page.focus("#timeline-frame")
    page.keyboard.press("+")
    page.wait_for_function("() => /from=/.test(location.search)")
    page.wait_for_function(
        "() => String(new URLSearchParams(location.search).get('from')) === window.rerailTimeline.shown()[0]"
    )
    shown = page.evaluate("() => window.rerailTimeline.shown()")
    page.click("[data-exclude=open]")
    page.wait_for_function("() => /-04:00$/.test(document.getElementById('exclude-start').value)")
    page.fill("#exclude-reason", HOSTILE)
    page.fill("#exclude-author", "Ada")
    page.click("#exclude-send")
    page.wait_for_selector("#exclusions")
    words = page.inner_text("#exclusions")
    assert HOSTILE in words and "Ada" in words and "excluded" in words
    assert page.evaluate("() => window.fired") is None
    page.wait_for_function("() => /excluded/.test(document.getElementById('timeline-legend').textContent)")
    page.wait_for_function("(before) => document.querySelector('.tiles').innerText !== before", arg=before)
    page.click(".seg[data-range=all]")
    page.wait_for_function("() => !/from=/.test(location.search)")
    told = page.evaluate("(run) => fetch(`/api/v1/runs/${run}/exclusions`).then((answer) => answer.json())", run)
    (window,) = told["exclusions"]
    length = (int(shown[1]) - int(shown[0])) / SECOND
    assert re.fullmatch(r"people~\d+", window["window"])
    excluded = page.evaluate("(run) => fetch(`/api/v1/runs/${run}`).then((answer) => answer.json())", run)
    assert abs(excluded["seconds_by_phase"]["excluded"] - length) < 0.01
    page.screenshot(path=f"/tmp/p3-{scheme}.png", full_page=True)

    page.click("[data-window-undo]")
    page.wait_for_selector("[data-window-redo]")
    assert "withdrawn by Ada" in page.inner_text("#exclusions")
    page.wait_for_function("() => !/excluded/.test(document.getElementById('timeline-legend').textContent)")
    page.click("[data-window-redo]")
    page.wait_for_selector("[data-window-undo]")
    assert "restored by Ada" in page.inner_text("#exclusions")
    assert seen.errors == []


def test_what_does_not_fit_is_said_beside_the_form(server, open_page):
    page, _ = open_page(server.url + "/runs/done", tolerated=("422",))
    page.wait_for_function("() => window.rerailTimeline && window.rerailTimeline.shown()")
    page.click("[data-exclude=open]")
    page.wait_for_function("() => document.getElementById('exclude-start').value")
    page.fill("#exclude-end", page.input_value("#exclude-start"))
    page.click("#exclude-send")
    page.wait_for_function("() => /not after start/.test(document.getElementById('exclude-said').textContent)")
    page.fill("#exclude-start", "yesterday")
    page.click("#exclude-send")
    page.wait_for_function("() => /yesterday/.test(document.getElementById('exclude-said').textContent)")
