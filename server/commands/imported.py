"""Imported: what an import came to for each run, in a sentence or two, so that nothing that was taken is lost unseen.

Rules
- Interruptions and failed relaunches are counted as `rerail classify` counts them: a restart that died before the lost
  ground was regained belongs to the interruption before it.
- Evidence alone makes no incident: an attempt has to be known to have ended, else nobody could say what it cost. Then
  what the evidence says by itself is told, why there is no incident, and which command makes one.
- What is told goes to standard error; it changes no exit code.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rerail.server.commands.classifying import judged_alone
from rerail.server.core.facts import AttemptEnded, Evidence, Exit, Fact, MarkStage, Outcome, RecoveryMark, RunEnded
from rerail.server.core.view import RunView, Verdict
from rerail.server.core.words import interruptions_and_relaunches

MOST_EVIDENCE = 20_000
"""Pieces held of a run, to say what they tell by themselves."""
MOST_TOLD = 5
"""Runs, and interruptions of each."""


@dataclass(slots=True)
class TakenRun:
    """What one import stated of a run."""

    evidence: list[Evidence | Exit] = field(default_factory=list)
    evidence_count: int = 0
    tells_end: bool = False
    """Something stated that an attempt had ended."""


@dataclass(slots=True)
class Taken:
    """What one import stated, by run."""

    runs: dict[str, TakenRun] = field(default_factory=dict)

    def add(self, fact: Fact) -> None:
        """Take a fact into account."""
        run = self.runs.setdefault(fact.run, TakenRun())
        if isinstance(fact, Evidence):
            run.evidence_count += 1
        if isinstance(fact, (Evidence, Exit)) and len(run.evidence) < MOST_EVIDENCE:
            run.evidence.append(fact)
        is_notice = isinstance(fact, RecoveryMark) and fact.stage is MarkStage.NOTICED
        run.tells_end = run.tells_end or is_notice or isinstance(fact, (AttemptEnded, RunEnded, Exit))


def told_of_run(run_id: str, taken: TakenRun, view: RunView | None, paths: Sequence[str]) -> list[str]:
    """What to tell a person of a run after an import. `view`: as it is now; None where a server will derive it."""
    if view is not None and view.incidents:
        relaunches = sum(len(each.relaunches) for each in view.incidents)
        told = [f"run {run_id}: {interruptions_and_relaunches(len(view.incidents), relaunches)}{_end(view)}"]
        told += [f"  attempt {each.attempts[0]}: {_verdict(each.verdict)}" for each in view.incidents[:MOST_TOLD]]
        left = len(view.incidents) - MOST_TOLD
        return told + ([f"  … and {left} more; see rerail show {shlex.quote(run_id)}"] if left > 0 else [])
    if not taken.evidence_count or (view is None and taken.tells_end):
        return []
    if view is not None and view.outcome in (Outcome.STOPPED, Outcome.COMPLETED):
        return [f"run {run_id}: no interruption{_end(view)}"]
    alone = judged_alone(taken.evidence)
    pieces = f"{taken.evidence_count} piece{'s' * (taken.evidence_count != 1)} of evidence"
    if alone is None:
        return [f"run {run_id}: {pieces} taken, none of which says that something stopped"]
    known = "so far" if view is not None else "in what was imported"
    return [
        f"run {run_id}: {pieces} taken, but no incident: nothing {known} tells that an attempt of it ended.",
        f"  By itself the evidence says: {_verdict(alone.verdict)}",
        "  An incident comes of it when the launcher's log is imported into the same run: "
        f"rerail import logs LAUNCHER_LOG --run {shlex.quote(run_id)}",
        f"  For a verdict without a run: rerail classify {_shown(paths)}",
    ]


def _end(view: RunView) -> str:
    if view.outcome is None:
        return ""
    return f"; it ended: {view.outcome.value}{f' ({view.reason})' if view.reason else ''}"


def _shown(paths: Sequence[str]) -> str:
    named = " ".join(shlex.quote(path) for path in paths[:3])
    return named + (" …" if len(paths) > 3 else "")


def _verdict(verdict: Verdict) -> str:
    rank = "no rank is named" if verdict.culprit_rank is None else f"rank {verdict.culprit_rank}"
    node = "" if verdict.culprit_node is None else f" on {verdict.culprit_node}"
    return f"{verdict.cause}, {rank}{node} ({verdict.confidence:.0%} sure). {verdict.sentence}"


def told_of(taken: Taken, views: Iterable[tuple[str, RunView | None]], paths: Sequence[str]) -> list[str]:
    """What to tell of every run of an import, the first of them."""
    every = list(views)
    told = [line for run, view in every[:MOST_TOLD] for line in told_of_run(run, taken.runs[run], view, paths)]
    left = len(every) - MOST_TOLD
    return told + ([f"… and {left} more run{'s' * (left > 1)}; see rerail runs"] if left > 0 else [])
