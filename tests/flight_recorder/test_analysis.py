"""Who did not come: the culprit is the rank for which others wait and which waits nowhere itself."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.flight_recorder.analysis import analysed, analysis
from rerail.server.core.flight_recorder.conclusions import Conclusion
from rerail.server.core.flight_recorder.dump import dump_of
from rerail.server.core.flight_recorder.ranks import named, packed, unpacked
from rerail.server.core.flight_recorder.summary import GroupSummary, RankSummary, sentence, summary
from tests.dumps import call, evidence_of, nccl_analysis, nccl_dump, recorded, recorded_analysis

HANG4 = [f"hang4_rank_{rank}" for rank in range(4)]
SIDE_CARS = [f"{name}.sidecar.json" for name in HANG4]
WORLD = {"default_pg": [0, 1, 2, 3], "dp0": [0, 2], "dp1": [1, 3]}


# --- recorded with gloo: data × tensor parallel, rank 3 slept in its data loader ---


@pytest.mark.parametrize("ending", ["", ".json"])
def test_the_rank_that_waits_nowhere_is_the_culprit_not_its_first_victim(ending: str):
    found = recorded_analysis(*(name + ending for name in HANG4), side_cars=SIDE_CARS)
    assert (found.conclusion, found.culprits, found.operation) == (Conclusion.MISSING, (3,), "all_gather")
    assert "Rank 3 did not join all_gather #3 of dp1, where rank 1 waits" in found.sentence
    assert "Rank 1 is missing elsewhere only by waiting." in found.sentence
    rows = {row.title: row for row in found.groups}
    assert (rows["default_pg"].waiting.text, rows["default_pg"].missing.text) == ("0,2", "1,3")
    assert (rows["dp1"].waiting.text, rows["dp1"].missing.text) == ("1", "3")


def test_with_stacks_the_line_where_the_culprit_was_last_is_told():
    found = recorded_analysis(*HANG4, side_cars=SIDE_CARS)
    assert "It was last in all_reduce #3 of tp1 at <module> (fr3.py:35)." in found.sentence
    assert found.frame == "fr3.py:<module>"
    assert not any("stacks" in words for words in found.unknown)


def test_without_side_cars_members_are_inferred_and_said_to_be():
    found = recorded_analysis(*HANG4)
    assert (found.conclusion, found.culprits) == (Conclusion.MISSING, (3,))
    assert found.confidence < recorded_analysis(*HANG4, side_cars=SIDE_CARS).confidence
    assert any("inferred" in words for words in found.unknown)
    assert all(row.is_inferred for row in found.groups)


def test_a_single_dump_never_says_that_nobody_is_missing():
    for rank in (0, 1):
        found = recorded_analysis(f"hang4_rank_{rank}")
        assert (found.conclusion, found.culprits) == (Conclusion.NOT_SEEN, ())
        assert any("How many ranks there were is not told" in words for words in found.unknown)
    alone = recorded_analysis("hang4_rank_1", side_cars=SIDE_CARS[1:2])
    assert "of its members rank 3 left no dump" in alone.sentence


def test_one_side_car_tells_the_groups_of_its_rank_for_all():
    found = recorded_analysis(*HANG4, side_cars=SIDE_CARS[1:2])
    assert {row.title: row.is_inferred for row in found.groups} == {"default_pg": False, "dp1": False}


def test_dumps_made_after_the_hang_show_who_came_late():
    found = recorded_analysis(*(f"hang4_end_rank_{rank}.json" for rank in range(4)))
    assert (found.conclusion, found.culprits) == (Conclusion.LATE, (3,))
    assert "40.0 s after the first" in found.sentence


def test_a_rank_that_left_the_collectives_is_missing_also_after_the_time_out():
    found = recorded_analysis("missing_end_rank_0", "missing_end_rank_1", "missing_end_rank_2")
    assert (found.conclusion, found.culprits) == (Conclusion.MISSING, (2,))
    assert "Rank 2 did not join all_reduce #4 of default_pg, where ranks 0 and 1 wait" in found.sentence


def test_a_rank_without_a_dump_is_named_and_not_accused():
    found = recorded_analysis("missing_hang_rank_1.json", "missing_hang_rank_2.json")
    assert found.culprits == (2,)
    assert found.not_seen.text == "0"
    assert any("Rank 0 left no dump. That alone accuses nobody" in words for words in found.unknown)


def test_a_wrapped_ring_is_said_and_what_was_before_is_not_guessed():
    found = recorded_analysis("full2000_rank_0")
    assert found.conclusion is Conclusion.NOTHING_PENDING
    assert any("had wrapped" in words for words in found.unknown)


# --- of the shape that NCCL writes ---


def test_every_rank_joined_and_it_does_not_end():
    found = nccl_analysis(
        {"default_pg": [0, 1, 2]},
        {rank: [call("default_pg", 1), call("default_pg", 2, state="started")] for rank in range(3)},
    )
    assert (found.conclusion, found.culprits) == (Conclusion.ALL_JOINED, ())
    assert "All 3 ranks of default_pg joined all_reduce #2 and it does not end: no rank is missing" in found.sentence


def test_how_far_a_rank_ran_ahead_of_its_gpu_says_nothing():
    def ahead(rank: int) -> list[dict[str, object]]:
        pending = [
            call("default_pg", number, state="started" if number == 5 else "scheduled") for number in range(5, 8 + rank)
        ]
        return [call("default_pg", 4), *pending]

    found = nccl_analysis({"default_pg": [0, 1, 2]}, {rank: ahead(rank) for rank in range(3)})
    assert (found.conclusion, found.culprits) == (Conclusion.ALL_JOINED, ())
    assert "joined all_reduce #5" in found.sentence
    calls = {rank: ahead(rank) for rank in range(3)} | {3: [call("default_pg", 4)]}
    found = nccl_analysis({"default_pg": [0, 1, 2, 3]}, calls)
    assert (found.conclusion, found.culprits) == (Conclusion.MISSING, (3,))
    assert "did not join all_reduce #5" in found.sentence


def lagging(lag: dict[int, int], world: int = 8, group: str = "default_pg"):
    """All ranks wait in #21, but for those that are still in an earlier one."""
    calls = {
        rank: [*(call(group, number) for number in range(18, lag.get(rank, 21))),
               call(group, lag.get(rank, 21), state="started")]
        for rank in range(world)
    }  # fmt: skip
    return nccl_analysis({group: list(range(world))}, calls)


def test_who_is_still_in_what_all_others_have_left_did_not_come_to_the_next():
    found = lagging({2: 20})
    assert (found.conclusion, found.culprits, found.operation) == (Conclusion.LAGGING, (2,), "all_reduce")
    assert (found.groups[0].missing.text, found.groups[0].waiting.count) == ("2", 7), "who lags is not one who waits"
    assert "Rank 2 did not come to all_reduce #21 of default_pg, where ranks 0, 1, 3" in found.sentence
    assert "it is still in all_reduce #20, which all others have left." in found.sentence
    assert lagging({2: 20, 5: 20}).culprits == (2, 5)
    assert lagging(dict.fromkeys(range(4), 20)).culprits == ()  # as many on either side: nobody is odd


def test_who_waits_in_another_group_as_well_does_not_lag():
    calls = {rank: [call("default_pg", 20), call("default_pg", 21, state="started")] for rank in range(4)}
    calls[2] = [call("default_pg", 20, state="started"), call("tp1", 7, state="started")]
    calls[3] = [call("default_pg", 20), call("default_pg", 21, state="started")]
    found = nccl_analysis({"default_pg": [0, 1, 2, 3], "tp1": [2, 3]}, calls)
    assert found.conclusion is not Conclusion.LAGGING


def test_what_is_known_besides_the_dumps_is_not_called_unknown():
    told = [evidence_of(recorded(f"hang4_rank_{rank}.json"), rank) for rank in range(4)]
    untold = analysis(told)
    assert untold is not None
    assert any("How many ranks there were is not told" in words for words in untold.unknown)
    assert any("No stacks were recorded" in words for words in untold.unknown)
    stack = replace(told[3], source="stack", code=None, text="Thread 0x1 (most recent call first):", attributes=())
    found = analysis([*told, stack], None, 4)
    assert found is not None and found.world_size == 4
    assert not any("How many ranks" in words or "No stacks" in words for words in found.unknown)
    assert "The dumps hold no stacks; where rank 3 stood is told by its own." in found.unknown
    larger = analysis(told, None, 6)
    assert larger is not None and larger.not_seen.text == "4,5"


def test_a_group_that_gloo_calls_undefined_has_no_name():
    found = lagging({2: 20}, group="undefined")
    assert "of unnamed group 0, where" in found.sentence
    assert [row.title for row in found.groups] == ["unnamed group 0"]


def test_where_all_joined_a_kernel_that_never_started_is_pointed_out():
    calls = {rank: [call("default_pg", 2, state="scheduled" if rank == 2 else "started")] for rank in range(4)}
    found = nccl_analysis({"default_pg": [0, 1, 2, 3]}, calls)
    assert found.conclusion is Conclusion.ALL_JOINED
    assert "On rank 2 its kernel never started" in found.sentence


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"operation": "broadcast"}, "Rank 2 calls broadcast where ranks 0, 1 and 3 call all_reduce"),
        ({"sizes": [[8]]}, "Rank 2 calls all_reduce with [8] where ranks 0, 1 and 3 call it with [16]"),
        ({"type": "Half"}, "Rank 2 calls all_reduce with Half where ranks 0, 1 and 3 call it with Float"),
    ],
)
def test_the_odd_rank_is_the_one_against_the_majority(odd: dict[str, object], words: str):
    calls = {
        rank: [
            call("default_pg", 1),
            call("default_pg", 2, state="started", **(odd if rank == 2 and "operation" not in odd else {})),
        ]
        for rank in range(4)
    }
    if "operation" in odd:
        calls[2][1] = call("default_pg", 2, "broadcast", "started")
    found = nccl_analysis({"default_pg": [0, 1, 2, 3]}, calls)
    assert (found.conclusion, found.culprits) == (Conclusion.MISMATCH, (2,))
    assert words in found.sentence


def test_without_a_majority_both_sides_are_named_and_nobody_is_blamed():
    found = nccl_analysis(
        {"default_pg": [0, 1]},
        {0: [call("default_pg", 1, state="started")], 1: [call("default_pg", 1, "broadcast", "started")]},
    )
    assert (found.conclusion, found.culprits) == (Conclusion.MISMATCH, ())
    assert "rank 0: all_reduce; rank 1: broadcast" in found.sentence


def test_another_shape_with_as_many_elements_is_no_mismatch_and_an_uneven_gather_that_ended_is_none():
    calls = {rank: [call("default_pg", 1, sizes=[[4, 4]] if rank else [[16]])] for rank in range(2)}
    assert nccl_analysis({"default_pg": [0, 1]}, calls).conclusion is Conclusion.NOTHING_PENDING
    calls = {rank: [call("default_pg", 1, "all_gather", sizes=[[4 + rank]])] for rank in range(2)}
    assert nccl_analysis({"default_pg": [0, 1]}, calls).conclusion is Conclusion.NOTHING_PENDING


def test_a_gather_has_another_shape_at_its_root():
    calls = {rank: [call("default_pg", 1, "gather", output_sizes=[[2, 16]] if rank == 0 else [])] for rank in range(2)}
    assert nccl_analysis({"default_pg": [0, 1]}, calls).conclusion is Conclusion.NOTHING_PENDING


def test_collectives_called_in_a_different_order_are_ranks_that_wait_for_each_other():
    groups = {"default_pg": [0, 1], "a": [0, 1], "b": [0, 1]}
    found = nccl_analysis(groups, {0: [call("a", 1, state="started")], 1: [call("b", 1, state="started")]})
    assert (found.conclusion, found.culprits) == (Conclusion.DEADLOCK, ())
    assert "different order" in found.sentence


def test_only_the_ranks_without_a_dump_can_be_missing():
    found = nccl_analysis(WORLD, {rank: [call("default_pg", 5, state="started")] for rank in (0, 1, 2)})
    assert (found.conclusion, found.culprits) == (Conclusion.NOT_SEEN, ())
    assert "rank 3 left no dump" in found.sentence and "look there first" in found.sentence


def test_a_whole_chain_of_victims_leads_to_the_one_that_waits_nowhere():
    groups = {"default_pg": [0, 1, 2, 3], "a": [0, 1], "b": [1, 2], "c": [2, 3]}
    done = [call("default_pg", 1)]
    found = nccl_analysis(
        groups,
        {0: [*done, call("a", 1, state="started")], 1: [*done, call("b", 1, state="started")],
         2: [*done, call("c", 1, state="started")], 3: done},
    )  # fmt: skip
    assert (found.conclusion, found.culprits) == (Conclusion.MISSING, (3,))


def test_several_ranks_may_be_missing():
    calls = {rank: [call("default_pg", 1), call("default_pg", 2, state="started")] for rank in (0, 1)}
    found = nccl_analysis(WORLD, {**calls, 2: [call("default_pg", 1)], 3: [call("default_pg", 1)]})
    assert (found.culprits, found.culprit_count) == ((2, 3), 2)
    assert "Ranks 2 and 3 did not join all_reduce #2 of default_pg, where ranks 0 and 1 wait" in found.sentence


def test_a_send_without_its_receive_waits_for_the_rank_that_does_not_answer():
    groups = {"default_pg": [0, 1, 2], "pipeline": [0, 1, 2]}
    found = nccl_analysis(
        groups,
        {0: [call("pipeline", 1, "send 0->1", "started")],
         1: [call("pipeline", 1, "recv 1<-0", "started"), call("pipeline", 2, "send 1->2", "started")],
         2: [call("default_pg", 1)]},
    )  # fmt: skip
    assert (found.conclusion, found.culprits) == (Conclusion.MISSING, (2,))


def test_ranks_of_a_send_are_those_of_its_group():
    groups = {"default_pg": list(range(8)), "pipeline": [3, 7]}
    calls = {rank: [call("default_pg", 1)] for rank in range(8)}
    calls[3] = [call("default_pg", 1), call("pipeline", 1, "send 0->1", "started")]
    found = nccl_analysis(groups, calls)
    assert found.culprits == (7,)
    assert "did not answer the send of rank 3 to it in pipeline" in found.sentence


def test_a_ring_that_wrapped_on_one_rank_accuses_nobody_of_what_it_no_longer_holds():
    dumps = []
    for rank in range(3):
        calls = [call("default_pg", 1)] if rank != 1 else []
        calls += [call("tp", number) for number in range(5, 9)]
        first = 0 if rank != 1 else 1000
        dumps.append(summary(dump_of(nccl_dump({"default_pg": [0, 1, 2], "tp": [0, 1, 2]}, calls, first)), rank))
    assert analysed(dumps).conclusion is Conclusion.NOTHING_PENDING


def test_recording_that_was_disabled_says_nothing_and_says_so():
    told = summary(dump_of({"version": "2.10", "pg_config": {}, "pg_status": {}}), 4)
    assert "recording was disabled" in sentence(told)
    found = analysed([told])
    assert (found.conclusion, found.confidence, found.not_recorded.text) == (Conclusion.NOT_RECORDED, 0.0, "4")


# --- over facts ---


def test_facts_are_analysed_whatever_their_order_and_without_dumps_there_is_nothing():
    facts = [evidence_of(recorded(name), rank) for rank, name in enumerate(HANG4)]
    found = analysis(facts)
    assert found is not None and found.culprits == (3,)
    for seed in range(3):
        random.Random(seed).shuffle(facts)
        assert analysis(facts) == found
    assert analysis([]) is None


def test_of_two_dumps_of_one_rank_the_later_one_counts():
    early = evidence_of(recorded("hang4_rank_3"), 3)
    late = evidence_of(recorded("hang4_end_rank_3.json"), 3, seq=1)
    others = [evidence_of(recorded(name), rank) for rank, name in enumerate(HANG4[:3])]
    assert analysis([*others, early, late]) == analysis([*others, late])


def test_evidence_of_a_dump_that_is_no_summary_is_left_out():
    broken = evidence_of(recorded(HANG4[0]), 9)
    object.__setattr__(broken, "attributes", (("summary", "{}"),))
    assert analysis([broken]) is None


@given(st.integers(2, 12), st.data())
def test_one_missing_rank_is_found_in_any_layout(world: int, data: st.DataObject):
    """Every rank but one calls a collective of everybody; before it, some groups of any shape complete."""
    culprit = data.draw(st.integers(0, world - 1))
    groups = {"default_pg": list(range(world))}
    calls: dict[int, list[dict[str, object]]] = {rank: [] for rank in range(world)}
    for number in range(data.draw(st.integers(0, 3))):
        members = sorted(data.draw(st.sets(st.integers(0, world - 1), min_size=1)))
        groups[f"group{number}"] = members
        for rank in members:
            calls[rank].append(call(f"group{number}", 1))
    for rank in range(world):
        if rank != culprit:
            calls[rank].append(call("default_pg", 1, state="started"))
    found = nccl_analysis(groups, calls)
    assert (found.conclusion, found.culprits) == (Conclusion.MISSING, (culprit,))


@given(st.lists(st.integers(0, 300), max_size=60))
def test_ranks_in_short_are_the_same_ranks(ranks: list[int]):
    assert unpacked(packed(ranks), 1000) == tuple(dict.fromkeys(ranks))


def test_ranks_are_named_in_words():
    assert [named(ranks) for ranks in ([], [3], [3, 1], range(3), range(12))] == [
        "no rank", "rank 3", "ranks 1 and 3", "ranks 0, 1 and 2", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more",
    ]  # fmt: skip
    assert packed(range(0, 64, 8)) == "0-56:8"
    with pytest.raises(ValueError, match="not ranks"):
        unpacked("0-9999999", 1000)


def test_members_beyond_any_real_run_are_not_unpacked_without_end():
    hostile = [
        RankSummary(rank, (GroupSummary(f"g{rank}", "default_pg", f"{rank}-262143", enqueued=1),), entry_count=1)
        for rank in range(200)
    ]
    began = time.monotonic()
    found = analysed(hostile)
    assert time.monotonic() - began < 60
    assert found.ranks_seen == 200


def test_two_thousand_ranks_are_analysed_in_seconds():
    template = summary(
        dump_of(nccl_dump({"default_pg": list(range(2000))}, [call("default_pg", 1, state="started")])), 0
    )
    told = [replace(template, rank=rank) for rank in range(2000) if rank != 1234]
    began = time.monotonic()
    found = analysed([*told, summary(dump_of(nccl_dump({"default_pg": [0, 1]}, [])), 1234)])
    assert time.monotonic() - began < 20
    assert (found.conclusion, found.ranks_seen) == (Conclusion.MISSING, 2000)
