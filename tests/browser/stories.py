"""Stories for the browser tests: runs as facts, written by hand so that a test knows what must be on the page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

SECOND = 1_000_000_000


@dataclass(slots=True)
class RunStory:
    """Facts of one run, told in order. `clock` is where the story stands."""

    run: str
    clock: int
    emitter: str = "rank/node00/0/boot"
    facts: list[dict[str, object]] = field(default_factory=list)
    restart: int = 0
    step: int = 0

    def say(self, kind: str, **fields: object) -> RunStory:
        """State one fact at the clock."""
        at = fields.pop("at", self.clock)
        fact = {"kind": kind, "run": self.run, "emitter": self.emitter, "seq": len(self.facts), "at": at}
        self.facts.append(fact | {"restart": self.restart} | fields)
        return self

    def begin(self, **fields: object) -> RunStory:
        """The run exists."""
        return self.say("run_started", **fields)

    def attempt(self, forming: int = 8, loading: int = 0, starting: int = 30, **fields: object) -> RunStory:
        """An attempt that forms, starts, and loads the checkpoint of `self.step` where there is one."""
        self.say("attempt_started", **fields)
        self.say("recovery_mark", stage="rendezvous_started").wait(forming)
        self.say("recovery_mark", stage="rendezvous_completed").wait(starting)
        self.say("recovery_mark", stage="initialized")
        if loading:
            start = self.clock
            self.wait(loading).say("checkpoint_loaded", step=self.step, start=start, end=self.clock)
        return self

    def steps(self, count: int, milliseconds: int = 1000) -> RunStory:
        """`count` steps after the one the run stands at."""
        start = self.clock
        self.clock += count * milliseconds * 1_000_000
        self.say(
            "steps", first_step=self.step + 1, start=start, durations_us=[milliseconds * 1000] * count
        )  # fmt: skip
        self.step += count
        return self

    def save(self, blocked: int = 4, writing: int = 40, **fields: object) -> RunStory:
        """A checkpoint that blocks, and is durable while the next steps run."""
        name = f"step-{self.step}"
        common = {"step": self.step, "checkpoint": name, "mode": "async", "tier": "global", **fields}
        start = self.clock
        self.say("checkpoint", stage="started", **common)
        self.wait(blocked).say("phase", phase="saving", start=start, end=self.clock)
        self.say("checkpoint", stage="captured", blocked_us=blocked * 1_000_000, **common)
        self.say("checkpoint", stage="durable", at=self.clock + writing * SECOND, bytes=41_000_000_000, **common)
        return self

    def die(self, unnoticed: int, text: str, exit_code: int = 1, rank: int = 0, stopping: int = 12) -> RunStory:
        """A fault that is noticed after a while, with a line of evidence and an exit code."""
        self.wait(unnoticed)
        self.say("evidence", source="stderr", text=text, rank=rank, node=f"node{rank // 8:02d}", at=self.clock - SECOND)
        self.say("recovery_mark", stage="noticed", by="agent").wait(stopping)
        self.say("exit", exit_code=exit_code, rank=rank)
        self.say("recovery_mark", stage="workers_gone")
        self.say("attempt_ended", outcome="failed", exit_codes={str(rank): exit_code})
        self.restart += 1
        return self

    def back_to(self, step: int) -> RunStory:
        """The next attempt resumes from `step`."""
        self.step = step
        return self

    def beat(self, seconds: int, gap: int = 2, timeout: int = 600) -> RunStory:
        """Heartbeats of rank 0 over the last `seconds`."""
        return self.say(
            "heartbeats",
            rank=0,
            start=self.clock - seconds * SECOND,
            end=self.clock,
            count=seconds // gap,
            max_gap_us=gap * 1_000_000,
            phase="training",
            armed_timeout_us=timeout * 1_000_000,
        )

    def wait(self, seconds: int) -> RunStory:
        """Time passes."""
        self.clock += seconds * SECOND
        return self

    def end(self, outcome: str = "completed") -> RunStory:
        """Nothing more will come."""
        self.say("attempt_ended", outcome=outcome)
        return self.say("run_ended", outcome=outcome)

    def lines(self) -> str:
        """The facts as one batch."""
        return "\n".join(json.dumps(fact) for fact in self.facts)


def two_faults(run: str, start: int, **about: object) -> RunStory:
    """A run of about an hour with two faults, rework, saves and an end."""
    config = {"checkpoint_interval": 300, "max_restarts": 3}
    story = RunStory(run, start).begin(gpus=64, world_size=64, target_step=2400, **about)
    story.attempt(scope=None, gpus=64, world_size=64, config=config)
    story.steps(300).save().steps(300).save().steps(180)
    story.die(90, "RuntimeError: NCCL communicator was aborted on rank 3", rank=3).wait(20).back_to(600)
    story.attempt(scope="in_job", initiator="fault", gpus=64, world_size=64, loading=15, config=config)
    story.steps(300).save().steps(300).save().steps(60).beat(60)
    story.die(240, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", exit_code=-9, rank=9)
    story.wait(40).back_to(1200)
    story.attempt(
        scope="in_job", initiator="fault", gpus=64, world_size=64, loading=15, config=config | {"max_restarts": 5}
    )
    return story.steps(400).save().steps(400).save().steps(400).save(writing=1).wait(2)


def finished(run: str, start: int, **about: object) -> RunStory:
    """`two_faults`, over."""
    return two_faults(run, start, **about).end()


def many_spans(run: str, start: int, rounds: int = 1200) -> RunStory:
    """A run with more spans than are drawn exactly: a short save after every few steps."""
    story = RunStory(run, start).begin(gpus=8).attempt(gpus=8)
    for _ in range(rounds):
        story.steps(10).save(blocked=2, writing=5)
    return story.end()
