"""rerail's own definition (docs/accounting.md), in the shape of the others."""

from __future__ import annotations

from rerail.server.core.definitions import Definition, DefinitionInput, Measured, bucket
from rerail.server.core.words import duration, share


def measure(given: DefinitionInput) -> Measured:
    """The figures every page shows."""
    account, view = given.account, given.view
    seen = view.sees_training
    training = account.training_goodput if seen else None
    reasons: list[tuple[str, str]] = []
    if training is None:
        why = "nothing elapsed" if seen else "nobody tells of steps"
        reasons.append(("training_goodput", why))
        words = f"rerail cannot say: {why}."
    else:
        words = (
            f"rerail says {share(training)}: {duration(account.productive_ns)} of steps that were done for the first "
            f"time and kept, of {duration(account.elapsed_ns)}."
        )
    if account.infrastructure_goodput is None:
        reasons.append(("infrastructure_goodput", "nothing elapsed"))
    return Measured(
        difference=words,
        training=training,
        infrastructure=account.infrastructure_goodput,
        productive_ns=account.productive_ns if seen else None,
        elapsed_ns=account.elapsed_ns,
        buckets=tuple(
            bucket(row.name, row.length_ns, account.elapsed_ns) for row in account.waterfall if not row.is_total
        ),
        reasons=tuple(reasons),
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
