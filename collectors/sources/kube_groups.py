"""Groups: the pods of one workload, and the attempts that their lives make.

Rules
- A group is what one JobSet, training job, Job or bare pod runs. Its attempt begins when the first of its containers
  that train starts, and is ending with the first of them that dies, is evicted, preempted or deleted. What starts
  after that begins the next; it is over when nobody of it is left, or when the next begins.
- A container that begins again, and was not seen to end, ended the attempt all the same; its end is not stated.
- A container that was there before the attempt began and dies within ten minutes of it is the tail of the one before.
- The key is the requeue count: a JobSet's own (`restart-attempt`), with what restarted within it as the restart
  count; elsewhere the restarts that were seen, at least those of the container. Deaths carry the job and their
  instant, no count: a launcher inside may have counted further.
- `scope`: the container was restarted in its pod: `in_job`; the pod was made anew, or the whole JobSet: `requeue`;
  another workload of the same run: `resubmit`. The initiator follows from how the one before ended; a deletion says
  nobody.
- The run waits (`queued`, `backoff`) from a pod's creation, or a death, to the next start, and only while no attempt
  is there: a pod that waits beside a group that trains is not a run that waits.
- `seq` is the second of the instant, a place among equal instants (what ends before what begins) and a digest of what
  happened to whom: seen again, the same is stated under the same identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rerail.collectors.masking import masked
from rerail.collectors.sources import kube_pods as pods
from rerail.collectors.sources.kube_pods import Moment
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Fact,
    Initiator,
    MarkStage,
    Outcome,
    Pairs,
    RecoveryMark,
    RunEnded,
    SchedulerState,
    Scope,
)

SECOND = 1_000_000_000
TAIL_NS = 600 * SECOND
MOST_LEFT = 1000
FIRST, ENDS, THEN, BEGINS = 0, 2, 4, 6
"""Places among equal instants."""

PREEMPTED, EVICTED, FAILED, LOST, DELETED, COMPLETED = "preempted", "evicted", "failed", "lost", "deleted", "completed"
DISRUPTIONS = {
    "PreemptionByScheduler": PREEMPTED, "PreemptionByKubeScheduler": PREEMPTED, "EvictionByEvictionAPI": EVICTED,
    "DeletionByTaintManager": LOST, "DeletionByPodGC": LOST, "TerminationByKubelet": EVICTED,
    "Evicted": EVICTED, "Preempting": PREEMPTED, "NodeLost": LOST, "NodeShutdown": LOST, "Shutdown": LOST,
    "NodeAffinity": EVICTED, "Terminated": EVICTED,
}  # fmt: skip
SAID = {LOST: "node lost"}
INITIATORS = {
    PREEMPTED: Initiator.SCHEDULER,
    EVICTED: Initiator.SCHEDULER,
    FAILED: Initiator.FAULT,
    LOST: Initiator.FAULT,
}
OUTCOMES = {PREEMPTED: Outcome.PREEMPTED, FAILED: Outcome.FAILED, LOST: Outcome.FAILED, EVICTED: Outcome.PREEMPTED,
            COMPLETED: Outcome.COMPLETED, DELETED: None}  # fmt: skip


def sequence(at: int, place: int, *what: object) -> int:
    """The identity of what happened at an instant."""
    digest = hashlib.blake2b("\n".join(map(str, (at, *what))).encode("utf-8", "replace"), digest_size=4).digest()
    return (at // SECOND % 2**29) << 34 | place << 31 | (int.from_bytes(digest, "big") & (2**31 - 1))


@dataclass(slots=True)
class Group:
    """One workload. Only plain JSON values: it is part of a cursor."""

    run: str
    job: str
    emitter: str
    uid: str = ""
    base: int = 0
    """Requeue count of the first attempt: after those of the workload of the same name before it."""
    requeue: int | None = None
    restart: int = 0
    label: int | None = None
    began: int | None = None
    is_open: bool = False
    """An attempt began and none of it has died."""
    is_ending: bool = False
    last_death: int | None = None
    how: str | None = None
    """How the attempt ended, or is ending: the first word."""
    who: str = ""
    """Pod that died first."""
    waits: bool = False
    is_over: bool = False
    alive: dict[str, int] = field(default_factory=dict)
    """Pod → when its container started."""
    leaving: list[str] = field(default_factory=list)
    """Pods that were told to go, or that nobody hears of, and whose container was not seen to end."""
    left: list[str] = field(default_factory=list)
    """Those that were leaving when the current attempt began."""
    has_pending: bool = False
    """A pod waits for the rest of the attempt to end."""
    before: list[int | None] = field(default_factory=list)
    """`[requeue, restart]` of the attempt before."""
    nodes: list[str] = field(default_factory=list)
    """Nodes told of the current attempt."""
    gpus: dict[str, int] = field(default_factory=dict)
    """Pod that runs → its accelerators."""
    gpu_count: int = 0
    """All of them together."""
    is_resubmitted: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """Who a moment is about."""

    uid: str
    name: str
    node: str | None
    gpus: int
    attempt: int | None
    """A JobSet's count of its restarts, as the pod bears it."""


class GroupFacts:
    """States what happens to groups. `states_attempts` off: somebody else counts them, here only deaths are told."""

    def __init__(self, *, states_attempts: bool = True) -> None:
        self.facts: list[Fact] = []
        self._states_attempts = states_attempts

    def apply(self, group: Group, pod: Pod, moment: Moment) -> None:
        """One moment of one pod, in order of time."""
        kind = moment.kind
        if kind == pods.QUEUED:
            self._wait(group, pod, moment, "queued")
        elif kind == pods.STARTED:
            self._start(group, pod, moment)
        elif kind == pods.ENDED:
            self._end(group, pod, moment)
        elif kind == pods.BACKOFF:
            self._wait(group, pod, moment, "backoff")
        elif kind in (pods.DISRUPTED, pods.FAILED):
            self._disrupt(group, pod, moment)
        elif kind == pods.DELETED:
            self._delete(group, pod, moment)
        elif kind == pods.OOM:
            self.evidence(
                group, moment.at, pod, f"OOMKilled: container {moment.message} beside the one that trains", "OOMKilled"
            )
        elif kind == pods.INIT:
            words = f"{moment.message} of {pod.name} ended: {moment.reason}, exit code {_shown(moment.exit_code)}"
            self.evidence(group, moment.at, pod, words, moment.reason)
            if not group.is_open and moment.exit_code is not None:
                self._say(
                    Exit, group, moment.at, ENDS, ("init", pod.uid, moment.life, moment.exit_code), node=pod.node,
                    exit_code=moment.exit_code, signal=moment.signal,
                )  # fmt: skip
        elif kind == pods.IMAGE:
            self.evidence(group, moment.at, pod, f"{moment.reason}: {moment.message}", moment.reason)

    # --- waiting and starting ---

    def _wait(self, group: Group, pod: Pod, moment: Moment, state: str) -> None:
        if group.is_open or group.is_over or (group.waits and state == "queued"):
            return
        if state == "queued" and self._staying(group):
            group.has_pending = True
            return
        group.waits = True
        at = max(moment.at, group.last_death or moment.at)
        reason = ": ".join(word for word in (moment.reason, masked(moment.message)) if word)[:1000] or None
        self._say(SchedulerState, group, at, THEN, (state, pod.uid, moment.life, reason), state=state, reason=reason)

    def _start(self, group: Group, pod: Pod, moment: Moment) -> None:
        if group.is_over:
            group.is_over = False
        before = group.alive.get(pod.uid)
        if group.is_open and before is not None and group.began is not None and before >= group.began:
            # The life before ended unseen, nobody knows when: that the next began is all that can be told.
            group.is_open, group.is_ending, group.how, group.who = False, False, FAILED, pod.uid
        if not group.is_open:
            self._begin(group, pod, moment)
        group.alive[pod.uid] = moment.at
        if group.waits:
            group.waits = False
            self._say(SchedulerState, group, moment.at, BEGINS, ("running", pod.uid, moment.life), state="running")
        if pod.gpus:
            group.gpu_count += pod.gpus - group.gpus.get(pod.uid, 0)
            group.gpus[pod.uid] = pod.gpus
        is_new = pod.node is not None and pod.node not in group.nodes
        if self._states_attempts and (is_new or moment.at == group.began):
            if is_new and pod.node is not None:
                group.nodes.append(pod.node)
            is_first = moment.at == group.began
            self._say(
                AttemptStarted, group, moment.at, BEGINS + 1, ("started", pod.uid, moment.life),
                requeue=group.requeue, restart=group.restart or None,
                scope=self._scope(group, pod) if is_first else None,
                initiator=INITIATORS.get(group.how or "") if is_first else None,
                nodes=(pod.node,) if is_new and pod.node is not None else (),
                gpus=group.gpu_count or None,
            )  # fmt: skip
        if moment.at == group.began:
            group.how = None

    def _begin(self, group: Group, pod: Pod, moment: Moment) -> None:
        if group.is_ending:
            self.close(group, group.last_death or moment.at)
        group.before = [group.requeue, group.restart]
        if group.requeue is None:
            group.requeue = group.base + max(moment.life if pod.attempt is None else 0, pod.attempt or 0)
            group.restart = 0
        elif pod.attempt is not None and pod.attempt != group.label:
            group.requeue, group.restart = max(group.base + pod.attempt, group.requeue + 1), 0
        elif pod.attempt is not None:
            group.restart += 1
        else:
            group.requeue = max(group.requeue + 1, group.base + (moment.life if pod.uid == group.who else 0))
        for uid in group.leaving:
            group.alive.pop(uid, None)
        group.left, group.leaving, group.has_pending = group.leaving[-MOST_LEFT:], [], False
        group.label = pod.attempt
        group.began, group.is_open, group.is_ending, group.nodes = moment.at, True, False, []

    def _scope(self, group: Group, pod: Pod) -> Scope | None:
        if group.before[:1] == [None]:
            return Scope.RESUBMIT if group.is_resubmitted else None
        return Scope.IN_JOB if pod.uid == group.who else Scope.REQUEUE

    # --- ending ---

    def _end(self, group: Group, pod: Pod, moment: Moment) -> None:
        since = group.alive.pop(pod.uid, None)
        if pod.uid in group.leaving:
            group.leaving.remove(pod.uid)
        group.gpu_count -= group.gpus.pop(pod.uid, 0)
        code = moment.exit_code
        is_kill = moment.reason == "OOMKilled"
        if code == 0 and not is_kill:
            if group.is_open and not group.alive:
                group.how = COMPLETED
                self.close(group, moment.at)
            return
        is_tail = (
            group.is_open
            and group.began is not None
            and group.before[:1] not in ([], [None])
            and (
                pod.uid in group.left
                or moment.at < group.began
                or (since is not None and since < group.began < moment.at < group.began + TAIL_NS)
            )
        )
        key = {"requeue": group.before[0], "restart": group.before[1] or None} if is_tail else {}
        words = f"container of {pod.name} ended: {moment.reason or 'no reason'}, exit code {_shown(code)}"
        if moment.signal:
            words += f", signal {moment.signal}"
        if moment.message:
            words += f":\n{moment.message}"
        self.evidence(group, moment.at, pod, words, moment.reason or None, **key)
        if code is not None or is_kill:
            self._say(
                Exit,
                group,
                moment.at,
                ENDS,
                ("exit", pod.uid, moment.life, code),
                node=pod.node,
                exit_code=-9 if code is None else code,
                signal=moment.signal,
                oom_killed=True if is_kill else None,
                **key,
            )
        if not is_tail and since is not None:
            self.dies(group, pod, moment.at, FAILED)

    def _disrupt(self, group: Group, pod: Pod, moment: Moment) -> None:
        how = DISRUPTIONS.get(moment.reason, FAILED)
        word = "DisruptionTarget " if moment.kind == pods.DISRUPTED else ""
        self.evidence(group, moment.at, pod, f"{word}{moment.reason}: {moment.message or pod.name}", moment.reason)
        if how in (PREEMPTED, EVICTED):
            self._say(
                SchedulerState,
                group,
                moment.at,
                ENDS,
                (how, pod.uid, moment.message),
                state=how,
                reason=masked(moment.message)[:1000] or None,
            )
        self.notice(group, moment.at, pod, moment.reason)
        self._leaves(group, pod)
        if moment.kind == pods.FAILED:
            group.alive.pop(pod.uid, None)
        self.dies(group, pod, moment.at, how)

    def _delete(self, group: Group, pod: Pod, moment: Moment) -> None:
        if pod.uid not in group.alive:
            return
        if not group.is_ending:
            self.evidence(group, moment.at, pod, f"Pod {pod.name} was deleted while it ran", "PodDeleted")
            self.notice(group, moment.at, pod, "deleted")
        self._leaves(group, pod)
        self.dies(group, pod, moment.at, DELETED)

    def gone(self, group: Group, pod: Pod, at: int) -> None:
        """The pod is not there any more."""
        was_alive = group.alive.pop(pod.uid, None) is not None
        if pod.uid in group.leaving:
            group.leaving.remove(pod.uid)
        group.gpu_count -= group.gpus.pop(pod.uid, 0)
        if was_alive:
            self.dies(group, pod, at, DELETED)

    def dies(self, group: Group, pod: Pod, at: int, how: str) -> None:
        """Somebody of the current attempt died, or is about to."""
        if not group.is_open and not group.is_ending:
            return
        if not group.is_ending:
            group.how, group.who = how, pod.uid
        elif how in (PREEMPTED, EVICTED, LOST) and group.how in (FAILED, DELETED):
            group.how = how
        group.is_open, group.is_ending = False, True
        group.last_death = max(at, group.last_death or 0)
        if not group.alive:
            self.close(group, group.last_death)
        if group.has_pending and not group.waits and not self._staying(group):
            group.has_pending, group.waits = False, True
            self._say(SchedulerState, group, group.last_death, THEN, ("queued", pod.uid), state="queued")

    def _leaves(self, group: Group, pod: Pod) -> None:
        """The pod was told to go, or is lost: its machine's accelerators are not the run's any more."""
        group.gpu_count -= group.gpus.pop(pod.uid, 0)
        if pod.uid in group.alive and pod.uid not in group.leaving:
            group.leaving.append(pod.uid)

    @staticmethod
    def _staying(group: Group) -> bool:
        """Whether somebody runs who was not told to go."""
        return len(group.alive) > sum(uid in group.alive for uid in group.leaving)

    def close(self, group: Group, at: int) -> None:
        """The attempt is over: nobody of it is left, or its workload ended."""
        if not (group.is_open or group.is_ending):
            return
        group.is_open = group.is_ending = False
        group.last_death = max(at, group.last_death or 0)
        if self._states_attempts:
            self._say(
                AttemptEnded,
                group,
                at,
                ENDS + 1,
                ("ended", group.requeue, group.restart),
                outcome=OUTCOMES.get(group.how or ""),
                reason=None if group.how is None else f"kubernetes: {SAID.get(group.how, group.how)}",
            )

    def over(self, group: Group, at: int, outcome: Outcome, reason: str) -> None:
        """The workload itself says that it is done."""
        if group.is_open and outcome is Outcome.COMPLETED:
            group.how = COMPLETED
        self.close(group, max(at, group.began or at) if group.is_open else group.last_death or at)
        group.is_over, group.waits = True, False
        self._say(
            RunEnded,
            group,
            at,
            BEGINS - 1,
            ("run", outcome, reason),
            outcome=outcome,
            reason=masked(reason)[:2000] or None,
        )

    # --- stating ---

    def evidence(
        self, group: Group, at: int, pod: Pod | None, words: str, code: str | None, *, node: str | None = None,
        about: Pairs = (), **key: Any,
    ) -> None:  # fmt: skip
        """What Kubernetes said about somebody of a group."""
        uid = "" if pod is None else pod.uid
        told = about + (() if pod is None else (("pod", pod.name),))
        self._say(
            Evidence, group, at, FIRST, ("evidence", uid, code, words), source="kubernetes", text=masked(words)[:8000],
            code=code or None, node=node if pod is None else pod.node, attributes=tuple(sorted(told)), **key,
        )  # fmt: skip

    def notice(self, group: Group, at: int, pod: Pod | None, reason: str) -> None:
        """The end of an attempt was noticed by the cluster."""
        if group.is_open:
            uid = "" if pod is None else pod.uid
            self._say(
                RecoveryMark, group, at, FIRST + 1, ("noticed", uid, reason), stage=MarkStage.NOTICED, by="kubernetes",
                node=None if pod is None else pod.node,
            )  # fmt: skip

    def state(self, group: Group, at: int, state: str, reason: str, what: object) -> None:
        """A word of the scheduler about the whole group."""
        self._say(
            SchedulerState, group, at, THEN, (state, what, reason), state=state, reason=masked(reason)[:1000] or None
        )

    def _say(self, kind: type[Any], group: Group, at: int, place: int, what: tuple[object, ...], **told: Any) -> None:
        self.facts.append(
            kind(run=group.run, emitter=group.emitter, seq=sequence(at, place, kind.kind, group.uid, *what), at=at,
                 job=group.job, **told)
        )  # fmt: skip


def _shown(code: int | None) -> str:
    return "unknown" if code is None else str(code)


def group_of_plain(plain: Mapping[str, Any]) -> Group:
    """A group out of a cursor; fields of other versions are left out."""
    known = Group.__dataclass_fields__
    return Group(**{name: value for name, value in plain.items() if name in known})
