"""Faults of synthetic runs: how each kind shows itself, how long it hides, and what has to be restarted after it.

Rules
- The words are those that PyTorch, launchers, kernels and schedulers print, so that the real cause rules judge them.
- Weights follow what large published runs report: machines and GPUs first, then software, then the scheduler.
- A cascade comes with its origin: other ranks complain of connections a moment after the one that died.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from rerail.server.core.facts import Scope


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rank and node a fault happens at."""

    rank: int
    local_rank: int
    node: str


@dataclass(frozen=True, slots=True)
class Printed:
    """One piece of evidence, so many seconds after the fault; `is_neighbour` where another rank printed it."""

    after_seconds: float
    source: str
    text: str
    is_neighbour: bool = False


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One way to be interrupted."""

    name: str
    weight: int
    detection_seconds: tuple[float, float]
    """How long until somebody notices, from and to."""
    noticed_by: str
    exit_code: int | None
    """Of the culprit; None where it tells none (its machine is gone, or it was stopped in an orderly way)."""
    scope: Scope
    prints: Callable[[Culprit, Random], tuple[Printed, ...]]
    loses_node: bool = False
    scheduler_state: str | None = None
    is_planned: bool = False


def _nothing(_culprit: Culprit, _random: Random) -> tuple[Printed, ...]:
    return ()


def _echo(after_seconds: float) -> Printed:
    text = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
    return Printed(after_seconds, "stderr", text, is_neighbour=True)


def _exception(culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    lines = (
        "ValueError: loss is nan at micro-batch {}",
        "RuntimeError: DataLoader worker (pid {}) exited unexpectedly",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-{:05d}.bin'",
        "AssertionError: gradient norm of bucket {} differs between replicas",
    )
    text = random.choice(lines).format(random.randrange(1, 40_000))
    traceback = f'Traceback (most recent call last):\n  File "train.py", line 412, in train_step\n{text}'
    return (Printed(0.2, "stderr", f"[rank{culprit.rank}]: {traceback}"), _echo(2.0))


def _gpu_oom(culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    text = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {random.uniform(0.5, 9):.2f} GiB. "
        f"GPU {culprit.local_rank} has a total capacity of 79.11 GiB of which {random.uniform(9, 400):.2f} MiB is free."
    )
    return (Printed(0.1, "stderr", f"[rank{culprit.rank}]: {text}"), _echo(1.5))


def _collective_hang(culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    sequence = random.randrange(10_000, 900_000)
    text = (
        f"[rank{culprit.rank}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    )
    return (Printed(600.1, "stderr", text),)


def _heartbeat_hang(culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    timeout = random.choice((300, 600, 900))
    text = f"Did not get subsequent heartbeat. Waited {timeout}.00 seconds. rank={culprit.rank}"
    return (Printed(timeout + 1.0, "nvrx", text),)


def _host_oom(_culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    process = random.randrange(2_000, 4_000_000)
    text = f"Memory cgroup out of memory: Killed process {process} (python) total-vm:{random.randrange(9, 90)}0123456kB"
    return (Printed(0.5, "kernel", text), _echo(2.5))


def _crash(culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    address = random.randrange(1 << 40)
    return (Printed(0.1, "kernel", f"python[{culprit.rank}]: segfault at {address:x} in libcuda.so.1"), _echo(2.0))


def _xid(culprit: Culprit, random: Random) -> tuple[Printed, ...]:
    code = random.choice(
        ("79, GPU has fallen off the bus.", "48, DBE (double bit error) ECC Error", "74, NVLink error")
    )
    return (Printed(0.0, "kernel", f"NVRM: Xid (PCI:0000:{culprit.local_rank + 20:02x}:00): {code}"), _echo(3.0))


KINDS = (
    FaultKind("gpu", 30, (5, 40), "xid", None, Scope.REQUEUE, _xid, loses_node=True),
    FaultKind("node", 14, (30, 180), "node lost", None, Scope.REQUEUE, _nothing, loses_node=True),
    FaultKind("exception", 16, (3, 20), "exception", 1, Scope.IN_JOB, _exception),
    FaultKind("gpu_oom", 6, (3, 15), "exception", 1, Scope.IN_JOB, _gpu_oom),
    FaultKind("collective_hang", 9, (601, 640), "watchdog", -6, Scope.IN_JOB, _collective_hang),
    FaultKind("heartbeat_hang", 7, (302, 960), "heartbeat", -9, Scope.IN_JOB, _heartbeat_hang),
    FaultKind("host_oom", 4, (2, 12), "exit", -9, Scope.IN_JOB, _host_oom),
    FaultKind("crash", 5, (2, 12), "exit", -11, Scope.IN_JOB, _crash),
    FaultKind("killed", 3, (2, 10), "exit", -9, Scope.IN_JOB, _nothing),
    FaultKind("preemption", 4, (1, 10), "preempted", -15, Scope.REQUEUE, _nothing, scheduler_state="preempted"),
    FaultKind("operator", 2, (1, 4), "operator", None, Scope.IN_JOB, _nothing, is_planned=True),
)


def draw(random: Random) -> FaultKind:
    """One fault, by its weight."""
    return random.choices(KINDS, [kind.weight for kind in KINDS])[0]
