"""ETT %, the effective training time of Meta's article on the PyTorch blog: the share of the end-to-end wall time that
is neither time to start nor time to recover.

    ETT = 1 − (time to start + number of failures × mean time to recover) ÷ wall

A time to recover lasts until lost ground is regained, so rework is in it. What happens while training runs
(checkpoint stalls, evaluation, slow steps) is effective. Windows declared out of account are left out of all three.
It has no second figure for infrastructure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rerail.server.core.definitions import Definition, DefinitionInput, Measured, beside, bucket, sentence
from rerail.server.core.goodput import clipped, tally
from rerail.server.core.timeline import union
from rerail.server.core.view import Span, SpanKind
from rerail.server.core.words import count, duration

NO_INFRASTRUCTURE = (("infrastructure_goodput", "ETT % is one figure: it has none for the infrastructure alone"),)

EFFECTIVE_LOSSES = (
    (SpanKind.CHECKPOINT, "of checkpoint stalls"),
    (SpanKind.OVERHEAD, "of evaluation, data wait and overhead"),
    (SpanKind.STALL, "of stalled steps"),
    (SpanKind.REWORK, "of rework"),
    (SpanKind.PLANNED, "of planned down-time"),
    (SpanKind.FAULT, "of down-time"),
    (SpanKind.UNKNOWN, "of silence"),
)
"""What counts as effective outside recoveries and is no training, and its words."""


def measure(given: DefinitionInput) -> Measured:
    """1 − (time to start + Σ time to recover) ÷ wall."""
    account, view = given.account, given.view
    wall = account.elapsed_ns
    start = sum(span.end - span.start for span in given.spans if span.kind is SpanKind.STARTUP)
    recovering = union(
        (incident.started_at, incident.ended_at if incident.ended_at is not None else view.as_of)
        for incident in view.incidents
    )
    inside: Counter[SpanKind] = Counter()
    for since, until in recovering:
        inside += _by_kind(clipped(given.spans, since, until))
    del inside[SpanKind.STARTUP], inside[SpanKind.EXCLUDED]
    outside = _by_kind(given.spans) - inside
    recover = sum(inside.values())
    effective = wall - start - recover
    reasons: tuple[tuple[str, str], ...] = NO_INFRASTRUCTURE
    training = effective / wall if wall else None
    if not view.sees_training:
        training = None
        reasons += (("training_goodput", "nobody tells of steps: when a recovery was over is not seen"),)
    elif not wall:
        reasons += (("training_goodput", "nothing elapsed"),)
    incidents = [each for each in view.incidents if _touches(given, each.started_at, each.ended_at)]
    kept = sorted(((outside[kind], words) for kind, words in EFFECTIVE_LOSSES), reverse=True)
    named = [f"{duration(length)} {words}" for length, words in kept[:2] if length and training is not None]
    recoveries = count(len(incidents), "recovery", "recoveries")
    if incidents:
        recoveries += f" of {duration(recover)}" + (" in all" if len(incidents) > 1 else "")
    return Measured(
        difference=sentence(
            beside("ETT %", training, account, view),
            (
                f"it takes away {duration(start)} to start and {recoveries}",
                f"it counts {' and '.join(named)} as effective" if named else "",
            ),
        ),
        training=training,
        productive_ns=effective if view.sees_training else None,
        elapsed_ns=wall,
        buckets=(bucket("time_to_start", start, wall), bucket("time_to_recover", recover, wall)),
        reasons=reasons,
        numbers=(
            ("failures", len(incidents)),
            ("mean_time_to_recover_seconds", recover / 1e9 / len(incidents) if incidents else None),
        ),
    )


def _by_kind(spans: Iterable[Span]) -> Counter[SpanKind]:
    """How long the spans are, by the account they go on."""
    total: Counter[SpanKind] = Counter()
    for (_, kind), length in tally(spans).ns.items():
        total[kind] += length
    return total


def _touches(given: DefinitionInput, start: int, end: int | None) -> bool:
    if given.window is None:
        return True
    return start < given.window[1] and (end is None or end > given.window[0])


DEFINITION = Definition(
    name="ett",
    title="ETT %",
    stated_by="1 − (time to start + all times to recover, catching up included) ÷ wall time.",
    measure=measure,
)
