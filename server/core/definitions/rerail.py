"""rerail's own definition (docs/accounting.md), in the shape of the others."""

from __future__ import annotations

from rerail.server.core.definitions import Definition, DefinitionInput, Measured, bucket
from rerail.server.core.words import duration, share


def measure(given: DefinitionInput) -> Measured:
    """The figures every page shows."""
    account, view = given.account, given.view
    unseen = (("training_goodput", "only the launcher speaks: nobody tells of steps"),)
    seen = view.sees_training
    training = account.training_goodput if seen else None
    if training is None:
        why = "rerail cannot say: nobody tells of steps." if not seen else "rerail cannot say: nothing elapsed."
    else:
        why = (
            f"rerail says {share(training)}: {duration(account.productive_ns)} of steps that were done for the "
            f"first time and kept, of {duration(account.elapsed_ns)}."
        )
    return Measured(
        difference=why,
        training=training,
        infrastructure=account.infrastructure_goodput,
        productive_ns=account.productive_ns if seen else None,
        elapsed_ns=account.elapsed_ns,
        buckets=tuple(
            bucket(row.name, row.length_ns, account.elapsed_ns) for row in account.waterfall if not row.is_total
        ),
        reasons=() if seen else unseen,
    )


DEFINITION = Definition(
    name="rerail",
    title="rerail",
    stated_by=(
        "Training goodput is first-pass stepping that was kept ÷ elapsed time, infrastructure goodput 1 − down-time "
        "after faults ÷ elapsed time; the second pass is the loss, and time declared out of account is in neither."
    ),
    measure=measure,
)
