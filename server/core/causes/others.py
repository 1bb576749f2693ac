"""Others: an accusation of a machine or a pod that nothing ties to the run, beside an exception of the run's own.

A log often holds more than its run: events of a whole cluster, a scheduler's lines about other machines. Where such a
line accuses, and the first that the run itself says behind it is an exception that no machine makes a program raise,
that exception is why the run ended. So it is where the run completed steps between the two.

Rules
- What the victims of a machine say (lost connections, calls of CUDA that failed, waits in vain) ties it to the run, as
  does a rank's own line from that machine; so does a signal that ends ranks.
- An exception that speaks of devices, connections or time-outs may be a victim's: it settles nothing.
- Of a scheduler that is asked about this run, and of a machine's own log in a file of its own, it is known whom they
  mean. A log of others beside the run's is asked only where the run's own lines name machines or the line a pod.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Sign, Weight, shown_words, with_more
from rerail.server.core.causes.elsewhere import sign_behind
from rerail.server.core.causes.survived import FEW_STEPS, FEW_STEPS_NS
from rerail.server.core.causes.user_exception import GPU_FAILED
from rerail.server.core.facts import RUN_TRAINED_ON, TRAINED_ON
from rerail.server.core.mentions import SPOKEN
from rerail.server.core.naming import exception_in
from rerail.server.core.plain_exceptions import MISTAKES
from rerail.server.core.view import CausalRole

OF_OTHERS = frozenset({"preemption", "node_lost", "operator_stop", "gpu_hardware", "host_oom", "checkpoint_io"})
"""What may be told of a machine or a pod that the run has nothing to do with."""
OWN_DOING = frozenset({"user_exception", "gpu_oom", "configuration", "loss_anomaly"})
_POD = re.compile(r"\bpods?[/ ](?P<pod>[a-z0-9][a-z0-9.-]{0,250}[a-z0-9])")
_OF_VICTIMS = re.compile(
    r"cuda|nccl|gloo|c10d|distributed|\becc\b|driver|device|\bgpu|connect|socket|peer|time[d ]{0,2}out|signal|interrupt"
    r"|terminat|sigterm|preempt|evict|shut ?down|cancel|kill|i/o error|errno",
    re.IGNORECASE,
)


def own_exception(
    case: Case, found: Sequence[tuple[CauseRule, Match]], rule: CauseRule, match: Match
) -> tuple[CauseRule, Match] | None:
    """The run's own exception, where what was decided tells of others; None where it may be about the run."""
    told = sign_behind(case, match)
    if told is None or rule.name not in OF_OTHERS or told.item.evidence.source not in SPOKEN | {"kernel"}:
        return None
    place = told.item.evidence
    places = {sign.item.order(): number for number, sign in enumerate(case.signs)}
    first = places[told.item.order()]
    whom = _stranger(case, told)
    own = []
    for other_rule, other in found:
        sign = sign_behind(case, other)
        if sign is None or other_rule.name not in OWN_DOING or other.weight is not Weight.LINE:
            continue
        is_told_apart = sign.item.evidence.emitter != place.emitter
        if is_told_apart and (whom is None or place.source == "kernel" or not _has_spoken(case)):
            continue
        if places[sign.item.order()] > first and _is_own_doing(sign):
            own.append((places[sign.item.order()], other_rule, other))
    if not own:
        return None
    last, other_rule, other = min(own, key=lambda entry: (entry[0], entry[1].name))
    between = case.signs[first + 1 : last]
    if any(_is_victims(sign) for sign in between):
        return None
    went_on = any(sign.item.evidence.code in (TRAINED_ON, RUN_TRAINED_ON) for sign in between) or (
        case.steps_after(told.at, other.at) >= FEW_STEPS and case.steps_after(told.at + FEW_STEPS_NS, other.at) > 0
    )
    if whom is None and not went_on:
        return None
    why = f"{whom} is not known to be of the run" if whom is not None else "the run completed steps after it"
    words = shown_words(told.reading.words, told.text, 120)
    said = f"What came before it ({rule.name}: {words}) does not explain it: {why}."
    return other_rule, replace(other, sentence=with_more(other.sentence, said))


def _is_victims(sign: Sign) -> bool:
    """Anything a process says of its end, or of another's."""
    if sign.item.evidence.source not in SPOKEN | {"torchrun", "nvrx"}:
        return False
    return sign.accuses or sign.reading.role in (CausalRole.CASCADE, CausalRole.TEARDOWN)


def _is_own_doing(sign: Sign) -> bool:
    """An exception that comes of nothing that happens to a machine."""
    if sign.reading.cause != "user_exception":
        return True
    if sign.reading.says == GPU_FAILED:
        return False
    named = exception_in(sign.text, sign.item.evidence.code)
    return named is not None and (named.full_type in MISTAKES or not _OF_VICTIMS.search(sign.text))


def _stranger(case: Case, told: Sign) -> str | None:
    """The pod or machine a line names, where nothing ties it to the run; None where it names none."""
    spoke = _spoke(case, told)
    pod = _POD.search(told.text)
    if pod is not None:
        return None if pod["pod"] in spoke else f"pod {pod['pod']}"
    if told.node is None or told.node in spoke:
        return None
    return f"node {told.node}"


def _has_spoken(case: Case) -> bool:
    return bool(_spoke(case, None))


def _spoke(case: Case, told: Sign | None) -> set[str]:
    """The machines that ranks spoke from or ended on."""
    spoke = {
        sign.node
        for sign in case.signs
        if sign.node and sign is not told and sign.item.evidence.source in SPOKEN | {"torchrun", "nvrx"}
        and (sign.rank is not None or sign.reading.cause not in OF_OTHERS)
    }  # fmt: skip
    return spoke | {worker.node for worker in case.exits if worker.node}
