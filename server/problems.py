"""Problem desk: how what people say of problems gets into the store. For the API, the pages and the command alike.

Rules
- Every action is judged against all before it, under the store's lock: problems and incidents it names must exist, and
  what it says must make sense (`core/problems.py`).
- Who acted on what they saw says which revision that was. Where somebody acted in between, nothing happens and the
  answer tells who did what: `conflict`, 409.
- Nothing is edited and nothing deleted; an undo is an action of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace

from rerail.server.core.problems import ActionKind, Ledger, ProblemAction, is_split, refusal_of
from rerail.server.core.report import iso
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.stated import unfit, whole, words
from rerail.server.store import Store

LONGEST_WORDS = 4000
LONGEST_NAME = 200
MOST_INCIDENTS = 1000

FIELDS = (
    "action",
    "revision",
    "author",
    "reason",
    "into",
    "incidents",
    "facet",
    "value",
    "title",
    "fixed_by",
    "undoes",
    "assignee",
)
"""What a request may say."""

USES = {
    ActionKind.MERGE: ("into",),
    ActionKind.SPLIT: ("incidents", "facet", "value", "title"),
    ActionKind.MOVE: ("into", "incidents"),
    ActionKind.RENAME: ("title",),
    ActionKind.RESOLVE: ("fixed_by",),
    ActionKind.UNDO: ("undoes",),
    ActionKind.ASSIGN: ("assignee",),
}
"""Which of them an action uses, beside `author` and `reason`."""


class ProblemDesk:
    """Takes what people do with problems of one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._clock = clock

    def act(self, problem: str, action: ProblemAction, revision: int | None = None) -> ProblemAction:
        """Do it to a problem; the action with its number and instant.

        Raises NotFoundError for a problem, an incident or an action that is not known, RefusedRequestError (409) where
        `revision` is not the problem's newest, and RefusedRequestError (422) for what makes no sense.
        """
        said = replace(action, problem=problem, at=self._clock())
        self._know(problem)
        if said.into is not None:
            self._know(said.into)
        self._know_incidents(said)

        def judge(ledger: Ledger) -> ProblemAction:
            self._know_splits(said, ledger)
            self._know_parts(said)
            if revision is not None and ledger.revision(problem) != revision:
                raise conflict(problem, ledger, revision)
            refused = refusal_of(said, ledger)
            if refused is not None:
                raise unfit(*refused)
            return said

        return self._store.problems.act(judge)

    def move(self, incident_id: str, into: str, author: str | None, reason: str | None) -> ProblemAction:
        """Put one incident into another problem. Raises like `act`."""
        found = self._store.problems.incident_rows([incident_id])
        if not found:
            raise NotFoundError("incident", incident_id)
        here = found[0].problem_id
        if here is None:
            raise unfit("incidents", incident_id, "a planned restart is in no problem")
        said = ProblemAction(0, 0, ActionKind.MOVE, here, author, reason, into=into, incidents=(incident_id,))
        return self.act(here, said)

    def _know(self, problem: str) -> None:
        if not is_split(problem) and not self._store.problems.fingerprints([problem]):
            raise NotFoundError("problem", problem)

    def _know_splits(self, said: ProblemAction, ledger: Ledger) -> None:
        for problem in (said.problem, said.into):
            is_gone = problem is not None and is_split(problem) and not ledger.exists_as_split(problem)
            if is_gone and said.kind is not ActionKind.UNDO:
                raise NotFoundError("problem", problem or "")

    def _know_parts(self, said: ProblemAction) -> None:
        """What a split or a move takes must be in the problem it takes it from."""
        if said.kind not in (ActionKind.SPLIT, ActionKind.MOVE):
            return
        for row in self._store.problems.incident_rows(said.incidents) if said.incidents else ():
            if row.problem_id != said.problem:
                raise unfit("incidents", row.incident_id, f"it is not in this problem but in {row.problem_id}")
        if said.facet is not None and said.value is not None:
            told = self._store.problems.problem_facets(said.problem, MOST_INCIDENTS)
            values = {dict(facets).get(said.facet) for facets in told}
            if said.value not in values and len(told) < MOST_INCIDENTS:
                known = ", ".join(sorted(each for each in values if each is not None)) or "known of none"
                raise unfit("value", said.value, f"no incident of this problem has that {said.facet}: {known}")

    def _know_incidents(self, said: ProblemAction) -> None:
        if not said.incidents:
            return
        found = {row.incident_id: row for row in self._store.problems.incident_rows(said.incidents)}
        for incident_id in said.incidents:
            if incident_id not in found:
                raise NotFoundError("incident", incident_id)
            if found[incident_id].problem_id is None:
                raise unfit("incidents", incident_id, "a planned restart is in no problem")


def action_of(stated: Mapping[str, object]) -> tuple[ProblemAction, int | None]:
    """What a JSON object says, without its problem, and the revision it was said of.

    Raises RefusedRequestError (422) with the field and the value.
    """
    for name in stated:
        if name not in FIELDS:
            raise unfit(name, stated[name], f"not a field: {', '.join(FIELDS)}")
    try:
        kind = ActionKind(stated.get("action"))
    except ValueError:
        raise unfit("action", stated.get("action"), f"one of {', '.join(ActionKind)}") from None
    for name in ("into", "incidents", "facet", "value", "title", "fixed_by", "undoes", "assignee"):
        if stated.get(name) not in (None, "", []) and name not in USES.get(kind, ()):
            raise unfit(name, stated[name], f"{kind.value} does not use it")
    incidents = stated.get("incidents") or ()
    if not isinstance(incidents, list | tuple) or not all(isinstance(each, str) for each in incidents):
        raise unfit("incidents", incidents, "not a list of incident ids")
    if len(incidents) > MOST_INCIDENTS:
        raise unfit("incidents", len(incidents), f"more than {MOST_INCIDENTS}")
    action = ProblemAction(
        action_id=0,
        at=0,
        kind=kind,
        problem="",
        author=words(stated, "author", LONGEST_NAME),
        reason=words(stated, "reason", LONGEST_WORDS),
        into=words(stated, "into", LONGEST_NAME),
        incidents=tuple(incidents),
        facet=words(stated, "facet", LONGEST_NAME),
        value=words(stated, "value", LONGEST_WORDS),
        title=words(stated, "title", LONGEST_NAME),
        fixed_by=words(stated, "fixed_by", LONGEST_WORDS),
        undoes=whole(stated, "undoes"),
        assignee=words(stated, "assignee", LONGEST_NAME),
    )
    return action, whole(stated, "revision")


def conflict(problem: str, ledger: Ledger, revision: int) -> RefusedRequestError:
    """Somebody acted since: who, what and when."""
    newest = ledger.action(ledger.revision(problem))
    since = "" if newest is None else (
        f": {newest.author or 'somebody'} did “{newest.kind.value}” at {(iso(newest.at) or '')[:19]} UTC"
    )  # fmt: skip
    return RefusedRequestError(
        409,
        "conflict",
        f"problem {problem} changed since you looked (revision {revision} is now {ledger.revision(problem)}){since}",
        "look at it again, then act; nothing was changed",
    )


assert set(FIELDS) - {"action", "revision"} <= {entry.name for entry in fields(ProblemAction)}
