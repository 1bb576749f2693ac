"""Comparing over many incidents: two arms of 500 each, six of 167, and the answer's size.

    python bench/compare.py [incidents]

Made up: one run for each arm, whose recoveries are drawn from lognormal lengths. What is measured is everything between
the views and the JSON: pairing, likeness, intervals by the bootstrap, shaping. Medians of seven tries after
one, by the clock and of CPU time of this process.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time

from rerail.server.api.config_answers import comparison_answer
from rerail.server.core.comparison.arms import LOSSES, Arm, ArmFault
from rerail.server.core.comparison.comparing import compared
from rerail.server.query_config_results import ComparisonView

S = 10**9


def made_up(name: str, faults: int, seed: int) -> Arm:
    """An arm of so many faults."""
    chance = random.Random(seed)
    made = []
    for number in range(faults):
        down = round(chance.lognormvariate(4, 0.6) * S)
        made.append(ArmFault(f"{name}~{number}", name, 100 * number, "crash", down // 4, down, 2 * down, 50, 0, down))
    down_ns = sum(each.cost_ns for each in made)
    losses = {**dict.fromkeys(LOSSES, 0), "faults": down_ns, "rework": down_ns}
    productive = 20 * down_ns
    return Arm(
        f"run:{name}", name, (name,), productive + 2 * down_ns, productive, down_ns, tuple(losses.items()), tuple(made),
        100 * faults, None, None, (64,), (100 * faults,),
    )  # fmt: skip


def main() -> None:
    """Measure and print."""
    incidents = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for arms in (2, 6):
        sides = [made_up(f"arm{number}", incidents // arms, number) for number in range(arms)]
        tries, worked = [], []
        for _ in range(8):
            began, cpu = time.perf_counter(), time.process_time()
            view = ComparisonView(tuple(each.key for each in sides), compared(sides))
            size = len(json.dumps(comparison_answer(view)))
            tries.append(time.perf_counter() - began)
            worked.append(time.process_time() - cpu)
        spent, own = statistics.median(tries[1:]) * 1000, statistics.median(worked[1:]) * 1000
        print(
            f"{arms} arms, {incidents} incidents: {spent:.0f} ms by the clock, {own:.0f} ms of CPU, "
            f"{size / 1000:.0f} kB of JSON"
        )


if __name__ == "__main__":
    main()
