"""The data loader failed: its worker died or raised, its shared memory ran out, or it gave no batch in time.

A worker that dies takes its connection along: a `ConnectionResetError` whose traceback goes through the data loader or
through multiprocessing's pipes is this, and no fault of the network.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core.cause_rules import (
    Case,
    CauseRule,
    Match,
    Reading,
    Weight,
    exception_traits,
    from_lines,
    line,
    placed,
    shown_words,
    who,
)
from rerail.server.core.facts import Evidence
from rerail.server.core.naming import exception_in
from rerail.server.core.view import CausalRole, Domain

PIPES = frozenset({"ConnectionResetError", "BrokenPipeError", "EOFError", "ConnectionRefusedError", "ConnectionError"})
READING = frozenset({"OSError", "IOError", "FileNotFoundError", "TimeoutError", "PermissionError", "Empty"})
TOLD_NS = 60_000_000_000
"""Within so long after a worker's last words its rank raises."""
SAYS = "{where} lost its data loader: {words}."


def reads(evidence: Evidence) -> Reading | None:
    """An exception that came through the loader's own code."""
    if dict(evidence.attributes).get("through") != "data_loader":
        return None
    named = exception_in(evidence.text, evidence.code)
    if named is None or named.type not in PIPES | READING:
        return None
    words = f"{named.type}: {named.message}"[:240]
    return Reading(
        RULE.name, CausalRole.INITIATING, SAYS, words, 0.8, Weight.LINE,
        traits=tuple(sorted(exception_traits(evidence).items())),
    )  # fmt: skip


def match(case: Case) -> Match | None:
    """The earliest line that tells of it; what a worker printed without a name is of the only rank that tells of it."""
    found = from_lines(case, RULE)
    if found is None or found.rank is not None or not found.initiating:
        return found
    first = found.initiating[0]
    near = [
        sign for sign in case.accusing(RULE.name)
        if sign.rank is not None and sign.item.evidence.emitter == first.evidence.emitter
        and sign.at - first.at <= TOLD_NS
    ]  # fmt: skip
    if len({sign.rank for sign in near}) != 1:
        return found
    told = near[0]
    says = placed(told.reading.says, who(told.rank, told.node or found.node))
    return replace(
        found, rank=told.rank, node=told.node or found.node,
        sentence=says.replace("{words}", shown_words(told.reading.words, told.text)).replace("….", "…"),
        initiating=(*found.initiating, told.item),
    )  # fmt: skip


RULE = CauseRule(
    name="data_loader",
    domain=Domain.WORKLOAD,
    advice="Look at the loader's worker: its memory, its shared memory (/dev/shm), and the file it was reading.",
    match=match,
    order=18,
    reads=reads,
    lines=(
        line(
            r"DataLoader worker \(pid[^)\n]{0,200}\)[^\n]{0,160}"
            r"|Caught \w{1,60} in DataLoader worker process \d{1,6}"
            r"|DataLoader timed out after[^\n]{0,40}|bus error encountered in worker"
            r"|out of shared memory[^\n]{0,60}|insufficient shared memory"
            r"|unable to (?:open|write|resize)[^\n]{0,60}(?:shared memory|/torch_)[^\n]{0,60}"
            r"|(?:WebDataset|tarfile|webdataset)[^\n]{0,60}(?:Error|ReadError)[^\n]{0,80}"
            r"|dataset (?:worker|shard)[^\n]{0,60}(?:failed|corrupt)[^\n]{0,60}",
            SAYS,
            confidence=0.9,
            unless=r"CUDA out of shared|will create \d",
        ),
        line(r"ReadError: [^\n]{0,120}|UnidentifiedImageError[^\n]{0,120}", SAYS, confidence=0.75),
    ),
)
