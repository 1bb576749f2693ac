"""Dumps decide a verdict: who hung, who differed, or that nobody is missing; and what was withdrawn decides nothing."""

from __future__ import annotations

import json

from rerail.server.core.facts import ArtefactState, Evidence, Exit, Initiator, Outcome, Phase, WindowState
from rerail.server.core.fold import RunFold
from rerail.server.core.report import figures
from rerail.server.core.view import CausalRole, Domain, Incident
from rerail.ui.sentences import run_sentence
from tests.dumps import call, evidence_of, nccl_dump, recorded
from tests.invariants import without_arrival
from tests.story import SECOND, Story, seconds_by_phase

TIMED_OUT = "[rank1]: RuntimeError: Timed out waiting 15000ms for recv operation to complete"
DUMPS = [(recorded(f"hang4_rank_{rank}"), rank) for rank in range(4)]


def story(dumps: list[tuple[bytes, int]], *lines: tuple[str, int | None]) -> Story:
    """A run that hung, with these dumps and lines told of its end."""
    told = Story().start().steps(1, 20).wait(5)
    for text, rank in lines:
        told._say(Evidence, "launcher", **{**told._here(), "source": "stderr", "text": text, "rank": rank})
    for content, rank in dumps:
        fact = evidence_of(content, rank, at=told.at)
        told._say(
            Evidence, f"artefact/{rank}", **told._here(), rank=rank, source=fact.source, code=fact.code, text=fact.text,
            attributes=fact.attributes, artefact=f"sha{rank}", node=f"gpu-{rank}",
        )  # fmt: skip
    return told


def incident(told: Story) -> Incident:
    return told.die(after=1, by="launcher").stop(1).start(Initiator.FAULT).steps(21, 25).view().incidents[0]


def dumped(groups: dict[str, list[int]], calls: dict[int, list[dict[str, object]]]) -> list[tuple[bytes, int]]:
    return [(json.dumps(nccl_dump(groups, each)).encode(), rank) for rank, each in calls.items()]


def test_the_dumps_name_the_culprit_that_a_time_out_does_not():
    without = incident(story([], (TIMED_OUT, 1))).verdict
    assert (without.cause, without.culprit_rank) == ("hang", None)
    found = incident(story(DUMPS, (TIMED_OUT, 1)))
    verdict = found.verdict
    assert (verdict.cause, verdict.culprit_rank, verdict.culprit_node) == ("hang", 3, "gpu-3")
    assert verdict.confidence > without.confidence
    assert dict(verdict.traits) == {"frame": "fr3.py:<module>", "operation": "all_gather"}
    assert [line.rank for line in found.evidence if line.role is CausalRole.INITIATING] == [3]
    assert found.flight_recorder is not None and found.flight_recorder.culprits == (3,)


def test_a_mismatch_is_the_programs_own():
    calls = {rank: [call("default_pg", 1, "broadcast" if rank == 2 else "all_reduce", "started")] for rank in range(4)}
    verdict = incident(story(dumped({"default_pg": [0, 1, 2, 3]}, calls), (TIMED_OUT, 0))).verdict
    assert (verdict.cause, verdict.culprit_rank, verdict.domain) == ("collective_mismatch", 2, Domain.WORKLOAD)


STOPPED = ("Received 15 death signal, shutting down workers", None)


def hung(waiting: float, dumps: list[tuple[bytes, int]] = DUMPS) -> Story:
    told = story(dumps).wait(waiting)
    told._say(Evidence, "launcher", **{**told._here(), "source": "torchrun", "text": STOPPED[0]})
    return told


def test_a_hang_that_dumps_show_and_somebody_stopped_is_an_interruption_with_a_culprit():
    told = hung(600).stop(0, Outcome.STOPPED).finish(Outcome.STOPPED)
    view = told.view()
    (found,) = view.incidents
    assert (found.verdict.cause, found.verdict.culprit_rank, found.is_planned) == ("hang", 3, False)
    assert found.verdict.confidence > 0.7 and view.rates.faults == 1
    assert seconds_by_phase(view) == {"training": 20, "detecting": 605}
    restarted = hung(600).stop(0, Outcome.STOPPED).start(Initiator.OPERATOR).steps(21, 25).view().incidents[0]
    assert (restarted.verdict.cause, restarted.is_planned) == ("hang", False)


def test_an_open_run_that_hangs_by_its_dumps_has_an_open_incident_until_it_steps_on():
    told = story(DUMPS)
    assert not told.view(later=20).incidents
    (found,) = told.view(later=60).incidents
    assert (found.verdict.culprit_rank, found.is_open, found.noticed_at) == (3, True, None)
    assert found.so_far_ns == 65 * SECOND
    fold = told.fold()
    assert len(fold.view(told.at + 60 * SECOND).incidents) == 1
    fold.add(told.wait(70).steps(21, 40).facts)
    assert not fold.view(told.at).incidents
    assert without_arrival(fold.view(told.at)) == without_arrival(told.view())


def test_dumps_of_a_run_that_trained_on_or_saves_or_that_name_nobody_prove_no_hang():
    assert not story(DUMPS).steps(21, 40).wait(600).stop(0, Outcome.STOPPED).finish(Outcome.STOPPED).view().incidents
    assert not story(DUMPS).phase(Phase.SAVING, 300).stop(1, Outcome.STOPPED).finish(Outcome.STOPPED).view().incidents
    calls = {rank: [call("default_pg", 1, "all_reduce", "started")] for rank in range(4)}
    joined = dumped({"default_pg": [0, 1, 2, 3]}, calls)
    assert not hung(600, joined).stop(0, Outcome.STOPPED).finish(Outcome.STOPPED).view().incidents
    told = hung(600)
    for rank in range(4):
        told._say(ArtefactState, "person", artefact=f"sha{rank}", state=WindowState.WITHDRAWN)
    assert not told.stop(0, Outcome.STOPPED).finish(Outcome.STOPPED).view().incidents


def test_torchs_own_line_is_a_mismatch_too():
    line = "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: x"
    assert incident(story([], (line, 1))).verdict.cause == "collective_mismatch"


def test_where_all_joined_it_stays_a_hang_and_no_rank_is_blamed():
    calls = {rank: [call("default_pg", 1, state="started")] for rank in range(4)}
    verdict = incident(story(dumped({"default_pg": [0, 1, 2, 3]}, calls), (TIMED_OUT, 0))).verdict
    assert (verdict.cause, verdict.culprit_rank) == ("hang", None)
    assert "no rank is missing" in verdict.sentence


def test_a_rank_that_died_of_something_else_is_missing_because_of_it():
    verdict = incident(story(DUMPS, ("[rank3]: ValueError: bad sample in shard 7", 3), (TIMED_OUT, 1))).verdict
    assert (verdict.cause, verdict.culprit_rank) == ("user_exception", 3)


def test_the_kill_of_a_monitor_whose_patience_was_over_is_no_failure_of_its_own():
    waited, killed = "Did not get subsequent heartbeat. Waited 10.00 seconds.", "failed (exitcode: -9) local_rank: 3"
    verdict = incident(story(DUMPS, (waited, 3), (waited, 0), (killed, 3))).verdict
    assert (verdict.cause, verdict.culprit_rank) == ("hang", 3)
    assert verdict.confidence > 0.6
    verdict = incident(story(DUMPS, (killed, 3))).verdict
    assert (verdict.cause, verdict.culprit_rank) == ("sigkill", 3), "no monitor said that it did it"


def test_dumps_in_which_nothing_is_pending_leave_the_verdict_to_others():
    calls = {rank: [call("default_pg", 1)] for rank in range(2)}
    found = incident(story(dumped({"default_pg": [0, 1]}, calls), ("[rank1]: ValueError: boom", 1)))
    assert found.verdict.cause == "user_exception"
    assert found.flight_recorder is not None


def test_evidence_of_a_withdrawn_file_does_not_count_in_whatever_order_it_is_told():
    told = story(DUMPS, (TIMED_OUT, 1)).die(after=1).stop(1).start(Initiator.FAULT).steps(21, 25)
    for rank in range(4):
        told._say(ArtefactState, "people", artefact=f"sha{rank}", state=WindowState.WITHDRAWN, reason="another run's")
    found = told.view().incidents[0]
    assert (found.verdict.culprit_rank, found.flight_recorder) == (None, None)
    assert [line.source for line in found.evidence if line.emitter is not None] == ["stderr"]
    backwards = RunFold(told.run)
    for fact in reversed(told.facts):
        backwards.add([fact, fact])
        backwards.view(told.at)
    assert backwards.view(told.at).incidents[0] == found
    for rank in range(4):
        told._say(ArtefactState, "people", artefact=f"sha{rank}", state=WindowState.RESTORED, at=told.at + 1)
    assert told.view().incidents[0].verdict.culprit_rank == 3


def test_an_xid_comes_with_its_official_meaning():
    line = "NVRM: Xid (PCI:0000:05:00): 79, pid=1, name=python3, GPU has fallen off the bus."
    meaning = incident(story([], (line, 4))).evidence[0].meaning
    assert meaning == "XID 79: GPU has fallen off the bus. NVIDIA's action: reboot the node (RESTART_BM)."
    assert incident(story([], (TIMED_OUT, 1))).evidence[0].meaning is None


def test_a_survivor_that_waits_for_a_killed_rank_is_no_hang():
    told = story(DUMPS[1:2])
    told._say(Exit, "launcher", **told._here(), rank=3, exit_code=-9)
    verdict = incident(told).verdict
    assert (verdict.cause, verdict.culprit_rank) == ("sigkill", 3)


def test_dumps_of_a_run_without_an_attempt_say_what_they_know_until_one_is_told():
    """Nothing ended, as far as anybody told: there is no incident, and the finding must be seen all the same."""
    alone = RunFold("r")
    told = [evidence_of(content, rank, at=1_795_953_700 * SECOND) for content, rank in DUMPS]
    alone.add(told[:1])
    first = alone.view(told[0].at + SECOND).dumps_say
    assert first is not None and first.culprit_rank is None and first.confidence < 0.5
    alone.add(told[1:])
    view = alone.view(told[0].at + SECOND)
    assert view.attempts == () and view.incidents == () and view.dumps_say is not None
    assert (view.dumps_say.cause, view.dumps_say.culprit_rank) == ("hang", 3)
    words = "".join(phrase.words for phrase in run_sentence(view))
    assert words.startswith("Flight recorder dumps say: Rank 3 did not join") and "% sure" in words
    assert figures(view)["dumps_say"]["culprit_rank"] == 3  # type: ignore[index]
    assert story(DUMPS).view().dumps_say is None
