"""Slurm facts: what the records of a cluster state about runs.

Rules
- A job is an allocation of a run; each of its incarnations is an attempt with the requeue count as its key: as Slurm
  tells it (`Restarts`), else counted from the incarnations that were seen (`sacct -D` shows them all).
- What is told of an end carries the job and its instant, no count: a launcher may have restarted inside the job, and
  the attempt that was alive then is the one that ended.
- A queue begins with the submission of what was requeued, else when the job was eligible (a dependency is not a
  queue), and not before the other jobs of its run let go of their nodes. It ends where the job starts.
- A node is told of while a job of the run holds it, and a minute longer where it may have ended the job. The first node
  of a job tells how its script ended: that one was not lost before.
- `(emitter, seq)` is the job and the second of its submission or requeue × 64 + which statement it is: read again, in
  any form, the same is stated under the same identity. Each is stated once; the memory is plain data, part of a
  cursor.
- Not known, and left out: ranks, what happened inside the job, why a person cancelled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rerail.collectors.masking import masked
from rerail.collectors.sources.left_off import LAST_JOB, is_last_end
from rerail.collectors.sources.slurm_ends import (
    as_they_ended,
    end_words,
    exit_code,
    is_out_of_memory,
    telling_steps,
    why_it_ended,
    why_it_waited,
)
from rerail.collectors.sources.slurm_nodes import SLOTS, NodeFacts, condition_of
from rerail.collectors.sources.slurm_records import Job, NodeEvent, joined
from rerail.collectors.sources.slurm_words import ENDED, RUNNING, SECOND, WAITING
from rerail.server.core.codec import canonical
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Fact,
    Initiator,
    NodeCondition,
    Outcome,
    RunEnded,
    SchedulerState,
    Scope,
)

QUEUED, STARTED, RUNS, SAID, STEPS, LEFT, ENDS, RUN_ENDS = 0, 1, 2, 8, 9, 20, 21, 22
AFTER_NS = 60 * SECOND

FOLLOWED_NS = 600 * SECOND
"""How long after its last job a run that is followed is taken to have ended: it may be submitted again."""

KEPT_NODES_NS = 86_400 * SECOND
"""How long it is remembered which nodes a job had, for what is told of them late."""

MOST_KEPT = 20_000
"""Incarnations and node events remembered; the oldest are forgotten first."""

OUTCOMES = {
    "COMPLETED": Outcome.COMPLETED, "PREEMPTED": Outcome.PREEMPTED, "CANCELLED": Outcome.STOPPED,
    "REQUEUED": None, "REVOKED": None,
}  # fmt: skip
INITIATORS = {
    "PREEMPTED": Initiator.SCHEDULER, "TIMEOUT": Initiator.SCHEDULER, "DEADLINE": Initiator.SCHEDULER,
    "REQUEUED": Initiator.OPERATOR, "CANCELLED": Initiator.OPERATOR, "COMPLETED": None, "REVOKED": Initiator.SCHEDULER,
}  # fmt: skip
MAY_BE_THE_NODE = frozenset({"BOOT_FAIL", "FAILED", "NODE_FAIL", "TIMEOUT"})
"""Ends that a node may have caused of which Slurm learns a little later."""

NEWS = ENDED - {"COMPLETED", "REVOKED"}
"""Ends that need an explanation."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Which run a job belongs to."""

    run: str | None = None
    """All jobs are of this run."""
    told_by: str = "name"
    """Else: `name`, `comment`, `account`, `partition`, `user`, `wckey` or `job`."""

    def run_of(self, job: Job) -> str | None:
        """The run of a job; None where what would tell it is not known."""
        if self.run is not None:
            return self.run
        if self.told_by == "job":
            return f"job-{job.job}"
        return (job.name if self.told_by == "name" else job.labels.get(self.told_by)) or None


class SlurmFacts:
    """States facts from records. `memory` is plain JSON data, changed in place."""

    def __init__(self, memory: dict[str, Any] | None = None, naming: Naming | None = None) -> None:
        self.memory = memory if memory is not None else {}
        self._naming = naming or Naming()
        self._jobs: dict[str, dict[str, Any]] = self.memory.setdefault("jobs", {})
        """`job` → `{"run", "lives": {submit second: {"n", "start", "end", "state", "nodes", "told"}}}`."""
        self._nodes = NodeFacts(self.memory.setdefault("nodes", {}))
        self._of_run: dict[str, set[str]] = {}
        for name, job in self._jobs.items():
            self._of_run.setdefault(job["run"], set()).add(name)
        self._holding: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self._completed: list[tuple[int, dict[str, Any], int, dict[str, Any]]] = []
        self.facts: list[Fact] = []

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs with a job that waits or runs, or of which the last job ended and the run did not."""
        return tuple(sorted(run for run in self._of_run if self._is_open(run) or self._last_end(run) is not None))

    def open_since(self) -> list[int]:
        """When each incarnation that is not over was submitted or requeued, in ns."""
        return [
            int(second) * SECOND
            for job in self._jobs.values()
            for second, life in job["lives"].items()
            if not life.get("end")
        ]

    def take(self, jobs: Iterable[Job], events: Iterable[NodeEvent] = (), *, as_of: int | None = None) -> list[Fact]:
        """The facts that these records state and that were not stated before, in order of time for each run.

        `as_of`: when the cluster was looked at, in ns; None: records of an instant that nobody knows.
        """
        self.facts = []
        ordered = sorted(
            joined(jobs), key=lambda each: (each.submit or each.start or 0, each.restarts or 0, each.state in ENDED)
        )
        for job in as_they_ended(ordered):
            self._take_job(job)
        for at, life, second, common in self._completed:
            if self._is_last(at, life, common["run"]):
                self._say(RunEnded, life, second, RUN_ENDS, at, common, outcome=Outcome.COMPLETED)
        self._completed = []
        self._holding = {}
        for name, known in self._jobs.items():
            for life in known["lives"].values():
                for node in life.get("nodes", ()):
                    self._holding.setdefault(node, []).append((name, life))
        events = list(events)
        for event in sorted(events, key=lambda each: (each.start or 0, each.node)):
            self._take_event(event)
        if as_of is not None:
            self._nodes.came_back(
                {each.node for each in events if each.is_shown and condition_of(each.state) is NodeCondition.READY},
                as_of,
            )
        self._forget()
        facts, self.facts, self._nodes.facts = [*self.facts, *self._nodes.facts], [], []
        return sorted(facts, key=lambda fact: (fact.run, fact.at, fact.emitter, fact.seq))

    def ends_of_runs(self, now: int) -> list[Fact]:
        """The end of each run whose last job ended a while ago, where nothing of it waits or runs: asked behind a look
        that saw the queue. Each is stated once."""
        self.facts = []
        for run in sorted(self._of_run):
            last = None if self._is_open(run) else self._last_end(run)
            if last is None:
                continue
            end, second, name, life = last
            outcome = OUTCOMES.get(life["state"], Outcome.FAILED)
            if is_last_end(outcome, end, now=now, least=FOLLOWED_NS):
                common = {"run": run, "emitter": f"slurm/job/{name}"[:200], "job": name}
                self._say(RunEnded, life, second, RUN_ENDS, end, common, outcome=outcome, reason=LAST_JOB)
        facts, self.facts = self.facts, []
        return facts

    def _is_open(self, run: str) -> bool:
        """Whether a job of the run waits or runs."""
        return any(not life.get("end") for life in self._lives_of(run))

    def _last_end(self, run: str) -> tuple[int, int, str, dict[str, Any]] | None:
        """`(end, submit second, job, its life)` of the run's job that had nodes and ended last; None where there was
        none, or where the run was told to have ended with it."""
        lives = [
            (life["end"], int(second), name, life)
            for name in self._of_run.get(run, ())
            if name in self._jobs
            for second, life in self._jobs[name]["lives"].items()
            if ENDS in life["told"] and life.get("end")
        ]
        last = max(lives, key=lambda each: each[:3], default=None)
        return None if last is None or RUN_ENDS in last[3]["told"] else last

    # --- jobs ---

    def _take_job(self, job: Job) -> None:
        run = self._naming.run_of(job)
        submit = job.submit or job.start
        if run is None or submit is None:
            return
        run = run[:200]
        known = self._jobs.setdefault(job.job, {"run": run, "lives": {}})
        self._of_run.setdefault(known["run"], set()).add(job.job)
        second = str(submit // SECOND)
        life = known["lives"].get(second)
        if life is None:
            earlier = [each["n"] for at, each in known["lives"].items() if int(at) < int(second)]
            count = job.restarts if job.restarts is not None else max(earlier, default=-1) + 1
            life = known["lives"][second] = {"n": count, "told": []}
        elif job.restarts is not None and not life["told"]:
            life["n"] = job.restarts
        common = {"run": known["run"], "emitter": f"slurm/job/{job.job}"[:200], "job": job.job}
        if life.get("end") and ENDS in life["told"] and not (job.state == "COMPLETED" and RUN_ENDS not in life["told"]):
            self._steps(job, life, int(second), common)  # accounting may tell of them later than the queue of the end
            return
        life["state"] = job.state
        self._queue(job, life, int(second), common)
        if job.start is not None and job.state in RUNNING | ENDED:
            life["start"] = job.start
            if job.nodes:
                life["nodes"] = list(job.nodes[:4096])
            self._start(job, life, int(second), common)
            self._switch(job, life, common)
        if job.state in ENDED:
            life["end"] = job.end or job.start or submit
            self._end(job, life, int(second), common)

    def _queue(self, job: Job, life: dict[str, Any], second: int, common: dict[str, Any]) -> None:
        is_again = life["n"] > 0
        since = job.submit if is_again else job.eligible
        if since is None or (job.state in ENDED and job.start is None):
            return
        since = max(since, job.submit or since)
        others = self._others(common["run"], job.job, job.start)
        if any(end is None or (job.start is not None and end > job.start) for end in others):
            return  # another job of the run still has its nodes
        since = max([since, *(end for end in others if end is not None)])
        if job.start is not None and since >= job.start:
            return
        if job.start is None and job.state not in WAITING:
            return
        self._say(SchedulerState, life, second, QUEUED, since, common, state="queued", reason=why_it_waited(job))

    def _others(self, run: str, job: str, before: int | None) -> list[int | None]:
        """When the run's other jobs that began (before an instant) let go of their nodes; None: not yet."""
        return [
            life.get("end")
            for name in self._of_run.get(run, ())
            if name != job and name in self._jobs
            for life in self._jobs[name]["lives"].values()
            if life.get("start") is not None and (before is None or life["start"] < before)
        ]

    def _start(self, job: Job, life: dict[str, Any], second: int, common: dict[str, Any]) -> None:
        assert job.start is not None
        if STARTED in life["told"]:
            return
        before = self._before(job, life, common["run"])
        scope = Scope.REQUEUE if life["n"] > 0 else Scope.RESUBMIT if before is not None else None
        initiator = None if before is None else INITIATORS.get(before, Initiator.FAULT)
        # Equal instants are told apart by `seq`: what ends stands before what begins.
        self._say(SchedulerState, life, second, RUNS, job.start, common, state="running")
        self._say(
            AttemptStarted,
            life,
            second,
            STARTED,
            job.start,
            common,
            requeue=life["n"],
            scope=scope,
            initiator=initiator,
            gpus=job.gpus,
            nodes=job.nodes,
            config=None if job.limit is None else canonical({"slurm_time_limit": job.limit}),
        )

    def _switch(self, job: Job, life: dict[str, Any], common: dict[str, Any]) -> None:
        """It was suspended, or goes on. What it was before that is seen only by who looked then."""
        is_suspended = job.state == "SUSPENDED"
        if (
            job.switched is None
            or job.switched <= (job.start or 0)
            or (job.end is not None and job.switched >= job.end)
        ):
            return
        if is_suspended == life.get("suspended", False) or job.switched == life.get("switched"):
            return
        life["suspended"], life["switched"] = is_suspended, job.switched
        self.facts.append(
            SchedulerState(
                run=common["run"], emitter=f"{common['emitter']}/suspension"[:200],
                seq=job.switched // SECOND * 2 + (not is_suspended), at=job.switched, job=job.job,
                state="suspended" if is_suspended else "running",
            )
        )  # fmt: skip

    def _before(self, job: Job, life: Mapping[str, Any], run: str) -> str | None:
        """How the incarnation of the run that had nodes last before this one ended; None where there was none."""
        assert job.start is not None
        ended = [
            (each.get("end") or each["start"], each["state"])
            for each in self._lives_of(run)
            if each is not life and each.get("start") is not None and each["start"] < job.start
        ]
        return max(ended)[1] if ended else None

    def _end(self, job: Job, life: dict[str, Any], second: int, common: dict[str, Any]) -> None:
        at = life["end"]
        words = masked(end_words(job))
        self._say(SchedulerState, life, second, SAID, at, common, state=job.state.lower(), reason=why_it_ended(job))
        node = job.failed_node or (job.nodes[0] if len(job.nodes) == 1 else None)
        if job.start is None and job.state == "CANCELLED":
            return  # it never had a node: nothing of the run ended by it
        if job.state in NEWS:
            attributes = {"state": job.state, "nodes": ",".join(job.nodes)[:2000]}
            self._say(
                Evidence, life, second, STEPS, at, common, source="slurm", text=words, code=job.state,
                node=node, attributes=tuple(sorted((key, value) for key, value in attributes.items() if value)),
            )  # fmt: skip
            self._steps(job, life, second, common)
        if job.start is None:
            return
        is_oom = is_out_of_memory(job)
        code = exit_code(job, is_oom)
        if job.state in ("FAILED", "OUT_OF_MEMORY") and code is not None:
            self._say(
                Exit, life, second, LEFT, at, common, exit_code=code, signal=-code if code < 0 else None,
                oom_killed=True if is_oom else None, node=node,
            )  # fmt: skip
        outcome = OUTCOMES.get(job.state, Outcome.FAILED)
        self._say(AttemptEnded, life, second, ENDS, at, common, outcome=outcome, reason=words)
        if job.state == "COMPLETED":
            self._completed.append((at, life, second, common))

    def _steps(self, job: Job, life: dict[str, Any], second: int, common: dict[str, Any]) -> None:
        """What steps of a job that is over say beyond the job."""
        if job.state not in NEWS:
            return
        for index, step in enumerate(telling_steps(job)):
            text = f"StepId={job.job}.{step.name} State={step.state} NodeList={','.join(step.nodes)[:400]}"
            self._say(
                Evidence, life, second, STEPS + 1 + index, step.end or life["end"], common, source="slurm", text=text,
                code=step.state, node=step.nodes[0] if len(step.nodes) == 1 else None,
            )  # fmt: skip

    def _is_last(self, end: int, life: Mapping[str, Any], run: str) -> bool:
        """No other job of the run waits or runs, or ended later."""
        others = (each for each in self._lives_of(run) if each is not life)
        return not any(each.get("end") is None or each["end"] > end for each in others)

    def _lives_of(self, run: str) -> Iterator[dict[str, Any]]:
        for name in self._of_run.get(run, ()):
            if name in self._jobs:
                yield from self._jobs[name]["lives"].values()

    # --- nodes ---

    def _take_event(self, event: NodeEvent) -> None:
        condition = condition_of(event.state)
        if not event.node or event.start is None or condition is NodeCondition.READY:
            return
        for job, life in self._holding.get(event.node, ()):
            slack = AFTER_NS if life["state"] in MAY_BE_THE_NODE else 0
            if condition is NodeCondition.LOST and life["state"] == "FAILED" and event.node == life["nodes"][0]:
                slack = 0  # its first node told how the script ended: it was still there
            if life["start"] <= event.start <= (life.get("end") or event.start) + slack:
                self._nodes.tell(event, condition, self._jobs[job]["run"], job)
        if self._naming.run is not None and not self._jobs:
            self._nodes.tell(event, condition, self._naming.run[:200], None)

    # --- stating ---

    def _say(
        self, kind: type[Any], life: dict[str, Any], second: int, slot: int, at: int, common: Mapping[str, Any],
        **told: Any,
    ) -> None:  # fmt: skip
        """State something of an incarnation, once."""
        if slot in life["told"]:
            return
        life["told"].append(slot)
        self.facts.append(kind(**common, seq=second * SLOTS + slot, at=at, **told))

    def _forget(self) -> None:
        """Let go of the oldest that are over, where too much is remembered."""
        count = sum(len(job["lives"]) for job in self._jobs.values())
        if count > MOST_KEPT:
            over = sorted(
                (max(life.get("end") or 0 for life in job["lives"].values()), name)
                for name, job in self._jobs.items()
                if all(life.get("end") for life in job["lives"].values())
            )
            for _, name in over[: count - MOST_KEPT]:
                del self._jobs[name]
        newest = max((life.get("end") or 0 for job in self._jobs.values() for life in job["lives"].values()), default=0)
        for job in self._jobs.values():
            for life in job["lives"].values():
                if life.get("nodes") and life.get("end") and life["end"] + KEPT_NODES_NS < newest:
                    del life["nodes"]
        self._nodes.forget(MOST_KEPT)
