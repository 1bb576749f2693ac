"""Composing: a message out of what waits in the outbox, as things stand when it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from rerail.server.core.alert_life import Standing
from rerail.server.core.similar import SAME_FAULT, STRONG
from rerail.server.core.words import count, duration, steps_lost
from rerail.server.errors import NotFoundError
from rerail.server.notify.messages import LINES, Message, Told
from rerail.server.queries import Queries
from rerail.server.query_problem_results import SimilarIncident
from rerail.server.store import Store
from rerail.server.store.alert_rows import AlertRow, MessageRow

AT_ONCE = 200
MOST_DETAILS = 100
"""Standing alerts that are told with cost and verdict: each asks for an incident and those like it."""

HOUR_NS = 3600 * 10**9
OVER = frozenset({"cleared", "resolve"})


def message_of(store: Store, queries: Queries, row: MessageRow, url: str | None) -> Message:
    """The message. An alert that is not known any more is left out."""
    known = store.alerts.alerts([key for key, _, _ in row.entries])
    names = store.alerts.names([found.run for found, _ in known.values()])
    told = []
    for key, change, at in row.entries:
        if key in known:
            name = names.get(known[key][0].run)
            told.append(_told(queries, known[key][0], name, change, at, url, with_details=len(told) < LINES))
    told.sort(key=lambda each: (not each.is_firing, each.severity != "urgent"))
    base = None if url is None else url.rstrip("/")
    return Message(
        row.message_id, row.group_key, _title(row, told), tuple(told), row.count, row.created_at,
        None if base is None else f"{base}/alerts",
    )  # fmt: skip


def standing_messages(store: Store, queries: Queries, url: str | None, now: int) -> Iterator[Message]:
    """Every alert that is open or acknowledged, as messages of `AT_ONCE` each: for who forgets what it was told."""
    shown = 0
    for standing in (Standing.OPEN, Standing.ACKNOWLEDGED):
        offset = 0
        while rows := store.alerts.rows(standing.value, "", None, now, offset, AT_ONCE)[0]:
            names = store.alerts.names([row.run for row in rows])
            told = []
            for row in rows:
                since = row.since if row.since is not None else row.changed_at
                shown += 1
                stands = row._replace(since=since)
                with_details = shown <= MOST_DETAILS
                told.append(_told(queries, stands, names.get(row.run), "fired", now, url, with_details=with_details))
            yield Message(0, standing.value, "rerail: what stands", tuple(told), len(told), now)
            offset += len(rows)


def _title(row: MessageRow, told: list[Told]) -> str:
    if not told:
        return "rerail: test"
    firing = sum(each.is_firing for each in told)
    runs = len({each.run for each in told})
    if row.count == 1:
        state = "" if firing else " is over"
        return f"rerail: {told[0].rule.replace('_', ' ')}{state} on {told[0].run_name or told[0].run}"
    if row.group_key == "storm" or row.count > len(told):
        return f"rerail: {count(row.count, 'alert')} at once, on {count(runs, 'run')} and more"
    over = len(told) - firing
    parts = ([f"{firing} firing"] if firing else []) + ([f"{over} over"] if over else [])
    return f"rerail: {told[0].rule.replace('_', ' ')}, {', '.join(parts)} on {count(runs, 'run')}"


def _told(
    queries: Queries, row: AlertRow, run_name: str | None, change: str, at: int, url: str | None, *, with_details: bool
) -> Told:
    cost = verdict = similar = None
    if with_details and row.incident_id is not None:
        cost, verdict, similar = _incident(queries, row.incident_id)
    link = None
    if url is not None:
        about = f"incidents/{quote(row.incident_id, safe='')}" if row.incident_id else f"runs/{quote(row.run, safe='')}"
        link = f"{url.rstrip('/')}/{about}"
    return Told(
        row.key, row.rule, row.run, row.severity, "over" if change in OVER else change, change not in OVER,
        row.sentence, row.group_key, row.since, at, cost, verdict, similar, link, run_name,
    )  # fmt: skip


def _incident(queries: Queries, incident_id: str) -> tuple[str | None, str | None, str | None]:
    """What it cost so far, why, and an incident like it that is worth naming."""
    try:
        whole = queries.incident(incident_id)
        found = whole.incident
        alike = queries.problems.similar(incident_id, 5).similar
    except NotFoundError:
        return None, None, None
    least = "at least " if found.is_cost_least else ""
    gpu = "" if found.lost_gpu_ns is None else f", {least}{found.lost_gpu_ns / HOUR_NS:.1f} GPU-h"
    so_far = " so far" if found.is_open else ""
    lost = (
        "lost steps not known"
        if found.lost_steps is None
        else steps_lost(found.lost_steps, found.told_every, "to redo")
    )
    cost = f"cost{so_far}: {duration(found.so_far_ns)}, {lost}{gpu}"
    verdict = (
        f"cause: {found.verdict.cause.replace('_', ' ')} ({found.verdict.confidence:.0%}): {found.verdict.sentence}"
    )
    if whole.contradicted_by is not None:
        verdict += f" Against that: {whole.contradicted_by}"
    return cost, verdict, worth_naming(alike)


def worth_naming(alike: Sequence[SimilarIncident]) -> str | None:
    """The incident that a message names, why, and what helped then; None where none is worth it.

    The same fault is, and where somebody said what helped, a strong reason is enough. That another run failed a minute
    before is none: a page may show it among others, a message at night says only what leads somewhere.
    """
    worth = [
        each
        for each in alike
        if each.strongest >= SAME_FAULT or (each.strongest >= STRONG and each.resolution is not None)
    ]
    best = next((each for each in worth if each.resolution is not None), next(iter(worth), None))
    if best is None:
        return None
    reason = best.reasons[0].rstrip(".")
    said = f"like {best.occurrence.incident_id} ({reason[:1].lower()}{reason[1:]})"
    if best.resolution is None:
        return said
    return f"{said}; then: {best.resolution.text}{' (taken back since)' if best.resolution.taken_back_at else ''}"
