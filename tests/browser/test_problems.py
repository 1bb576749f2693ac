"""Problems in a real browser: found, resolved, come back through the intake, merged, split, undone."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.browser.serving import Server, serve
from tests.browser.stories import SECOND, RunStory

pytestmark = [pytest.mark.browser, pytest.mark.anywhere]


def failing(run: str, began: int, text: str, rank: int = 3) -> str:
    """A run that trains, fails once on node00, and trains on."""
    story = RunStory(run, began).begin(gpus=8).attempt(nodes=["node00", "node01"], gpus=8).steps(20).save()
    story.steps(10).die(20, text, rank=rank)
    story.wait(5).back_to(20).attempt(loading=3, nodes=["node00", "node01"], gpus=8).steps(30)
    return story.say("run_ended", outcome="completed").lines()


VALUE = 'Traceback (most recent call last):\n  File "/app/data.py", line 7, in read\nValueError: bad record'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"


@pytest.fixture(scope="module")
def problems_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows three runs that failed, two of them alike."""
    for running in serve(tmp_path_factory.mktemp("problems")):
        yesterday = time.time_ns() - 86_400 * SECOND
        for run, text, rank in (("one", VALUE, 3), ("two", VALUE, 5), ("three", OOM, 3)):
            running.tell(failing(run, yesterday, text, rank))
        until(lambda server=running: len(rows(server)) == 2)
        yield running


def ask(server: Server, path: str) -> dict:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=20) as answer:
        return json.load(answer)


def rows(server: Server) -> list[dict]:
    return ask(server, "/api/v1/problems?sort=incidents")["rows"]


def until(is_so) -> None:
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def fill(page, **fields: str) -> None:
    for name, value in fields.items():
        page.fill(f"#problem-{name}", value)


def confirm(page) -> None:
    page.click("#problem-send")
    page.wait_for_function("() => document.getElementById('problem-form').hidden")


def test_a_problem_is_resolved_and_comes_back_with_a_new_incident(problems_server, open_page):
    page, _ = open_page(f"{problems_server.url}/problems?sort=incidents", tolerated=("422",))
    page.wait_for_selector("#problems-list table")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#problem-page")
    assert "2 incidents in 2 runs" in page.inner_text("#problem-head")
    assert "All 2 on node node00." in page.inner_text("#facets")
    page.click("[data-action=resolve]")
    assert page.is_hidden("[data-part=into]")
    page.click("#problem-send")
    page.wait_for_function("() => /reason/.test(document.getElementById('problem-said').textContent)")
    fill(page, reason="skip bad records", fixed_by="c0ffee", author="Ada")
    confirm(page)
    page.wait_for_selector("#resolution")
    assert "skip bad records" in page.inner_text("#resolution")
    assert "Ada resolved it: skip bad records, fixed by c0ffee" in page.inner_text("#history").replace("\n", " ")
    assert page.inner_text(".title-row .badge") == "resolved"
    problems_server.tell(failing("late", time.time_ns() + SECOND, VALUE))
    until(lambda: ask(problems_server, "/api/v1/problems?status=regressed")["total"] == 1)
    page.reload()
    page.wait_for_selector("#problem-page")
    assert page.inner_text(".title-row .badge") == "regressed"
    assert "It came back after it was resolved." in page.inner_text("#problem-head")
    page.goto(f"{problems_server.url}/incidents/late~0")

    def history() -> str:
        page.reload()
        page.wait_for_selector("#problem")
        return page.inner_text("#problem")

    until(lambda: "The 3rd of 3 times in 3 runs" in history())  # its story still goes on, and moves with the clock
    past = history()
    assert "Last resolved by Ada: skip bad records. Fixed by c0ffee. It came back since." in past
    assert "The same fault, by every part of its fingerprint." in page.inner_text("#similar")
    page.click("#problem [data-action=assign]")
    assert page.input_value("#problem-assignee") == "Ada", "who looks is offered"
    fill(page, assignee="Ben")
    confirm(page)
    page.wait_for_selector("#problem >> text=Ben looks after it")
    page.click("#problem a[href^='/problems/']")
    page.wait_for_selector("#problem-page")
    assert "Ada assigned it to Ben" in page.inner_text("#history").replace("\n", " ")


@pytest.fixture
def calm(problems_server) -> Server:
    return problems_server


def test_what_was_done_is_undone_from_the_trail(calm, open_page):
    problem = rows(calm)[-1]["problem_id"]
    page, _ = open_page(f"{calm.url}/problems/{problem}", tolerated=("409",))
    page.click("[data-action=ignore]")
    confirm(page)
    page.wait_for_function("() => document.querySelector('.title-row .badge').textContent === 'ignored'")
    page.click("#history [data-undo]")
    assert page.inner_text("#history [data-undo]") == "undo it?"
    page.click("#history [data-undo]")
    page.wait_for_function("() => document.querySelector('.title-row .badge').textContent === 'new'")
    assert "undone by action" in page.inner_text("#history")


def test_two_who_act_at_once_lose_nothing(calm, open_page):
    problem = rows(calm)[-1]["problem_id"]
    page, seen = open_page(f"{calm.url}/problems/{problem}", tolerated=("409",))
    page.wait_for_selector("[data-action=known]")
    body = json.dumps({"action": "known", "author": "Ben"}).encode()
    where = f"{calm.url}/api/v1/problems/{problem}/actions"
    request = urllib.request.Request(where, body, {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=20).close()
    page.click("[data-action=ignore]")
    page.click("#problem-send")
    page.wait_for_function("() => /Ben did “known”/.test(document.getElementById('problem-said').textContent)")
    page.wait_for_function("() => document.querySelector('.title-row .badge').textContent === 'known'")
    assert seen.foreign == []


def test_an_incident_is_split_off_on_its_own_page_and_problems_are_merged(calm, open_page):
    page, _ = open_page(f"{calm.url}/incidents/two~0")
    page.wait_for_selector("#problem")
    page.click("#problem [data-action=split]")
    assert page.is_hidden("[data-part=facet]")
    confirm(page)
    page.wait_for_function("() => /by hand/.test(document.getElementById('problem').textContent)")
    assert "The first time" in page.inner_text("#problem")
    page.click("#problem a[href^='/problems/']")
    page.wait_for_selector("#problem-page")
    page.click("[data-action=merge]")
    page.click("#problem-into")
    page.keyboard.type("ValueError" if "ValueError" in page.content() else "exception")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    confirm(page)
    page.wait_for_selector("#problem-page >> text=People merged these into it")
    assert "merged split-" in page.inner_text("#history").replace("\n", " ")


def test_lists_are_narrowed_by_the_address_and_write_it(calm, open_page):
    page, _ = open_page(f"{calm.url}/problems?q=memory")
    page.wait_for_selector("#problems-list table")
    assert page.locator("#problems-list tbody tr").count() == 1
    page.fill("#problems-search", "")
    page.wait_for_function("() => !location.search.includes('q=')")
    page.wait_for_function("() => document.querySelectorAll('#problems-list tbody tr').length > 1")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.input_value("#problems-search") == "", "the search is left, and j is a key again"
    assert page.evaluate("() => document.activeElement.closest('tbody') !== null")
    page.click("text=Ignored")
    page.wait_for_function("() => location.search.includes('status=ignored')")
    page.wait_for_function("() => /No problem matches/.test(document.getElementById('problems-list').textContent)")


def test_a_node_tells_its_runs_and_what_it_is_blamed_for(calm, open_page):
    page, _ = open_page(f"{calm.url}/nodes")
    page.wait_for_selector("#nodes-list table")
    page.click("#nodes-list a:has-text('node00')")
    page.wait_for_selector("#node-page")
    assert "two~0" in page.inner_text("#programs"), "by the program's own fault: the node is not blamed"
    assert page.locator("#blamed").count() == 0
    assert "three" in page.inner_text("#runs")
    page.click("text=Their problems")
    page.wait_for_selector("#problems-list table")
    assert "node=node00" in page.url


def test_empty_pages_teach_and_unknown_ones_say_so(empty_server, open_page):
    page, _ = open_page(f"{empty_server.url}/problems")
    assert "No run has failed yet." in page.inner_text("#problems-list")
    page.goto(f"{empty_server.url}/nodes")
    page.wait_for_selector("#nodes-list .empty")
    page.goto(f"{empty_server.url}/problems/1:000000000000")
    page.wait_for_selector("text=No problem named 1:000000000000")
    page.goto(f"{empty_server.url}/nodes/none")
    page.wait_for_selector("text=No node named none")
