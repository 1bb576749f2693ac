"""Events: what controllers and kubelets say about pods, nodes and workloads, for an hour and then no more.

Rules
- A scheduler's event has `eventTime` and neither count nor stamps, a controller's the opposite. `type` is no severity.
- An event that is counted up is told once; those that say an end, once for each instant.
- How long an image took to pull is in the words of `Pulled`; it is a metric.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rerail.collectors.sources.kube_objects import Object, instant, mapping, metadata, name_of, text

ENDS = frozenset(
    {"Preempted", "Evicted", "TaintManagerEviction", "NodeNotReady", "OOMKilling", "SystemOOM", "NodeShutdown"}
)
TELLING = ENDS | frozenset(
    {
        "BackOff",
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "FailedScheduling",
        "Failed",
        "FailedMount",
        "FailedAttachVolume",
        "FailedCreatePodSandBox",
        "FailedCreate",
        "Unhealthy",
        "Rebooted",
        "KernelOops",
        "KernelDeadlock",
        "ReadonlyFilesystem",
        "NodeHasDiskPressure",
        "EvictionThresholdMet",
        "Killing",
        "Pulled",
        "PodFailurePolicy",
        "Suspended",
        "JobSetRestart",
        "Restarting",
        "ReachedMaxRestarts",
        "PyTorchJobRestarting",
        "PyTorchJobFailed",
        "HostPortConflict",
        "NodeAllocatableEnforced",
        "XIDError",
        "GPUError",
        "ContainerGCFailed",
        "InvalidDiskCapacity",
        "EvictedByPreemption",
    }
)
QUIET = frozenset({"NodeAllocatableEnforced", "InvalidDiskCapacity"})
CREATED = re.compile(r"Created pod: (\S{1,260})")
_PULL = re.compile(r"in (?:(\d{1,3})h)?(?:(\d{1,3})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?)s|(\d{1,6}(?:\.\d{1,9})?)ms)?")


@dataclass(frozen=True, slots=True)
class EventTold:
    """What an event says, and about what."""

    at: int
    kind: str
    """Of the object it is about."""
    name: str
    """`namespace/name` of it."""
    uid: str
    reason: str
    message: str
    key: str
    """What tells it from others."""


def event_told(event: Object) -> EventTold | None:
    """What an event says; None for one that says nothing about a fault or a wait."""
    about = mapping(event.get("involvedObject")) or mapping(event.get("regarding"))
    reason = text(event.get("reason"), 200)
    if not about or reason in QUIET or (reason not in TELLING and not reason.startswith("Node")):
        return None
    series = mapping(event.get("series"))
    stamps = (
        series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("deprecatedLastTimestamp"),
        event.get("eventTime"), event.get("firstTimestamp"), metadata(event).get("creationTimestamp"),
    )  # fmt: skip
    first = (event.get("eventTime"), event.get("firstTimestamp"), event.get("deprecatedFirstTimestamp"), *stamps)
    at = next((stamp for each in (stamps if reason in ENDS else first) if (stamp := instant(each)) is not None), None)
    if at is None:
        return None
    space, name = text(about.get("namespace"), 100), text(about.get("name"), 260)
    uid = text(metadata(event).get("uid"), 80) or name_of(event)
    return EventTold(
        at, text(about.get("kind"), 60), f"{space}/{name}" if space else name, text(about.get("uid"), 80), reason,
        text(event.get("message") or event.get("note"), 4000), f"{uid} {at if reason in ENDS else ''}",
    )  # fmt: skip


def created_pod(event: Object) -> tuple[str, str] | None:
    """`(namespace/pod, namespace/job)` where a Job says that it made a pod."""
    found = CREATED.search(text(event.get("message"), 400)) if event.get("reason") == "SuccessfulCreate" else None
    about = mapping(event.get("involvedObject"))
    if found is None or about.get("kind") != "Job":
        return None
    space = text(about.get("namespace"), 100)
    prefix = f"{space}/" if space else ""
    return prefix + found[1], prefix + text(about.get("name"), 260)


def pull_seconds(message: str) -> float | None:
    """How long an image took: `Successfully pulled image "x" in 1m2.5s (…)`. None where it was there already."""
    if "ulled image" not in message:
        return None
    found = _PULL.search(message)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, milliseconds = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0) + float(milliseconds or 0) / 1000
