"""The switch between definitions of goodput on a run's page."""

from __future__ import annotations

import pytest

from rerail.server.core.definitions import definitions
from rerail.server.core.facts import Initiator
from rerail.server.query_results import Measurement
from rerail.ui.markup import html
from rerail.ui.pages.run_definition import switch, wanted_definition
from tests.definitions.measuring import Reading
from tests.story import Story


@pytest.mark.parametrize(
    ("search", "name"),
    [
        ("", "rerail"),
        ("?definition=google", "google"),
        ("?from=1&definition=aws&to=2", "aws"),
        ("?definition=<b>", "rerail"),
        ("?definition=", "rerail"),
    ],
)
def test_the_address_names_the_definition(search: str, name: str) -> None:
    assert wanted_definition(search) == name


def test_under_rerails_own_there_is_the_switch_and_nothing_else() -> None:
    (row,) = switch("rerail")
    pressed = [dict(button.attributes) for button in row.find("button")]
    assert [entry["data-definition"] for entry in pressed if entry["aria-pressed"] == "true"] == ["rerail"]
    assert [entry["data-definition"] for entry in pressed] == list(definitions())


def test_what_is_not_worked_out_yet_says_so() -> None:
    assert "Working it out" in html.Div(switch("google")).words()


@pytest.mark.parametrize("name", [name for name in definitions() if name != "rerail"])
def test_a_definition_stands_beside_rerails_figure_with_its_sentence(name: str) -> None:
    story = Story().start().bring_up(10).steps(1, 50).die(after=0).stop(10)
    story.start(Initiator.FAULT).bring_up(300).steps(51, 100).finish()
    reading = Reading(story.facts, story.at)
    measured = reading.under(name)
    shown = html.Div(switch(name, Measurement(definitions()[name], measured, reading.view, reading.view.account)))
    words = shown.words()
    assert measured.difference in words
    assert definitions()[name].stated_by in words
    assert "23.8" in words
