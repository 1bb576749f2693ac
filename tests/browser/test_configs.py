"""Configs and comparisons in a real browser: what changed, why, and which side is better."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from rerail.collectors.demo.recorded import load_arms, shifted
from rerail.server.core.codec import encode_lines
from tests.browser.serving import Server, serve
from tests.story import Story

pytestmark = pytest.mark.browser
HOSTILE = '<img src=x onerror="window.fired=1">'


@pytest.fixture(scope="module")
def configs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the recorded arms, and a run whose heartbeat time-out was raised."""
    for running in serve(tmp_path_factory.mktemp("configs")):
        for name, lines in load_arms():
            running.tell(b"".join(shifted(lines, time.time_ns(), run=f"arm-{name}")).decode())
        story = Story("raised")
        for index, heartbeat in enumerate((300, 600)):
            story.start(config=json.dumps({"rank_heartbeat_timeout": heartbeat, "path": HOSTILE})).bring_up(10)
            story.steps(1 + 50 * index, 50 + 50 * index)
            if not index:
                story.die(after=20).stop(1)
        running.tell(encode_lines(story.finish().facts).decode())
        for _ in range(300):
            with urllib.request.urlopen(f"{running.url}/api/v1/configs", timeout=20) as answer:
                if json.load(answer)["total"] == 7:
                    break
            time.sleep(0.1)
        yield running


@pytest.mark.parametrize("width", [1440, 390])
def test_the_recorded_arms_are_compared_with_curves_and_nothing_overflows(configs_server, open_page, width) -> None:
    sides = "&".join(f"with=run:arm-{name}" for name, _ in load_arms())
    address = f"{configs_server.url}/compare?{sides}&with=run:nosuch"
    page, _ = open_page(address, viewport={"width": width, "height": 900})
    page.wait_for_selector("#compare-curves .scatterlayer .trace")
    assert page.locator("#compare-curves .scatterlayer .trace").count() == 5
    assert "has the most training goodput" in page.inner_text("#compare-content .sentence")
    assert "3 pairs of faults of one schedule" in page.inner_text("#compare-rest")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "no run named nosuch" in page.inner_text("#compare-sides"), "and the others stay"
    page.click("#compare-sides a[aria-label='without run:nosuch']")
    page.wait_for_function("() => !document.querySelector('#compare-sides').innerText.includes('nosuch')")
    page.click("#compare-sides a[aria-label^='without run:arm-whole_job']")
    page.wait_for_function("() => document.querySelectorAll('#compare-curves .scatterlayer .trace').length === 4")
    page.fill("#compare-add", "rais")
    page.wait_for_selector("[role=option]:visible >> text=run:raised")
    page.fill("#compare-add", "raised")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('#compare-curves .scatterlayer .trace').length === 5")
    assert page.url.endswith("&with=raised")


def test_somebody_says_why_a_config_changed_and_undoes_it(configs_server, open_page) -> None:
    page, _ = open_page(f"{configs_server.url}/configs/changes")
    page.click("text=nobody said why")
    page.wait_for_function(
        "() => document.querySelector('#change-content .sentence').textContent.includes('(unexplained)')"
    )
    page.go_back()
    page.wait_for_function("() => !document.querySelector('#change-content .sentence').textContent.includes('(')")
    page.click("text=raised >> xpath=ancestor::tr >> td:first-child a")
    page.wait_for_selector("#change-form")
    page.fill("#change-author", "Ada")
    page.fill("#change-changed_by", "Ben")
    page.fill("#change-reason", HOSTILE)
    page.fill("#change-target", "raised~0")
    page.click("#change-send")
    page.wait_for_selector("#said li >> nth=1")
    assert HOSTILE in page.inner_text("#change")
    assert "argued for by raised~0" in page.inner_text("#change")
    assert page.evaluate("window.fired") is None
    page.click("[data-undo-change] >> nth=0")
    page.wait_for_selector("#said .badge-outline")
    assert HOSTILE not in page.inner_text("#change")
    page.wait_for_selector("[data-note=new]")
    page.click("[data-note=new]")
    page.fill("#note-text", "argued for by raised~0")
    page.click("[data-note=save]")
    page.wait_for_selector("#notes-list a[href$='/incidents/raised~0']")


def test_a_config_change_is_a_mark_on_the_timeline_of_its_run(configs_server, open_page) -> None:
    page, _ = open_page(f"{configs_server.url}/runs/raised")
    page.wait_for_selector("#timeline-legend .sign-config")
    page.wait_for_selector("#timeline .js-plotly-plot")
    assert "config change 1" in page.inner_text("#timeline-legend")
    links = page.evaluate(
        "document.querySelector('#timeline .js-plotly-plot').data.flatMap((trace) => trace.customdata || [])"
    )
    assert "/configs/changes/raised%401" in links
    assert page.evaluate("window.fired") is None


def test_every_config_has_a_page_and_two_of_them_a_difference(configs_server, open_page) -> None:
    page, _ = open_page(f"{configs_server.url}/configs")
    found = page.locator("#configs-list td:first-child a")
    links = found.evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert len(links) == 7
    page.fill("#configs-search", "heartbeat_timeout 600")
    page.wait_for_function("() => document.querySelectorAll('#configs-list tbody tr').length === 1")
    assert "q=heartbeat_timeout+600" in page.url
    page.goto(configs_server.url + links[0])
    page.wait_for_selector("#settings tbody tr")
    page.goto(f"{configs_server.url}{links[0]}?against={links[1].split('/')[-1]}")
    page.wait_for_selector("#what-happened")
