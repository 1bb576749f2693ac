"""Arms: the sides of a comparison, each one run, all runs of a config, or a published reference.

Rules
- Sums over runs are sums of nanoseconds; shares are made of them at the end.
- A fault is known by the step that it cut off: the one after the last completed one of the interrupted attempt. None
  where no step was completed.
- Of a config only what happened under it counts, also where a run used several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.goodput import WATERFALL
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.stretches import attempt_config, detecting_ns
from rerail.server.core.view import Account, Incident, RunView

FAULT_SCHEDULE = "fault_schedule"
"""The label by which runs say that their faults were planned, and which."""

LOSSES = ("faults", *(name for name, _ in WATERFALL))
"""Rows of the waterfall that are losses, in their order."""


@dataclass(frozen=True, slots=True)
class ArmFault:
    """One unplanned incident of an arm."""

    incident_id: str
    run_id: str
    step: int | None
    cause: str
    detecting_ns: int
    restart_ns: int | None
    """None where no step was completed after it."""
    recover_ns: int | None
    """None while the ground is not regained."""
    lost_steps: int | None
    failed_relaunches: int
    cost_ns: int
    """What its down phases took."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One side."""

    key: str
    """`run:…`, `config:…` or `article:…`."""
    title: str
    runs: tuple[str, ...]
    elapsed_ns: int
    productive_ns: int | None
    """None where nobody speaks for the ranks."""
    faults_ns: int
    losses: tuple[tuple[str, int], ...]
    """By `LOSSES`; with the productive time they sum to the elapsed time."""
    faults: tuple[ArmFault, ...]
    kept_steps: int
    elapsed_gpu_ns: int | None
    config: RecoveryConfig | None
    world_sizes: tuple[int, ...] = ()
    target_steps: tuple[int, ...] = ()
    schedule: str | None = None
    """The planned faults, where every run has the same plan."""
    is_reference: bool = False
    about: str | None = None
    """What must be said of a reference."""

    @property
    def training_goodput(self) -> float | None:
        """Productive ÷ elapsed."""
        return None if self.productive_ns is None or not self.elapsed_ns else self.productive_ns / self.elapsed_ns

    @property
    def infrastructure_goodput(self) -> float | None:
        """1 − faults ÷ elapsed."""
        return 1 - self.faults_ns / self.elapsed_ns if self.elapsed_ns else None

    @property
    def gpu_ns_per_1000_steps(self) -> float | None:
        """GPU·ns per thousand steps kept; None where GPUs are not known or no step was kept."""
        if self.elapsed_gpu_ns is None or not self.kept_steps:
            return None
        return self.elapsed_gpu_ns * 1000 / self.kept_steps

    @property
    def ns_per_1000_steps(self) -> float | None:
        """Time per thousand steps kept."""
        return self.elapsed_ns * 1000 / self.kept_steps if self.kept_steps else None


@dataclass(frozen=True, slots=True)
class ArmPart:
    """What one run adds to an arm."""

    view: RunView
    account: Account
    gpu_account: Account | None
    first_attempt: int
    last_attempt: int
    kept_steps: int


def whole_run(view: RunView) -> ArmPart:
    """All of a run."""
    last = view.attempts[-1].number if view.attempts else 0
    began = view.attempts[0].resumed_from_step if view.attempts else None
    kept = max(0, (view.high_water_step or 0) - (began or 0))
    return ArmPart(view, view.account, view.gpu_account, 0, last, kept)


def arm(key: str, title: str, parts: Sequence[ArmPart], config: RecoveryConfig | None = None) -> Arm:
    """An arm of its parts. `config` None: the one that all of them told, where it is one."""
    sums = dict.fromkeys(LOSSES, 0)
    for part in parts:
        for row in part.account.waterfall:
            if not row.is_total:
                sums[row.name] = sums.get(row.name, 0) + row.length_ns
    gpus = [None if part.gpu_account is None else part.gpu_account.elapsed_ns for part in parts]
    schedules = {dict(part.view.labels).get(FAULT_SCHEDULE) for part in parts}
    worlds = {part.view.world_size for part in parts} - {None}
    targets = {part.view.target_step for part in parts} - {None}
    return Arm(
        key=key,
        title=title,
        runs=tuple(dict.fromkeys(part.view.run_id for part in parts)),
        elapsed_ns=sum(part.account.elapsed_ns for part in parts),
        productive_ns=(
            sum(part.account.productive_ns for part in parts)
            if all(part.view.sees_training for part in parts)
            else None
        ),
        faults_ns=sum(part.account.faults_ns for part in parts),
        losses=tuple((name, sums[name]) for name in sums),
        faults=tuple(fault for part in parts for fault in _faults(part)),
        kept_steps=sum(part.kept_steps for part in parts),
        elapsed_gpu_ns=None if None in gpus else sum(each or 0 for each in gpus),
        config=config or _only_config(parts),
        world_sizes=tuple(sorted(each for each in worlds if each is not None)),
        target_steps=tuple(sorted(each for each in targets if each is not None)),
        schedule=schedules.pop() if len(schedules) == 1 else None,
    )


def _only_config(parts: Sequence[ArmPart]) -> RecoveryConfig | None:
    told = [
        config
        for part in parts
        for attempt in part.view.attempts
        if part.first_attempt <= attempt.number <= part.last_attempt and (config := attempt_config(attempt)) is not None
    ]
    return told[0] if len({config.fingerprint for config in told}) == 1 else None


def _faults(part: ArmPart) -> list[ArmFault]:
    last_steps = {attempt.number: attempt.last_step for attempt in part.view.attempts}
    return [
        _fault(incident, last_steps)
        for incident in part.view.unplanned_incidents
        if part.first_attempt <= incident.attempts[0] <= part.last_attempt
    ]


def _fault(incident: Incident, last_steps: dict[int, int | None]) -> ArmFault:
    last = last_steps.get(incident.attempts[0])
    return ArmFault(
        incident_id=incident.incident_id,
        run_id=incident.run_id,
        step=None if last is None else last + 1,
        cause=incident.verdict.cause,
        detecting_ns=detecting_ns(incident),
        restart_ns=None if incident.restarted_at is None or incident.is_down_untold else incident.time_to_restart_ns,
        recover_ns=None if incident.is_down_untold else incident.time_to_recover_ns,
        lost_steps=incident.lost_steps,
        failed_relaunches=incident.failed_relaunches,
        cost_ns=incident.time_to_restart_ns,
    )
