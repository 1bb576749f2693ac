"""Where a rank that hung stood: read out of the stacks it gave while it hung.

Rules
- Stacks accuse nobody: they are asked only about the rank that other evidence blames for a hang.
- Of its threads the main one counts: the last that has Python frames, as CPython's fault handler lists them.
- The innermost frame that is the program's own makes the fault the same as another (`frame`); what it called of others
  is said beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rerail.server.core.cause_rules import Case
from rerail.server.core.flight_recorder.summary import STACK_SOURCE
from rerail.server.core.naming import frame_name, is_foreign
from rerail.server.core.view import Verdict

HUNG = frozenset({"hang", "nccl_timeout"})

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-fA-F]{1,16}[^\n]{0,80}:$", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"\n]{1,400})", line (\d{1,9}) in ([^\s\n]{1,200})$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the main thread of a rank stood."""

    words: str
    """`maybe_fail (train.py:196)`, with what of others it was in."""
    own_frame: str | None
    """`train.py:maybe_fail`; None where no frame is the program's own."""


def with_standing(case: Case, verdict: Verdict) -> Verdict:
    """The verdict on a hang, with where the rank that is blamed stood; as it was where no stacks of it are known."""
    if verdict.cause not in HUNG or verdict.culprit_rank is None:
        return verdict
    told = [
        item.evidence.text
        for item in case.evidence
        if item.evidence.source == STACK_SOURCE and item.evidence.rank == verdict.culprit_rank
    ]
    standing = standing_of(told[-1]) if told else None
    if standing is None:
        return verdict
    traits = dict(verdict.traits)
    if standing.own_frame is not None:
        traits.setdefault("frame", standing.own_frame)
    return replace(
        verdict,
        sentence=f"{verdict.sentence} Rank {verdict.culprit_rank} stood in {standing.words}.",
        traits=tuple(sorted(traits.items())),
    )


def standing_of(stacks: str) -> Standing | None:
    """Where the main thread stands, of the stacks of all threads; None where none has Python frames."""
    threads = [_FRAME.findall(part) for part in _THREAD.split(stacks)]
    frames = next((found for found in reversed(threads) if found), None)
    if frames is None:
        return None
    own = next((frame for frame in frames if not is_foreign(frame[0])), None)
    words = _words(frames[0])
    if own is not None and own != frames[0]:
        words += f", which {_words(own)} called"
    return Standing(words, None if own is None else frame_name(own[0], own[2]))


def _words(frame: tuple[str, str, str]) -> str:
    path, number, function = frame
    return f"{function} ({path.replace(chr(92), '/').rpartition('/')[2]}:{number})"
