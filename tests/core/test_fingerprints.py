"""Fingerprints: the same fault is the same problem, wherever, whenever and to whomever it happened."""

from __future__ import annotations

from itertools import permutations

import pytest

from rerail.server.core.fingerprints import fingerprint_of, title_of, why_different, why_same
from rerail.server.core.fold import RunFold
from rerail.server.core.view import Domain, Verdict
from tests.story import Story


def verdict(cause: str = "user_exception", **traits: str) -> Verdict:
    return Verdict(cause, Domain.WORKLOAD, 0.9, "It fell.", traits=tuple(sorted(traits.items())))


def fingerprint(phase: str | None = "training", run: str = "a", cause: str = "user_exception", **traits: str) -> str:
    made = fingerprint_of(verdict(cause, **traits), phase, run)
    assert made is not None
    return made.text


def test_what_happened_makes_the_problem_and_not_to_whom():
    here = fingerprint(exception="ValueError", frame="data.py:read")
    assert here == fingerprint(run="b", exception="ValueError", frame="data.py:read")
    assert here.startswith("1:") and len(here) == 14
    others = {
        fingerprint(exception="KeyError", frame="data.py:read"),
        fingerprint(exception="ValueError", frame="data.py:write"),
        fingerprint(phase="saving", exception="ValueError", frame="data.py:read"),
        fingerprint(cause="gpu_oom", exception="ValueError", frame="data.py:read"),
        fingerprint(exception="ValueError", frame="data.py:read", xid="79"),
        here,
    }
    assert len(others) == 6


def test_a_fingerprint_stays_what_it_is():
    """One of the wild: other hashes for the same faults would be other problems."""
    assert fingerprint(exception="ValueError", frame="data.py:read") == "1:728e5283d656"


def test_the_operation_counts_only_where_there_is_no_frame():
    assert fingerprint(frame="a.py:f", operation="ALLREDUCE") == fingerprint(frame="a.py:f", operation="BROADCAST")
    assert fingerprint(operation="ALLREDUCE") != fingerprint(operation="BROADCAST")
    assert fingerprint(section="checkpoint") == fingerprint(), "what is no part of it makes no difference"


def test_faults_of_which_nothing_is_known_are_not_one_problem():
    assert fingerprint(cause="unknown") == fingerprint(cause="unknown")
    assert fingerprint(cause="unknown") != fingerprint(cause="unknown", run="b")
    assert fingerprint(cause="unknown", xid="79") == fingerprint(cause="unknown", run="b", xid="79")


def test_planned_restarts_have_none():
    assert fingerprint_of(verdict("operator_stop"), "training", "a", is_planned=True) is None


def test_the_sentences_name_what_is_equal_and_what_is_not():
    one = fingerprint_of(verdict(exception="ValueError", frame="data.py:read"), "training", "a")
    other = fingerprint_of(verdict(exception="ValueError", operation="ALLREDUCE"), "saving", "a")
    assert one is not None and other is not None
    assert why_same(one.parts, other.parts) == "The same cause user_exception and exception ValueError."
    assert why_different(one.parts, other.parts) == (
        "Different place in the code: data.py:read here, none there; collective operation: none here, ALLREDUCE "
        "there; phase in which it struck: training here, saving there."
    )
    assert why_different(one.parts, one.parts) is None
    assert why_same((("cause", "a"),), (("cause", "b"),)) is None
    assert title_of(one.parts) == "user exception: ValueError in data.py:read"
    assert title_of(other.parts) == "user exception: ValueError, ALLREDUCE, while saving"


def phase_of(story: Story) -> str | None:
    (incident,) = story.view(later=100).incidents
    assert incident.fingerprint is not None
    return dict(incident.fingerprint.parts).get("phase")


def test_the_phase_is_the_one_that_was_open_or_how_far_the_attempt_had_come():
    assert phase_of(Story().start().bring_up(20).steps(1, 10).die(after=5).stop(1)) == "training"
    assert phase_of(Story().start().bring_up(20).die(after=5).stop(1)) == "initializing"
    assert phase_of(Story().start().load(100, took=9).die(after=5).stop(1)) == "loading"
    assert phase_of(Story().start().die(after=5).stop(1)) is None


def test_what_follows_a_rendezvous_is_bring_up_only_where_steps_are_told():
    assert phase_of(Story().start().meet().die(after=5).stop(1)) is None
    story = Story().start().steps(1, 10).die(after=5).stop(1).start().meet().die(after=5).stop(1)
    assert story.view().incidents[-1].lost_steps is None, "no restart told from which step it goes on"
    first = story.start().steps(1, 30).finish().view().incidents[0]
    assert dict(first.fingerprint.parts)["phase"] == "training"
    assert (first.attempts, first.lost_steps) == ((0, 1), 10)


def test_redoing_lost_ground_makes_no_other_problem():
    story = Story().start().bring_up(20).steps(1, 10).save(10, blocked=1).steps(11, 20).die(after=5).stop(1)
    story.wait(5).start().bring_up(20).load(10, took=3).steps(11, 30).die(after=5).stop(1)
    story.wait(5).start().bring_up(20).load(10, took=3).steps(11, 15).die(after=5).stop(1)
    first, second = story.view(later=50).incidents
    assert first.fingerprint is not None
    assert first.fingerprint == second.fingerprint
    assert dict(first.facets) == {"step": "20", "run": "story"}
    assert dict(second.facets)["checkpoint"] == "10"


@pytest.mark.parametrize("turn", range(4))
def test_the_order_of_facts_makes_no_other_fingerprint(turn: int):
    story = Story().start().bring_up(20).steps(1, 10).die(after=5, exit_code=-11).stop(1).wait(3)
    story.start().bring_up(20).steps(1, 30).finish()
    (whole,) = story.view().incidents
    facts = list(permutations(range(4)))[turn * 5]
    parts = [story.facts[index::4] for index in range(4)]
    fold = RunFold("story")
    for index in facts:
        fold.add(parts[index])
        fold.view(story.at)
    (again,) = fold.view(story.at).incidents
    assert (again.fingerprint, again.facets) == (whole.fingerprint, whole.facets)
