"""Notes and knowledge in a real browser: nothing of a note ever runs, nothing that was typed is lost, all is found."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.serving import Server, serve
from tests.browser.stories import SECOND, finished

pytestmark = [pytest.mark.browser, pytest.mark.anywhere]

NASTY = (Path(__file__).parent.parent / "corpus" / "notes" / "nasty.txt").read_text().split("\n====\n")
START = 1_790_000_000 * SECOND


@pytest.fixture(scope="module")
def notes_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows one run."""
    for running in serve(tmp_path_factory.mktemp("notes")):
        running.tell(finished("done", START, name="seventy-b").lines())
        for _ in range(200):
            if ask(running, "/api/v1/search?q=kind:run")["total"]:
                break
            time.sleep(0.1)
        yield running


def ask(server: Server, path: str, said: dict | None = None) -> dict:
    body = None if said is None else json.dumps(said).encode()
    request = urllib.request.Request(f"{server.url}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def write(server: Server, text: str) -> dict:
    return ask(
        server, "/api/v1/notes", {"subject_kind": "run", "subject": "done", "text": text, "author": "<b>Eve</b>"}
    )


NEVER = "script, img, svg, iframe, style, object, embed, form, input, math, base, link, meta"

WATCH = """() => {
  window.fired = 0;
  for (const name of ['alert', 'prompt', 'confirm']) window[name] = () => { window.fired = 1; };
}"""


def test_nothing_of_a_nasty_note_runs_looks_elsewhere_or_leaves_its_place(notes_server, open_page):
    names = [write(notes_server, text)["note"] for text in NASTY]
    page, seen = open_page(f"{notes_server.url}/runs/done")
    page.evaluate(WATCH)
    page.wait_for_selector(f"#{names[-1]}")
    inside = "#notes-list .note-text"
    assert page.locator(f"{inside} :is({NEVER})").count() == 0
    attributes = page.evaluate(
        "() => [...document.querySelectorAll('#notes-list .note-text *')].flatMap((one) => one.getAttributeNames())"
    )
    assert set(attributes) <= {"href", "title", "class", "rel", "target", "tabindex"}
    hrefs = page.evaluate("() => [...document.querySelectorAll('#notes-list .note-text a')].map((one) => one.href)")
    assert hrefs
    assert all(href.startswith(("http://", "https://", "mailto:")) for href in hrefs), hrefs
    foreign = page.evaluate(
        "() => [...document.querySelectorAll('#notes-list .note-text a')]"
        ".filter((one) => one.origin !== location.origin).map((one) => one.rel)"
    )
    assert all("noopener" in rel and "noreferrer" in rel for rel in foreign)
    for name in names:
        page.click(f"#{name} .note-head")
    page.click("[data-note=new]")
    for text in NASTY:
        page.fill("#note-text", text)
        with page.expect_response("**/figures/notes/preview"):
            page.click("[data-note=preview]")
        page.click("[data-note=write]")
    assert page.evaluate("() => window.fired") == 0
    assert seen.errors == []
    page.goto(f"{notes_server.url}/knowledge?q=javascript")
    page.wait_for_selector("#knowledge-results .found")
    assert page.locator("#knowledge-results :is(script, img, svg)").count() == 0


def test_two_editors_lose_nothing_and_the_page_offers_both(notes_server, open_page):
    note = write(notes_server, "common line")
    page, _ = open_page(f"{notes_server.url}/runs/done", tolerated=("409",))
    page.click(f"#{note['note']} [data-note=edit]")
    page.wait_for_function("() => document.getElementById('note-text').value === 'common line'")
    theirs = {"action": "edit", "revision": 1, "text": "common line\ntheirs", "author": "Ben"}
    ask(notes_server, f"/api/v1/notes/{note['note_id']}/revisions", theirs)
    page.fill("#note-text", "common line\nmine")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#note-merge:not([hidden])")
    assert page.input_value("#note-text") == "common line\nmine"
    assert page.locator("#note-merge mark").all_inner_texts() == ["theirs\n", "mine\n"]
    page.click("#note-merge >> text=Both, theirs first")
    page.click("[data-note=save]")
    page.wait_for_function("() => document.getElementById('note-editor').hidden")
    stands = ask(notes_server, f"/api/v1/notes/{note['note_id']}")
    assert stands["text"] == "common line\ntheirs\n\ncommon line\nmine"
    assert [each["text"] for each in stands["revisions"]][1] == "common line\ntheirs"


def test_five_megabytes_are_refused_with_the_limit_and_stay_in_the_editor(notes_server, open_page):
    page, _ = open_page(f"{notes_server.url}/runs/done")
    page.keyboard.press("n")
    page.wait_for_selector("#note-editor:not([hidden])")
    page.evaluate(
        "() => { const area = document.getElementById('note-text'); area.value = 'x'.repeat(5e6);"
        " area.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    page.click("[data-note=save]")
    assert "the most is 64 kB" in page.inner_text("#note-said")
    assert page.evaluate("() => document.getElementById('note-text').value.length") == 5_000_000


def test_a_draft_outlives_the_page(notes_server, open_page):
    page, _ = open_page(f"{notes_server.url}/runs/done")
    page.click("[data-note=new]")
    page.fill("#note-text", "half a thought")
    page.reload()
    page.wait_for_selector("#notes")
    page.click("[data-note=new]")
    assert page.input_value("#note-text") == "half a thought"
    page.click("[data-note=discard]")


def test_korean_is_found_as_it_is_typed_and_marked(notes_server, open_page):
    note = write(notes_server, "체크포인트를 저장하는 동안 학습이 멈췄다")
    page, _ = open_page(f"{notes_server.url}/runs/done")
    page.locator("body").press("/")
    page.wait_for_selector("#knowledge-search")
    page.locator("#knowledge-search").fill("포인트 학습")
    page.wait_for_selector("#knowledge-results mark")
    assert page.locator("#knowledge-results mark").all_inner_texts() == ["포인트", "학습"]
    assert "q=" in page.url
    page.click(".found-title")
    page.wait_for_selector(f"#{note['note']}")
    assert page.url.endswith(note["note"])
    page.goto(f"{notes_server.url}/knowledge?q=nodes:x")
    page.wait_for_selector(".query-error")
    assert "did you mean node:x" in page.inner_text(".query-error")
