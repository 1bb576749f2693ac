"""Alerts and the fleet in a real browser: seen, taken, resolved; thresholds tried; a channel added and tested."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.browser.serving import Server, serve
from tests.browser.stories import SECOND, RunStory, finished

pytestmark = pytest.mark.browser


def looping(run: str) -> str:
    """A run that dies three times at one step."""
    story = RunStory(run, time.time_ns() - 400 * SECOND).begin(gpus=8, project="atlas").attempt(starting=5, gpus=8)
    story.steps(20).save()
    for _ in range(3):
        story.steps(10).die(5, "ValueError: <b>bad</b> record", stopping=2).back_to(20)
        story.attempt(starting=5, scope="in_job", gpus=8, loading=3)
    return story.steps(5).lines()


@pytest.fixture(scope="module")
def alerts_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that watches two crash loops and knows a run that is over."""
    for running in serve(tmp_path_factory.mktemp("alerts")):
        running.tell(finished("done", time.time_ns() - 86_400 * SECOND).lines())
        for run in ("loop-a", "loop-b"):
            running.tell(looping(run))
        until(lambda server=running: ask(server, "/api/v1/alerts?standing=open")["total"] >= 4)
        yield running


def ask(server: Server, path: str) -> dict:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=20) as answer:
        return json.load(answer)


def until(is_so) -> None:
    for _ in range(300):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def test_the_fleet_says_who_needs_a_person_and_leads_there(alerts_server, open_page):
    page, _ = open_page(f"{alerts_server.url}/")
    page.wait_for_selector("#wanting")
    assert "2 runs need a person" in page.inner_text("#fleet-content .sentence")
    assert "Same fault again" in page.inner_text("#wanting")
    assert page.locator(".fleet-column").count() == 56
    page.wait_for_selector(".nav-link[href='/alerts'][data-open]")
    page.click("#wanting a[href='/runs/loop-a']")
    page.wait_for_selector(".run-alerts")
    assert "Same fault again" in page.inner_text(".run-alerts")


def test_somebody_takes_an_alert_resolves_it_and_undoes_that(alerts_server, open_page):
    page, _ = open_page(f"{alerts_server.url}/alerts?q=loop-b")
    page.wait_for_selector(".alert-open")
    before = page.locator(".alert-open").count()
    page.fill("#alert-author", "Ada")
    page.click(".alert-open >> nth=0 >> [data-does=acknowledge]")
    page.wait_for_selector(".alert-acknowledged")
    assert "Ada has it" in page.inner_text(".alert-acknowledged")
    assert page.locator(".alert-open").count() == before - 1
    page.fill("#alert-reason", "smaller <i>records</i>")
    page.click(".alert-acknowledged >> [data-does=resolve]")
    page.wait_for_selector(".alert-resolved")
    assert "Ada: smaller <i>records</i>" in page.inner_text(".alert-resolved")
    page.click(".alert-resolved summary")
    page.click(".alert-resolved [data-does=undo] >> nth=0")
    page.wait_for_selector(".alert-acknowledged")
    page.click(".alert-acknowledged [data-pick=until]")
    day = datetime.now().astimezone() + timedelta(days=3)
    page.fill(".alert-until", f"{day:%Y-%m-%d}T09:30")
    page.click(".alert-acknowledged [data-pick=until]")
    page.wait_for_selector(".alert-silenced")
    said = page.inner_text(".alert-silenced")
    assert f"silenced until {day.day} {day:%b}" in said and "09:30" in said


def test_a_narrowed_list_acts_on_what_it_shows_and_the_way_back_widens_it(alerts_server, open_page):
    page, _ = open_page(f"{alerts_server.url}/runs")
    page.click(".nav-link[href='/alerts']")
    page.wait_for_selector(".alert-group")
    page.fill("#alerts-search", "loop-a")
    page.wait_for_function("() => /[?&]q=loop-a/.test(location.search)")
    page.wait_for_selector(".alert-group button >> text=/^resolve the \\d+ that match$/")
    assert page.locator(".alert a[href='/runs/loop-b']").count() == 0
    page.go_back()
    page.wait_for_selector(".alert a[href='/runs/loop-b']")
    assert page.input_value("#alerts-search") == ""
    page.go_back()
    page.wait_for_function("() => location.pathname === '/runs'")


def test_thresholds_are_tried_before_they_are_saved(alerts_server, open_page):
    page, _ = open_page(f"{alerts_server.url}/alerts", tolerated=("422",))
    page.click("#rule-same-step [data-threshold=times]")
    page.fill("#threshold-value", "50")
    page.click("#threshold-try")
    page.wait_for_function("() => /instead of/.test(document.getElementById('threshold-said').textContent)")
    assert page.inner_text("#threshold-said").startswith("0 alerts instead of 2")
    page.fill("#threshold-value", "1")
    page.click("#threshold-save")
    page.wait_for_function("() => /Who are you/.test(document.getElementById('threshold-said').textContent)")
    page.click("#threshold-save")
    page.wait_for_function("() => /not from 2 to 100/.test(document.getElementById('threshold-said').textContent)")
    page.fill("#threshold-value", "3")
    page.click("#threshold-save")
    page.wait_for_function("() => document.querySelector('#rule-same-step').textContent.includes('by default 2')")


def test_a_channel_is_added_tested_and_its_failure_shown_without_its_secret(alerts_server, open_page):
    page, _ = open_page(f"{alerts_server.url}/alerts")
    page.fill("#channel-name", "night shift")
    page.fill("#channel-address", "http://127.0.0.1:9/token-abc")
    page.fill("#channel-secret", "s3cr3t")
    page.click("#channel-add")
    page.wait_for_selector("#channels [data-does=test]")
    page.click("#channels [data-does=test]")
    page.wait_for_selector("#messages")
    assert "token-abc" not in page.content()
    assert "s3cr3t" not in page.content()


@pytest.mark.parametrize("path", ["/", "/alerts"])
def test_nothing_is_wider_than_a_phone(alerts_server, open_page, path):
    page, _ = open_page(f"{alerts_server.url}{path}")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_pages_of_no_one_run_are_drawn_again_when_something_comes(alerts_server, open_page):
    """What somebody does elsewhere, and a run that begins to fail, come without a reload; what is unfolded stays so."""
    problem = ask(alerts_server, "/api/v1/problems")["rows"][0]["problem_id"]
    alerts, _ = open_page(f"{alerts_server.url}/alerts")
    alerts.wait_for_selector(".alert")
    alerts.click(".alert >> nth=0 >> summary")
    one, _ = open_page(f"{alerts_server.url}/problems/{problem}")
    one.wait_for_selector("#problem-content")
    one.evaluate("window.kept = 1")
    alerts.evaluate("window.kept = 1")
    node, _ = open_page(f"{alerts_server.url}/nodes")
    node.wait_for_selector("#nodes-list")
    alerts_server.tell(looping("loop-late"))
    alerts.wait_for_selector("a[href='/runs/loop-late']", timeout=30_000)
    assert alerts.locator(".alert details[open]").count() == 1
    one.wait_for_selector("#problem-content a[href^='/incidents/loop-late']", timeout=40_000)
    assert one.evaluate("window.kept") == alerts.evaluate("window.kept") == 1


def test_a_group_is_silenced_by_a_key_and_given_back(alerts_server, open_page):
    page, _ = open_page(f"{alerts_server.url}/alerts")
    page.wait_for_selector(".alert-group")
    before = page.inner_text("#alerts-list .sentence")
    page.fill("#alert-author", "Ada")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.wait_for_function("() => document.activeElement.classList.contains('alert-group')")
    page.keyboard.press("s")
    page.wait_for_function("() => /^Silenced \\d+ alerts/.test(document.getElementById('alert-said').textContent)")
    page.wait_for_selector(".alert-silenced")
    page.click("#alert-said [data-does=undo]")
    page.wait_for_function("() => /^Undone for/.test(document.getElementById('alert-said').textContent)")
    page.wait_for_function(
        f"() => document.querySelector('#alerts-list .sentence').textContent === {json.dumps(before)}"
    )
    page.keyboard.press("j")
    page.keyboard.press("g")
    page.keyboard.press("a")  # Goes to alerts, and acknowledges nothing.
    page.wait_for_timeout(1000)
    assert page.inner_text("#alerts-list .sentence") == before
