"""What objects of Kubernetes state about runs: attempts, deaths, waiting, nodes, verdicts."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.collectors.sources.kube_events import pull_seconds
from rerail.collectors.sources.kube_facts import KubeFacts, Naming
from rerail.collectors.sources.kube_files import is_kubernetes, objects_in
from rerail.collectors.sources.kube_objects import slim
from rerail.collectors.sources.kube_pods import back_off_seconds
from rerail.server.core.codec import FactError, decode_line, encode_line
from rerail.server.core.facts import AttemptStarted, Exit, Fact, NodeState, Phase, RunEnded, SchedulerState
from rerail.server.core.fold import RunFold
from tests.collectors.kube_story import (
    at,
    backing_off,
    condition,
    ended,
    event,
    node,
    pod,
    running,
    terminated,
    workload,
)

CORPUS = Path(__file__).parent.parent / "corpus" / "kubernetes"


class Told:
    """Objects shown one after the other, each to a new instance that got the memory of the one before."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.memory: dict[str, Any] = {}
        self.facts: list[Fact] = []

    def see(self, *objects: dict[str, Any], change: str = "MODIFIED") -> list[Fact]:
        objects = tuple(slim(each) for each in objects)
        teller = KubeFacts(json.loads(json.dumps(self.memory)), **self.options)
        told = teller.take([(change, each) for each in objects])
        self.memory = teller.plain()
        self.facts += told
        return told

    def of(self, kind: type[Any]) -> list[Any]:
        return sorted((fact for fact in self.facts if isinstance(fact, kind)), key=lambda fact: (fact.at, fact.seq))

    def endings(self, run: str = "llm") -> list[tuple[int, str, str | None]]:
        fold = RunFold(run)
        facts = [fact for fact in self.facts if fact.run == run]
        fold.add(facts)
        fold.view(max(fact.at for fact in facts) + 1_000_000_000)
        return [(attempt.number, verdict.cause, verdict.culprit_node) for attempt, verdict, _ in fold.endings()]

    def queued(self, run: str = "llm") -> list[tuple[int, int]]:
        fold = RunFold(run)
        facts = [fact for fact in self.facts if fact.run == run]
        fold.add(facts)
        fold.view(max(fact.at for fact in facts) + 1_000_000_000)
        spans = [(span.start, span.end) for span in fold.spans if span.phase is Phase.QUEUED]
        joined: list[tuple[int, int]] = []
        for start, end in spans:
            if joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return joined

    def is_sound(self) -> None:
        identities = [(fact.run, fact.emitter, fact.seq) for fact in self.facts]
        assert len(set(identities)) == len(identities)
        for fact in self.facts:
            assert decode_line(encode_line(fact)) == fact


def test_a_container_that_is_restarted_in_its_pod_is_an_attempt_of_scope_in_job_after_a_back_off():
    told = Told()
    told.see(pod("llm-0", created=0))
    told.see(pod("llm-0", status=running(20)))
    told.see(pod("llm-0", status=backing_off(ended(20, 100, 137, "OOMKilled"), 0)))
    told.see(pod("llm-0", status=running(140, 1, ended(20, 100, 137, "OOMKilled"))))
    starts = told.of(AttemptStarted)
    assert [(fact.at, fact.requeue, fact.scope, fact.initiator) for fact in starts] == [
        (at(20), 0, None, None), (at(140), 1, "in_job", "fault")
    ]  # fmt: skip
    assert {(fact.nodes, fact.gpus) for fact in starts} == {(("gpu-0",), 8)}
    assert [(fact.exit_code, fact.oom_killed) for fact in told.of(Exit)] == [(137, True)]
    assert told.queued() == [(at(0), at(20)), (at(100), at(140))]
    assert "back-off 40s" in next(fact.reason for fact in told.of(SchedulerState) if fact.state == "backoff")
    assert told.endings() == [(0, "host_oom", "gpu-0")]
    told.is_sound()


def test_a_pod_that_is_made_anew_after_a_preemption_is_a_requeue_by_the_scheduler():
    told = Told()
    told.see(pod("llm-a", status=running(10)), pod("llm-b", node="gpu-1", status=running(12)))
    disrupted = condition(
        "DisruptionTarget", 60, "PreemptionByScheduler", "preempting to accommodate a higher priority pod"
    )
    told.see(pod("llm-a", status={**running(10), "conditions": [disrupted]}, deleted=60))
    told.see(pod("llm-a", status=terminated(ended(10, 65, 143), conditions=[disrupted]), deleted=60), change="DELETED")
    told.see(pod("llm-b", node="gpu-1", status=terminated(ended(12, 70))))
    told.see(pod("llm-c", created=61), pod("llm-d", created=61))
    told.see(pod("llm-c", created=61, status=running(200)), pod("llm-d", created=61, status=running(201)))
    starts = [fact for fact in told.of(AttemptStarted) if fact.scope is not None or fact.at == at(10)]
    assert [(fact.at, fact.requeue, fact.scope, fact.initiator) for fact in starts] == [
        (at(10), 0, None, None), (at(200), 1, "requeue", "scheduler")
    ]  # fmt: skip
    assert told.endings() == [(0, "preemption", None)]
    assert told.queued()[-1] == (at(70), at(200))
    told.is_sound()


def test_a_survivor_that_dies_late_is_the_tail_of_the_attempt_before():
    told = Told()
    told.see(pod("llm-0", status=running(0)), pod("llm-1", node="gpu-1", status=running(0)))
    told.see(pod("llm-0", status=running(110, 1, ended(0, 100, 1))))
    told.see(pod("llm-1", node="gpu-1", status=running(170, 1, ended(0, 160, 134))))
    assert {fact.requeue for fact in told.of(AttemptStarted)} == {0, 1}
    assert [(fact.at, fact.requeue) for fact in told.of(Exit)] == [(at(100), None), (at(160), 0)]
    assert [number for number, *_ in told.endings()] == [0]


def test_a_jobset_counts_its_own_restarts_and_names_the_run():
    told = Told()
    told.see(pod("w-0-aaa", job="set-w-0", jobset="set", attempt=2, status=running(0)))
    told.see(
        pod("w-0-aaa", job="set-w-0", jobset="set", attempt=2, status=terminated(ended(0, 50, 1))), change="DELETED"
    )
    told.see(pod("w-0-bbb", job="set-w-0", jobset="set", attempt=3, created=52, status=running(60)))
    told.see(
        pod("w-0-bbb", job="set-w-0", jobset="set", attempt=3, created=52, status=running(90, 1, ended(60, 80, 1)))
    )
    told.see(workload("Job", "set-w-0", condition("Complete", 95), owner=("JobSet", "set")))
    assert [(fact.run, fact.job, fact.requeue, fact.restart, fact.scope) for fact in told.of(AttemptStarted)] == [
        ("set", "set", 2, None, None), ("set", "set", 3, None, "requeue"), ("set", "set", 3, 1, "in_job")
    ]  # fmt: skip
    assert told.of(RunEnded) == []
    told.see(workload("JobSet", "set", condition("Completed", 99, "AllJobsCompleted")))
    assert [(fact.at, fact.outcome) for fact in told.of(RunEnded)] == [(at(99), "completed")]


def test_a_job_of_the_same_name_that_is_made_anew_is_a_resubmission():
    told = Told()
    told.see(pod("llm-0", status=running(0)))
    told.see(workload("Job", "llm", condition("Failed", 50, "BackoffLimitExceeded", "Job has reached the limit")))
    told.see(pod("llm-9", job_uid="job-2", created=100, status=running(110)))
    starts = told.of(AttemptStarted)
    assert [(fact.requeue, fact.scope) for fact in starts] == [(0, None), (1, "resubmit")]


def test_a_lost_node_is_told_to_the_runs_that_had_it_and_to_no_other():
    told = Told()
    told.see(
        pod("llm-0", node="gpu-1", status=running(0)),
        pod("other-0", node="gpu-2", job="other", job_uid="o", status=running(0)),
    )
    told.see(node("gpu-1", 30, "Unknown", "NodeStatusUnknown"), node("gpu-2", 0))
    told.see(
        pod(
            "llm-0",
            node="gpu-1",
            status=running(0) | {"conditions": [condition("DisruptionTarget", 60, "DeletionByTaintManager")]},
            deleted=60,
        )
    )
    told.see(pod("llm-1", node="gpu-3", created=61, status=running(100)))
    assert [(fact.run, fact.node, fact.state, fact.at) for fact in told.of(NodeState)] == [
        ("llm", "gpu-1", "lost", at(30))
    ]
    assert told.endings() == [(0, "node_lost", "gpu-1")]
    told.see(node("gpu-1", 500, "True"))
    assert [(fact.run, fact.state, fact.at) for fact in told.of(NodeState)][1:] == [("llm", "ready", at(500))]


def test_a_pod_on_a_lost_node_holds_nothing_while_its_group_goes_on_elsewhere():
    told = Told()
    told.see(pod("llm-0", status=running(20)), pod("llm-1", node="gpu-1", status=running(21)))
    tainted = {"conditions": [condition("DisruptionTarget", 130, "DeletionByTaintManager")]}
    told.see(pod("llm-1", node="gpu-1", status=running(21) | tainted, deleted=130))
    told.see(pod("llm-2", node=None, created=131))
    told.see(pod("llm-0", status=terminated(ended(20, 140, 1))))
    told.see(pod("llm-3", created=145, status=running(200)))
    told.see(pod("llm-2", node="gpu-5", created=131, status=running(205)))
    assert told.queued() == [(at(0), at(20)), (at(140), at(200))]
    assert [fact.gpus for fact in told.of(AttemptStarted)] == [8, 16, 8, 16]
    told.see(pod("llm-1", node="gpu-1", status=terminated(ended(21, 900, 137)) | tainted, deleted=130))
    assert [(fact.at, fact.requeue) for fact in told.of(Exit)] == [(at(140), None), (at(900), 0)]
    assert [(number, cause) for number, cause, _ in told.endings()] == [(0, "node_lost")]
    told.is_sound()


def test_hyperpod_takes_a_node_out_and_says_which_fault():
    told = Told()
    told.see(pod("llm-0", node="hyperpod-i-1", status=running(0)))
    sick = node("hyperpod-i-1", 0, **{
        "sagemaker.amazonaws.com__node-health-status": "UnschedulablePendingReplacement",
        "sagemaker.amazonaws.com__fault-types": "NvidiaErrorTypes",
    })  # fmt: skip
    sick["metadata"]["managedFields"] = [
        {
            "manager": "hma",
            "time": "2026-11-29T12:01:00Z",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:sagemaker.amazonaws.com/node-health-status": {}}}},
        }
    ]
    (found,) = objects_in(json.dumps(sick).encode())
    assert not isinstance(found, FactError)
    told.see(dict(found[1]))
    told.see(pod("llm-0", node="hyperpod-i-1", status=terminated(ended(0, 70, 1))))
    assert [(fact.state, fact.reason, fact.at) for fact in told.of(NodeState)] == [
        ("drained", "UnschedulablePendingReplacement", at(60))
    ]  # fmt: skip
    assert told.endings() == [(0, "gpu_hardware", "hyperpod-i-1")]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [("Preempted", "preemption"), ("NodeFailures", "node_lost"), ("ClusterQueueStopped", "operator_stop"),
     ("MaximumExecutionTimeExceeded", "time_limit")],
)  # fmt: skip
def test_kueue_says_why_it_took_the_quota_back(reason: str, cause: str):
    told = Told()
    waits = condition("QuotaReserved", 5, "Pending", "couldn't assign flavors", "False")
    told.see(workload("Workload", "job-llm-1", waits, uid="w", owner=("Job", "llm")))
    told.see(pod("llm-0", created=30, status=running(40)))
    evicted = condition("Evicted", 90, reason, "said Kueue")
    told.see(workload("Workload", "job-llm-1", waits, evicted, uid="w", owner=("Job", "llm")))
    told.see(pod("llm-0", created=30, status=terminated(ended(40, 95, 143)), deleted=91))
    assert told.queued()[0] == (at(5), at(40))
    assert [each[1] for each in told.endings()] == [cause]
    told.is_sound()


def test_a_pod_that_a_person_deletes_is_no_fault_of_anybody():
    told = Told()
    told.see(pod("llm-0", status=running(0)))
    told.see(pod("llm-0", status=running(0), deleted=50))
    told.see(pod("llm-0", status=terminated(ended(0, 55, 143)), deleted=50), change="DELETED")
    told.see(pod("llm-1", created=56, status=running(60)))
    assert told.endings() == [(0, "operator_stop", None)]


def test_what_waits_beside_a_group_that_trains_is_no_run_that_waits():
    told = Told()
    told.see(pod("llm-0", status=running(0)))
    told.see(pod("llm-1", node=None, created=10))
    told.see(event("FailedScheduling", "0/2 nodes are available", 12, pod("llm-1"), by_scheduler=True))
    assert [fact.state for fact in told.of(SchedulerState) if fact.at > at(0)] == []


def test_attempts_are_left_to_others_where_that_was_asked_for():
    told = Told(states_attempts=False)
    told.see(pod("llm-0", status=running(0)))
    told.see(pod("llm-0", status=running(30, 1, ended(0, 20))))
    assert told.of(AttemptStarted) == []
    assert len(told.of(Exit)) == 1


def test_services_of_the_cluster_are_not_training():
    told = Told()
    daemon = pod("proxy-1", gpus=0)
    daemon["metadata"] |= {"labels": {}, "ownerReferences": [{"kind": "DaemonSet", "name": "proxy", "uid": "d"}]}
    migration = pod("migrate-1", job="migrate", gpus=0)
    done = workload("Job", "migrate", condition("Complete", 50), uid="m")
    done["spec"] = {"template": {"spec": {"containers": [{"name": "migrate"}]}}}
    scheduled = event("Scheduled", "Successfully assigned train/migrate-1 to gpu-0", 1, migration, by_scheduler=True)
    told.see(daemon, migration, done, scheduled, event("BackOff", "Back-off restarting", 9, migration))
    assert told.facts == []
    assert told.memory["pods"] == {}


def test_the_run_is_what_a_label_says_or_the_name_that_was_given():
    labelled = pod("llm-0", status=running(0))
    labelled["metadata"]["annotations"] = {"rerail.io/run": "seven-b"}
    for naming, run in ((Naming(key="rerail.io/run"), "seven-b"), (Naming(run="mine"), "mine"), (Naming(), "llm")):
        told = Told(naming=naming)
        told.see(labelled)
        assert {fact.run for fact in told.facts} == {run}


def test_the_time_of_an_image_pull_is_a_metric():
    told = Told()
    told.see(pod("llm-0"))
    told.see(
        event(
            "Pulled",
            'Successfully pulled image "x" in 1m2.5s (1m2.5s including waiting). Image size: 9 bytes.',
            9,
            pod("llm-0"),
        )
    )
    assert [fact.value for fact in told.facts if fact.kind == "metric"] == [62.5]
    assert pull_seconds('Container image "x" already present on machine') is None
    assert pull_seconds('Successfully pulled image "x" in 512ms (1s including waiting)') == 0.512
    assert [back_off_seconds(f"back-off {words} restarting") for words in ("10s", "2m40s", "5m0s", "x")] == [
        10,
        160,
        300,
        None,
    ]


def test_seen_whole_or_step_by_step_the_same_is_stated():
    """A collector that was away sees only the last state: what it states then has the identities it would have had."""
    steps = [
        pod("llm-0", created=0), pod("llm-0", status=running(20)),
        pod("llm-0", status=backing_off(ended(20, 100, 137, "OOMKilled"), 0)),
        pod("llm-0", status=running(140, 1, ended(20, 100, 137, "OOMKilled"))),
    ]  # fmt: skip
    watched, away = Told(), Told()
    for step in steps:
        watched.see(step)
    away.see(steps[-1])
    ours = {(fact.emitter, fact.seq): fact for fact in watched.facts}
    for fact in away.facts:
        assert ours[fact.emitter, fact.seq] == fact
    assert {type(fact) for fact in away.facts} >= {AttemptStarted, Exit}
    assert away.see(steps[-1]) == []


# --- recorded files ---


def judged(name: str) -> list[tuple[str, str, str | None]]:
    import argparse
    import contextlib
    import io

    from rerail.server.commands.classifying import classify

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert classify(argparse.Namespace(paths=[str(CORPUS / name)], each=False, json=True, time_limit=None)) == 0
    found = json.loads(out.getvalue())["interruptions"]
    return [(each["cause"], each["domain"], each["culprit_node"]) for each in found]


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("pod_oomkilled_from_apiserver.json", [("host_oom", "workload", "gpu-0")]),
        ("node_lost.json", [("node_lost", "infrastructure", "gpu-1")]),
        ("job_failed.json", [("retry_budget", "unknown", None)]),
        ("events.json", [("preemption", "infrastructure", None)]),
        (
            "fixtures_validated.json",
            [
                ("host_oom", "workload", "gpu-07"),
                ("retry_budget", "unknown", None),
                ("preemption", "infrastructure", "gpu-07"),
            ],
        ),
    ],
)
def test_recorded_files_are_judged(name: str, truth: list[tuple[str, str, str | None]]):
    assert judged(name) == truth


def test_every_shape_of_a_file_is_read():
    told = pod("llm-0")
    shapes = [
        json.dumps(told), json.dumps([told]), json.dumps({"kind": "List", "items": [told]}),
        json.dumps({"kind": "PodList", "items": [{key: value for key, value in told.items() if key != "kind"}]}),
        json.dumps(told, indent=1) + "\n" + json.dumps(told), json.dumps({"type": "ADDED", "object": told}),
    ]  # fmt: skip
    for shape in shapes:
        assert is_kubernetes(shape.encode()[:16384])
        found = list(objects_in(shape.encode()))
        assert [each[1]["kind"] for each in found if not isinstance(each, FactError)] in (["Pod"], ["Pod", "Pod"])
        assert "managedFields" not in json.dumps([each[1] for each in found])
    broken = list(objects_in(b'{"kind": "Pod", "metadata": {}}\n{"broken\n{"kind": "Pod", "metadata": {}}'))
    assert [isinstance(each, FactError) for each in broken] == [False, True, False]


# --- anything at all ---

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=12),
    st.sampled_from(
        [
            "2026-11-29T12:00:00Z",
            "2026-11-29T12:00:99Z",
            "9999-12-31T23:59:59+14:00",
            "OOMKilled",
            "True",
            "Failed",
            "Evicted",
            "CrashLoopBackOff",
            "back-off 99999h9m9s",
            "Preempted",
            "-1",
        ]
    ),
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def mangled(told: Any, chance: random.Random, junk: list[Any]) -> Any:
    """An object with some of its values replaced by anything."""
    if chance.random() < 0.06:
        return chance.choice(junk)
    if isinstance(told, dict):
        return {key: mangled(value, chance, junk) for key, value in told.items() if chance.random() > 0.04}
    if isinstance(told, list):
        return [mangled(value, chance, junk) for value in told]
    return told


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(trees, min_size=1, max_size=6))
def test_no_object_is_too_odd(seed: int, junk: list[Any]):
    chance = random.Random(seed)
    objects = [
        pod("llm-0", status=running(140, 1, ended(20, 100, 137, "OOMKilled"))),
        pod(
            "llm-1",
            status=terminated(ended(0, 50), conditions=[condition("DisruptionTarget", 40, "EvictionByEvictionAPI")]),
            deleted=40,
        ),
        node("gpu-0", 30, "Unknown"),
        event("Preempted", "Preempted by x", 50, pod("llm-0")),
        workload("Job", "llm", condition("Failed", 99, "DeadlineExceeded")),
        workload("Workload", "w", condition("Evicted", 60, "Preempted"), owner=("Job", "llm"), uid="w"),
    ]
    shuffled = [mangled(each, chance, junk) for each in objects] * 2  # each of them comes twice
    chance.shuffle(shuffled)
    found = [each for each in objects_in(json.dumps(shuffled).encode()) if not isinstance(each, FactError)]
    teller = KubeFacts(naming=Naming(takes_bare_pods=True))
    facts = teller.take(found)
    for fact in facts:
        assert decode_line(encode_line(fact)) == fact
    assert KubeFacts(json.loads(json.dumps(teller.plain()))).runs == teller.runs
    for before, after in pairwise(sorted(facts, key=lambda fact: (fact.run, fact.emitter, fact.seq))):
        assert (before.run, before.emitter, before.seq) != (after.run, after.emitter, after.seq) or before == after


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_file(content: bytes):
    for found in objects_in(content):
        assert isinstance(found, FactError) or found[1]["kind"]
