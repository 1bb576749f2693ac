"""Contradicted: a hang verdict that speaks against what else is known of the run, so that healthy ranks may have died.

Rules
- Steps that went on while the monitor waited say that the ranks had not hung (`stepped_on.py`).
- So does, less surely, a gap between two signs of life that the run outlived by itself, in any phase but bring-up, and
  that was at least as long as the time-out that was in force.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.normalising import recovery_config
from rerail.server.core.stepped_on import stepped_on
from rerail.server.core.view import Incident, RunView
from rerail.server.core.words import duration

HANGS = ("hang", "nccl_timeout")
"""Causes whose verdict rests on a time-out."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What speaks against a hang."""

    attempt: int
    at: int
    """When the ranks were given up."""
    sentence: str


def contradiction(incident: Incident, view: RunView, config: RecoveryConfig | None = None) -> Contradiction | None:
    """What speaks against the hang that an incident is taken for; None where nothing does.

    `config` is what was in force, where the caller knows it already.
    """
    if not incident.counts or incident.verdict.cause not in HANGS:
        return None
    number = incident.attempts[0]
    stepped = stepped_on(incident, view.attempts)
    if stepped is not None:
        return Contradiction(number, stepped.at, stepped.sentence)
    if config is None:
        attempt = next((each for each in view.attempts if each.number == number), None)
        config = None if attempt is None else recovery_config(attempt.config, attempt.launcher, attempt.versions)
    armed = None if config is None else config.setting("heartbeat_timeout").seconds
    healthy = max((each.max_gap_ns for each in view.heartbeat if each.phase != Phase.INITIALIZING.value), default=0)
    if armed is None or healthy < armed * 1_000_000_000:
        return None
    return Contradiction(
        number,
        incident.started_at if incident.noticed_at is None else incident.noticed_at,
        f"This run was once without a sign of life for {duration(healthy)} and went on by itself; the time-out was "
        f"{duration(round(armed * 1e9))}: the ranks may have been healthy.",
    )
