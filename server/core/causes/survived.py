"""Survived: what a run went on training after is not why it ended.

Rules
- A run that completed steps long after something has survived it (`SURVIVED_NS`). What a machine tells of itself as it
  happens (its kernel, its GPUs) stops the next step: a few steps are enough there, where they are told with instants.
- What is announced ahead of time, or takes a while to strike, is survived later: `STRIKES_WITHIN_NS`.
- Of a log whose lines tell no instants its reader says which lines were gone on after (`TRAINED_ON` and its kin); what
  is announced is taken back by none of them.
- What a source that knows a machine's whole history said long before an attempt began is not about it.
- Steps go on for a while without a server of files. Where one is not told to answer again, and what ended the run is
  that somebody waited in vain, it accuses all the same.
- What else was survived accuses nobody. It stays in the fault trace, with how far the run went on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rerail.server.core.cause_rules import MACHINES, SURVIVED_NS, Case, Sign
from rerail.server.core.facts import RUN_TRAINED_ON, TRAINED_ON, TRAINING_DONE
from rerail.server.core.mentions import SPOKEN
from rerail.server.core.view import CausalRole
from rerail.server.core.words import duration

BEFORE_NS = 300_000_000_000
"""What a source that knows a machine's whole history said so long before an attempt began is not about it."""
HISTORIES = frozenset({"kernel", "dcgm", "slurm", "kubernetes"})
FEW_STEPS = 3
"""A step that was under way may still end, and one more where ranks do not wait for each other."""
FEW_STEPS_NS = 5_000_000_000
STRIKES_WITHIN_NS = {
    "preemption": 1_800_000_000_000,
    "time_limit": 1_800_000_000_000,
    "operator_stop": 600_000_000_000,
    "node_lost": 600_000_000_000,
}
"""How long after its announcement it may still be why a run ends: notices come minutes ahead, and Kubernetes leaves
the pods of a node that is not ready where they are for five minutes."""

_GONE = re.compile(r"nfs: server (?P<server>\S{1,120}) not responding")
_BACK = re.compile(r"nfs: server (?P<server>\S{1,120}) OK")


@dataclass(frozen=True, slots=True)
class WentOn:
    """Up to where in a log its ranks are known to have trained on: `(emitter, …)` → the last such `seq`."""

    ranks: dict[tuple[str, int | None, int | None, str | None], int]
    runs: dict[str, int]
    """Behind what a machine told of itself."""
    all_of: dict[str, int]

    def covers(self, sign: Sign) -> bool:
        """A line said before its rank trained on, or of a machine before the run did."""
        told = sign.item.evidence
        done = self.all_of.get(told.emitter, -1)
        if told.source in MACHINES:
            return told.seq < max(self.runs.get(told.emitter, -1), done)
        if told.source not in SPOKEN or sign.reading.cause in STRIKES_WITHIN_NS:
            return False
        mine = self.ranks.get((told.emitter, told.rank, told.local_rank, told.node), -1)
        return told.seq < max(mine, done)


NOWHERE = WentOn({}, {}, {})


def went_on(case: Case) -> WentOn:
    """What the readers of its logs tell of going on."""
    ranks: dict[tuple[str, int | None, int | None, str | None], int] = {}
    runs: dict[str, int] = {}
    all_of: dict[str, int] = {}
    for item in case.evidence:
        told = item.evidence
        if told.code == TRAINED_ON:
            key = (told.emitter, told.rank, told.local_rank, told.node)
            ranks[key] = max(told.seq, ranks.get(key, -1))
        elif told.code == RUN_TRAINED_ON:
            runs[told.emitter] = max(told.seq, runs.get(told.emitter, -1))
        elif told.code == TRAINING_DONE:
            all_of[told.emitter] = max(told.seq, all_of.get(told.emitter, -1))
    return WentOn(ranks, runs, all_of)


def is_of_before(case: Case, sign: Sign) -> bool:
    """Whether a machine's history tells of something that lies long before the attempt."""
    if sign.item.evidence.source not in HISTORIES or _is_announced(sign) or case.started_at is None:
        return False
    return sign.at + BEFORE_NS + case.error_ns(sign.item.evidence.emitter) < case.started_at


def _is_announced(sign: Sign) -> bool:
    """A machine that is only lost from sight may come back, and its steps prove it."""
    cause = sign.reading.cause
    return cause in STRIKES_WITHIN_NS and not (sign.item.evidence.source in HISTORIES and cause == "node_lost")


def is_survived(case: Case, sign: Sign) -> bool:
    """Whether the instants of steps say that the run went on after it."""
    if case.last_step_at is None:
        return False
    source, cause = sign.item.evidence.source, sign.reading.cause
    is_announced, error = _is_announced(sign), case.error_ns(sign.item.evidence.emitter)
    within = STRIKES_WITHIN_NS[cause] if is_announced else SURVIVED_NS
    if sign.at + within + error < case.last_step_at:
        return True
    return source in MACHINES and case.steps_after(sign.at + FEW_STEPS_NS + error) > 0 and (
        case.steps_after(sign.at + error) >= FEW_STEPS
    )  # fmt: skip


def stands(case: Case, sign: Sign) -> bool:
    """Whether it began something that no line says was over: a server of files that is not told to answer again."""
    gone = _GONE.search(sign.text)
    if gone is None:
        return False
    later = (
        _BACK.search(item.evidence.text)
        for item in case.evidence
        if item.order() > sign.item.order() and item.evidence.node == sign.item.evidence.node
    )
    return not any(back is not None and back["server"] == gone["server"] for back in later)


def taken_back(sign: Sign) -> Sign:
    """A sign that accuses nobody any more."""
    return replace(sign, reading=replace(sign.reading, role=CausalRole.UNKNOWN, confidence=0.0))


def how_far(case: Case, at: int) -> str:
    """How far a run went on after an instant: `7,987 steps (1 h 34 min)`; empty where no instants of steps tell."""
    if case.last_step_at is None or case.last_step_at <= at:
        return ""
    steps = case.steps_after(at)
    lasted = duration(case.last_step_at - at)
    if not steps:
        return lasted
    return f"{steps:,} step{'s' * (steps != 1)} ({lasted})"
