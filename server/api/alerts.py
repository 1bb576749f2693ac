"""Alerts, their rules, channels and messages under `/api/v1`.

Rules
- What changes something is refused to pages of other sites and asks for the token where one is set, as the intake does.
- Addresses of channels are masked, and a secret is never answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rerail.server.alerts import AlertDesk, threshold_change_of
from rerail.server.api.answers import respond
from rerail.server.api.bodies import invalid_parameter, json_object
from rerail.server.api.intake import authorise, read_body
from rerail.server.api.reads import Limit, Offset
from rerail.server.core.alert_life import AlertEvent, Life
from rerail.server.core.alerts import rules
from rerail.server.core.channels import masked
from rerail.server.core.report import gpu_hours, iso
from rerail.server.core.threshold_changes import ThresholdChange
from rerail.server.core.threshold_changes import refusal_of as threshold_refusal
from rerail.server.queries import Queries
from rerail.server.query_alerts import AlertEntry, AlertView, RuleView
from rerail.server.query_dry_runs import DryRun
from rerail.server.query_fleet import FleetSum, FleetView
from rerail.server.stated import unfit
from rerail.server.store.alert_rows import AlertRow, ChannelRow, MessageRow

Shown = dict[str, object]

DRY_RUN_FIELDS = ("days", "wait_seconds")
LONGEST_WAIT = 20
"""Seconds that an answer waits for a dry run to be done."""

MOST_TOLD = 1000
"""Actions of a group that an answer carries; `count` tells of all."""

_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


def alerts_router(queries: Queries, desk: AlertDesk, token: str | None) -> APIRouter:
    """The routes about alerts."""
    router = APIRouter(tags=["alerts"])

    async def said(request: Request) -> Shown:
        authorise(request, token)
        return dict(json_object(request, await read_body(request)))

    def made(request: Request, shown: Shown, status: int = 201) -> Response:
        answer = respond(request, shown)
        answer.status_code = status
        return answer

    @router.get("/api/v1/alerts", summary="Alerts, those that nobody looked at first")
    def alerts(
        request: Request,
        standing: Annotated[str | None, Query(description="open, acknowledged, silenced or resolved")] = None,
        search: str = "",
        run: str | None = None,
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Response:
        try:
            page = queries.alerts.alerts(standing, search, run, offset, limit)
        except ValueError as error:
            raise invalid_parameter(error) from None
        rows = [entry_figures(each) for each in page.rows]
        return respond(request, {"rows": rows, "total": page.total, "standings": dict(page.standings)})

    @router.get("/api/v1/alerts/rules", summary="Every rule, its thresholds, and who changed them")
    def rule_list(request: Request) -> Response:
        return respond(request, {"rules": [rule_figures(each) for each in queries.alerts.rules()]})

    @router.post(
        "/api/v1/alerts/rules/dry-run", summary="What a rule would have found with other thresholds; nothing is saved",
        openapi_extra=_BODY,
    )  # fmt: skip
    async def dry_run(request: Request) -> Response:
        stated = json_object(request, await read_body(request))
        change = threshold_change_of({key: value for key, value in stated.items() if key not in DRY_RUN_FIELDS}, 0)
        if change.values or change.rule not in rules():
            refused = threshold_refusal(change, ())
            if refused is not None:
                raise unfit(*refused)
        days = stated.get("days", 30)
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= 365:
            raise unfit("days", days, "not a number of days from 1 to 365")
        wait = stated.get("wait_seconds", LONGEST_WAIT)
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= LONGEST_WAIT:
            raise unfit("wait_seconds", wait, f"not a number of seconds from 0 to {LONGEST_WAIT}")
        runs = queries.alerts.dry_runs
        number = await run_in_threadpool(runs.begin, change.rule, dict(change.values), change.project, days)
        return came_to(request, number, await run_in_threadpool(runs.state, number, float(wait)))

    @router.get(
        "/api/v1/alerts/rules/dry-run/{number}", summary="How far a dry run came that goes on in the background"
    )
    def dry_run_state(
        request: Request, number: str, wait_seconds: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0
    ) -> Response:
        return came_to(request, number, queries.alerts.dry_runs.state(number, wait_seconds))

    def came_to(request: Request, number: str, told: DryRun) -> Response:
        return made(request, {"dry_run": number, **dry_run_figures(told)}, 200 if told.is_done else 202)

    @router.post(
        "/api/v1/alerts/rules", summary="Set thresholds of a rule, or undo that", status_code=201, openapi_extra=_BODY
    )
    async def change(request: Request) -> Response:
        stated = await said(request)
        return made(request, change_figures(await run_in_threadpool(desk.change_thresholds, stated)))

    @router.get("/api/v1/alerts/channels", summary="Where messages go; secrets are not shown")
    def channels(request: Request) -> Response:
        return respond(request, {"channels": [channel_figures(each) for each in queries.alerts.channels()]})

    @router.post("/api/v1/alerts/channels", summary="Add a channel", status_code=201, openapi_extra=_BODY)
    async def add(request: Request) -> Response:
        stated = await said(request)
        return made(request, channel_figures(await run_in_threadpool(desk.put_channel, 0, stated)))

    @router.patch("/api/v1/alerts/channels/{channel_id}", summary="Change a channel", openapi_extra=_BODY)
    async def put(request: Request, channel_id: int) -> Response:
        stated = await said(request)
        return made(request, channel_figures(await run_in_threadpool(desk.put_channel, channel_id, stated)), 200)

    @router.delete("/api/v1/alerts/channels/{channel_id}", summary="Remove a channel", status_code=200)
    async def drop(request: Request, channel_id: int) -> Response:
        authorise(request, token)
        await run_in_threadpool(desk.drop_channel, channel_id)
        return made(request, {"removed": channel_id}, 200)

    @router.post("/api/v1/alerts/channels/{channel_id}/test", summary="Send a test message", status_code=202)
    async def test(request: Request, channel_id: int) -> Response:
        authorise(request, token)
        return made(request, {"message_id": await run_in_threadpool(desk.test, channel_id)}, 202)

    @router.get("/api/v1/alerts/messages", summary="What waits, was sent, or was given up")
    def messages(
        request: Request,
        state: Annotated[str | None, Query(description="waiting, sent or dead")] = None,
        limit: Limit = 50,
    ) -> Response:
        return respond(request, {"messages": [message_figures(each) for each in queries.alerts.messages(state, limit)]})

    @router.post("/api/v1/alerts/messages/{message_id}/retry", summary="Try a dead message again", status_code=202)
    async def retry(request: Request, message_id: int) -> Response:
        authorise(request, token)
        await run_in_threadpool(desk.revive, message_id)
        return made(request, {"message_id": message_id}, 202)

    @router.post(
        "/api/v1/alerts/groups/{group:path}/actions",
        summary="Acknowledge, silence, unsilence, resolve every alert of a group, or undo one of these",
        status_code=201,
        openapi_extra=_BODY,
    )
    async def act_on_group(request: Request, group: str) -> Response:
        stated = await said(request)
        events = await run_in_threadpool(desk.act_on_group, group, stated)
        return made(request, group_figures(group, events))

    @router.post(
        "/api/v1/alerts/{key:path}/actions",
        summary="Acknowledge, silence, unsilence, resolve, reopen, or undo one of these",
        status_code=201,
        openapi_extra=_BODY,
    )
    async def act(request: Request, key: str) -> Response:
        stated = await said(request)
        event = await run_in_threadpool(desk.act, key, stated)
        now = await run_in_threadpool(queries.alerts.alert, event.key)
        return made(request, {"action": event_figures(event), "alert": alert_figures(now)})

    @router.get("/api/v1/alerts/{key:path}", summary="One alert, and everything that happened to it")
    def alert(request: Request, key: str) -> Response:
        return respond(request, alert_figures(queries.alerts.alert(key)))

    @router.get("/api/v1/fleet-page", summary="How all runs are: this week beside the one before")
    def fleet(request: Request) -> Response:
        return respond(request, fleet_figures(queries.fleet_page.view()))

    return router


def row_figures(row: AlertRow, run_name: str | None = None) -> Shown:
    """An alert by the names of `docs/alerts.md`."""
    return {
        "alert": row.key, "rule": row.rule, "run_id": row.run, "run_name": run_name, "subject": row.subject,
        "severity": row.severity,
        "group": row.group_key, "problem_id": row.problem_id, "incident_id": row.incident_id, "node": row.node,
        "sentence": row.sentence, "since": iso(row.since), "seen_at": iso(row.seen_at), "is_firing": row.is_firing,
        "silenced_until": iso(row.silenced_until), "changed_at": iso(row.changed_at),
    }  # fmt: skip


def entry_figures(entry: AlertEntry) -> Shown:
    """An alert in a list."""
    return {**row_figures(entry.row, entry.run_name), "standing": entry.standing.value}


def event_figures(event: AlertEvent) -> Shown:
    """One thing that happened."""
    return {
        "action_id": event.event_id, "at": iso(event.at), "action": event.change.value, "author": event.author,
        "reason": event.reason, "until": iso(event.until), "undoes": event.undoes, "sentence": event.sentence,
    }  # fmt: skip


def group_figures(group: str, events: Sequence[AlertEvent]) -> Shown:
    """What was done to the alerts of a group."""
    shown = [{**event_figures(each), "alert": each.key} for each in events[:MOST_TOLD]]
    return {"group": group, "count": len(events), "actions": shown}


def _life(life: Life) -> Shown:
    return {
        "acknowledged_by": life.acknowledged_by, "opened_at": iso(life.opened_at), "resolved_at": iso(life.resolved_at),
        "resolved_by": life.resolved_by, "resolution": life.resolution, "episodes": len(life.fired),
        "revision": life.revision,
    }  # fmt: skip


def alert_figures(view: AlertView) -> Shown:
    """One alert with its history."""
    history = [{**event_figures(each.event), "is_undone": each.is_undone} for each in view.history]
    return {
        **row_figures(view.row, view.run_name), "standing": view.standing.value, **_life(view.life),
        "is_flapping": view.is_flapping,
        "summary": view.summary, "advice": view.advice, "history": history,
    }  # fmt: skip


def change_figures(change: ThresholdChange) -> Shown:
    """One change of thresholds."""
    return {
        "change_id": change.change_id, "at": iso(change.at), "rule": change.rule, "project": change.project,
        "values": dict(change.values), "author": change.author, "reason": change.reason, "undoes": change.undoes,
    }  # fmt: skip


def rule_figures(view: RuleView) -> Shown:
    """One rule."""
    rule, values = view.rule, dict(view.values)
    return {
        "rule": rule.name,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "advice": rule.advice,
        "on": bool(values["on"]),
        "open_alerts": view.open_alerts,
        "thresholds": [
            {"name": each.name, "value": values[each.name], "default": each.default, "unit": each.unit,
             "meaning": each.meaning, "lowest": each.lowest, "highest": each.highest,
             "is_whole": each.is_whole}
            for each in rule.thresholds
        ],
        "projects": {project: dict(changed) for project, changed in view.projects},
        "history": [{**change_figures(change), "is_undone": is_undone} for change, is_undone in view.history],
    }  # fmt: skip


def dry_run_figures(done: DryRun) -> Shown:
    """What a dry run came to."""
    return {
        "rule": done.rule, "start": iso(done.start), "end": iso(done.end), "runs": done.runs,
        "looked_at": done.looked_at, "without_log": done.without_log, "alerts": done.alerts,
        "alerts_now": done.alerts_now, "is_done": done.is_done, "is_whole": done.is_whole,
        "examples": [
            {"alert": each.key, "run_id": each.run_id, "at": iso(each.at), "sentence": each.sentence}
            for each in done.examples
        ],
    }  # fmt: skip


def channel_figures(row: ChannelRow) -> Shown:
    """A channel without its secrets."""
    return {
        "channel_id": row.channel_id, "name": row.name, "kind": row.kind, "address": masked(row.kind, row.address),
        "has_secret": row.has_secret, "secret_end": row.secret_end,
        "is_sealed": row.is_sealed, "is_locked": row.is_locked, "is_on": row.is_on, "created_at": iso(row.created_at),
        "created_by": row.created_by,
    }  # fmt: skip


def message_figures(row: MessageRow) -> Shown:
    """A message of the outbox."""
    return {
        "message_id": row.message_id, "channel_id": row.channel_id, "group": row.group_key, "state": row.state,
        "created_at": iso(row.created_at), "due_at": iso(row.due_at), "tries": row.tries,
        "finished_at": iso(row.finished_at), "error": row.error, "alerts": row.count,
    }  # fmt: skip


def _sum(total: FleetSum) -> Shown:
    return {
        "start": iso(total.start), "end": iso(total.end), "elapsed_seconds": total.elapsed_ns / 1e9,
        "training_goodput": total.training_goodput, "infrastructure_goodput": total.infrastructure_goodput,
        "gpu_weighted": None if total.elapsed_gpu_ns is None else {
            "elapsed_gpu_hours": gpu_hours(total.elapsed_gpu_ns), "training_goodput": total.training_goodput_by_gpus,
            "infrastructure_goodput": total.infrastructure_goodput_by_gpus,
        },
        "lost_gpu_hours": {phase.value: gpu_hours(cost) for phase, cost in total.lost_gpu_ns},
    }  # fmt: skip


def fleet_figures(view: FleetView) -> Shown:
    """The fleet page as figures."""
    return {
        "now": _sum(view.now), "before": _sum(view.before), "columns": [_sum(each) for each in view.columns],
        "runs": view.runs, "runs_lived": view.runs_lived, "runs_without_gpus": view.runs_without_gpus,
        "runs_unseen": view.runs_unseen,
        "states": {state.value: times for state, times in view.states},
        "open_alerts": view.open_alerts,
        "causes": [
            {"cause": each.cause, "incidents": each.incidents, "incidents_before": each.incidents_before,
             "lost_gpu_hours": gpu_hours(each.lost_gpu_ns), "lost_gpu_hours_before": gpu_hours(each.lost_gpu_before_ns)}
            for each in view.causes
        ],
        "recoveries": [
            {"scope": each.scope, "n": each.n, "p50_seconds": _seconds(each.p50_ns),
             "p90_seconds": _seconds(each.p90_ns), "max_seconds": _seconds(each.max_ns), "n_before": each.n_before,
             "p50_before_seconds": _seconds(each.p50_before_ns)}
            for each in view.recoveries
        ],
        "wanting": [
            {"run_id": each.run.run_id, "reason": each.reason, "alerts": [row.key for row in each.alerts],
             "gpus": each.stake.gpus, "lost_gpu_hours_per_hour": each.stake.rate, "stake": each.stake.sentence}
            for each in view.wanting
        ],
        "wanting_count": view.wanting_count,
        "lemons": [each.node for each in view.lemons],
    }  # fmt: skip


def _seconds(length_ns: int | None) -> float | None:
    return None if length_ns is None else length_ns / 1e9
