"""Objects of a training job, as an API server would show them, by a clock of seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

BEGAN = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def stamp(second: float) -> str:
    """RFC 3339, `second` seconds into the story."""
    return (BEGAN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(second: float) -> int:
    """The same in ns."""
    return int((BEGAN + timedelta(seconds=second)).timestamp()) * 1_000_000_000


def pod(
    name: str, *, node: str | None = "gpu-0", job: str = "llm", jobset: str | None = None, attempt: int | None = None,
    created: float = 0, status: dict[str, Any] | None = None, uid: str | None = None, deleted: float | None = None,
    grace: int = 30, gpus: int = 8, job_uid: str = "job-1",
) -> dict[str, Any]:  # fmt: skip
    """A pod of a Job, or of a JobSet."""
    tags = {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/controller-uid": job_uid}
    if jobset is not None:
        tags |= {"jobset.sigs.k8s.io/jobset-name": jobset, "jobset.sigs.k8s.io/restart-attempt": str(attempt or 0)}
    about: dict[str, Any] = {
        "name": name,
        "namespace": "train",
        "uid": uid or f"uid-{name}",
        "labels": tags,
        "creationTimestamp": stamp(created),
        "ownerReferences": [{"kind": "Job", "name": job, "uid": job_uid, "controller": True}],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    }
    if deleted is not None:
        about |= {"deletionTimestamp": stamp(deleted + grace), "deletionGracePeriodSeconds": grace}
    spec: dict[str, Any] = {
        "containers": [
            {"name": "sidecar", "image": "x", "resources": {}},
            {"name": "pytorch", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}},
        ]
    }
    if node is not None:
        spec["nodeName"] = node
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": about,
        "spec": spec,
        "status": status or {"phase": "Pending"},
    }


def running(since: float, restarts: int = 0, last: dict[str, Any] | None = None) -> dict[str, Any]:
    """The status of a pod whose container runs."""
    main: dict[str, Any] = {
        "name": "pytorch",
        "restartCount": restarts,
        "state": {"running": {"startedAt": stamp(since)}},
    }
    if last is not None:
        main["lastState"] = {"terminated": last}
    return {"phase": "Running", "containerStatuses": [main]}


def ended(since: float, until: float, code: int = 1, reason: str = "Error") -> dict[str, Any]:
    """A life of a container."""
    return {"exitCode": code, "reason": reason, "startedAt": stamp(since), "finishedAt": stamp(until)}


def backing_off(
    last: dict[str, Any], restarts: int, words: str = "back-off 40s restarting failed container=pytorch"
) -> dict[str, Any]:
    """The status of a pod that waits to start its container again."""
    waiting = {"reason": "CrashLoopBackOff", "message": words}
    main = {
        "name": "pytorch",
        "restartCount": restarts,
        "state": {"waiting": waiting},
        "lastState": {"terminated": last},
    }
    return {"phase": "Running", "containerStatuses": [main]}


def terminated(life: dict[str, Any], restarts: int = 0, phase: str = "Failed", **more: Any) -> dict[str, Any]:
    """The status of a pod whose container ended."""
    main = {"name": "pytorch", "restartCount": restarts, "state": {"terminated": life}}
    return {"phase": phase, "containerStatuses": [main], **more}


def condition(kind: str, second: float, reason: str = "", message: str = "", status: str = "True") -> dict[str, str]:
    """A condition of anything."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": stamp(second)}


def workload(
    kind: str, name: str, *found: dict[str, str], uid: str = "job-1", owner: tuple[str, str] | None = None
) -> dict[str, Any]:
    """A Job, JobSet, training job or Workload with conditions."""
    about: dict[str, Any] = {"name": name, "namespace": "train", "uid": uid}
    if owner is not None:
        about["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "uid": "job-1", "controller": True}]
    inner = {"spec": {"containers": [{"name": "pytorch", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}
    spec = {"podSets": [{"template": inner}]} if kind == "Workload" else {"template": inner}
    return {"kind": kind, "metadata": about, "spec": spec, "status": {"conditions": list(found)}}


def node(name: str, second: float, ready: str = "True", reason: str = "KubeletReady", **labels: str) -> dict[str, Any]:
    """A node by its Ready condition."""
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "labels": {key.replace("__", "/"): value for key, value in labels.items()},
        },
        "spec": {},
        "status": {"conditions": [condition("Ready", second, reason, "Kubelet stopped posting node status.", ready)]},
    }


def event(
    reason: str, message: str, second: float, about: dict[str, Any], *, by_scheduler: bool = False
) -> dict[str, Any]:
    """An event about an object, stamped as controllers or as the scheduler do."""
    stamps: dict[str, Any] = {
        "firstTimestamp": stamp(second),
        "lastTimestamp": stamp(second),
        "eventTime": None,
        "count": 1,
    }
    if by_scheduler:
        stamps = {
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": stamp(second).replace("Z", ".000000Z"),
            "count": None,
        }
    said = {"kind": about["kind"], "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}
    if "namespace" in about["metadata"]:
        said["namespace"] = about["metadata"]["namespace"]
    name = f"{said['name']}.{reason}.{second}"
    return {
        "kind": "Event", "metadata": {"name": name, "namespace": "train", "uid": f"event-{name}"},
        "reason": reason, "message": message, "type": "Normal", "involvedObject": said, **stamps,
    }  # fmt: skip
