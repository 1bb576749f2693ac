"""Alert desk: how what people do with alerts, thresholds and channels gets into the store. For API, pages and command.

Rules
- Every action is judged against all before it, under the store's lock. Who acted on what they saw says which revision
  that was; where something happened in between, nothing is done and the answer tells what: 409.
- Nothing is edited and nothing deleted but channels; an undo is an action of its own.
- A secret goes in and never comes out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from rerail.server.core.alert_life import BY_RULES, AlertEvent, Change, Standing, life, refusal_of
from rerail.server.core.channels import KINDS, check_address
from rerail.server.core.report import iso
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.core.threshold_changes import refusal_of as threshold_refusal
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.notify.apprise_channel import refusal_of as apprise_refusal
from rerail.server.problems import LONGEST_NAME, LONGEST_WORDS
from rerail.server.stated import unfit, whole, words
from rerail.server.store import SEALED, Store
from rerail.server.store.alert_messages import MOST_ENTRIES, MOST_GROUPS, STORM, Entry
from rerail.server.store.alert_rows import Asked, ChannelRow

ASKED_FIELDS = ("standing", "search", "run")
ACTION_FIELDS = ("action", "author", "reason", "until", "seconds", "undoes", "revision")
THRESHOLD_FIELDS = ("rule", "project", "values", "author", "reason", "undoes")
CHANNEL_FIELDS = ("name", "kind", "address", "secret", "is_on", "author", "tell_standing")
MOST_CHANNELS = 50
SECOND = 10**9


class AlertDesk:
    """Takes what people do with alerts of one store."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._clock = clock

    def act(self, key: str, stated: Mapping[str, object]) -> AlertEvent:
        """Do it to an alert; the event with its number.

        Raises NotFoundError, RefusedRequestError (409) where `revision` is not the newest, and (422) for nonsense.
        """
        now = self._clock()
        said = _event_of(key, stated, now)
        revision = whole(stated, "revision")

        def judge(events: Sequence[AlertEvent]) -> AlertEvent:
            stands = life(events)
            # A rule that looked again is no reason to refuse a person: only what a person did in between is.
            between = [each for each in events if revision is not None and each.event_id > revision]
            by_people = [each for each in between if each.change not in BY_RULES]
            if by_people:
                raise _conflict(key, by_people[-1], stands.revision)
            refused = refusal_of(said, events)
            if refused is not None:
                raise unfit(*refused)
            return said

        try:
            return self._store.alerts.act(key, judge, now)
        except KeyError:
            raise NotFoundError("alert", key[:200]) from None

    def act_on_group(self, group: str, stated: Mapping[str, object]) -> tuple[AlertEvent, ...]:
        """Do it to every alert of a group that it fits, all or nothing; the events with their numbers.

        `standing`, `search` and `run` narrow the group to those of it that a list so narrowed shows. An undo names one
        of the events of what was done to the group, and undoes all of them. Where a person did something to one of the
        alerts since `revision`, it is a conflict and nothing is done. Raises NotFoundError, RefusedRequestError
        (409, 422).
        """
        now = self._clock()
        asked = _asked_of(stated)
        said = _event_of("", {name: told for name, told in stated.items() if name not in ASKED_FIELDS}, now)
        if said.change is Change.REOPEN:
            raise unfit("action", said.change.value, "a group is not reopened; undo what resolved it")
        if said.change is Change.UNDO and said.undoes is None:
            raise unfit("undoes", None, "the number of something that was done to this group")
        revision = whole(stated, "revision")

        def judge(events: Sequence[AlertEvent], undoes: int | None) -> AlertEvent | None:
            between = [each for each in events if revision is not None and each.event_id > revision]
            by_people = [each for each in between if each.change not in BY_RULES]
            if by_people:
                raise _conflict(by_people[-1].key, by_people[-1], life(events).revision)
            if said.change is Change.ACKNOWLEDGE and life(events).standing(now) is not Standing.OPEN:
                return None
            event = said if undoes is None else replace(said, undoes=undoes)
            refused = refusal_of(event, events)
            if refused is not None and refused[0] == "until":
                raise unfit(*refused)
            return event if refused is None else None

        try:
            done = self._store.alerts.act_on_group(group, judge, said.undoes, now, asked)
        except KeyError:
            raise NotFoundError("alert group", group[:200]) from None
        if not done:
            if said.change is Change.UNDO:
                raise unfit("undoes", said.undoes, "nothing that was done to this group, or undone already")
            raise unfit("action", said.change.value, "no alert of this group that it fits")
        return done

    def change_thresholds(self, stated: Mapping[str, object]) -> ThresholdChange:
        """Set thresholds of a rule; an undo need not name the rule. Raises RefusedRequestError (422)."""
        said = threshold_change_of(stated, self._clock())

        def judge(changes: Sequence[ThresholdChange]) -> ThresholdChange:
            change = said
            if said.undoes is not None and not said.rule:
                change = replace(said, rule=next((each.rule for each in changes if each.change_id == said.undoes), ""))
            refused = threshold_refusal(change, changes)
            if refused is not None:
                raise unfit(*refused)
            return change

        return self._store.alerts.change_thresholds(judge)

    def put_channel(self, channel_id: int, stated: Mapping[str, object]) -> ChannelRow:
        """Add a channel (0) or change one. Raises NotFoundError, RefusedRequestError (422)."""
        _only(stated, CHANNEL_FIELDS)
        known = {row.channel_id: row for row in self._store.alerts.channels()}
        before = known.get(channel_id)
        if channel_id and before is None:
            raise NotFoundError("channel", str(channel_id))
        if not channel_id and len(known) >= MOST_CHANNELS:
            raise unfit("channels", len(known), f"no more than {MOST_CHANNELS}")
        name = words(stated, "name", LONGEST_NAME) or (before.name if before else None)
        kind = words(stated, "kind", LONGEST_NAME) or (before.kind if before else None)
        address = words(stated, "address", LONGEST_WORDS) or (before.address if before else None)
        secret = words(stated, "secret", LONGEST_WORDS)
        if not name:
            raise unfit("name", name, "a channel has a name")
        if kind not in KINDS:
            raise unfit("kind", kind, f"one of {', '.join(KINDS)}")
        if not address and before is not None and before.is_locked:
            raise unfit("address", "", "it is sealed with a key that this server does not have; give it again")
        if not address:
            raise unfit("address", "", "where the messages go")
        if before is not None and before.is_locked and before.has_secret and secret is None:
            raise unfit("secret", "", "it is sealed with a key that this server does not have; give it again")
        if any(said is not None and said.startswith(SEALED) for said in (address, secret)):
            raise unfit("secret", SEALED, "begins like what is sealed")
        refused = check_address(kind, address)
        if refused is None and kind == "apprise" and (before is None or address != before.address):
            refused = apprise_refusal(address)
        if refused is not None:
            raise unfit("address", _shown(address), refused)
        is_on = stated.get("is_on", before.is_on if before else True)
        if not isinstance(is_on, bool):
            raise unfit("is_on", is_on, "true or false")
        author = words(stated, "author", LONGEST_NAME)
        row = ChannelRow(
            channel_id, name, kind, address, bool(before and before.has_secret), is_on,
            before.created_at if before else self._clock(), before.created_by if before else author,
        )  # fmt: skip
        is_told = stated.get("tell_standing", False)
        if not isinstance(is_told, bool):
            raise unfit("tell_standing", is_told, "true or false")
        put = self._store.alerts.put_channel(row, secret)
        if is_told:
            self._tell_standing(put.channel_id)
        return put

    def _tell_standing(self, channel_id: int) -> None:
        """Put what is open into the outbox, for one channel: a message for each group, or one for very many."""
        now = self._clock()
        groups: dict[str, list[Entry]] = {}
        rows, _ = self._store.alerts.rows(Standing.OPEN, "", None, now, 0, MOST_ENTRIES)
        for row in rows:
            groups.setdefault(row.group_key, []).append((row.key, Change.FIRED.value, row.changed_at))
        if len(groups) > MOST_GROUPS:
            groups = {STORM: [entry for entries in groups.values() for entry in entries]}
        for group, entries in groups.items():
            self._store.alerts.enqueue(channel_id, group, entries, now)

    def drop_channel(self, channel_id: int) -> None:
        """Remove one. Raises NotFoundError."""
        if not self._store.alerts.drop_channel(channel_id):
            raise NotFoundError("channel", str(channel_id))

    def test(self, channel_id: int) -> int:
        """Put a message into the outbox that says it is a test; its number. Raises NotFoundError."""
        if all(row.channel_id != channel_id for row in self._store.alerts.channels()):
            raise NotFoundError("channel", str(channel_id))
        return self._store.alerts.enqueue(channel_id, "test", (), self._clock())

    def revive(self, message_id: int) -> None:
        """Try a dead message again. Raises NotFoundError."""
        if not self._store.alerts.revive(message_id, self._clock()):
            raise NotFoundError("message", str(message_id))


def _event_of(key: str, stated: Mapping[str, object], now: int) -> AlertEvent:
    _only(stated, ACTION_FIELDS)
    try:
        change = Change(stated.get("action"))
    except ValueError:
        change = Change.FIRED
    if change in BY_RULES:
        people = ", ".join(each.value for each in Change if each not in BY_RULES)
        raise unfit("action", stated.get("action"), f"one of {people}")
    until = whole(stated, "until")
    seconds = whole(stated, "seconds")
    if seconds is not None and until is None:
        until = now + min(seconds, 10**9) * SECOND
    if change is not Change.SILENCE and until is not None:
        raise unfit("until", until, f"{change.value} does not use it")
    if change is not Change.UNDO and stated.get("undoes") is not None:
        raise unfit("undoes", stated["undoes"], f"{change.value} does not use it")
    return AlertEvent(
        0, now, change, key, words(stated, "author", LONGEST_NAME), words(stated, "reason", LONGEST_WORDS), until,
        whole(stated, "undoes"),
    )  # fmt: skip


def _asked_of(stated: Mapping[str, object]) -> Asked:
    """Which alerts of a group are meant."""
    standing, run = words(stated, "standing", LONGEST_NAME), words(stated, "run", LONGEST_WORDS)
    if standing is not None and standing not in list(Standing):
        raise unfit("standing", standing, f"one of {', '.join(Standing)}")
    return Asked(standing, words(stated, "search", LONGEST_WORDS) or "", run)


def threshold_change_of(stated: Mapping[str, object], now: int) -> ThresholdChange:
    """What a JSON object says of thresholds. Raises RefusedRequestError (422) with the field and the value."""
    _only(stated, THRESHOLD_FIELDS)
    values = stated.get("values") or {}
    if not isinstance(values, Mapping) or len(values) > 20:
        raise unfit("values", values, "not an object of thresholds")
    read: list[tuple[str, float | None]] = []
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise unfit(f"values.{name}", value, "not a number")
        if value is not None and not math.isfinite(value):
            raise unfit(f"values.{name}", str(value), "not a finite number")
        read.append((str(name), None if value is None else float(value)))
    return ThresholdChange(
        0, now, words(stated, "rule", LONGEST_NAME) or "", words(stated, "project", LONGEST_NAME) or "",
        tuple(sorted(read)), words(stated, "author", LONGEST_NAME), words(stated, "reason", LONGEST_WORDS),
        whole(stated, "undoes"),
    )  # fmt: skip


def _only(stated: Mapping[str, object], known: Sequence[str]) -> None:
    for name in stated:
        if name not in known:
            raise unfit(name, "…", f"not a field: {', '.join(known)}")


def _shown(address: str) -> str:
    return f"{urlsplit(address).scheme[:20]}://…" if "://" in address else "…"


def _conflict(key: str, event: AlertEvent, revision: int) -> RefusedRequestError:
    who = event.author or "somebody"
    return RefusedRequestError(
        409,
        "conflict",
        f"{who} did “{event.change.value}” at {(iso(event.at) or '')[:19]} UTC, after you looked at {key[:120]} "
        f"(it is at revision {revision} now)",
        "look at it again, then act; nothing was changed",
    )
