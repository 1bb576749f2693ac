"""Two recorded arms of one published experiment: its figures under rerail, AWS and Google, and what the others say.

2,000 steps of 0.37 s, four blocking saves, faults at steps 62, 239, 574, 1320 and 1529, recovered in process and by the
launcher. Published: 31 and 25.5 % training, 87 and 85.9 % infrastructure goodput.
"""

from __future__ import annotations

import pytest

from rerail.server.core.definitions import definitions
from tests.definitions.measuring import Reading
from tests.seed_replay import ARMS, arm_facts

PUBLISHED = {"in_process": (0.310, 0.870), "ft_launcher": (0.255, 0.859)}
ROLLBACKS = [62, 239, 74, 320, 29]
STALLS = {"in_process": 1048.896, "ft_launcher": 1464.904}


def reading(arm: str, *, with_saves: bool = True) -> Reading:
    facts = arm_facts(arm, with_saves=with_saves)
    return Reading(facts, max(fact.at for fact in facts), run="arm")


@pytest.mark.parametrize("arm", ARMS)
def test_the_published_figures_come_out_and_every_second_is_explained(arm: str) -> None:
    training, infrastructure = PUBLISHED[arm]
    found = reading(arm)
    for name in ("rerail", "aws"):
        measured = found.under(name)
        assert measured.training == pytest.approx(training, abs=0.0005)
        assert measured.infrastructure == pytest.approx(infrastructure, abs=0.0005)
    assert found.under("google").training == pytest.approx(training, abs=0.0005)
    assert [rollback.steps for rollback in found.view.rollbacks] == ROLLBACKS
    assert found.view.data_quality.unexplained_ns == 0


@pytest.mark.parametrize("arm", ARMS)
def test_without_its_saves_the_stalls_are_unexplained_and_nothing_is_flattered(arm: str) -> None:
    """A library that lives on stamps takes the stalls for steps; rerail says how many seconds nobody explains."""
    training, infrastructure = PUBLISHED[arm]
    found = reading(arm, with_saves=False)
    ours = found.under("rerail")
    assert ours.training == pytest.approx(training, abs=0.0005)
    assert ours.infrastructure == pytest.approx(infrastructure, abs=0.0005)
    assert found.view.data_quality.unexplained_ns == STALLS[arm] * 1e9
    assert found.under("google").training == pytest.approx(training + STALLS[arm] * 1e9 / ours.elapsed_ns, abs=0.002)


@pytest.mark.parametrize("arm", ARMS)
def test_every_definition_explains_itself_with_the_numbers_of_the_run(arm: str) -> None:
    found = reading(arm)
    sentences = {name: found.under(name).difference for name in definitions()}
    assert len(set(sentences.values())) == len(sentences)
    for name, sentence in sentences.items():
        assert sentence.endswith(".")
        assert sum(character.isdigit() for character in sentence) >= 4, name
    assert "2\u202f000 kept steps" in sentences["aws"]
    assert "checkpoint stalls" in sentences["ett"]
