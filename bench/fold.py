"""How long a million steps take to fold, and one step more after them.

The peer in the same run is what a fold without memory costs: everything folded again for one more step.
`bench/live_step.py` measures the same with the database in it.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator

from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointMoment,
    CheckpointStage,
    Fact,
    MarkStage,
    Outcome,
    Phase,
    PhaseSpan,
    RecoveryMark,
    RunStarted,
    Steps,
)
from rerail.server.core.fold import RunFold

BEGINNING = 1_760_000_000_000_000_000
SECOND = 1_000_000_000
MOST_PER_FACT = 100


def history(steps: int, faults: int, save_every: int, fall_back: int = 50) -> Iterator[Fact]:
    """A run of so many steps of 0.37 s with jitter, asynchronous saves and evenly spread faults.

    Each fault throws it back by `fall_back` steps, which must be fewer than an attempt has.
    """
    at, step, done = BEGINNING, 1, 0
    per_fact = max(1, min(MOST_PER_FACT, steps // (faults + 1) // 5))
    seqs: dict[str, int] = {}

    def told(kind: type[Fact], emitter: str, **fields: object) -> Fact:
        seqs[emitter] = seqs.get(emitter, -1) + 1
        fields.setdefault("at", at)
        return kind(run="bench", emitter=emitter, seq=seqs[emitter], **fields)  # type: ignore[arg-type]

    yield told(RunStarted, "launcher", gpus=8, world_size=8)
    for attempt in range(faults + 1):
        here = {"job": "job", "requeue": 0, "restart": attempt, "iteration": 0}
        rank = f"rank/node0/0/{attempt}"
        yield told(AttemptStarted, "launcher", **here, gpus=8)
        start = at
        at += 10 * SECOND
        yield told(PhaseSpan, rank, **here, phase=Phase.INITIALIZING, start=start, end=at)
        for index in range(steps // (faults + 1) // per_fact):
            durations = tuple(370_000 + ((done * 7919 + each * 104_729) % 4001) for each in range(per_fact))
            start = at
            at += sum(durations) * 1000
            yield told(Steps, rank, **here, rank=0, first_step=step, start=start, durations_us=durations)
            step += per_fact
            done += per_fact
            if (index + 1) * per_fact % save_every == 0:
                save = {**here, "step": step - 1, "checkpoint": f"step-{step - 1}-{attempt}", "mode": "async"}
                yield told(CheckpointMoment, rank, **save, stage=CheckpointStage.STARTED)
                start = at
                at += SECOND
                yield told(PhaseSpan, rank, **here, phase=Phase.SAVING, start=start, end=at)
                yield told(CheckpointMoment, rank, **save, stage=CheckpointStage.CAPTURED)
                yield told(CheckpointMoment, rank, **save, stage=CheckpointStage.DURABLE, at=at + 4 * SECOND)
        if attempt < faults:
            at += 30 * SECOND
            yield told(RecoveryMark, "launcher", **here, stage=MarkStage.NOTICED, by="hang")
            at += SECOND
            yield told(AttemptEnded, "launcher", **here, outcome=Outcome.FAILED)
            step -= fall_back


def one_more(facts: list[Fact], number: int, current: int) -> Steps:
    """The step after the last, as a fact of its own."""
    last = next(fact for fact in reversed(facts) if isinstance(fact, Steps))
    end = last.start + sum(last.durations_us) * 1000
    return Steps(
        run="bench", emitter=last.emitter, seq=10_000_000 + number, at=end + (number + 1) * 370_000_000,
        job=last.job, requeue=0, restart=last.restart, iteration=0, rank=0, first_step=current + 1,
        start=end + SECOND + number * 370_000_000, durations_us=(370_000,),
    )  # fmt: skip


def measure(steps: int, faults: int, save_every: int) -> None:
    """Print one row."""
    facts = list(history(steps, faults, save_every))
    now = max(fact.at for fact in facts) + 60 * SECOND
    began = time.perf_counter()
    folded = RunFold("bench")
    folded.add(facts)
    view = folded.view(now)
    cold = time.perf_counter() - began
    times = []
    current = view.current_step or 0
    for number in range(30):
        step = one_more(facts, number, current)
        began = time.perf_counter()
        folded.add([step])
        current = folded.view(now + number).current_step or 0
        times.append(time.perf_counter() - began)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{steps:>9,} {faults:>6} {save_every:>10,} {len(facts):>8,} {len(folded.spans):>8,}"
        f" {cold:>9.2f} {statistics.median(times) * 1e3:>9.2f} {max(times) * 1e3:>9.2f}"
        f" {cold / statistics.median(times):>9,.0f} {memory:>8.0f}"
    )


if __name__ == "__main__":
    print("    steps faults save every    facts    spans  cold, s  +1 step, ms (p50, max)  ratio   peak MB")
    for size, fault_count, interval in (
        (1_000, 10, 100), (10_000, 10, 100), (100_000, 10, 1000), (1_000_000, 10, 1000), (1_000_000, 100, 1000),
        (1_000_000, 0, 100),
    ):  # fmt: skip
        measure(size, fault_count, interval)
