"""Article: a published benchmark of three ways to come back, as reference arms.

What was published (by the vendor; measured by them, not by rerail): training and infrastructure goodput and the wall
time of each arm, under one schedule of five faults (seed 42, at steps 62, 239, 574, 1320 and 1529; a checkpoint every
500 steps; 2,000 steps).

How it was decoded
- 2,000 steps of 0.37 s are 740 s, which is the published training goodput of each wall time: 31 %, 25.5 %, 11.5 %.
- The faults fall back 62, 239, 74, 320 and 29 steps: 724 steps are done again, 268 s in every arm.
- Infrastructure goodput gives the down-time: 62, 82 and 826 s per fault. The 10, 17 and 270 s that are quoted beside it
  are a part of that, not all of it.
- What is left of the wall time is neither down-time nor steps: start-up and checkpoint stalls. The published figures do
  not tell these apart, so the remainder stands in the row of the checkpoints, and is said to hold the start-up too.
"""

from __future__ import annotations

from rerail.server.core.comparison.arms import LOSSES, Arm, ArmFault

SECOND = 1_000_000_000
FAULT_STEPS = (62, 239, 574, 1320, 1529)
ROLLBACKS = (62, 239, 74, 320, 29)
STEP_NS = 370_000_000
TARGET_STEP = 2000
SCHEDULE = "seed 42: faults at steps 62, 239, 574, 1320, 1529"

ABOUT = (
    "as its vendor reported it, decoded from wall time and both goodputs; nothing of it was measured here. Start-up "
    "and checkpoint stalls were not told apart and stand together, and down-time is spread evenly over the five faults."
)


def _arm(name: str, title: str, wall_seconds: int, infrastructure: float) -> Arm:
    elapsed = wall_seconds * SECOND
    productive = TARGET_STEP * STEP_NS
    faults = round(elapsed * (1 - infrastructure))
    rework = sum(ROLLBACKS) * STEP_NS
    losses = dict.fromkeys(LOSSES, 0)
    losses |= {"faults": faults, "rework": rework, "checkpoint": elapsed - productive - faults - rework}
    down = faults // len(FAULT_STEPS)
    return Arm(
        key=f"article:{name}",
        title=title,
        runs=(),
        elapsed_ns=elapsed,
        productive_ns=productive,
        faults_ns=faults,
        losses=tuple(losses.items()),
        faults=tuple(
            ArmFault(
                f"article:{name}~{number}", f"article:{name}", step, "injected", 0, down,
                down + lost * STEP_NS, lost, 0, down,
            )
            for number, (step, lost) in enumerate(zip(FAULT_STEPS, ROLLBACKS, strict=True))
        ),
        kept_steps=TARGET_STEP,
        elapsed_gpu_ns=None,
        config=None,
        target_steps=(TARGET_STEP,),
        schedule=SCHEDULE,
        is_reference=True,
        about=ABOUT,
    )  # fmt: skip


ARTICLE = {
    each.key: each
    for each in (
        _arm("in_process", "article: in-process restart", 2387, 0.87),
        _arm("ft_launcher", "article: ft_launcher", 2902, 0.859),
        _arm("whole_job", "article: whole-job restart", 6435, 0.358),
    )
}
"""The reference arms by their key."""
