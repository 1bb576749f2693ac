"""`rerail alerts` and `rerail alert`: what is firing, and who has it, in a terminal.

Rules
- What is read is asked of a server where one is named (`answered.py`), else of the database; the text is the same.
- `alert` with a flag writes down what somebody did, at a server where one is named, else into the database.
- A silence is said as people say it: `45m`, `2h`, `3d`, `1w`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from urllib.parse import quote

from rerail.server.alerts import AlertDesk
from rerail.server.api.alerts import alert_figures, entry_figures, event_figures, group_figures
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.answered import Told, answered, server_of
from rerail.server.commands.asking import ask_server
from rerail.server.commands.problems import _who
from rerail.server.commands.showing import _print_json, _print_table
from rerail.server.core.words import count
from rerail.server.errors import RefusedRequestError, RerailError
from rerail.server.queries import Queries
from rerail.server.settings import Settings

GROUPS = ("problem:", "rule:")
"""What the key of a group begins with; no rule is named so."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def show_alerts(parsed: argparse.Namespace) -> int:
    """The list."""
    search = " ".join(parsed.search)

    def read(queries: Queries) -> object:
        page = queries.alerts.alerts(parsed.standing, search, parsed.run_id, 0, parsed.limit)
        rows = [entry_figures(each) for each in page.rows]
        return {"rows": rows, "total": page.total, "standings": dict(page.standings)}

    asked = {"standing": parsed.standing, "search": search, "run": parsed.run_id, "limit": parsed.limit}
    page = Told(answered(parsed, "alerts", asked, read))
    if parsed.json:
        _print_json(page.told)
        return 0
    if not page.rows:
        print("No alert.")
        return 0
    _print_table(
        ("STANDING", "SEVERITY", "SINCE", "RUN", "ALERT", "WHAT"),
        [
            (
                row.text("standing"),
                row.text("severity"),
                row.second("since" if row.told.get("since") else "changed_at", ""),
                f"{row.text('run_name')} ({row.text('run_id')})" if row.told.get("run_name") else row.text("run_id"),
                row.text("alert"),
                row.text("sentence", ""),
            )
            for row in page.rows
        ],
    )
    if page.total > len(page.rows):
        print(f"{page.total - len(page.rows)} more; see --limit")
    return 0


def alert(parsed: argparse.Namespace) -> int:
    """One alert, or what somebody did with it."""
    said = _said(parsed)
    if said is None:
        found = answered(
            parsed, f"alerts/{quote(parsed.alert_id, safe='')}", {},
            lambda queries: alert_figures(queries.alerts.alert(parsed.alert_id)),
        )  # fmt: skip
        if parsed.json:
            _print_json(found)
        else:
            _print_alert(Told(found))
        return 0
    settings = settings_of(parsed)
    url = server_of(parsed)
    try:
        if parsed.alert_id.startswith(GROUPS):
            return _act_on_group(parsed, settings, url, said)
        if url:
            path = f"{url}/api/v1/alerts/{quote(parsed.alert_id, safe='')}/actions"
            done = ask_server("POST", path, settings.token, said)
        else:
            with opened_store(settings) as store:
                event = AlertDesk(store).act(parsed.alert_id, said)
                now = alert_figures(Queries(store).alerts.alert(parsed.alert_id))
                done = {"action": event_figures(event), "alert": now}
    except RefusedRequestError as error:
        raise RerailError(f"{error.message}. {error.hint}") from None
    if parsed.json:
        _print_json(done)
        return 0
    action, stands = done["action"], done["alert"]
    assert isinstance(action, dict)
    assert isinstance(stands, dict)
    print(f"action {action['action_id']}: {action['action']}; {stands['alert']} is {stands['standing']}")
    return 0


def _act_on_group(parsed: argparse.Namespace, settings: Settings, url: str, said: Mapping[str, object]) -> int:
    if url:
        path = f"{url}/api/v1/alerts/groups/{quote(parsed.alert_id, safe='')}/actions"
        done = ask_server("POST", path, settings.token, said)
        assert isinstance(done, dict)
    else:
        with opened_store(settings) as store:
            events = AlertDesk(store).act_on_group(parsed.alert_id, said)
        done = group_figures(parsed.alert_id, events)
    if parsed.json:
        _print_json(done)
        return 0
    first = done["actions"][0]
    print(f"{first['action']}: {count(done['count'], 'alert')} of {parsed.alert_id}; take it back with "
          f"rerail alert {parsed.alert_id} --undo {first['action_id']}")  # fmt: skip
    return 0


def _said(parsed: argparse.Namespace) -> Mapping[str, object] | None:
    said: dict[str, object] = {}
    if parsed.ack:
        said["action"] = "acknowledge"
    elif parsed.silence is not None:
        said |= {"action": "silence", "seconds": seconds_of(parsed.silence)}
    elif parsed.undo is not None:
        said |= {"action": "undo", "undoes": parsed.undo}
    else:
        name = next((name for name in ("unsilence", "resolve", "reopen") if getattr(parsed, name)), None)
        if name is None:
            return None
        said["action"] = name
    if parsed.reason:
        said["reason"] = parsed.reason
    author = parsed.author or _who()
    return said | ({"author": author} if author else {})


def seconds_of(length: str) -> int:
    """`2h` as seconds. Raises RerailError."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", length.strip())
    if found is None:
        raise RerailError(f"--silence {length!r}: say a length like 45m, 2h, 3d or 1w")
    return int(found[1]) * UNITS[found[2]]


def _print_alert(found: Told) -> None:
    print(f"{found.text('alert')}: {found.text('standing')}" + (", comes and goes" * found.flag("is_flapping")))
    print(found.text("sentence", ""))
    print(found.text("advice", ""))
    for event in found.each("history"):
        who = f" by {event.text('author')}" if event.told.get("author") else ""
        what = event.told.get("reason") or event.told.get("sentence") or ""
        undone = " [undone]" if event.flag("is_undone") else ""
        print(f"{event.text('action_id')}  {event.second('at', '')}  {event.text('action')}{who}: {what}{undone}")
