"""Causes: why an attempt ended, as far as its evidence tells.

Rules
- One file per cause class, each with one `RULE`. A rule looks at a `Case` and either answers with a `Match` or says
  nothing; among the answers the one with the highest confidence wins, ties go to the earlier evidence, then the name.
- The loudest line is not the cause: victims of a death print more than the dead. `CASCADE_LINES` are what a rank
  prints because *another* one went away.
- A lone time-out is never called a network fault. What is not known is `unknown`, with a sentence that says what
  evidence would settle it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.server.core.attempt_record import TimedEvidence, WorkerExit
from rerail.server.core.facts import Initiator, Outcome, Pairs
from rerail.server.core.view import CausalRole, Domain, EvidenceLine, Verdict
from rerail.server.core.xids import official_meaning

CASCADE_LINES = re.compile(
    r"Connection closed by peer|Connection reset by peer|Connection refused|Broken pipe"
    r"|Timed out waiting \d+ ?ms for (recv|send)|Socket Timeout|recvValue failed|failed to recv"
    r"|NCCL.{0,200}(timeout|aborted|remote process exited)|DistNetworkError|DistBackendError"
    r"|previous error|watchdog thread terminated",
    re.IGNORECASE,
)
"""What a rank prints because another rank went away."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of one interrupted attempt."""

    evidence: Sequence[TimedEvidence]
    exits: Sequence[WorkerExit]
    exit_codes: tuple[tuple[int, int], ...]
    reason: str | None
    outcome: Outcome | None
    noticed_by: Sequence[tuple[int, str]]
    lost_nodes: Sequence[tuple[int, str]]
    scheduler_states: Sequence[str]
    next_initiator: Initiator | None
    is_planned: bool
    last_step: int | None

    def says(self, *words: str) -> str | None:
        """The attempt's stated reason, or who noticed, if it contains one of the words."""
        told = [text for text in (self.reason, *(by for _, by in self.noticed_by)) if text]
        for text in told:
            if any(word in text.lower() for word in words):
                return text
        return None


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule concludes."""

    confidence: float
    sentence: str
    rank: int | None = None
    node: str | None = None
    at: int | None = None
    initiating: tuple[TimedEvidence, ...] = ()
    """Evidence this cause rests on."""
    missing_evidence: str | None = None
    traits: Pairs = ()


@dataclass(frozen=True, slots=True)
class CauseRule:
    """One cause class."""

    name: str
    domain: Domain
    advice: str
    match: Callable[[Case], Match | None]


def rules() -> dict[str, CauseRule]:
    """Every rule by name, found in this package. A name taken twice is an error."""
    found: dict[str, CauseRule] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        rule: CauseRule = importlib.import_module(f"{__name__}.{module}").RULE
        if rule.name in found:
            raise RuntimeError(f"two cause rules are named {rule.name}")
        found[rule.name] = rule
    return found


_RULES: dict[str, CauseRule] = {}

UNKNOWN = Verdict(
    cause="unknown",
    domain=Domain.UNKNOWN,
    confidence=0.0,
    sentence="Nothing that was stated says why it stopped.",
    missing_evidence="The launcher's log, exit codes of every rank, or the last lines of the training log.",
)


def judge(case: Case) -> tuple[Verdict, tuple[EvidenceLine, ...]]:
    """The verdict of a case, and its evidence in order with the role of each piece."""
    if not _RULES:
        _RULES.update(rules())
    best: tuple[CauseRule, Match] | None = None
    for name in sorted(_RULES):
        match = _RULES[name].match(case)
        if match is None:
            continue
        if best is None or _rank_of(match) > _rank_of(best[1]):
            best = (_RULES[name], match)
    if best is None:
        return UNKNOWN, evidence_lines(case, ())
    rule, match = best
    verdict = Verdict(
        cause=rule.name,
        domain=rule.domain,
        confidence=match.confidence,
        sentence=match.sentence,
        culprit_rank=match.rank,
        culprit_node=match.node or None,
        advice=rule.advice,
        missing_evidence=match.missing_evidence,
        traits=match.traits,
    )
    return verdict, evidence_lines(case, match.initiating)


def _rank_of(match: Match) -> tuple[float, int]:
    return match.confidence, -(match.at if match.at is not None else 1 << 62)


def evidence_lines(case: Case, initiating: Sequence[TimedEvidence]) -> tuple[EvidenceLine, ...]:
    """The evidence of a case as pages show it."""
    causes = {item.order() for item in initiating}
    lines = []
    for item in case.evidence:
        fact = item.evidence
        if item.order() in causes:
            role = CausalRole.INITIATING
        elif CASCADE_LINES.search(fact.text):
            role = CausalRole.CASCADE
        elif _is_teardown(fact.text):
            role = CausalRole.TEARDOWN
        else:
            role = CausalRole.UNKNOWN
        lines.append(
            EvidenceLine(
                at=item.at,
                source=fact.source,
                text=fact.text,
                role=role,
                rank=fact.rank,
                node=fact.node,
                code=fact.code,
                emitter=fact.emitter,
                seq=fact.seq,
                meaning=official_meaning(fact.text, fact.code),
            )
        )
    return tuple(lines)


def _is_teardown(text: str) -> bool:
    return bool(
        re.search(r"closing signal SIGTERM|Stopping workers|death signal|Worker group (UNHEALTHY|FAILED)", text)
    )
