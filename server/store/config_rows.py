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


class ConfigStore(Protocol):
    """See the promises above."""

    def stretches(self, fingerprints: Sequence[str] | None = None, run: str | None = None) -> tuple[Stretch, ...]:
        """Stretches of all runs, of some configs, or of one run; by run and number."""

    def lines_of(self, run: str) -> tuple[Stretch, ...]:
        """Stretches of a run and of the runs of the same project and name."""

    def faults(self, fingerprints: Sequence[str] | None = None) -> tuple[ConfigFault, ...]:
        """Unplanned incidents under some configs, or under all; by their start."""

    def actions(self, change_id: str | None = None) -> tuple[ChangeAction, ...]:
        """What people said of one change, or of all; in order."""

    def changes_about(self, target: str) -> tuple[ChangeAction, ...]:
        """Links to one incident or problem, whether or not they were undone."""

    def say(self, judge: Callable[[Sequence[ChangeAction]], ChangeAction]) -> ChangeAction:
        """Append the action that `judge` makes of all before it; it gets its number here."""
