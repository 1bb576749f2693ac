"""Alertmanager: every alert as one of Prometheus Alertmanager's, by its API v2, so that its routes and silences apply.

An Alertmanager takes an alert for resolved when it is not told of it again, and one that lost its storage knows none.
So `endsAt` is set a day ahead for what lasts, `dispatch.py` tells it of everything that stands every few minutes, and
what is over ends at the instant it ended. A server that is away for less than a day resolves nothing.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from rerail.server.notify.messages import Channel, Message, Told
from rerail.server.notify.webhook import post

DAY = 86_400


def send(channel: Channel, message: Message) -> None:
    """Post what it tells of; a test is an alert that is over in a minute."""
    if message.told:
        alerts = [_alert(each) for each in message.told]
    else:
        alerts = [
            {
                "labels": {"alertname": "rerail_test", "severity": "none"},
                "annotations": {"summary": message.text()},
                "startsAt": _instant(message.at),
                "endsAt": _instant(message.at + 60 * 10**9),
            }
        ]
    address = channel.address.rstrip("/")
    if not address.endswith("/api/v2/alerts"):
        address += "/api/v2/alerts"
    headers = {"Content-Type": "application/json"}
    if channel.secret:
        headers["Authorization"] = f"Bearer {channel.secret}"
    post(address, json.dumps(alerts).encode(), headers)


def _alert(told: Told) -> dict[str, object]:
    ends = told.at if not told.is_firing else told.at + DAY * 10**9
    starts = told.since if told.since is not None and told.since <= told.at else told.at
    annotations = {"summary": told.sentence, "cost": told.cost, "verdict": told.verdict, "similar": told.similar,
                   "run_name": told.run_name}  # fmt: skip
    alert: dict[str, object] = {
        "labels": {
            "alertname": told.rule,
            "run": told.run or "unknown",
            "severity": told.severity,
            "group": told.group,
            "alert": told.key,
        },
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": _instant(starts),
        "endsAt": _instant(max(ends, starts)),
    }
    if told.link:
        alert["generatorURL"] = told.link
    return alert


def _instant(at: int) -> str:
    return datetime.fromtimestamp(at / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
