"""The numbers went wrong: a loss or a gradient that is not finite, or a loss that jumped.

A line that merely shows such a number (`loss: nan`) is weak: many runs step over it. An exception about it is not.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.causes.silent_corruption import unexpected
from rerail.server.core.view import CausalRole, Domain

THING = r"(?:loss|grad(?:ient)?s?|norm|logits|activations?|output|parameters?|weights?|values?|result)"
NUMBER = r"(?:NaNs?|Infs?|infinity|non-?finite|not finite)"
SAYS = "{where} met numbers that are not finite: {words}."


def match(case: Case) -> Match | None:
    """The earliest line that tells of it, but for results that a second look found to be a GPU's."""
    taken_back = {sign.item.order() for sign in unexpected(case)}
    if not taken_back:
        return from_lines(case, RULE)
    return from_lines(
        replace(case, signs=tuple(sign for sign in case.signs if sign.item.order() not in taken_back)), RULE
    )


RULE = CauseRule(
    name="loss_anomaly",
    domain=Domain.WORKLOAD,
    advice="Look at the batch and the learning rate of that step; if it strikes one node again, suspect its GPU.",
    match=match,
    order=24,
    lines=(
        line(
            rf"found {NUMBER} in (?:local |global )?grad[^\n]{{0,120}}|returned nan values in[^\n]{{0,60}}"
            r"|found unexpectedly large[^\n]{0,20}norm[^\n]{0,80}|[Cc]urrent loss scale already at minimum[^\n]{0,80}"
            rf"|Unexpected result (?:nan|inf)[^\n]{{0,160}}|\bNonFinite\w{{0,40}}[^\n]{{0,80}}|\bNaNError[^\n]{{0,80}}",
            SAYS,
            confidence=0.9,
        ),
        line(
            rf"\w{{0,60}}(?:Error|Exception|Failure)\b[^\n]{{0,160}}\b{THING}\b[^\n]{{0,40}}\b{NUMBER}\b[^\n]{{0,60}}"
            rf"|\w{{0,60}}(?:Error|Exception|Failure)\b[^\n]{{0,120}}\b{NUMBER}\b[^\n]{{0,40}}\b{THING}\b[^\n]{{0,60}}"
            rf"|\b{THING}\b[^\n]{{0,20}} is {NUMBER}\b[^\n]{{0,20}}\b(?:stopp|abort|terminat|exit)ing\b[^\n]{{0,40}}"
            rf"|(?:stopp|abort|terminat|halt|exit)\w{{0,6}}[^\n]{{0,60}}\b{THING}\b[^\n]{{0,40}}\b{NUMBER}\b",
            SAYS,
            confidence=0.9,
            unless=r"could not convert|invalid literal|skipping|NCCL",
        ),
        line(
            r"(?:Error|Exception)\b[^\n]{0,120}\bloss\b[^\n]{0,30}(?:spike|explod|diverg|jump)\w{0,6}[^\n]{0,80}"
            r"|\bloss (?:spike|divergence) (?:detected|found)[^\n]{0,80}"
            r"|loss diverged[^\n]{0,80}"
            r"|(?:rerun|unexpected) result[^\n]{0,60}spiky loss[^\n]{0,60}",
            "{where} saw the loss jump: {words}.",
            confidence=0.8,
        ),
        line(
            rf"\b(?:lm )?loss[\"' ]{{0,2}}[:=] {{0,4}}(?:nan|inf)\b"
            rf"|\bgrad[ _]norm[\"' ]{{0,2}}[:=] {{0,4}}(?:nan|inf)\b"
            rf"|\b{THING}\b[^\n]{{0,20}} is {NUMBER}\b",
            SAYS,
            confidence=0.45,
            weight=Weight.ECHO,
            unless=r"skipp(?:ed|ing) (?:step|iteration|update)|could not convert",
        ),
        line(
            r"skipp(?:ed|ing) (?:step|iteration|update|batch)[^\n]{0,60}(?:nan|inf|overflow)",
            role=CausalRole.INFORMATIONAL,
        ),
    ),
)
