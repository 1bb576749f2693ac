"""Faults of the demonstration: which rank fails how, at which step; and where a rank that hangs can be asked.

Rules
- The same number of steps gives the same faults: two demonstrations can be compared.
- Each fault happens once: a step that is redone does not fail again, and a restart that fails by itself (that is
  real life too) does not lose one.
- Faults lie well after a checkpoint, so that each costs some ground.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LONGEST_SOCKET = 100
"""Bytes of the path of a unix socket, of 107 that the kernel takes."""

KINDS = ("exception", "sigkill", "hang")


@dataclass(frozen=True, slots=True)
class Fault:
    """`rank` fails while it computes `step`."""

    step: int
    rank: int
    kind: str

    def __str__(self) -> str:
        return f"{self.step}:{self.rank}:{self.kind}"


def schedule(steps: int) -> tuple[Fault, ...]:
    """An exception, a SIGKILL and a hang of rank 1, at 23, 48 and 76 % of the way."""
    return tuple(
        Fault(max(2, steps * part // 1000), 1, kind) for part, kind in zip((230, 476, 756), KINDS, strict=True)
    )


def label(steps: int, faults: tuple[Fault, ...]) -> str:
    """What a run says of its schedule, so that runs under the same one are compared fault by fault."""
    return f"{steps} steps: " + (", ".join(f"{one.kind} of rank {one.rank} at {one.step}" for one in faults) or "none")


def parse(text: str) -> tuple[Fault, ...]:
    """Faults out of `step:rank:kind,…`. Raises ValueError."""
    faults = []
    for word in filter(None, text.split(",")):
        step, rank, kind = word.split(":")
        if kind not in KINDS:
            raise ValueError(f"{kind} is not one of {', '.join(KINDS)}")
        faults.append(Fault(int(step), int(rank), kind))
    return tuple(faults)


def worker_socket(directory: Path, rank: int | str) -> Path:
    """Where a worker answers what it waits for; `*` for a rank is the pattern of all."""
    return directory / f"rank_{rank}.sock"
