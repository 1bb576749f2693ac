"""Dumps alone: what flight recorder dumps say of a run of which nobody told an attempt.

Rules
- Without an attempt there is no incident: nobody knows what ended, nor what it cost. What the dumps say of a hang is
  known all the same, and is judged as that of an attempt would be.
- Where dumps are of several hangs or attempts, the last of them that tells anything counts: dumps of an attempt that
  was merely ended, in which nothing is pending, do not hide the hang of the one before.
- Without an answer (no dump, or none that tells anything) there is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.causes import UNKNOWN, Case, judge
from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.analysis import is_dump
from rerail.server.core.flight_recorder.dump_sets import dump_sets
from rerail.server.core.view import Verdict


def verdict_of_dumps(told: Iterable[tuple[int, Evidence]]) -> Verdict | None:
    """What dumps say, each with its instant on the server's clock (ns); other evidence is left out."""
    instants = {(fact.emitter, fact.seq): (at, fact) for at, fact in told if is_dump(fact)}
    for found in reversed(dump_sets([fact for _, fact in instants.values()])):
        evidence = sorted((TimedEvidence(*instants[fact.emitter, fact.seq]) for fact in found), key=TimedEvidence.order)
        verdict, _ = judge(Case(evidence, (), (), None, None, (), (), (), None, False, None))
        if verdict.cause != UNKNOWN.cause:
            return verdict
    return None
