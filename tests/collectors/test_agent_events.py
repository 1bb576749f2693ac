"""Torchelastic's events, and attempts that only their places tell of."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.sources.agent_events import facts_of_agent_events, is_agent_events
from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import interruptions
from rerail.server.core.facts import AttemptEnded, AttemptStarted, Evidence, Outcome, RunEnded

CORPUS = Path(__file__).parent.parent / "corpus" / "torchrun"


def read(lines: list[bytes]) -> list:
    return list(facts_of_agent_events(enumerate(lines, 1), run=None, stem="x", emitter="e", fallback_at=7))


def test_the_error_of_a_worker_stands_in_the_events_with_its_global_rank():
    files = read_run_files([str(CORPUS / "events_fail.jsonl")])
    assert files.files[0].kind == "agent events"
    (found,) = interruptions(files)
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("loss_anomaly", 1)
    ended = [fact for fact in files.facts if isinstance(fact, RunEnded)]
    assert [(fact.outcome, fact.reason) for fact in ended] == [(Outcome.FAILED, "no restart was left")]


def test_every_restart_is_an_attempt_and_a_run_that_ended_well_is_told():
    lines = (CORPUS / "events_exc.jsonl").read_bytes().splitlines()
    facts = read(lines)
    assert {fact.run for fact in facts} == {"job42"}
    assert [fact.restart for fact in facts if isinstance(fact, AttemptStarted)] == [0, 1, 2]
    assert [fact.outcome for fact in facts if isinstance(fact, AttemptEnded)] == [
        Outcome.FAILED, Outcome.FAILED, Outcome.COMPLETED,
    ]  # fmt: skip
    found = interruptions(read_run_files([str(CORPUS / "events_exc.jsonl")]))
    assert [(each.attempt, each.relaunch_of) for each in found] == [(0, None), (1, None)], "nobody tells of steps"


def test_an_event_without_a_recorder_around_it_is_one_too():
    event = {
        "name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0,
        "metadata": {"run_id": "j", "global_rank": 9, "agent_restarts": 1, "hostname": "n7", "state": "FAILED",
                     "raw_error": '{"message": "boom"}', "metadata": '{"local_rank": [1]}'},
    }  # fmt: skip
    raw = json.dumps(event).encode()
    assert is_agent_events(raw)
    (told,) = [fact for fact in read([raw]) if isinstance(fact, Evidence)]
    assert (told.text, told.rank, told.local_rank, told.node, told.restart) == ("boom", 9, 1, "n7", 1)


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["torchelastic.worker.status.FAILED", "torchelastic.worker.status.SUCCEEDED", "x"]),
             "source": st.sampled_from(["WORKER", "AGENT", 3])},
            optional={"metadata": st.dictionaries(
                st.sampled_from(["agent_restarts", "global_rank", "raw_error", "metadata", "hostname", "run_id"]), _VALUE),
                "timestamp": _VALUE, "message": _VALUE, "node_state": _VALUE, "error_trace": _VALUE},
        ) | _VALUE,
        max_size=6,
    )
)  # fmt: skip
def test_no_event_is_too_odd(events: list[object]):
    facts = read([json.dumps(event).encode() for event in events] + [b"{", b"\xff", b"[" * 5000])
    assert all(fact.rank is None or fact.rank >= 0 for fact in facts)
    assert len({fact.seq for fact in facts}) == len(facts)


@pytest.mark.parametrize("with_log", [False, True])
def test_an_attempt_that_left_no_word_is_shown_where_another_followed(with_log: bool):
    paths = [str(CORPUS / "sigkill_files"), *([str(CORPUS / "sigkill.log")] if with_log else [])]
    found = interruptions(read_run_files(paths))
    assert [(each.attempt, each.relaunch_of) for each in found] == [(0, None), (1, 0)]
    assert (found[0].verdict.cause, found[0].verdict.culprit_rank) == (
        ("sigkill", 1) if with_log else ("unknown", None)
    )
    assert found[1].verdict.cause == "network"
