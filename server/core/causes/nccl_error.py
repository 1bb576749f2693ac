"""NCCL met an error: its own system error, or a remote process that went away. HCCL is read as its like.

A remote error is what NCCL prints when its peer died: where any rank failed by itself, it is the cascade. Alone it is
all that is known.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core import cuda_errors
from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.fabric_words import PORT_LOST, UNANSWERED
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted

MISSING = (
    Wanted("the log of the rank that failed first"),
    Wanted("the exit codes of every rank", Kind.EXIT_CODES),
    Wanted("the counters of the links between the two"),
)


def match(case: Case) -> Match | None:
    """NCCL's own error, or the remote one where nothing else is known."""
    found = from_lines(case, RULE)
    if found is not None:
        return replace(found, rank=None, missing_evidence=MISSING)
    echoes = [
        sign for sign in case.signs if sign.reading.cause == RULE.name and sign.reading.role is CausalRole.CASCADE
    ]
    if not echoes:
        return None
    first = echoes[0]
    return Match(
        0.45, f"{first.who} lost an NCCL peer; why that one went away is not told.", None, None, first.at,
        (first.item,), MISSING, Weight.ECHO, first.reading.traits,
    )  # fmt: skip


SAYS = "NCCL failed on {where}: {words}."

RULE = CauseRule(
    name="nccl_error",
    domain=Domain.UNKNOWN,
    advice="Look for the rank that failed first; without one, test the links between the two nodes.",
    match=match,
    order=34,
    lines=(
        line(
            r"ncclRemoteError|remote process exited or there was a network error"
            r"|Net(?:work)?: Connection closed by remote peer|Broadcasting NCCL error"
            r"|NCCL communicator was aborted on rank \d{1,7}|ncclCommAbort"
            r"|NCCL error: unhandled (?:system|cuda) error \(run with NCCL_DEBUG=INFO[^\n]{0,40}\)"
            r"[^\n]{0,40}remote|NCCL[^\n]{0,60}caused by an? (?:previous|earlier) error",
            role=CausalRole.CASCADE,
        ),
        line(
            r"NET/IB ?: Got completion[^\n]{0,200}|Got completion from peer[^\n]{0,200}"
            r"|(?:NCCL WARN )?NET/IB[^\n]{0,80}(?:QP [^\n]{0,20}fatal|\bfatal error|retry exceeded)"
            r"[^\n]{0,80}"
            r"|mlx5_\d{1,3}[^\n]{0,80}fatal[^\n]{0,60}",
            "NCCL's network met an error on {where}: {words}.",
            confidence=0.6,
            weight=Weight.WAIT,
            domain=Domain.INFRASTRUCTURE,
            unless=rf"{UNANSWERED}|{PORT_LOST}",
        ),
        line(
            r"ncclSystemError[^\n]{0,160}|ncclInternalError[^\n]{0,160}"
            r"|NCCL error[^\n]{0,120}unhandled (?:system|cuda) error[^\n]{0,120}"
            r"|NCCL operation nccl\w{1,40}\([^\n]{0,80} failed: unhandled[^\n]{0,80}"
            r"|ncclUnhandledCudaError[^\n]{0,160}",
            SAYS,
            confidence=0.6,
            weight=Weight.WAIT,
            unless=cuda_errors.ANY,
        ),
        line(
            r"Failed to modify QP to \w{1,12}: Connection timed out",
            "A connection of the fabric was not made in time on {where} ({words}).",
            confidence=0.5,
            weight=Weight.WAIT,
        ),
        line(
            r"OPS function error: Hccl\w{1,40}, error code is \d{1,6}|HCCL error in: [^\n]{0,80}",
            "The collective library of Ascend devices failed on {where}: {words}.",
            confidence=0.5,
            weight=Weight.WAIT,
        ),
        line(
            r"ncclInvalidUsage[^\n]{0,160}|ncclInvalidArgument[^\n]{0,160}",
            SAYS,
            confidence=0.7,
            weight=Weight.WAIT,
            domain=Domain.WORKLOAD,
        ),
        line(r"NCCL INFO [^\n]{0,120} -> \d{1,3}\b", role=CausalRole.INFORMATIONAL),
        line(
            r"(?:NCCL watchdog thread|Process group watchdog thread) terminated with exception: (?!CUDA)"
            r"[^\n]{0,120}|NCCL WARN (?!Socket|NET/IB[^\n]{0,60}async event)[^\n]{0,160}",
            role=CausalRole.CASCADE,
            unless=rf"{cuda_errors.ANY}|{UNANSWERED}|{PORT_LOST}",
        ),
    ),
)
