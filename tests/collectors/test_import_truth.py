"""Every recorded sample, imported by the command, beside its truth; the page about it is the table that comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.import_truth import FAMILIES, KNOWN, Row, table

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
