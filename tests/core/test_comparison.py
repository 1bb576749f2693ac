"""Comparison: like for like or not at all, and a difference that is split exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rerail.server.core.comparison.arms import Arm, arm, whole_run
from rerail.server.core.comparison.article import ARTICLE
from rerail.server.core.comparison.comparing import Difference, compared
from rerail.server.core.comparison.likeness import CaveatLevel
from rerail.server.core.comparison.pairing import PairedBy
from rerail.server.core.comparison.resampling import mean_interval, quantile_difference, quantile_interval
from rerail.server.core.fold import RunFold
from tests.seed_replay import arm_facts
from tests.story import Story


def side(down: float, faults: int = 6, run: str = "a", **changes: object) -> Arm:
    story = Story(run)
    for fault in range(faults):
        story.start().bring_up(5).steps(1 + 50 * fault, 50 + 50 * fault).save(50 + 50 * fault, blocked=2)
        story.die(after=down + fault).stop(1)
    story.start().bring_up(5).steps(1 + 50 * faults, 50 + 50 * faults).finish()
    return replace(arm(f"run:{run}", run, [whole_run(story.view())]), **changes)  # type: ignore[arg-type]


def replayed(name: str) -> Arm:
    facts = arm_facts(name)
    fold = RunFold("arm")
    fold.add(facts)
    return arm(name, name, [whole_run(fold.view(max(fact.at for fact in facts)))])


@pytest.mark.parametrize("name", ["in_process", "ft_launcher"])
def test_the_decoded_reference_is_what_the_replayed_events_give(name: str):
    told, measured = ARTICLE[f"article:{name}"], replayed(name)
    assert told.training_goodput == pytest.approx(measured.training_goodput, abs=0.0005)
    assert told.infrastructure_goodput == pytest.approx(measured.infrastructure_goodput, abs=0.0005)
    here, there = dict(told.losses), dict(measured.losses)
    assert here["rework"] == pytest.approx(there["rework"], rel=0.001)
    assert here["checkpoint"] == pytest.approx(there["checkpoint"] + there["startup"], rel=0.001)
    assert [fault.lost_steps for fault in told.faults] == [fault.lost_steps for fault in measured.faults]


def test_losses_and_productive_time_of_every_reference_sum_to_its_wall_time():
    for each in ARTICLE.values():
        assert sum(length for _, length in each.losses) + (each.productive_ns or 0) == each.elapsed_ns


def test_the_rows_of_a_difference_sum_to_the_difference_of_training_goodput():
    (found,) = compared([side(10), side(40, run="b")]).differences
    assert found.training is not None and found.training < 0
    assert sum(row.gain for row in found.rows) == pytest.approx(found.training)


def test_equal_faults_are_paired_by_their_steps_and_the_slower_side_is_told_with_an_interval():
    (found,) = compared([side(10), side(40, run="b")]).differences
    assert found.pairing.paired_by is PairedBy.STEPS and len(found.pairing.pairs) == 6
    assert found.paired is not None and found.paired.figure == pytest.approx(30e9)
    assert found.paired.excludes_zero
    assert "30\u202fs slower per fault" in found.sentence


def test_one_schedule_pairs_faults_by_their_order():
    plan = {"schedule": "seed 1"}
    (found,) = compared([side(10, **plan), side(40, run="b", **plan)]).differences
    assert found.pairing.paired_by is PairedBy.SCHEDULE


def test_a_side_without_faults_is_refused_and_no_difference_is_computed():
    (found,) = compared([side(10), side(10, faults=0, run="b")]).differences
    assert found.is_refused
    assert (found.training, found.paired, found.median, found.rows) == (None, None, None, ())


def test_other_fault_mixes_are_refused_in_plain_words_and_mixes_that_differ_somewhat_flagged():
    def found(*causes: str, **plan: object) -> Difference:
        one, other = side(10, **plan), side(10, run="b", **plan)
        struck = [replace(each, cause=cause) for each, cause in zip(other.faults, causes, strict=True)]
        first = [replace(each, cause="gpu_oom") for each in one.faults]
        arms = [replace(one, faults=tuple(first)), replace(other, faults=tuple(struck))]
        return compared(arms).differences[0]

    other = found(*["nccl_timeout"] * 6)
    assert other.is_refused and other.training is None
    assert "Most faults are of other causes: 6 × gpu oom in a, 6 × nccl timeout in b." in other.sentence
    some = found(*["gpu_oom"] * 4, *["nccl_timeout"] * 2)
    assert not some.is_refused and [each.about for each in some.caveats] == ["faults"]
    assert not found(*["gpu_oom"] * 6).caveats and not found(*["unknown"] * 6).caveats
    assert not found(*["nccl_timeout"] * 6, schedule="seed 1").caveats, "planned to be the same"


def test_sides_that_are_equal_are_not_ranked():
    told = compared([side(10), side(10, run="b")])
    assert told.sentence.startswith("Both have the same training goodput, ")


def test_a_much_larger_world_is_refused_and_a_somewhat_larger_one_flagged():
    def level(world: int) -> list[CaveatLevel]:
        found = compared([side(10), side(10, run="b", world_sizes=(world,))]).differences[0]
        return [each.level for each in found.caveats if each.about == "world_size"]

    assert (level(8), level(12), level(64)) == ([], [CaveatLevel.FLAGGED], [CaveatLevel.REFUSED])


def test_a_reference_beside_a_run_is_shown_and_not_compared():
    found = compared([side(10), ARTICLE["article:in_process"]]).differences[0]
    assert found.is_refused
    assert "no difference is computed" in found.sentence
    among = compared(list(ARTICLE.values())).differences
    assert not any(each.is_refused for each in among)


def test_intervals_are_seeded_and_hold_the_figure_and_two_values_have_none():
    values = sorted((17 * number) % 101 for number in range(60))
    assert quantile_interval(values, 0.5) == quantile_interval(values, 0.5)
    found = quantile_interval(values, 0.9)
    assert found.low is not None and found.high is not None and found.low <= found.figure <= found.high
    mean = mean_interval(values)
    assert mean is not None and mean.low is not None and mean.low < mean.figure < (mean.high or 0)
    assert quantile_interval([1, 2], 0.5).low is None
    assert quantile_difference([], values, 0.5) is None


def test_fewer_than_two_and_more_than_six_sides_are_refused():
    with pytest.raises(ValueError, match="two to six"):
        compared([side(10)])
    with pytest.raises(ValueError, match="got 7"):
        compared([side(10)] * 7)
