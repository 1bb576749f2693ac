"""The training script raised an exception that nobody caught.

An exception that no other rule knows is the user's. A rank that first lost its peers and then raises is an echo; the
same exception on several ranks is the same fault everywhere and blames no single one.
"""

from __future__ import annotations

import re

from rerail.server.core import cuda_errors
from rerail.server.core.attempt_record import WorkerExit
from rerail.server.core.cause_rules import (
    LONGEST_WORDS,
    Case,
    CauseRule,
    Match,
    Reading,
    Sign,
    Weight,
    exception_traits,
    line,
    shown_words,
    who,
)
from rerail.server.core.causes.lone_timeouts import is_lone
from rerail.server.core.exit_words import exits
from rerail.server.core.facts import Evidence
from rerail.server.core.naming import exception_in, reported_in, without_numbers
from rerail.server.core.plain_exceptions import MISTAKES
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Wanted

MISSING = (Wanted("the traceback, in the log or the error file of that rank"),)
ANY_END = 0.3
"""Confidence where exit code 1 is all that is known: so an interpreter ends for whatever it did not catch, a lost file
system as well as a typing error. Any other code of its own a program has chosen."""
RAISED = "{where} raised {words}"
GPU_FAILED = "{where} made its GPU fail: {words}."
"""A call of CUDA that failed is no echo of lost peers, whatever its process printed before."""
RELAYS = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "RankShouldRestart",
     "SignalException", "HealthCheckError", "RayTaskError", "MPIAbort", "RankDiscarded", "ActorDiedError",
     "RayActorError", "WorkerCrashedError", "ElasticAgentError"}
)  # fmt: skip
"""Exceptions that only tell of another process's."""
UNLIKE = re.compile(
    r"(?:size mismatch for|Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict"
    r"|Error\(s\) in loading state_dict)[^\n]{0,160}"
)
"""A checkpoint that is whole, of a model that is built otherwise."""
UNLIKE_ADVICE = (
    "The checkpoint is of a model with other sizes or names of parameters: compare the model's configuration (layers, "
    "vocabulary, parallel sizes, wrappers) with the one that saved it. Restarting will not help, nor will an older "
    "checkpoint of the same model."
)
ENDED = "{where} says that its script ended: {words}."
LEFT = (
    "See what that rank does otherwise: fewer batches, another count of steps, an early return. Every rank has to "
    "reach the last collective before one leaves."
)
LEFT_MISSING = (Wanted("the last lines of that rank (whether it had done all of its steps)"),)
ENDS_LOOPS = frozenset({"StopIteration", "StopAsyncIteration"})
"""Mostly a loop's end; where a traceback ends with it nobody caught it."""
BENIGN = (
    "NVMLError",
    "FutureWarning",
    "UserWarning",
    "DeprecationWarning",
    "StopIteration",
    "GeneratorExit",
    "NVMLError_",
)


TASKS_EXITED = re.compile(
    r"srun: error: \S{1,100}: tasks? (?P<tasks>[\d,-]{1,60}): Exited with exit code (?P<code>\d{1,3})\b"
)
_FRAME = re.compile(r"^(?:[^\n]{0,1000}/)?(?P<file>[^/\n]{1,200}):(?P<line>\d{1,9}) in (?P<function>\S{1,200})$")


def reads(evidence: Evidence) -> Reading | None:
    """The exception that a piece of evidence ends with."""
    if evidence.code == "restart_ex" or evidence.source in ("kernel", "dcgm"):
        return None
    named = exception_in(evidence.text, evidence.code)
    if named is None:
        return _reported(evidence)
    if named.type.startswith(BENIGN) and not (named.type in ENDS_LOOPS and evidence.code == named.type):
        return None
    if named.type in RELAYS:
        return Reading(RULE.name, CausalRole.TEARDOWN)
    traits = tuple(sorted(exception_traits(evidence).items()))
    words = f"{named.type}{f': {named.message}' if named.message else ''}"[:240]
    if named.type == "SystemExit" and named.message in ("0", "None", ""):
        return Reading(RULE.name, CausalRole.INFORMATIONAL, traits=traits)
    advice = UNLIKE_ADVICE if UNLIKE.search(named.message) else None
    is_mistake = named.full_type in MISTAKES
    domain = Domain.UNKNOWN if not is_mistake and is_lone(words) else None  # whoever did not answer
    return Reading(
        RULE.name, CausalRole.INITIATING, RAISED, words, 0.85, Weight.LINE, traits=traits, domain=domain, advice=advice
    )


def _reported(evidence: Evidence) -> Reading | None:
    """An exception that somebody caught and wrote into a line of a log: it may be why, where nothing else is known."""
    named = reported_in(evidence.text)
    if named is None or named.type in RELAYS or named.type.startswith(BENIGN):
        return None
    return Reading(
        RULE.name, CausalRole.INITIATING, words=f"{named.type}: {named.message}"[:240], confidence=0.55,
        weight=Weight.ECHO, traits=(("exception", named.type[:120]),),
    )  # fmt: skip


def match(case: Case) -> Match | None:
    """The earliest exception that is not an echo of another rank's death; else an exit that says nothing else."""
    signs = case.accusing(RULE.name)
    heavy = [sign for sign in signs if sign.reading.weight >= Weight.LINE]
    if heavy:
        return _raised(case, heavy)
    if signs:
        first = signs[0]
        rank = first.reading.rank if first.reading.rank is not None else first.rank
        return Match(
            first.reading.confidence,
            f"{first.who if rank == first.rank else who(rank, first.node)}: {shown_words(first.reading.words)}.",
            rank,
            first.node,
            first.at,
            (first.item,),
            MISSING,
            Weight.ECHO,
            first.reading.traits,
            first.reading.domain,
            first.reading.advice,
        )
    if case.says("exception"):
        return Match(0.6, f"Reported as an exception ({case.says('exception')}).", missing_evidence=MISSING)
    return _exited(case)


def _raised(case: Case, signs: list[Sign]) -> Match:
    first = signs[0]
    same = [sign for sign in signs if _what(sign) == _what(first)]
    ranks = sorted({sign.rank for sign in same if sign.rank is not None})
    rank = first.rank if first.rank is not None else _aborted(case, first)
    rank = rank if rank is not None else _only_failed(case)
    confidence = first.reading.confidence if rank is not None else 0.75
    named = first.who if rank == first.rank else who(rank, first.node)
    if len(ranks) > 1 and not _is_origin(first, same):
        named = ", ".join(map(str, ranks[:8])) + ("" if len(ranks) <= 8 else f", … ({len(ranks)} in all)")
        return Match(
            0.85, f"Ranks {named} raised {_words(first)}{_detail(case, first)}", None, None, first.at,
            tuple(sign.item for sign in same[:20]), traits=first.reading.traits, domain=first.reading.domain,
            advice=first.reading.advice,
        )  # fmt: skip
    says = f"{named} raised {_words(first)}{_detail(case, first)}"
    if first.reading.says == GPU_FAILED:
        says = f"{named} made its GPU fail: {shown_words(first.reading.words, first.text)}.".replace("….", "…")
    return Match(
        confidence, says, rank, first.node, first.at, (first.item,), traits=first.reading.traits,
        domain=first.reading.domain, advice=first.reading.advice,
    )  # fmt: skip


def _is_origin(first: Sign, same: list[Sign]) -> bool:
    """A GPU that failed before the others': a fault of its own, where an exception of the program is everybody's."""
    return (
        first.rank is not None
        and first.reading.says == GPU_FAILED
        and all(sign.rank == first.rank or sign.at > first.at for sign in same)
    )


def _words(sign: Sign) -> str:
    """The exception as a sentence repeats it; one that hardly says anything with where it was raised."""
    words = sign.reading.words
    if len(words) >= LONGEST_WORDS:
        return shown_words(words, sign.text, LONGEST_WORDS - 1)
    frame = _FRAME.match(dict(sign.item.evidence.attributes).get("frame", ""))
    message = words.partition(": ")[2].strip()
    if frame is None or len(message.split()) > 1:
        return words
    return f"{words} in {frame['function']} ({frame['file']}:{frame['line']})"


def _detail(case: Case, first: Sign) -> str:
    """What does not fit, where the exception leaves that to the lines behind it; else empty."""
    told = first.item.evidence
    if first.reading.advice != UNLIKE_ADVICE or not first.reading.words.endswith(":"):
        return ""
    behind = (
        UNLIKE.search(sign.text)
        for sign in case.signs
        if sign.item.evidence.emitter == told.emitter and sign.item.evidence.seq > told.seq and sign.rank == first.rank
    )
    found = next((match for match in behind if match is not None), None)
    return "" if found is None else f" {shown_words(found[0], most=120)}"


def _what(sign: Sign) -> str:
    return without_numbers(sign.reading.words)


def _aborted(case: Case, first: Sign) -> int | None:
    """Whose last words C++ printed without a name: the only rank that repeats them, which its watchdog does."""
    if not first.text.lstrip().startswith("what():"):
        return None
    told = first.item.evidence
    same = {
        sign.rank
        for sign in case.signs
        if sign.rank is not None and sign.item.evidence.emitter == told.emitter and sign.item.evidence.seq > told.seq
        and sign.accuses and _what(sign) == _what(first)
    }  # fmt: skip
    return same.pop() if len(same) == 1 else None


def _only_failed(case: Case) -> int | None:
    """The one rank that ended by itself with an error, where nobody says who raised."""
    own = {rank for rank, code in case.exit_codes if 0 < code < 128}
    for sign in case.signs:
        told = TASKS_EXITED.search(sign.text)
        if told is not None and 0 < int(told["code"]) < 128:
            if sign.rank is None or not told["tasks"].isdigit():
                return None  # several of them, or whose tasks are no ranks
            own.add(sign.rank)
    return own.pop() if len(own) == 1 else None


def _left_others(case: Case) -> WorkerExit | None:
    """The one rank that ended by itself with a code, where nobody accuses anything and all others only lost a peer."""
    own = [worker for worker in case.exits if 0 < worker.exit_code < 126]
    if len({worker.rank for worker in own}) != 1 or own[0].rank < 0:
        return None
    is_alone = not any(sign.accuses for sign in case.signs)
    return own[0] if is_alone and case.losers_of(own[0].rank) else None


def _left_early(case: Case) -> Match | None:
    """The one rank that ended by itself and well, while the others were still training: then they lost it.

    Nothing failed there, and nothing of the network: the program let one rank go and the others on.
    """
    if any(sign.accuses and sign.reading.weight >= Weight.WAIT for sign in case.signs):
        return None
    said = {sign.rank: sign for sign in reversed(case.signs) if sign.reading.says == ENDED and sign.rank is not None}
    exited = {worker.rank: worker for worker in reversed(case.exits) if worker.exit_code == 0 and worker.rank >= 0}
    failed = {worker.rank for worker in case.exits if worker.exit_code}
    ranks = (said.keys() | exited.keys()) - failed
    lost = [rank for rank in ranks if case.losers_of(rank)]
    if len(lost) != 1 or len(ranks) != 1:
        return None
    (rank,) = lost
    first = case.losers_of(rank)[0]
    ends = [end for end in (said.get(rank), exited.get(rank)) if end is not None]
    is_before = rank in exited and exited[rank].at < first.at
    is_told_before = rank in said and said[rank].item.order() < first.item.order()
    if not is_before and not is_told_before:
        return None
    code = " with exit code 0" if rank in exited else ""
    return Match(
        0.7, f"Rank {rank} ended by itself{code} while others were still training: they lost the connection to it.",
        rank, said[rank].node if rank in said else case.node_of(exited[rank]), min(end.at for end in ends),
        (said[rank].item,) if rank in said else (), LEFT_MISSING, Weight.LINE, advice=LEFT,
        confirming=tuple(sign.item for sign in case.losers_of(rank))[:20],
    )  # fmt: skip


def _exited(case: Case) -> Match | None:
    """An exit with an error code of its own, from a rank that had lost nobody."""
    if (early := _left_early(case)) is not None:
        return early
    echoing = {sign.rank for sign in case.signs if sign.reading.role is CausalRole.CASCADE}
    if (left := _left_others(case)) is not None:
        return Match(
            0.6,
            f"{case.who_ended(left)} ended itself with exit code {left.exit_code} and said no more; all that the "
            "others tell is that they lost the connection to a peer.", left.rank,
            case.node_of(left), left.at, missing_evidence=MISSING, weight=Weight.LINE, domain=Domain.UNKNOWN,
        )  # fmt: skip
    for worker in case.exits:
        rank = worker.rank if worker.rank >= 0 else None
        is_any = worker.exit_code == 1
        if 0 < worker.exit_code < 126 and (rank is None or rank not in echoing):
            return Match(
                ANY_END if is_any else 0.5,
                f"{case.who_ended(worker)} ended itself with exit code {worker.exit_code} and said no more.", rank,
                case.node_of(worker), worker.at, missing_evidence=MISSING, weight=Weight.ECHO,
                domain=Domain.UNKNOWN if is_any else None,
            )  # fmt: skip
    return None


RULE = CauseRule(
    name="user_exception",
    domain=Domain.WORKLOAD,
    advice="Read the traceback; if it comes again at the same step, restarting will not help.",
    match=match,
    order=90,
    reads=reads,
    lines=(
        line(
            rf"{cuda_errors.pattern('user_exception')}"
            r"|CUDA error: invalid (?:argument|configuration|resource handle)[^\n]{0,60}|device-side assert triggered"
            r"|CUDA_ERROR_(?:LAUNCH_FAILED|ILLEGAL_ADDRESS|ASSERT|MISALIGNED_ADDRESS)\b"
            r"|Triton Error \[CUDA\]: [^\n]{0,80}|Memory access fault by GPU node-\d{1,4}[^\n]{0,160}"
            r"|\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT|HIPBLAS|MIOPEN)_STATUS_(?!SUCCESS)\w{1,40}"
            r"|cublas runtime error : [^\n]{0,80}|Assertion `[^`\n]{1,120}` failed",
            GPU_FAILED,
            confidence=0.8,
        ),
        line(
            rf"{cuda_errors.ANY}[^\n]{{0,80}}",
            GPU_FAILED,
            confidence=0.6,
            unless=r"may (?:potentially )?fail with|unexpected CUDA errors|CUDA errors? (?:might|may|can|could) be",
        ),
        line(
            UNLIKE.pattern,
            confidence=0.55,
            weight=Weight.ECHO,
            advice=UNLIKE_ADVICE,
            unless=r"\w(?:Error|Exception): Error\(s\) in loading",
        ),
        line(
            r"Interruption\.BASE_EXCEPTION (?:affecting ranks |on ranks=)\{(?P<rank>\d{1,7})\}",
            "{where} left the training function by an exception that restarts nothing.",
            confidence=0.75,
        ),
        line(
            r"\btask (?P<task>\d{1,7}): Exited with exit code 1(?!\d)"
            r"|\btasks [\d,-]{1,60}: Exited with exit code 1(?!\d)"
            rf"|{exits('1', group='rank')}|Process name: \[\[\d{{1,10}},\d{{1,10}}\],\d{{1,7}}\]"
            r"|exits with return code = 1(?!\d)",
            confidence=ANY_END,
            weight=Weight.ECHO,
            domain=Domain.UNKNOWN,
        ),
        line(
            r"\btask (?P<task>\d{1,7}): Exited with exit code \d{1,3}"
            r"|\btasks [\d,-]{1,60}: Exited with exit code \d{1,3}"
            rf"|{exits('[1-9]{1}[0-9]{0,2}', group='rank')}"
            r"|MPI_ABORT was invoked on rank (?P<rank_>\d{1,7}) in communicator"
            r"|exits with return code = \d{1,3}\b",
            confidence=0.5,
            weight=Weight.ECHO,
        ),
        line(
            r"\b[Ss]cript (?:has )?(?:ended|finished|exited)\b[^\n]{0,60}|\bexit(?:ed|ing) normally\b"
            r"|\bexit(?:ed|ing) with (?:exit )?code:? 0\b",
            ENDED,
            role=CausalRole.INFORMATIONAL,
            unless=r"error|exception|fail",
        ),
        line(r"\(exitcode: \d{1,3}\)|exitcode\s{0,4}: \d{1,3} ", role=CausalRole.INFORMATIONAL),
    ),
)
