"""Every recorded sample, imported by the command, beside its truth; the page about it is the table that comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import interruptions
from tests.import_truth import CORPUS, FAMILIES, KNOWN, Row, folded, imported, table

PAGE = Path(__file__).parents[2] / "docs" / "import_truth.md"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """What came out, family by family."""
    return [row for family in FAMILIES for row in family()]


def test_an_import_says_what_happened_but_for_the_differences_that_are_known(rows: list[Row]) -> None:
    differences = [each for row in rows for each in row.wrong]
    assert [each for each in differences if each.split(": ")[0] not in KNOWN] == []
    assert {each.split(": ")[0] for each in differences} == set(KNOWN), "no difference any more: take it off the list"


def test_the_page_shows_what_came_out_and_names_every_known_difference(rows: list[Row]) -> None:
    page = PAGE.read_text()
    assert table(rows) in page, "python -m tests.import_truth prints the table that belongs there"
    assert [reason for reason in KNOWN.values() if reason not in " ".join(page.split())] == []


SAMPLES = sorted([*(CORPUS / "nvrx").glob("0*/*.log"), *(CORPUS / "torchrun").glob("*.log")])
IN_PROCESS = [log for log in SAMPLES if log.name in ("inproc_exception.log", "inproc_hang.log")]


def _incidents_and_interruptions(log: Path) -> tuple[list[str], list[str]]:
    """Causes of the incidents of the imported run, and those that classify names, relaunches left out."""
    facts = imported("logs", log)
    classified = interruptions(read_run_files([str(log)]))
    return (
        sorted(str(incident.verdict.cause) for incident in folded(facts)[1].incidents) if facts else [],
        sorted(str(one.verdict.cause) for one in classified if one.relaunch_of is None),
    )


@pytest.mark.parametrize("log", SAMPLES, ids=lambda log: f"{log.parent.name}/{log.name}")
def test_what_classify_names_as_interruptions_of_a_log_its_import_has_as_incidents(log: Path) -> None:
    incidents, named = _incidents_and_interruptions(log)
    assert incidents == named


@pytest.mark.parametrize("log", IN_PROCESS, ids=lambda log: f"{log.parent.name}/{log.name}")
def test_restarts_inside_a_process_are_found_where_a_receiver_stamped_every_line(log: Path, tmp_path: Path) -> None:
    """`ts` put an instant and the process in front of each line: `1795957264.100 p1 rank=1 fn_ex: …`."""
    received = tmp_path / log.name
    begins = 1795957260 if log.parent.name == "0.4.1" else 1795956780
    lines = [line.replace("<", "", 1).replace("> ", " ", 1) for line in log.read_text().splitlines() if line[:1] == "<"]
    received.write_text("".join(f"{begins + number}.128 {line}\n" for number, line in enumerate(lines)))
    incidents, named = _incidents_and_interruptions(received)
    assert incidents == named != []


def test_a_crash_between_bars_that_nothing_dates_is_one_for_both(tmp_path: Path) -> None:
    def bar(first: int, last: int) -> str:
        states = range(first, last + 1)
        return "\r".join(f" {step * 5}%|#| {step}/20 [00:{step - first + 1:02d}<00:09,  1.00s/it]" for step in states)

    begins = "***** Running training *****\n  Total optimization steps = 20\n"
    crash = 'Traceback (most recent call last):\n  File "fit.py", line 9, in <module>\nValueError: bad batch\n'
    log = tmp_path / "train.log"
    log.write_text(f"{begins}{bar(1, 9)}\n{crash}{begins}  Continuing training from global step 5\n{bar(6, 20)}\n")
    assert _incidents_and_interruptions(log) == (["user_exception"], ["user_exception"])
