"""Change desk: how what people say of a config change gets into the store. For the API and the pages alike.

Rules
- The change must be known, and so must the incident or problem that a link names.
- Nothing is edited and nothing deleted; an undo is an action of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rerail.server.core.recovery_configs.change_actions import ChangeAction, ChangeActionKind, LinkKind, refusal_of
from rerail.server.problems import LONGEST_NAME, LONGEST_WORDS
from rerail.server.queries import Queries
from rerail.server.stated import unfit, words
from rerail.server.store import Store

FIELDS = ("action", "author", "changed_by", "reason", "target_kind", "target", "undoes")
USES = {
    ChangeActionKind.EXPLAIN: ("changed_by", "reason"),
    ChangeActionKind.LINK: ("target_kind", "target", "reason"),
    ChangeActionKind.UNDO: ("undoes", "reason"),
}


class ChangeDesk:
    """Takes what people say about config changes of one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._queries = Queries(store, clock)
        self._clock = clock

    def say(self, change_id: str, stated: Mapping[str, object]) -> ChangeAction:
        """One action, durable when this returns.

        Raises NotFoundError for a change, incident or problem that is not known, RefusedRequestError (422) for a field
        that does not fit.
        """
        action = action_of(change_id, stated)
        self._queries.configs.change(change_id)
        if action.target is not None and action.target_kind is LinkKind.INCIDENT:
            self._queries.incident(action.target)
        elif action.target is not None:
            self._queries.problems.problem(action.target, limit=1)

        def judge(before: Sequence[ChangeAction]) -> ChangeAction:
            refusal = refusal_of(action, before)
            if refusal is not None:
                name, reason = refusal
                raise unfit(name, stated.get(name), reason)
            return ChangeAction(
                0, self._clock(), action.change_id, action.kind, action.author, action.changed_by, action.reason,
                action.target_kind, action.target, action.undoes,
            )  # fmt: skip

        return self._store.configs.say(judge)


def action_of(change_id: str, stated: Mapping[str, object]) -> ChangeAction:
    """An action out of a request. Raises RefusedRequestError (422), naming field and value."""
    for name in stated:
        if name not in FIELDS:
            raise unfit(str(name)[:80], stated[name], f"not a field: {', '.join(FIELDS)}")
    try:
        kind = ChangeActionKind(str(stated.get("action")))
    except ValueError:
        raise unfit("action", stated.get("action"), f"one of {', '.join(ChangeActionKind)}") from None
    for name in FIELDS[2:]:
        if stated.get(name) not in (None, "") and name not in USES[kind]:
            raise unfit(name, stated[name], f"{kind.value} does not use it")
    told_kind = words(stated, "target_kind", LONGEST_NAME)
    try:
        target_kind = None if told_kind is None else LinkKind(told_kind)
    except ValueError:
        raise unfit("target_kind", told_kind, f"one of {', '.join(LinkKind)}") from None
    undoes = stated.get("undoes")
    if undoes is not None and (isinstance(undoes, bool) or not isinstance(undoes, int) or not 0 < undoes < 2**63):
        raise unfit("undoes", undoes, "not the number of an action")
    return ChangeAction(
        0, 0, change_id, kind, words(stated, "author", LONGEST_NAME), words(stated, "changed_by", LONGEST_NAME),
        words(stated, "reason", LONGEST_WORDS), target_kind, words(stated, "target", 2 * LONGEST_NAME + 20), undoes,
    )  # fmt: skip
