"""Fingerprints: when two incidents are the same problem, and why.

Rules
- A fingerprint is a version and a short hash of what made the fault: cause class, exception type, top own frame (or,
  where there is none, the collective operation), the phase in which it struck, and the XID. `1:9f3a…` of one server is
  `1:9f3a…` of every other: nothing else goes in.
- An exception of the program of which neither frame nor operation is told is known by its message, without numbers and
  names in it: `RuntimeError` alone would make one problem of anything. These are of version 2.
- Where, when and to whom it happened are facets: node, rank, step, checkpoint, config, run. They tell occurrences of
  one problem apart and never make two problems of it.
- A planned restart has no fingerprint.
- Faults of which nothing is known are not one problem: without any trait they are the same only within one run.
- All stepping is one phase here: whether the ground was new or being redone does not make another fault.

The traits come from the verdict (`causes/`). Other parts, or other words for them, are a new version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.facts import MarkStage, Pairs, Phase
from rerail.server.core.recovery import config_fingerprint
from rerail.server.core.view import Attempt, Fingerprint, Verdict

VERSION = 1
BY_MESSAGE = 2
"""Version of those with a message among their parts."""

PARTS = ("cause", "exception", "frame", "operation", "message", "phase", "xid", "run")
"""Names of the parts, in the order in which people read them. `run` is one only of faults of which nothing is known."""

FACETS = ("node", "rank", "step", "checkpoint", "config", "run")
"""What tells occurrences of one problem apart."""

STEPPING = frozenset({Phase.TRAINING, Phase.RECOMPUTING, Phase.STALLED, Phase.DETECTING, Phase.SILENT})

PART_NAMES = {
    "cause": "cause",
    "exception": "exception",
    "frame": "place in the code",
    "operation": "collective operation",
    "message": "message",
    "phase": "phase in which it struck",
    "xid": "XID",
    "run": "run",
}

FACET_NAMES = {
    "node": "node",
    "rank": "rank",
    "step": "step",
    "checkpoint": "checkpoint",
    "config": "recovery config",
    "run": "run",
}


def fingerprint_of(verdict: Verdict, phase: str | None, run_id: str, *, is_planned: bool = False) -> Fingerprint | None:
    """What makes this fault the same as another; None for a planned restart."""
    if is_planned:
        return None
    traits = dict(verdict.traits)
    parts = {"cause": verdict.cause}
    for name in ("exception", "frame", "xid"):
        if traits.get(name):
            parts[name] = traits[name]
    if "frame" not in parts and traits.get("operation"):
        parts["operation"] = traits["operation"]
    is_bare = "exception" in parts and not {"frame", "operation", "xid"} & parts.keys()
    if is_bare and verdict.cause == "user_exception" and traits.get("message"):
        parts["message"] = traits["message"]
    is_nothing_known = verdict.cause == "unknown" and len(parts) == 1
    if phase:
        parts["phase"] = phase
    if is_nothing_known:
        parts["run"] = run_id
    ordered = tuple((name, parts[name]) for name in PARTS if name in parts)
    version = BY_MESSAGE if "message" in parts else VERSION
    return Fingerprint(f"{version}:{_hashed(ordered)}", ordered)


def _hashed(parts: Pairs) -> str:
    told = "\0".join(f"{name}\0{value}" for name, value in parts)
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def struck_phase(record: AttemptRecord, noticed_at: int | None, *, are_steps_told: bool = True) -> str | None:
    """The phase in which a fault struck an attempt: one that was open, else the loop or how far bring-up had come.

    `are_steps_told`: of the run. Where no step ever is, what follows a rendezvous may be the loop as well as bring-up.
    None where nothing of it is told.
    """
    open_phases = [
        (told.start, told.phase.value)
        for told in record.phases
        if told.end is None and told.start is not None and (noticed_at is None or told.start <= noticed_at)
    ]
    if open_phases:
        phase = max(open_phases)[1]
        return Phase.TRAINING.value if phase in STEPPING else phase
    marks = record.marks
    if record.step_count or MarkStage.INITIALIZED in marks:
        return Phase.TRAINING.value
    closed = [(told.end, told.phase.value) for told in record.phases if told.end is not None]
    if record.loads:
        closed.append((record.loads[-1].end, Phase.LOADING.value))
    if MarkStage.RENDEZVOUS_COMPLETED in marks and not are_steps_told:
        return None
    if MarkStage.RENDEZVOUS_COMPLETED in marks:
        closed.append((marks[MarkStage.RENDEZVOUS_COMPLETED], Phase.INITIALIZING.value))
    elif MarkStage.RENDEZVOUS_STARTED in marks:
        closed.append((marks[MarkStage.RENDEZVOUS_STARTED], Phase.RENDEZVOUS.value))
    before = [each for each in closed if noticed_at is None or each[0] <= noticed_at]
    return max(before)[1] if before else None


def facets_of(verdict: Verdict, attempt: Attempt, run_id: str) -> Pairs:
    """Where, when and to whom it happened, by name; what is not known is left out."""
    told = {
        "node": verdict.culprit_node,
        "rank": verdict.culprit_rank,
        "step": attempt.last_step,
        "checkpoint": attempt.resumed_from_step or None,
        "config": config_fingerprint(attempt),
        "run": run_id,
    }
    return tuple((name, str(told[name])) for name in FACETS if told[name] is not None)


ABBREVIATIONS = {"oom": "out of memory", "gpu": "GPU", "nccl": "NCCL", "sigkill": "SIGKILL", "io": "I/O"}
"""Words of cause classes that are not written as they are spelled."""


def title_of(parts: Pairs) -> str:
    """A fault in a few words: `user exception: ValueError in data.py:read, training`."""
    told = dict(parts)
    cause = told.get("cause", "unknown")
    words = " ".join(ABBREVIATIONS.get(word, word) for word in cause.split("_"))
    if cause == "unknown":
        words = "unknown cause"
    details = [told["exception"]] if "exception" in told else []
    if "xid" in told:
        details.append(f"XID {told['xid']}")
    if "operation" in told:
        details.append(told["operation"])
    shown = words + (f": {', '.join(details)}" if details else "")
    if "frame" in told:
        shown += f" in {told['frame']}"
    if told.get("phase") not in (None, Phase.TRAINING.value):
        shown += f", while {told['phase'].replace('_', ' ')}"
    if "run" in told:
        shown += f", in {told['run']}"
    return shown


def why_same(first: Sequence[tuple[str, str]], second: Sequence[tuple[str, str]]) -> str | None:
    """A sentence with the parts that two faults have in common; None where none is the same."""
    other = dict(second)
    same = [f"{PART_NAMES.get(name, name)} {value}" for name, value in first if other.get(name) == value]
    return f"The same {_listed(same)}." if same else None


def why_different(first: Sequence[tuple[str, str]], second: Sequence[tuple[str, str]]) -> str | None:
    """A sentence with the parts in which two faults differ; None where they differ in none."""
    one, other = dict(first), dict(second)
    named = [name for name in PARTS if name in one or name in other]
    parts = [
        f"{PART_NAMES[name]}: {one.get(name, 'none')} here, {other.get(name, 'none')} there"
        for name in named
        if one.get(name) != other.get(name)
    ]
    return f"Different {'; '.join(parts)}." if parts else None


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
