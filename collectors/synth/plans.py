"""Plans of synthetic runs: how large, how long, how often interrupted, and what is to be seen of them at the end.

Rules
- A plan says everything its facts depend on; the seed of a run is made of the seed of the fleet and the run's name.
- Emitters fold what grows: the longer a run and the more ranks, the longer the windows of its heartbeats and blocks of
  its steps, as agents on real nodes do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
GPUS_PER_NODE = 8


class Ending(StrEnum):
    """What is to be seen of a run at the end of the story."""

    ALIVE = "alive"
    SILENT = "silent"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything one synthetic run is made from. Lengths in ns unless they say otherwise."""

    run: str
    seed: str
    begin: int
    end: int
    """The last instant anything is told of."""
    ranks: int
    faults: int
    ending: Ending
    step_ns: int
    block_ns: int
    """Steps of about so long are told as one fact."""
    save_every_ns: int
    evaluate_every_ns: int
    beat_window_ns: int
    """Heartbeats are folded over so long."""
    ranks_per_beat: int
    """Ranks that one fold of heartbeats stands for: a rack or a node."""
    name: str
    project: str
    model: str


def large_run(seed: int, ranks: int, days: float, faults: int, end: int) -> RunPlan:
    """One run with everything: alive at `end`, as old as `days`. Raises ValueError where a size makes no sense."""
    _check("--ranks", ranks, 1, 1_000_000)
    _check("--faults", faults, 0, 100_000)
    _check("--days", days, 0.01, 3650)
    length = round(days * DAY)
    return RunPlan(
        run=f"synth-{seed}-large",
        seed=f"{seed}/large",
        begin=end - length,
        end=end,
        ranks=ranks,
        faults=faults,
        ending=Ending.ALIVE,
        step_ns=9_400_000_000,
        block_ns=60 * SECOND,
        save_every_ns=1800 * SECOND,
        evaluate_every_ns=6 * 3600 * SECOND,
        beat_window_ns=3600 * SECOND,
        ranks_per_beat=512,
        name=f"pretraining on {ranks:,} GPUs",
        project="foundation",
        model="405b",
    )


def fleet(seed: int, runs: int, end: int) -> Iterator[RunPlan]:
    """So many runs of every length, size and ending up to `end`. Raises ValueError for a number that makes no sense."""
    _check("--runs", runs, 0, 1_000_000)
    for number in range(1, runs + 1):
        yield _one_of_a_fleet(seed, number, end)


def _one_of_a_fleet(seed: int, number: int, end: int) -> RunPlan:
    own = f"{seed}/{number}"
    random = Random(own)
    endings, weights = zip(*_ENDINGS, strict=True)
    ending = random.choices(endings, weights)[0]
    length = round(3600 * SECOND * 10 ** random.uniform(-0.5, 2.4))
    since = 0 if ending is Ending.ALIVE else round(random.uniform(1 / 24, 28) * DAY)
    ranks = GPUS_PER_NODE * 2 ** random.choices(range(9), (20, 16, 14, 12, 10, 8, 5, 3, 2))[0]
    # A machine of eight GPUs fails every few months; what people do to a run comes on top.
    expected = length / DAY * (0.25 + ranks / 800)
    model = random.choice(("1b", "7b", "13b", "70b", "vision-2b", "moe-8x7b"))
    project = random.choice(("ablations", "alignment", "foundation", "speech", "vision"))
    return RunPlan(
        run=f"synth-{seed}-{number:05d}",
        seed=own,
        begin=end - since - length,
        end=end - since,
        ranks=ranks,
        faults=min(120, _poisson(random, expected)),
        ending=ending,
        step_ns=round(SECOND * 10 ** random.uniform(-0.4, 1.0)),
        block_ns=max(60 * SECOND, length // 300),
        save_every_ns=max(600 * SECOND, length // 60),
        evaluate_every_ns=max(3600 * SECOND, length // 12),
        beat_window_ns=max(300 * SECOND, length // 40),
        ranks_per_beat=512,
        name=f"{model} {random.choice(('baseline', 'longer context', 'new data', 'sweep', 'warm start'))} {number}",
        project=project,
        model=model,
    )


_ENDINGS = (
    (Ending.ALIVE, 8),
    (Ending.SILENT, 4),
    (Ending.COMPLETED, 60),
    (Ending.FAILED, 16),
    (Ending.STOPPED, 12),
)


def _poisson(random: Random, expected: float) -> int:
    """How many events there are where so many are expected."""
    count, passed = 0, random.expovariate(1.0)
    while passed < expected:
        count += 1
        passed += random.expovariate(1.0)
    return count


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} {value:g} is not from {least:g} to {most:g}")
