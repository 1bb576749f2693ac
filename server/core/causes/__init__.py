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
from dataclasses import replace
from functools import lru_cache

from rerail.server.core.cause_rules import (
    MACHINES,
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
from rerail.server.core.causes import network, retry_budget, user_exception
from rerail.server.core.causes.caught import without_caught
from rerail.server.core.causes.elsewhere import OF_ONE_MACHINE, before_elsewhere, is_elsewhere, sign_behind
from rerail.server.core.causes.lone_timeouts import SAYS as LONE_TIMEOUT
from rerail.server.core.causes.lone_timeouts import without_network
from rerail.server.core.causes.others import own_exception
from rerail.server.core.causes.standing import with_standing
from rerail.server.core.causes.survived import NOWHERE, how_far, is_of_before, is_survived, stands, taken_back, went_on
from rerail.server.core.causes.user_exception import GPU_FAILED
from rerail.server.core.facts import CLOCK_OFF, RUN_TRAINED_ON, TRAINED_ON, TRAINING_DONE, Evidence, Outcome, Pairs
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

LAUNCHERS = frozenset({"torchrun", "nvrx"})
"""Who starts the ranks of a machine: below Slurm, a task is then a machine and no rank."""

WENT_ON = 0.5
"""What is left of a confidence where the log went on after what it rests on."""
OUTLIVED = 0.3
"""Confidence at most, where steps followed what it rests on."""
STOOD = 0.6
"""Confidence at most in what the run went on beside."""
AFTER = " The log went on after that, and nothing else says why it ended."

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
    if evidence.code in (TRAINED_ON, RUN_TRAINED_ON, TRAINING_DONE):
        return Reading("unknown", CausalRole.INFORMATIONAL)
    if len(evidence.text) > LONGEST_READ:
        half = LONGEST_READ // 2
        evidence = replace(evidence, text=f"{evidence.text[:half]}\n{evidence.text[-half:]}")
    shape = evidence.text
    if _CODED.search(shape) is None:
        shape = _LONG_NUMBER.sub("000", shape)
    reading = _read(evidence.source, evidence.code, evidence.attributes, shape)
    if reading.says and reading.role is CausalRole.CONFIRMATION and shape != evidence.text:
        return _again(reading, evidence)
    if reading.role is not CausalRole.INITIATING:
        is_told = evidence.code is None and evidence.source in SPOKEN and reading.role is CausalRole.CASCADE
        if is_told and is_mention(evidence.text, reading.words):
            return replace(reading, role=CausalRole.INFORMATIONAL)
        return reading
    if shape != evidence.text:
        reads_exceptions = reading.cause == user_exception.RULE.name and reading.says == user_exception.RAISED
        again = user_exception.reads(evidence) if reads_exceptions else None
        reading = again or _again(reading, evidence)
    if evidence.code is None and evidence.source in SPOKEN and is_mention(evidence.text, reading.words):
        return replace(reading, role=CausalRole.INFORMATIONAL)
    return reading


def _again(reading: Reading, evidence: Evidence) -> Reading:
    """The reading of a line as it is, by the rule that read its shape."""
    rule = _known()[network.RULE.name if reading.says == LONE_TIMEOUT else reading.cause]
    found = read_by(rule, evidence, evidence.text.lower()) or UNREAD
    return without_network(found, evidence.text) if found.cause == network.RULE.name else found


@lru_cache(maxsize=16_384)
def _read(source: str, code: str | None, attributes: Pairs, shape: str) -> Reading:
    """What lines of one shape say; those that differ by long numbers alone, like a storm's, are looked at once."""
    asked = Evidence(run="", emitter="", seq=0, at=0, source=source, text=shape, code=code, attributes=attributes)
    lowered = shape.lower()
    found = (read_by(rule, asked, lowered) for rule in _known().values())
    reading = next((reading for reading in found if reading is not None), UNREAD)
    if reading.cause == network.RULE.name:
        reading = without_network(reading, shape)
    if reading.cause not in (user_exception.RULE.name, UNREAD.cause) and only_mentions(shape, code, reading.words):
        return user_exception.reads(asked) or UNREAD
    return reading


def judged_signs(
    case: Case, *, goes_by_log: bool = True, goes_by_steps: bool = True, hears_standing: bool = False
) -> tuple[Sign, ...]:
    """The evidence of a case as the rules read it, in order, without accusations that its context takes back.

    `goes_by_log`: a log that went on after an error takes it back; `goes_by_steps`: so do steps that followed it;
    `hears_standing`: but not what began something that no line says was over.
    """
    lost_peers: dict[int, int] = {}
    signs = []
    went_on_after = went_on(case) if goes_by_log else NOWHERE
    starts_ranks = any(item.evidence.source in LAUNCHERS for item in case.evidence)
    for item in case.evidence:
        sign = sign_of(item, reading_of(item.evidence))
        if starts_ranks and sign.reading.is_of_a_task:
            sign = replace(sign, reading=replace(sign.reading, rank=None))
        reading, rank = sign.reading, sign.rank
        is_heard = sign.accuses or (reading.confidence > 0 and reading.weight is Weight.ESTABLISHED)
        is_past = is_of_before(case, sign) or (goes_by_steps and is_survived(case, sign))
        if is_heard and (is_past or went_on_after.covers(sign)) and not (hears_standing and stands(case, sign)):
            sign = taken_back(sign)
        elif rank is not None:
            since = lost_peers.get(rank)
            is_generic = reading.cause == "user_exception" and sign.accuses and reading.says != GPU_FAILED
            if is_generic and since is not None and 0 <= sign.at - since <= ECHO_NS:
                sign = replace(sign, reading=replace(reading, role=CausalRole.CASCADE))
            elif reading.role is CausalRole.CASCADE or (sign.accuses and reading.weight is Weight.WAIT):
                lost_peers.setdefault(rank, sign.at)
        signs.append(sign)
    return tuple(without_caught(case, signs)) if goes_by_steps else tuple(signs)


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
    unrelated = frozenset(remarks)
    remarks |= _outlived(case)
    if found and all(match.weight <= Weight.WAIT for _, match in found):
        as_told = replace(case, signs=judged_signs(case, hears_standing=True))
        if as_told.signs != case.signs:
            known = {rule.name for rule, _ in found}
            case, found = (
                as_told,
                [
                    (rule, match if rule.name in known else _outlasted(case, match))
                    for rule, match in _concluded(as_told)
                ],
            )
    if not found and _has_failed(case):
        as_told = replace(case, signs=judged_signs(case, goes_by_log=False, goes_by_steps=False))
        if as_told.signs != case.signs:
            case, found = as_told, [(rule, _hardly(case, match)) for rule, match in _concluded(as_told)]
    if not found:
        wanted = still_wanted(UNKNOWN_SETTLES, _given(case, None))
        return replace(UNKNOWN, missing_evidence=wanted), fault_trace(case, None, remarks, unrelated)
    rule, match = _decisive(found)
    before = before_elsewhere(case, found, rule, match) or own_exception(case, found, rule, match)
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
    verdict = with_standing(case, _with_clock(verdict, match))
    doubt = _doubt(case, verdict, match)
    if doubt is None:
        return verdict, fault_trace(case, match, remarks, unrelated)
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
        case, match, shown, unrelated
    )


def _with_clock(verdict: Verdict, match: Match) -> Verdict:
    """That what it rests on was told by another clock, and dated by the order of its file's lines."""
    resting = [*match.initiating, *match.confirming]
    told = next((item.evidence for item in resting if CLOCK_OFF in dict(item.evidence.attributes)), None)
    if told is None:
        return verdict
    whose = "Its clock" if told.source in MACHINES or "CANCELLED AT" in told.text else "The clock that dates it"
    said = f"{whose} is {dict(told.attributes)[CLOCK_OFF]}: the order of the lines counts."
    return replace(verdict, sentence=with_more(verdict.sentence, said))


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


def _has_failed(case: Case) -> bool:
    """Whether it is known to have ended, and not well."""
    return case.outcome is Outcome.FAILED or bool(case.noticed_by) or any(worker.exit_code for worker in case.exits)


def _outlived(case: Case) -> dict[tuple[int, str, int], str]:
    """Of what was taken back since steps followed: how far the run went on, by the order of the piece."""
    found = {}
    for item, sign in zip(case.evidence, case.signs, strict=True):
        if sign.reading.role is CausalRole.UNKNOWN and sign.reading is not UNREAD and sign.reading.says:
            far = how_far(case, sign.at)
            if far:
                found[item.order()] = f"The run went on after this: {far}."
    return found


def _outlasted(case: Case, match: Match) -> Match:
    """What stood while the run went on, until somebody waited in vain."""
    far = how_far(case, match.at) if match.at is not None else ""
    said = "No line says that it was over" + (f"; the run went on for {far}." if far else ".")
    return replace(match, confidence=min(match.confidence, STOOD), sentence=with_more(match.sentence, said))


def _hardly(case: Case, match: Match) -> Match:
    """What the run went on after, where nothing else tells why it ended."""
    far = how_far(case, match.at) if match.at is not None else ""
    said = f"The run went on for {far} after that, and nothing else says why it ended." if far else AFTER.strip()
    confidence = min(round(match.confidence * WENT_ON, 3), OUTLIVED)
    return replace(match, confidence=confidence, sentence=with_more(match.sentence, said))


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
