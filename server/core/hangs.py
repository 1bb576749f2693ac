"""Hangs that nobody noticed but dumps show: an attempt that stood still until somebody stopped it, or still does.

Rules
- An attempt hangs where its flight recorder dumps name who is missing, lags or differs, and nothing of it was told
  since the operation that they end in, for longer than a stall takes. The end may be a stop, or not have come.
- A step, a phase or a load that went on after the dumps takes it back: they were of a run that trained. So does a phase
  that is open: a rank that is missing because it saves is no hang.
- Dumps that name nobody prove no hang: a healthy run has operations pending too.
"""

from __future__ import annotations

from rerail.server.core.attempt_record import END_SLACK_NS, AttemptRecord
from rerail.server.core.facts import Phase
from rerail.server.core.flight_recorder.analysis import analysis, dumps_near
from rerail.server.core.flight_recorder.conclusions import Conclusion
from rerail.server.core.timeline import recent_durations, stall_limit_ns

NAMING = frozenset({Conclusion.MISSING, Conclusion.LAGGING, Conclusion.MISMATCH})
"""Conclusions that say who holds the others up."""


def hangs(record: AttemptRecord, until: int, withdrawn: frozenset[str], world_size: int | None) -> bool:
    """Whether an attempt stood still until an instant, by its own dumps.

    `withdrawn` are artefacts whose evidence does not count; `world_size` is None where nobody tells it.
    """
    blocks = record.blocks()
    if not record.has_dumps or not blocks:
        return False
    told = [phase for phase in record.phases if phase.phase is not Phase.STOPPING]
    if any(phase.end is None and phase.start is not None and phase.start >= blocks[-1].last_began for phase in told):
        return False
    recent = recent_durations(blocks)
    ends = [phase.end for phase in told if phase.end is not None and phase.end <= until]
    active_until = max(blocks[-1].end, *ends, *(load.end for load in record.loads), 0)
    if until - active_until <= stall_limit_ns(recent):
        return False
    counted = [item for item in record.evidence if item.evidence.artefact not in withdrawn]
    evidence = [item.evidence for item in counted]
    found = analysis(evidence, blocks[-1].end, world_size)
    if found is None or found.conclusion not in NAMING or not found.culprit_count:
        return False
    judged = {(fact.emitter, fact.seq) for fact in dumps_near(evidence, blocks[-1].end)[0]}
    latest = max(item.at for item in counted if (item.evidence.emitter, item.evidence.seq) in judged)
    return active_until <= latest + END_SLACK_NS + 2 * max(recent, default=0)
