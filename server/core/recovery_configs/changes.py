"""Changes: what differs from one recovery config to the next, found by themselves.

Rules
- Successive stretches of one run, and the last stretch of one run and the first of the next of the same project and
  name, are compared; runs without a name and project have no predecessor. Runs are ordered by their start, then id.
- A change is a knob that both sides know and that differs. What only one side tells is listed apart: nothing says that
  it was different before.
- Stretches of which nothing was told are stepped over.
- A change is named by where it took effect: `run@attempt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

from rerail.server.core.recovery_configs.knobs import RecoveryConfig, Setting
from rerail.server.core.recovery_configs.stretches import Stretch


@dataclass(frozen=True, slots=True)
class KnobChange:
    """One knob on both sides; `old` or `new` is unknown where only one side tells it."""

    name: str
    old: Setting
    new: Setting

    @property
    def is_told_by_both(self) -> bool:
        """It is known to have changed."""
        return self.old.is_known and self.new.is_known


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """From one config to the next."""

    change_id: str
    run_id: str
    attempt: int
    at: int
    before_run: str
    """The same run, or the one before it of the same project and name."""
    before_attempt: int
    before: str
    """Fingerprint of the old config."""
    after: str
    initiator: str | None
    """Who asked for the restart that brought it; None where nobody said."""
    knobs: tuple[KnobChange, ...]
    """Known to have changed."""
    told_apart: tuple[KnobChange, ...]
    """Known on one side only."""
    project: str | None = None
    name: str | None = None

    @property
    def is_between_runs(self) -> bool:
        """It came with a new run."""
        return self.before_run != self.run_id


def difference(old: RecoveryConfig, new: RecoveryConfig) -> tuple[KnobChange, ...]:
    """Every knob that differs, in the order of the knobs."""
    return tuple(
        KnobChange(before.name, before, after)
        for before, after in zip(old.settings, new.settings, strict=True)
        if before.value != after.value
    )


class Placed(Protocol):
    """As much of a stretch as says what it follows: a stretch, or its place alone."""

    @property
    def run_id(self) -> str:
        """Whose it is."""

    @property
    def number(self) -> int:
        """Which of its run."""

    @property
    def fingerprint(self) -> str | None:
        """Of its config; None where nothing was told."""

    @property
    def first_attempt(self) -> int:
        """Where it began."""

    @property
    def started_at(self) -> int:
        """When it began."""

    @property
    def project(self) -> str | None:
        """Of its run."""

    @property
    def name(self) -> str | None:
        """Of its run."""


Place = TypeVar("Place", bound=Placed)


def changes(found: Iterable[Stretch]) -> tuple[ConfigChange, ...]:
    """The changes among stretches of any runs, newest first."""
    told = (stretch for stretch in found if stretch.config is not None)
    return tuple(change_between(before, after) for before, after in successions(told))


def successions(found: Iterable[Place]) -> tuple[tuple[Place, Place], ...]:
    """Where one config follows another among stretches of any runs: `(before, after)`, the newest first."""
    lines: dict[tuple[str, str, str], list[Place]] = {}
    for stretch in found:
        if stretch.fingerprint is not None:
            lines.setdefault(_line(stretch), []).append(stretch)
    made = [pair for line in lines.values() for pair in _along(line)]
    made.sort(key=lambda pair: (-pair[1].started_at, change_id(pair[1])))
    return tuple(made)


def change_id(after: Placed) -> str:
    """What the change to a stretch is called."""
    return f"{after.run_id}@{after.first_attempt}"


def change_between(before: Stretch, after: Stretch) -> ConfigChange:
    """What changed from one stretch to the one that follows it. Raises ValueError where one of them told nothing."""
    if before.config is None or after.config is None:
        raise ValueError(f"{change_id(after)}: a stretch without a config has no change")
    differing = difference(before.config, after.config)
    return ConfigChange(
        change_id=change_id(after),
        run_id=after.run_id,
        attempt=after.first_attempt,
        at=after.started_at,
        before_run=before.run_id,
        before_attempt=before.last_attempt,
        before=before.fingerprint or "",
        after=after.fingerprint or "",
        initiator=after.initiator,
        knobs=tuple(each for each in differing if each.is_told_by_both),
        told_apart=tuple(each for each in differing if not each.is_told_by_both),
        project=after.project,
        name=after.name,
    )


def _line(stretch: Placed) -> tuple[str, str, str]:
    """What belongs together: the runs of a project that have the same name, else the run alone."""
    if stretch.project and stretch.name:
        return "runs", stretch.project, stretch.name
    return "run", stretch.run_id, ""


def _along(line: Sequence[Place]) -> Iterable[tuple[Place, Place]]:
    began: dict[str, int] = {}
    for stretch in line:
        began[stretch.run_id] = min(stretch.started_at, began.get(stretch.run_id, stretch.started_at))
    ordered = sorted(line, key=lambda each: (began[each.run_id], each.run_id, each.number))
    for before, after in pairwise(ordered):
        if before.fingerprint != after.fingerprint:
            yield before, after
