"""Dumps of all ranks, dropped on the page of an incident: the culprit is named, and what was wrong is taken back."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.browser.stories import SECOND, RunStory
from tests.dumps import CORPUS

playwright_api = pytest.importorskip("playwright.sync_api")

pytestmark = [pytest.mark.browser, pytest.mark.anywhere]

BEGAN = 1_795_953_600 * SECOND
"""A minute before the recorded dumps were made."""

HOSTILE = '<img src=x onerror="window.fired=1">.log'
DUMPS = [str(CORPUS / f"hang4_rank_{rank}") for rank in range(4)]


def hung(run: str) -> RunStory:
    """A run whose third minute is a hang."""
    story = RunStory(run, BEGAN).begin(name="dp-tp", gpus=4, world_size=4)
    story.attempt(forming=4, starting=8, gpus=4, world_size=4).steps(50)
    story.die(30, "[rank1]: RuntimeError: Timed out waiting 25000ms for recv operation to complete", -6, rank=1)
    return story.attempt(forming=4, starting=8, gpus=4, world_size=4).steps(80).say("run_ended", outcome="completed")


def opened(server, open_page, run: str, **context: object):
    server.tell(hung(run).lines())
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{server.url}/api/v1/incidents/{run}~0", timeout=5).close()
            break
        except urllib.error.HTTPError as error:
            error.close()
            time.sleep(0.1)
    page, seen = open_page(f"{server.url}/incidents/{run}~0", timezone_id="America/New_York", **context)
    page.wait_for_selector("#files")
    return page, seen


def choose(page, files) -> None:
    with page.expect_file_chooser() as chooser:
        page.click("#give-zone [data-give=choose]")
    chooser.value.set_files(files)


def test_the_dumps_of_all_ranks_name_the_culprit_and_a_file_can_be_taken_back(server, open_page):
    page, seen = opened(server, open_page, "given")
    assert page.query_selector("#flight-recorder") is None
    page.fill("#give-author", "Ada")
    choose(page, DUMPS)
    page.wait_for_function("() => document.querySelectorAll('.give-line[data-tone=good]').length === 4")
    page.wait_for_function(
        "() => /4 of 4 ranks/.test((document.getElementById('flight-recorder') || {}).textContent || '')"
    )
    words = page.inner_text("#flight-recorder").replace("\u202f", " ")
    assert "Rank 3 did not join all_gather #3 of dp1, where rank 1 waits" in words
    assert "inferred" in words
    choose(page, [str(CORPUS / f"hang4_rank_{rank}.sidecar.json") for rank in range(4)])
    page.wait_for_function("() => !/inferred/.test(document.getElementById('flight-recorder').textContent)")
    assert "3" in page.inner_text(".about")
    listed = page.inner_text("#files .files")
    assert "by Ada" in listed and "flight recorder dump" in listed and "process groups" in listed

    page.click("tr:has-text('hang4_rank_3') >> nth=-1 >> [data-artefact-undo]")
    page.wait_for_selector("[data-artefact-redo]")
    assert "withdrawn by Ada" in page.inner_text("#files .files")
    page.wait_for_function("() => /left no dump/.test(document.getElementById('flight-recorder').textContent)")
    page.click("[data-artefact-redo]")
    page.wait_for_function("() => !/left no dump/.test(document.getElementById('flight-recorder').textContent)")
    assert seen.errors == []


def test_what_cannot_be_taken_is_said_beside_the_file(server, open_page, tmp_path: Path):
    page, _ = opened(server, open_page, "refused", tolerated=("422",))
    page.evaluate("() => { document.getElementById('files').dataset.largest = '2000000'; }")
    (tmp_path / "big.log").write_bytes(b"x" * 2_000_001)
    (tmp_path / "trace_rank_1").write_bytes(b"\x80\x02cos\nsystem\n.")
    (tmp_path / "quiet.log").write_text("all is well\n")
    (tmp_path / "trace").write_bytes((CORPUS / "hang4_rank_2").read_bytes())
    names = ["big.log", "trace_rank_1", "quiet.log", "trace"]
    choose(page, [str(tmp_path / name) for name in names])
    page.wait_for_function("() => document.querySelectorAll('.give-line[data-tone=bad]').length === 4")
    said = page.inner_text("#give-progress")
    assert re.search(r"It has 2\.0 MB; the most is 1\.9", said)
    assert "the pickle opcode GLOBAL at offset 2 is refused" in said
    assert "no line of it tells of a fault" in said
    page.fill(".give-rank", "2")
    page.keyboard.press("Enter")
    page.wait_for_selector(".give-line[data-tone=good]")
    page.wait_for_selector("#flight-recorder")


def test_files_are_dropped_anywhere_and_a_hostile_name_is_text(server, open_page):
    page, _ = opened(server, open_page, "dropped")
    content = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    page.evaluate(
        """([name, content]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([content], name));
          const told = { dataTransfer: transfer, bubbles: true, cancelable: true };
          for (const kind of ["dragenter", "dragover", "drop"])
            document.querySelector("#anatomy").dispatchEvent(new DragEvent(kind, told));
        }""",
        [HOSTILE, content],
    )
    page.wait_for_selector(".give-line[data-tone=good]")
    page.wait_for_function("() => /out of memory/i.test(document.querySelector('h1').textContent)")
    assert HOSTILE in page.inner_text("#files .files")
    assert page.evaluate("() => window.fired") is None
    href = page.get_attribute("#files .files a", "href")
    told = page.evaluate(
        "(href) => fetch(href).then(async (one) => [await one.text(), one.headers.get('content-disposition')])",
        href,
    )
    assert told[0] == content and told[1].startswith("attachment")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_of_it_runs_out_of_the_page(server, open_page, scheme, width):
    run = f"look-{scheme}-{width}"
    page, _ = opened(
        server, open_page, run, color_scheme=scheme, viewport={"width": width, "height": 900 if width > 500 else 844}
    )
    choose(page, [*DUMPS, str(CORPUS / "hang4_rank_1.sidecar.json")])
    page.wait_for_selector("#flight-recorder")
    page.wait_for_function("() => document.querySelectorAll('.give-line[data-tone=good]').length === 5")
    page.wait_for_function("() => document.querySelectorAll('#files .files tbody tr').length === 5")
    page.wait_for_function("() => !/being read/.test(document.getElementById('files').textContent)")
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    if folder := os.environ.get("RERAIL_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{run}.png", full_page=True)
    told = json.loads(page.evaluate(f"() => fetch('/api/v1/incidents/{run}~0').then((answer) => answer.text())"))
    assert told["incident"]["culprit_rank"] == 3
