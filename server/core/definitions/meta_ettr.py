"""ETTR, the effective training time ratio of "Revisiting Reliability in Large-Scale Machine Learning Research Clusters"
(Kokolis et al., HPCA 2025, arXiv 2410.21680): productive run time ÷ wall time of the job run, queueing included.

A job run is a chain of scheduler jobs. Start-up, rework and checkpoint writes are not productive. The paper knows no
time out of account: a maintenance window stays in the wall. It has no second figure for infrastructure.
"""

from __future__ import annotations

from rerail.server.core.definitions import Definition, DefinitionInput, Measured, beside, bucket, sentence
from rerail.server.core.facts import Phase
from rerail.server.core.words import duration

NO_INFRASTRUCTURE = (("infrastructure_goodput", "ETTR is one figure: it has none for the infrastructure alone"),)


def measure(given: DefinitionInput) -> Measured:
    """Productive ÷ wall."""
    account, view = given.account, given.view
    wall = given.lived_ns
    by_phase = dict(account.ns_by_phase)
    queued, excluded = by_phase.get(Phase.QUEUED, 0), by_phase.get(Phase.EXCLUDED, 0)
    rework = by_phase.get(Phase.RECOMPUTING, 0) + account.debt_ns
    saving = by_phase.get(Phase.SAVING, 0)
    down = account.faults_ns + account.startup_ns + account.planned_ns
    reasons: tuple[tuple[str, str], ...] = NO_INFRASTRUCTURE
    training = None
    if not view.sees_training:
        reasons += (("training_goodput", "nobody tells of steps"),)
    elif not wall:
        reasons += (("training_goodput", "nothing elapsed"),)
    else:
        training = account.productive_ns / wall
    if excluded:
        why = f"{duration(excluded)} declared out of account stay in its wall of {duration(wall)}"
    else:
        queueing = f"the same {duration(queued)} of queueing in it" if queued else "no queueing in it, as rerail's"
        why = f"its wall of {duration(wall)} has {queueing}, and no time was declared out of account"
    return Measured(
        difference=sentence(beside("ETTR", training, account, view), (why if training is not None else "",)),
        training=training,
        productive_ns=account.productive_ns if view.sees_training else None,
        elapsed_ns=wall,
        buckets=(
            bucket("queue", queued, wall),
            bucket("restart_overhead", down - queued, wall),
            bucket("rework", rework, wall),
            bucket("checkpoint_writes", saving, wall),
            bucket("out_of_account", excluded, wall),
        ),
        reasons=reasons,
    )


DEFINITION = Definition(
    name="meta_ettr",
    title="Meta ETTR",
    stated_by="Productive run time ÷ wall time of the whole job run, queueing included.",
    measure=measure,
)
