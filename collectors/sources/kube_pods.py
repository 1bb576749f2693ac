"""Pods: what the status of one tells of its life, as moments in order of time.

Rules
- Only one finished life of a container is kept by the API (`lastState`): what came before it must have been watched.
- A container's life has the number of restarts that came before it. Where it waits, the finished one is its latest.
- What has no instant of its own gets the latest that the status tells; it is never the instant of looking.
- `DisruptionTarget` says best who ended a pod; a deletion began its grace period before `deletionTimestamp`.
- Containers beside the one that trains tell nothing but their death by memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rerail.collectors.sources.kube_objects import (
    Object,
    conditions,
    instant,
    items,
    lines,
    main_container,
    mapping,
    metadata,
    text,
    whole,
)

QUEUED, SCHEDULED, STARTED, DISRUPTED, ENDED, OOM, FAILED, BACKOFF, IMAGE, DELETED, INIT = (
    "queued", "scheduled", "started", "disrupted", "ended", "oom", "failed", "backoff", "image", "deleted", "init",
)  # fmt: skip
ORDER = (QUEUED, SCHEDULED, INIT, DISRUPTED, OOM, ENDED, FAILED, BACKOFF, IMAGE, DELETED, STARTED)
BACK_OFF = re.compile(r"back-off (?:(\d{1,4})h)?(?:(\d{1,4})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?)s)?")
IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
BROKEN_STARTS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"})


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a pod."""

    at: int
    kind: str
    life: int = 0
    """Restarts of the container before this life."""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    message: str = ""
    seconds: float | None = None
    """Length of a back-off."""

    @property
    def key(self) -> str:
        """What tells it from the other moments of its pod."""
        return f"{self.kind} {self.life} {self.at} {self.reason}"


def moments(pod: Object) -> list[Moment]:
    """Everything that a pod's object tells, in order of time; at one instant what ends stands before what begins."""
    found = list(_moments(pod))
    return sorted(found, key=lambda each: (each.at, ORDER.index(each.kind), each.life))


def _moments(pod: Object) -> Iterator[Moment]:
    about, status = metadata(pod), mapping(pod.get("status"))
    created = instant(about.get("creationTimestamp"))
    latest = _latest(pod)
    if created is not None:
        yield Moment(created, QUEUED)
    is_disrupted = False
    for kind, is_true, reason, message, at in conditions(pod):
        if kind == "PodScheduled" and is_true == "True" and at is not None:
            yield Moment(at, SCHEDULED)
        if kind == "PodScheduled" and is_true == "False" and at is not None and reason == "Unschedulable":
            yield Moment(at, QUEUED, reason=reason, message=message)
        if kind == "DisruptionTarget" and is_true == "True" and (at or latest) is not None:
            is_disrupted = True
            yield Moment(at or latest or 0, DISRUPTED, reason=reason, message=message)
    main = main_container(pod)
    ended_at = None
    for each in items(status.get("containerStatuses")):
        is_main = text(each.get("name"), 100) == main
        for moment in _container(each, is_main, latest):
            if moment.kind == ENDED:
                ended_at = max(moment.at, ended_at or 0)
            yield moment
    for each in items(status.get("initContainerStatuses")):
        yield from _before_start(each, latest)
    reason = text(status.get("reason"), 200)
    if reason and not is_disrupted and (ended_at or latest) is not None:
        at = next((at for kind, told, why, _, at in conditions(pod) if kind in ("Ready", "ContainersReady")
                   and told == "False" and at is not None and why == "PodFailed"), None)  # fmt: skip
        yield Moment(at or ended_at or latest or 0, FAILED, reason=reason, message=text(status.get("message"), 2000))
    elif text(status.get("phase")) == "Failed" and not reason and not is_disrupted and ended_at is None and latest:
        yield Moment(latest, FAILED, reason="PodFailed", message=text(status.get("message"), 2000))
    deleted = instant(about.get("deletionTimestamp"))
    if deleted is not None:
        grace = whole(about.get("deletionGracePeriodSeconds")) or 0
        yield Moment(deleted - max(0, min(grace, 86_400)) * 1_000_000_000, DELETED)


def _container(told: Object, is_main: bool, latest: int | None) -> Iterator[Moment]:
    restarts = max(0, whole(told.get("restartCount")) or 0)
    now, last = mapping(told.get("state")), mapping(mapping(told.get("lastState")).get("terminated"))
    ended, running, waiting = (mapping(now.get(each)) for each in ("terminated", "running", "waiting"))
    lives = [(ended, restarts)] if ended else []
    if last:
        lives.insert(0, (last, restarts if waiting else max(0, restarts - 1)))
    for life, number in lives:
        started, finished = instant(life.get("startedAt")), instant(life.get("finishedAt"))
        code, reason = whole(life.get("exitCode")), text(life.get("reason"), 200)
        finished = finished if finished is not None else latest
        if not is_main:
            if reason == "OOMKilled" and finished is not None:
                yield Moment(finished, OOM, number, code, reason=reason, message=text(told.get("name"), 100))
            continue
        if started is not None:
            yield Moment(started, STARTED, number)
        if finished is not None:
            signal = whole(life.get("signal"))
            words = lines(life.get("message"))
            yield Moment(finished, ENDED, number, code, signal, reason, words)
    if not is_main:
        return
    started = instant(running.get("startedAt"))
    if started is not None:
        yield Moment(started, STARTED, restarts)
    reason, words = text(waiting.get("reason"), 200), text(waiting.get("message"), 2000)
    since = instant(last.get("finishedAt")) if last else None
    if reason == "CrashLoopBackOff" and (since or latest) is not None:
        yield Moment(
            since or latest or 0, BACKOFF, restarts, reason=reason, message=words, seconds=back_off_seconds(words)
        )
    elif (reason in IMAGE_REASONS or reason in BROKEN_STARTS) and latest is not None:
        yield Moment(latest, IMAGE, restarts, reason=reason, message=words)


def _before_start(told: Object, latest: int | None) -> Iterator[Moment]:
    """An init container that failed: the pod never began."""
    restarts = max(0, whole(told.get("restartCount")) or 0)
    for state in (told.get("lastState"), told.get("state")):
        life = mapping(mapping(state).get("terminated"))
        code = whole(life.get("exitCode"))
        at = instant(life.get("finishedAt")) or latest
        if code and at is not None:
            words = f"init container {text(told.get('name'), 100)}: {text(life.get('message'), 2000)}".rstrip(": ")
            yield Moment(at, INIT, restarts, code, whole(life.get("signal")), text(life.get("reason"), 200), words)


def back_off_seconds(words: str) -> float | None:
    """The length of the back-off that a message tells: `back-off 2m40s restarting …`."""
    found = BACK_OFF.search(words)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)


def _latest(pod: Object) -> int | None:
    """The latest instant that a status tells of."""
    status = mapping(pod.get("status"))
    stamps = [instant(status.get("startTime")), instant(metadata(pod).get("creationTimestamp"))]
    stamps += [at for *_, at in conditions(pod)]
    return max((stamp for stamp in stamps if stamp is not None), default=None)
