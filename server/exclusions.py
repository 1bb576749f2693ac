"""Exclusions: how a person's word about a window gets into the log. For the API and the command alike.

Rules
- A window is declared, withdrawn and restored by facts of the emitter `people`, one after the other; nothing is edited.
- The codec judges what was said and names the field and the value where it does not fit.
- Withdrawing what is withdrawn changes nothing, and so does restoring what is in force.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rerail.server.core import codec
from rerail.server.core.exclusions import Exclusions
from rerail.server.core.facts import Excluded, ExclusionState, Fact, WindowState
from rerail.server.core.view import Exclusion, ExclusionChange
from rerail.server.errors import RefusedRequestError
from rerail.server.people import Append, say, unfit
from rerail.server.queries import Queries
from rerail.server.store import Store
from rerail.server.store.log_slices import logged_facts

HINT = "start and end as ISO 8601, or seconds or nanoseconds since 1970; docs/facts.md"


class ExclusionDesk:
    """Takes what people say about windows of runs in one store."""

    def __init__(self, store: Store, append: Append, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._queries = Queries(store, clock)
        self._append = append
        self._clock = clock

    def declare(self, run_id: str, start: int, end: int, reason: str | None, author: str | None) -> Exclusion:
        """`[start, end)` is out of account from now on.

        Raises NotFoundError for an unknown run and RefusedRequestError (422) for a field that does not fit.
        """
        self._queries.emitters(run_id)
        if start >= end:
            error = codec.FactError("end", end, f"not after start ({start}): a window out of account has a length")
            raise unfit(error, HINT)
        said = {"kind": Excluded.kind, "start": start, "end": end, "reason": reason, "author": author}
        return Exclusions([self._say(run_id, said)]).windows()[0]

    def withdraw(self, run_id: str, window: str, reason: str | None, author: str | None) -> Exclusion:
        """The window counts again. Raises NotFoundError for an unknown run, RefusedRequestError (404) for a window."""
        return self._change(run_id, window, WindowState.WITHDRAWN, reason, author)

    def restore(self, run_id: str, window: str, reason: str | None, author: str | None) -> Exclusion:
        """The window is out of account after all. Raises like `withdraw`."""
        return self._change(run_id, window, WindowState.RESTORED, reason, author)

    def _change(
        self, run_id: str, window: str, state: WindowState, reason: str | None, author: str | None
    ) -> Exclusion:
        known = _named(self._queries.run(run_id).exclusions, window)
        if known is None or known.is_withdrawn is (state is WindowState.WITHDRAWN):
            # The view may not have heard of it yet; the log has.
            known = _named(self._logged(run_id).windows(), window)
        if known is None:
            raise RefusedRequestError(
                404,
                "unknown_window",
                f"no window named {window} in run {run_id}",
                "rerail exclude RUN --list and GET /api/v1/runs/RUN/exclusions name those that are known",
            )
        if known.is_withdrawn is (state is WindowState.WITHDRAWN):
            return known
        said = {"kind": ExclusionState.kind, "window": window, "state": state.value, "reason": reason, "author": author}
        fact = self._say(run_id, said)
        change = ExclusionChange(fact.at, state.value, reason, author)
        return replace(known, is_withdrawn=state is WindowState.WITHDRAWN, changes=(*known.changes, change))

    def _logged(self, run_id: str) -> Exclusions:
        return Exclusions(logged_facts(self._store, run_id))

    def _say(self, run_id: str, said: dict[str, object]) -> Fact:
        return say(self._queries, self._append, self._clock, run_id, said, HINT)


def _named(windows: tuple[Exclusion, ...], name: str) -> Exclusion | None:
    return next((window for window in windows if window.window == name), None)
