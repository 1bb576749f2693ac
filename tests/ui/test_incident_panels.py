"""The panels of an incident that dumps and files make: who waits, who is missing, and what each file came to."""

from __future__ import annotations

from rerail.server.core.flight_recorder.conclusions import Analysis, Conclusion
from rerail.server.query_results import ArtefactRow, GivenArtefact
from rerail.ui.markup import encoded
from rerail.ui.pages.incident_files import files_list
from rerail.ui.pages.incident_flight_recorder import CONCLUSIONS, flight_recorder_panel
from tests.dumps import call, nccl_analysis, recorded_analysis
from tests.ui.samples import at

HANG4 = [f"hang4_rank_{rank}" for rank in range(4)]


def shown(found: Analysis) -> str:
    panel = flight_recorder_panel(found)
    assert panel is not None
    encoded([panel])
    return panel.words().replace("\u202f", " ")


def test_without_dumps_there_is_no_panel():
    assert flight_recorder_panel(None) is None


def test_the_panel_says_who_waits_who_is_missing_and_where_those_were_last():
    words = shown(recorded_analysis(*HANG4, side_cars=["hang4_rank_1.sidecar.json"]))
    assert "Rank 3 did not join all_gather #3 of dp1" in words
    assert "dumps of 4 of 4 ranks" in words and "96 % confident" in words
    assert "rank 3 all_reduce #3 of tp1 at <module> (fr3.py:35)" in words
    assert "culprit" in words


def test_ranks_without_a_dump_are_named_in_it():
    words = shown(recorded_analysis("missing_hang_rank_1.json", "missing_hang_rank_2.json"))
    assert "not seen: 0" in words and "accuses nobody" in words


def test_many_ranks_are_shown_in_short():
    calls = {rank: [call("default_pg", 1), call("default_pg", 2, state="started")] for rank in range(64)}
    calls[17] = [call("default_pg", 1)]
    assert "0–16, 18–63 (63)" in shown(nccl_analysis({"default_pg": list(range(64))}, calls))


def test_a_mismatch_names_what_differs():
    calls = {rank: [call("default_pg", 1, "broadcast" if rank == 2 else "all_reduce", "started")] for rank in range(4)}
    words = shown(nccl_analysis({"default_pg": [0, 1, 2, 3]}, calls))
    assert "ranks differ" in words and "all_reduce on ranks 0, 1 and 3; broadcast on rank 2" in words


def test_every_conclusion_has_words():
    assert set(CONCLUSIONS) == set(Conclusion)


def test_files_say_what_they_came_to_and_names_are_text():
    row = ArtefactRow("a" * 64, "run/a", "run/a~0", "<b>x</b>.log", "log", 1234, at(10), "Ada", pieces=3)
    (counts,) = files_list([GivenArtefact(row, False, True)])
    words = counts.words().replace("\u202f", " ")
    assert all(
        part in words for part in ("<b>x</b>.log", "1.2 kB", "3 pieces of evidence", "by Ada", "counts", "withdraw")
    )
    withdrawn = GivenArtefact(row, True, True, at(20), "Bo", "another run's")
    (listed,) = files_list([withdrawn])
    assert "withdrawn by Bo" in listed.words() and "let it count" in listed.words()
    refused = ArtefactRow("b" * 64, "r", "r~0", "x", "unknown", 1, at(10), None, 0, ("neither a dump nor text",))
    (listed,) = files_list([GivenArtefact(refused, False, True)])
    assert "neither a dump nor text" in listed.words() and "not understood" in listed.words()
    assert files_list([]) == []
