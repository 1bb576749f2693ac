"""Kubernetes objects: what is read out of one, whatever else is in it.

Nothing here raises: a field that is missing, or of another type than the API's, is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rerail.server.core.codec import EARLIEST_INSTANT, LATEST_INSTANT

Object = Mapping[str, Any]

ACCELERATORS = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "habana.ai/gaudi",
    "google.com/tpu",
    "intel.com/gpu",
)
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
JOBSET, JOBSET_UID = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/jobset-uid"
JOBSET_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
KUBEFLOW_JOB = "training.kubeflow.org/job-name"
WORKLOAD_KINDS = frozenset(
    {"Job", "JobSet", "PyTorchJob", "TrainJob", "MPIJob", "TFJob", "HyperPodPyTorchJob", "RayJob", "LeaderWorkerSet"}
)


def mapping(told: object) -> dict[str, Any]:
    """An object, empty where it is none."""
    return told if isinstance(told, dict) else {}


def items(told: object) -> list[dict[str, Any]]:
    """The objects of a list; what is none is left out."""
    return [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []


def text(told: object, longest: int = 4000) -> str:
    """Printable words; empty where there are none."""
    if not isinstance(told, str):
        return ""
    words = told[:longest]
    if not words.isprintable():
        words = "".join(letter if letter.isprintable() else " " for letter in words)
    return words.strip()


def lines(told: object, longest: int = 6000) -> str:
    """Printable words of several lines: the end of a log, mostly, so its end is kept."""
    if not isinstance(told, str):
        return ""
    return "\n".join(text(line) for line in told[-longest:].splitlines()).strip()


def whole(told: object) -> int | None:
    """A whole number of the size the API has."""
    return told if isinstance(told, int) and not isinstance(told, bool) and abs(told) < 2**53 else None


def instant(told: object) -> int | None:
    """RFC 3339 → ns; None where it is none, or far outside any training."""
    if not isinstance(told, str) or not 19 <= len(told) <= 40:
        return None
    try:
        stamp = datetime.fromisoformat(told.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        return None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    try:
        at = int(stamp.replace(microsecond=0).timestamp()) * 1_000_000_000 + stamp.microsecond * 1000
    except (OverflowError, ValueError):
        return None
    return at if EARLIEST_INSTANT <= at < LATEST_INSTANT else None


def metadata(told: Object) -> dict[str, Any]:
    """Its metadata."""
    return mapping(told.get("metadata"))


def labels(told: Object) -> dict[str, Any]:
    """Its labels."""
    return mapping(metadata(told).get("labels"))


def annotations(told: Object) -> dict[str, Any]:
    """Its annotations."""
    return mapping(metadata(told).get("annotations"))


def name_of(told: Object) -> str:
    """`namespace/name`, or the name of what has no namespace."""
    about = metadata(told)
    space, name = text(about.get("namespace"), 100), text(about.get("name"), 260)
    return f"{space}/{name}" if space else name


def uid_of(told: Object) -> str:
    """What tells it from another of the same name; its name, where a file leaves that out."""
    return text(metadata(told).get("uid"), 80) or name_of(told)


def version_of(told: Object) -> str:
    """Its resource version; opaque."""
    return text(metadata(told).get("resourceVersion"), 80)


def conditions(told: Object) -> Iterator[tuple[str, str, str, str, int | None]]:
    """`(type, status, reason, message, at)` of each condition."""
    for each in items(mapping(told.get("status")).get("conditions")):
        yield (
            text(each.get("type"), 100), text(each.get("status"), 20), text(each.get("reason"), 200),
            text(each.get("message"), 2000), instant(each.get("lastTransitionTime")),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """What a pod, a workload or an event is part of."""

    kind: str
    name: str
    """`namespace/name`."""
    uid: str


def owner_of(told: Object) -> Owner:
    """The outermost workload that an object names: its JobSet, its training job, its Job, or itself."""
    space = text(metadata(told).get("namespace"), 100)
    tags = labels(told)

    def named(kind: str, name: object, uid: object = "") -> Owner:
        return Owner(kind, f"{space}/{text(name, 260)}" if space else text(name, 260), text(uid, 80))

    if text(tags.get(JOBSET)):
        return named("JobSet", tags[JOBSET], tags.get(JOBSET_UID))
    owners = [each for each in items(metadata(told).get("ownerReferences")) if each.get("controller") is not False]
    for each in owners:
        if text(each.get("kind")) in WORKLOAD_KINDS and text(each.get("name")):
            kind = text(each.get("kind"))
            # A TrainJob's JobSet bears its name: they are one workload.
            return named("JobSet" if kind == "TrainJob" else kind, each["name"], each.get("uid"))
    if text(tags.get(KUBEFLOW_JOB)):
        return named("PyTorchJob", tags[KUBEFLOW_JOB])
    for key in JOB_LABELS:
        if text(tags.get(key)):
            return named("Job", tags[key], tags.get("batch.kubernetes.io/controller-uid") or tags.get("controller-uid"))
    kind = text(told.get("kind"), 60) or "Pod"
    return Owner("JobSet" if kind == "TrainJob" else kind, name_of(told), text(metadata(told).get("uid"), 80))


def gpus_of(container: Object) -> int:
    """Accelerators that a container asks for."""
    asked = mapping(container.get("resources"))
    for told in (mapping(asked.get("limits")), mapping(asked.get("requests"))):
        for name in ACCELERATORS:
            count = told.get(name)
            if isinstance(count, (str, int)) and str(count).isascii() and str(count).isdigit() and len(str(count)) < 7:
                return int(count)
    return 0


def main_container(pod: Object) -> str:
    """The container that trains: that with accelerators, else the pod's default, else the first."""
    declared = items(mapping(pod.get("spec")).get("containers"))
    for each in declared:
        if gpus_of(each):
            return text(each.get("name"), 100)
    told = text(annotations(pod).get(DEFAULT_CONTAINER), 100)
    if told:
        return told
    statuses = items(mapping(pod.get("status")).get("containerStatuses"))
    return text((declared or statuses or [{}])[0].get("name"), 100)


def slim(told: Object) -> dict[str, Any]:
    """An object without what nobody here reads: what is held while it waits stays small.

    The containers of a workload's pod templates stand where a pod has its own.
    """
    about = {key: value for key, value in metadata(told).items() if key != "managedFields"}
    # Of who wrote what only one thing is read, and looking for it costs more than all the rest.
    fields = items(metadata(told).get("managedFields")) if told.get("kind") == "Node" else []
    stamps = {}
    for each in fields:
        if "sagemaker.amazonaws.com/node-health-status" in str(each.get("fieldsV1"))[:20_000]:
            stamps["health"] = each.get("time")
    if stamps:
        about["stamps"] = stamps
    spec = mapping(told.get("spec"))
    kept = {key: value for key, value in told.items() if key not in ("metadata", "spec")}
    kept["metadata"] = about
    kept["spec"] = {
        key: spec[key]
        for key in ("nodeName", "unschedulable", "taints", "restartPolicy", "suspend", "backoffLimit", "parallelism")
        if key in spec
    }
    templates = [spec, *(each for each in (spec.get("template"),) if each), *items(spec.get("podSets"))]
    declared: list[dict[str, Any]] = []
    for each in templates:
        inner = mapping(mapping(mapping(each).get("template") or each).get("spec") or each)
        declared += items(inner.get("containers"))
    if declared:
        kept["spec"]["containers"] = [
            {"name": each.get("name"), "resources": each.get("resources")} for each in declared[:200]
        ]
    status = mapping(told.get("status"))
    if "images" in status:
        kept["status"] = {
            key: value for key, value in status.items() if key not in ("images", "volumesAttached", "volumesInUse")
        }
    return kept
