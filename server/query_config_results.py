"""Results of questions about recovery configs, their changes, and comparisons. Rules as in `query_results.py`."""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.comparison.comparing import Comparison
from rerail.server.core.recovery_configs.change_actions import Said
from rerail.server.core.recovery_configs.changes import ConfigChange, KnobChange
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.nesting import Violation
from rerail.server.core.view import Percentiles


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One recovery config over all runs."""

    fingerprint: str
    config: RecoveryConfig
    violations: tuple[Violation, ...]
    runs: int
    attempts: int
    first_at: int
    last_at: int
    """When the latest attempt under it began."""
    elapsed_ns: int
    training_goodput: float | None
    infrastructure_goodput: float | None
    incidents: int
    recover: Percentiles | None
    restart: Percentiles | None
    contradicted_hangs: int


@dataclass(frozen=True, slots=True)
class ConfigPage:
    """Configs that match; `total` counts all that do."""

    rows: tuple[ConfigRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ConfigUse:
    """A run that trained under a config."""

    run_id: str
    name: str | None
    first_attempt: int
    last_attempt: int
    started_at: int
    ended_at: int | None
    elapsed_ns: int
    training_goodput: float | None
    infrastructure_goodput: float | None


@dataclass(frozen=True, slots=True)
class ConfigView:
    """One config: its settings, who used it, and how it came and went."""

    row: ConfigRow
    uses: tuple[ConfigUse, ...]
    changes: tuple[ChangeRow, ...]
    """That led to it or away from it."""


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """Two configs side by side."""

    first: ConfigRow
    second: ConfigRow
    knobs: tuple[KnobChange, ...]


@dataclass(frozen=True, slots=True)
class ChangeSide:
    """What happened under one side of a change."""

    faults: int
    detecting: Percentiles | None
    recover: Percentiles | None
    lost_per_fault_gpu_ns: int | None
    """GPU·ns from start to end of a fault, on average; None where it is not known of all."""
    contradicted_hangs: int
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change with what people say of it and what happened before and after."""

    change: ConfigChange
    said: Said
    before: ChangeSide
    after: ChangeSide


@dataclass(frozen=True, slots=True)
class FaultAt:
    """Where and when a fault struck."""

    run_id: str
    attempts: tuple[int, ...]
    cause: str
    started_at: int


@dataclass(frozen=True, slots=True)
class ChangeAbout:
    """A change that has to do with an incident or a problem, and why it is listed."""

    row: ChangeRow
    knobs: tuple[KnobChange, ...]
    """Those of its knobs that the cause points at; all of them where people linked it."""
    reason: str
    is_linked: bool
    """People said that the incident or problem argued for it."""
    incidents: int
    """How many of the incidents it came shortly before."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes that match, newest first; `total` counts all that do."""

    rows: tuple[ChangeRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """A comparison, and what could not be made a side of it."""

    wanted: tuple[str, ...]
    comparison: Comparison
