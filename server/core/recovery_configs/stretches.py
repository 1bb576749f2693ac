"""Stretches: how long a run trained under which recovery config, and what faults cost meanwhile.

Rules
- A stretch is successive attempts of one run under the same config; its time lasts from its first attempt's start to
  that of the next stretch, so the down-time after a fault belongs to the config that was in force when it struck.
- A stretch that is the whole run has the run's own account, debt included; of several each has its window's, where debt
  has no place.
- Of an attempt that told no settings nothing is known: it is a stretch of its own, without a fingerprint.
- A hang verdict may be *contradicted* (`contradicted.py`): the ranks that were killed may have been healthy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.goodput import account
from rerail.server.core.recovery_configs.contradicted import contradiction
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.normalising import recovery_config
from rerail.server.core.view import Account, Attempt, Incident, RunView, Span


@dataclass(frozen=True, slots=True)
class Stretch:
    """Successive attempts of a run under one config."""

    run_id: str
    number: int
    fingerprint: str | None
    config: RecoveryConfig | None
    """None where nothing was told."""
    first_attempt: int
    last_attempt: int
    started_at: int
    ended_at: int | None
    """None while it goes on."""
    initiator: str | None
    """Who asked for the restart that began it; None for the first or where nobody said."""
    elapsed_ns: int
    productive_ns: int
    faults_ns: int
    elapsed_gpu_ns: int | None
    """None where no GPU number was told, or where it is one of several stretches."""
    kept_steps: int
    """How much higher the high-water step was at its end than at its beginning."""
    contradicted_hangs: int
    """Hang verdicts under it that something later contradicts."""
    sees_training: bool = True
    project: str | None = None
    name: str | None = None

    @property
    def attempts(self) -> int:
        """How many."""
        return self.last_attempt - self.first_attempt + 1

    @property
    def change_id(self) -> str:
        """What a change to this config is called."""
        return f"{self.run_id}@{self.first_attempt}"


def attempt_config(attempt: Attempt) -> RecoveryConfig | None:
    """The config an attempt told."""
    return recovery_config(attempt.config, attempt.launcher, attempt.versions)


def stretches(view: RunView, spans: Sequence[Span]) -> tuple[Stretch, ...]:
    """The stretches of a run, in order; empty before its first attempt. `spans` are the run's."""
    groups: list[list[Attempt]] = []
    configs: list[RecoveryConfig | None] = []
    for attempt in view.attempts:
        config = attempt_config(attempt)
        if groups and _mark(config) == _mark(configs[-1]):
            groups[-1].append(attempt)
        else:
            groups.append([attempt])
            configs.append(config)
    found = []
    high_water = 0
    for number, (members, config) in enumerate(zip(groups, configs, strict=True)):
        is_last = number == len(groups) - 1
        end = view.ended_at if is_last else groups[number + 1][0].started_at
        whole = view.account if len(groups) == 1 else _window(view, spans, members[0].started_at, end)
        gpus = view.gpu_account if len(groups) == 1 else None
        reached = max([high_water, *(each.last_step or 0 for each in members)])
        began_with = members[0].resumed_from_step if number == 0 else None
        found.append(
            Stretch(
                run_id=view.run_id,
                number=number,
                fingerprint=_mark(config),
                config=config,
                first_attempt=members[0].number,
                last_attempt=members[-1].number,
                started_at=members[0].started_at,
                ended_at=end,
                initiator=None if members[0].initiator is None else members[0].initiator.value,
                elapsed_ns=whole.elapsed_ns,
                productive_ns=whole.productive_ns,
                faults_ns=whole.faults_ns,
                elapsed_gpu_ns=None if gpus is None else gpus.elapsed_ns,
                kept_steps=max(0, reached - max(high_water, began_with or 0)),
                contradicted_hangs=sum(
                    contradiction(each, view, config) is not None
                    for each in view.incidents
                    if members[0].number <= each.attempts[0] <= members[-1].number
                ),
                sees_training=view.sees_training,
                project=view.project,
                name=view.name,
            )
        )
        high_water = reached
    return tuple(found)


def _mark(config: RecoveryConfig | None) -> str | None:
    return None if config is None else config.fingerprint


def _window(view: RunView, spans: Sequence[Span], start: int, end: int | None) -> Account:
    return account(spans, start, view.as_of if end is None else end)


def detecting_ns(incident: Incident) -> int:
    """How long until the fault was noticed."""
    return sum(part.length_ns for part in incident.parts if part.name == Phase.DETECTING.value)
