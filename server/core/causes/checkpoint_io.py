"""A checkpoint, or another file, could not be written or read: the disk is full, slow, read-only or gone.

A full disk does not say so: PyTorch's writer then reports `unexpected pos N vs M`.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core.cause_rules import (
    Case,
    CauseRule,
    Match,
    Reading,
    Sign,
    Weight,
    exception_traits,
    from_lines,
    line,
    shown_words,
    with_more,
)
from rerail.server.core.evictions import EVICTED_FOR_DISK, OVER_ITS_DISK
from rerail.server.core.facts import Evidence
from rerail.server.core.naming import exception_in
from rerail.server.core.view import CausalRole, Domain

FILES = frozenset(
    {"OSError", "IOError", "FileNotFoundError", "PermissionError", "TimeoutError", "FileExistsError", "BlockingIOError",
     "ClientError", "EndpointConnectionError", "CheckpointException", "ConnectionClosedError", "ConnectTimeoutError",
     "ReadTimeoutError", "HTTPClientError", "S3UploadFailedError"}
)  # fmt: skip
OF_FILES = frozenset({"checkpoint_io", "data_loader"})
MISSED_NS = 600_000_000_000
"""Within so long a rank notices that its files are gone."""
STORAGE = (
    "Look at the health of that file system's servers and of the node's way to them; reading and writing both go there."
)
COLLECTS = "CheckpointException"
"""What torch raises on every rank for the exceptions of some, which it prints behind it."""
SAYS = "{where} could not write or read its files ({words})."
EVICTED = "{where} was evicted by Kubernetes: its node ran short of disk space ({words})."
OVER = "{where} was evicted by Kubernetes: it wrote more to its node's disk than it may ({words})."
FULL = "{where} could not write: the file ended before it should have, as it does on a full disk ({words})."


def reads(evidence: Evidence) -> Reading | None:
    """A file's exception that came through saving or loading a checkpoint."""
    if dict(evidence.attributes).get("through") != "checkpoint":
        return None
    named = exception_in(evidence.text, evidence.code)
    if named is None or named.type not in FILES:
        return None
    return Reading(
        RULE.name, CausalRole.INITIATING, SAYS, f"{named.type}: {named.message}"[:240], 0.85, Weight.LINE,
        traits=tuple(sorted(exception_traits(evidence).items())),
    )  # fmt: skip


def match(case: Case) -> Match | None:
    """The earliest line that tells of it; an exception that only collects those of ranks, with what the first was."""
    found = from_lines(case, RULE)
    if (
        found is not None
        and found.rank is None
        and found.initiating
        and found.initiating[0].evidence.source == "kernel"
    ):
        return _of_storage(case, found)
    if found is None or not found.initiating or COLLECTS not in found.initiating[0].evidence.text:
        return found
    first = found.initiating[0].evidence
    inner = next((sign for sign in case.signs if _is_behind(sign, first)), None)
    named = None if inner is None else exception_in(inner.text, inner.item.evidence.code)
    if inner is None or named is None or COLLECTS in named.type:
        return found
    if inner.accuses and inner.reading.cause not in (RULE.name, "checkpoint_corrupt", "user_exception"):
        return None  # what it was is told by its own rule, at the same instant
    said = shown_words(f"{named.type}: {named.message}" if named.message else named.type, inner.text)
    return replace(found, sentence=f"{found.sentence.rstrip('.')}: {said}.", initiating=(*found.initiating, inner.item))


def _of_storage(case: Case, found: Match) -> Match:
    """What a machine tells of its file system, with the first rank that could not read or write there after it."""
    first = found.initiating[0]
    failed = next(
        (
            sign for sign in case.signs
            if sign.accuses and sign.rank is not None and sign.reading.cause in OF_FILES
            and sign.item.order() > first.order() and sign.at - first.at <= MISSED_NS
            and (sign.node is None or sign.node == found.node)
        ),
        None,
    )  # fmt: skip
    if failed is None:
        return replace(found, advice=STORAGE)
    named = exception_in(failed.text, failed.item.evidence.code)
    words = failed.reading.words if named is None else f"{named.type}: {named.message}"
    said = f"The storage failed, and rank {failed.rank} with it: {shown_words(words, failed.text, 120)}."
    return replace(
        found, rank=failed.rank, sentence=with_more(found.sentence, said), advice=STORAGE,
        initiating=(*found.initiating, failed.item),
    )  # fmt: skip


def _is_behind(sign: Sign, first: Evidence) -> bool:
    told = sign.item.evidence
    return told.emitter == first.emitter and told.rank == first.rank and told.seq > first.seq


RULE = CauseRule(
    name="checkpoint_io",
    domain=Domain.INFRASTRUCTURE,
    advice="Look at free space, quota and inodes of the checkpoint's file system, and at its server's health.",
    match=match,
    order=22,
    reads=reads,
    lines=(
        line(
            EVICTED_FOR_DISK,
            EVICTED,
            confidence=0.9,
            weight=Weight.ESTABLISHED,
            advice="See what fills that node's disk (logs, images, emptyDir volumes); ask for ephemeral-storage.",
        ),
        line(
            OVER_ITS_DISK,
            OVER,
            confidence=0.9,
            weight=Weight.ESTABLISHED,
            domain=Domain.WORKLOAD,
            advice="Raise the pod's limit of ephemeral-storage, or write to a volume.",
        ),
        line(r"nfs: server \S{1,120} OK\b", role=CausalRole.INFORMATIONAL),
        line(
            r"No space left on device|Errno 28\b|Disk quota exceeded|\bEDQUOT\b"
            r"|\bENOSPC\b|Errno 122\b|kind: StorageFull",
            "{where} could not write: no space is left ({words}).",
            confidence=0.95,
            unless=r"/dev/shm",
        ),
        line(
            r"enforce fail at inline_container\.cc:\d{1,6}\][^\n]{0,20}unexpected pos \d{1,20} vs \d{1,20}"
            r"|PytorchStreamWriter failed writing file[^\n]{0,80}"
            r"|basic_ios::clear: iostream error",
            FULL,
            confidence=0.85,
        ),
        line(
            r"Stale file handle|\bESTALE\b|Read-only file system"
            r"|Transport endpoint is not connected|\bEROFS\b"
            r"|write\(\): fd \d{1,9} failed with[^\n]{0,60}"
            r"|read\(\): fd \d{1,9} failed with[^\n]{0,60}"
            r"|(?:Lustre|LustreError|nfs: server|GPFS|beegfs|ceph)"
            r"[^\n]{0,80}(?:not responding|timed out|evicted|error)[^\n]{0,60}"
            r"|LustreError:[^\n]{0,160}(?:failed: rc = -\d{1,3}|rc -\d{1,3}|failed with -\d{1,3})"
            r"|Lustre: [^\n]{0,120}Connection to [^\n]{0,80} was lost"
            r"|Cannot send after transport endpoint shutdown|nfs: server \S{1,120} not responding[^\n]{0,60}"
            r"|while serializing: I/?O ?[Ee]rror[^\n]{0,80}"
            r"|Remote I/O error|I/O error, dev \w{1,20}",
            SAYS,
            confidence=0.85,
        ),
        line(
            r"CheckpointException ranks: ?dict_keys\(\[(?P<rank>\d{1,7})\]\)[^\n]{0,120}"
            r"|Traceback \(most recent call last\): \(RANK (?P<rank_>\d{1,7})\)[^\n]{0,120}",
            SAYS,
            confidence=0.9,
        ),
        line(r"\bCheckpointException\b[^\n]{0,120}", SAYS, confidence=0.8),
        line(
            r"(?:failed|unable|could not|cannot) to (?:save|write|upload|persist|finalize|commit)"
            r"[^\n]{0,40}checkpoint[^\n]{0,120}"
            r"|checkpoint[^\n]{0,30} (?:save|write|upload) failed[^\n]{0,120}"
            r"|(?:Error|Exception)[^\n]{0,40} (?:saving|writing|uploading) (?:the )?checkpoint[^\n]{0,120}",
            SAYS,
            confidence=0.75,
        ),
        line(r"(?:OSError|IOError): \[Errno 5\][^\n]{0,120}|Input/output error", SAYS, confidence=0.75),
    ),
)
