"""Dumps of several hangs given together, and dumps that are older than what they are asked about."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.sources.flight_recorder import with_attempt
from rerail.server.cli import main
from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.cause_rules import Case
from rerail.server.core.causes import judge
from rerail.server.core.codec import decode_line
from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.analysis import analysis
from rerail.server.core.flight_recorder.dump_sets import dump_sets, nearest_set
from rerail.server.core.flight_recorder.summary import GROUPS_CODE, SUMMARY, side_car_summary, summary_of, summary_text
from rerail.server.core.flight_recorder.verdict import aged_analysis
from rerail.server.core.fold import RunFold
from rerail.server.core.view import CausalRole
from tests.dumps import CORPUS, evidence_of, read_side_car, recorded

SECOND = 1_000_000_000


def dump(name: str, rank: int, seq: int) -> Evidence:
    fact = evidence_of(recorded(name), rank, seq=seq, emitter=f"artefact/{name}")
    told = summary_of(dict(fact.attributes)[SUMMARY])
    assert told is not None
    assert told.last_at is not None
    return replace(fact, at=told.last_at)


def side_car(rank: int) -> Evidence:
    told = side_car_summary(read_side_car(recorded(f"hang4_rank_{rank}.sidecar.json")), rank)
    fact = evidence_of(recorded("hang4_rank_0"), rank, seq=1, emitter=f"artefact/car{rank}", code=GROUPS_CODE)
    return replace(fact, attributes=((SUMMARY, summary_text(told)),))


HANG4 = [dump(f"hang4_rank_{rank}", rank, 0) for rank in range(4)]
LATER = [dump(f"hang4_end_rank_{rank}.json", rank, 0) for rank in range(4)]
MISSING = [dump(f"missing_end_rank_{rank}", rank, 0) for rank in range(3)]
CARS = [side_car(rank) for rank in range(4)]
FULL = [dump("full2000_rank_0", 0, 0)]


def names(found: tuple[tuple[Evidence, ...], ...]) -> list[set[str]]:
    return [{fact.emitter for fact in each} for each in found]


@given(st.permutations([*HANG4, *LATER, *MISSING, *CARS, *FULL]))
def test_three_hangs_are_told_apart_whatever_the_order(dumps: list[Evidence]):
    assert names(dump_sets(dumps)) == [
        {fact.emitter for fact in MISSING},
        {fact.emitter for fact in (*HANG4, *LATER, *CARS)},
        {fact.emitter for fact in FULL},
    ]


def in_attempt(fact: Evidence, attempt: int) -> Evidence:
    attributes = with_attempt(fact.attributes, f"dumps/attempt_{attempt}/trace_rank_{fact.rank}")
    return replace(fact, attributes=attributes)


def test_dumps_in_the_folders_of_two_attempts_are_of_two_hangs_though_no_rank_left_two():
    told = [*(in_attempt(fact, 0) for fact in HANG4[:3]), in_attempt(HANG4[3], 1), in_attempt(CARS[3], 1)]
    assert names(dump_sets(told)) == [
        {fact.emitter for fact in HANG4[:3]}, {HANG4[3].emitter, CARS[3].emitter},
    ]  # fmt: skip
    assert len(dump_sets([in_attempt(fact, 4) for fact in (*HANG4, *CARS)])) == 1
    one_untold = [*(in_attempt(fact, 0) for fact in HANG4[:3]), HANG4[3]]
    assert len(dump_sets(one_untold)) == 1


def test_a_folder_with_the_dumps_of_an_attempt_each_is_imported_whole_and_says_what_the_last_hang_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Attempt 1 was merely ended: nothing is pending in its dumps, and they do not hide the hang before."""
    for attempt, name in enumerate(("hang4_rank_{}.json", "hang4_end_rank_{}.json")):
        for rank in range(4):
            place = tmp_path / f"attempt_{attempt}" / f"trace_rank_{rank}.json"
            place.parent.mkdir(exist_ok=True)
            dumped = json.loads((CORPUS / name.format(rank)).read_text())
            for entry in dumped["entries"]:
                entry["time_created_ns"] += attempt * 600 * SECOND
            place.write_text(json.dumps(dumped))
    assert main(["import", "flight-recorder", str(tmp_path), "--run", "r", "--stdout"]) == 0
    facts = [decode_line(line) for line in capsys.readouterr().out.splitlines()]
    assert len(facts) == 8
    fold = RunFold("r")
    fold.add(facts)
    said = fold.view(max(fact.at for fact in facts) + SECOND).dumps_say
    assert said is not None
    assert (said.cause, said.culprit_rank) == ("hang", 3)


def test_two_moments_of_one_hang_are_one_and_so_is_a_hang_of_which_a_rank_is_long_silent():
    assert len(dump_sets([*HANG4, *LATER])) == 1
    silent = replace(HANG4[3], at=HANG4[3].at - 7200 * SECOND)
    assert len(dump_sets([*HANG4[:3], silent])) == 1
    assert dump_sets([]) == ()


def test_a_dump_that_an_earlier_attempt_left_behind_is_not_whom_the_others_wait_for():
    """Rank 3 left none this time: its old one, which made the same calls two hours before, accuses nobody."""
    content = json.loads(recorded("hang4_rank_3.json"))
    for entry in content["entries"]:
        entry["time_created_ns"] -= 7200 * SECOND
    old = evidence_of(json.dumps(content).encode(), 3, seq=0, emitter="artefact/old")
    left_behind = replace(old, at=HANG4[3].at - 7200 * SECOND)
    sets = dump_sets([*HANG4[:3], left_behind])
    assert names(sets) == [{"artefact/old"}, {fact.emitter for fact in HANG4[:3]}]
    found = analysis([*HANG4[:3], left_behind], HANG4[0].at)
    assert found is not None
    assert found.culprits == ()
    whole = analysis(HANG4, HANG4[0].at)
    assert whole is not None
    assert whole.culprits == (3,)


@pytest.mark.parametrize(("near", "culprit"), [(MISSING[0].at, 2), (HANG4[0].at, 3), (HANG4[0].at + 40 * SECOND, 3)])
def test_the_hang_nearest_to_the_interruption_is_judged_and_the_others_are_told(near: int, culprit: int):
    found = analysis([*HANG4, *CARS, *MISSING], near)
    assert found is not None
    assert found.culprits == (culprit,)
    assert "2 hangs" in found.unknown[0]
    alone = analysis([*HANG4, *CARS] if culprit == 3 else MISSING, near)
    assert alone is not None
    assert replace(found, unknown=found.unknown[1:]) == alone


def test_without_an_instant_the_hang_with_the_most_ranks_is_judged():
    sets = dump_sets([*MISSING, *HANG4])
    assert nearest_set(sets, None) == 1


def case(dumps: list[Evidence], noticed_at: int | None, last_step_at: int | None = None) -> Case:
    noticed = () if noticed_at is None else ((noticed_at, "torchrun"),)
    items = sorted((TimedEvidence(fact.at, fact) for fact in dumps), key=TimedEvidence.order)
    return Case(items, (), (), None, None, noticed, (), (), None, False, None, last_step_at=last_step_at)


@pytest.mark.parametrize(
    ("noticed_after", "last_step_after", "is_old"),
    [(60, None, False), (1800, None, False), (1800 + 600, None, True), (9000, 60, False), (300, 290, True)],
)
def test_a_dump_older_than_its_interruption_says_so_and_counts_less(noticed_after, last_step_after, is_old):
    end = max(fact.at for fact in HANG4)
    last_step = None if last_step_after is None else end + last_step_after * SECOND
    verdict, trace = judge(case([*HANG4, *CARS], end + noticed_after * SECOND, last_step))
    fresh, _ = judge(case([*HANG4, *CARS], None))
    assert (verdict.cause, verdict.culprit_rank) == ("hang", 3)
    assert (verdict.confidence < fresh.confidence) == is_old
    assert ("older than the interruption" in verdict.sentence) == is_old
    told = aged_analysis(case([*HANG4, *CARS], None).evidence, end + noticed_after * SECOND, last_step)
    assert told is not None
    assert (told.confidence, "older than the interruption" in told.sentence) == (verdict.confidence, is_old)
    old = [line for line in trace if "older than the interruption" in (line.meaning or "")]
    assert bool(old) == is_old
    assert {line.role for line in old} <= {CausalRole.INITIATING, CausalRole.INFORMATIONAL}


def test_a_hang_that_nobody_noticed_for_hours_says_how_old_its_dumps_are():
    end = max(fact.at for fact in HANG4)
    verdict, _ = judge(case([*HANG4, *CARS], end + 8 * 3600 * SECOND, end - 60 * SECOND))
    fresh, _ = judge(case([*HANG4, *CARS], None))
    assert "before the interruption was noticed" in verdict.sentence
    assert verdict.confidence == fresh.confidence


def test_a_copy_of_a_rank_s_dump_is_not_another_rank_s(tmp_path, capsys):
    for rank in range(3):
        (tmp_path / f"hang4_rank_{rank}").write_bytes((CORPUS / f"hang4_rank_{min(rank, 1)}").read_bytes())
    assert main(["classify", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "hang4_rank_2: it is byte for byte hang4_rank_1, a copy, and nothing that rank 2 wrote" in said


def test_classify_judges_each_hang_of_a_folder_and_counts_them(tmp_path, capsys):
    for name in [f"hang4_rank_{rank}" for rank in range(4)] + [f"missing_end_rank_{rank}" for rank in range(3)]:
        (tmp_path / name).write_bytes((CORPUS / name).read_bytes())
    assert main(["classify", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "7 files read, 2 interruptions" in told
    assert "the dumps are of 2 hangs" in told
    assert "Rank 2 did not join all_reduce #4" in told
    assert "Rank 3 did not join all_gather #3" in told
