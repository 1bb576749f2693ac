"""People: how what a person says becomes a fact of the log.

People speak through one emitter, one statement after the other; the codec judges what was said and names the field and
the value where it does not fit. Two who speak at once take two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rerail.collectors.masking import masked
from rerail.server.core import codec
from rerail.server.core.facts import Fact
from rerail.server.errors import RefusedRequestError
from rerail.server.queries import Queries
from rerail.server.store import Batch, LoggedFact, Receipt, Stated

PEOPLE = "people"
"""The emitter that people speak through."""

Append = Callable[[Batch], Receipt]
"""Puts a batch into the log and returns when it is durable."""


def say(
    queries: Queries, append: Append, clock: Callable[[], int], run_id: str, said: Mapping[str, object], hint: str
) -> Fact:
    """State one fact of a run, under the next free number of `people`.

    What they say in their own words is masked like a log. Raises RefusedRequestError (422) with the hint for a field
    that does not fit.
    """
    words = {name: masked(value) for name in ("reason", "author") if isinstance(value := said.get(name), str)}
    seq = next((row.accepted for row in queries.emitters(run_id) if row.emitter == PEOPLE), 0)
    while True:
        at = clock()
        try:
            fact = codec.decode({**said, **words, "run": run_id, "emitter": PEOPLE, "seq": seq, "at": at})
        except codec.FactError as error:
            raise unfit(error, hint) from None
        assert isinstance(fact, Fact)
        line = LoggedFact(seq, at, codec.encode_line(fact).rstrip())
        if append(Batch(at, (Stated(run_id, PEOPLE, [line]),))).accepted:
            return fact
        seq += 1  # Somebody spoke at the same time.


def unfit(error: codec.FactError, hint: str) -> RefusedRequestError:
    """The answer to a field that does not fit."""
    return RefusedRequestError(422, "invalid_field", str(error), hint)
