"""Config rows: what the store answers of recovery configs, and the promises of that part.

Promises
- Stretches are saved with their run's view, in one transaction; they are derived and made anew by a replay.
- What people say of a change is appended and never edited, and no replay touches it. `say` judges under the lock that
  every other action takes, so that two people cannot act on the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rerail.server.core.recovery_configs.change_actions import ChangeAction
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.stretches import Stretch


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """An unplanned incident, as far as configs are judged by it."""

    incident_id: str
    config: str | None
    started_at: int
    cause: str
    detecting_ns: int | None
    restart_ns: int
    recover_ns: int | None
    """None while the ground is not regained."""
    lost_gpu_ns: int | None


@dataclass(frozen=True, slots=True)
class StretchPlace:
    """Where a stretch lies and under which config, without anything that happened in it."""

    run_id: str
    number: int
    fingerprint: str | None
    first_attempt: int
    started_at: int
    project: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class StretchFigures:
    """A stretch as far as sums and lists need it: everything but its config. Fields as in `Stretch`."""

    run_id: str
    number: int
    fingerprint: str | None
    first_attempt: int
    last_attempt: int
    started_at: int
    ended_at: int | None
    elapsed_ns: int
    productive_ns: int
    faults_ns: int
    kept_steps: int
    contradicted_hangs: int
    sees_training: bool = True
    project: str | None = None
    name: str | None = None

    @property
    def attempts(self) -> int:
        """How many."""
        return self.last_attempt - self.first_attempt + 1


class ConfigStore(Protocol):
    """See the promises above."""

    def stretches(self, runs: Sequence[str]) -> tuple[Stretch, ...]:
        """Stretches of some runs, whole; by run and number."""

    def figures(self, fingerprints: Sequence[str] | None = None) -> tuple[StretchFigures, ...]:
        """Stretches under some configs, or of all runs, without their configs; by run and number."""

    def newest(self, limit: int) -> tuple[str, ...]:
        """Fingerprints of the configs used last, at most so many."""

    def places(self, run: str | None = None, project: str | None = None) -> tuple[StretchPlace, ...]:
        """Where stretches lie: of all runs, of a project, or of a run and those of the same project and name."""

    def configs(self, fingerprints: Sequence[str]) -> dict[str, RecoveryConfig]:
        """Configs as the newest stretch under each told them; a fingerprint that nobody used is left out."""

    def lines_of(self, run: str) -> tuple[Stretch, ...]:
        """Stretches of a run and of the runs of the same project and name."""

    def faults(self, fingerprints: Sequence[str]) -> tuple[ConfigFault, ...]:
        """Unplanned incidents under some configs, by their start."""

    def faults_of_runs(self, runs: Sequence[str]) -> tuple[ConfigFault, ...]:
        """Unplanned incidents of some runs under whatever config, by their start."""

    def fault_counts(self) -> dict[str, int]:
        """How many unplanned incidents began under each config that had one."""

    def actions(self, change_ids: Sequence[str] | None = None) -> tuple[ChangeAction, ...]:
        """What people said of some changes, or of all; in order."""

    def changes_about(self, target: str) -> tuple[ChangeAction, ...]:
        """Links to one incident or problem, whether or not they were undone."""

    def say(self, judge: Callable[[Sequence[ChangeAction]], ChangeAction]) -> ChangeAction:
        """Append the action that `judge` makes of all before it; it gets its number here."""
