"""Every page in a real browser: empty and full, light and dark, wide and narrow, in any zone, with hostile text."""

from __future__ import annotations

import csv
import json
import re
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta

import pytest

from tests.browser.serving import serve

playwright_api = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.browser

NOT_THERE = ("404",)
"""A browser reports the status of a document that is not there; that is the point of it."""


def drawn(page: object) -> None:
    """Wait until the picture of a run stands."""
    page.wait_for_function("() => document.querySelectorAll('#timeline .trace, #timeline .barlayer .point').length > 5")
    page.wait_for_function("() => (document.getElementById('timeline-caption') || {}).textContent")


@pytest.mark.parametrize("path", ["/", "/runs", "/data"])
def test_an_empty_store_teaches_the_command_with_its_own_address(empty_server, open_page, path):
    page, _ = open_page(empty_server.url + path)
    assert empty_server.url in page.inner_text(".command-line >> nth=0")


@pytest.mark.parametrize("path", ["/runs", "/runs/done", "/runs/alive", "/runs/many", "/incidents/done~0", "/data"])
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])  # the others: with axe, below
def test_every_page_stands_without_errors_and_fits_its_width(server, open_page, path, width, scheme):
    page, seen = open_page(server.url + path, viewport={"width": width, "height": 844}, color_scheme=scheme)
    if path.startswith("/runs/"):
        drawn(page)
    elif path == "/runs":
        page.wait_for_selector(".ag-row a")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate("() => document.documentElement.getAttribute('data-mantine-color-scheme')") == scheme
    assert seen.errors == []


def test_the_runs_page_filters_by_state_and_words_and_keeps_both_in_its_address(server, open_page):
    page, _ = open_page(server.url + "/runs")
    page.wait_for_selector(".ag-row a")
    page.fill("#runs-search", "seventy")
    page.wait_for_function("() => document.querySelectorAll('.ag-center-cols-container .ag-row').length === 1")
    assert "q=seventy" in page.url
    page.click(".ag-header-cell[col-id=recover]")
    page.wait_for_function("() => /sort=recover&order=asc/.test(location.search)")
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('.ag-center-cols-container .ag-row').length === 1")
    page.wait_for_selector(".ag-header-cell[col-id=recover][aria-sort=ascending]")
    page.click(".ag-row [col-id=state]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#run-page")
    assert page.url.startswith(server.url + "/runs/done")
    assert page.title() == "seventy-b · rerail"


PATHS = (
    "/", "/runs", "/runs/done", "/runs/alive", "/incidents/done~0", "/alerts", "/problems", "/nodes", "/configs",
    "/configs/changes", "/configs/changes/done%402", "/compare?with=run:done&with=run:alive", "/knowledge?q=crash",
    "/data",
)  # fmt: skip


@pytest.mark.parametrize(
    ("scheme", "width", "rules", "least"),
    [
        ("light", 390, ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], 16),
        ("dark", 1280, ["color-contrast", "link-in-text-block"], 1),  # what a scheme can spoil
    ],
)
def test_no_page_keeps_anything_from_readers_who_cannot_see_or_point(server, open_page, scheme, width, rules, least):
    """What axe-core knows of WCAG 2.1 A and AA; and who asked for less motion gets none, of scripts neither."""
    axe = pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
    page, _ = open_page(server.url + "/data", **look)
    page.evaluate(axe)
    found = {}
    for path in PATHS:
        page.evaluate("(path) => window.rerailShell.go(path)", path)
        page.wait_for_function(
            "() => !document.querySelector('[data-walked]') && document.querySelector('#page [data-title]')"
        )
        if "/runs/" in path:
            drawn(page)
        page.evaluate("() => document.querySelector('#page [data-title]').setAttribute('data-walked', '')")
        told = page.evaluate("(only) => axe.run({ runOnly: only })", rules)
        assert len(told["passes"]) >= least, f"axe saw no page at {path}"
        found |= {(path, each["id"]): each["nodes"][0]["html"] for each in told["violations"]}
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path
    assert found == {}
    page.evaluate("() => window.rerailShell.go('/runs/done')")
    page.wait_for_selector("#quality")
    assert page.evaluate("() => { scrollTo(0, 0); window.rerailShell.reveal('#quality'); return scrollY; }") > 0
    assert page.evaluate("() => getComputedStyle(document.querySelector('#quality')).animationName") == "none"


def test_a_table_is_saved_as_values(server, open_page):
    page, _ = open_page(server.url + "/runs/done")
    with page.expect_download() as saved:
        page.click("#incidents [data-do=csv]")
    assert saved.value.suggested_filename == "rerail-runs-done-incidents.csv"
    rows = list(csv.DictReader(saved.value.path().read_text(encoding="utf-8-sig").splitlines()))
    assert len(rows) == 2
    for row in rows:
        assert datetime.fromisoformat(row["when"]).utcoffset() == timedelta(0)
        assert float(row["to restart"]) > 0 and float(row["to recover"]) >= float(row["to restart"])
        assert int(row["lost"]) >= 0 and float(row["GPU-h"]) > 0


def test_a_run_says_first_how_good_it_was(server, open_page):
    page, _ = open_page(server.url + "/runs/done")
    sentence = page.inner_text(".sentence").replace("\u202f", " ")
    assert re.match(r"[\d.]+ % training goodput over 53 min", sentence), sentence
    assert "2 incidents" in sentence
    rows = page.locator("#incidents tbody tr")
    assert rows.count() == 2


def test_dragging_over_the_picture_zooms_writes_the_address_and_stays_small(server, open_page):
    page, _ = open_page(server.url + "/runs/many")
    drawn(page)
    with page.expect_response(lambda response: "/figures/" in response.url and "from=" in response.url) as answered:
        row = page.locator("#timeline .nsewdrag").nth(4)
        row.scroll_into_view_if_needed()
        box = row.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2, steps=4)
        page.mouse.up()
    assert len(answered.value.body()) < 200_000
    page.wait_for_function("() => /from=\\d+&to=\\d+/.test(location.search)")
    page.wait_for_function("() => /exactly/.test(document.getElementById('timeline-caption').textContent)")
    address = page.url
    page.reload()
    drawn(page)
    assert page.url == address
    page.click("[data-range=all]")
    page.wait_for_function("() => !/from=/.test(location.search)")


def test_the_whole_of_very_many_spans_is_small_too(server):
    with urllib.request.urlopen(f"{server.url}/figures/runs/many/timeline?width=1400") as answer:
        body = answer.read()
    drawing = json.loads(body)
    assert len(body) < 200_000
    assert "as shares" in drawing["caption"]
    assert any(trace["type"] == "heatmap" for trace in drawing["figure"]["data"])


@pytest.mark.parametrize(
    ("zone", "choice", "hour", "axis"),
    [
        ("America/New_York", "local", "10:13", "UTC−04:00"),
        ("America/New_York", "utc", "14:13", "UTC"),
        ("Asia/Seoul", "local", "23:13", "UTC+09:00"),
    ],
)
def test_a_reader_sees_the_hours_of_the_zone_they_chose_and_its_name(server, open_page, zone, choice, hour, axis):
    page, _ = open_page(server.url + "/runs/done", timezone_id=zone)
    drawn(page)
    if choice == "utc":
        page.click("#zone >> text=UTC")
        page.wait_for_function(
            "() => [...document.querySelectorAll('#timeline .annotation')].some((note) => note.textContent === 'UTC')"
        )
    started = page.locator(".about time").first
    assert hour in started.inner_text()
    assert "14:13:20 UTC" in started.get_attribute("title")
    assert axis in page.locator("#timeline .annotation").all_text_contents()
    first_tick = page.locator("#timeline .xtick text").first.text_content()
    assert first_tick.startswith(hour[:2]), first_tick
    named = "UTC" if choice == "utc" else zone.replace("_", " ")
    page.wait_for_function("(named) => document.getElementById('zone-name').textContent === named", arg=named)


def choose_utc(page: object) -> None:
    """Choose the zone on a page that may still be taking up its callbacks: a click before that is lost."""
    for _ in range(3):
        page.click("#zone >> text=UTC")
        try:
            page.wait_for_function("() => window.rerailTimes.state.zone === 'utc'", timeout=8000)
        except playwright_api.TimeoutError:
            page.click("#zone >> text=Local")
            continue
        return
    pytest.fail("the zone cannot be chosen")


def test_of_two_questions_that_overlap_the_last_one_is_drawn(server, open_page):
    page, _ = open_page(server.url + "/data", timezone_id="America/New_York")
    slow = "const answer = fetch; window.fetch = (url, how) => String(url).includes('/timeline?')"
    slow += " ? new Promise((go) => setTimeout(go, 700)).then(() => answer(url, how)) : answer(url, how)"
    page.add_init_script(slow)
    page.goto(server.url + "/runs/done")
    with page.expect_request(lambda request: "/timeline?" in request.url):
        page.wait_for_selector("#run-page")
    choose_utc(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('#timeline .annotation')].some((note) => note.textContent === 'UTC')"
    )


def test_the_zone_and_the_scheme_are_remembered(server, open_page):
    page, _ = open_page(server.url + "/runs/done", color_scheme="light", timezone_id="America/New_York")
    drawn(page)
    page.click("#zone >> text=UTC")
    page.click("#color-scheme")
    page.wait_for_function("() => document.documentElement.getAttribute('data-mantine-color-scheme') === 'dark'")
    page.reload()
    page.wait_for_selector("#page [data-title]")
    assert page.evaluate("() => document.documentElement.getAttribute('data-mantine-color-scheme')") == "dark"
    page.wait_for_function("() => /14:13/.test(document.querySelector('.about time').textContent)")


def test_what_people_wrote_is_shown_and_never_runs(server, open_page):
    page, _ = open_page(server.url + "/runs")
    page.wait_for_selector(".ag-row a >> text=onerror")
    page.click(".ag-row a >> text=onerror")
    page.wait_for_selector("#run-page")
    drawn(page)
    assert "<img src=x onerror" in page.inner_text("h1")
    page.click("#incidents tbody a >> nth=0")
    page.wait_for_selector("#incident-page")
    page.wait_for_selector(".evidence pre")
    assert page.evaluate("() => window.fired") is None


def test_a_live_run_grows_without_moving_what_is_read(server, open_page):
    page, _ = open_page(server.url + "/runs/alive")
    drawn(page)
    before = page.inner_text("#run-head")
    page.evaluate("() => document.getElementById('quality').scrollIntoView()")
    page.evaluate("() => { document.getElementById('quality').dataset.kept = 'yes'; }")
    top = "() => document.getElementById('quality').getBoundingClientRect().top"
    at = page.evaluate(top)
    fact = {"kind": "metric", "run": "alive", "emitter": "late", "seq": 1, "at": 0, "name": "loss", "value": 1.0}
    steps = {"kind": "steps", "run": "alive", "emitter": "rank/node00/0/boot", "seq": 100_000, "restart": 2}
    now = time.time_ns()
    steps |= {"at": now, "first_step": 2401, "start": now - 10**9, "durations_us": [1_000_000]}
    server.tell(json.dumps(fact | {"at": now}) + "\n" + json.dumps(steps))
    page.wait_for_function(
        "(before) => document.getElementById('run-head').innerText !== before", arg=before, timeout=15_000
    )
    assert abs(page.evaluate(top) - at) < 3  # though what stands above it may have become longer


def test_a_deep_link_as_the_first_request_has_its_scripts_and_styles(tmp_path):
    for running in serve(tmp_path):
        with urllib.request.urlopen(running.url + "/runs/anything") as answer:
            document = answer.read().decode()
        assert "/assets/style.css" in document
        assert "/assets/timeline.js" in document


def test_a_page_that_is_not_there_is_404_and_helps(server, open_page):
    page, _ = open_page(server.url + "/nowhere", tolerated=NOT_THERE)
    assert "No such page" in page.inner_text("h1")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(server.url + "/nowhere")
    refused.value.close()
    assert refused.value.code == 404
    page, _ = open_page(server.url + "/runs/nobody")
    assert "No run named nobody" in page.inner_text("h1")


def test_a_foreign_page_cannot_call_back(server):
    request = urllib.request.Request(
        server.url + "/_dash-update-component",
        b"{}",
        {"Content-Type": "application/json", "Origin": "https://elsewhere.example"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    refused.value.close()
    assert refused.value.code == 403


def test_keys_move_between_pages_and_through_time(server, open_page):
    page, _ = open_page(server.url + "/data")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_selector(".ag-row a")
    focused = "() => document.activeElement.closest('.ag-row')?.getAttribute('row-index')"
    rows = []
    for key in "jjkkj":
        page.keyboard.press(key)
        rows.append(page.evaluate(focused))
    assert rows == ["0", "1", "0", "0", "1"]
    page.keyboard.press("Enter")
    page.wait_for_selector("#run-page")
    page.goto(server.url + "/runs/done")
    drawn(page)
    page.focus("#timeline-frame")
    page.keyboard.press("+")
    page.wait_for_function("() => /from=/.test(location.search)")
    page.go_back()
    page.wait_for_function("() => !/from=/.test(location.search)")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("+")
    page.wait_for_function("() => /from=/.test(location.search)")
    lead = "document.querySelector('#waterfall .lead').textContent"
    page.wait_for_function(f"() => {lead}.startsWith('Of what the timeline shows')")
    page.focus("a.nav-link")
    page.keyboard.press("0")
    page.wait_for_function("() => !/from=/.test(location.search)")
    page.wait_for_function(f"() => {lead}.startsWith('From all the time')")
    page.keyboard.press("?")
    page.wait_for_selector(".keys")
    page.keyboard.press("Escape")
    page.wait_for_selector(".keys", state="hidden")
    page.keyboard.press("n")
    page.wait_for_function("() => document.activeElement.id === 'note-text'")
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.dataset.note") == "new"
    page.goto(server.url + "/knowledge?q=kind:incident")
    page.wait_for_selector(".found > li")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("j")
    assert page.evaluate("() => document.activeElement.closest('.found > li').matches(':first-child')")
    for path in ("/alerts", "/configs"):
        page.goto(server.url + path)
        page.wait_for_selector("#page input[id$=-search]")
        page.keyboard.press("/")
        assert page.evaluate("() => document.activeElement.id") == f"{path[1:]}-search"


def test_a_key_is_not_lost_when_plotly_tells_of_its_layout_at_the_same_moment(server, open_page):
    page, _ = open_page(server.url + "/runs/done")
    drawn(page)
    page.focus("#timeline-frame")
    page.evaluate(
        """() => {
            dash_clientside.set_props("timeline", { relayoutData: { autosize: true } });
            const key = new KeyboardEvent("keydown", { key: "+", bubbles: true });
            document.getElementById("timeline-frame").dispatchEvent(key);
        }"""
    )
    page.wait_for_function("() => /from=/.test(location.search)", timeout=5000)


def test_the_skip_link_comes_first(server, open_page):
    page, _ = open_page(server.url + "/runs/done")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"


def test_another_definition_is_chosen_and_stays_in_the_address(server, open_page):
    page, _ = open_page(server.url + "/runs/done")
    drawn(page)
    assert page.locator(".definition").count() == 0
    page.click("[data-definition=google]")
    page.wait_for_selector(".definition-difference")
    assert "definition=google" in page.url
    assert page.inner_text(".definition-difference").startswith("Google says")
    page.reload()
    page.wait_for_selector(".definition-difference")
    assert page.get_attribute("[data-definition=google]", "aria-pressed") == "true"
    page.click("[data-definition=rerail]")
    page.wait_for_function("() => !document.querySelector('.definition')")
    assert "definition" not in page.url
