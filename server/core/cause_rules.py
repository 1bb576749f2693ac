"""Cause rules: what one is made of, and what it may look at.

A rule is one file of `causes/`. Most of it is a table of lines: a pattern, the causal role of a line that matches, who
must have said it, and a sentence. What lines alone cannot tell (exit codes, the scheduler's word, a missing rank) is a
function that looks at the whole `Case`.

Rules
- A line has one reading. Where several rules know it, the rule with the lower `order` reads it: what is specific comes
  before what is generic, and an exception that nobody knows is the user's.
- Only `initiating` lines accuse. `cascade` is what a rank prints because another one went away, `teardown` is what the
  launcher does afterwards, `confirmation` supports a cause that something else accuses, `informational` is neither.
- `Weight` is how a conclusion stands to others: first the plan, then what an outside authority established, then what
  a process said of itself, then waiting in vain, then echoes. Within one weight the earliest wins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from rerail.server.core.attempt_record import TimedEvidence, WorkerExit
from rerail.server.core.facts import Evidence, Initiator, Outcome, Pairs
from rerail.server.core.naming import device_in, exception_in, node_in, rank_in
from rerail.server.core.pattern_words import words_of
from rerail.server.core.steps import StepBlock
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Wanted

SURVIVED_NS = 120_000_000_000
"""A run that completed a step so long after something has survived it."""

LONGEST_WORDS = 240
"""Letters of a line that a sentence repeats."""
CUT_FROM = 40
"""Shorter words are a pattern's own, and end where it ends."""
WORD_ENDS = " \t\n.,;:!?()[]{}'\"`<>"
"""What may stand behind a whole word."""

UNSTATED_ERROR_NS = 1_000_000_000
"""How far a clock that never stated its error may be off: machines that keep time by NTP agree better than that."""


class Weight(IntEnum):
    """How much a conclusion counts beside others."""

    ECHO = 1
    """Only the reactions of others are known."""
    WAIT = 2
    """Somebody waited in vain for somebody else."""
    LINE = 3
    """A process, or its exit, says what happened to it."""
    ESTABLISHED = 4
    """The scheduler, the kernel or the hardware says so."""
    PLANNED = 5


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A line of evidence that a rule knows."""

    pattern: re.Pattern[str]
    role: CausalRole
    says: str
    """The sentence, with `{where}` (who) and `{words}` (what matched); empty for lines that accuse nobody."""
    confidence: float
    weight: Weight
    sources: frozenset[str]
    """Who must have said it; empty: anybody."""
    unless: re.Pattern[str] | None
    domain: Domain | None
    """Where it is not the rule's own."""
    advice: str | None
    """Where it is not the rule's own."""
    words: frozenset[str] | None
    """Of which a line holds one, in lower case, before the pattern can match; None where that is not known."""

    def may_match(self, lowered: str) -> bool:
        """Whether it is worth trying."""
        return self.words is None or any(word in lowered for word in self.words)


def line(
    pattern: str, says: str = "", role: CausalRole = CausalRole.INITIATING, confidence: float = 0.85,
    weight: Weight = Weight.LINE, sources: Iterable[str] = (), unless: str | None = None, domain: Domain | None = None,
    advice: str | None = None,
) -> LinePattern:  # fmt: skip
    """A row of a rule's table. Letters match in either case."""
    return LinePattern(
        re.compile(pattern, re.IGNORECASE), role, says, confidence, weight, frozenset(sources),
        None if unless is None else re.compile(unless, re.IGNORECASE), domain, advice,
        words_of(pattern),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule makes of one line."""

    cause: str
    role: CausalRole
    says: str = ""
    words: str = ""
    confidence: float = 0.0
    weight: Weight = Weight.ECHO
    rank: int | None = None
    """Whom the line accuses, where that is not who said it."""
    traits: Pairs = ()
    domain: Domain | None = None
    advice: str | None = None
    is_of_a_task: bool = False
    """Whether the rank is the number of a task of Slurm: a rank only where each task is one."""


MACHINES = frozenset({"kernel", "dcgm"})
"""Sources that speak of a machine and not of a rank."""

UNREAD = Reading("unknown", CausalRole.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Sign:
    """A piece of evidence with its reading, and who it is about."""

    item: TimedEvidence
    reading: Reading
    rank: int | None
    node: str | None

    @property
    def at(self) -> int:
        """Its instant on the server's clock."""
        return self.item.at

    @property
    def text(self) -> str:
        """What was said."""
        return self.item.evidence.text

    @property
    def who(self) -> str:
        """Who it is about, in words: a machine where that itself speaks."""
        if self.rank is None and self.item.evidence.source in MACHINES:
            return f"Node {self.node}" if self.node else "A node"
        return who(self.rank, self.node, self.item.evidence.local_rank, device_in(self.text))

    @property
    def accuses(self) -> bool:
        """It may be the beginning of the fault."""
        return self.reading.role is CausalRole.INITIATING


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
    scheduler_told: Sequence[tuple[int, str]]
    """The scheduler's states with their instants, in order."""
    next_initiator: Initiator | None
    is_planned: bool
    last_step: int | None
    started_at: int | None = None
    last_step_at: int | None = None
    """When its last completed step ended."""
    world_size: int | None = None
    clock_errors: dict[str, int] = field(default_factory=dict)
    """Emitter → how far its clock may be off, in ns, where it was stated."""
    ended_at: int | None = None
    """When it was told gone, which is later than when that was noticed."""
    blocks: Sequence[StepBlock] = ()
    """Its completed steps, as far as their instants are told."""
    signs: tuple[Sign, ...] = ()
    """The evidence as the rules read it, in its order; the judge fills it in."""

    @property
    def scheduler_states(self) -> tuple[str, ...]:
        """What the scheduler said, in order."""
        return tuple(state for _, state in self.scheduler_told)

    @property
    def noticed_at(self) -> int | None:
        """When its end was first noticed, by whomever, else when it was; None where nobody tells an instant."""
        return min((*(at for at, _ in self.noticed_by), *(worker.at for worker in self.exits)), default=self.ended_at)

    def says(self, *words: str) -> str | None:
        """The attempt's stated reason, or who noticed, if it contains one of the words."""
        told = [text for text in (self.reason, *(by for _, by in self.noticed_by)) if text]
        for text in told:
            if any(word in text.lower() for word in words):
                return text
        return None

    def accusing(self, cause: str) -> list[Sign]:
        """The signs of a cause that may have begun the fault, in order."""
        return [sign for sign in self.signs if sign.accuses and sign.reading.cause == cause]

    def losers_of(self, rank: int) -> list[Sign]:
        """The signs of ranks that only lost the connection to a peer; none where one is `rank`'s or nobody's."""
        lost = [
            sign for sign in self.signs if sign.reading.role is CausalRole.CASCADE and sign.reading.cause == "network"
        ]
        return lost if all(sign.rank not in (None, rank) for sign in lost) else []

    def steps_after(self, at: int, until: int | None = None) -> int:
        """How many steps were completed after an instant, and not after `until`; 0 also where no instants are told."""
        count = 0
        for block in reversed(self.blocks):
            if block.end <= at:
                break
            last = len(block.ends) if until is None else bisect_right(block.ends, until)
            count += max(last - bisect_right(block.ends, at), 0)
        return count

    def has_survived(self, at: int) -> bool:
        """Whether a step was completed long after an instant."""
        return self.last_step_at is not None and at + SURVIVED_NS < self.last_step_at

    def rank_of_process(self, process: str) -> int | None:
        """The rank whose process had this id, as the launcher named it; None also where only its local rank is told."""
        sign = self.sign_of_process(process)
        return None if sign is None else sign.rank

    def sign_of_process(self, process: str) -> Sign | None:
        """A launcher's line about the process of this id that tells its rank, else its local rank."""
        named = re.compile(rf"\(pid:? {re.escape(process)}\)|\bsubprocess {re.escape(process)}\b", re.IGNORECASE)
        told = [sign for sign in self.signs if process in sign.text and named.search(sign.text)]
        with_rank = (sign for sign in told if sign.rank is not None)
        return next(with_rank, next((sign for sign in told if sign.item.evidence.local_rank is not None), None))

    def who_ended(self, worker: WorkerExit) -> str:
        """Whose exit it was, in words; of a rank that is not known, what the line that tells of the exit names."""
        if worker.rank >= 0:
            return who(worker.rank)
        code = f"exitcode {worker.exit_code}"
        told = next((sign for sign in self.signs if sign.item.evidence.code == code and sign.rank is None), None)
        return who(None, worker.node or None) if told is None else told.who

    def node_of(self, worker: WorkerExit) -> str | None:
        """The machine of an exit: as stated with it, else as the line that tells of it names."""
        if worker.node or worker.rank < 0:
            return worker.node or None
        code = f"exitcode {worker.exit_code}"
        told = (sign for sign in self.signs if sign.rank == worker.rank and sign.item.evidence.code == code)
        return next((sign.node for sign in told if sign.node), None)

    def error_ns(self, emitter: str) -> int:
        """How far an emitter's clock may be off."""
        return self.clock_errors.get(emitter, UNSTATED_ERROR_NS)

    def uncertainty_ns(self, one: Sign, other: Sign) -> int:
        """How far apart two signs must be for their order to be known: 0 where one clock stamped both."""
        first, second = one.item.evidence, other.item.evidence
        if first.emitter == second.emitter or (first.node is not None and first.node == second.node):
            return 0
        return self.error_ns(first.emitter) + self.error_ns(second.emitter)


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
    missing_evidence: Sequence[Wanted] = ()
    """What would settle it; what was given already is left out by the judge."""
    weight: Weight = Weight.LINE
    traits: Pairs = ()
    domain: Domain | None = None
    """Where it is not the rule's own."""
    advice: str | None = None
    """Where it is not the rule's own."""
    confirming: tuple[TimedEvidence, ...] = ()
    """Evidence that supports it without having begun it."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """One cause class."""

    name: str
    domain: Domain
    advice: str
    match: Callable[[Case], Match | None] | None = None
    """What it concludes; without one, from its earliest accusing line."""
    lines: tuple[LinePattern, ...] = ()
    order: int = 50
    """Who reads a line that several know: the lowest."""
    reads: Callable[[Evidence], Reading | None] | None = None
    """Reads what a pattern cannot, after its lines."""
    settles: tuple[Wanted, ...] = ()
    """What evidence would settle it, for conclusions from lines alone."""


def read_by(rule: CauseRule, evidence: Evidence, lowered: str) -> Reading | None:
    """What one rule makes of a piece of evidence; `lowered` is its text in lower case."""
    text = evidence.text
    for row in rule.lines:
        if (row.sources and evidence.source not in row.sources) or not row.may_match(lowered):
            continue
        found = row.pattern.search(text)
        if found is None or (row.unless is not None and row.unless.search(text)):
            continue
        groups = found.groupdict()
        task = groups.get("task")
        accused = groups.get("rank") or groups.get("rank_") or task
        return Reading(
            rule.name, row.role, row.says, found.group(0)[:300], row.confidence, row.weight,
            int(accused) if accused else None, _traits(found, evidence), row.domain, row.advice, task is not None,
        )  # fmt: skip
    return rule.reads(evidence) if rule.reads is not None else None


def _traits(found: re.Match[str], evidence: Evidence) -> Pairs:
    traits = {
        name: value.lower() if name == "operation" else value
        for name, value in found.groupdict().items()
        if value and name in ("operation", "section", "signal", "xid", "exception")
    }
    return tuple(sorted({**exception_traits(evidence), **traits}.items()))


def exception_traits(evidence: Evidence) -> dict[str, str]:
    """Type and own frame of the exception that a piece of evidence is."""
    traits = {}
    named = exception_in(evidence.text, evidence.code)
    if named is not None:
        traits["exception"] = named.type[:120]
    frame = dict(evidence.attributes).get("own_frame")
    if frame:
        traits["frame"] = frame[:240]
    elif named is not None and (said := message_shape(named.message)):
        traits["message"] = said
    return traits


def message_shape(message: str) -> str:
    """A message without what differs from one time to the next: numbers, what stands in quotes, addresses and paths."""
    return " ".join(_VARYING.sub("#", message[:400]).split())[:100]


_VARYING = re.compile(
    r"""'[^'\n]{0,200}'|"[^"\n]{0,200}"|0x[0-9a-fA-F]{1,40}|(?:/[\w.~+-]{1,200}){2,40}|\d[\d.,:]{0,60}"""
)


def who(rank: int | None, node: str | None = None, local_rank: int | None = None, device: int | None = None) -> str:
    """`Rank 3 on gpu-17`, as much as is known; a local rank or a GPU of its machine where the rank is not."""
    if rank is not None:
        named = f"Rank {rank}"
    elif device is not None:
        named = f"The process of local GPU {device}"
    elif local_rank is not None:
        named = f"Local rank {local_rank}"
    else:
        named = "A rank"
    if node:
        return f"{named} on {node}"
    return named if rank is not None or (local_rank is None and device is None) else f"{named} of a node not told"


def placed(sentence: str, where: str) -> str:
    """A sentence with `{where}` filled in, small where it does not begin with it."""
    inside = where[:1].lower() + where[1:]
    return sentence.replace("{where}", where, 1).replace("{where}", inside) if sentence.startswith("{where}") else (
        sentence.replace("{where}", inside)
    )  # fmt: skip


def shown_words(words: str, text: str = "", most: int = LONGEST_WORDS) -> str:
    """What a line said, for a sentence: at most `most` letters, up to the end of a word, with `…` where more follows.

    `text` is the line; what a pattern's bound cut off is seen there. Of a line that is not given nothing more follows.
    """
    at = text.find(words) if words else -1
    behind = text[at + len(words) :].partition("\n")[0] if at >= 0 and len(words) >= CUT_FROM else ""
    is_within = behind[:1] not in WORD_ENDS and not words[-1:].isspace()
    is_between = behind[:1] == " " or words[-1:].isspace()
    goes_on = is_within or (is_between and any(letter.isalnum() for letter in behind[:80]))
    words = words.strip(" .:\n")
    if len(words) <= most and not goes_on:
        return words
    if is_within or len(words) > most:
        words = words[:most].rpartition(" ")[0] or words[:most]
    return f"{words.rstrip(' .,;:(')}…"


def with_more(sentence: str, more: str) -> str:
    """Two sentences; the first may end with words of a log."""
    if not more:
        return sentence
    return f"{sentence}{'' if sentence.endswith(('.', '!', '?', '…')) else '.'} {more}"


def from_lines(case: Case, rule: CauseRule) -> Match | None:
    """The conclusion from a rule's earliest accusing line."""
    signs = case.accusing(rule.name)
    if not signs:
        return None
    heaviest = max(sign.reading.weight for sign in signs)
    first = next(sign for sign in signs if sign.reading.weight is heaviest)
    return from_sign(first, rule, [sign for sign in signs if sign.rank == first.rank])


def from_sign(first: Sign, rule: CauseRule, resting_on: Sequence[Sign]) -> Match:
    """The conclusion that one line allows."""
    reading = first.reading
    rank = reading.rank if reading.rank is not None else first.rank
    words = shown_words(reading.words, first.text)
    where = first.who if rank == first.rank else who(rank, first.node)
    sentence = placed(reading.says or "{where}: {words}.", where)
    return Match(
        reading.confidence,
        sentence.replace("{words}", words).replace("….", "…"),
        rank,
        first.node,
        first.at,
        initiating=tuple(sign.item for sign in resting_on[:20]),
        missing_evidence=rule.settles,
        weight=reading.weight,
        traits=reading.traits,
        domain=reading.domain,
        advice=reading.advice,
    )


def sign_of(item: TimedEvidence, reading: Reading) -> Sign:
    """A piece of evidence with its reading, and who it is about: as told, else as named in the text."""
    evidence = item.evidence
    rank = evidence.rank if evidence.rank is not None else rank_in(evidence.text)
    return Sign(item, reading, rank, node_in(evidence.text) or evidence.node)
