"""Workloads: what the conditions of a Job, JobSet, training job or Kueue Workload tell of their group.

Rules
- The workload's own word ends a run: `Complete`, `Completed`, `Succeeded`, `Failed`. A pod's end never does.
- Suspension and a quota that is not there are waiting; Kueue's eviction tells who took the quota back.
- Failures and restarts are evidence, in the controller's words; a restart by Kueue or a JobSet is counted by its pods.
"""

from __future__ import annotations

from rerail.collectors.sources.kube_groups import EVICTED, PREEMPTED, Group, GroupFacts
from rerail.collectors.sources.kube_objects import Object, conditions, name_of
from rerail.server.core.facts import Outcome

DONE = frozenset({"Complete", "Completed", "Succeeded"})
RESTARTING = frozenset({"Restarting", "RestartingJobSet", "FailureTarget"})
TAKEN_BACK = {"Preempted": PREEMPTED, "AdmissionCheck": EVICTED, "WorkloadSliceReplaced": EVICTED}


def take_workload(told: Object, group: Group, facts: GroupFacts) -> None:
    """The conditions of a Job, JobSet, PyTorchJob or TrainJob, in order of time."""
    kind = str(told.get("kind") or "Job")[:60]
    found = [each for each in conditions(told) if each[4] is not None]
    for name, is_true, reason, message, at in sorted(found, key=lambda each: (each[4] or 0, each[0])):
        assert at is not None
        words = f"{kind} {name_of(told)}: {reason or name}: {message}"
        if name in DONE and is_true == "True":
            facts.over(group, at, Outcome.COMPLETED, words)
        elif name == "Failed" and is_true == "True":
            facts.evidence(group, at, None, words, reason or name)
            facts.notice(group, at, None, reason)
            facts.over(group, at, Outcome.FAILED, words)
        elif name in RESTARTING and is_true == "True":
            facts.evidence(group, at, None, words, reason or name)
        elif name == "Suspended" and is_true == "True":
            facts.evidence(group, at, None, words, reason or name)
            facts.state(group, at, "suspended", message, name)
            group.waits = True
        elif name == "Suspended" and group.waits and not group.is_open:
            facts.state(group, at, "queued", message, "resumed")


def take_kueue(told: Object, group: Group, facts: GroupFacts) -> None:
    """The conditions of a Kueue Workload."""
    found = [each for each in conditions(told) if each[4] is not None]
    for name, is_true, reason, message, at in sorted(found, key=lambda each: (each[4] or 0, each[0])):
        assert at is not None
        if name == "QuotaReserved" and is_true == "False" and not group.is_open:
            group.waits = True
            facts.state(group, at, "queued", f"{reason}: {message}", name)
        elif name == "Evicted" and is_true == "True":
            how = TAKEN_BACK.get(reason)
            verb = "was preempted" if how == PREEMPTED else "was evicted" if how else "was stopped by Kueue"
            facts.evidence(group, at, None, f"Workload {verb} ({reason}): {message}", reason)
            facts.notice(group, at, None, reason)
            if how is not None:
                facts.state(group, at, how, message, name)
        elif name == "Preempted" and is_true == "True":
            facts.evidence(group, at, None, f"Workload was preempted ({reason}): {message}", reason)
        elif name == "DeactivationTarget" and is_true == "True":
            facts.evidence(group, at, None, f"Workload is deactivated ({reason}): {message}", reason)
