"""The log of a run in pieces, for whoever needs all of it and must not hold all of it."""

from __future__ import annotations

from collections.abc import Iterator

from rerail.server.core.facts import Fact
from rerail.server.store import LogSlice, Store

FACTS_AT_ONCE = 5000
"""About so many facts of a run are read from the log at once: they are never all in memory."""


def slices(store: Store, run: str, after_ingest: int, upto_ingest: int | None = None) -> Iterator[LogSlice]:
    """The log of a run in pieces of about `FACTS_AT_ONCE`; at least one, also where nothing came since."""
    commits = 4
    while True:
        upto = after_ingest + commits
        log = store.log(run, after_ingest, upto if upto_ingest is None else min(upto, upto_ingest))
        yield log
        after_ingest = log.upto_ingest
        if after_ingest >= (log.last_ingest if upto_ingest is None else upto_ingest):
            return
        if 2 * len(log.facts) < FACTS_AT_ONCE:
            commits *= 2
        elif len(log.facts) > FACTS_AT_ONCE:
            commits = max(1, commits // 2)


def logged_facts(store: Store, run: str, upto_ingest: int | None = None) -> Iterator[Fact]:
    """Every fact of a run, one after the other."""
    for log in slices(store, run, 0, upto_ingest):
        yield from log.facts
