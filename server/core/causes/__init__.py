"""Causes: why an attempt ended, as far as its evidence tells.

Rules
- One file per cause class, each with one `RULE` (`cause_rules.py` says what one is made of). A rule reads lines by its
  table, and concludes from the whole `Case` or says nothing.
- The loudest line is not the cause: victims of a death print more than the dead. Only lines with the role `initiating`
  accuse; a rank that first lost its peers and then raises is their echo; what a run survived (it completed steps long
  afterwards) accuses nobody.
- Among the conclusions the heaviest count (`Weight`), among those the earliest wins over all ranks; at one instant what
  one log told first, else the one with the higher confidence, then the name.
- What failed on one machine before another told of its hardware is not explained by that: there the earlier wins.
- Where another accusation lies closer than the clocks of the two emitters can tell apart, the verdict says so and is
  less sure.
- A lone time-out is never called a network fault. What is not known is `unknown`, with a sentence that says what
  evidence would settle it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rerail.server.core.cause_rules import (
    SURVIVED_NS,
    UNREAD,
    Case,
    CauseRule,
    Match,
    Reading,
    Sign,
    Weight,
    from_lines,
    read_by,
    shown_words,
    sign_of,
    with_more,
)
from rerail.server.core.causes import retry_budget, user_exception
from rerail.server.core.causes.elsewhere import OF_ONE_MACHINE, before_elsewhere, is_elsewhere, sign_behind
from rerail.server.core.causes.standing import with_standing
from rerail.server.core.causes.user_exception import GPU_FAILED
from rerail.server.core.facts import TRAINED_ON, TRAINING_DONE, Evidence, Pairs
from rerail.server.core.fault_trace import fault_trace
from rerail.server.core.flight_recorder.ages import remark, too_old
from rerail.server.core.flight_recorder.summary import SOURCE, STACK_SOURCE
from rerail.server.core.mentions import SPOKEN, is_mention
from rerail.server.core.plain_exceptions import only_mentions
from rerail.server.core.view import CausalRole, Domain, EvidenceLine, Verdict
from rerail.server.core.wanted import Kind, Wanted, given, still_wanted

__all__ = ["UNKNOWN", "Case", "CauseRule", "Match", "judge", "judged_signs", "reading_of", "rules"]

ECHO_NS = 180_000_000_000
"""A rank that raises within so long after it lost its peers raises because of it."""

LONGEST_READ = 8_000
"""Of a longer text the beginning and the end are read: that is where causes are named."""

DOUBTED = 0.8
"""What is left of a confidence where another clock's accusation may have been first."""

BEFORE_NS = 300_000_000_000
"""What a source that knows a machine's whole history said so long before an attempt began is not about it."""
LAUNCHERS = frozenset({"torchrun", "nvrx"})
"""Who starts the ranks of a machine: below Slurm, a task is then a machine and no rank."""
HISTORIES = frozenset({"kernel", "dcgm", "slurm", "kubernetes"})

WENT_ON = 0.5
"""What is left of a confidence where the log went on after what it rests on."""
AFTER = " The log went on after that, and nothing else says why it ended."

NEVER_SURVIVED = frozenset({"preemption", "time_limit", "node_lost", "operator_stop"})
"""Announced ahead of time: steps that follow do not take them back. A machine that a scheduler only lost from sight may
come back, and its steps prove it."""

_RULES: dict[str, CauseRule] = {}
_ALL_SPENT = re.compile(r"all [1-9]\d{0,6} restarts are spent")
_LONG_NUMBER = re.compile(r"\d{3,40}")
_CODED = re.compile(r"Xid|exitcode|\b(?:failure|error|code|returned)[ :=]{1,3}-?\d", re.IGNORECASE)
"""Where a number of a line may be what it says."""

UNKNOWN = Verdict(
    cause="unknown",
    domain=Domain.UNKNOWN,
    confidence=0.0,
    sentence="Nothing that was stated says why it stopped.",
    missing_evidence="The launcher's log, exit codes of every rank, or the last lines of the training log.",
)
UNKNOWN_SETTLES = (
    Wanted("the launcher's log", Kind.LAUNCHER_LOG),
    Wanted("exit codes of every rank", Kind.EXIT_CODES),
    Wanted("the last lines of the training log of every rank"),
)


def rules() -> dict[str, CauseRule]:
    """Every rule by name, found in this package; a module without `RULE` helps the others. A name taken twice is an
    error."""
    found: dict[str, CauseRule] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        rule: CauseRule | None = getattr(importlib.import_module(f"{__name__}.{module}"), "RULE", None)
        if rule is None:
            continue
        if rule.name in found:
            raise RuntimeError(f"two cause rules are named {rule.name}")
        found[rule.name] = rule
    return found


def _known() -> dict[str, CauseRule]:
    if not _RULES:
        _RULES.update(sorted(rules().items(), key=lambda entry: (entry[1].order, entry[0])))
    return _RULES


# --- reading lines ---


def reading_of(evidence: Evidence) -> Reading:
    """What one piece of evidence says by itself: the class it tells of, and its causal role."""
    if evidence.source == SOURCE:
        return Reading("unknown", CausalRole.CONFIRMATION)
    if evidence.source == STACK_SOURCE:
        return Reading("unknown", CausalRole.INFORMATIONAL)  # names of functions are no errors
    if evidence.code in (TRAINED_ON, TRAINING_DONE):
        return Reading("unknown", CausalRole.INFORMATIONAL)
    if len(evidence.text) > LONGEST_READ:
        half = LONGEST_READ // 2
        evidence = replace(evidence, text=f"{evidence.text[:half]}\n{evidence.text[-half:]}")
    shape = evidence.text
    if _CODED.search(shape) is None:
        shape = _LONG_NUMBER.sub("000", shape)
    reading = _read(evidence.source, evidence.code, evidence.attributes, shape)
    if reading.says and reading.role is CausalRole.CONFIRMATION and shape != evidence.text:
        return read_by(_known()[reading.cause], evidence, evidence.text.lower()) or UNREAD
    if reading.role is not CausalRole.INITIATING:
        is_told = evidence.code is None and evidence.source in SPOKEN and reading.role is CausalRole.CASCADE
        if is_told and is_mention(evidence.text, reading.words):
            return replace(reading, role=CausalRole.INFORMATIONAL)
        return reading
    if shape != evidence.text:
        reads_exceptions = reading.cause == user_exception.RULE.name and reading.says == user_exception.RAISED
        again = user_exception.reads(evidence) if reads_exceptions else None
        reading = again or read_by(_known()[reading.cause], evidence, evidence.text.lower()) or UNREAD
    if evidence.code is None and evidence.source in SPOKEN and is_mention(evidence.text, reading.words):
        return replace(reading, role=CausalRole.INFORMATIONAL)
    return reading


@lru_cache(maxsize=16_384)
def _read(source: str, code: str | None, attributes: Pairs, shape: str) -> Reading:
    """What lines of one shape say; those that differ by long numbers alone, like a storm's, are looked at once."""
    asked = Evidence(run="", emitter="", seq=0, at=0, source=source, text=shape, code=code, attributes=attributes)
    lowered = shape.lower()
    found = (read_by(rule, asked, lowered) for rule in _known().values())
    reading = next((reading for reading in found if reading is not None), UNREAD)
    if reading.cause not in (user_exception.RULE.name, UNREAD.cause) and only_mentions(shape, code, reading.words):
        return user_exception.reads(asked) or UNREAD
    return reading


def judged_signs(case: Case, *, goes_by_log: bool = True) -> tuple[Sign, ...]:
    """The evidence of a case as the rules read it, in order, without accusations that its context takes back.

    `goes_by_log`: a log that went on after an error takes it back.
    """
    lost_peers: dict[int, int] = {}
    signs = []
    went_on = _went_on(case) if goes_by_log else _WentOn({}, {})
    starts_ranks = any(item.evidence.source in LAUNCHERS for item in case.evidence)
    for item in case.evidence:
        sign = sign_of(item, reading_of(item.evidence))
        if starts_ranks and sign.reading.is_of_a_task:
            sign = replace(sign, reading=replace(sign.reading, rank=None))
        reading, rank = sign.reading, sign.rank
        if sign.accuses and (_is_survived(case, sign) or went_on.covers(sign)):
            sign = replace(sign, reading=replace(reading, role=CausalRole.UNKNOWN))
        elif rank is not None:
            since = lost_peers.get(rank)
            is_generic = reading.cause == "user_exception" and sign.accuses and reading.says != GPU_FAILED
            if is_generic and since is not None and 0 <= sign.at - since <= ECHO_NS:
                sign = replace(sign, reading=replace(reading, role=CausalRole.CASCADE))
            elif reading.role is CausalRole.CASCADE or (sign.accuses and reading.weight is Weight.WAIT):
                lost_peers.setdefault(rank, sign.at)
        signs.append(sign)
    return tuple(signs)


@dataclass(frozen=True, slots=True)
class _WentOn:
    """Up to where in a log its ranks are known to have trained on: `(emitter, …)` → the last such `seq`."""

    ranks: dict[tuple[str, int | None, int | None, str | None], int]
    all_of: dict[str, int]

    def covers(self, sign: Sign) -> bool:
        """A line of free text, said before its rank trained on."""
        told = sign.item.evidence
        if told.source not in SPOKEN or sign.reading.cause in NEVER_SURVIVED:
            return False
        mine = self.ranks.get((told.emitter, told.rank, told.local_rank, told.node), -1)
        return told.seq < max(mine, self.all_of.get(told.emitter, -1))


def _went_on(case: Case) -> _WentOn:
    ranks: dict[tuple[str, int | None, int | None, str | None], int] = {}
    all_of: dict[str, int] = {}
    for item in case.evidence:
        told = item.evidence
        if told.code == TRAINED_ON:
            key = (told.emitter, told.rank, told.local_rank, told.node)
            ranks[key] = max(told.seq, ranks.get(key, -1))
        elif told.code == TRAINING_DONE:
            all_of[told.emitter] = max(told.seq, all_of.get(told.emitter, -1))
    return _WentOn(ranks, all_of)


def _is_survived(case: Case, sign: Sign) -> bool:
    is_history = sign.item.evidence.source in HISTORIES
    if sign.reading.cause in NEVER_SURVIVED and not (is_history and sign.reading.cause == "node_lost"):
        return False
    error = case.error_ns(sign.item.evidence.emitter)
    if is_history and case.started_at is not None and sign.at + BEFORE_NS + error < case.started_at:
        return True
    if case.last_step_at is None:
        return False
    return sign.at + SURVIVED_NS + error < case.last_step_at


# --- judging ---


def judge(case: Case) -> tuple[Verdict, tuple[EvidenceLine, ...]]:
    """The verdict of a case, and its fault trace: the evidence in order with the role of each piece."""
    case = replace(case, signs=judged_signs(case))
    found = _concluded(case)
    if all(match.weight <= Weight.ECHO for _, match in found) and any(worker.exit_code for worker in case.exits):
        # It did end with an error and nothing else says why: then what its log went on after is the best that is known.
        as_told = replace(case, signs=judged_signs(case, goes_by_log=False))
        if as_told.signs != case.signs:
            case, found = as_told, [(rule, _doubted(match)) for rule, match in _concluded(as_told)]
    remarks = {order: remark(age) for order, age in too_old(case.evidence, case.last_step_at, case.noticed_at).items()}
    if not found:
        wanted = still_wanted(UNKNOWN_SETTLES, _given(case, None))
        return replace(UNKNOWN, missing_evidence=wanted), fault_trace(case, None, remarks, remarks.keys())
    rule, match = _decisive(found)
    before = before_elsewhere(case, found, rule, match)
    if before is not None:
        rule, match = before
    verdict = Verdict(
        cause=rule.name,
        domain=match.domain or rule.domain,
        confidence=match.confidence,
        sentence=with_more(match.sentence, _spent(case, rule)),
        culprit_rank=match.rank,
        culprit_node=match.node or _node_of(case, match.rank),
        advice=match.advice or rule.advice,
        missing_evidence=still_wanted(match.missing_evidence, _given(case, match.node)),
        traits=_usable(match.traits),
    )
    verdict = with_standing(case, verdict)
    doubt = _doubt(case, verdict, match)
    if doubt is None:
        return verdict, fault_trace(case, match, remarks, remarks.keys())
    other, allowed = doubt
    apart = abs(other.at - match.initiating[0].at)
    came = "came" if other.at < match.initiating[0].at else "followed"
    when = "before" if other.at < match.initiating[0].at else "later"
    said = (
        f" {other.who} ({other.reading.cause}) {came} {apart / 1e9:.3f} s {when} by another clock; "
        f"the two clocks are known to {allowed / 1e9:.3f} s only, so it may have been first."
    )
    confidence = round(verdict.confidence * DOUBTED, 3)
    shown = {
        **remarks,
        other.item.order(): f"May have been first: the two clocks are known to {allowed / 1e9:.3f} s only.",
    }
    return replace(verdict, confidence=confidence, sentence=f"{verdict.sentence}{said}"), fault_trace(
        case, match, shown, remarks.keys()
    )


def _spent(case: Case, rule: CauseRule) -> str:
    """That no restart was left, for the sentence of another cause; empty where that is not known."""
    if rule.name == retry_budget.RULE.name:
        return ""
    told = next(
        (sign for sign in case.accusing(retry_budget.RULE.name) if sign.reading.says == retry_budget.SAYS), None
    )
    if told is not None:
        return f"No restart was left after it ({shown_words(told.reading.words, told.text, 120)})."
    spent = _ALL_SPENT.search(case.reason or "")
    return f"No restart was left after it ({spent[0]})." if spent else ""


def _node_of(case: Case, rank: int | None) -> str | None:
    """The machine of a rank, where evidence and exits of it name one and no other."""
    if rank is None:
        return None
    told = {item.evidence.node for item in case.evidence if item.evidence.rank == rank}
    told |= {worker.node for worker in case.exits if worker.rank == rank}
    told.discard(None)
    told.discard("")
    return told.pop() if len(told) == 1 else None


def _given(case: Case, node: str | None) -> frozenset[Kind]:
    return given(
        case.evidence, node, has_exits=bool(case.exits or case.exit_codes), has_scheduler=bool(case.scheduler_told)
    )


def _concluded(case: Case) -> list[tuple[CauseRule, Match]]:
    """What every rule concludes that concludes anything."""
    found = []
    for rule in _known().values():
        match = rule.match(case) if rule.match is not None else from_lines(case, rule)
        if match is not None:
            found.append((rule, match))
    return found


def _doubted(match: Match) -> Match:
    return replace(match, confidence=round(match.confidence * WENT_ON, 3), sentence=f"{match.sentence}{AFTER}")


def _decisive(found: Sequence[tuple[CauseRule, Match]]) -> tuple[CauseRule, Match]:
    """The conclusion that holds: of the heaviest the earliest; at one instant what one log told first, else the surest.

    A log without stamps has one instant for everything, and its order all the same.
    """
    heaviest = max(match.weight for _, match in found)
    heavy = [(rule, match) for rule, match in found if match.weight == heaviest]
    instants = [match.at for _, match in heavy if match.at is not None]
    first = min(instants, default=None)
    tied = [(rule, match) for rule, match in heavy if match.at is None or match.at == first]
    told = [match.initiating[0].evidence for _, match in tied if match.initiating]
    if len(told) == len(tied) and len({each.emitter for each in told}) == 1:
        return min(tied, key=lambda entry: (entry[1].initiating[0].evidence.seq, -entry[1].confidence, entry[0].name))
    return min(tied, key=lambda entry: (-entry[1].confidence, entry[1].at is None, entry[0].name))


def _usable(traits: Pairs) -> Pairs:
    """Traits in order, without empty ones."""
    return tuple(sorted((name, value) for name, value in dict(traits).items() if value))


def _doubt(case: Case, verdict: Verdict, match: Match) -> tuple[Sign, int] | None:
    """Another accusation that lies closer than the two clocks can tell apart, and how far they may be off."""
    if not match.initiating or match.weight not in (Weight.LINE, Weight.ESTABLISHED):
        return None
    resting = {item.order() for item in match.initiating}
    first = sign_behind(case, match)
    if first is None:
        return None
    for other in case.signs:
        if not other.accuses or other.item.order() in resting:
            continue
        is_apart = (
            verdict.cause in OF_ONE_MACHINE
            and match.weight is Weight.ESTABLISHED
            and other.reading.weight is Weight.LINE
            and is_elsewhere(case, other, first, match)
        )  # fmt: skip
        if other.reading.weight != match.weight and not is_apart:
            continue
        if (other.reading.cause, other.rank) == (verdict.cause, first.rank):
            continue
        allowed = case.uncertainty_ns(first, other)
        if abs(other.at - first.at) < allowed:
            return other, allowed
    return None
