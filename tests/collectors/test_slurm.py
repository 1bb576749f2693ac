"""What Slurm's commands print, in every dialect, and what it states about runs."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.collectors.formats import OldFile, formats
from rerail.collectors.source import LookGivenUp, Source, SourceDown
from rerail.collectors.sources.slurm import Chosen, CommandFailed, SlurmSource, run_command
from rerail.collectors.sources.slurm_facts import FOLLOWED_NS, Naming, SlurmFacts
from rerail.collectors.sources.slurm_nodes import condition_of
from rerail.collectors.sources.slurm_output import is_slurm, read
from rerail.collectors.sources.slurm_records import Job, NodeEvent, Refused
from rerail.collectors.sources.slurm_words import state_of
from rerail.server.commands.classifying import classify
from rerail.server.core.codec import FactError, canonical, decode_line, encode_line
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Blind,
    Evidence,
    Exit,
    Fact,
    NodeState,
    Phase,
    RunEnded,
    SchedulerState,
)
from rerail.server.core.fold import RunFold

CORPUS = Path(__file__).parent.parent / "corpus" / "slurm"
SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded cluster kept UTC, and its text carries no zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def records(*names: str) -> tuple[list[Job], list[NodeEvent]]:
    found = [record for name in names for record in read((CORPUS / name).read_bytes())]
    assert not [each for each in found if isinstance(each, Refused)]
    return [each for each in found if isinstance(each, Job)], [each for each in found if isinstance(each, NodeEvent)]


def stated(*names: str, naming: Naming | None = None) -> list[Fact]:
    return SlurmFacts(naming=naming).take(*records(*names))


def folded(facts: list[Fact], run: str) -> RunFold:
    fold = RunFold(run)
    own = [fact for fact in facts if fact.run == run]
    fold.add(own)
    fold.view(max(fact.at for fact in own) + SECOND)
    return fold


def judged(*names: str) -> list[tuple[str | None, str, str, str | None]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        paths = [str(CORPUS / name) for name in names]
        assert classify(argparse.Namespace(paths=paths, each=False, json=True, time_limit=None)) == 0
    found = json.loads(out.getvalue())["interruptions"]
    return [(each["job"], each["cause"], each["domain"], each["culprit_node"]) for each in found]


# --- the recorded cluster ---


def test_the_recorded_cluster_is_told_as_it_happened():
    facts = stated("sacct.psv", "sacctmgr_events.psv")
    starts = {(fact.run, fact.requeue): fact for fact in facts if isinstance(fact, AttemptStarted)}
    assert starts["pretrain-llm", 0].nodes == ("n0", "n1")
    again = starts["pretrain-llm", 1]
    assert (again.scope, again.initiator, again.at) == ("requeue", "scheduler", 1795954604 * SECOND)
    assert (starts["oomjob", 0].scope, len([fact for fact in starts if fact[0] == "oomjob"])) == ("resubmit", 1)
    outcomes = {(fact.run, fact.job): fact.outcome for fact in facts if isinstance(fact, AttemptEnded)}
    assert outcomes["tl", "4"] == outcomes["pretrain2", "7"] == outcomes["exit3", "5"] == "failed"
    assert (outcomes["cancelme", "10"], outcomes["manualrq", "9"]) == ("stopped", None)
    assert [fact.run for fact in facts if isinstance(fact, RunEnded)] == ["pretrain-llm", "urgent"]
    codes = {fact.run: fact.exit_code for fact in facts if isinstance(fact, Exit)}
    assert codes == {"exit3": 3, "sigk": -9, "oomjob": -9}
    assert [(fact.run, fact.node, fact.state) for fact in facts if isinstance(fact, NodeState)] == [
        ("pretrain2", "n1", "lost")
    ]  # fmt: skip


def test_the_hold_after_a_requeue_is_waiting():
    fold = folded(stated("sacct.psv"), "pretrain-llm")
    assert [(span.start // SECOND, span.end // SECOND) for span in fold.spans if span.phase is Phase.QUEUED] == [
        (1795954467, 1795954604)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "truth"),
    [
        (
            ("sacct.psv",),
            [("1", "preemption", "infrastructure", None), ("4", "time_limit", "infrastructure", None),
             ("5", "user_exception", "workload", "n1"), ("6", "sigkill", "unknown", "n1"),
             ("7", "node_lost", "infrastructure", None), ("8", "sigkill", "unknown", "n0"),
             ("9", "operator_stop", "workload", None), ("10", "operator_stop", "workload", None)],
        ),
        (("scontrol_node_down.txt",), [(None, "node_lost", "infrastructure", "n1")]),
        (("scontrol_show_node.txt",), [(None, "node_lost", "infrastructure", "n1")]),
        (("sinfo.json",), [(None, "node_lost", "infrastructure", "n1")]),
        (("scontrol_preempted_pending.txt",), []),
    ],
)  # fmt: skip
def test_recorded_files_are_judged(names: tuple[str, ...], truth: list[tuple[str | None, str, str, str | None]]):
    assert judged(*names) == truth


def test_the_nodes_of_one_file_explain_the_jobs_of_another():
    assert ("7", "node_lost", "infrastructure", "n1") in judged("sacct.psv", "sacctmgr_events.psv")
    assert ("7", "node_lost", "infrastructure", "n1") in judged("sacct.json", "sinfo.json")


# --- a cluster to whose jobs one of each was done ---

ONE_OF_EACH = CORPUS.parent / "slurm_one_of_each"
EVENTS = "../slurm_one_of_each/sacctmgr_events.psv"
TRUTH = json.loads((ONE_OF_EACH / "truth.json").read_text())["jobs"]


@pytest.mark.parametrize(("file", "judged_from"), [("sacct.psv", "sacct"), ("squeue.json", "squeue")])
def test_what_was_done_to_each_job_is_how_it_is_judged(file: str, judged_from: str):
    found = {job: (cause, node) for job, cause, _, node in judged(f"../slurm_one_of_each/{file}", EVENTS)}
    told = {job: each[judged_from] for job, each in TRUTH.items() if each.get(judged_from)}
    assert {job: found[job][0] for job in told} == told
    assert {job: found[job][1] for job in found if "node" in TRUTH.get(job, {})} == {
        job: each["node"] for job, each in TRUTH.items() if "node" in each and job in found
    }


def test_what_accounting_and_the_queue_know_is_one_story():
    """The queue knows wait statuses and counts, accounting every incarnation, the steps and who cancelled."""
    facts = stated("../slurm_one_of_each/squeue.json", "../slurm_one_of_each/sacct.psv", EVENTS)
    ends: dict[str | None, list[str | None]] = {}
    for fact in facts:
        if isinstance(fact, AttemptEnded):
            ends.setdefault(fact.job, []).append(fact.outcome)
    assert {job: ends[job] for job in TRUTH} == {job: each["ends"] for job, each in TRUTH.items()}
    codes = {fact.job: fact.exit_code for fact in facts if isinstance(fact, Exit) and fact.job in TRUTH}
    assert codes == {job: each["exit"] for job, each in TRUTH.items() if "exit" in each}
    texts = {
        fact.job: fact.text for fact in facts if isinstance(fact, Evidence) and fact.code in ("FAILED", "CANCELLED")
    }
    assert texts["3"] == "JobId=3 State=CANCELLED by 0 ExitCode=143:0"
    assert "OUT_OF_MEMORY in a step" in texts["5"] and "JobLaunchFailure" in texts["17"]
    limits = {fact.config for fact in facts if isinstance(fact, AttemptStarted)}
    assert limits == {None, canonical({"slurm_time_limit": "00:01:00"})}  # 365 days after a requeue are no limit
    waited = {fact.reason for fact in facts if isinstance(fact, SchedulerState) and fact.state == "queued"}
    assert not waited & {"NonZeroExitCode", "TimeLimit", "NodeDown", "JobLaunchFailure"}


MORE_ENDS = CORPUS.parent / "slurm_more_ends"


@pytest.mark.parametrize("file", ["sacct.psv", "squeue.json", "scontrol_show_job.txt"])
def test_jobs_that_slurm_starts_again_by_itself_and_those_that_never_began(file: str):
    """`REQUEUED` is said of a script that left with a code, and of a prolog that failed; neither was a person."""
    told = json.loads((MORE_ENDS / "truth.json").read_text())["jobs"]
    truth = [
        (job, end, node)
        for job, each in told.items()
        for end, node in each.get(file, [])
    ]  # fmt: skip
    names = [f"../slurm_more_ends/{name}" for name in (file, "scontrol_show_node.txt")]
    found = [(job, cause, node) for job, cause, _, node in judged(*names)]
    assert sorted(found, key=str) == sorted(truth, key=str)
    began = {fact.job for fact in stated(*names) if isinstance(fact, AttemptStarted)}
    assert began.isdisjoint(job for job, each in told.items() if each["began"] == 0)
    facts = stated("../slurm_more_ends/sacct.psv")
    counts = {job: sum(isinstance(fact, AttemptStarted) and fact.job == job for fact in facts) for job in told}
    assert {job: count for job, count in counts.items() if count} == {
        job: each["began"] for job, each in told.items() if each["began"] and "sacct.psv" in each
    }


def test_a_job_that_is_suspended_is_said_to_wait_until_it_goes_on():
    memory: dict[str, Any] = {}
    told: list[tuple[str | None, int]] = []
    for name in ("squeue.json", "squeue_a_moment_later.json", "squeue_a_moment_later.json"):
        facts = SlurmFacts(memory).take(records(f"../slurm_more_ends/{name}")[0])
        told += [
            (fact.state, fact.at // SECOND)
            for fact in facts if isinstance(fact, SchedulerState) and fact.job == "43"
        ]  # fmt: skip
    assert told == [("running", 1796045976), ("suspended", 1796045978), ("running", 1796045982)]


def test_a_node_that_is_drained_at_work_is_shown_by_the_controller_alone_until_it_is_back():
    memory: dict[str, Any] = {}
    jobs, _ = records("../slurm_more_ends/squeue.json")
    _, nodes = records("../slurm_more_ends/scontrol_show_node.txt")
    facts = SlurmFacts(memory).take(jobs, nodes, as_of=1796045949 * SECOND)
    assert [(fact.run, fact.node, fact.state, fact.at // SECOND) for fact in facts if isinstance(fact, NodeState)] == [
        ("run-lostgpu", "node2", "drained", 1796045947)
    ]
    # Accounting dates the same absence by when the node was empty, and tells when it was over.
    late = NodeEvent("node2", "DRAIN", 1796045948 * SECOND, reason=nodes[1].reason)
    assert not [fact for fact in SlurmFacts(memory).take((), [late]) if isinstance(fact, NodeState)]
    assert not SlurmFacts(memory).take((), nodes, as_of=1796045950 * SECOND)
    at_work = [NodeEvent("node2", "MIXED", None, is_shown=True)]
    back = SlurmFacts(memory).take((), at_work, as_of=1796045960 * SECOND)
    assert [(fact.node, fact.state, fact.at // SECOND) for fact in back if isinstance(fact, NodeState)] == [
        ("node2", "ready", 1796045960)
    ]
    assert not SlurmFacts(memory).take((), at_work, as_of=1796045970 * SECOND)


def test_steps_that_are_told_after_the_end_are_evidence_still():
    memory: dict[str, Any] = {}
    queue, nodes = records("../slurm_one_of_each/squeue.json")
    SlurmFacts(memory).take(queue, nodes)
    late = SlurmFacts(memory).take([job for job in records("../slurm_one_of_each/sacct.psv")[0] if job.job == "5"])
    assert [(fact.code, fact.text) for fact in late if isinstance(fact, Evidence)] == [
        ("OUT_OF_MEMORY", "StepId=5.0 State=OUT_OF_MEMORY NodeList=n0")
    ]  # fmt: skip


def test_text_and_json_of_one_cluster_tell_the_same():
    """Beside what 22.05's JSON does not know: who cancelled by number, and the exit code of a script."""
    plain, _ = records("sacct.psv")
    told, _ = records("sacct.json")
    for one, other in zip(plain, told, strict=True):
        same = replace(
            one,
            steps=other.steps,
            labels=other.labels,
            limit=other.limit,
            by=other.by,
            exit_code=other.exit_code,
            exit_text="",
        )
        assert other == same


def test_every_command_states_a_job_under_one_identity():
    """A job that was polled, then imported from accounting, is one job."""
    asked = {(fact.emitter, fact.seq) for fact in stated("squeue.json")}
    shown = {(fact.emitter, fact.seq) for fact in stated("scontrol_show_job.txt")}
    known = {(fact.emitter, fact.seq) for fact in stated("sacct.psv")}
    assert asked == shown
    ended = {key for key in asked if key[0] not in ("slurm/job/7", "slurm/job/9")}
    assert ended <= known


# --- dialects ---


def wrapped(number: int | None) -> dict[str, Any]:
    return {"set": number is not None, "infinite": False, "number": number or 0}


def accounted(release: str) -> dict[str, Any]:
    """One job as `sacct --json` of a release tells it: preempted at first, then failed with signal 9 on four GPUs."""
    is_old = release == "22.05"
    base = {
        "job_id": 77, "name": "llm", "cluster": "lab", "nodes": "gpu[07-08]", "account": "a", "partition": "p",
        "association": {"user": "alice"}, "required": {}, "allocation_nodes": 2,
        "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "gres", "name": "gpu", "count": 4}]},
    }  # fmt: skip
    times = {"submission": 1795954463, "eligible": 1795954463, "start": 1795954500, "end": 1795954600, "elapsed": 100}
    if is_old:
        code: dict[str, Any] = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}
        return base | {
            "state": {"current": "FAILED", "reason": "None"},
            "exit_code": code,
            "time": {**times, "limit": 60},
        }
    code = {
        "status": ["SIGNALED"],
        "return_code": wrapped(None) if release != "23.02" else wrapped(0),
        "signal": {"id": wrapped(9), "name": "Killed"} if release >= "23.11" else {"signal_id": 9, "name": "Killed"},
    }
    more: dict[str, Any] = {"restart_cnt": 1} if release >= "24.11" else {}
    if release >= "25.05":
        times = {name: wrapped(value) for name, value in times.items()}  # type: ignore[misc]
        more = {"restart_cnt": wrapped(1), "failed_node": ""}
    state = "FAILED" if release == "23.02" else ["FAILED"]
    return (
        base
        | more
        | {"state": {"current": state, "reason": "None"}, "exit_code": code, "time": {**times, "limit": wrapped(60)}}
    )


@pytest.mark.parametrize("release", ["22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11"])
def test_every_release_of_the_json_tells_the_same_job(release: str):
    major, _, minor = release.partition(".")
    version = {"major": int(major), "minor": int(minor)} if release == "22.05" else {"major": major, "minor": minor}
    name = "Slurm" if release == "22.05" else "slurm"
    content = json.dumps({"jobs": [accounted(release)], "meta": {name: {"version": version}}, "errors": []}).encode()
    assert is_slurm(content)
    (job,) = read(content)
    assert isinstance(job, Job)
    assert (job.job, job.name, job.state, job.signal, job.nodes, job.gpus, job.limit) == (
        "77",
        "llm",
        "FAILED",
        9,
        ("gpu07", "gpu08"),
        4,
        "01:00:00",
    )
    assert (job.submit, job.start, job.end) == tuple(at * SECOND for at in (1795954463, 1795954500, 1795954600))
    assert job.restarts == (1 if release >= "24.11" else None)
    (ended,) = (fact for fact in SlurmFacts().take([job]) if isinstance(fact, Exit))
    assert ended.exit_code == -9


@pytest.mark.parametrize(
    ("status", "truth"),
    [
        (768, (3, None)),
        (9, (0, 9)),
        ({"set": True, "infinite": False, "number": 768}, (3, None)),
        (
            {
                "status": ["ERROR"],
                "return_code": {"set": True, "infinite": False, "number": 3},
                "signal": {"id": {"set": False}},
            },
            (3, None),
        ),
        ({"set": False, "infinite": False, "number": 0}, (None, None)),
        ("x", (None, None)),
    ],
)
def test_an_exit_code_of_the_queue_is_a_wait_status_or_an_object(status: object, truth: tuple[int | None, int | None]):
    told = {"job_id": 5, "job_state": ["FAILED"], "submit_time": wrapped(1795954463), "exit_code": status}
    (job,) = read(json.dumps({"jobs": [told]}).encode())
    assert isinstance(job, Job)
    assert (job.exit_code, job.signal) == truth


def test_a_running_job_has_not_ended_and_a_waiting_one_has_not_begun():
    times = {"submit_time": 1795954463, "start_time": 1795954500, "end_time": 1796000000}
    told = [
        {"job_id": 1, "job_state": ["RUNNING", "COMPLETING"], **times},
        {"job_id": 2, "job_state": "PENDING", **times},
    ]
    running, waiting = read(json.dumps({"jobs": told}).encode())
    assert isinstance(running, Job)
    assert isinstance(waiting, Job)
    assert (running.state, running.state_flags, running.end) == ("RUNNING", ("COMPLETING",), None)
    assert (waiting.start, waiting.end) == (None, None)


@pytest.mark.parametrize(
    ("word", "truth"),
    [
        ("CANCELLED by 1000", ("CANCELLED", "1000")),
        ("OUT_OF_ME+", ("OUT_OF_MEMORY", None)),
        ("NODE_FAIL", ("NODE_FAIL", None)),
        (["PENDING", "REQUEUED"], ("PENDING", None)),
        ("cancelled by alice", ("CANCELLED", "alice")),
        ("nonsense", (None, None)),
    ],
)
def test_a_state_is_read_however_it_is_written(word: object, truth: tuple[str | None, str | None]):
    assert state_of(word)[:2] == truth


@pytest.mark.parametrize(
    ("state", "truth"),
    [
        ("DOWN*", "lost"),
        ("DOWN+NOT_RESPONDING", "lost"),
        ("IDLE", "ready"),
        ("ALLOCATED", "ready"),
        ("MIXED+DRAIN", "drained"),
        ("IDLE*", "not_ready"),
        ("DRAINED", "drained"),
        ("FAIL", "lost"),
        ("IDLE+MAINTENANCE", "not_ready"),
    ],
)
def test_what_the_state_of_a_node_means(state: str, truth: str):
    assert condition_of(state) == truth


def test_one_bad_row_costs_no_other():
    text = "JobID|State|Submit|Start|End\n"
    text += "1|COMPLETED|2026-11-29T12:00:00|2026-11-29T12:00:01|2026-11-29T12:00:02\n2|FAILED\n"
    text += "x|FAILED|||\n3|ODD|||\n4|FAILED|1795954463|1795954464|1795954465\n"
    found = list(read(text.encode()))
    assert [each.job for each in found if isinstance(each, Job)] == ["1", "4"]
    assert [(each.line, each.field) for each in found if isinstance(each, Refused)] == [
        (3, "row"),
        (4, "JobID"),
        (5, "State"),
    ]


def test_the_import_refuses_with_line_field_and_value(tmp_path: Path):
    refused: list[tuple[int, FactError]] = []

    def imported(name: str, run: str | None = None) -> list[Fact]:
        old = OldFile(
            name, "s", run, (), (CORPUS / name).read_bytes, lambda line, error: refused.append((line, error)), print
        )
        return list(formats()["slurm"].read(old))

    assert len(imported("sacct.psv")) > 50
    assert refused == []
    assert imported("scontrol_node_down.txt") == []
    assert [(line, error.field) for line, error in refused] == [(1, "run")]
    assert {fact.run for fact in imported("scontrol_node_down.txt", "mine")} == {"mine"}


# --- a chain of jobs ---


def job(number: int, state: str, submit: int, start: int | None, end: int | None, **more: Any) -> Job:
    stamps = {"submit": submit, "eligible": more.pop("eligible", submit), "start": start, "end": end}
    told = {name: None if value is None else (1_795_954_000 + value) * SECOND for name, value in stamps.items()}
    return Job(job=str(number), name="chain", state=state, nodes=("n0",) if start is not None else (), **told, **more)


def test_a_job_that_depends_on_another_does_not_queue_while_that_one_trains():
    facts = SlurmFacts()
    told = facts.take([job(1, "RUNNING", 0, 10, None), job(2, "PENDING", 5, None, None, reason="Dependency")])
    assert [fact.job for fact in told if fact.kind == "scheduler_state" and fact.state == "queued"] == ["1"]  # type: ignore[attr-defined]
    told += facts.take([job(1, "TIMEOUT", 0, 10, 100), job(2, "RUNNING", 5, 150, None, eligible=100)])
    fold = folded(told, "chain")
    spans = [
        (span.start // SECOND - 1_795_954_000, span.end // SECOND - 1_795_954_000)
        for span in fold.spans
        if span.phase is Phase.QUEUED
    ]
    assert spans == [(0, 10), (100, 150)]
    assert [(attempt.number, verdict.cause) for attempt, verdict, _ in fold.endings()] == [(0, "time_limit")]


@pytest.mark.parametrize(
    ("jobs", "truth"),
    [
        ([job(1, "FAILED", 0, 10, 100, exit_code=1)], [("failed", 100)]),
        ([job(1, "TIMEOUT", 0, 10, 100)], [("failed", 100)]),
        ([job(1, "CANCELLED", 0, 10, 100)], [("stopped", 100)]),
        ([job(1, "PREEMPTED", 0, 10, 100)], []),  # it comes again
        ([job(1, "TIMEOUT", 0, 10, 100), job(2, "FAILED", 20, 150, 200, exit_code=1)], [("failed", 200)]),
        ([job(1, "TIMEOUT", 0, 10, 100), job(2, "PENDING", 120, None, None)], []),
        ([job(1, "TIMEOUT", 0, 10, 100), job(2, "RUNNING", 120, 150, None)], []),
        ([job(1, "FAILED", 0, 10, 100, exit_code=1), job(2, "CANCELLED", 120, None, 130)], [("failed", 100)]),
    ],
)
def test_a_followed_run_ends_with_its_last_job_when_nothing_came_for_ten_minutes(
    jobs: list[Job], truth: list[tuple[str, int]]
):
    base = 1_795_954_000 * SECOND
    facts = SlurmFacts()
    facts.take(jobs)
    assert facts.ends_of_runs(base + 200 * SECOND) == []
    told = facts.ends_of_runs(base + 201 * SECOND + FOLLOWED_NS)
    assert [(fact.outcome, (fact.at - base) // SECOND) for fact in told if isinstance(fact, RunEnded)] == truth
    assert SlurmFacts(facts.memory).ends_of_runs(base + 900 * SECOND + FOLLOWED_NS) == []  # once
    later = facts.take([*jobs, job(9, "RUNNING", 2000, 2010, None)])
    assert folded([*SlurmFacts().take(jobs), *told, *later], "chain").view(base + 2100 * SECOND).ended_at is None


def test_an_out_of_memory_job_is_an_end_by_memory():
    told = SlurmFacts().take([job(1, "OUT_OF_MEMORY", 0, 10, 100, exit_code=0, signal=125)])
    (ending,) = folded(told, "chain").endings()
    assert (ending[1].cause, ending[1].culprit_node) == ("host_oom", "n0")
    assert [(fact.exit_code, fact.oom_killed) for fact in told if isinstance(fact, Exit)] == [(-9, True)]


def test_an_end_belongs_to_the_attempt_that_was_alive_and_not_to_the_first_of_its_job():
    told: list[Fact] = list(SlurmFacts().take([job(1, "NODE_FAIL", 0, 10, 100, failed_node="n0")]))
    inside = {"run": "chain", "emitter": "launcher/n0", "job": "1", "requeue": 0}
    base = 1_795_954_000 * SECOND
    told += [
        AttemptStarted(**inside, seq=1, at=base + 11 * SECOND, restart=0),
        AttemptStarted(**inside, seq=2, at=base + 50 * SECOND, restart=1),
    ]
    fold = folded(told, "chain")
    assert [(attempt.number, verdict.cause) for attempt, verdict, _ in fold.endings()][-1] == (1, "node_lost")


def test_seen_again_in_pieces_the_same_is_stated_once():
    whole = stated("sacct.psv", "squeue.json", "sacctmgr_events.psv")
    memory: dict[str, Any] = {}
    pieces: list[Fact] = []
    for names in (("sacct.psv",), ("sacctmgr_events.psv",), ("sacct.psv", "squeue.json"), ("sacctmgr_events.psv",)):
        memory = json.loads(json.dumps(memory))
        pieces += SlurmFacts(memory).take(*records(*names))
    assert {(fact.run, fact.emitter, fact.seq) for fact in pieces} == {
        (fact.run, fact.emitter, fact.seq) for fact in whole
    }
    assert len({(fact.emitter, fact.seq) for fact in pieces}) == len(pieces)


# --- the source, with programs that stand where Slurm's would ---


class Cluster:
    """Programs named as Slurm's, that print what they are told to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("PATH", str(folder))  # whatever of Slurm is installed here is not asked
        self.clock = 1_795_955_000.0

    def prints(self, name: str, content: bytes, code: int = 0) -> None:
        (self.folder / f"{name}.out").write_bytes(content)
        out = "&1" if code == 0 else "&2"
        script = f'#!/bin/sh\necho "$@" >> {self.folder}/{name}.asked\n'
        if name == "sacct":
            script += 'case "$*" in *helpformat*) echo "JobID Restarts FailedNode"; exit 0;; esac\n'
        if name == "squeue":
            script += 'case "$*" in *--json*) ;; *) exit 1;; esac\n'
        script += f"/bin/cat {self.folder}/{name}.out >{out}\nexit {code}\n"
        program = self.folder / name
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def asked(self, name: str) -> list[str]:
        return (self.folder / f"{name}.asked").read_text().splitlines()

    def source(self, **options: Any) -> SlurmSource:
        return SlurmSource(Naming(), Chosen(all_users=True), now=lambda: self.clock, **options)


RUNS_NOT_OVER = ("cancelme", "exit3", "manualrq", "oomjob", "pretrain2", "sigk", "tl")
"""Those with a job that waits or runs, and those whose last job ended less than ten minutes before the look."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path, monkeypatch)
    made.prints("sacct", (CORPUS / "sacct.psv").read_bytes())
    made.prints("squeue", (CORPUS / "squeue.json").read_bytes())
    made.prints("sacctmgr", (CORPUS / "sacctmgr_events.psv").read_bytes())
    return made


def test_the_source_asks_slurm_and_goes_on_from_its_cursor(cluster: Cluster):
    source = cluster.source()
    assert isinstance(source, Source)
    first = source.poll(None)
    assert {fact.run for fact in first.facts} >= {"pretrain-llm", "pretrain2"}
    assert source.runs == RUNS_NOT_OVER
    assert "-D -P --noconvert" in cluster.asked("sacct")[-1]
    assert "Restarts,FailedNode" in cluster.asked("sacct")[-1]
    for fact in first.facts:
        assert decode_line(encode_line(fact)) == fact
    assert source.poll(first.cursor).facts == ()  # not yet
    assert cluster.source().poll(first.cursor).facts == ()
    for cursor in ("", "nonsense", "[]", '{"facts": 3}'):
        assert cluster.source().poll(cursor).facts == first.facts


@pytest.mark.parametrize(
    ("chosen", "jobs"),
    [
        (Chosen(jobs=("44",)), {"44"}),
        (Chosen(jobs=("44,42", "10")), {"44", "42", "10"}),
        (Chosen(names=("run-dependent",)), {"44", "45"}),
        (Chosen(users=("root",)), {"10", "41", "42", "43", "44", "45", "46"}),
        (Chosen(users=("0",)), {"10", "41", "42", "43", "44", "45", "46"}),
        (Chosen(users=("nobody",)), set()),
        (Chosen(all_users=True), {"10", "41", "42", "43", "44", "45", "46"}),
    ],
)
def test_a_queue_that_tells_every_job_is_read_for_those_that_were_chosen(
    cluster: Cluster, chosen: Chosen, jobs: set[str]
):
    """`squeue --json` of 22.05 has its own mind."""
    cluster.prints("sacct", b"JobID|JobIDRaw|JobName|State|Submit|Start|End\n")
    cluster.prints("squeue", (MORE_ENDS / "squeue.json").read_bytes())
    cluster.prints("scontrol", (MORE_ENDS / "scontrol_show_node.txt").read_bytes())
    source = SlurmSource(Naming(), chosen, now=lambda: 1796046000.0)
    facts = source.poll(None).facts
    assert {fact.job for fact in facts if fact.job is not None} == jobs
    drained = {fact.node for fact in facts if isinstance(fact, NodeState)}
    assert drained == ({"node2"} if "42" in jobs else set())  # accounting has no event of it


def test_a_task_of_an_array_is_chosen_by_its_place():
    told = {"job_id": 20, "array_job_id": 19, "array_task_id": 1, "job_state": "RUNNING", "submit_time": 1795954463}
    (task,) = read(json.dumps({"jobs": [told]}).encode())
    assert isinstance(task, Job)
    kept = [Chosen(jobs=(word,)).holds(task) for word in ("19", "20", "19_1", "19_2", "1")]
    assert kept == [True, True, True, False, False]


def test_a_command_that_fails_is_blind_and_the_rest_goes_on(cluster: Cluster):
    first = cluster.source().poll(None)
    cluster.prints("sacctmgr", b"sacctmgr: error: slurm_persist_conn_open: Connection refused\n", 1)
    second = cluster.source().poll(first.cursor)
    blind = [fact for fact in second.facts if isinstance(fact, Blind)]
    assert {(fact.run, fact.source, fact.until) for fact in blind} == {
        (run, "slurm nodes", None) for run in RUNS_NOT_OVER
    }
    assert "scontrol is not installed" in (blind[0].reason or "")
    cluster.clock += 100
    cluster.prints("sacctmgr", (CORPUS / "sacctmgr_events.psv").read_bytes())
    third = cluster.source().poll(second.cursor)
    assert {(fact.since, fact.until) for fact in third.facts if isinstance(fact, Blind)} == {
        (1_795_955_000 * SECOND, 1_795_955_100 * SECOND)
    }  # fmt: skip


def test_a_source_that_sees_no_jobs_is_down_and_waits_longer_each_time(cluster: Cluster):
    for name in ("sacct", "squeue"):
        cluster.prints(name, b"error: Unable to contact slurm controller\n", 1)
    source = cluster.source(interval_seconds=10.0)
    asked = 0
    for _ in range(200):
        with pytest.raises(SourceDown, match="Unable to contact"):
            source.poll(None)
        cluster.clock += 5
    asked = len([line for line in cluster.asked("sacct") if "helpformat" not in line])
    assert 3 <= asked <= 8
    cluster.remove("sacct")
    cluster.remove("squeue")
    with pytest.raises(SourceDown, match="not installed"):
        cluster.source().finish(None)


def test_without_accounting_the_queue_is_enough_and_without_json_scontrol_is(cluster: Cluster):
    cluster.prints("sacct", b"Slurm accounting storage is disabled\n", 1)
    cluster.prints("squeue", b"squeue: unrecognized option '--json'\n", 1)
    cluster.prints("scontrol", (CORPUS / "scontrol_show_job.txt").read_bytes())
    facts = cluster.source().finish(None).facts
    assert {fact.requeue for fact in facts if isinstance(fact, AttemptStarted) and fact.run == "pretrain-llm"} == {1}
    assert {fact.source for fact in facts if isinstance(fact, Blind)} == {"slurm sacct"}


def test_an_answer_that_makes_no_sense_is_no_answer(cluster: Cluster):
    cluster.prints("sacct", b"<html>\n")
    cluster.prints("squeue", b"{")
    with pytest.raises(SourceDown, match="cannot be read"):
        cluster.source().finish(None)
    with pytest.raises(CommandFailed):
        cluster.source()._run(["sleep-that-is-not-there"])


def test_records_that_make_no_sense_are_counted_and_said(cluster: Cluster):
    whole = (CORPUS / "sacct.psv").read_bytes()
    cluster.prints("sacct", whole + b"garbage|line\n")
    first = cluster.source().finish(None)
    blind = {(fact.source, fact.reason) for fact in first.facts if isinstance(fact, Blind)}
    ((source, reason),) = blind
    assert source == "slurm sacct in part"
    assert re.match(
        r"1 of \d+ records passed over, the first: row: 2 columns where .* .got 'garbage\|line'.$", reason or ""
    )
    cluster.prints("sacct", whole)
    again = [fact for fact in cluster.source().finish(first.cursor).facts if isinstance(fact, Blind)]
    assert again and all(fact.until is not None for fact in again)


def test_a_command_that_prints_without_end_is_stopped_at_the_limit(cluster: Cluster):
    cluster.prints("squeue", b"")
    endless = cluster.folder / "sacct"
    # A child of the program prints, and would go on when only the program were killed.
    endless.write_text(f"#!/bin/sh\n(echo $$ > {cluster.folder}/pid; while :; do echo '1|2|3|4'; done) | /bin/cat\n")
    with pytest.raises(CommandFailed, match="sacct printed more than 100000 bytes: choose jobs by"):
        run_command(["sacct"], largest=100_000)
    with contextlib.suppress(ProcessLookupError):
        for _ in range(100):
            os.kill(int((cluster.folder / "pid").read_text()), 0)
            time.sleep(0.02)
        pytest.fail("it still prints")


def test_a_command_that_hangs_costs_its_time_once_in_a_look(cluster: Cluster):
    (cluster.folder / "sacct").write_text("#!/bin/sh\n/bin/sleep 60\n")
    asked: list[str] = []

    def run(words: Sequence[str]) -> bytes:
        asked.append(words[0])
        return run_command(words, seconds=0.2)

    cluster.prints("scontrol", b"No nodes in the system\n")
    source = cluster.source(run=run)
    for _ in range(2):
        asked.clear()
        facts = source.finish(None).facts
        assert asked == ["squeue", "sacct", "scontrol"]  # sacctmgr would wait for the same daemon
    (blind,) = {(fact.source, fact.reason) for fact in facts if isinstance(fact, Blind)}
    assert blind == ("slurm sacct", "sacct did not end within 0.2 s")


def test_who_is_asked_to_stop_waits_for_no_command_and_starts_none(cluster: Cluster):
    for name in ("squeue", "sacct"):
        (cluster.folder / name).write_text(f"#!/bin/sh\necho >> {cluster.folder}/{name}.asked\n/bin/sleep 60\n")
    source, stop = cluster.source(), threading.Event()
    source.heed(stop)
    asking = threading.Timer(0.3, stop.set)
    asking.start()
    began = time.monotonic()
    with pytest.raises(LookGivenUp):
        source.poll(None)
    with pytest.raises(LookGivenUp):
        source.poll(None)
    assert time.monotonic() - began < 2
    assert cluster.asked("squeue") == [""] and not (cluster.folder / "sacct.asked").exists()


def test_an_answer_that_tells_an_error_alone_is_no_empty_queue(cluster: Cluster, caplog: pytest.LogCaptureFixture):
    error = {"description": "Failed while looking for jobs", "error_number": -1, "source": "slurm_load_jobs"}
    cluster.prints("squeue", json.dumps({"errors": [error], "jobs": []}).encode())  # 22.05, and it ends with 0
    cluster.prints("scontrol", b"slurm_load_jobs error: Unable to contact slurm controller\n", 1)
    cluster.clock += 7 * 86_400
    source = cluster.source()
    facts = source.finish(None).facts
    assert {fact.source for fact in facts if isinstance(fact, Blind)} == {"slurm squeue"}
    assert not [fact for fact in facts if isinstance(fact, RunEnded) and fact.outcome != "completed"]
    assert [record.message for record in caplog.records if "squeue cannot see" in record.message]
    with pytest.raises(CommandFailed, match="Failed while looking for jobs"):
        source._records((cluster.folder / "squeue.out").read_bytes())


@pytest.mark.parametrize("name", ["sacct", "sacctmgr"])
def test_a_command_that_prints_nothing_at_all_is_blind_and_not_empty(cluster: Cluster, name: str):
    cluster.prints(name, b"\n")
    facts = cluster.source().finish(None).facts
    part = {"sacct": "slurm sacct", "sacctmgr": "slurm nodes"}[name]
    reasons = {fact.source: fact.reason for fact in facts if isinstance(fact, Blind)}
    assert list(reasons) == [part]
    assert name == "sacctmgr" or "sacct printed nothing, not even a header" in (reasons[part] or "")


@pytest.mark.parametrize("told", ["NaN", "Infinity", "9" * 5000])
def test_one_bad_job_of_a_json_answer_costs_that_job(told: str):
    good = {"job_id": 7, "job_state": "FAILED", "exit_code": 256, "name": "llm"}
    bad = {"job_id": 8, "job_state": "FAILED", "exit_code": "@"}
    text = json.dumps({"jobs": [bad, good]}).replace('"@"', told)
    refused, kept = read(text.encode())
    assert isinstance(kept, Job) and (kept.job, kept.exit_code) == ("7", 1)
    assert isinstance(refused, Refused)
    assert (refused.line, refused.field, refused.reason) == (1, "exit_code", "no number")


# --- anything at all ---

words = st.one_of(
    st.sampled_from(
        [
            "FAILED",
            "RUNNING+",
            "CANCELLED by 0",
            "0:9",
            "n[0-99999999]",
            "n[3-1]",
            "2026-11-29T12:00:00",
            "Unknown",
            "99999999999999999999",
            "1.batch",
            "5_[1-3]",
            "=",
            "|",
            "None",
            "1795954463",
            "-1",
        ]
    ),
    st.text(max_size=10),
)
COLUMNS = ["JobID", "State", "Submit", "Start", "End", "NodeList", "ExitCode", "Restarts", "AllocTRES", "JobName"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(words, min_size=len(COLUMNS), max_size=len(COLUMNS)), max_size=5))
def test_any_cells_are_a_table(rows: list[list[str]]):
    check("\n".join(["|".join(COLUMNS), *("|".join(row) for row in rows)]).encode("utf-8", "surrogatepass"))


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["set", "infinite", "number", "current", "list", "signal", "id", "return_code", "start"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
fields = st.sampled_from(
    [
        "state",
        "job_state",
        "exit_code",
        "time",
        "nodes",
        "restart_cnt",
        "tres",
        "steps",
        "submit_time",
        "start_time",
        "end_time",
        "name",
        "comment",
        "wckey",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(fields, trees, max_size=8), max_size=3))
def test_any_tree_is_json_of_slurm(jobs: list[dict[str, Any]]):
    base = {
        "job_id": 7,
        "job_state": "FAILED",
        "submit_time": 1795954463,
        "start_time": 1795954470,
        "end_time": 1795954480,
    }
    check(json.dumps({"jobs": [{**base, **each} for each in jobs], "nodes": jobs, "sinfo": jobs}).encode())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["JobId", "JobState", "NodeName", "State", "Reason", "StartTime", "ExitCode", "SubmitTime"]
            ),
            words,
        ),
        max_size=12,
    )
)
def test_any_pairs_are_what_scontrol_shows(pairs: list[tuple[str, str]]):
    check(
        (
            "JobId=1 JobState=FAILED SubmitTime=2026-11-29T12:00:00\n"
            + "\n".join(f"{key}={value}" for key, value in pairs)
        ).encode("utf-8", "surrogatepass")
    )


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_output(content: bytes):
    check(content)
    check(b"NodeName=" + content)
    check(b"JobID|State\n" + content)


def check(content: bytes) -> None:
    found = list(read(content))
    jobs = [each for each in found if isinstance(each, Job)]
    facts = SlurmFacts(naming=Naming(run="r")).take(jobs, [each for each in found if isinstance(each, NodeEvent)])
    for fact in facts:
        assert decode_line(encode_line(fact)) == fact
    for before, after in pairwise(sorted(facts, key=lambda fact: (fact.emitter, fact.seq))):
        assert (before.emitter, before.seq) != (after.emitter, after.seq)
